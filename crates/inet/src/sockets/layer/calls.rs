//! Calls of a socket's owner: addresses, data, options, and questions.

use crate::bytes::{RxBytes, TxBytes};
use crate::context::Context;
use crate::error::Error;
use crate::held;
use crate::interface_id::InterfaceSet;
use crate::owner_id::OwnerId;
use crate::sockets::datagram::Datagram;
use crate::sockets::demux::Sharing;
use crate::sockets::kinds::{
    Family, ReceivedPayload, SendError, ShutdownHow, SocketInfo, SocketKind,
};
use crate::sockets::layer::SocketLayer;
use crate::sockets::local_address::{receives_only, with_link};
use crate::sockets::options::{OptionName, SockOption, SocketOptions};
use crate::sockets::ports::PortClaim;
use crate::sockets::ports::receive_addresses;
use crate::sockets::request::ConnectionRequest;
use crate::sockets::socket::{Binding, Socket, SocketBody, admit};
use crate::sockets::time_wait::TimeWaitRecord;
use crate::table::Handle;
use crate::tcp::{State, TcpInfo};
use crate::time::Instant;
use crate::udp::message::SendOptions;
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::net::SocketAddr;

impl<T: TxBytes, R: RxBytes> SocketLayer<T, R> {
    /// See [`Stack::open`](crate::Stack::open).
    pub(crate) fn open(&mut self, kind: SocketKind, tag: u64) -> Result<Handle, Error> {
        self.open_for(OwnerId::default(), Family::V4, kind, tag)
    }

    /// See [`Stack::open_for`](crate::Stack::open_for).
    pub(crate) fn open_for(
        &mut self,
        owner: OwnerId,
        family: Family,
        kind: SocketKind,
        tag: u64,
    ) -> Result<Handle, Error> {
        let (body, recv_buffer) = match kind {
            SocketKind::Stream => (SocketBody::Idle, self.config.tcp.recv_buffer),
            SocketKind::Datagram | SocketKind::UdpLite | SocketKind::Echo => {
                let datagram = Datagram::new(kind);
                (SocketBody::Datagram(Box::new(datagram)), self.config.udp_recv_buffer)
            }
        };
        let mut options = SocketOptions::new(&self.config, recv_buffer);
        // As Linux: IPv6 sockets receive only from the groups of IPv4 that they have joined.
        options.multicast_all4 = family == Family::V4;
        self.add_socket(Socket::new(tag, family, owner, options, body)).ok_or(Error::NoBuffers)
    }

    /// See [`Stack::bind`](crate::Stack::bind).
    pub(crate) fn bind(
        &mut self,
        cx: &mut Context,
        handle: Handle,
        address: SocketAddr,
    ) -> Result<(), Error> {
        let socket = self.open_socket(handle)?;
        let asked = match admit(socket.family, &socket.options, address) {
            Err(Error::NetUnreachable) => return Err(Error::Invalid),
            asked => asked?,
        };
        let named = socket.local.is_some_and(|local| local.port() != 0);
        let has_address = named || matches!(socket.body, SocketBody::Connection(_));
        if has_address && socket.family == Family::V6 {
            return Err(Error::Invalid);
        }
        let (kind, dual, reuse) = (socket.kind(), socket.is_dual(), socket.options.reuse());
        let mut options = socket.options;
        let asked = with_link(cx, kind, asked, &mut options)?;
        let receives_only = receives_only(cx, kind, &asked)?;
        // As Linux: of IPv4 after the address has been judged.
        if has_address {
            return Err(Error::Invalid);
        }
        socket.options = options;
        let (owner, device) = (socket.owner, options.device);
        let mut local = asked;
        if asked.port() == 0 {
            local.set_port(self.free_port(cx, kind, asked, dual, owner)?);
        } else if !self.ports.may_bind(kind, (asked, dual), device, reuse)
            || !self.ports.is_in_share(kind, asked, dual, owner)
        {
            return Err(Error::AddrInUse);
        }
        self.take_address(handle, local, None);
        if let Some(socket) = self.sockets.get_mut(handle) {
            socket.binding = Binding::to(&asked, receives_only);
        }
        Ok(())
    }

    fn free_port(
        &mut self,
        cx: &mut Context,
        kind: SocketKind,
        at: SocketAddr,
        dual: bool,
        owner: OwnerId,
    ) -> Result<u16, Error> {
        let offset = cx.secret.below(self.ports.ephemeral());
        self.ports.free(kind, at, dual, owner, offset)
    }

    /// Gives an unbound datagram socket or listener a port on all addresses.
    pub(super) fn bind_to_any(
        &mut self,
        cx: &mut Context,
        handle: Handle,
    ) -> Result<SocketAddr, Error> {
        let socket = self.sockets.get(handle).ok_or(Error::BadHandle)?;
        let mut local = match socket.local {
            Some(local) if local.port() != 0 => return Ok(local),
            // After a disconnect the address alone may be left.
            local => local.unwrap_or(socket.family.unbound()),
        };
        let (kind, dual, owner) = (socket.kind(), socket.is_dual(), socket.owner);
        local.set_port(self.free_port(cx, kind, local, dual, owner)?);
        self.take_address(handle, local, None);
        Ok(local)
    }

    /// Makes `local` the socket's address: claims the port and, for datagrams, receives there.
    pub(super) fn take_address(
        &mut self,
        handle: Handle,
        local: SocketAddr,
        by_connect: Option<u8>,
    ) {
        let Some(socket) = self.sockets.get_mut(handle) else { return };
        let (kind, dual, owner) = (socket.kind(), socket.is_dual(), socket.owner);
        let claim = PortClaim {
            kind,
            local,
            dual,
            device: socket.options.device,
            reuse: socket.options.reuse(),
            listening: matches!(socket.body, SocketBody::Listener(_)),
            by_connect,
        };
        if let Some(old) = socket.claim.replace(claim) {
            self.ports.release(&old, owner);
        }
        self.ports.claim(&claim, owner);
        let old = socket.local.replace(local);
        if kind.is_datagram() {
            let demux = self.demux.datagrams(kind);
            if let Some(old) = old {
                receive_addresses(old, dual)
                    .for_each(|address| demux.remove_bound(address, handle));
            }
            let sharing = Sharing::of(&socket.options);
            receive_addresses(local, dual)
                .for_each(|address| demux.add_bound(address, handle, sharing));
        }
    }

    /// Claims the port again after something that the claim says has changed.
    pub(super) fn renew_claim(&mut self, handle: Handle) {
        let Some(socket) = self.sockets.get_mut(handle) else { return };
        let listening = matches!(socket.body, SocketBody::Listener(_));
        let (owner, device) = (socket.owner, socket.options.device);
        let Some(claim) = &mut socket.claim else { return };
        self.ports.release(claim, owner);
        claim.reuse = socket.options.reuse();
        claim.device = device;
        claim.listening = listening;
        self.ports.claim(claim, owner);
    }

    /// Tells the demultiplexer how the socket shares its address, after a change.
    fn renew_sharing(&mut self, handle: Handle) {
        let Some(socket) = self.sockets.get_mut(handle) else { return };
        let (kind, dual) = (socket.kind(), socket.is_dual());
        let (sharing, local) = (Sharing::of(&socket.options), socket.local);
        let faces = local.into_iter().flat_map(|local| receive_addresses(local, dual));
        match &socket.body {
            SocketBody::Listener(_) => {
                faces.for_each(|face| self.demux.add_listener(face, handle, sharing));
            }
            SocketBody::Datagram(datagram) if datagram.peer.is_none() => {
                let demux = self.demux.datagrams(kind);
                faces.for_each(|face| demux.add_bound(face, handle, sharing));
            }
            _ => {}
        }
    }

    /// See [`Stack::send`](crate::Stack::send).
    pub(crate) fn send(
        &mut self,
        cx: &mut Context,
        now: Instant,
        handle: Handle,
        chunk: T,
        to: Option<SocketAddr>,
    ) -> Result<(), SendError<T>> {
        self.send_with(cx, now, handle, chunk, &SendOptions { to, ..SendOptions::default() })
    }

    /// See [`Stack::recv`](crate::Stack::recv).
    pub(crate) fn recv(&mut self, cx: &mut Context, handle: Handle) -> Option<ReceivedPayload<R>> {
        let socket = self.open_socket(handle).ok()?;
        match &mut socket.body {
            SocketBody::Connection(stream) => {
                let piece = stream.connection.recv().map(held::release)?;
                stream.notified.readable = stream.connection.readable_len();
                self.notify(cx, handle);
                Some(ReceivedPayload { piece, from: None, info: None })
            }
            SocketBody::Datagram(datagram) => {
                let (piece, info) = datagram.recv.pop()?;
                let from = Some(socket.family.show(info.from));
                Some(ReceivedPayload { piece: held::release(piece), from, info: Some(info) })
            }
            _ => None,
        }
    }

    /// See [`Stack::consumed`](crate::Stack::consumed).
    pub(crate) fn consumed(&mut self, now: Instant, handle: Handle, bytes: usize) {
        let Ok(socket) = self.open_socket(handle) else { return };
        match &mut socket.body {
            SocketBody::Connection(stream) => {
                stream.connection.consumed(now, bytes);
                self.mark_ready(handle);
            }
            SocketBody::Datagram(datagram) => datagram.recv.consumed(bytes),
            _ => {}
        }
    }

    /// See [`Stack::shutdown`](crate::Stack::shutdown).
    pub(crate) fn shutdown(
        &mut self,
        cx: &mut Context,
        now: Instant,
        handle: Handle,
        how: ShutdownHow,
    ) -> Result<(), Error> {
        let socket = self.open_socket(handle)?;
        match &mut socket.body {
            SocketBody::Connection(stream)
                if !stream.connection.is_done() && stream.connection.state() != State::TimeWait =>
            {
                if how != ShutdownHow::Read {
                    stream.connection.shutdown_write(now);
                }
                if how != ShutdownHow::Write {
                    stream.read_shut = true;
                    stream.connection.shutdown_read();
                }
                self.update(cx, now, handle);
                self.mark_ready(handle);
                Ok(())
            }
            // As Linux: what a listener will not send is nothing to it.
            SocketBody::Listener(_) if how == ShutdownHow::Write => Ok(()),
            SocketBody::Listener(_) => {
                self.stop_listening(cx, now, handle);
                Ok(())
            }
            SocketBody::Datagram(datagram) if datagram.peer.is_some() => Ok(()),
            _ => Err(Error::NotConnected),
        }
    }

    /// See [`Stack::set_option`](crate::Stack::set_option).
    pub(crate) fn set_option(
        &mut self,
        cx: &mut Context,
        now: Instant,
        handle: Handle,
        option: SockOption,
    ) -> Result<(), Error> {
        let defaults = Arc::clone(self.tcp.config());
        if matches!(option, SockOption::FastOpenConnect(_)) && !self.permits_fast_clients() {
            return Err(Error::Unsupported);
        }
        let socket = self.open_socket(handle)?;
        let v6_only = matches!(option, SockOption::V6Only(_));
        if v6_only && (socket.family == Family::V4 || socket.local.is_some()) {
            return Err(Error::Invalid);
        }
        if let SockOption::FastOpenKeys(keys) = option {
            self.tcp.set_own_fast_open_keys(handle, keys);
            return Ok(());
        }
        // As Linux: once there is a connection or a listener, its clamp stays one.
        let unclamps = option == SockOption::WindowClamp(0);
        if unclamps && !matches!(socket.body, SocketBody::Idle)
            || !socket.options.set(&defaults, option)
        {
            return Err(Error::Invalid);
        }
        let options = socket.options;
        if let SocketBody::Listener(listener) = &mut socket.body {
            listener.defer = options.defer_accept;
        }
        if let Some(stream) = socket.connection() {
            let connection = &mut stream.connection;
            match option {
                SockOption::NoDelay(on) => connection.set_nodelay(now, on),
                SockOption::Cork(on) => connection.set_cork(now, on),
                SockOption::RecvBuffer(bytes) => connection.set_recv_buffer(now, bytes),
                SockOption::QuickAck(on) => connection.set_quick_ack(on),
                SockOption::WindowClamp(_) => connection.set_window_clamp(options.window_clamp),
                SockOption::SynCount(count) => connection.set_syn_retries(count),
                SockOption::Linger2(time) => connection.set_fin_timeout(time),
                SockOption::Congestion(kind) => connection.set_congestion_control(now, kind),
                SockOption::UserTimeout(_) => connection.set_user_timeout(options.user_timeout()),
                SockOption::KeepAlive(_)
                | SockOption::KeepIdle(_)
                | SockOption::KeepInterval(_)
                | SockOption::KeepCount(_) => connection.set_keep_alive(now, options.probing()),
                _ => {}
            }
            self.mark_ready(handle);
        }
        match option {
            SockOption::ReuseAddr(_) | SockOption::ReusePort(_) => self.renew_claim(handle),
            SockOption::BindToDevice(_) => {
                self.renew_claim(handle);
                self.renew_sharing(handle);
            }
            SockOption::RecvLowat(_) => self.notify(cx, handle),
            SockOption::Cork(false) => self.uncork_datagram(cx, now, handle),
            SockOption::RecvErrors4(false) | SockOption::RecvErrors6(false) => {
                self.clear_errors(handle);
            }
            _ => {}
        }
        Ok(())
    }

    /// See [`Stack::option`](crate::Stack::option).
    pub(crate) fn option(
        &self,
        cx: &Context,
        handle: Handle,
        name: OptionName,
    ) -> Result<SockOption, Error> {
        let socket = self.open_socket_ref(handle)?;
        Ok(match (name, &socket.body) {
            (OptionName::MaxSeg, SocketBody::Connection(stream)) => {
                let mss = u16::try_from(stream.connection.send_mss()).unwrap_or(u16::MAX);
                SockOption::MaxSeg(mss)
            }
            (OptionName::RecvBuffer, SocketBody::Connection(stream)) => {
                SockOption::RecvBuffer(stream.connection.recv_buffer())
            }
            (OptionName::QuickAck, SocketBody::Connection(stream)) => {
                SockOption::QuickAck(stream.connection.quick_ack())
            }
            // As Linux: the value that would be used.
            (OptionName::UnicastHops, _) => {
                let hops = socket.options.unicast_hops.unwrap_or(cx.ip.default_hop_limit());
                SockOption::UnicastHops(Some(hops))
            }
            _ => {
                let keys = self.tcp.fast_open_keys(handle);
                socket.options.get(self.tcp.config(), keys, name)
            }
        })
    }

    /// See [`Stack::tcp_info`](crate::Stack::tcp_info).
    pub(crate) fn tcp_info(&self, now: Instant, handle: Handle) -> Result<TcpInfo, Error> {
        match &self.open_socket_ref(handle)?.body {
            SocketBody::Connection(stream) => Ok(stream.connection.info(now)),
            SocketBody::Datagram(_) => Err(Error::Unsupported),
            // As Linux: a listener's backlog is where a connection has its counts of segments.
            SocketBody::Listener(listener) => Ok(TcpInfo {
                state: 10,
                unacked: u32::try_from(listener.queued()).unwrap_or(u32::MAX),
                sacked: u32::from(listener.backlog),
                ..TcpInfo::default()
            }),
            _ => Ok(TcpInfo { state: 7, ..TcpInfo::default() }),
        }
    }

    /// See [`Stack::congestion_window`](crate::Stack::congestion_window).
    pub(crate) fn congestion_window(&self, handle: Handle) -> usize {
        match self.sockets.get(handle).map(|socket| &socket.body) {
            Some(SocketBody::Connection(stream)) if !stream.connection.is_dormant() => {
                stream.connection.congestion_window()
            }
            _ => 0,
        }
    }

    /// See [`Stack::mark_urgent`](crate::Stack::mark_urgent).
    pub(crate) fn mark_urgent(&mut self, now: Instant, handle: Handle) {
        if let Some(stream) = self.sockets.get_mut(handle).and_then(|socket| socket.connection()) {
            stream.connection.mark_urgent(now);
            self.mark_ready(handle);
        }
    }

    /// See [`Stack::has_peer_ended`](crate::Stack::has_peer_ended).
    pub(crate) fn has_peer_ended(&self, handle: Handle) -> bool {
        match self.sockets.get(handle).map(|socket| &socket.body) {
            Some(SocketBody::Connection(stream)) => stream.connection.has_peer_ended(),
            _ => false,
        }
    }

    /// See [`Stack::urgent_mark`](crate::Stack::urgent_mark).
    pub(crate) fn urgent_mark(&self, handle: Handle) -> Option<u64> {
        match self.sockets.get(handle).map(|socket| &socket.body) {
            Some(SocketBody::Connection(stream)) if !stream.connection.is_dormant() => {
                stream.connection.urgent_mark()
            }
            _ => None,
        }
    }

    /// See [`Stack::recv_buffer_wanted`](crate::Stack::recv_buffer_wanted).
    pub(crate) fn recv_buffer_wanted(&self, handle: Handle) -> Option<usize> {
        match self.sockets.get(handle).map(|socket| &socket.body) {
            Some(SocketBody::Connection(stream)) if !stream.connection.is_dormant() => {
                stream.connection.recv_buffer_wanted()
            }
            _ => None,
        }
    }

    /// See [`Stack::grant_recv_buffer`](crate::Stack::grant_recv_buffer).
    pub(crate) fn grant_recv_buffer(&mut self, handle: Handle, bytes: usize) {
        if let Some(stream) = self.sockets.get_mut(handle).and_then(|socket| socket.connection()) {
            stream.connection.grant_recv_buffer(bytes);
            self.mark_ready(handle);
        }
    }

    /// See [`Stack::unsent`](crate::Stack::unsent).
    pub(crate) fn unsent(&self, handle: Handle) -> usize {
        match self.sockets.get(handle).map(|socket| &socket.body) {
            Some(SocketBody::Connection(stream)) => stream.connection.unsent_len(),
            _ => 0,
        }
    }

    /// See [`Stack::writer_waits`](crate::Stack::writer_waits).
    pub(crate) fn writer_waits(&mut self, now: Instant, handle: Handle) {
        if let Ok(socket) = self.open_socket(handle)
            && let Some(stream) = socket.connection()
        {
            stream.connection.set_writer_waits(now);
        }
    }

    /// See [`Stack::local_addr`](crate::Stack::local_addr).
    pub(crate) fn local_addr(&self, handle: Handle) -> Result<SocketAddr, Error> {
        let socket = self.open_socket_ref(handle)?;
        let mut shown = socket.local.unwrap_or(socket.family.unbound());
        if shown.port() == 0 {
            shown.set_port(socket.rare.as_ref().map_or(0, |rare| rare.former_port));
        }
        Ok(socket.family.show(shown))
    }

    /// See [`Stack::peer_addr`](crate::Stack::peer_addr).
    pub(crate) fn peer_addr(&self, handle: Handle) -> Result<SocketAddr, Error> {
        let socket = self.open_socket_ref(handle)?;
        let peer = match &socket.body {
            SocketBody::Connection(stream) if stream.notified.connected => {
                let over = matches!(stream.connection.state(), State::TimeWait | State::Closed);
                Some(stream.connection.endpoints().remote).filter(|_| !over)
            }
            // As Linux: a peer without a port has no name.
            SocketBody::Datagram(datagram) => datagram.peer.filter(|peer| peer.port() != 0),
            _ => None,
        };
        peer.map(|peer| socket.family.show(peer)).ok_or(Error::NotConnected)
    }

    /// See [`Stack::acked`](crate::Stack::acked).
    pub(crate) fn acked(&self, handle: Handle) -> u64 {
        self.acked_if_needed(handle).unwrap_or(0)
    }

    /// See [`Stack::acked_if_needed`](crate::Stack::acked_if_needed).
    #[inline]
    pub(crate) fn acked_if_needed(&self, handle: Handle) -> Option<u64> {
        match &self.sockets.get(handle)?.body {
            SocketBody::Connection(stream) => Some(stream.connection.acked()),
            SocketBody::Datagram(datagram) => Some(datagram.send.released()),
            _ => None,
        }
    }

    /// See [`Stack::set_tag`](crate::Stack::set_tag).
    pub(crate) fn set_tag(&mut self, handle: Handle, tag: u64) {
        if let Some(socket) = self.sockets.get_mut(handle) {
            socket.tag = tag;
        }
    }

    /// See [`Stack::take_exits`](crate::Stack::take_exits).
    pub(crate) fn take_exits(&mut self, handle: Handle) -> Option<InterfaceSet> {
        self.sockets.get_mut(handle).map(|socket| core::mem::take(&mut socket.exits))
    }

    /// See [`Stack::sockets`](crate::Stack::sockets).
    pub(crate) fn sockets(&self) -> impl Iterator<Item = SocketInfo> {
        let requests = self.tcp.requests().filter_map(|request| self.request_info(request));
        let sockets = self.sockets.iter().filter_map(|(_, socket)| {
            let (state, recv_q, send_q, peer) = match &socket.body {
                SocketBody::Gone => return None,
                SocketBody::Idle => ("UNCONN", 0, 0, None),
                SocketBody::Listener(listener) => {
                    ("LISTEN", listener.queued(), usize::from(listener.backlog), None)
                }
                SocketBody::Connection(stream) => {
                    let connection = &stream.connection;
                    let peer = Some(connection.endpoints().remote);
                    let (received, sent) = (connection.unconsumed_len(), connection.unacked_len());
                    (connection.state().name(), received, sent, peer)
                }
                SocketBody::Datagram(datagram) => {
                    let state = if datagram.peer.is_some() { "ESTAB" } else { "UNCONN" };
                    let (recv, send) = (&datagram.recv, &datagram.send);
                    (state, recv.bytes(), send.pending_bytes(), datagram.peer)
                }
            };
            let unbound = socket.family.unbound();
            Some(SocketInfo {
                tag: socket.tag,
                kind: socket.kind(),
                state,
                recv_q,
                send_q,
                local: socket.family.show(socket.local.unwrap_or(unbound)),
                peer: socket.family.show(peer.unwrap_or(unbound)),
            })
        });
        sockets.chain(requests).chain(self.tcp.time_waits().map(TimeWaitRecord::info))
    }

    fn request_info(&self, request: &ConnectionRequest) -> Option<SocketInfo> {
        let listener = self.sockets.get(request.listener)?;
        Some(SocketInfo {
            tag: listener.tag,
            kind: SocketKind::Stream,
            state: State::SynReceived.name(),
            recv_q: 0,
            send_q: 0,
            local: listener.family.show(request.ends.local),
            peer: listener.family.show(request.ends.remote),
        })
    }

    /// A socket that its owner may use.
    pub(super) fn open_socket(&mut self, handle: Handle) -> Result<&mut Socket<T, R>, Error> {
        self.sockets.get_mut(handle).filter(|socket| socket.is_open()).ok_or(Error::BadHandle)
    }

    fn open_socket_ref(&self, handle: Handle) -> Result<&Socket<T, R>, Error> {
        self.sockets.get(handle).filter(|socket| socket.is_open()).ok_or(Error::BadHandle)
    }
}
