//! Sockets with the shape of `std::net`'s, over the process's own client.
//!
//! What std documents for its types holds here, with these differences: there is no file descriptor
//! behind a socket (`as_socket` gives the [`Socket`] that there is), and the
//! functions that end in `_via` name a client instead of using [`crate::instance()`]'s. As in std,
//! clones share the socket with its timeouts and its nonblocking mode.
//!
//! `local_addr`, options and the like fail only as the [`Socket`] operation of that name does.

mod tcp;
mod udp;

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use abi::{Errno, Family, SocketKind};

pub use self::tcp::{Incoming, TcpListener, TcpStream};
pub use self::udp::UdpSocket;
use crate::{Client, ConnectError, Socket, Wait};

/// SOL_SOCKET and its options, by Linux's numbers.
const SOL_SOCKET: i32 = 1;
const SO_REUSEADDR: i32 = 2;
const SO_BROADCAST: i32 = 6;
/// IPPROTO_IP and its option.
const IPPROTO_IP: i32 = 0;
const IP_TTL: i32 = 2;
/// IPPROTO_TCP and its option.
const IPPROTO_TCP: i32 = 6;
const TCP_NODELAY: i32 = 1;

impl From<ConnectError> for io::Error {
    fn from(error: ConnectError) -> Self {
        let kind = match &error {
            ConnectError::NotNamed | ConnectError::Unreachable { .. } => io::ErrorKind::NotFound,
            ConnectError::Refused { .. } => io::ErrorKind::PermissionDenied,
            ConnectError::Protocol { .. } | ConnectError::Region { .. } => io::ErrorKind::Other,
        };
        Self::new(kind, error)
    }
}

/// What all three types have alike, as std has it.
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

        /// Makes what would wait fail with WouldBlock instead, for all clones. A listener's
        /// connections do not inherit it.
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
use common_methods;

/// What the two types that carry data have alike, as std has it.
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
use timeout_methods;

/// What all clones of a socket share.
#[derive(Debug)]
struct Shared {
    socket: Socket,
    nonblocking: AtomicBool,
    read_limit: Limit,
    write_limit: Limit,
}

/// A timeout in nanoseconds; 0 is none.
#[derive(Debug, Default)]
struct Limit(AtomicU64);

impl Limit {
    fn get(&self) -> Option<Duration> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            nanos => Some(Duration::from_nanos(nanos)),
        }
    }

    fn set(&self, limit: Option<Duration>) -> io::Result<()> {
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

impl Shared {
    fn new(socket: Socket) -> Arc<Self> {
        Arc::new(Self {
            socket,
            nonblocking: AtomicBool::new(false),
            read_limit: Limit::default(),
            write_limit: Limit::default(),
        })
    }

    /// A socket that can have or reach `addr`.
    fn open(client: &Arc<Client>, kind: SocketKind, addr: SocketAddr) -> io::Result<Arc<Self>> {
        let family = if addr.is_ipv4() { Family::V4 } else { Family::V6 };
        Ok(Self::new(client.socket(family, kind)?))
    }

    fn wait(&self, limit: &Limit) -> Wait {
        if self.nonblocking.load(Ordering::Relaxed) { Wait::No } else { Wait::at_most(limit.get()) }
    }

    fn read_wait(&self) -> Wait {
        self.wait(&self.read_limit)
    }

    fn write_wait(&self) -> Wait {
        self.wait(&self.write_limit)
    }

    fn flag(&self, level: i32, name: i32) -> io::Result<bool> {
        Ok(self.socket.int(level, name)? != 0)
    }

    fn set_flag(&self, level: i32, name: i32, on: bool) -> io::Result<()> {
        Ok(self.socket.set_int(level, name, on.into())?)
    }

    fn ttl(&self) -> io::Result<u32> {
        Ok(self.socket.int(IPPROTO_IP, IP_TTL)?.cast_unsigned())
    }

    fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        Ok(self.socket.set_int(IPPROTO_IP, IP_TTL, ttl.cast_signed())?)
    }

    fn take_error(&self) -> Option<io::Error> {
        self.socket.take_error().map(io::Error::from)
    }
}

/// Tries each address that `addr` stands for until one works; the last error otherwise.
fn each_address<T>(
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

/// Connects to the end, whatever signals come in between.
fn connect(socket: &Socket, addr: SocketAddr, wait: Wait) -> Result<(), Errno> {
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
