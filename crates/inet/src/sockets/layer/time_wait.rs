//! Connections in TIME-WAIT whose sockets are closed: small records, apart from the sockets.
//!
//! A record takes over the connection's entry in demultiplexing, its claim on the port and one
//! timer. All three take constant time. There are at most `Config::max_tw_buckets` records. A
//! connection that finds none free ends without TIME-WAIT, as on Linux. To end another record early
//! would do the same to a connection with equal rights.

use crate::bytes::{Egress, Frame, RxBytes, RxPiece, TxBytes};
use crate::context::Context;
use crate::held::HeldFrame;
use crate::sockets::demux::{DemuxTarget, DeviceFit};
use crate::sockets::layer::SocketLayer;
use crate::sockets::owners::Owners;
use crate::sockets::socket::{Ownership, SocketBody};
use crate::sockets::tcp_layer::TcpLayer;
use crate::sockets::time_wait::TimeWaitRecord;
use crate::table::Handle;
use crate::tcp::{Connection, Endpoints, SegmentReply, SegmentRepr, Seq};
use crate::time::Instant;
use core::net::SocketAddr;

impl<T: TxBytes, R: RxBytes> SocketLayer<T, R> {
    /// Replaces a closed connection in TIME-WAIT by a record, once it has sent everything. Its
    /// socket's table entry is free as soon as the owner knows of the end.
    pub(super) fn enter_time_wait(&mut self, cx: &mut Context, handle: Handle) {
        let Some(socket) = self.sockets.get_mut(handle).filter(|socket| socket.is_closing()) else {
            return;
        };
        let (orphan, tag, family, owner) =
            (socket.ownership == Ownership::Orphan, socket.tag, socket.family, socket.owner);
        let options = socket.options;
        let Some(wait) = socket.connection().and_then(|stream| stream.connection.to_time_wait())
        else {
            return;
        };
        let ends = wait.endpoints();
        let displaces = self.tcp.is_time_wait_full();
        let displaced = displaces
            .then(|| {
                let tcp = &self.tcp;
                self.owners.displaced_time_wait(owner, |key| tcp.time_wait(key).is_some())
            })
            .flatten();
        let full = displaces && displaced.is_none();
        let claim = if full { None } else { socket.claim.take() };
        self.unregister(cx, handle);
        if displaces {
            self.tcp.count_time_wait_overflow();
        }
        if let Some(key) = displaced {
            self.end_time_wait(cx, key);
        }
        if !full {
            let (hops, class) = match ends.remote {
                SocketAddr::V4(_) => (options.ttl, options.tos),
                SocketAddr::V6(_) => {
                    let hops = options.unicast_hops.unwrap_or(cx.ip.default_hop_limit());
                    (hops, options.traffic_class)
                }
            };
            let record =
                TimeWaitRecord { wait, claim, timer: None, tag, family, owner, hops, class };
            if let Some(key) = self.tcp.add_time_wait(record, &mut cx.timers) {
                self.demux.add_time_wait(ends, key);
                self.ports.handle_time_wait(ends.local.port());
                let tcp = &self.tcp;
                self.owners.add_time_wait(owner, key, |key| tcp.time_wait(key).is_some());
            }
        }
        match self.sockets.get_mut(handle) {
            Some(_) if orphan => self.remove_socket(cx, handle),
            // The event that says so is on its way.
            Some(socket) => socket.body = SocketBody::Gone,
            None => {}
        }
    }

    /// Handles a segment of a connection in TIME-WAIT.
    pub(super) fn handle_late_segment(
        &mut self,
        cx: &mut Context,
        now: Instant,
        key: Handle,
        segment: &SegmentRepr,
        piece: RxPiece<Frame<R>>,
        out: &mut dyn Egress<T>,
    ) {
        let Some(record) = self.tcp.time_wait(key) else { return };
        let (ends, hops, class) = (record.wait.endpoints(), record.hops, record.class);
        let mut connection: Connection<T, HeldFrame<R>> = record.wait.to_connection(now);
        let held = RxPiece { frame: cx.held.hold(piece.frame), range: piece.range };
        let payload = Some(held).filter(|piece| !piece.range.is_empty());
        match connection.handle_segment(now, segment, payload) {
            SegmentReply::None => {}
            SegmentReply::Reset(reset) => self.send_reset(cx, now, &ends, &reset, out),
            SegmentReply::Reuse => return self.reuse_late(cx, now, key, &ends, segment, out),
        }
        while let Some(answer) = connection.poll_segment(now) {
            let answer = answer.repr;
            self.tcp.count_sent(1);
            self.send_apart(cx, now, &ends, &answer, hops, class, out);
        }
        self.tcp.add_stats(connection.take_stats());
        let Some(wait) = connection.to_time_wait() else { return self.end_time_wait(cx, key) };
        self.tcp.set_time_wait(key, wait, &mut cx.timers);
    }

    /// A SYN replaces the connection, if there is a listener (RFC 9293 3.10.7.4, RFC 6191 2).
    fn reuse_late(
        &mut self,
        cx: &mut Context,
        now: Instant,
        key: Handle,
        ends: &Endpoints,
        segment: &SegmentRepr,
        out: &mut dyn Egress<T>,
    ) {
        let Some(listener) = self.demux.listener(ends, |_| DeviceFit::Every) else { return };
        let Some(used) = self.tcp.time_wait(key).map(|old| old.wait.used()) else { return };
        self.end_time_wait(cx, key);
        self.tcp.count_time_wait_reused();
        // A SYN makes a request, never a connection.
        self.handle_listener_segment(cx, now, listener, *ends, segment, Some(used), &mut None, out);
    }

    /// Replaces a connection in TIME-WAIT, if that is allowed. Gives the first sequence number of
    /// the new one.
    pub(super) fn take_reusable(
        &mut self,
        cx: &mut Context,
        now: Instant,
        ends: &Endpoints,
    ) -> Option<Seq> {
        let target = self.demux.target(ends)?;
        let iss = self
            .tcp
            .reusable(now, target)
            .or_else(|| departed((&self.tcp, &self.owners), now, target))?;
        if let DemuxTarget::TimeWait(key) = target {
            self.end_time_wait(cx, key);
            self.tcp.count_time_wait_reused();
        }
        Some(iss)
    }

    /// The timer has fired: TIME-WAIT is over.
    pub(crate) fn time_wait_due(&mut self, cx: &mut Context, key: Handle) {
        self.tcp.handle_time_wait_timer(key);
        self.end_time_wait(cx, key);
    }

    fn end_time_wait(&mut self, cx: &mut Context, key: Handle) {
        let Some(record) = self.tcp.remove_time_wait(key, &mut cx.timers) else { return };
        self.demux.remove_time_wait(&record.wait.endpoints(), key);
        self.owners.remove_time_wait(record.owner);
        if let Some(claim) = record.claim {
            self.ports.release(&claim, record.owner);
        }
    }
}

/// The first sequence number of a connection that takes the place of one in TIME-WAIT whose owner
/// is gone. It does so when no other port is left: the parties that are here need not wait for the
/// records of those that are not.
pub(super) fn departed(
    (tcp, owners): (&TcpLayer, &Owners),
    now: Instant,
    target: DemuxTarget,
) -> Option<Seq> {
    let DemuxTarget::TimeWait(key) = target else { return None };
    let record = tcp.time_wait(key).filter(|record| owners.is_gone(record.owner))?;
    record.wait.replaced_by_connect(now)
}
