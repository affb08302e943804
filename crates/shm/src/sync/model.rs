//! loom's models of the same, with the same names.

use std::time::Duration;

use loom::cell::UnsafeCell;
pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use loom::sync::{Arc, Condvar};
pub(crate) use loom::sync::{Mutex, MutexGuard};
use rustix::io::Errno;

use crate::layout::Slot;

/// A ring's memory; the cells make loom report a slot that is read while it is written.
#[derive(Debug, Clone)]
pub(crate) struct RingMemory(Arc<Cells>);

#[derive(Debug)]
struct Cells {
    head: AtomicU32,
    tail: AtomicU32,
    slots: Box<[UnsafeCell<Slot>]>,
}

impl RingMemory {
    /// An empty ring whose indices stand at `start`.
    pub(crate) fn new(capacity: u32, start: u32) -> Self {
        Self(Arc::new(Cells {
            head: AtomicU32::new(start),
            tail: AtomicU32::new(start),
            slots: (0..capacity).map(|_| UnsafeCell::new([0; 8])).collect(),
        }))
    }

    pub(crate) fn capacity(&self) -> u32 {
        self.0.slots.len() as u32
    }

    pub(crate) fn head(&self) -> &AtomicU32 {
        &self.0.head
    }

    pub(crate) fn tail(&self) -> &AtomicU32 {
        &self.0.tail
    }

    fn slot(&self, index: u32) -> &UnsafeCell<Slot> {
        &self.0.slots[(index & (self.capacity() - 1)) as usize]
    }

    #[allow(unsafe_code)]
    pub(crate) fn read(&self, index: u32) -> Slot {
        // SAFETY: loom runs one thread at a time and reports accesses that could overlap.
        self.slot(index).with(|slot| unsafe { *slot })
    }

    #[allow(unsafe_code)]
    pub(crate) fn write(&self, index: u32, from: &Slot) {
        // SAFETY: as in `read`.
        self.slot(index).with_mut(|slot| unsafe { *slot = *from });
    }
}

/// An owner table with all pages free.
#[derive(Debug, Clone)]
pub(crate) struct OwnerTable(Arc<Box<[AtomicU64]>>);

impl OwnerTable {
    pub(crate) fn new(pages: u32) -> Self {
        Self(Arc::new((0..pages).map(|_| AtomicU64::new(0)).collect()))
    }

    pub(crate) fn words(&self) -> &[AtomicU64] {
        &self.0
    }
}

/// A bell word together with the kernel's queue of its sleepers.
#[derive(Debug, Clone)]
pub struct Word32(Arc<Futex>);

#[derive(Debug)]
struct Futex {
    word: AtomicU32,
    queue: Mutex<()>,
    woken: Condvar,
}

impl Word32 {
    pub(crate) fn new() -> Self {
        let (queue, woken) = (Mutex::new(()), Condvar::new());
        Self(Arc::new(Futex { word: AtomicU32::new(0), queue, woken }))
    }
}

impl std::ops::Deref for Word32 {
    type Target = AtomicU32;

    fn deref(&self) -> &AtomicU32 {
        &self.0.word
    }
}

/// A word without sleepers.
#[derive(Debug, Clone)]
pub struct Word64(Arc<AtomicU64>);

impl Word64 {
    pub(crate) fn new() -> Self {
        Self(Arc::new(AtomicU64::new(0)))
    }
}

impl std::ops::Deref for Word64 {
    type Target = AtomicU64;

    fn deref(&self) -> &AtomicU64 {
        &self.0
    }
}

/// A run of words.
#[derive(Debug, Clone)]
pub struct Words64(Arc<Box<[AtomicU64]>>);

impl Words64 {
    pub(crate) fn new(count: usize) -> Self {
        Self(Arc::new((0..count).map(|_| AtomicU64::new(0)).collect()))
    }
}

impl std::ops::Deref for Words64 {
    type Target = [AtomicU64];

    fn deref(&self) -> &[AtomicU64] {
        &self.0
    }
}

/// Private words of value 0.
pub(crate) struct PrivateWords(Box<[AtomicU64]>);

impl PrivateWords {
    pub(crate) fn new(count: usize) -> Self {
        Self((0..count).map(|_| AtomicU64::new(0)).collect())
    }
}

impl std::ops::Deref for PrivateWords {
    type Target = [AtomicU64];

    fn deref(&self) -> &[AtomicU64] {
        &self.0
    }
}

/// futex(2): compares and queues under the queue's lock. There is no timeout, so loom sees a lost
/// wake-up as a deadlock.
pub(crate) fn futex_wait(word: &Word32, asleep: u32, _: Option<Duration>) -> Result<(), Errno> {
    let queue = word.0.queue.lock().unwrap();
    if word.load(Ordering::Relaxed) != asleep {
        return Err(Errno::AGAIN);
    }
    drop(word.0.woken.wait(queue).unwrap());
    Ok(())
}

pub(crate) fn futex_wake(word: &Word32) {
    let queue = word.0.queue.lock().unwrap();
    word.0.woken.notify_all();
    drop(queue);
}

/// An eventfd.
#[derive(Debug, Clone)]
pub struct OwnedFd(Arc<(Mutex<u64>, Condvar)>);

impl OwnedFd {
    pub(crate) fn new() -> Self {
        Self(Arc::new((Mutex::new(0), Condvar::new())))
    }

    /// Sleeps until the count is not 0 (poll), and takes it (drain).
    pub(crate) fn poll_and_drain(&self) {
        let mut count = self.0.0.lock().unwrap();
        while *count == 0 {
            count = self.0.1.wait(count).unwrap();
        }
        *count = 0;
    }
}

pub(crate) fn eventfd_write(fd: &OwnedFd) {
    *fd.0.0.lock().unwrap() += 1;
    fd.0.1.notify_all();
}

/// A socket wakes as an eventfd does.
pub(crate) fn socket_write(fd: &OwnedFd) {
    eventfd_write(fd);
}
