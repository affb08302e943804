//! The half of a connection that must outlive the process.
//!
//! A connection survives the death of the server only if the next server knows everything that the
//! two peers have told each other. This record holds exactly that. It is plain old data in which
//! any bit pattern is valid, so that it can lie in a shared region.
//!
//! The rule is *publish before emit*: the engine changes the record first and gives out the segment
//! afterwards. A caller that stores the record between `poll_segment` and the frame's doorbell
//! never promises the peer something that a successor would not know.
//!
//! | here | why |
//! |---|---|
//! | addresses, ports, `state`, `flags` | which connection it is, and what may happen on it |
//! | `iss`, `irs` | bases of the two streams |
//! | `snd_una`, `acked` | end of the peer's receipt, on the wire and in the send queue |
//! | `snd_max` | the peer may acknowledge up to here: a lower value would make that ACK a forgery |
//! | `rcv_nxt`, `received` | acknowledged to the peer, which has forgotten those bytes |
//! | `rcv_adv` | the window may not shrink, even over a restart |
//! | scales, `snd_mss`, `ts_offset` | agreed upon in the SYNs, said only once |
//! | `ts_recent` | else segments from before the restart would pass for new ones (PAWS) |
//! | `snd_wnd` | a silent peer does not announce it again |
//!
//! The rest is made again. The list of sent segments restarts at `snd_una`: at worst the peer sees
//! bytes twice. Timers, RTT and congestion window restart conservatively. Out-of-order data was
//! only promised by SACK, which may be reneged. A pending ACK is sent. Nagle's and the silly
//! window's state start anew.

use core::net::{IpAddr, SocketAddr, SocketAddrV6};

use super::endpoints::Endpoints;
use super::seq::Seq;
use super::state::State;
use crate::ip::canonical;

/// The write side is shut: the FIN follows the queued bytes.
pub(super) const WRITE_SHUT: u16 = 1;
/// The application will not read.
pub(super) const READ_SHUT: u16 = 1 << 1;
/// The application has closed.
pub(super) const ORPHAN: u16 = 1 << 2;
/// The peer's FIN was received and counts in `rcv_nxt`.
pub(super) const FIN_RECEIVED: u16 = 1 << 3;
/// Both sides agreed on timestamps.
pub(super) const TIMESTAMPS: u16 = 1 << 4;
/// Both sides agreed on window scaling.
pub(super) const SCALED: u16 = 1 << 5;
/// The connection was opened by the peer.
pub(super) const PASSIVE: u16 = 1 << 6;
/// Both sides agreed on SACK.
pub(super) const SACK: u16 = 1 << 7;
/// Both sides agreed on ECN.
pub(super) const ECN: u16 = 1 << 8;

/// The record of a connection; see the module's head for the reason of each field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Durable {
    /// Payload bytes that the peer has acknowledged in total.
    pub acked: u64,
    /// Payload bytes received in order in total.
    pub received: u64,
    /// Own address; IPv4 is written as an IPv4-mapped IPv6 address (RFC 4291 2.5.5.2).
    pub local_address: [u8; 16],
    /// The peer's address, in the same form.
    pub remote_address: [u8; 16],
    /// The link of the addresses if they are of link scope, as `sin6_scope_id`; else 0.
    pub scope: u32,
    /// Own port.
    pub local_port: u16,
    /// The peer's port.
    pub remote_port: u16,
    /// [`State`] as a number.
    pub state: u8,
    /// WRITE_SHUT 1, READ_SHUT 2, ORPHAN 4, FIN_RECEIVED 8, TIMESTAMPS 16, SCALED 32, PASSIVE 64,
    /// SACK 128, ECN 256.
    pub flags: u16,
    /// Shift of the peer's windows.
    pub snd_scale: u8,
    /// Shift of own windows.
    pub rcv_scale: u8,
    /// Initial send sequence number.
    pub iss: Seq,
    /// The peer's initial sequence number.
    pub irs: Seq,
    /// Oldest unacknowledged sequence number.
    pub snd_una: Seq,
    /// One more than the highest sequence number ever sent.
    pub snd_max: Seq,
    /// Next sequence number expected.
    pub rcv_nxt: Seq,
    /// Right edge of the window, as advertised: highest ever.
    pub rcv_adv: Seq,
    /// The peer's window, bytes from `snd_una`.
    pub snd_wnd: u32,
    /// Last timestamp of the peer's.
    pub ts_recent: u32,
    /// Added to the clock to give own timestamps.
    pub ts_offset: u32,
    /// Largest payload of a segment sent, bytes.
    pub snd_mss: u16,
    /// Largest segment that this side has announced to take.
    pub rcv_mss: u16,
}

impl Durable {
    pub(super) fn new(endpoints: Endpoints, iss: Seq, state: State) -> Self {
        Self {
            acked: 0,
            received: 0,
            local_address: octets(endpoints.local.ip()),
            remote_address: octets(endpoints.remote.ip()),
            scope: scope_of(&endpoints.local).max(scope_of(&endpoints.remote)),
            local_port: endpoints.local.port(),
            remote_port: endpoints.remote.port(),
            state: state as u8,
            flags: 0,
            snd_scale: 0,
            rcv_scale: 0,
            iss,
            irs: Seq::new(0),
            snd_una: iss,
            snd_max: iss,
            rcv_nxt: Seq::new(0),
            rcv_adv: Seq::new(0),
            snd_wnd: 0,
            ts_recent: 0,
            ts_offset: 0,
            snd_mss: 0,
            rcv_mss: 0,
        }
    }

    /// Sequence number of the peer's FIN, if it was received.
    pub(super) fn finished(&self) -> Option<Seq> {
        self.has(FIN_RECEIVED).then(|| self.rcv_nxt - 1)
    }

    /// The state.
    #[inline]
    pub fn state(&self) -> State {
        State::from_number(self.state)
    }

    /// The two ends.
    pub fn endpoints(&self) -> Endpoints {
        let socket = |address: [u8; 16], port| {
            canonical(SocketAddrV6::new(address.into(), port, 0, self.scope).into())
        };
        Endpoints {
            local: socket(self.local_address, self.local_port),
            remote: socket(self.remote_address, self.remote_port),
        }
    }

    #[inline]
    pub(super) fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    #[inline]
    pub(super) fn set(&mut self, flag: u16) {
        self.flags |= flag;
    }

    /// Bytes that the peer may still send into the window.
    #[inline]
    pub(super) fn window_left(&self) -> u32 {
        self.rcv_adv.since(self.rcv_nxt)
    }

    /// First sequence number that the peer's window does not admit.
    #[inline]
    pub(super) fn send_edge(&self) -> Seq {
        self.snd_una + self.snd_wnd
    }
}

fn octets(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    }
}

fn scope_of(address: &SocketAddr) -> u32 {
    match address {
        SocketAddr::V4(_) => 0,
        SocketAddr::V6(address) => address.scope_id(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_come_back() {
        let table = [
            ("10.0.0.1:80", "10.0.0.2:40000"),
            ("[2001:db8::1]:80", "[2001:db8::2]:40000"),
            ("[fe80::1%7]:80", "[fe80::2%7]:40000"),
        ];
        for (local, remote) in table {
            let ends = Endpoints { local: local.parse().unwrap(), remote: remote.parse().unwrap() };
            let durable = Durable::new(ends, Seq::new(1), State::SynSent);
            assert_eq!(durable.endpoints(), ends);
        }
    }
}
