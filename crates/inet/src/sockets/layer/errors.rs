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
use crate::sockets::demux::DemuxTarget;
use crate::sockets::events::EventKind;
use crate::sockets::kinds::SocketKind;
use crate::sockets::layer::SocketLayer;
use crate::sockets::options::MtuDiscover;
use crate::table::Handle;
use crate::tcp::Seq;
use crate::time::Instant;
use crate::udp::lite;

impl<T: TxBytes, R: RxBytes> SocketLayer<T, R> {
    /// Hands an ICMP error about a segment to its connection, if the quoted number is in flight.
    pub(crate) fn report_segment(
        &mut self,
        cx: &mut Context,
        now: Instant,
        report: &IcmpReport,
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
        let Some(stream) = socket.connection() else { return false };
        if !stream.connection.is_outstanding(seq) {
            return false;
        }
        match error {
            ReportedError::Unreachable { error, .. } => {
                stream.connection.handle_unreachable(error);
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

    /// Handles an ICMP error about a datagram. As on Linux, only a connected socket gets it, and
    /// only if the error is final. Any socket's error may teach a path's MTU.
    pub(crate) fn report_datagram(
        &mut self,
        cx: &mut Context,
        now: Instant,
        report: &IcmpReport,
    ) -> bool {
        let (reported, quote) = (report.error, &report.quote);
        let kind = match quote.protocol {
            lite::PROTOCOL => SocketKind::UdpLite,
            _ => SocketKind::Datagram,
        };
        let demux = self.demux.datagrams_ref(kind);
        let Some(handle) = demux.datagram(&quote.ends, |_| true) else { return false };
        let Some(socket) = self.sockets.get_mut(handle) else { return false };
        let how = socket.options.mtu_discover;
        let (error, hard) = match reported {
            ReportedError::Unreachable { error, hard } => (error, hard),
            ReportedError::TooBig(_) if !how.accepts_path_mtu() => return false,
            ReportedError::TooBig(mtu) => {
                cx.ip.learn_path_mtu(now, quote.ends.remote.ip(), mtu);
                (Error::MessageSize, how != MtuDiscover::Dont)
            }
        };
        let connected = socket.datagram().is_some_and(|d| d.peer == Some(quote.ends.remote));
        let notified = connected && hard;
        if notified {
            self.events.add(handle, socket, EventKind::Failed(error));
        }
        notified || matches!(reported, ReportedError::TooBig(_))
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
        Ok(path.narrowed(cx.ip.path_mtu(now, peer.ip())).mtu)
    }
}
