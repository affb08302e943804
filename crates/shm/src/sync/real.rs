//! The real things: atomics in a region, futex and descriptors.

#![allow(unsafe_code)]

use std::fmt;
use std::ops::Deref;
use std::os::fd::AsFd;
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use rustix::thread::futex;
pub(crate) use std::os::fd::OwnedFd;
pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

pub(crate) use crate::region::{Word32, Word64};
pub(crate) use std::sync::{Mutex, MutexGuard};

use crate::layout::{SLOTS_AT, Slot, ring_bytes};
use crate::region::{OutOfRange, Region};

/// The producer's index.
const TAIL_AT: usize = 0;
/// The consumer's index, on another cache line.
const HEAD_AT: usize = 64;

/// The memory of one ring: two indices and the slots.
#[derive(Debug)]
pub(crate) struct RingMemory {
    base: NonNull<u8>,
    capacity: u32,
    /// Keeps `base` mapped.
    _region: Arc<Region>,
}

// SAFETY: an address in a region, which is Send and Sync; the memory is used as atomics only.
unsafe impl Send for RingMemory {}

impl RingMemory {
    pub(crate) fn in_region(
        region: &Arc<Region>,
        offset: usize,
        capacity: u32,
    ) -> Result<Self, OutOfRange> {
        assert!(capacity.is_power_of_two(), "ring capacity {capacity} is no power of two");
        let base = region.aligned(offset, ring_bytes(capacity), 64)?;
        Ok(Self { base, capacity, _region: Arc::clone(region) })
    }

    #[inline]
    pub(crate) fn capacity(&self) -> u32 {
        self.capacity
    }

    #[inline]
    pub(crate) fn head(&self) -> &AtomicU32 {
        self.index(HEAD_AT)
    }

    #[inline]
    pub(crate) fn tail(&self) -> &AtomicU32 {
        self.index(TAIL_AT)
    }

    #[inline]
    fn index(&self, at: usize) -> &AtomicU32 {
        // SAFETY: HEAD_AT and TAIL_AT are less than ring_bytes, all of which are in the region.
        let index = unsafe { self.base.add(at) }.cast();
        // SAFETY: aligned (base and offsets are multiples of 64), mapped while `self` lives,
        // and used as an atomic by every process.
        unsafe { index.as_ref() }
    }

    #[inline]
    fn slot(&self, index: u32) -> &[AtomicU64; 8] {
        let place = (index & (self.capacity - 1)) as usize;
        // SAFETY: place < capacity, so the slot lies within ring_bytes, all of which are
        // mapped.
        let slot = unsafe { self.base.add(SLOTS_AT + place * size_of::<Slot>()) }.cast();
        // SAFETY: aligned to 64, mapped while `self` lives, used as atomics by every process: a
        // peer that breaks the protocol makes the words arbitrary, not the access a data race.
        unsafe { slot.as_ref() }
    }

    #[inline]
    pub(crate) fn read(&self, index: u32) -> Slot {
        let mut slot = [0; 8];
        let words = self.slot(index);
        for i in 0..slot.len() {
            slot[i] = words[i].load(Ordering::Relaxed);
        }
        slot
    }

    #[inline]
    pub(crate) fn write(&self, index: u32, slot: &Slot) {
        let words = self.slot(index);
        for i in 0..slot.len() {
            words[i].store(slot[i], Ordering::Relaxed);
        }
    }
}

/// The owner table of a pool: a word for each page.
#[derive(Debug)]
pub(crate) struct OwnerTable {
    base: NonNull<AtomicU64>,
    pages: usize,
    /// Keeps `base` mapped.
    _region: Arc<Region>,
}

// SAFETY: an address in a region, which is Send and Sync; the memory is used as atomics only.
unsafe impl Send for OwnerTable {}
// SAFETY: as for Send; the fields never change.
unsafe impl Sync for OwnerTable {}

impl OwnerTable {
    pub(crate) fn in_region(
        region: &Arc<Region>,
        offset: usize,
        pages: u32,
    ) -> Result<Self, OutOfRange> {
        let (pages, len) = (pages as usize, pages as usize * size_of::<u64>());
        if !offset.is_multiple_of(size_of::<u64>()) {
            return Err(OutOfRange { offset, len, region: region.len() });
        }
        let base = region.inside(offset, len)?.cast();
        Ok(Self { base, pages, _region: Arc::clone(region) })
    }

    #[inline]
    pub(crate) fn words(&self) -> &[AtomicU64] {
        // SAFETY: in range and aligned (checked in `in_region`), mapped while `self` lives, and
        // used as atomics by every process. Through a read-only mapping they are only loaded.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.pages) }
    }
}

/// A run of 64-bit atomics in a region, which it keeps mapped.
#[derive(Clone)]
pub struct Words64 {
    base: NonNull<AtomicU64>,
    count: usize,
    /// Keeps `base` mapped.
    _region: Arc<Region>,
}

// SAFETY: an address in a region, which is Send and Sync; the memory is used as atomics only.
unsafe impl Send for Words64 {}
// SAFETY: as for Send; the fields never change.
unsafe impl Sync for Words64 {}

impl Words64 {
    /// `count` words from `offset` on.
    ///
    /// # Errors
    /// [`OutOfRange`] when they are not all inside, not aligned, or the region is mapped read-only.
    pub fn in_region(
        region: &Arc<Region>,
        offset: usize,
        count: usize,
    ) -> Result<Self, OutOfRange> {
        let len = count.saturating_mul(size_of::<u64>());
        let base = region.aligned(offset, len, size_of::<u64>())?.cast();
        Ok(Self { base, count, _region: Arc::clone(region) })
    }
}

impl Deref for Words64 {
    type Target = [AtomicU64];

    #[inline]
    fn deref(&self) -> &[AtomicU64] {
        // SAFETY: in range, aligned and writable (checked in `in_region`), mapped while `self`
        // lives, and used as atomics by every process.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.count) }
    }
}

impl fmt::Debug for Words64 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Words64").field("count", &self.count).finish_non_exhaustive()
    }
}

/// Private words of value 0, in a mapping of their own. So words that are never touched cost no
/// page, and all pages go back to the system with the words. An allocator clears memory that it has
/// used before, and so touches it.
pub(crate) struct PrivateWords {
    base: NonNull<AtomicU64>,
    count: usize,
    /// False: the system had no mapping left, and the allocator gave them.
    mapped: bool,
}

// SAFETY: memory that this value alone has, used as atomics only.
unsafe impl Send for PrivateWords {}
// SAFETY: as for Send; the fields never change.
unsafe impl Sync for PrivateWords {}

impl PrivateWords {
    pub(crate) fn new(count: usize) -> Self {
        const { assert!(align_of::<AtomicU64>() == align_of::<u64>()) };
        let len = count * size_of::<AtomicU64>();
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: the system chooses an address where nothing is mapped.
        let mapping = unsafe { mmap_anonymous(null_mut(), len, access, flags) };
        let mapped = mapping.ok().and_then(|base| NonNull::new(base.cast()));
        let base = mapped.unwrap_or_else(|| {
            let words = Box::leak(vec![0_u64; count].into_boxed_slice());
            NonNull::from(words).cast()
        });
        Self { base, count, mapped: mapped.is_some() }
    }
}

impl Deref for PrivateWords {
    type Target = [AtomicU64];

    #[inline]
    fn deref(&self) -> &[AtomicU64] {
        // SAFETY: so many words are there while `self` lives, aligned, of value 0 at first and used
        // as atomics only; those of the allocator by the assertion in `new`.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.count) }
    }
}

impl Drop for PrivateWords {
    fn drop(&mut self) {
        if self.mapped {
            let len = self.count * size_of::<AtomicU64>();
            // SAFETY: the mapping of `new`, to which no reference is left. It cannot fail.
            let _ = unsafe { munmap(self.base.as_ptr().cast(), len) };
        } else {
            let words = std::ptr::slice_from_raw_parts_mut(self.base.as_ptr().cast(), self.count);
            // SAFETY: the box of u64 that `new` has leaked.
            drop(unsafe { Box::<[u64]>::from_raw(words) });
        }
    }
}

/// Sleeps while `word` is `asleep`; EAGAIN if it is something else already.
pub(crate) fn futex_wait(
    word: &Word32,
    asleep: u32,
    timeout: Option<Duration>,
) -> Result<(), Errno> {
    // A time span too long for the system is as good as none.
    let timeout = timeout.and_then(|t| futex::Timespec::try_from(t).ok());
    futex::wait(word, futex::Flags::empty(), asleep, timeout.as_ref())
}

pub(crate) fn futex_wake(word: &Word32) {
    // Fails only for an address that is not mapped, and a word's is.
    let _ = futex::wake(word, futex::Flags::empty(), i32::MAX as u32);
}

pub(crate) fn eventfd_write(fd: &OwnedFd) {
    // EAGAIN means that the counter is full: the sleeper is as good as rung. Any other error means
    // that the descriptor is no eventfd, which is the sleeper's own fault.
    let _ = rustix::io::write(fd.as_fd(), &1_u64.to_ne_bytes());
}

pub(crate) fn socket_write(fd: &OwnedFd) {
    use rustix::net::SendFlags;
    // EAGAIN means that the sleeper has not read the byte that woke it before. Any other error is
    // its own fault.
    let _ = rustix::net::send(fd, &[0], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
}
