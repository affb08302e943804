//! A client of one instance: the thin top that makes sockets.

use std::os::fd::{OwnedFd, RawFd};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use abi::network::NetworkStatus;
use abi::stages::TraceStage;
use abi::{Errno, Family, SocketKind};
use rustix::event::PollFd;

use crate::environment::named_instance;
use crate::error::ConnectError;
use crate::membership::{Membership, SocketSpec};
use crate::memory::TxArea;
use crate::socket::{Socket, Watch, wait_any};

/// This process as a client of one instance. Shared by all its threads.
///
/// The membership lasts until the client and all its sockets are dropped, or until
/// [`Client::goodbye`].
#[derive(Debug)]
pub struct Client {
    membership: Arc<Membership>,
}

impl Client {
    /// Becomes a client of the instance whose control socket is `path`.
    ///
    /// # Errors
    /// [`ConnectError`]; its text names the remedy.
    pub fn connect(path: &Path) -> Result<Arc<Self>, ConnectError> {
        Ok(Arc::new(Self { membership: Membership::join(path)? }))
    }

    /// Becomes a client over a connection to an instance's control socket, under the name that
    /// `tasuki ps` shows. Opens no file.
    ///
    /// # Errors
    /// [`ConnectError`]; its text names the remedy.
    pub fn connect_over(connection: OwnedFd, name: &str) -> Result<Arc<Self>, ConnectError> {
        Ok(Arc::new(Self { membership: Membership::join_over(connection, name)? }))
    }

    /// Becomes a client of the instance that [`crate::ENV`] names, or named when it was last
    /// [remembered](crate::remember_instance).
    ///
    /// # Errors
    /// [`ConnectError::NotNamed`] without a name; otherwise as [`Client::connect`].
    pub fn from_env() -> Result<Arc<Self>, ConnectError> {
        let path = named_instance().ok_or(ConnectError::NotNamed)?;
        // A program of `tasuki run` is let in as such, wherever it is and whoever its user is.
        let membership = match Membership::join_introduced()? {
            Some(membership) => membership,
            None => Membership::join(Path::new(&path))?,
        };
        Ok(Arc::new(Self { membership }))
    }

    /// Marks that this program enters a stage of its own, if somebody traces the instance.
    /// Otherwise it costs a load and a branch.
    #[inline]
    pub fn mark(&self, stage: TraceStage) {
        self.membership.server.mark(stage);
    }

    pub(crate) fn membership(&self) -> &Arc<Membership> {
        &self.membership
    }

    /// This client's number in the instance, as `tasuki ps` shows it.
    #[must_use]
    pub fn number(&self) -> u16 {
        self.membership.server.number()
    }

    /// The stack's interfaces, addresses and routes as they are now.
    ///
    /// # Errors
    /// ENETDOWN when the instance is gone, ENOTCONN in a forked child, EIO when it does not tell.
    pub fn network(&self) -> Result<NetworkStatus, Errno> {
        self.membership.server.network()
    }

    /// The descriptors that this library holds. A program that closes one breaks its own sockets.
    #[must_use]
    pub fn internal_fds(&self) -> Vec<RawFd> {
        self.membership.server.internal_fds()
    }

    /// Is `fd` one of [`Client::internal_fds`]?
    #[must_use]
    pub fn is_internal_fd(&self, fd: RawFd) -> bool {
        self.membership.server.is_internal_fd(fd)
    }

    /// Does this client belong to this process, not to a parent that forked it?
    #[must_use]
    pub fn is_mine(&self) -> bool {
        self.membership.server.is_mine()
    }

    /// Is the instance still there, as far as is known? Otherwise every call gives ENETDOWN.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.membership.server.is_alive()
    }

    /// Sets how long threads sleep on their futexes before they sleep on descriptors: a second,
    /// unless a test makes it so long that a wake-up that is lost cannot be missed.
    #[doc(hidden)]
    pub fn set_futex_sleep(&self, time: Duration) {
        self.membership.server.set_futex_sleep(time);
    }

    /// Ends the membership in order. Open sockets are closed as close(2) would, and their queued
    /// bytes are still sent. Every later call gives ENETDOWN. The second time, and in a forked
    /// child, nothing happens.
    pub fn goodbye(&self) {
        self.membership.goodbye();
    }

    /// A new socket.
    ///
    /// # Errors
    /// ENETDOWN when the instance is gone, EMFILE when it has no place left, EAFNOSUPPORT when it
    /// has no IPv6, ENOTCONN in a forked child.
    pub fn socket(&self, family: Family, kind: SocketKind) -> Result<Socket, Errno> {
        self.membership.reap();
        let id = self.membership.new_socket(SocketSpec { kind, family })?;
        Socket::admit(&self.membership, id, family, kind)
    }

    /// Memory for `bytes` bytes to be sent, 1 to [`MOST_AREA`](crate::MOST_AREA). Costs the same
    /// for every length. The free pages are shared with [`Socket::send`], but each socket keeps the
    /// one area that it is sure of.
    ///
    /// # Errors
    /// EINVAL for another length; ENOBUFS when the sending pool has no such run of pages now;
    /// ENETDOWN when the instance is gone; ENOTCONN in a forked child.
    pub fn alloc(&self, bytes: usize) -> Result<TxArea, Errno> {
        self.membership.alloc(bytes)
    }

    /// Pages of the sending pool that are free.
    #[must_use]
    pub fn free_tx_pages(&self) -> u32 {
        self.membership.tx.free_pages()
    }

    /// Sleeps until one of the `watched` sockets may have changed since the version given for it,
    /// poll(2) reports something for `kernel` (`revents` are filled in), or `deadline` has passed.
    ///
    /// It may return for no reason: look at everything again. `watched` sockets must be this
    /// client's.
    ///
    /// # Errors
    /// EINTR for any signal, as poll(2); ENOTCONN in a forked child; poll(2)'s own.
    pub fn wait_any(
        &self,
        watched: &[Watch<'_>],
        kernel: &mut [PollFd<'_>],
        deadline: Option<Instant>,
    ) -> Result<(), Errno> {
        wait_any(watched, kernel, deadline, None)
    }

    /// In mode `library`, does the work of the stack in this process. True: look again before
    /// saying that there is nothing. False in other modes.
    #[must_use]
    pub fn attend(&self) -> bool {
        self.membership.attend()
    }
}
