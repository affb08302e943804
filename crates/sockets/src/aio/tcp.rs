//! Async `TcpStream` and `TcpListener`.

use std::future::poll_fn;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{Shutdown, SocketAddr};
use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use abi::{Errno, Family, ShutdownHow, SocketKind};
use futures_io::{AsyncRead, AsyncWrite};

use super::reactor::{Interest, Reactor};
use crate::memory::TxSlice;
use crate::request::{Reply, Request};
use crate::socket::{RecvFlags, SendFlags, Socket};
use crate::wait::Wait;

/// SOL_SOCKET, SO_REUSEADDR, IPPROTO_TCP and TCP_NODELAY, by Linux's numbers.
const SOL_SOCKET: i32 = 1;
const SO_REUSEADDR: i32 = 2;
const SO_LINGER: i32 = 13;
const IPPROTO_TCP: i32 = 6;
const IPPROTO_IPV6: i32 = 41;
const IPV6_V6ONLY: i32 = 26;
const TCP_NODELAY: i32 = 1;
/// Connections that may wait to be accepted.
const BACKLOG: u32 = 1024;

/// A socket and the reactor that it is used with; closed without waiting when dropped.
#[derive(Debug)]
pub(super) struct ReactorSocket {
    pub(super) socket: Socket,
    pub(super) reactor: Rc<Reactor>,
}

impl ReactorSocket {
    pub(super) async fn open(kind: SocketKind, addr: SocketAddr) -> Result<Self, Errno> {
        let reactor = Reactor::current()?;
        let family = if addr.is_ipv4() { Family::V4 } else { Family::V6 };
        match reactor.call(Request::socket(family, kind))?.await? {
            Reply::Socket(socket) => Ok(Self { socket, reactor }),
            _ => Err(Errno::IO),
        }
    }

    pub(super) async fn call(&self, request: Request) -> Result<Reply, Errno> {
        self.reactor.call(request)?.await
    }

    pub(super) fn poll<T>(
        &self,
        interest: Interest,
        context: &mut Context<'_>,
        attempt: impl FnMut() -> Result<T, Errno>,
    ) -> Poll<io::Result<T>> {
        let polled = self.reactor.poll_io(&self.socket, interest, context, attempt);
        polled.map_err(io::Error::from)
    }
}

impl Drop for ReactorSocket {
    fn drop(&mut self) {
        self.reactor.close(&self.socket);
    }
}

/// A TCP connection. Reading and writing may be done by two tasks, through `&AsyncTcpStream`.
#[derive(Debug)]
pub struct AsyncTcpStream(ReactorSocket);

impl AsyncTcpStream {
    /// Connects to `addr`. Dropping the future ends the attempt.
    ///
    /// # Errors
    /// As [`Socket::connect`]; NotConnected outside of [`block_on`](super::block_on).
    pub async fn connect(addr: SocketAddr) -> io::Result<Self> {
        let owned = ReactorSocket::open(SocketKind::Stream, addr).await?;
        owned.call(Request::connect(&owned.socket, addr)).await?;
        Ok(Self(owned))
    }

    /// Connects from `local` to `addr`; port 0 is any port. Dropping the future ends the attempt.
    ///
    /// # Errors
    /// As [`AsyncTcpStream::connect`]; EADDRINUSE and EADDRNOTAVAIL for `local`.
    pub async fn connect_from(local: SocketAddr, addr: SocketAddr) -> io::Result<Self> {
        let owned = ReactorSocket::open(SocketKind::Stream, addr).await?;
        let on = 1_i32.to_ne_bytes();
        let reuse = Request::set_option(&owned.socket, SOL_SOCKET, SO_REUSEADDR, &on);
        // The calls travel together; they are carried out in this order.
        let reuse = owned.reactor.call(reuse)?;
        let bind = owned.reactor.call(Request::bind(&owned.socket, local))?;
        let connect = owned.reactor.call(Request::connect(&owned.socket, addr))?;
        reuse.await?;
        bind.await?;
        connect.await?;
        Ok(Self(owned))
    }

    /// Ends the connection with a reset, as close(2) does with SO_LINGER and no time.
    pub fn abort(self) {
        let mut linger = [0; 8];
        linger[..4].copy_from_slice(&1_i32.to_ne_bytes());
        let request = Request::set_option(&self.0.socket, SOL_SOCKET, SO_LINGER, &linger);
        // Without room for the call the connection ends in order, as by drop.
        let _ = self.0.reactor.call_and_forget(request);
    }

    /// Ends reading, writing or both.
    ///
    /// # Errors
    /// NotConnected.
    pub async fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        let how = match how {
            Shutdown::Read => ShutdownHow::Read,
            Shutdown::Write => ShutdownHow::Write,
            Shutdown::Both => ShutdownHow::Both,
        };
        self.0.call(Request::shutdown(&self.0.socket, how)).await?;
        Ok(())
    }

    /// Sends small writes at once instead of gathering them (TCP_NODELAY).
    ///
    /// # Errors
    /// As [`Socket::set_option`].
    pub async fn set_nodelay(&self, on: bool) -> io::Result<()> {
        let value = i32::from(on).to_ne_bytes();
        let socket = &self.0.socket;
        self.0.call(Request::set_option(socket, IPPROTO_TCP, TCP_NODELAY, &value)).await?;
        Ok(())
    }

    /// Sends slices of areas without a copy, as soon as there is room for them. Returns their
    /// numbers. Dropping the future sends nothing, or all.
    ///
    /// # Errors
    /// As [`Socket::send_slices`].
    pub async fn send_slices(&self, slices: &[TxSlice]) -> io::Result<Range<u64>> {
        let socket = &self.0.socket;
        let send = || socket.send_slices(slices, SendFlags::default(), None, Wait::No);
        poll_fn(|context| self.0.poll(Interest::Write, context, send)).await
    }

    /// The socket underneath; options and addresses are its, and waited for.
    #[must_use]
    pub fn as_socket(&self) -> &Socket {
        &self.0.socket
    }
}

impl AsyncRead for &AsyncTcpStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_read_vectored(context, &mut [IoSliceMut::new(into)])
    }

    fn poll_read_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut [IoSliceMut<'_>],
    ) -> Poll<io::Result<usize>> {
        let socket = &self.0.socket;
        let read = || Ok(socket.recv(into, RecvFlags::default(), Wait::No)?.len);
        self.0.poll(Interest::Read, context, read)
    }
}

impl AsyncWrite for &AsyncTcpStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(from)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let socket = &self.0.socket;
        let write = || socket.send(from, SendFlags::default(), None, Wait::No);
        self.0.poll(Interest::Write, context, write)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Written bytes leave with the reactor's next iteration.
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let socket = &self.0.socket;
        let request = Request::shutdown(socket, ShutdownHow::Write);
        Poll::Ready(self.0.reactor.call_and_forget(request).map_err(io::Error::from))
    }
}

impl AsyncRead for AsyncTcpStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut &*self).poll_read(context, into)
    }

    fn poll_read_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut [IoSliceMut<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut &*self).poll_read_vectored(context, into)
    }
}

impl AsyncWrite for AsyncTcpStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut &*self).poll_write(context, from)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut &*self).poll_write_vectored(context, from)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut &*self).poll_flush(context)
    }

    fn poll_close(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut &*self).poll_close(context)
    }
}

/// A socket that accepts connections.
#[derive(Debug)]
pub struct AsyncTcpListener(ReactorSocket);

impl AsyncTcpListener {
    /// Listens on `addr`, with SO_REUSEADDR.
    ///
    /// # Errors
    /// As [`Socket::bind`]; NotConnected outside of [`block_on`](super::block_on).
    pub async fn bind(addr: SocketAddr) -> io::Result<Self> {
        Self::bind_as(addr, false).await
    }

    /// As [`AsyncTcpListener::bind`]; an IPv6 socket takes no IPv4 connections (IPV6_V6ONLY).
    ///
    /// # Errors
    /// As [`AsyncTcpListener::bind`].
    pub async fn bind_only(addr: SocketAddr) -> io::Result<Self> {
        Self::bind_as(addr, addr.is_ipv6()).await
    }

    async fn bind_as(addr: SocketAddr, v6_only: bool) -> io::Result<Self> {
        let owned = ReactorSocket::open(SocketKind::Stream, addr).await?;
        let (socket, on) = (&owned.socket, 1_i32.to_ne_bytes());
        let only = v6_only.then(|| Request::set_option(socket, IPPROTO_IPV6, IPV6_V6ONLY, &on));
        // They travel together; they are carried out in this order.
        let calls = only.into_iter().chain([
            Request::set_option(socket, SOL_SOCKET, SO_REUSEADDR, &on),
            Request::bind(socket, addr),
            Request::listen(socket, BACKLOG),
        ]);
        let mut futures = Vec::new();
        for request in calls {
            futures.push(owned.reactor.call(request)?);
        }
        for future in futures {
            future.await?;
        }
        Ok(Self(owned))
    }

    /// The next connection and its peer's address. Dropping the future leaves waiting connections
    /// to other accepts. Only a connection that was accepted at that very moment is closed.
    ///
    /// # Errors
    /// As [`Socket::accept`].
    pub async fn accept(&self) -> io::Result<(AsyncTcpStream, SocketAddr)> {
        match self.0.call(Request::accept(&self.0.socket)).await? {
            Reply::Accepted(socket, peer) => {
                let reactor = Rc::clone(&self.0.reactor);
                Ok((AsyncTcpStream(ReactorSocket { socket, reactor }), peer))
            }
            _ => Err(io::Error::from(Errno::IO)),
        }
    }

    /// The local end.
    ///
    /// # Errors
    /// As [`Socket::local_addr`].
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.0.socket.local_addr()?)
    }

    /// The socket underneath.
    #[must_use]
    pub fn as_socket(&self) -> &Socket {
        &self.0.socket
    }
}

/// Waits until `attempt` gives something else than EAGAIN.
pub(super) async fn ready<T>(
    owned: &ReactorSocket,
    interest: Interest,
    mut attempt: impl FnMut() -> Result<T, Errno>,
) -> io::Result<T> {
    poll_fn(|context| owned.poll(interest, context, &mut attempt)).await
}
