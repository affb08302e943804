//! The calls of a socket's owner.

use super::state::Stack;
use core::net::SocketAddr;

use crate::bytes::{RxBytes, TxBytes};
use crate::error::Error;
use crate::interface_id::InterfaceSet;
use crate::owner_id::OwnerId;
use crate::sockets::error_queue::{PendingErrorChange, QueuedError};
use crate::sockets::kinds::{
    Family, ReceivedPayload, SendError, ShutdownHow, SocketInfo, SocketKind,
};
use crate::sockets::options::{OptionName, SockOption};
use crate::table::Handle;
use crate::tcp::TcpInfo;
use crate::time::Instant;
use crate::udp::message::SendOptions;

impl<T: TxBytes, R: RxBytes> Stack<T, R> {
    /// Makes an IPv4 socket whose events carry `tag`.
    ///
    /// # Errors
    /// `NoBuffers` if there are too many sockets.
    pub fn open(&mut self, kind: SocketKind, tag: u64) -> Result<Handle, Error> {
        self.sockets.open(kind, tag)
    }

    /// Makes a socket of either family whose events carry `tag`.
    ///
    /// # Errors
    /// `NoBuffers` if there are too many sockets.
    pub fn open_in(&mut self, family: Family, kind: SocketKind, tag: u64) -> Result<Handle, Error> {
        self.sockets.open_for(OwnerId::default(), family, kind, tag)
    }

    /// As [`open_in`](Self::open_in), for one of several parties. Its sockets, and what comes of
    /// them, count for the party: no party keeps all ports, sockets, handshakes and TIME-WAIT
    /// records from the others.
    ///
    /// # Errors
    /// `NoBuffers` if there are too many sockets, or too many of this party.
    pub fn open_for(
        &mut self,
        owner: OwnerId,
        family: Family,
        kind: SocketKind,
        tag: u64,
    ) -> Result<Handle, Error> {
        self.sockets.open_for(owner, family, kind, tag)
    }

    /// A name for another party that will have sockets.
    pub fn add_owner(&mut self) -> OwnerId {
        self.sockets.add_owner()
    }

    /// A party is gone. What is left of its sockets counts for it until it is over.
    pub fn remove_owner(&mut self, owner: OwnerId) {
        self.sockets.remove_owner(owner);
    }

    /// Gives the socket an address. Port 0 means any free port. The wildcard address means all
    /// addresses of this host: `0.0.0.0` those of IPv4, `::` those of both families unless the
    /// socket is for IPv6 only.
    ///
    /// # Errors
    /// `Invalid` if the socket has an address, or for IPv4 on a socket for IPv6 only.
    /// `AddrNotAvailable` if the address is not of this host. `AddrInUse` if another socket has it.
    /// `Unsupported` for IPv6 on an IPv4 socket. `BadHandle`.
    pub fn bind(&mut self, handle: Handle, address: SocketAddr) -> Result<(), Error> {
        self.sockets.bind(&mut self.cx, handle, address)
    }

    /// Queues bytes; `poll` sends them. `to` is for datagrams and defaults to the connected peer.
    /// The owner bounds the bytes queued on a stream: the core never refuses them for their number.
    ///
    /// # Errors
    /// Every error gives the chunk back.
    /// * On a stream: `NotConnected`, `BrokenPipe`, or the connection's own error.
    /// * For a datagram: `DestinationRequired`, `MessageSize`, `NetUnreachable`, `AddrNotAvailable`
    ///   (an address of this host), `Denied` (broadcast), `NoBuffers` (too many queued).
    /// * `BadHandle`.
    pub fn send(
        &mut self,
        now: Instant,
        handle: Handle,
        chunk: T,
        to: Option<SocketAddr>,
    ) -> Result<(), SendError<T>> {
        self.sockets.send(&mut self.cx, now, handle, chunk, to)
    }

    /// The next received bytes, in order. They count against the receive buffer until
    /// [`consumed`](Self::consumed).
    pub fn recv(&mut self, handle: Handle) -> Option<ReceivedPayload<R>> {
        self.sockets.recv(&mut self.cx, handle)
    }

    /// The application has taken `bytes` received bytes: the window may open.
    pub fn consumed(&mut self, now: Instant, handle: Handle, bytes: usize) {
        self.sockets.consumed(now, handle, bytes);
    }

    /// Ends one or both directions. A listener stops listening when it is to read no more. An
    /// attempt goes on, and its FIN follows the handshake (RFC 9293 3.10.4).
    ///
    /// # Errors
    /// `NotConnected` also in TIME-WAIT, as Linux; `BadHandle`.
    pub fn shutdown(
        &mut self,
        now: Instant,
        handle: Handle,
        how: ShutdownHow,
    ) -> Result<(), Error> {
        self.sockets.shutdown(&mut self.cx, now, handle, how)
    }

    /// Sets an option. On a connection it takes effect at once, as far as it can.
    ///
    /// # Errors
    /// `Invalid` for a value out of range, and for `V6Only` on an IPv4 socket or on a socket with
    /// an address; `BadHandle`.
    pub fn set_option(
        &mut self,
        now: Instant,
        handle: Handle,
        option: SockOption,
    ) -> Result<(), Error> {
        self.sockets.set_option(&mut self.cx, now, handle, option)
    }

    /// An option's value. `MaxSeg` and `QuickAck` of a connection are the values in use.
    ///
    /// # Errors
    /// `BadHandle`.
    pub fn option(&self, handle: Handle, name: OptionName) -> Result<SockOption, Error> {
        self.sockets.option(&self.cx, handle, name)
    }

    /// TCP_INFO of a stream.
    ///
    /// # Errors
    /// `Unsupported` for a datagram socket, `BadHandle`.
    pub fn tcp_info(&self, now: Instant, handle: Handle) -> Result<TcpInfo, Error> {
        self.sockets.tcp_info(now, handle)
    }

    /// The oldest entry of a socket's error queue.
    pub fn queued_error(&self, handle: Handle) -> Option<&QueuedError> {
        self.sockets.queued_error(handle)
    }

    /// Removes the oldest entry of a socket's error queue, if it has that serial number. Gives the
    /// change of the socket's pending error that comes of it.
    pub fn take_queued_error(&mut self, handle: Handle, serial: u32) -> Option<PendingErrorChange> {
        self.sockets.take_queued_error(handle, serial)
    }

    /// Takes the error of a connection that goes on, which its socket asked for
    /// ([`SockOption::RecvErrors4`]).
    pub fn take_soft_error(&mut self, handle: Handle) -> Option<Error> {
        self.sockets.take_soft_error(handle)
    }

    /// Whether a socket asks for errors of either family.
    pub fn queues_errors(&self, handle: Handle) -> bool {
        self.sockets.queues_errors(handle)
    }

    /// A stream's congestion window, bytes. A sender's buffer should hold at least this much. 0 for
    /// a stale handle, and while the stream has nothing in flight.
    pub fn congestion_window(&self, handle: Handle) -> usize {
        self.sockets.congestion_window(handle)
    }

    /// The last byte that was queued on a stream is urgent (MSG_OOB).
    pub fn mark_urgent(&mut self, now: Instant, handle: Handle) {
        self.sockets.mark_urgent(now, handle);
    }

    /// Whether the peer of a stream has ended its stream, be all of it fetched or not.
    pub fn has_peer_ended(&self, handle: Handle) -> bool {
        self.sockets.has_peer_ended(handle)
    }

    /// Position of the newest byte that a stream's peer has marked as urgent. The first byte
    /// received is at 0. The marked byte may not have arrived yet, or `recv` may have given it out
    /// already.
    pub fn urgent_mark(&self, handle: Handle) -> Option<u64> {
        self.sockets.urgent_mark(handle)
    }

    /// The size in bytes that a stream's receive buffer should have by its application's reads.
    /// `None` if its owner has already [granted](Self::grant_recv_buffer) so much (see
    /// [`TcpConfig::recv_buffer_granted`](crate::tcp::TcpConfig::recv_buffer_granted)).
    pub fn recv_buffer_wanted(&self, handle: Handle) -> Option<usize> {
        self.sockets.recv_buffer_wanted(handle)
    }

    /// Lets a stream's receive buffer grow by itself up to `bytes`.
    pub fn grant_recv_buffer(&mut self, handle: Handle, bytes: usize) {
        self.sockets.grant_recv_buffer(handle, bytes);
    }

    /// Payload bytes that a stream has queued and never sent. With `NotSentLowat` set, its owner
    /// accepts more data only while this is less, and gets the event `Acked`. 0 for a stale handle.
    pub fn unsent(&self, handle: Handle) -> usize {
        self.sockets.unsent(handle)
    }

    /// The owner of a stream has more to send than its buffer holds, until the next
    /// [`send`](Self::send). The time counts as `TcpInfo::sndbuf_limited`.
    pub fn writer_waits(&mut self, now: Instant, handle: Handle) {
        self.sockets.writer_waits(now, handle);
    }

    /// The socket's own address; the wildcard address with port 0 if it has none.
    ///
    /// # Errors
    /// `BadHandle`.
    pub fn local_addr(&self, handle: Handle) -> Result<SocketAddr, Error> {
        self.sockets.local_addr(handle)
    }

    /// The peer's address. A connection that has ended, by a reset or by FINs of both ends, has
    /// none, as on Linux. Programs ask for it to find out whether a connection lives.
    ///
    /// # Errors
    /// `NotConnected`, `BadHandle`.
    pub fn peer_addr(&self, handle: Handle) -> Result<SocketAddr, Error> {
        self.sockets.peer_addr(handle)
    }

    /// Number of payload bytes that the owner may release, in the order of sending. A stream has
    /// had them acknowledged; a datagram socket has sent or dropped them. 0 for a stale handle.
    pub fn acked(&self, handle: Handle) -> u64 {
        self.sockets.acked(handle)
    }

    /// As [`acked`](Self::acked); `None` if no byte that was sent on the socket is needed any more:
    /// its connection is over, or the handle is stale.
    #[inline]
    pub fn acked_if_needed(&self, handle: Handle) -> Option<u64> {
        self.sockets.acked_if_needed(handle)
    }

    /// The socket's events carry `tag` from now on. Nothing happens if the handle is stale.
    pub fn set_tag(&mut self, handle: Handle, tag: u64) {
        self.sockets.set_tag(handle, tag);
    }

    /// The interfaces that have got frames with the payload of a socket since the last call. `None`
    /// for a stale handle.
    pub fn take_exits(&mut self, handle: Handle) -> Option<InterfaceSet> {
        self.sockets.take_exits(handle)
    }

    /// All sockets, connections without an owner included.
    pub fn sockets(&self) -> impl Iterator<Item = SocketInfo> {
        self.sockets.sockets()
    }

    /// [`send`](Self::send) with `options`. On streams only `more` and `eor` matter.
    ///
    /// # Errors
    /// Every error gives the chunk back. Those of `send`; `Invalid` for too many datagrams of one
    /// send; `MessageSize` if these do not fit the path; `AddrNotAvailable` for a source that is
    /// not of this host.
    pub fn send_with(
        &mut self,
        now: Instant,
        handle: Handle,
        chunk: T,
        options: &SendOptions,
    ) -> Result<(), SendError<T>> {
        self.sockets.send_with(&mut self.cx, now, handle, chunk, options)
    }

    /// Number of received datagrams that can be given on as one, and the length of each (UDP_GRO).
    /// The last one may be shorter. They have the same ends, and nothing that ancillary data shows
    /// differs. More than one together are at most `most` bytes. The owner calls `recv` for each.
    pub fn recv_run(&self, handle: Handle, most: usize) -> Option<(usize, usize)> {
        self.sockets.recv_run(handle, most)
    }
}
