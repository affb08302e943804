//! Fragments in the stack: kept until their packet is whole, and packets whose time is over.

use alloc::boxed::Box;
use core::net::IpAddr;

use crate::bytes::{Egress, Frame, RxBytes, TxBytes};
use crate::icmp::Complaint;
use crate::ip::packet::{Cut, Packet};
use crate::ip::reassembly::{Fragment, Key, Outcome, Whole};
use crate::ip::{v4, v6};
use crate::net::Timer;
use crate::stack::Stack;
use crate::time::Instant;

impl<T: TxBytes, R: RxBytes> Stack<T, R> {
    /// Takes a fragment; gives the packet, from its IP header on and to be parsed again, if it is
    /// whole now.
    pub(crate) fn handle_fragment(
        &mut self,
        now: Instant,
        packet: &Packet,
        cut: &Cut,
        frame: Frame<R>,
    ) -> Option<Frame<R>> {
        self.net.counters.ip_fragments += 1;
        if !self.held.has_room(&frame, true) {
            self.net.counters.held_dropped += 1;
            return None;
        }
        let protocol = match packet.source {
            IpAddr::V4(_) => packet.protocol.into(),
            IpAddr::V6(_) => 0,
        };
        let (source, destination) = (packet.source, packet.destination);
        let fragment = Fragment {
            key: Key { source, destination, id: cut.id, protocol },
            at: cut.at,
            more: cut.more,
            ecn: packet.tos & 3,
            next_header: packet.protocol.into(),
            header: cut.header.clone(),
            payload: packet.payload.clone(),
            packet: packet.clone(),
            frame: self.held.hold(frame),
        };
        let outcome = self.reassembler.insert(now, fragment);
        self.arm_reassembly();
        let counters = &mut self.net.counters;
        match outcome {
            Outcome::Kept | Outcome::Duplicate => None,
            Outcome::Misshapen | Outcome::TooLong | Outcome::Spoilt => {
                counters.ip_fragments_bad += 1;
                None
            }
            Outcome::Whole(whole) => {
                counters.ip_reassembled += 1;
                counters.copied_joined += whole.bytes.len() as u64;
                let place = cut.next_header_at.saturating_sub(cut.header.start);
                Some(Frame::Joined(mend(whole, source.is_ipv4(), place)))
            }
        }
    }

    fn arm_reassembly(&mut self) {
        let at = self.reassembler.poll_at();
        match (self.reassembly_timer, at) {
            (Some(timer), Some(at)) if self.net.wheel.is_at(timer, at) => return,
            (Some(timer), _) => self.net.wheel.cancel(timer),
            _ => {}
        }
        self.reassembly_timer = at.map(|at| self.net.wheel.arm(at, Timer::Reassembly));
    }

    /// The time of some packets is over.
    pub(crate) fn reassembly_due(&mut self, now: Instant, out: &mut dyn Egress<T>) {
        self.reassembly_timer = None;
        while let Some(expired) = self.reassembler.pop_expired(now) {
            self.net.counters.ip_reassembly_timeouts += 1;
            // RFC 1122 3.3.2, RFC 8200 4.5: only if the first fragment is there.
            if let Some(Fragment { packet, frame, .. }) = expired.first
                && self.net.is_ours(packet.destination)
            {
                let complaint = Complaint::ReassemblyTime;
                self.complain(now, &packet, frame.bytes(), complaint, out);
            }
        }
        self.arm_reassembly();
    }
}

/// Makes the header of a joined packet that of a packet which was never cut. In IPv6,
/// `next_header_at` is the place of what announced the fragment header.
fn mend(whole: Whole, is_v4: bool, next_header_at: usize) -> Box<[u8]> {
    let Whole { mut bytes, header_len, ecn, next_header } = whole;
    if is_v4 {
        v4::mend(&mut bytes, ecn);
        return bytes;
    }
    if let Some(place) = bytes.get_mut(next_header_at).filter(|_| next_header_at < header_len) {
        *place = next_header;
    }
    v6::mend(&mut bytes, ecn);
    bytes
}
