//! Async `UdpSocket`.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{Ipv4Addr, SocketAddr};

use abi::SocketKind;
use abi::ancillary::SendAncillary;
use abi::queued_error::QueuedErrorEntry;

use super::reactor::Interest;
use super::tcp::{ReactorSocket, ready};
use crate::request::Request;
use crate::socket::{Received, RecvFlags, SendFlags, Socket};
use crate::wait::Wait;

/// A UDP socket. Sending and receiving may be done by two tasks.
#[derive(Debug)]
pub struct AsyncUdpSocket(ReactorSocket);

impl AsyncUdpSocket {
    /// A socket on `addr`.
    ///
    /// # Errors
    /// As [`Socket::bind`]; NotConnected outside of [`block_on`](super::block_on).
    pub async fn bind(addr: SocketAddr) -> io::Result<Self> {
        let owned = ReactorSocket::open(SocketKind::Datagram, addr).await?;
        owned.call(Request::bind(&owned.socket, addr)).await?;
        Ok(Self(owned))
    }

    /// A socket for echo requests of the identifier `addr.port()`, 0 for any. Destinations have the
    /// sequence number as their port. See [`SocketKind::Echo`] for received messages.
    ///
    /// # Errors
    /// As [`AsyncUdpSocket::bind`].
    pub async fn bind_echo(addr: SocketAddr) -> io::Result<Self> {
        let owned = ReactorSocket::open(SocketKind::Echo, addr).await?;
        owned.call(Request::bind(&owned.socket, addr)).await?;
        Ok(Self(owned))
    }

    /// Sets an option whose value is a number.
    ///
    /// # Errors
    /// As [`Socket::set_option`].
    pub async fn set_int(&self, level: i32, name: i32, value: i32) -> io::Result<()> {
        let value = value.to_ne_bytes();
        self.0.call(Request::set_option(&self.0.socket, level, name, &value)).await?;
        Ok(())
    }

    /// Takes the oldest entry of the error queue, without waiting for one.
    ///
    /// # Errors
    /// As [`Socket::take_queued_error`].
    pub fn take_queued_error(&self) -> io::Result<QueuedErrorEntry> {
        Ok(self.0.socket.take_queued_error()?)
    }

    /// Sets the only peer to send to and to receive from.
    ///
    /// # Errors
    /// As [`Socket::connect`].
    pub async fn connect(&self, addr: SocketAddr) -> io::Result<()> {
        self.0.call(Request::connect(&self.0.socket, addr)).await?;
        Ok(())
    }

    /// Receives a datagram and its sender's address; bytes that do not fit are lost.
    ///
    /// # Errors
    /// As [`Socket::recv`].
    pub async fn recv_from(&self, into: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let received = self.recv_message(into).await?;
        // Without a sender: receiving was shut down.
        let nobody = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        Ok((received.len, received.from.unwrap_or(nobody)))
    }

    /// Receives a datagram, and how it came.
    ///
    /// # Errors
    /// As [`Socket::recv`].
    pub async fn recv_message(&self, into: &mut [u8]) -> io::Result<Received> {
        let socket = &self.0.socket;
        let receive = || socket.recv(&mut [IoSliceMut::new(into)], RecvFlags::default(), Wait::No);
        ready(&self.0, Interest::Read, receive).await
    }

    /// Receives a datagram; bytes that do not fit are lost.
    ///
    /// # Errors
    /// As [`Socket::recv`].
    pub async fn recv(&self, into: &mut [u8]) -> io::Result<usize> {
        Ok(self.recv_from(into).await?.0)
    }

    /// Sends a datagram to `to`.
    ///
    /// # Errors
    /// As [`Socket::send`].
    pub async fn send_to(&self, from: &[u8], to: SocketAddr) -> io::Result<usize> {
        self.transmit(from, Some(to)).await
    }

    /// Sends a datagram to the connected peer.
    ///
    /// # Errors
    /// As [`Socket::send`].
    pub async fn send(&self, from: &[u8]) -> io::Result<usize> {
        self.transmit(from, None).await
    }

    /// Sends a datagram to `to`, or the connected peer, as `how` says.
    ///
    /// # Errors
    /// As [`Socket::send_message`].
    pub async fn send_message(
        &self,
        from: &[u8],
        to: Option<SocketAddr>,
        how: &SendAncillary,
    ) -> io::Result<usize> {
        let socket = &self.0.socket;
        let (from, flags) = ([IoSlice::new(from)], SendFlags::default());
        let send = || socket.send_message(&from, flags, to, how, Wait::No);
        ready(&self.0, Interest::Write, send).await
    }

    async fn transmit(&self, from: &[u8], to: Option<SocketAddr>) -> io::Result<usize> {
        let socket = &self.0.socket;
        let send = || socket.send(&[IoSlice::new(from)], SendFlags::default(), to, Wait::No);
        ready(&self.0, Interest::Write, send).await
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
