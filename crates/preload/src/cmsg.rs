//! Control messages of datagrams, out of and into the bytes of a program's control buffer.
//!
//! The messages, their order and their forms are Linux's (ip(7), ipv6(7), udp(7)). A program asks
//! for a message by an option, which the server keeps; here messages are only written. On an
//! AF_INET6 socket a datagram that came over IPv4 has a mapped address in IPV6_PKTINFO. Its other
//! facts are in the messages of IPPROTO_IP, if the program asked for these.

use core::ffi::c_int;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::SystemTime;

use rustix::io::Errno;
use sockets::{AncillarySet, Family, QueuedErrorEntry, RecvAncillary, SendAncillary};

use crate::errno::Outcome;
use crate::sockaddr::to_bytes;

/// Bytes of a `struct cmsghdr`: length, level, type.
const HEADER: usize = size_of::<libc::cmsghdr>();
/// Alignment of each header.
const ALIGN: usize = size_of::<usize>();
/// SCM_TIMESTAMP and SCM_TIMESTAMPNS are named as the options.
const SO_TIMESTAMP: c_int = 29;
const SO_TIMESTAMPNS: c_int = 35;
/// The messages with a time.
pub(crate) const TIMES: AncillarySet = AncillarySet::TIMESTAMP.with(AncillarySet::TIMESTAMPNS);
const UDP_SEGMENT: c_int = 103;
const UDP_GRO: c_int = 104;
const IPV6_ORIGDSTADDR: c_int = 74;
/// RFC 2292's messages, of the same form as RFC 3542's.
const IPV6_2292PKTINFO: c_int = 2;
const IPV6_2292HOPLIMIT: c_int = 8;
const TCP_CM_INQ: c_int = 36;
/// SO_TIMESTAMP and SO_TIMESTAMPNS, of which a socket has at most one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StampForm {
    /// Neither.
    None = 0,
    /// A `struct timeval`.
    Micros = 1,
    /// A `struct timespec`.
    Nanos = 2,
}

/// Bytes of the offender's address in a message of the error queue.
const V4_OFFENDER: usize = size_of::<libc::sockaddr_in>();
const V6_OFFENDER: usize = size_of::<libc::sockaddr_in6>();
const NANOS: u64 = 1_000_000_000;

/// Decodes the control messages of a send.
///
/// # Errors
/// EINVAL for a message that is cut off, unknown or of a bad value. As on Linux, messages of levels
/// that the socket does not speak are ignored.
pub(crate) fn parse(mut bytes: &[u8], family: Family) -> Outcome<SendAncillary> {
    let mut said = SendAncillary::default();
    while let Some((header, _)) = bytes.split_at_checked(HEADER) {
        let len = usize::from_ne_bytes(part(header, 0)?);
        let level = c_int::from_ne_bytes(part(header, 8)?);
        let kind = c_int::from_ne_bytes(part(header, 12)?);
        let data = bytes.get(HEADER..len).ok_or(Errno::INVAL)?;
        match level {
            libc::IPPROTO_IP => parse_v4(&mut said, kind, data)?,
            libc::IPPROTO_IPV6 if family == Family::V6 => parse_v6(&mut said, kind, data)?,
            libc::IPPROTO_UDP if kind == UDP_SEGMENT => {
                said.segment = u16::from_ne_bytes(whole(data)?);
            }
            // As Linux: descriptors and credentials mean nothing to a datagram.
            libc::SOL_SOCKET if matches!(kind, libc::SCM_RIGHTS | libc::SCM_CREDENTIALS) => {}
            libc::IPPROTO_UDP | libc::SOL_SOCKET => return Err(Errno::INVAL),
            _ => {}
        }
        bytes = bytes.get(len.next_multiple_of(ALIGN)..).unwrap_or_default();
    }
    Ok(said)
}

fn parse_v4(said: &mut SendAncillary, kind: c_int, data: &[u8]) -> Outcome<()> {
    match kind {
        libc::IP_PKTINFO => {
            // Index, address to send from, and one that is not looked at.
            let info: [u8; 12] = whole(data)?;
            said.interface = u32::from_ne_bytes(part(&info, 0)?);
            let from = Ipv4Addr::from(part::<4>(&info, 4)?);
            said.source = Some(from.into()).filter(|_| !from.is_unspecified());
        }
        libc::IP_TTL => {
            let ttl = u8::try_from(c_int::from_ne_bytes(whole(data)?));
            said.ttl = Some(ttl.ok().filter(|ttl| *ttl > 0).ok_or(Errno::INVAL)?);
        }
        libc::IP_TOS => {
            said.tos = Some(match data {
                [tos] => *tos,
                _ => u8::try_from(c_int::from_ne_bytes(whole(data)?)).map_err(|_| Errno::INVAL)?,
            });
        }
        _ => return Err(Errno::INVAL),
    }
    Ok(())
}

fn parse_v6(said: &mut SendAncillary, kind: c_int, data: &[u8]) -> Outcome<()> {
    // -1 stands for the socket's own.
    let byte = |data| match c_int::from_ne_bytes(whole(data)?) {
        -1 => Ok(None),
        value => u8::try_from(value).map(Some).map_err(|_| Errno::INVAL),
    };
    match kind {
        libc::IPV6_PKTINFO | IPV6_2292PKTINFO => {
            let info: [u8; 20] = whole(data)?;
            let from = Ipv6Addr::from(part::<16>(&info, 0)?);
            said.source = Some(from.to_canonical()).filter(|from| !from.is_unspecified());
            said.interface = u32::from_ne_bytes(part(&info, 16)?);
        }
        libc::IPV6_HOPLIMIT | IPV6_2292HOPLIMIT => said.ttl = byte(data)?,
        libc::IPV6_TCLASS => said.tos = byte(data)?,
        _ => return Err(Errno::INVAL),
    }
    Ok(())
}

/// The array that `bytes` has at a place.
fn part<const N: usize>(bytes: &[u8], at: usize) -> Outcome<[u8; N]> {
    let part = bytes.get(at..).and_then(<[u8]>::first_chunk);
    part.copied().ok_or(Errno::INVAL)
}

/// The array that `bytes` is.
fn whole<const N: usize>(bytes: &[u8]) -> Outcome<[u8; N]> {
    bytes.try_into().map_err(|_| Errno::INVAL)
}

/// A control buffer being filled.
pub(crate) struct Room<'a> {
    left: &'a mut [u8],
    /// Bytes filled.
    pub(crate) used: usize,
    /// Something did not fit (MSG_CTRUNC).
    pub(crate) cut: bool,
}

impl<'a> Room<'a> {
    /// All of `bytes` is room.
    pub(crate) fn new(bytes: &'a mut [u8]) -> Self {
        Self { left: bytes, used: 0, cut: false }
    }

    /// Adds a message, or as much of it as has room, as Linux does.
    fn put(&mut self, level: c_int, kind: c_int, data: &[u8]) {
        let room = self.left.len();
        if room < HEADER {
            self.cut = true;
            return;
        }
        let len = (HEADER + data.len()).min(room);
        self.cut |= len < HEADER + data.len();
        let fields: [&[u8]; 4] =
            [&len.to_ne_bytes(), &level.to_ne_bytes(), &kind.to_ne_bytes(), data];
        let bytes = fields.into_iter().flatten();
        self.left.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        let space = len.next_multiple_of(ALIGN).min(room);
        let (_, left) = core::mem::take(&mut self.left).split_at_mut(space);
        self.left = left;
        self.used += space;
    }

    /// Adds the message with the time `at`.
    pub(crate) fn tell_time(&mut self, form: StampForm, at: SystemTime) {
        let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let (kind, rest) = match form {
            StampForm::None => return,
            StampForm::Micros => (SO_TIMESTAMP, since.subsec_micros()),
            StampForm::Nanos => (SO_TIMESTAMPNS, since.subsec_nanos()),
        };
        self.put_pair(libc::SOL_SOCKET, kind, since.as_secs(), rest.into());
    }

    /// Adds the messages that tell how a datagram came.
    pub(crate) fn tell(&mut self, how: &RecvAncillary, family: Family) {
        let wants = |kind| how.asked.has(kind);
        if wants(AncillarySet::TIMESTAMP) {
            let micros = how.at % NANOS / 1000;
            self.put_pair(libc::SOL_SOCKET, SO_TIMESTAMP, how.at / NANOS, micros);
        }
        if wants(AncillarySet::TIMESTAMPNS) {
            self.put_pair(libc::SOL_SOCKET, SO_TIMESTAMPNS, how.at / NANOS, how.at % NANOS);
        }
        if how.segment > 0 {
            self.put_int(libc::IPPROTO_UDP, UDP_GRO, how.segment.into());
        }
        let index = how.interface.to_ne_bytes();
        if wants(AncillarySet::PKTINFO6) && family == Family::V6 {
            let to = match how.to {
                IpAddr::V4(v4) => v4.to_ipv6_mapped(),
                IpAddr::V6(v6) => v6,
            };
            let info = [&to.octets()[..], &index].concat();
            self.put(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &info);
        }
        match how.to {
            IpAddr::V4(to) => self.tell_v4(how, to),
            IpAddr::V6(to) => self.tell_v6(how, to),
        }
    }

    /// Adds the number of bytes of a stream that are left to be read (TCP_INQ).
    pub(crate) fn tell_unread(&mut self, bytes: usize) {
        let bytes = c_int::try_from(bytes).unwrap_or(c_int::MAX);
        self.put_int(libc::IPPROTO_TCP, TCP_CM_INQ, bytes);
    }

    /// Adds the messages that tell of an entry of the error queue.
    pub(crate) fn tell_error(&mut self, error: &QueuedErrorEntry, family: Family) {
        if let Some((_, how)) = &error.message {
            self.tell(how, family);
        }
        let (level, kind, len) = match family {
            Family::V4 => (libc::IPPROTO_IP, libc::IP_RECVERR, V4_OFFENDER),
            Family::V6 => (libc::IPPROTO_IPV6, libc::IPV6_RECVERR, V6_OFFENDER),
        };
        // A `struct sock_extended_err`, then the node that reported the error.
        let mut data = Vec::with_capacity(16 + len);
        data.extend(error.errno.to_ne_bytes());
        data.extend([error.origin as u8, error.kind, error.code, 0]);
        data.extend(error.info.to_ne_bytes());
        data.extend([0; 4]);
        if let Some((from, _)) = error.message
            && let Ok((bytes, len)) = to_bytes(from, family)
        {
            data.extend(bytes.get(..len).unwrap_or_default());
        }
        data.resize(16 + len, 0);
        self.put(level, kind, &data);
    }

    fn tell_v4(&mut self, how: &RecvAncillary, to: Ipv4Addr) {
        let wants = |kind| how.asked.has(kind);
        if wants(AncillarySet::PKTINFO) {
            let index = how.interface.to_ne_bytes();
            let info = [index, how.ours.octets(), to.octets()];
            self.put(libc::IPPROTO_IP, libc::IP_PKTINFO, info.as_flattened());
        }
        if wants(AncillarySet::TTL) {
            self.put_int(libc::IPPROTO_IP, libc::IP_TTL, how.ttl.into());
        }
        if wants(AncillarySet::TOS) {
            self.put(libc::IPPROTO_IP, libc::IP_TOS, &[how.tos]);
        }
        if wants(AncillarySet::ORIGDSTADDR) {
            let to = SocketAddr::new(to.into(), how.port);
            self.put_address(libc::IPPROTO_IP, libc::IP_ORIGDSTADDR, to, Family::V4);
        }
    }

    fn tell_v6(&mut self, how: &RecvAncillary, to: Ipv6Addr) {
        let wants = |kind| how.asked.has(kind);
        if wants(AncillarySet::HOPLIMIT) {
            self.put_int(libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT, how.ttl.into());
        }
        if wants(AncillarySet::TCLASS) {
            self.put_int(libc::IPPROTO_IPV6, libc::IPV6_TCLASS, how.tos.into());
        }
        if wants(AncillarySet::PKTINFO2292) {
            let info = [&to.octets()[..], &how.interface.to_ne_bytes()].concat();
            self.put(libc::IPPROTO_IPV6, IPV6_2292PKTINFO, &info);
        }
        if wants(AncillarySet::HOPLIMIT2292) {
            self.put_int(libc::IPPROTO_IPV6, IPV6_2292HOPLIMIT, how.ttl.into());
        }
        if wants(AncillarySet::ORIGDSTADDR6) {
            let to = SocketAddr::new(to.into(), how.port);
            self.put_address(libc::IPPROTO_IPV6, IPV6_ORIGDSTADDR, to, Family::V6);
        }
    }

    fn put_int(&mut self, level: c_int, kind: c_int, value: c_int) {
        self.put(level, kind, &value.to_ne_bytes());
    }

    /// A `struct timeval` or `timespec`.
    fn put_pair(&mut self, level: c_int, kind: c_int, seconds: u64, rest: u64) {
        self.put(level, kind, [seconds.to_ne_bytes(), rest.to_ne_bytes()].as_flattened());
    }

    fn put_address(&mut self, level: c_int, kind: c_int, to: SocketAddr, family: Family) {
        if let Ok((bytes, len)) = to_bytes(to, family) {
            self.put(level, kind, bytes.get(..len).unwrap_or(&bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOW: RecvAncillary = RecvAncillary {
        asked: AncillarySet::NONE,
        to: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 255)),
        port: 53,
        ours: Ipv4Addr::new(10, 0, 0, 2),
        interface: 3,
        ttl: 61,
        tos: 0x28,
        segment: 0,
        at: 1_700_000_000_123_456_789,
    };

    fn messages(
        asked: AncillarySet,
        how: RecvAncillary,
        family: Family,
        room: usize,
    ) -> (Vec<u8>, bool) {
        let mut bytes = vec![0xAA; room];
        let mut buffer = Room::new(&mut bytes);
        buffer.tell(&RecvAncillary { asked, ..how }, family);
        let (used, cut) = (buffer.used, buffer.cut);
        bytes.truncate(used);
        (bytes, cut)
    }

    fn message(level: c_int, kind: c_int, data: &[u8]) -> Vec<u8> {
        let mut bytes = (HEADER + data.len()).to_ne_bytes().to_vec();
        bytes.extend(level.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(data);
        bytes.resize(bytes.len().next_multiple_of(ALIGN), 0xAA);
        bytes
    }

    #[test]
    fn messages_have_linux_form_and_order() {
        let all =
            AncillarySet::TTL | AncillarySet::TOS | AncillarySet::PKTINFO | AncillarySet::TIMESTAMP;
        let info = [3, 0, 0, 0, 10, 0, 0, 2, 10, 0, 0, 255];
        let time = [1_700_000_000_u64.to_ne_bytes(), 123_456_u64.to_ne_bytes()].concat();
        let expected = [
            message(1, 29, &time),
            message(0, 8, &info),
            message(0, 2, &61_i32.to_ne_bytes()),
            message(0, 1, &[0x28]),
        ];
        assert_eq!(messages(all, HOW, Family::V4, 200), (expected.concat(), false));
        // Over IPv6 the options of IPv4 give no messages, and the other way round.
        let six = RecvAncillary { to: Ipv6Addr::LOCALHOST.into(), segment: 900, ..HOW };
        let asked = all | AncillarySet::PKTINFO6 | AncillarySet::HOPLIMIT | AncillarySet::TCLASS;
        let info = [&Ipv6Addr::LOCALHOST.octets()[..], &3_u32.to_ne_bytes()].concat();
        let expected = [
            message(1, 29, &time),
            message(17, 104, &900_i32.to_ne_bytes()),
            message(41, 50, &info),
            message(41, 52, &61_i32.to_ne_bytes()),
            message(41, 67, &0x28_i32.to_ne_bytes()),
        ];
        assert_eq!(messages(asked, six, Family::V6, 300), (expected.concat(), false));
        let mapped =
            messages(AncillarySet::PKTINFO6 | AncillarySet::HOPLIMIT, HOW, Family::V6, 300).0;
        let to = Ipv4Addr::new(10, 0, 0, 255).to_ipv6_mapped().octets();
        assert_eq!((mapped.len(), &mapped[16..32]), (40, &to[..]));
    }

    #[test]
    fn what_has_no_room_is_cut() {
        let both = AncillarySet::TTL | AncillarySet::TOS;
        let ttl = message(0, 2, &61_i32.to_ne_bytes());
        assert_eq!(messages(both, HOW, Family::V4, 0), (vec![], true));
        assert_eq!(messages(both, HOW, Family::V4, HEADER - 1), (vec![], true));
        assert_eq!(messages(both, HOW, Family::V4, 24), (ttl.clone(), true));
        assert_eq!(
            messages(both, HOW, Family::V4, 24 + 24),
            ([ttl, message(0, 1, &[0x28])].concat(), false)
        );
        let (part, cut) = messages(both, HOW, Family::V4, 18);
        assert_eq!(
            (part.len(), usize::from_ne_bytes(part[..8].try_into().unwrap()), cut),
            (18, 18, true)
        );
    }

    #[test]
    fn what_a_sender_says() {
        let info = [3, 0, 0, 0, 10, 0, 0, 2, 0, 0, 0, 0];
        let bytes = [
            message(0, 8, &info),
            message(0, 2, &7_i32.to_ne_bytes()),
            message(0, 1, &[0x10]),
            message(17, 103, &500_u16.to_ne_bytes()),
            message(99, 1, b"whatever"),
        ];
        let said = parse(&bytes.concat(), Family::V4).unwrap();
        let expected = SendAncillary {
            source: Some(Ipv4Addr::new(10, 0, 0, 2).into()),
            interface: 3,
            ttl: Some(7),
            tos: Some(0x10),
            segment: 500,
        };
        assert_eq!(said, expected);
        // The kernel looks at headers only while there is room for one.
        assert_eq!(parse(&[0; 15], Family::V4), Ok(SendAncillary::default()));
        let info = [&[0; 16][..], &9_u32.to_ne_bytes()].concat();
        let bytes = [message(41, 50, &info), message(41, 52, &(-1_i32).to_ne_bytes())].concat();
        let said = parse(&bytes, Family::V6).unwrap();
        assert_eq!(said, SendAncillary { interface: 9, ..SendAncillary::default() });
        assert_eq!(parse(&bytes, Family::V4), Ok(SendAncillary::default()));
        for bad in [
            message(0, 2, &0_i32.to_ne_bytes()),
            message(0, 2, &256_i32.to_ne_bytes()),
            message(0, 2, &[7]),
            message(0, 77, &[7]),
            message(0, 8, &info[..11]),
            message(17, 1, &[0; 4]),
            message(1, 77, &[0; 4]),
            vec![0; 16],
            [&usize::MAX.to_ne_bytes()[..], &[0; 8]].concat(),
        ] {
            assert_eq!(parse(&bad, Family::V4), Err(Errno::INVAL), "{bad:?}");
        }
    }
}
