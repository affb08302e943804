//! Errors from the network about what we have sent, of both families (ICMP, ICMPv6).
//!
//! An error is believed only if the packet that it quotes is one that a socket could have sent: our
//! source address, a known pair of ends, and for TCP a sequence number that is outstanding (RFC
//! 5927 4, 7.2). What routers say of a path's MTU is kept for all that is sent there.

use core::net::{IpAddr, SocketAddr};

use smoltcp::wire::IpProtocol;

use crate::bytes::{RxBytes, TxBytes};
use crate::error::Error;
use crate::interface_id::InterfaceId;
use crate::ip;
use crate::ip::packet::Packet;
use crate::sockets::demux::Target;
use crate::sockets::events::EventKind;
use crate::sockets::options::MtuDiscover;
use crate::stack::{Arrival, Stack};
use crate::table::Handle;
use crate::tcp::{Endpoints, Seq};
use crate::time::Instant;

/// What an error says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Report {
    /// The packet did not reach its host or socket; `hard` if a datagram socket is told without
    /// having asked.
    Unreachable { error: Error, hard: bool },
    /// It was too big for a link on its way, which takes so many bytes.
    TooBig(u16),
}

/// What an error tells of the packet that it is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Quote {
    protocol: IpProtocol,
    /// The packet's source is `local`.
    ends: Endpoints,
    /// The first sequence number if it was a TCP segment.
    seq: Seq,
}

impl Quote {
    /// Of a packet from `source` to `destination`, whose transport header starts with `bytes`:
    /// ports and, of TCP, the sequence number. `None` if there are less than 8 (RFC 792).
    pub(crate) fn new(
        protocol: IpProtocol,
        end: impl Fn(IpAddr, u16) -> SocketAddr,
        [source, destination]: [IpAddr; 2],
        bytes: &[u8],
    ) -> Option<Self> {
        let [a, b, c, d, e, f, g, h] = *bytes.first_chunk::<8>()?;
        let ends = Endpoints {
            local: end(source, u16::from_be_bytes([a, b])),
            remote: end(destination, u16::from_be_bytes([c, d])),
        };
        Some(Self { protocol, ends, seq: Seq::new(u32::from_be_bytes([e, f, g, h])) })
    }
}

impl<T: TxBytes, R: RxBytes> Stack<T, R> {
    /// Takes an error, and counts whether it was believed.
    pub(crate) fn take_report(
        &mut self,
        now: Instant,
        arrival: Arrival,
        report: Report,
        quote: &Quote,
    ) {
        let believed = arrival == Arrival::ToUs
            && match quote.protocol {
                IpProtocol::Tcp => self.report_segment(now, report, quote),
                IpProtocol::Udp => self.report_datagram(now, report, quote),
                _ => false,
            };
        let counters = &mut self.net.counters;
        counters.icmp_in += u64::from(believed);
        counters.icmp_stray += u64::from(!believed);
    }

    /// Whether an error about `packet` may be sent: not more than so many in a second. Counts it.
    pub(crate) fn may_complain(&mut self, now: Instant, packet: &Packet) -> bool {
        // As Linux: what stays within the host is not limited.
        let inside = packet.interface == InterfaceId::LOOPBACK;
        let may = inside || self.net.icmp_limit.take(now);
        let counters = &mut self.net.counters;
        counters.icmp_out += u64::from(may);
        counters.icmp_limited += u64::from(!may);
        may
    }

    /// An error about a segment goes to its connection, if its number is on its way.
    fn report_segment(&mut self, now: Instant, report: Report, quote: &Quote) -> bool {
        let handle = match (self.demux.target(&quote.ends), report) {
            (Some(Target::Socket(handle)), _) => handle,
            (Some(Target::Request(place)), Report::Unreachable { .. }) => {
                return self.request_unreachable(place, quote.seq);
            }
            _ => return false,
        };
        let Some(socket) = self.sockets.get_mut(handle) else { return false };
        let how = socket.options.mtu_discover;
        let Some(stream) = socket.connection() else { return false };
        if !stream.connection.is_outstanding(quote.seq) {
            return false;
        }
        match report {
            Report::Unreachable { error, .. } => {
                stream.connection.handle_unreachable(error);
                self.settle(now, handle);
            }
            Report::TooBig(_) if !how.believes_routers() => return false,
            Report::TooBig(mtu) => {
                let mtu = self.path_mtus.learn(now, quote.ends.remote.ip(), mtu);
                // As Linux: what routers may cut goes on as before.
                if how != MtuDiscover::Dont {
                    stream.connection.handle_too_big(now, mtu);
                }
            }
        }
        self.mark_ready(handle);
        true
    }

    /// An error about a datagram. As Linux: only a connected socket is told, and only what is
    /// final; a path's MTU is learnt by any.
    fn report_datagram(&mut self, now: Instant, report: Report, quote: &Quote) -> bool {
        let Some(handle) = self.demux.datagram(&quote.ends, |_| true) else { return false };
        let Some(socket) = self.sockets.get_mut(handle) else { return false };
        let how = socket.options.mtu_discover;
        let (error, hard) = match report {
            Report::Unreachable { error, hard } => (error, hard),
            Report::TooBig(_) if !how.believes_routers() => return false,
            Report::TooBig(mtu) => {
                self.path_mtus.learn(now, quote.ends.remote.ip(), mtu);
                (Error::MessageSize, how != MtuDiscover::Dont)
            }
        };
        let connected = socket.datagram().is_some_and(|d| d.peer == Some(quote.ends.remote));
        let told = connected && hard;
        if told {
            self.events.add(handle, socket, EventKind::Failed(error));
        }
        told || matches!(report, Report::TooBig(_))
    }

    /// The MTU of the path to a connected socket's peer (IP_MTU, IPV6_MTU), bytes.
    ///
    /// # Errors
    /// `NotConnected`, `BadHandle`; `NetUnreachable` if there is no way there any more.
    pub fn path_mtu(&mut self, now: Instant, handle: Handle) -> Result<u16, Error> {
        let peer = ip::canonical(self.peer_addr(handle)?);
        let device = self.sockets.get(handle).and_then(|socket| socket.options.device);
        let path = self.net.find_by(&peer, device)?;
        Ok(path.narrowed(self.path_mtus.get(now, peer.ip())).mtu)
    }
}
