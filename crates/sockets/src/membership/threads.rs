//! The thread slots of a client, and the calling thread's claim on one.
//!
//! A thread takes a slot when it first needs one and keeps it until it ends. Then the slot waits in
//! a free list for the next thread. A request for another slot goes to the instance only when that
//! list is empty.

use std::cell::RefCell;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, Weak};

use abi::Errno;
use shm::fork::kernel_pid;

use super::server::ServerHandle;
use super::slot::ThreadSlot;
use crate::lock::lock;

/// The slots that the instance has given, and which of them have no thread.
#[derive(Debug)]
pub(crate) struct ThreadSlots {
    /// The process that may use them.
    pid: u32,
    most: u16,
    table: Mutex<SlotTable>,
}

#[derive(Debug, Default)]
struct SlotTable {
    all: Vec<Arc<ThreadSlot>>,
    free: Vec<Arc<ThreadSlot>>,
    refused: bool,
}

impl ThreadSlots {
    /// None yet, of `most`.
    pub(super) fn new(most: u16) -> Arc<Self> {
        Arc::new(Self { pid: kernel_pid(), most, table: Mutex::default() })
    }

    /// The slots of all threads.
    pub(super) fn all(&self) -> Vec<Arc<ThreadSlot>> {
        lock(&self.table).all.clone()
    }

    fn acquire(&self, server: &ServerHandle) -> Result<Arc<ThreadSlot>, Errno> {
        // Held while the instance is asked, so that a refused thread finds a slot to share.
        let mut table = lock(&self.table);
        let full = table.refused || table.all.len() >= usize::from(self.most);
        let slot = match table.free.pop() {
            Some(free) => Some(free),
            None if full => table.least_used(),
            None => match server.attach_thread()? {
                Some((number, fd)) => {
                    let slot = Arc::new(ThreadSlot::new(server, number, fd)?);
                    table.all.push(Arc::clone(&slot));
                    Some(slot)
                }
                None => {
                    table.refused = true;
                    table.least_used()
                }
            },
        };
        let slot = slot.ok_or(Errno::NOBUFS)?;
        slot.users.fetch_add(1, Ordering::SeqCst);
        Ok(slot)
    }

    fn release(&self, slot: &Arc<ThreadSlot>) {
        let mut table = lock(&self.table);
        if slot.users.fetch_sub(1, Ordering::SeqCst) == 1 {
            table.free.push(Arc::clone(slot));
        }
    }

    /// The calling thread's slot.
    ///
    /// # Errors
    /// ENETDOWN when the instance is gone; ENOBUFS when it gives not even one slot.
    pub(super) fn claim(self: &Arc<Self>, server: &ServerHandle) -> Result<ThreadClaim, Errno> {
        let kept = CLAIM.try_with(|claim| {
            let Ok(mut claim) = claim.try_borrow_mut() else {
                return Ok(None);
            };
            let ours = |claim: &&Rc<ClaimedSlot>| claim.slots.as_ptr() == Arc::as_ptr(self);
            if let Some(claim) = claim.as_ref().filter(ours) {
                return Ok(Some(Rc::clone(claim)));
            }
            let new = self.claim_new(server)?;
            *claim = Some(Rc::clone(&new));
            Ok(Some(new))
        });
        match kept.unwrap_or(Ok(None))? {
            Some(claim) => Ok(ThreadClaim(claim)),
            // The thread cannot keep one now: it ends, or this is a signal handler.
            None => self.claim_new(server).map(ThreadClaim),
        }
    }

    fn claim_new(self: &Arc<Self>, server: &ServerHandle) -> Result<Rc<ClaimedSlot>, Errno> {
        let slot = self.acquire(server)?;
        Ok(Rc::new(ClaimedSlot { slots: Arc::downgrade(self), slot }))
    }
}

impl SlotTable {
    fn least_used(&self) -> Option<Arc<ThreadSlot>> {
        self.all.iter().min_by_key(|slot| slot.users.load(Ordering::SeqCst)).cloned()
    }
}

/// A slot that a thread has; given back when dropped.
#[derive(Debug)]
struct ClaimedSlot {
    slots: Weak<ThreadSlots>,
    slot: Arc<ThreadSlot>,
}

impl Drop for ClaimedSlot {
    fn drop(&mut self) {
        // In a forked child the lock may be held by a thread that is not here.
        if let Some(slots) = self.slots.upgrade().filter(|slots| slots.pid == kernel_pid()) {
            slots.release(&self.slot);
        }
    }
}

thread_local! {
    /// This thread's claim, on a slot of the client it used last.
    static CLAIM: RefCell<Option<Rc<ClaimedSlot>>> = const { RefCell::new(None) };
}

/// A slot in use by the calling thread.
pub(crate) struct ThreadClaim(Rc<ClaimedSlot>);

impl ThreadClaim {
    /// The slot, for other threads.
    pub(crate) fn slot(&self) -> Arc<ThreadSlot> {
        Arc::clone(&self.0.slot)
    }
}

impl Deref for ThreadClaim {
    type Target = ThreadSlot;

    fn deref(&self) -> &ThreadSlot {
        &self.0.slot
    }
}
