//! Calls that begin and end connections, and those about groups.

use super::state::Stack;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

use crate::bytes::{RxBytes, TxBytes};
use crate::error::Error;
use crate::interface_id::InterfaceId;
use crate::ip::groups::FilterMode;
use crate::sockets::fast_open_keys::FastOpenKeys;
use crate::table::Handle;
use crate::time::Instant;

impl<T: TxBytes, R: RxBytes> Stack<T, R> {
    /// Starts connecting a stream, or sets a datagram socket's peer. A stream's outcome is an event
    /// (`Connected` or `Failed`). A wildcard address with port 0 removes a datagram socket's peer
    /// and leaves it bound.
    ///
    /// # Errors
    /// `Already` while an attempt is under way. `AlreadyConnected`. `NetUnreachable` without a
    /// route. `AddrNotAvailable` for port 0, or if no local port is left. `Unsupported` for IPv6 on
    /// an IPv4 socket. `Denied` for a broadcast address without permission. `BadHandle`.
    pub fn connect(
        &mut self,
        now: Instant,
        handle: Handle,
        address: SocketAddr,
    ) -> Result<(), Error> {
        self.sockets.connect(&mut self.cx, now, handle, address)
    }

    /// Makes a stream socket a listener, or changes a listener's backlog: up to `backlog` + 1
    /// connections wait to be accepted.
    ///
    /// # Errors
    /// `Unsupported` for datagrams, `Invalid` if it is connected, `AddrInUse` if another one
    /// listens there, `BadHandle`.
    pub fn listen(&mut self, handle: Handle, backlog: u16) -> Result<(), Error> {
        self.sockets.listen(&mut self.cx, handle, backlog)
    }

    /// The next connection and its peer; `None` if none waits. The connection's events carry `tag`
    /// from now on.
    ///
    /// # Errors
    /// `Invalid` if the socket does not listen, `BadHandle`.
    pub fn accept(
        &mut self,
        handle: Handle,
        tag: u64,
    ) -> Result<Option<(Handle, SocketAddr)>, Error> {
        self.sockets.accept(&mut self.cx, handle, tag)
    }

    /// Closes the socket in the background: queued data is sent, then the stream is ended. With
    /// received bytes not consumed, or a linger time of zero, this is [`abort`](Self::abort). The
    /// handle is not usable any more. The event `Closed` follows when the socket's bytes are
    /// released.
    ///
    /// # Errors
    /// `BadHandle`.
    pub fn close(&mut self, now: Instant, handle: Handle) -> Result<(), Error> {
        self.sockets.close(&mut self.cx, now, handle)
    }

    /// Ends the socket at once: a connection's peer gets a RST, and queued bytes are dropped.
    ///
    /// # Errors
    /// `BadHandle`.
    pub fn abort(&mut self, now: Instant, handle: Handle) -> Result<(), Error> {
        self.sockets.abort(&mut self.cx, now, handle)
    }

    /// Takes away a socket's peer, as `connect` with AF_UNSPEC does: the socket is as it was after
    /// `bind`. A connection is reset, a listener stops listening. Gives whether a connection, or an
    /// attempt, was cut short.
    ///
    /// # Errors
    /// `BadHandle`.
    pub fn disconnect(&mut self, now: Instant, handle: Handle) -> Result<bool, Error> {
        self.sockets.disconnect(&mut self.cx, now, handle)
    }

    /// Ends the sockets that were closed and still have bytes to send or to be acknowledged, those
    /// whose tag `is_meant`: peers get RSTs, and queued bytes are dropped. Looks at all sockets.
    pub fn abort_closed(&mut self, now: Instant, is_meant: impl Fn(u64) -> bool) {
        self.sockets.abort_closed(&mut self.cx, now, is_meant);
    }

    /// Sets the keys of Fast Open cookies of all listeners that have none of their own
    /// ([`SockOption::FastOpenKeys`](crate::SockOption)).
    pub fn set_fast_open_keys(&mut self, keys: FastOpenKeys) {
        self.sockets.set_fast_open_keys(keys);
    }

    /// Forgets all cookies and other Fast Open state of peers.
    pub fn forget_fast_open_peers(&mut self) {
        self.sockets.forget_fast_open_peers();
    }

    /// Starts connecting a stream with Fast Open (MSG_FASTOPEN). Gives the number of bytes that
    /// leave with the SYN if they are [sent](Self::send) before the next `poll`. It is 0 if the
    /// peer's cookie is unknown: the SYN then asks for one.
    ///
    /// # Errors
    /// `Unsupported` if `TcpConfig::fastopen` does not allow it, or for datagrams; else those of
    /// [`connect`](Self::connect).
    pub fn connect_fast(
        &mut self,
        now: Instant,
        handle: Handle,
        address: SocketAddr,
    ) -> Result<usize, Error> {
        self.sockets.connect_fast(&mut self.cx, now, handle, address, false)
    }

    /// [`connect_fast`](Self::connect_fast), but the SYN waits for data if the peer's cookie is
    /// known ([`deferred_room`](Self::deferred_room)), as after `connect` with `FastOpenConnect`.
    ///
    /// # Errors
    /// Those of [`connect_fast`](Self::connect_fast).
    pub fn connect_deferred(
        &mut self,
        now: Instant,
        handle: Handle,
        address: SocketAddr,
    ) -> Result<usize, Error> {
        self.sockets.connect_fast(&mut self.cx, now, handle, address, true)
    }

    /// Number of bytes that a deferred SYN takes; `None` if no SYN waits for data. To its owner
    /// such a connection looks connected, because only a write lets the attempt proceed.
    pub fn deferred_room(&self, handle: Handle) -> Option<usize> {
        self.sockets.deferred_room(handle)
    }

    /// The owner of a connection attempt that waits for data has none: its SYN leaves without.
    pub fn stop_deferring(&mut self, handle: Handle) {
        self.sockets.stop_deferring(handle);
    }

    /// The MTU of the path to a connected socket's peer (IP_MTU, IPV6_MTU), bytes.
    ///
    /// # Errors
    /// `NotConnected`, `BadHandle`; `NetUnreachable` if there is no way there any more.
    pub fn path_mtu(&mut self, now: Instant, handle: Handle) -> Result<u16, Error> {
        self.sockets.path_mtu(&mut self.cx, now, handle)
    }

    /// Lets a datagram socket receive what is sent to `group` on `interface` (IP_ADD_MEMBERSHIP,
    /// MCAST_JOIN_GROUP). Without `interface`, the socket's own choice counts, else the routing
    /// table's.
    ///
    /// # Errors
    /// `AddrInUse` if it does already; those of [`set_group_filter`](Self::set_group_filter).
    pub fn join_group(
        &mut self,
        now: Instant,
        handle: Handle,
        group: IpAddr,
        interface: Option<InterfaceId>,
    ) -> Result<(), Error> {
        self.sockets.join_group(&mut self.cx, now, handle, group, interface)
    }

    /// Ends that (IP_DROP_MEMBERSHIP, MCAST_LEAVE_GROUP).
    ///
    /// # Errors
    /// `AddrNotAvailable` if the socket is no member; `Invalid`, `BadHandle`.
    pub fn leave_group(
        &mut self,
        now: Instant,
        handle: Handle,
        group: IpAddr,
        interface: Option<InterfaceId>,
    ) -> Result<(), Error> {
        self.sockets.leave_group(&mut self.cx, now, handle, group, interface)
    }

    /// Sets the sources that a member of `group` receives from: only `sources`, or all but these
    /// (MCAST_MSFILTER, and the calls for single sources). To include no source is to leave.
    ///
    /// # Errors
    /// `Invalid` if `group` is no group of the socket's family. `Unsupported` on a stream.
    /// `AddrNotAvailable` without such an interface. `NoBuffers` for too many groups or sources.
    /// `BadHandle`.
    pub fn set_group_filter(
        &mut self,
        now: Instant,
        handle: Handle,
        group: IpAddr,
        interface: Option<InterfaceId>,
        mode: FilterMode,
        sources: &[IpAddr],
    ) -> Result<(), Error> {
        self.sockets.set_group_filter(&mut self.cx, now, handle, group, interface, mode, sources)
    }

    /// The filter of a member; `None` if the socket is none.
    pub fn group_filter(
        &mut self,
        handle: Handle,
        group: IpAddr,
        interface: Option<InterfaceId>,
    ) -> Option<(FilterMode, Vec<IpAddr>)> {
        self.sockets.group_filter(&mut self.cx, handle, group, interface)
    }
}
