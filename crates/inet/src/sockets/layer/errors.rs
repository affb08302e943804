//! ICMP errors about packets of sockets, of both families.
//!
//! An error is accepted only if a socket could have sent the packet that it quotes. That is a
//! source address of this host, a known pair of ends and, for TCP, a sequence number that is
//! outstanding (RFC 5927 4, 7.2). A path MTU that a router reports applies to all packets to that
//! host.

use crate::bytes::{RxBytes, TxBytes};
use crate::context::Context;
use crate::error::Error;
use crate::icmp::{IcmpReport, ReportedError};
use crate::ip;
use crate::sockets::demux::{DemuxTarget, DeviceFit};
use crate::sockets::error_queue::{
    ErrorOrigin, IcmpOrigin, OWNER_BYTES, PendingErrorChange, QueuedError,
};
use crate::sockets::events::EventKind;
use crate::sockets::kinds::SocketKind;
use crate::sockets::layer::SocketLayer;
use crate::sockets::options::MtuDiscover;
use crate::table::Handle;
use crate::tcp::{Seq, State};
use crate::time::Instant;
use crate::udp::{lite, wire};
use core::net::SocketAddr;

impl<T: TxBytes, R: RxBytes> SocketLayer<T, R> {
    /// Hands an ICMP error about a segment to its connection, if the quoted number is in flight.
    /// `quoted` is the segment, as far as it is quoted.
    pub(crate) fn report_segment(
        &mut self,
        cx: &mut Context,
        now: Instant,
        report: &IcmpReport,
        quoted: &[u8],
    ) -> bool {
        let (error, quote) = (report.error, &report.quote);
        let seq = Seq::new(quote.seq);
        let handle = match (self.demux.target(&quote.ends), error) {
            (Some(DemuxTarget::Socket(handle)), _) => handle,
            (Some(DemuxTarget::Request(key)), ReportedError::Unreachable { .. }) => {
                return self.request_unreachable(cx, key, seq);
            }
            _ => return false,
        };
        let Some(socket) = self.sockets.get_mut(handle) else { return false };
        let how = socket.options.mtu_discover;
        let v6 = quote.ends.remote.is_ipv6();
        let asks = socket.options.queues_errors(v6);
        let Some(stream) = socket.connection() else { return false };
        if !stream.connection.is_outstanding(seq) {
            return false;
        }
        match error {
            ReportedError::Unreachable { error, .. } => {
                let opening = stream.connection.state() == State::SynSent;
                stream.connection.handle_unreachable(error);
                // As Linux, which queues those of IPv4 attempts whether they are asked for or not.
                if opening && (asks || !v6) {
                    self.queue_error(handle, queued(report, error, quoted));
                } else if asks {
                    self.note_soft_error(handle, error);
                }
                self.update(cx, now, handle);
            }
            ReportedError::TooBig(_) if !how.accepts_path_mtu() => return false,
            ReportedError::TooBig(mtu) => {
                let mtu = cx.ip.learn_path_mtu(now, quote.ends.remote.ip(), mtu);
                // As Linux: segments that routers may fragment are sent as before.
                if how != MtuDiscover::Dont {
                    stream.connection.handle_too_big(now, mtu);
                }
            }
        }
        self.mark_ready(handle);
        true
    }

    /// Handles an ICMP error about a datagram, of which `quoted` is quoted. As on Linux, only a
    /// connected socket gets it, and only if the error is final, or a socket that queues errors.
    /// Any socket's error may teach a path's MTU.
    pub(crate) fn report_datagram(
        &mut self,
        cx: &mut Context,
        now: Instant,
        report: &IcmpReport,
        quoted: &[u8],
    ) -> bool {
        let (reported, quote) = (report.error, &report.quote);
        let kind = match quote.protocol {
            lite::PROTOCOL => SocketKind::UdpLite,
            _ => SocketKind::Datagram,
        };
        let demux = self.demux.datagrams_ref(kind);
        let Some(handle) = demux.datagram(&quote.ends, |_| DeviceFit::Every) else { return false };
        let Some(socket) = self.sockets.get_mut(handle) else { return false };
        let how = socket.options.mtu_discover;
        let v6 = quote.ends.remote.is_ipv6();
        let asks = socket.options.queues_errors(v6);
        let (error, hard) = match reported {
            ReportedError::Unreachable { error, hard } => (error, hard),
            ReportedError::TooBig(_) if !how.accepts_path_mtu() => return false,
            ReportedError::TooBig(mtu) => {
                cx.ip.learn_path_mtu(now, quote.ends.remote.ip(), mtu);
                (Error::MessageSize, how != MtuDiscover::Dont)
            }
        };
        let connected = socket.datagram().is_some_and(|d| d.peer == Some(quote.ends.remote));
        // As Linux: an IPv4 socket whose packets may be fragmented gets no error of their length.
        let fragmented = error == Error::MessageSize && !v6 && !hard;
        let queues = asks && !fragmented;
        let notified = connected && hard || queues;
        if notified {
            self.events.add(handle, socket, EventKind::Failed(error));
        }
        if queues {
            let payload = quoted.get(wire::HEADER..).unwrap_or_default();
            self.queue_error(handle, queued(report, error, payload));
        }
        notified || matches!(reported, ReportedError::TooBig(_))
    }

    /// Adds an error to a socket's queue, if the bounds allow it.
    #[cold]
    #[inline(never)]
    pub(super) fn queue_error(&mut self, handle: Handle, entry: QueuedError) {
        let Some(socket) = self.sockets.get_mut(handle) else { return };
        let owner = socket.owner;
        let left = OWNER_BYTES.saturating_sub(self.owners.error_bytes(owner));
        let most = socket.options.recv_buffer();
        let more = socket.rare.get_or_insert_default().errors.push(entry, most, left);
        if more > 0 {
            self.owners.count_error_bytes(owner, more, 0);
            self.events.add(handle, socket, EventKind::ErrorQueued);
        }
    }

    /// An error of this host about a datagram to `to` that it did not send.
    #[cold]
    #[inline(never)]
    pub(super) fn queue_local_error(
        &mut self,
        handle: Handle,
        error: Error,
        destination: SocketAddr,
        info: u32,
    ) {
        let origin = ErrorOrigin::Local;
        let payload = [].into();
        self.queue_error(
            handle,
            QueuedError { serial: 0, error, origin, info, destination, payload },
        );
    }

    /// A connection that asks for errors goes on in spite of this one.
    fn note_soft_error(&mut self, handle: Handle, error: Error) {
        let Some(socket) = self.sockets.get_mut(handle) else { return };
        socket.rare.get_or_insert_default().errors.set_soft_error(error);
        self.events.add(handle, socket, EventKind::ErrorQueued);
    }

    /// See [`Stack::queued_error`](crate::Stack::queued_error).
    pub(crate) fn queued_error(&self, handle: Handle) -> Option<&QueuedError> {
        self.sockets.get(handle)?.rare.as_ref()?.errors.first()
    }

    /// See [`Stack::take_queued_error`](crate::Stack::take_queued_error).
    pub(crate) fn take_queued_error(
        &mut self,
        handle: Handle,
        serial: u32,
    ) -> Option<PendingErrorChange> {
        let socket = self.sockets.get_mut(handle)?;
        let (bytes, change) = socket.rare.as_mut()?.errors.pop(serial)?;
        self.owners.count_error_bytes(socket.owner, 0, bytes);
        Some(change)
    }

    /// See [`Stack::take_soft_error`](crate::Stack::take_soft_error).
    pub(crate) fn take_soft_error(&mut self, handle: Handle) -> Option<Error> {
        self.sockets.get_mut(handle)?.rare.as_mut()?.errors.take_soft_error()
    }

    /// See [`Stack::queues_errors`](crate::Stack::queues_errors).
    pub(crate) fn queues_errors(&self, handle: Handle) -> bool {
        let options = self.sockets.get(handle).map(|socket| &socket.options);
        options.is_some_and(|options| options.recv_errors4 || options.recv_errors6)
    }

    /// Empties a socket's error queue.
    pub(super) fn clear_errors(&mut self, handle: Handle) {
        let Some(socket) = self.sockets.get_mut(handle) else { return };
        let Some(rare) = &mut socket.rare else { return };
        let bytes = rare.errors.clear();
        self.owners.count_error_bytes(socket.owner, 0, bytes);
    }

    /// See [`Stack::path_mtu`](crate::Stack::path_mtu).
    pub(crate) fn path_mtu(
        &mut self,
        cx: &mut Context,
        now: Instant,
        handle: Handle,
    ) -> Result<u16, Error> {
        let peer = ip::canonical(self.peer_addr(handle)?);
        let device = self.sockets.get(handle).and_then(|socket| socket.options.device);
        let path = cx.find(&peer, device)?;
        Ok(path.narrowed(cx.path_mtu(now, peer.ip())).mtu)
    }
}

/// The entry of an ICMP error.
fn queued(report: &IcmpReport, error: Error, payload: &[u8]) -> QueuedError {
    let (packet, (kind, code)) = (&report.packet, report.kind);
    let origin = IcmpOrigin {
        from: packet.from(0),
        to: packet.destination,
        interface: packet.interface,
        ttl: packet.ttl,
        tos: packet.tos,
        kind,
        code,
    };
    QueuedError {
        serial: 0,
        error,
        origin: ErrorOrigin::Icmp(origin),
        info: report.info,
        destination: report.quote.ends.remote,
        payload: payload.into(),
    }
}
