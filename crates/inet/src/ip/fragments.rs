//! The fragments of one stack, stored until their packet is complete or has timed out.

use alloc::boxed::Box;
use core::net::IpAddr;

use super::packet::{FragmentHeader, Packet};
use super::reassembly::{DatagramKey, Fragment, Reassembled, Reassembler, ReassemblyOutcome};
use super::{v4, v6};
use crate::bytes::{Frame, RxBytes};
use crate::config::ReassemblyConfig;
use crate::held::{HeldFrame, HeldFrames, HoldPurpose};
use crate::secret::Secret;
use crate::table::Handle;
use crate::time::Instant;
use crate::timers::{Timer, Timers};
use crate::wheel::TimerId;

counters! { FragmentCounters:
    ip_fragments "ip.fragments" "Fragments received."
    ip_fragments_bad "ip.bad-fragments" "Fragments that are empty, too long, or contradict others."
    ip_reassembled "ip.reassembled" "Packets reassembled of fragments."
    ip_reassembly_timeouts "ip.reassembly-timeouts" "Packets whose fragments did not all come."
    copied_joined "copy.joined-bytes" "Bytes copied to reassemble packets."
}

/// The fragments of one stack.
#[derive(Debug)]
pub(crate) struct Fragments<R> {
    reassembler: Reassembler<HeldFrame<R>>,
    timer: Option<TimerId>,
    counters: FragmentCounters,
}

impl<R: RxBytes> Fragments<R> {
    pub(crate) fn new(config: ReassemblyConfig, secret: &Secret) -> Self {
        Self {
            reassembler: Reassembler::new(secret.tables(), config),
            timer: None,
            counters: FragmentCounters::default(),
        }
    }

    /// Name and value of each counter.
    pub(crate) fn counters(&self) -> impl Iterator<Item = (&'static str, u64)> + use<R> {
        self.counters.iter()
    }

    /// Handles a fragment. If it completes the packet, gives that, from its IP header on and to be
    /// parsed again. `secured` is the security association that has opened it.
    pub(crate) fn handle_fragment(
        &mut self,
        now: Instant,
        (packet, secured): (&Packet, Option<Handle>),
        header: &FragmentHeader,
        frame: Frame<R>,
        (held, timers): (&mut HeldFrames, &mut Timers),
    ) -> Option<Frame<R>> {
        self.counters.ip_fragments += 1;
        if !held.has_room(&frame, HoldPurpose::OutOfOrder) {
            held.count_refused();
            return None;
        }
        let protocol = match packet.source {
            IpAddr::V4(_) => packet.protocol.into(),
            IpAddr::V6(_) => 0,
        };
        let (source, destination) = (packet.source, packet.destination);
        let fragment = Fragment {
            key: DatagramKey { source, destination, id: header.id, protocol, secured },
            at: header.at,
            more: header.more,
            ecn: packet.tos & 3,
            next_header: packet.protocol.into(),
            header: header.header.clone(),
            payload: packet.payload.clone(),
            packet: packet.clone(),
            frame: held.hold(frame),
        };
        let outcome = self.reassembler.insert(now, fragment);
        self.arm(timers);
        match outcome {
            ReassemblyOutcome::Stored | ReassemblyOutcome::Duplicate => None,
            ReassemblyOutcome::BadLength
            | ReassemblyOutcome::TooLong
            | ReassemblyOutcome::Inconsistent => {
                self.counters.ip_fragments_bad += 1;
                None
            }
            ReassemblyOutcome::Complete(packet) => {
                self.counters.ip_reassembled += 1;
                self.counters.copied_joined += packet.bytes.len() as u64;
                let place = header.next_header_at.saturating_sub(header.header.start);
                Some(Frame::Joined(restore_header(packet, source.is_ipv4(), place)))
            }
        }
    }

    fn arm(&mut self, timers: &mut Timers) {
        let at = self.reassembler.poll_at();
        match (self.timer, at) {
            (Some(timer), Some(at)) if timers.is_at(timer, at) => return,
            (Some(timer), _) => timers.cancel(timer),
            _ => {}
        }
        self.timer = at.map(|at| timers.arm(at, Timer::Reassembly));
    }

    /// The timer has fired.
    pub(crate) fn handle_timer(&mut self) {
        self.timer = None;
    }

    /// The next datagram whose reassembly has timed out with its first fragment there: its sender
    /// may get an error (RFC 1122 3.3.2, RFC 8200 4.5). After the last one the timer is set, and
    /// the result is `None`.
    pub(crate) fn poll_expired(
        &mut self,
        now: Instant,
        timers: &mut Timers,
    ) -> Option<(Packet, HeldFrame<R>)> {
        while let Some(expired) = self.reassembler.pop_expired(now) {
            self.counters.ip_reassembly_timeouts += 1;
            if let Some(Fragment { packet, frame, .. }) = expired.first {
                return Some((packet, frame));
            }
        }
        self.arm(timers);
        None
    }
}

/// Makes the header of a reassembled packet that of a packet which was never fragmented. In IPv6,
/// `next_header_at` is the position of the field that announced the fragment header.
fn restore_header(packet: Reassembled, is_v4: bool, next_header_at: usize) -> Box<[u8]> {
    let Reassembled { mut bytes, header_len, ecn, next_header } = packet;
    if is_v4 {
        v4::restore_header(&mut bytes, ecn);
        return bytes;
    }
    if let Some(place) = bytes.get_mut(next_header_at).filter(|_| next_header_at < header_len) {
        *place = next_header;
    }
    v6::restore_header(&mut bytes, ecn);
    bytes
}
