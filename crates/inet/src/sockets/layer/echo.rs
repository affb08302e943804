//! Received ICMP messages that concern echo sockets. Such a socket gets the message from its ICMP
//! header on, without the packet's: see [`echo`](crate::icmp::echo).

use crate::bytes::{Frame, RxBytes, RxPiece, TxBytes};
use crate::context::Context;
use crate::icmp::echo::EchoNumbers;
use crate::icmp::{IcmpReport, ReportedError};
use crate::ip::packet::Packet;
use crate::sockets::kinds::SocketKind;
use crate::sockets::layer::SocketLayer;
use crate::tcp::Endpoints;
use crate::time::Instant;
use crate::udp::message::DatagramInfo;
use core::net::SocketAddr;

impl<T: TxBytes, R: RxBytes> SocketLayer<T, R> {
    /// Handles an echo reply. False: no socket has its identifier.
    pub(crate) fn handle_echo_reply(
        &mut self,
        cx: &mut Context,
        packet: &Packet,
        reply: EchoNumbers,
        frame: Frame<R>,
    ) -> bool {
        let ends = Endpoints { local: packet.to(reply.ident), remote: packet.from(reply.seq) };
        self.queue_message(cx, packet, &ends, (ends.remote, frame))
    }

    /// Hands an ICMP error about an echo request to the socket with its identifier. The error may
    /// teach a path's MTU.
    pub(crate) fn report_echo(
        &mut self,
        cx: &mut Context,
        now: Instant,
        packet: &Packet,
        report: &IcmpReport,
        frame: Frame<R>,
    ) -> bool {
        let ends = report.quote.ends;
        let found = self.queue_message(cx, packet, &ends, (packet.from(0), frame));
        if let ReportedError::TooBig(mtu) = report.error
            && found
        {
            cx.ip.learn_path_mtu(now, ends.remote.ip(), mtu);
        }
        found
    }

    /// Queues a message at the socket that sends between `ends`.
    fn queue_message(
        &mut self,
        cx: &mut Context,
        packet: &Packet,
        ends: &Endpoints,
        (from, frame): (SocketAddr, Frame<R>),
    ) -> bool {
        let info = DatagramInfo {
            from,
            to: packet.destination,
            interface: packet.interface,
            ttl: packet.ttl,
            tos: packet.tos,
        };
        let demux = self.demux.datagrams_ref(SocketKind::Echo);
        let found = demux.datagram(ends, |handle| self.receives(cx, handle, &info));
        let Some(handle) = found else { return false };
        let piece = RxPiece { frame, range: packet.payload.clone() };
        self.queue_datagram(cx, handle, piece, (info, None));
        true
    }
}
