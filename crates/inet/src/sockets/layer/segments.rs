//! The segments of one connection in its turn, and what they have in common.

use core::net::SocketAddr;

use smoltcp::wire::IpProtocol;

use crate::bytes::{Egress, ProcessingStage, RxBytes, TxBytes};
use crate::context::Context;
use crate::ip;
use crate::ip::route::Path;
use crate::ip::{MAX_HEADERS, frame_headers};
use crate::link::ethernet::{self, Mac};
use crate::offload::{Checksum, Features, SegmentKind, Segments, TxOffload};
use crate::sockets::options::SocketOptions;
use crate::sockets::stream::Stream;
use crate::sockets::tcp_layer::{TcpLayer, segment_count};
use crate::tcp::{CHECKSUM_AT, Endpoints, MAX_HEADER, SegmentOut};
use crate::time::Instant;

/// Sends at most `most` segments of a connection, and no more after `most_bytes`, as far as there
/// is room. `df`: they may not be fragmented. Returns whether there may be more.
#[inline]
pub(super) fn send_segments<T: TxBytes, R: RxBytes>(
    tcp: &mut TcpLayer,
    cx: &mut Context,
    now: Instant,
    stream: &mut Stream<T, R>,
    (route, df): (&SegmentRoute, bool),
    (most, most_bytes): (usize, usize),
    out: &mut dyn Egress<T>,
) -> bool {
    let (exit, defer) = (route.path.exit(), tcp.may_defer_fin_ack());
    let (mut segments, mut bytes) = (0, 0);
    while segments < most && bytes < most_bytes && cx.link.has_room(exit, out) {
        cx.link.stage(ProcessingStage::Tcp, out);
        let connection = &mut stream.connection;
        let segment = match defer {
            true => connection.poll_segment_deferring(now),
            false => connection.poll_segment(now),
        };
        let Some(segment) = segment else { return false };
        let len = segment.body_len();
        let packets = segment_count(len, segment.mss);
        let id = (!df)
            .then(|| cx.ip.fragment_id(&mut cx.secret, route.ends.remote.ip(), packets as u32));
        tcp.count_sent(packets);
        (segments, bytes) = (segments + 1, bytes + len);
        route.emit(cx, &segment, id, out);
    }
    true
}

/// All that the segments of one connection have in common.
pub(super) struct SegmentRoute {
    pub(super) path: Path,
    pub(super) to: Mac,
    pub(super) ends: Endpoints,
    pub(super) ttl: u8,
    pub(super) tos: u8,
    pub(super) flow: u32,
    pub(super) features: Features,
}

impl SegmentRoute {
    #[inline(always)]
    pub(super) fn new(
        cx: &Context,
        options: &SocketOptions,
        path: Path,
        to: Mac,
        ends: Endpoints,
    ) -> Self {
        let (ttl, tos) = options.hops_and_class(cx, &path);
        let flow = match ends.remote {
            SocketAddr::V6(_) if cx.ip.labels_flows() => cx.secret.flow_label(&ends),
            _ => 0,
        };
        let features = cx.features(path.exit(), &ends.remote);
        Self { path, to, ends, ttl, tos, flow, features }
    }

    pub(super) fn kind(&self) -> SegmentKind {
        match self.ends.remote {
            SocketAddr::V4(_) => SegmentKind::Tcp4,
            SocketAddr::V6(_) => SegmentKind::Tcp6,
        }
    }

    /// Sends a segment. With `id`, routers may fragment its packet.
    pub(super) fn emit<T: TxBytes>(
        &self,
        cx: &mut Context,
        out_of: &SegmentOut<'_, T>,
        id: Option<u32>,
        out: &mut dyn Egress<T>,
    ) {
        let (segment, body, body_len) = (&out_of.repr, out_of.body(), out_of.body_len());
        let mut head = [0; MAX_HEADERS + MAX_HEADER];
        let (source, destination) = (self.ends.local.ip(), self.ends.remote.ip());
        let headers = frame_headers(destination);
        let tcp_header = &mut head[headers..];
        let (header, checksum) = if self.features.tx_checksum {
            let header = segment.emit_partial(source, destination, body_len, tcp_header);
            // Both fit: headers are short.
            (header, Some(Checksum { start: headers as u8, offset: CHECKSUM_AT as u8 }))
        } else {
            (segment.emit(source, destination, body, tcp_header), None)
        };
        let long = body_len > usize::from(out_of.mss);
        let segments = long.then(|| Segments { kind: self.kind(), size: out_of.mss });
        let offload = TxOffload { checksum, segments };
        let ip = ip::Header {
            source,
            destination,
            protocol: IpProtocol::Tcp,
            ttl: self.ttl,
            // The ECN field is TCP's, whatever the application asks for.
            tos: self.tos & !3 | segment.ecn as u8,
            flow: self.flow,
            payload_len: header + body_len,
        };
        cx.link.stage(ProcessingStage::Ip, out);
        ip::write_ip(&ip, &mut head);
        if let (Some(id), Some(packet)) = (id, head.get_mut(ethernet::HEADER..)) {
            ip::allow_fragments(packet, destination, id);
        }
        cx.link.stage(ProcessingStage::Ethernet, out);
        ip::write_link(&cx.link, &self.path, self.to, &ip, &mut head);
        cx.emit(self.path.exit(), &head[..headers + header], body, offload, out);
    }
}
