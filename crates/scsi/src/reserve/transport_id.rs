//! TransportIDs of iSCSI initiator ports (SPC-4 7.6.4.6).

use crate::id::InitiatorPort;
use crate::wire::be16;

/// Format 01b, protocol 5: name and initiator session identifier.
const WITH_ISID: u8 = 0x45;
/// What stands between them.
const SEPARATOR: &str = ",i,0x";

/// The TransportID of a port.
pub(crate) fn encode(port: &InitiatorPort) -> Vec<u8> {
    let isid: String = port.isid().iter().map(|byte| format!("{byte:02x}")).collect();
    let mut text = [port.name(), SEPARATOR, &isid].concat().into_bytes();
    text.push(0);
    let length = text.len().next_multiple_of(4).max(20);
    text.resize(length, 0);
    let [high, low] = u16::try_from(length).unwrap_or(u16::MAX).to_be_bytes();
    [&[WITH_ISID, 0, high, low], &text[..]].concat()
}

/// The port of a TransportID; `None` if it is none with a session identifier, or is cut.
pub(crate) fn decode(bytes: &[u8]) -> Option<InitiatorPort> {
    let length = usize::from(be16(bytes, 2)?);
    let text = bytes.get(4..)?.get(..length)?;
    if bytes[0] != WITH_ISID || length < 20 || length % 4 != 0 {
        return None;
    }
    let end = text.iter().position(|byte| *byte == 0)?;
    let (name, isid) = std::str::from_utf8(&text[..end]).ok()?.split_once(SEPARATOR)?;
    if isid.len() != 12 || !isid.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let number = u64::from_str_radix(isid, 16).ok()?.to_be_bytes();
    InitiatorPort::new(name, *number.last_chunk()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_comes_back() {
        for name in ["a", "iqn.2026-01.example:host", &"n".repeat(InitiatorPort::MOST_NAME)] {
            let port = InitiatorPort::new(name, [0x40, 0, 1, 0x37, 0xab, 0xff]).unwrap();
            let bytes = encode(&port);
            assert_eq!(bytes.len() % 4, 0);
            assert_eq!(decode(&bytes), Some(port));
            assert_eq!(decode(&bytes[..bytes.len() - 1]), None);
        }
    }

    #[test]
    fn other_forms_are_refused() {
        let good = encode(&InitiatorPort::new("iqn.a", [1; 6]).unwrap());
        for (at, byte) in [(0, 0x05), (0, 0x44), (3, 16), (9, b';'), (14, b'g')] {
            let mut bad = good.clone();
            bad[at] = byte;
            assert_eq!(decode(&bad), None, "{at} {byte}");
        }
        assert_eq!(decode(&[]), None);
    }
}
