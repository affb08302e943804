//! UDP's own state in one stack: the datagrams that wait for a neighbour, and the counters.

use alloc::collections::VecDeque;
use core::ops::Range;

use super::lite;
use super::parked::{ParkedDatagram, ParkedDatagrams};
use super::wire::{self, BadDatagram, ParsedDatagram};
use crate::bytes::{Frame, RxBytes};
use crate::interface_id::NeighbourKey;
use crate::ip::packet::Packet;
use crate::secret::KeyedHash;

counters! { UdpCounters:
    copied_groups "copy.group-bytes" "Payload copied because several sockets receive it."
    udp_in "udp.datagrams-in" "Datagrams queued to a socket."
    udp_out "udp.datagrams-out" "Datagrams sent."
    udp_malformed "udp.malformed" "UDP packets with a bad length or port 0."
    udp_bad_checksum "udp.bad-checksum" "UDP packets with a bad checksum."
    udp_no_port "udp.no-port" "Datagrams to a port without a socket."
    udp_uncovered "udp.uncovered" "UDP-Lite datagrams of which the socket wants more covered."
    udp_overflow "udp.overflows" "Datagrams dropped because the socket's receive queue was full."
}

/// UDP's own state in one stack.
#[derive(Debug)]
pub(crate) struct UdpLayer<T> {
    parked: ParkedDatagrams<T>,
    counters: UdpCounters,
}

impl<T> UdpLayer<T> {
    /// `queue`: most datagrams that wait for one neighbour.
    pub(crate) fn new(hash: KeyedHash, queue: usize) -> Self {
        Self { parked: ParkedDatagrams::new(hash, queue), counters: UdpCounters::default() }
    }

    /// Name and value of each counter.
    pub(crate) fn counters(&self) -> impl Iterator<Item = (&'static str, u64)> + use<T> {
        self.counters.iter()
    }

    /// Parses a UDP packet whose headers are in `head`. Counts a malformed one, which is to be
    /// dropped.
    pub(crate) fn handle_packet<R: RxBytes>(
        &mut self,
        packet: &Packet,
        head: &[u8],
        frame: &Frame<R>,
    ) -> Option<ParsedDatagram> {
        let parsed = parse(packet, head, frame);
        parsed.map_err(|bad| self.count_bad(bad)).ok()
    }

    /// Parses a UDP-Lite packet, as [`handle_packet`](Self::handle_packet) does UDP's; gives the
    /// coverage, too, if it is partial. No device knows how much of a packet is covered.
    pub(crate) fn handle_lite_packet<R: RxBytes>(
        &mut self,
        packet: &Packet,
        head: &[u8],
        frame: &Frame<R>,
    ) -> Option<(ParsedDatagram, Option<u16>)> {
        let Range { start, end } = packet.payload;
        let sum = |len| frame.checksum(start..start + len);
        let ends = (packet.source, packet.destination);
        let parsed = lite::parse(ends, packet.payload_in(head), end - start, sum);
        parsed.map_err(|bad| self.count_bad(bad)).ok()
    }

    fn count_bad(&mut self, bad: BadDatagram) {
        match bad {
            BadDatagram::Checksum => self.counters.udp_bad_checksum += 1,
            BadDatagram::Malformed => self.counters.udp_malformed += 1,
        }
    }

    /// A socket wants more of a datagram covered.
    pub(crate) fn count_uncovered(&mut self) {
        self.counters.udp_uncovered += 1;
    }

    /// No socket has the port of a datagram.
    pub(crate) fn count_no_port(&mut self) {
        self.counters.udp_no_port += 1;
    }

    /// A datagram to several sockets was copied.
    pub(crate) fn count_copied(&mut self, bytes: usize) {
        self.counters.copied_groups += bytes as u64;
    }

    /// A socket's receive queue was full.
    pub(crate) fn count_overflow(&mut self) {
        self.counters.udp_overflow += 1;
    }

    /// A datagram was queued to a socket.
    pub(crate) fn count_received(&mut self) {
        self.counters.udp_in += 1;
    }

    /// A datagram was sent, with its last fragment.
    pub(crate) fn count_sent(&mut self) {
        self.counters.udp_out += 1;
    }

    /// Parks a datagram until a neighbour is resolved. Gives the datagram that it displaces.
    pub(crate) fn park(
        &mut self,
        neighbour: NeighbourKey,
        datagram: ParkedDatagram<T>,
    ) -> Option<ParkedDatagram<T>> {
        self.parked.park(neighbour, datagram)
    }

    /// The datagrams that waited for a neighbour: they do not any more.
    pub(crate) fn take_parked(&mut self, neighbour: NeighbourKey) -> VecDeque<ParkedDatagram<T>> {
        self.parked.take(neighbour)
    }
}

/// Parses a UDP packet whose headers are in `head`, the first bytes of `frame`.
pub(crate) fn parse<R: RxBytes>(
    packet: &Packet,
    head: &[u8],
    frame: &Frame<R>,
) -> Result<ParsedDatagram, BadDatagram> {
    let Range { start, end } = packet.payload;
    let sum = |len| frame.checksum(start..start + len);
    let sum = (!frame.offload().verified).then_some(sum);
    wire::parse((packet.source, packet.destination), packet.payload_in(head), end - start, sum)
}
