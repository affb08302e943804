//! Connecting.

use crate::bytes::{RxBytes, TxBytes};
use crate::context::Context;
use crate::error::Error;
use crate::ip;
use crate::ip::route::Path;
use crate::sockaddr::scoped;
use crate::sockets::demux::DemuxTarget;
use crate::sockets::demux::Sharing;
use crate::sockets::kinds::SocketKind;
use crate::sockets::layer::SocketLayer;
use crate::sockets::layer::time_wait::departed;
use crate::sockets::options::SocketOptions;
use crate::sockets::ports::{PairState, PortSearch, receive_addresses};
use crate::sockets::socket::{SocketBody, admit};
use crate::sockets::stream::Stream;
use crate::table::Handle;
use crate::tcp::{Connection, Endpoints};
use crate::time::Instant;
use alloc::sync::Arc;
use core::net::SocketAddr;

impl<T: TxBytes, R: RxBytes> SocketLayer<T, R> {
    /// See [`Stack::connect`](crate::Stack::connect).
    pub(crate) fn connect(
        &mut self,
        cx: &mut Context,
        now: Instant,
        handle: Handle,
        address: SocketAddr,
    ) -> Result<(), Error> {
        self.connect_plainly(cx, now, handle, address)?;
        let options = self.open_socket(handle)?.options;
        if self.connects_fast(&options) {
            self.make_fast(now, handle, true);
        }
        Ok(())
    }

    pub(super) fn connect_plainly(
        &mut self,
        cx: &mut Context,
        now: Instant,
        handle: Handle,
        address: SocketAddr,
    ) -> Result<(), Error> {
        let socket = self.open_socket(handle)?;
        let remote = admit(socket.family, &socket.options, address)?;
        match &socket.body {
            SocketBody::Listener(_) => return Err(Error::AlreadyConnected),
            SocketBody::Connection(stream) if stream.notified.connected => {
                return Err(Error::AlreadyConnected);
            }
            // As Linux: the socket looks connected until it is written to.
            SocketBody::Connection(stream) if stream.connection.deferred_room().is_some() => {
                return Err(Error::AlreadyConnected);
            }
            SocketBody::Connection(_) => return Err(Error::Already),
            _ => {}
        }
        let (kind, broadcast) = (socket.kind(), socket.options.broadcast);
        let SocketOptions { device, multicast_if, .. } = socket.options;
        // The peer's port would be one sequence number.
        if kind == SocketKind::Echo {
            return Err(Error::Unsupported);
        }
        let remote = ip::to_self(remote);
        let group_link = multicast_if.filter(|_| remote.ip().is_multicast());
        let path = cx.find(&remote, device.or(group_link))?;
        if path.is_for_many(remote.ip()) {
            if !kind.is_datagram() {
                return Err(Error::NetUnreachable);
            }
            if !broadcast && !remote.ip().is_multicast() {
                return Err(Error::Denied);
            }
        }
        let (local, by_connect) = self.choose_local(cx, now, handle, remote, &path)?;
        self.forget_peer(handle);
        self.take_address(handle, local, by_connect);
        let ends = Endpoints { local, remote };
        if kind.is_datagram() {
            self.connect_datagram(handle, ends)
        } else {
            self.connect_stream(cx, now, handle, ends, &path)
        }
    }

    fn connect_stream(
        &mut self,
        cx: &mut Context,
        now: Instant,
        handle: Handle,
        ends: Endpoints,
        path: &Path,
    ) -> Result<(), Error> {
        let reused = self.take_reusable(cx, now, &ends);
        let defaults = Arc::clone(self.tcp.config());
        let iss = reused.unwrap_or_else(|| cx.secret.isn(now, &ends));
        let offset = cx.secret.timestamp_offset(&ends);
        let known = cx.path_mtu(now, ends.remote.ip());
        let socket = self.open_socket(handle)?;
        let path = &path.narrowed(known);
        let config = socket.options.tcp_config(&defaults, path);
        let mut connection = Connection::connect(now, config, ends, iss);
        connection.set_timestamp_offset(offset);
        socket.options.apply(now, &mut connection);
        socket.body = SocketBody::Connection(Stream::new(connection, None));
        self.demux.add_connection(ends, handle);
        self.tcp.count_connect();
        self.mark_ready(handle);
        Ok(())
    }

    fn connect_datagram(&mut self, handle: Handle, ends: Endpoints) -> Result<(), Error> {
        let Some(socket) = self.sockets.get_mut(handle) else { return Err(Error::BadHandle) };
        let demux = self.demux.datagrams(socket.kind());
        receive_addresses(ends.local, socket.is_dual())
            .for_each(|address| demux.remove_bound(address, handle));
        demux.add_peer(ends, handle);
        if let Some(datagram) = socket.datagram() {
            datagram.peer = Some(ends.remote);
        }
        Ok(())
    }

    /// The local end of a connection to `remote` over `path`. If its port was chosen here, also the
    /// slot of the peer.
    fn choose_local(
        &mut self,
        cx: &mut Context,
        now: Instant,
        handle: Handle,
        remote: SocketAddr,
        path: &Path,
    ) -> Result<(SocketAddr, Option<u8>), Error> {
        let random = cx.secret.below(u32::MAX);
        let socket = self.sockets.get(handle).ok_or(Error::BadHandle)?;
        let (kind, owner) = (socket.kind(), socket.owner);
        let records = (&self.tcp, &self.owners);
        let pair = |local| {
            let ends = Endpoints { local, remote };
            if kind.is_datagram() {
                return match self.demux.datagrams_ref(kind).has_peer(&ends) {
                    true => PairState::Taken,
                    false => PairState::Free,
                };
            }
            match self.demux.target(&ends) {
                None => PairState::Free,
                Some(target) if self.tcp.reusable(now, target).is_some() => PairState::Free,
                Some(target) if departed(records, now, target).is_some() => PairState::Departed,
                Some(DemuxTarget::TimeWait(_)) => PairState::Ending,
                Some(_) => PairState::Taken,
            }
        };
        // As Linux: a datagram socket still receives at its group, a stream has an address.
        let receives_only = socket.binding.receives_only() && !kind.is_datagram();
        let named = socket.local.filter(|local| local.port() == 0 && !receives_only);
        if let Some(bound) = socket.local.filter(|local| local.port() != 0) {
            let local = match bound.ip() {
                ip if ip.is_unspecified() || receives_only => {
                    scoped(path.source, bound.port(), path.interface)
                }
                ip if ip.is_ipv4() && remote.is_ipv6() => return Err(Error::AddressFamily),
                ip if ip.is_ipv6() && remote.is_ipv4() => return Err(Error::NetUnreachable),
                _ => bound,
            };
            // As Linux: EADDRNOTAVAIL when the very connection exists, in TIME-WAIT too.
            let usable = kind.is_datagram() || pair(local) == PairState::Free;
            let by_connect = socket.claim.and_then(|claim| claim.by_connect);
            return if usable { Ok((local, by_connect)) } else { Err(Error::AddrNotAvailable) };
        }
        let source = named.map_or(path.source, |named| named.ip());
        let local = |port| scoped(source, port, path.interface);
        let search = PortSearch { kind, local: local(0), remote, owner, random };
        let (port, slot) = self.ports.free_for_connect(search, |port| pair(local(port)))?;
        Ok((local(port), Some(slot)))
    }

    /// Makes a connected datagram socket an unconnected one, but for its address.
    pub(super) fn forget_peer(&mut self, handle: Handle) {
        let Some(socket) = self.sockets.get_mut(handle) else { return };
        let (local, dual) = (socket.local, socket.is_dual());
        let (kind, sharing) = (socket.kind(), Sharing::of(&socket.options));
        let Some(datagram) = socket.datagram() else { return };
        if let (Some(local), Some(remote)) = (local, datagram.peer.take()) {
            let demux = self.demux.datagrams(kind);
            demux.remove_peer(&Endpoints { local, remote }, handle);
            receive_addresses(local, dual)
                .for_each(|address| demux.add_bound(address, handle, sharing));
        }
    }
}
