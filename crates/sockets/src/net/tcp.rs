//! `TcpStream` and `TcpListener`.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::{Shutdown, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use abi::{Errno, ShutdownHow, SocketKind};

use super::shared::{IPPROTO_TCP, SO_REUSEADDR, SOL_SOCKET, SharedSocket, TCP_NODELAY};
use super::shared::{common_methods, connect, each_address, timeout_methods};
use crate::client::Client;
use crate::instance::instance;
use crate::socket::{RecvFlags, SendFlags};
use crate::wait::Wait;

/// Connections that may wait to be accepted, as std has it.
const BACKLOG: u32 = 128;

/// A TCP connection; see `std::net::TcpStream`.
#[derive(Debug)]
pub struct TcpStream(Arc<SharedSocket>);

impl TcpStream {
    common_methods!();
    timeout_methods!();

    /// Connects to the first of `addr`'s addresses that answers.
    ///
    /// # Errors
    /// The last address's error, or why this process has no client.
    pub fn connect(addr: impl ToSocketAddrs) -> io::Result<Self> {
        Self::connect_via(&instance()?, addr)
    }

    /// [`TcpStream::connect`] as `client`.
    ///
    /// # Errors
    /// The last address's error.
    pub fn connect_via(client: &Arc<Client>, addr: impl ToSocketAddrs) -> io::Result<Self> {
        each_address(addr, |addr| {
            let shared = SharedSocket::open(client, SocketKind::Stream, addr)?;
            connect(&shared.socket, addr, Wait::Forever)?;
            Ok(Self(shared))
        })
    }

    /// Connects within `limit`.
    ///
    /// # Errors
    /// As [`TcpStream::connect`]; TimedOut when the time is over, InvalidInput when it is zero.
    pub fn connect_timeout(addr: &SocketAddr, limit: Duration) -> io::Result<Self> {
        Self::connect_timeout_via(&instance()?, addr, limit)
    }

    /// [`TcpStream::connect_timeout`] as `client`.
    ///
    /// # Errors
    /// As there.
    pub fn connect_timeout_via(
        client: &Arc<Client>,
        addr: &SocketAddr,
        limit: Duration,
    ) -> io::Result<Self> {
        if limit.is_zero() {
            let message = "a timeout of zero is not possible";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let shared = SharedSocket::open(client, SocketKind::Stream, *addr)?;
        match connect(&shared.socket, *addr, Wait::at_most(Some(limit))) {
            Err(Errno::INPROGRESS | Errno::ALREADY) => {
                Err(io::Error::new(io::ErrorKind::TimedOut, "connection timed out"))
            }
            other => other.map(|()| Self(shared)).map_err(io::Error::from),
        }
    }

    /// The peer's address.
    ///
    /// # Errors
    /// NotConnected.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.0.socket.peer_addr()?)
    }

    /// Ends reading, writing or both, for all clones.
    ///
    /// # Errors
    /// NotConnected.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        let how = match how {
            Shutdown::Read => ShutdownHow::Read,
            Shutdown::Write => ShutdownHow::Write,
            Shutdown::Both => ShutdownHow::Both,
        };
        Ok(self.0.socket.shutdown(how)?)
    }

    /// Reads without taking: the next read gives the same bytes.
    ///
    /// # Errors
    /// As reading.
    pub fn peek(&self, into: &mut [u8]) -> io::Result<usize> {
        let bufs = &mut [IoSliceMut::new(into)];
        let peek = RecvFlags { peek: true };
        Ok(self.0.socket.recv(bufs, peek, self.0.read_wait())?.len)
    }

    /// Sends small writes at once instead of gathering them (TCP_NODELAY).
    ///
    /// # Errors
    /// As [`crate::Socket::set_option`].
    pub fn set_nodelay(&self, on: bool) -> io::Result<()> {
        self.0.set_flag(IPPROTO_TCP, TCP_NODELAY, on)
    }

    /// Is TCP_NODELAY set?
    ///
    /// # Errors
    /// As [`crate::Socket::option`].
    pub fn nodelay(&self) -> io::Result<bool> {
        self.0.flag(IPPROTO_TCP, TCP_NODELAY)
    }
}

impl Read for &TcpStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.read_vectored(&mut [IoSliceMut::new(into)])
    }

    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        Ok(self.0.socket.recv(bufs, RecvFlags::default(), self.0.read_wait())?.len)
    }
}

impl Write for &TcpStream {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(from)])
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        Ok(self.0.socket.send(bufs, SendFlags::default(), None, self.0.write_wait())?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for TcpStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        (&*self).read(into)
    }

    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        (&*self).read_vectored(bufs)
    }
}

impl Write for TcpStream {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        (&*self).write(from)
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        (&*self).write_vectored(bufs)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A socket that accepts connections; see `std::net::TcpListener`.
#[derive(Debug)]
pub struct TcpListener(Arc<SharedSocket>);

impl TcpListener {
    common_methods!();

    /// Listens on the first of `addr`'s addresses that can be had, with SO_REUSEADDR.
    ///
    /// # Errors
    /// The last address's error, or why this process has no client.
    pub fn bind(addr: impl ToSocketAddrs) -> io::Result<Self> {
        Self::bind_via(&instance()?, addr)
    }

    /// [`TcpListener::bind`] as `client`.
    ///
    /// # Errors
    /// The last address's error.
    pub fn bind_via(client: &Arc<Client>, addr: impl ToSocketAddrs) -> io::Result<Self> {
        each_address(addr, |addr| {
            let shared = SharedSocket::open(client, SocketKind::Stream, addr)?;
            shared.set_flag(SOL_SOCKET, SO_REUSEADDR, true)?;
            shared.socket.bind(addr)?;
            shared.socket.listen(BACKLOG)?;
            Ok(Self(shared))
        })
    }

    /// The next connection and its peer's address.
    ///
    /// # Errors
    /// As [`crate::Socket::accept`].
    pub fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        loop {
            match self.0.socket.accept(self.0.read_wait()) {
                // As std has it: accepting goes on after a signal.
                Err(Errno::INTR) => {}
                other => {
                    let (socket, peer) = other?;
                    return Ok((TcpStream(SharedSocket::new(socket)), peer));
                }
            }
        }
    }

    /// Connections, one after the other, without end.
    #[must_use]
    pub fn incoming(&self) -> Incoming<'_> {
        Incoming(self)
    }
}

/// The connections of a [`TcpListener`].
#[derive(Debug)]
pub struct Incoming<'a>(&'a TcpListener);

impl Iterator for Incoming<'_> {
    type Item = io::Result<TcpStream>;

    fn next(&mut self) -> Option<io::Result<TcpStream>> {
        Some(self.0.accept().map(|(stream, _)| stream))
    }
}
