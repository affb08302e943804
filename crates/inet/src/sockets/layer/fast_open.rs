//! Fast Open (RFC 7413): connections that carry data in their SYN.

use crate::bytes::{Frame, RxBytes, RxPiece, TxBytes};
use crate::context::Context;
use crate::error::Error;
use crate::sockets::fast_open_keys::{CookieCheck, FastOpenKeys};
use crate::sockets::layer::SocketLayer;
use crate::sockets::options::SocketOptions;
use crate::sockets::socket::SocketBody;
use crate::table::Handle;
use crate::tcp::{Endpoints, FastOpenOption, SegmentRepr, Seq};
use crate::time::Instant;
use core::net::SocketAddr;

/// Bits of `TcpConfig::fastopen`.
const CLIENT: u32 = 1;
const SERVER: u32 = 2;
const CLIENT_WITHOUT_COOKIE: u32 = 4;
const SERVER_WITHOUT_COOKIE: u32 = 0x200;
const ALL_LISTENERS: u32 = 0x400;

/// Bytes of a SYN's payload that the largest possible options take. Middleboxes may add options of
/// their own.
const OPTION_SPACE: u16 = 40;

/// The outcome of Fast Open for a SYN.
pub(super) enum FastOpenDecision {
    /// Nothing: it is a request as any other.
    No,
    /// It is a request. Its SYN-ACK carries this option.
    Grant(FastOpenOption),
    /// The SYN has made a connection.
    Child,
}

impl<T: TxBytes, R: RxBytes> SocketLayer<T, R> {
    /// See [`Stack::set_fast_open_keys`](crate::Stack::set_fast_open_keys).
    pub(crate) fn set_fast_open_keys(&mut self, keys: FastOpenKeys) {
        self.tcp.set_fast_open_keys(keys);
    }

    /// See [`Stack::forget_fast_open_peers`](crate::Stack::forget_fast_open_peers).
    pub(crate) fn forget_fast_open_peers(&mut self) {
        self.tcp.forget_fast_open_peers();
    }

    /// See [`Stack::connect_fast`](crate::Stack::connect_fast), and with `defer`
    /// [`Stack::connect_deferred`](crate::Stack::connect_deferred).
    pub(crate) fn connect_fast(
        &mut self,
        cx: &mut Context,
        now: Instant,
        handle: Handle,
        address: SocketAddr,
        defer: bool,
    ) -> Result<usize, Error> {
        let socket = self.open_socket(handle)?;
        let datagram = matches!(socket.body, SocketBody::Datagram(_));
        if datagram || !self.permits_fast_clients() {
            return Err(Error::Unsupported);
        }
        self.connect_plainly(cx, now, handle, address)?;
        Ok(usize::from(self.make_fast(now, handle, defer)))
    }

    /// Makes the connection attempt that was just begun a fast one, unless Fast Open is paused.
    /// With `defer`, the SYN waits for data if the peer's cookie is known. Gives the number of data
    /// bytes that the SYN takes.
    pub(super) fn make_fast(&mut self, now: Instant, handle: Handle, defer: bool) -> u16 {
        if self.tcp.is_fast_open_paused(now) {
            return 0;
        }
        let trial = self.tcp.is_fast_open_on_trial();
        let Some(socket) = self.sockets.get_mut(handle) else { return 0 };
        let bare = self.tcp.config().fastopen & CLIENT_WITHOUT_COOKIE != 0;
        let without_cookie = bare || socket.options.fast_open_no_cookie;
        let Some(stream) = socket.connection() else { return 0 };
        let peer = stream.connection.endpoints().remote.ip();
        let own = stream.connection.durable().rcv_mss;
        let (option, mss) = self.tcp.fast_open_option(peer);
        let room = mss.unwrap_or(own).min(own).saturating_sub(OPTION_SPACE);
        let (option, room) = if without_cookie {
            (None, room)
        } else if option.cookie().is_empty() {
            (Some(option), 0)
        } else {
            (Some(option), room)
        };
        stream.connection.connect_fast(option, room, defer && room > 0);
        if trial {
            stream.connection.watch_fast_open();
        }
        room
    }

    /// Whether every `connect` of a socket uses Fast Open (TCP_FASTOPEN_CONNECT).
    pub(super) fn connects_fast(&self, options: &SocketOptions) -> bool {
        options.fast_open_connect && self.permits_fast_clients()
    }

    /// Whether `TcpConfig::fastopen` allows Fast Open for clients.
    pub(super) fn permits_fast_clients(&self) -> bool {
        self.tcp.config().fastopen & CLIENT != 0
    }

    /// See [`Stack::deferred_room`](crate::Stack::deferred_room).
    pub(crate) fn deferred_room(&self, handle: Handle) -> Option<usize> {
        match &self.sockets.get(handle)?.body {
            SocketBody::Connection(stream) => stream.connection.deferred_room(),
            _ => None,
        }
    }

    /// See [`Stack::stop_deferring`](crate::Stack::stop_deferring).
    pub(crate) fn stop_deferring(&mut self, handle: Handle) {
        if let Some(stream) = self.sockets.get_mut(handle).and_then(|socket| socket.connection()) {
            stream.connection.stop_deferring();
            self.mark_ready(handle);
        }
    }

    /// Handles a SYN to a listener. A valid cookie makes a connection at once (RFC 7413 4.2.2).
    pub(super) fn open_fast(
        &mut self,
        cx: &mut Context,
        now: Instant,
        handle: Handle,
        ends: &Endpoints,
        syn: &SegmentRepr,
        payload: &mut Option<RxPiece<Frame<R>>>,
    ) -> FastOpenDecision {
        let bits = self.tcp.config().fastopen;
        let asks = syn.fast_open.is_some_and(|option| option.cookie().is_empty());
        if asks {
            self.tcp.count_fast_asked();
        }
        let data = payload.as_ref().is_some_and(|piece| !piece.range.is_empty());
        let concerned = data || syn.fast_open.is_some();
        if bits & SERVER == 0 || !concerned || !self.has_room_for_fast(handle) {
            return FastOpenDecision::No;
        }
        let Some(options) = self.sockets.get(handle).map(|socket| socket.options) else {
            return FastOpenDecision::No;
        };
        let mut renewal = None;
        if bits & SERVER_WITHOUT_COOKIE == 0 && !options.fast_open_no_cookie {
            let Some(option) = syn.fast_open else { return FastOpenDecision::No };
            let (check, grant) = self.tcp.check_fast_open_cookie(handle, ends, &option);
            match check {
                CookieCheck::Current => {}
                CookieCheck::Other => renewal = grant,
                CookieCheck::Bad => {
                    return grant.map_or(FastOpenDecision::No, FastOpenDecision::Grant);
                }
            }
        }
        match self.add_fast_child(cx, now, handle, ends, syn, payload, &options, renewal) {
            Some(()) => FastOpenDecision::Child,
            None => {
                self.tcp.count_fast_refused();
                FastOpenDecision::No
            }
        }
    }

    /// Whether a listener may have one more fast connection whose peer has not yet acknowledged
    /// anything.
    fn has_room_for_fast(&mut self, handle: Handle) -> bool {
        let for_all = self.tcp.config().fastopen & ALL_LISTENERS != 0;
        let Some(socket) = self.sockets.get_mut(handle) else { return false };
        let asked = socket.options.fast_open;
        let SocketBody::Listener(listener) = &mut socket.body else { return false };
        let backlog = usize::from(listener.backlog);
        let most = match asked {
            Some(most) => usize::try_from(most).unwrap_or(usize::MAX).min(backlog.max(1)),
            None if for_all => backlog,
            None => 0,
        };
        if listener.fast.len() < most {
            return true;
        }
        let mut fast = core::mem::take(&mut listener.fast);
        fast.retain(|child| {
            let body = self.sockets.get(*child).map(|socket| &socket.body);
            matches!(body, Some(SocketBody::Connection(stream)) if stream.connection.is_half_open())
        });
        let room = fast.len() < most;
        self.with_listener(handle, |listener| listener.fast = fast);
        if most > 0 && !room {
            self.tcp.count_fast_overflow();
        }
        room
    }

    #[expect(clippy::too_many_arguments, reason = "a SYN, its payload, and its answer")]
    fn add_fast_child(
        &mut self,
        cx: &mut Context,
        now: Instant,
        handle: Handle,
        ends: &Endpoints,
        syn: &SegmentRepr,
        payload: &mut Option<RxPiece<Frame<R>>>,
        options: &SocketOptions,
        renewal: Option<FastOpenOption>,
    ) -> Option<()> {
        let iss: Seq = cx.secret.isn(now, ends);
        let mut connection = self.passive(cx, now, ends, syn, iss, options)?;
        let payload = payload.take().map(|piece| self.hold_unaccepted(cx, handle, piece));
        connection.accept_fast(now, payload, syn.fin, renewal);
        let child = self.add_accepted(handle, *ends, connection)?;
        if let Some(stream) = self.sockets.get_mut(child).and_then(|socket| socket.connection()) {
            stream.notified.connected = true;
        }
        self.tcp.count_fast_accepted();
        self.with_listener(handle, |listener| listener.fast.push(child));
        self.queue_accepted(handle, child);
        Some(())
    }
}
