//! Entries of a socket's error queue, as a program reads them (MSG_ERRQUEUE).
//!
//! The oldest entry is the value of an option of its own, [`QUEUED_ERROR`], which getsockopt gives
//! in parts. To set this option to an entry's serial number removes that entry. So a program that
//! reads an entry while another thread removes it gets ENOENT, and reads the next one.

use core::net::SocketAddr;

use shm::Slot;

use crate::address::{addr_from_words, addr_to_words};
use crate::ancillary::RecvAncillary;
use crate::bad_slot::BadSlot;
use crate::option::OptionKey;

/// The option whose value is the oldest entry. getsockopt: EAGAIN if there is none. setsockopt with
/// a serial number (`u32`) removes the entry; ENOENT if the oldest one has another number.
pub const QUEUED_ERROR: OptionKey = OptionKey { level: 0x5441_5355, name: 1 };
/// Bytes of an entry before its payload.
pub const HEADER: usize = 24 + 2 * ADDRESS + ANCILLARY;
/// Longest entry: no ICMP error quotes more than a page.
pub const MOST: usize = HEADER + 4096;

const ADDRESS: usize = 24;
const ANCILLARY: usize = 64;

/// Where an error comes from: Linux's `SO_EE_ORIGIN_*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueuedErrorOrigin {
    /// This host did not send a datagram.
    Local = 1,
    /// An ICMP message.
    Icmp4 = 2,
    /// An ICMPv6 message.
    Icmp6 = 3,
}

/// An entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuedErrorEntry {
    /// Its number, by which it is removed.
    pub serial: u32,
    /// The error number.
    pub errno: i32,
    /// Where the error comes from.
    pub origin: QueuedErrorOrigin,
    /// The message's type; 0 for a local error.
    pub kind: u8,
    /// The message's code; 0 for a local error.
    pub code: u8,
    /// The MTU, or the position of a bad byte, or 0.
    pub info: u32,
    /// The destination of the packet that caused the error.
    pub destination: SocketAddr,
    /// The node that sent the message, and how the message came; `None` for a local error.
    pub message: Option<(SocketAddr, RecvAncillary)>,
    /// The packet's payload, as far as it is known; of a segment with its TCP header.
    pub payload: Vec<u8>,
}

impl QueuedErrorEntry {
    /// As the bytes of an option's value.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER + self.payload.len());
        bytes.extend(self.serial.to_ne_bytes());
        bytes.extend(self.errno.to_ne_bytes());
        bytes.extend([self.origin as u8, self.kind, self.code, 0, 0, 0, 0, 0]);
        bytes.extend(self.info.to_ne_bytes());
        bytes.extend([0; 4]);
        let (from, ancillary) = match &self.message {
            Some((from, ancillary)) => (addr_to_words(*from), ancillary.encode()),
            None => ([0; 3], [0; 8]),
        };
        let words = addr_to_words(self.destination).into_iter().chain(from).chain(ancillary);
        bytes.extend(words.flat_map(u64::to_ne_bytes));
        bytes.extend(&self.payload);
        bytes
    }

    /// Out of the bytes of an option's value.
    ///
    /// # Errors
    /// [`BadSlot`] for a short value, an unknown origin, or a bad address.
    pub fn decode(bytes: &[u8]) -> Result<Self, BadSlot> {
        let short = BadSlot::new("length of a queued error", bytes.len() as u64);
        let (head, payload) = bytes.split_first_chunk::<HEADER>().ok_or(short)?;
        let word = |at: usize| -> u64 {
            let part = head.get(at..).and_then(<[u8]>::first_chunk);
            part.map_or(0, |part| u64::from_ne_bytes(*part))
        };
        let int = |at: usize| -> u32 {
            let part = head.get(at..).and_then(<[u8]>::first_chunk);
            part.map_or(0, |part| u32::from_ne_bytes(*part))
        };
        let address = |at: usize| addr_from_words([word(at), word(at + 8), word(at + 16)]);
        let [origin, kind, code, ..] = word(8).to_ne_bytes();
        let origin = match origin {
            1 => QueuedErrorOrigin::Local,
            2 => QueuedErrorOrigin::Icmp4,
            3 => QueuedErrorOrigin::Icmp6,
            other => return Err(BadSlot::new("origin of a queued error", other.into())),
        };
        let message = match origin {
            QueuedErrorOrigin::Local => None,
            QueuedErrorOrigin::Icmp4 | QueuedErrorOrigin::Icmp6 => {
                let at = 24 + 2 * ADDRESS;
                let slot: Slot = core::array::from_fn(|number| word(at + 8 * number));
                Some((address(24 + ADDRESS)?, RecvAncillary::decode(&slot)?))
            }
        };
        Ok(Self {
            serial: int(0),
            errno: int(4).cast_signed(),
            origin,
            kind,
            code,
            info: int(16),
            destination: address(24)?,
            message,
            payload: payload.to_vec(),
        })
    }
}

#[cfg(test)]
mod tests {
    use core::net::Ipv4Addr;

    use super::*;
    use crate::ancillary::AncillarySet;

    #[test]
    fn entries_survive_and_bad_ones_are_refused() {
        let ancillary = RecvAncillary {
            asked: AncillarySet::TTL,
            to: Ipv4Addr::new(10, 0, 0, 2).into(),
            port: 7,
            ours: Ipv4Addr::new(10, 0, 0, 2),
            interface: 1,
            ttl: 61,
            tos: 0,
            segment: 0,
            at: 0,
        };
        let icmp = QueuedErrorEntry {
            serial: 3,
            errno: 111,
            origin: QueuedErrorOrigin::Icmp4,
            kind: 3,
            code: 3,
            info: 1400,
            destination: "10.0.0.9:33434".parse().unwrap(),
            message: Some(("10.0.0.1:0".parse().unwrap(), ancillary)),
            payload: b"probe".to_vec(),
        };
        assert_eq!(QueuedErrorEntry::decode(&icmp.encode()), Ok(icmp.clone()));
        let local = QueuedErrorEntry {
            origin: QueuedErrorOrigin::Local,
            destination: "[fe80::1%3]:9".parse().unwrap(),
            message: None,
            payload: Vec::new(),
            ..icmp.clone()
        };
        assert_eq!(QueuedErrorEntry::decode(&local.encode()), Ok(local));
        let bytes = icmp.encode();
        assert!(QueuedErrorEntry::decode(&bytes[..HEADER - 1]).is_err());
        for at in [8, 24] {
            let mut bad = bytes.clone();
            bad[at] = 9;
            assert!(QueuedErrorEntry::decode(&bad).is_err(), "byte {at}");
        }
    }
}
