//! Which datagrams can be sent, and how: checks at the time of the send, and those of a datagram
//! that is made of several sends (MSG_MORE, UDP_CORK).

use crate::bytes::{RxBytes, TxBytes};
use crate::context::Context;
use crate::error::Error;
use crate::ip;
use crate::ip::route::Path;
use crate::sockets::kinds::SocketKind;
use crate::sockets::layer::SocketLayer;
use crate::sockets::layer::datagram_output::datagram_path;
use crate::sockets::socket::{Socket, admit};
use crate::table::Handle;
use crate::time::Instant;
use crate::udp::message::{DatagramParameters, SendOptions};
use crate::udp::wire;
use core::net::SocketAddr;

/// Most datagrams into which one send is segmented, as Linux's UDP_MAX_SEGMENTS.
const MOST_SEGMENTS: usize = 128;

impl<T: TxBytes, R: RxBytes> SocketLayer<T, R> {
    /// Checks whether `len` bytes can be sent. Gives the parameters to send them with.
    pub(super) fn check_datagram(
        &mut self,
        cx: &mut Context,
        now: Instant,
        handle: Handle,
        len: usize,
        params: &SendOptions,
    ) -> Result<DatagramParameters, Error> {
        let most = self.config.udp_queue;
        let socket = self.open_socket(handle)?;
        let (local, corked) = (socket.source(), params.more || socket.options.cork);
        let Some(datagram) = socket.datagram() else { return Err(Error::Invalid) };
        let connected = datagram.peer.is_some();
        // Bytes added to a corked datagram go where its first part goes, and as that one says.
        let (message, so_far) = match datagram.send.open() {
            Some(outgoing) => (outgoing.message, outgoing.len()),
            None => (parameters(cx, socket, most, params)?, 0),
        };
        let (to, options) = (message.to, &socket.options);
        let path = datagram_path(cx, now, (&message, local), options)?;
        if path.is_for_many(to.ip()) && !to.ip().is_multicast() && !options.broadcast {
            return Err(Error::Denied);
        }
        let refuses = options.mtu_discover.refuses() || cx.protects(&to);
        let fits = check_length(&path, &message, so_far + len, (refuses, corked));
        if fits == Err(Error::MessageSize) && options.queues_errors(to.is_ipv6()) {
            let mut destination = to;
            // As Linux, which takes the port of an IPv4 destination from the socket.
            if to.is_ipv4() && params.to.is_some() && !connected {
                destination.set_port(0);
            }
            self.queue_local_error(handle, Error::MessageSize, destination, path.mtu.into());
        }
        fits?;
        self.bind_to_any(cx, handle)?;
        Ok(message)
    }

    /// Ends the datagram of which more was to come: the socket is not corked any more. As on Linux
    /// one that cannot be sent is lost without an error.
    pub(super) fn uncork_datagram(&mut self, cx: &mut Context, now: Instant, handle: Handle) {
        let Some(socket) = self.sockets.get_mut(handle) else { return };
        let (options, source) = (socket.options, socket.source());
        let Some(datagram) = socket.datagram().filter(|_| !options.cork) else { return };
        if let Some(outgoing) = datagram.send.open() {
            let (message, len) = (outgoing.message, outgoing.len());
            let refuses = options.mtu_discover.refuses() || cx.protects(&message.to);
            let fits = datagram_path(cx, now, (&message, source), &options)
                .and_then(|path| check_length(&path, &message, len, (refuses, false)));
            if fits.is_err() {
                return self.drop_corked(cx, handle);
            }
        }
        if let Some(datagram) = self.sockets.get_mut(handle).and_then(Socket::datagram) {
            datagram.send.cork(false);
            self.mark_ready(handle);
        }
    }

    /// Drops the datagram of which more was to come, if there is one.
    pub(super) fn drop_corked(&mut self, cx: &mut Context, handle: Handle) {
        let datagram = self.sockets.get_mut(handle).and_then(Socket::datagram);
        if let Some(number) = datagram.and_then(|datagram| datagram.send.take_open()) {
            self.datagram_done(cx, handle, number, None);
        }
    }
}

/// The parameters of a new datagram. `most`: the datagrams that a socket's queue may hold.
#[inline]
fn parameters<T: TxBytes, R: RxBytes>(
    cx: &Context,
    socket: &mut Socket<T, R>,
    most: usize,
    params: &SendOptions,
) -> Result<DatagramParameters, Error> {
    let Some(datagram) = socket.datagram() else { return Err(Error::Invalid) };
    let (kind, peer, queued) = (datagram.kind, datagram.peer, datagram.send.len());
    let options = &socket.options;
    let to = match params.to {
        Some(to) => ip::to_self(admit(socket.family, options, to)?),
        None => peer.ok_or(Error::DestinationRequired)?,
    };
    if queued >= most {
        return Err(Error::NoBuffers);
    }
    let nowhere = params.to.is_some() && to.port() == 0 && kind != SocketKind::Echo;
    if nowhere || params.ttl == Some(0) {
        return Err(Error::Invalid);
    }
    check_families(socket.local, socket.binding.names_address(), &to)?;
    let source = params.source.filter(|source| !source.is_unspecified());
    if source.is_some_and(|source| {
        source.is_ipv4() != to.is_ipv4() || !cx.link.interfaces().is_ours(source)
    }) {
        return Err(Error::AddrNotAvailable);
    }
    let segment = if params.segment == 0 { options.udp_segment } else { params.segment };
    // As Linux, which has this for UDP alone.
    if segment != 0 && kind != SocketKind::Datagram {
        return Err(Error::Invalid);
    }
    let SendOptions { interface, ttl, tos, .. } = *params;
    Ok(DatagramParameters { to, source, interface, ttl, tos, segment })
}

/// A socket with an address of IPv4 sends to that family alone, one that was bound to an address of
/// IPv6 to the other one alone. As on Linux the address of a connection does not matter there.
fn check_families(
    local: Option<SocketAddr>,
    names_address: bool,
    to: &SocketAddr,
) -> Result<(), Error> {
    match local {
        Some(local) if local.is_ipv4() && to.is_ipv6() => Err(Error::AddressFamily),
        Some(local) if local.is_ipv6() && to.is_ipv4() && names_address => {
            Err(Error::NetUnreachable)
        }
        _ => Ok(()),
    }
}

/// Whether `len` bytes of payload can be sent over `path`, in one packet, in fragments, or
/// segmented. `refuses`: one that is longer than a packet is not sent in fragments. `corked`: more
/// of it follows, and segments are counted when all of it is there, as on Linux.
fn check_length(
    path: &Path,
    message: &DatagramParameters,
    len: usize,
    (refuses, corked): (bool, bool),
) -> Result<(), Error> {
    let header = ip::header_len(message.to.ip());
    let counted = if message.to.is_ipv4() { header } else { 0 };
    let fits = |payload: usize| header + wire::HEADER + payload <= usize::from(path.mtu);
    if counted + wire::HEADER + len > usize::from(u16::MAX) {
        return Err(Error::MessageSize);
    }
    match usize::from(message.segment) {
        0 if refuses && !fits(len) => Err(Error::MessageSize),
        0 => Ok(()),
        _ if corked => Ok(()),
        // As Linux: the datagrams of a split payload are not fragmented.
        segment if !fits(segment.min(len)) => Err(Error::MessageSize),
        segment if len.div_ceil(segment) > MOST_SEGMENTS => Err(Error::Invalid),
        _ => Ok(()),
    }
}
