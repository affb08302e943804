//! The membership itself: the server, the pools, the thread slots.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Weak};

use abi::Errno;
use abi::client::CLIENT;
use abi::data::DataDescriptor;
use shm::PoolMap;

use super::control::{Admission, ask_admission, ask_introduction, ask_over};
use super::news::NewsListeners;
use super::server::ServerHandle;
use super::threads::{ThreadClaim, ThreadSlots};
use crate::error::{ConnectError, RegionFault};
use crate::memory::{ClosedSendHalves, TxArea, TxPool};

/// A process's membership in one instance. Shared by its threads and by all its sockets.
#[derive(Debug)]
pub(crate) struct Membership {
    me: Weak<Membership>,
    pub(crate) server: ServerHandle,
    /// The memory that this process sends from.
    pub(crate) tx: TxPool,
    /// Where the server puts received bytes.
    rx: PoolMap,
    /// Frame pools, where frames may be read; by interface.
    frames: Vec<PoolMap>,
    pub(super) slots: Arc<ThreadSlots>,
    pub(super) closed: ClosedSendHalves,
    /// Who hears of the news of a socket, by its place.
    pub(crate) listeners: NewsListeners,
}

impl Membership {
    /// Joins the instance whose control socket is `path`.
    pub(crate) fn join(path: &Path) -> Result<Arc<Self>, ConnectError> {
        Self::of(ask_admission(path)?)
    }

    /// Joins the instance of the relay that this process has, if it has one.
    pub(crate) fn join_introduced() -> Result<Option<Arc<Self>>, ConnectError> {
        ask_introduction()?.map(Self::of).transpose()
    }

    /// Joins the instance at the other end of a connection.
    pub(crate) fn join_over(connection: OwnedFd, name: &str) -> Result<Arc<Self>, ConnectError> {
        Self::of(ask_over(connection, name.to_owned())?)
    }

    fn of(admission: Admission) -> Result<Arc<Self>, ConnectError> {
        shm::fork::mark();
        let (server, frames) = ServerHandle::new(admission)?;
        let (region, layout) = (server.region(), server.layout());
        let tx = TxPool::create(region, layout).map_err(|error| ConnectError::region(&error))?;
        let rx = PoolMap::attach(region, layout.rx_pool, CLIENT)
            .map_err(|error| ConnectError::region(&error))?;
        let slots = ThreadSlots::new(layout.params.threads);
        Ok(Arc::new_cyclic(|me| Self {
            me: Weak::clone(me),
            server,
            tx,
            rx,
            frames,
            slots,
            closed: ClosedSendHalves::default(),
            listeners: NewsListeners::default(),
        }))
    }

    /// Another handle; `None` when it is being dropped.
    pub(crate) fn shared(&self) -> Option<Arc<Self>> {
        self.me.upgrade()
    }

    /// The calling thread's slot.
    ///
    /// # Errors
    /// ENOTCONN in a forked child; ENETDOWN when the instance is gone; ENOBUFS when it gives not
    /// even one slot.
    pub(crate) fn thread(&self) -> Result<ThreadClaim, Errno> {
        self.server.check_memory()?;
        self.slots.claim(&self.server)
    }

    /// The pool that a received descriptor's area is in.
    pub(crate) fn pool_of(&self, descriptor: &DataDescriptor) -> Result<&PoolMap, RegionFault> {
        match descriptor.frame_region() {
            None => Ok(&self.rx),
            Some(region) => self.frames.get(usize::from(region)).ok_or(RegionFault),
        }
    }

    /// Sending halves of closed sockets; [`Membership::reap`] frees their memory.
    pub(crate) fn closed(&self) -> &ClosedSendHalves {
        &self.closed
    }

    /// Takes back the memory of closed sockets that the server has released.
    pub(crate) fn reap(&self) {
        self.closed.reap(&self.tx);
    }

    /// The server has made a new socket at `index`: it uses nothing of the old one any more.
    pub(crate) fn end_closed(&self, index: u16) {
        self.closed.end(index, &self.tx);
    }

    /// Memory of the sending pool for the program; see [`crate::Client::alloc`].
    pub(crate) fn alloc(&self, bytes: usize) -> Result<TxArea, Errno> {
        self.server.check()?;
        if let Some(area) = TxArea::alloc(&self.tx, bytes)? {
            return Ok(area);
        }
        // Closed sockets may hold memory that the server has released.
        self.reap();
        TxArea::alloc(&self.tx, bytes)?.ok_or(Errno::NOBUFS)
    }

    /// Does the work of a stack in this process. A non-blocking operation that found nothing calls
    /// it. True: there is such a stack, so check again.
    pub(crate) fn attend(&self) -> bool {
        let stack = self.server.stack().filter(|_| self.server.check_memory().is_ok());
        stack.iter().for_each(|stack| stack.work(&mut || false));
        stack.is_some()
    }
}
