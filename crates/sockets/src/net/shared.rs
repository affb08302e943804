//! The common part of the std-shaped sockets.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use abi::{Errno, Family, SocketKind};

use crate::client::Client;
use crate::error::ConnectError;
use crate::socket::Socket;
use crate::wait::Wait;

/// SOL_SOCKET and its options, by Linux's numbers.
pub(super) const SOL_SOCKET: i32 = 1;
pub(super) const SO_REUSEADDR: i32 = 2;
pub(super) const SO_BROADCAST: i32 = 6;
/// IPPROTO_IP and its option.
pub(super) const IPPROTO_IP: i32 = 0;
pub(super) const IP_TTL: i32 = 2;
/// IPPROTO_TCP and its option.
pub(super) const IPPROTO_TCP: i32 = 6;
pub(super) const TCP_NODELAY: i32 = 1;

impl From<ConnectError> for io::Error {
    fn from(error: ConnectError) -> Self {
        let kind = match &error {
            ConnectError::NotNamed | ConnectError::Unreachable { .. } => io::ErrorKind::NotFound,
            ConnectError::Refused { .. } => io::ErrorKind::PermissionDenied,
            ConnectError::OwnNetwork
            | ConnectError::Protocol { .. }
            | ConnectError::Region { .. } => io::ErrorKind::Other,
        };
        Self::new(kind, error)
    }
}

/// The methods of all three types.
macro_rules! common_methods {
    () => {
        /// The local end.
        ///
        /// # Errors
        /// As [`crate::Socket::local_addr`].
        pub fn local_addr(&self) -> std::io::Result<std::net::SocketAddr> {
            Ok(self.0.socket.local_addr()?)
        }

        /// Another handle of the same socket.
        ///
        /// # Errors
        /// None; the signature is std's.
        pub fn try_clone(&self) -> std::io::Result<Self> {
            Ok(Self(std::sync::Arc::clone(&self.0)))
        }

        /// Sets the time to live of sent packets; a listener's connections inherit it.
        ///
        /// # Errors
        /// As [`crate::Socket::set_option`].
        pub fn set_ttl(&self, ttl: u32) -> std::io::Result<()> {
            self.0.set_ttl(ttl)
        }

        /// The time to live of sent packets.
        ///
        /// # Errors
        /// As [`crate::Socket::option`].
        pub fn ttl(&self) -> std::io::Result<u32> {
            self.0.ttl()
        }

        /// Takes the pending error (SO_ERROR).
        ///
        /// # Errors
        /// None; the signature is std's.
        pub fn take_error(&self) -> std::io::Result<Option<std::io::Error>> {
            Ok(self.0.take_error())
        }

        /// Operations that would wait fail with WouldBlock instead, for all clones. A listener's
        /// connections do not inherit this.
        ///
        /// # Errors
        /// None; the signature is std's.
        pub fn set_nonblocking(&self, on: bool) -> std::io::Result<()> {
            self.0.nonblocking.store(on, std::sync::atomic::Ordering::Relaxed);
            Ok(())
        }

        /// The socket underneath.
        #[must_use]
        pub fn as_socket(&self) -> &crate::Socket {
            &self.0.socket
        }
    };
}
pub(super) use common_methods;

/// The methods of the two types that carry data.
macro_rules! timeout_methods {
    () => {
        /// Lets receiving wait for at most `limit`, then fail with WouldBlock. `None`: for ever.
        ///
        /// # Errors
        /// InvalidInput for zero.
        pub fn set_read_timeout(&self, limit: Option<std::time::Duration>) -> std::io::Result<()> {
            self.0.read_limit.set(limit)
        }

        /// Lets sending wait for at most `limit`, then fail with WouldBlock. `None`: for ever.
        ///
        /// # Errors
        /// InvalidInput for zero.
        pub fn set_write_timeout(&self, limit: Option<std::time::Duration>) -> std::io::Result<()> {
            self.0.write_limit.set(limit)
        }

        /// The timeout of receiving.
        ///
        /// # Errors
        /// None; the signature is std's.
        pub fn read_timeout(&self) -> std::io::Result<Option<std::time::Duration>> {
            Ok(self.0.read_limit.get())
        }

        /// The timeout of sending.
        ///
        /// # Errors
        /// None; the signature is std's.
        pub fn write_timeout(&self) -> std::io::Result<Option<std::time::Duration>> {
            Ok(self.0.write_limit.get())
        }
    };
}
pub(super) use timeout_methods;

/// The state that all clones of a socket share.
#[derive(Debug)]
pub(super) struct SharedSocket {
    pub(super) socket: Socket,
    pub(super) nonblocking: AtomicBool,
    pub(super) read_limit: Timeout,
    pub(super) write_limit: Timeout,
}

/// A timeout in nanoseconds; 0 is none.
#[derive(Debug, Default)]
pub(super) struct Timeout(AtomicU64);

impl Timeout {
    pub(super) fn get(&self) -> Option<Duration> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            nanos => Some(Duration::from_nanos(nanos)),
        }
    }

    pub(super) fn set(&self, limit: Option<Duration>) -> io::Result<()> {
        let nanos = match limit {
            None => 0,
            Some(Duration::ZERO) => {
                let message = "a timeout of zero is not possible: use None or set_nonblocking";
                return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
            }
            Some(limit) => u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX),
        };
        self.0.store(nanos, Ordering::Relaxed);
        Ok(())
    }
}

impl SharedSocket {
    pub(super) fn new(socket: Socket) -> Arc<Self> {
        Arc::new(Self {
            socket,
            nonblocking: AtomicBool::new(false),
            read_limit: Timeout::default(),
            write_limit: Timeout::default(),
        })
    }

    /// A socket that can have or reach `addr`.
    pub(super) fn open(
        client: &Arc<Client>,
        kind: SocketKind,
        addr: SocketAddr,
    ) -> io::Result<Arc<Self>> {
        let family = if addr.is_ipv4() { Family::V4 } else { Family::V6 };
        Ok(Self::new(client.socket(family, kind)?))
    }

    fn wait(&self, limit: &Timeout) -> Wait {
        if self.nonblocking.load(Ordering::Relaxed) { Wait::No } else { Wait::at_most(limit.get()) }
    }

    pub(super) fn read_wait(&self) -> Wait {
        self.wait(&self.read_limit)
    }

    pub(super) fn write_wait(&self) -> Wait {
        self.wait(&self.write_limit)
    }

    pub(super) fn flag(&self, level: i32, name: i32) -> io::Result<bool> {
        Ok(self.socket.int(level, name)? != 0)
    }

    pub(super) fn set_flag(&self, level: i32, name: i32, on: bool) -> io::Result<()> {
        Ok(self.socket.set_int(level, name, on.into())?)
    }

    pub(super) fn ttl(&self) -> io::Result<u32> {
        Ok(self.socket.int(IPPROTO_IP, IP_TTL)?.cast_unsigned())
    }

    pub(super) fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        Ok(self.socket.set_int(IPPROTO_IP, IP_TTL, ttl.cast_signed())?)
    }

    pub(super) fn take_error(&self) -> Option<io::Error> {
        self.socket.take_error().map(io::Error::from)
    }
}

/// Tries each address that `addr` stands for until one works; the last error otherwise.
pub(super) fn each_address<T>(
    addr: impl ToSocketAddrs,
    mut attempt: impl FnMut(SocketAddr) -> io::Result<T>,
) -> io::Result<T> {
    let mut last = None;
    for addr in addr.to_socket_addrs()? {
        match attempt(addr) {
            Ok(done) => return Ok(done),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidInput, "the name stands for no address")
    }))
}

/// Waits until the attempt is over, also when signals come in between.
pub(super) fn connect(socket: &Socket, addr: SocketAddr, wait: Wait) -> Result<(), Errno> {
    let mut outcome = socket.connect(addr, wait);
    while outcome == Err(Errno::INTR) {
        outcome = match socket.connect(addr, wait) {
            // It succeeded in between.
            Err(Errno::ISCONN) => Ok(()),
            other => other,
        };
    }
    outcome
}
