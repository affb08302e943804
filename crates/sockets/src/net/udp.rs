//! `UdpSocket`.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;

use abi::SocketKind;

use super::shared::{SO_BROADCAST, SOL_SOCKET, SharedSocket};
use super::shared::{common_methods, connect, each_address, timeout_methods};
use crate::client::Client;
use crate::instance::instance;
use crate::socket::{Received, RecvFlags, SendFlags};
use crate::wait::Wait;

/// A UDP socket; see `std::net::UdpSocket`.
#[derive(Debug)]
pub struct UdpSocket(Arc<SharedSocket>);

impl UdpSocket {
    common_methods!();
    timeout_methods!();

    /// A socket on the first of `addr`'s addresses that can be had.
    ///
    /// # Errors
    /// The last address's error, or why this process has no client.
    pub fn bind(addr: impl ToSocketAddrs) -> io::Result<Self> {
        Self::bind_via(&instance()?, addr)
    }

    /// [`UdpSocket::bind`] as `client`.
    ///
    /// # Errors
    /// The last address's error.
    pub fn bind_via(client: &Arc<Client>, addr: impl ToSocketAddrs) -> io::Result<Self> {
        each_address(addr, |addr| {
            let shared = SharedSocket::open(client, SocketKind::Datagram, addr)?;
            shared.socket.bind(addr)?;
            Ok(Self(shared))
        })
    }

    /// Sets the only peer to send to and to receive from.
    ///
    /// # Errors
    /// The last address's error.
    pub fn connect(&self, addr: impl ToSocketAddrs) -> io::Result<()> {
        each_address(addr, |addr| Ok(connect(&self.0.socket, addr, Wait::Forever)?))
    }

    fn receive(&self, into: &mut [u8], peek: bool) -> io::Result<Received> {
        let bufs = &mut [IoSliceMut::new(into)];
        Ok(self.0.socket.recv(bufs, RecvFlags { peek }, self.0.read_wait())?)
    }

    fn transmit(&self, from: &[u8], to: Option<SocketAddr>) -> io::Result<usize> {
        let bufs = &[IoSlice::new(from)];
        Ok(self.0.socket.send(bufs, SendFlags::default(), to, self.0.write_wait())?)
    }

    fn receive_from(&self, into: &mut [u8], peek: bool) -> io::Result<(usize, SocketAddr)> {
        let received = self.receive(into, peek)?;
        // Without a sender: receiving was shut down.
        let nobody = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        Ok((received.len, received.from.unwrap_or(nobody)))
    }

    /// Receives a datagram and its sender's address; bytes that do not fit are lost.
    ///
    /// # Errors
    /// As [`crate::Socket::recv`].
    pub fn recv_from(&self, into: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.receive_from(into, false)
    }

    /// [`UdpSocket::recv_from`] that leaves the datagram for the next receive.
    ///
    /// # Errors
    /// As [`crate::Socket::recv`].
    pub fn peek_from(&self, into: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.receive_from(into, true)
    }

    /// Receives a datagram; bytes that do not fit are lost.
    ///
    /// # Errors
    /// As [`crate::Socket::recv`].
    pub fn recv(&self, into: &mut [u8]) -> io::Result<usize> {
        Ok(self.receive(into, false)?.len)
    }

    /// [`UdpSocket::recv`] that leaves the datagram for the next receive.
    ///
    /// # Errors
    /// As [`crate::Socket::recv`].
    pub fn peek(&self, into: &mut [u8]) -> io::Result<usize> {
        Ok(self.receive(into, true)?.len)
    }

    /// Sends a datagram to the first of `addr`'s addresses that can be sent to.
    ///
    /// # Errors
    /// As [`crate::Socket::send`].
    pub fn send_to(&self, from: &[u8], addr: impl ToSocketAddrs) -> io::Result<usize> {
        each_address(addr, |addr| self.transmit(from, Some(addr)))
    }

    /// Sends a datagram to the connected peer.
    ///
    /// # Errors
    /// As [`crate::Socket::send`].
    pub fn send(&self, from: &[u8]) -> io::Result<usize> {
        self.transmit(from, None)
    }

    /// The connected peer.
    ///
    /// # Errors
    /// NotConnected.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.0.socket.peer_addr()?)
    }

    /// Allows sending to broadcast addresses (SO_BROADCAST).
    ///
    /// # Errors
    /// As [`crate::Socket::set_option`].
    pub fn set_broadcast(&self, on: bool) -> io::Result<()> {
        self.0.set_flag(SOL_SOCKET, SO_BROADCAST, on)
    }

    /// Is SO_BROADCAST set?
    ///
    /// # Errors
    /// As [`crate::Socket::option`].
    pub fn broadcast(&self) -> io::Result<bool> {
        self.0.flag(SOL_SOCKET, SO_BROADCAST)
    }
}
