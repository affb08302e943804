//! The four rings of an AF_XDP socket: single producer, single consumer, of which one end is the
//! kernel's. Indices count without end, modulo 2^32; a slot is an index modulo the ring's size.

use std::io;
use std::marker::PhantomData;
use std::mem;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::mm::{MapFlags, ProtFlags};
use rustix::net::xdp::XdpRingOffset;

/// One ring of slots of type `T`, mapped.
#[derive(Debug)]
pub(super) struct XdpRing<T> {
    map: *mut libc::c_void,
    len: usize,
    producer: usize,
    consumer: usize,
    flags: Option<usize>,
    slots: usize,
    size: u32,
    /// Our index: of the next slot that is produced or consumed here.
    ours: u32,
    kind: PhantomData<T>,
}

// SAFETY: the mapping belongs to no thread, and the owner of the value has this end of the ring.
unsafe impl<T: Send> Send for XdpRing<T> {}

impl<T: Copy> XdpRing<T> {
    /// Maps the ring of `size` slots (a power of two) that is at `page` of the socket.
    ///
    /// # Errors
    /// The system's; `InvalidData` for offsets that no kernel tells.
    pub(super) fn map(
        socket: BorrowedFd<'_>,
        page: u64,
        offsets: &XdpRingOffset,
        size: u32,
    ) -> io::Result<Self> {
        let at = |offset: u64, alignment: usize| {
            let offset = usize::try_from(offset).ok().filter(|at| at % alignment == 0);
            offset.filter(|at| *at < 1 << 20).ok_or(io::ErrorKind::InvalidData)
        };
        let slots = at(offsets.desc, mem::align_of::<T>())?;
        let (producer, consumer) = (at(offsets.producer, 4)?, at(offsets.consumer, 4)?);
        let flags = offsets.flags.map(|offset| at(offset, 4)).transpose()?;
        let words = producer.max(consumer).max(flags.unwrap_or(0)) + mem::size_of::<u32>();
        let len = words.max(slots + size as usize * mem::size_of::<T>());
        let (protection, shared) =
            (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::POPULATE);
        // SAFETY: a new mapping at an address that the kernel chooses touches no other memory.
        let map = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), len, protection, shared, socket, page)
        }?;
        let kind = PhantomData;
        Ok(Self { map, len, producer, consumer, flags, slots, size, ours: 0, kind })
    }

    fn word(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: `offset` is one of those that `map` found inside of the mapping.
        let word = unsafe { self.map.byte_add(offset) };
        // SAFETY: it is aligned, as `map` checked. The mapping lives as long as `self`, and the
        // kernel too uses these words atomically.
        unsafe { AtomicU32::from_ptr(word.cast()) }
    }

    fn slot(&self, index: u32) -> *mut T {
        let offset = self.slots + (index & (self.size - 1)) as usize * mem::size_of::<T>();
        // SAFETY: the masked index is below `size`, and `map` made the mapping long enough for
        // that many slots.
        unsafe { self.map.byte_add(offset).cast() }
    }

    /// Slots that the kernel has produced and that were not consumed here.
    pub(super) fn filled(&self) -> u32 {
        // The kernel wrote the slots before the index.
        let theirs = self.word(self.producer).load(Ordering::Acquire);
        theirs.wrapping_sub(self.ours).min(self.size)
    }

    /// The next slot that the kernel has produced; the kernel may use it again afterwards.
    pub(super) fn pop(&mut self) -> Option<T> {
        if self.filled() == 0 {
            return None;
        }
        // SAFETY: the slot is inside of the mapping (see `slot`), was written before the kernel's
        // index passed it (Acquire), and is not written again before ours does.
        let value = unsafe { self.slot(self.ours).read() };
        self.ours = self.ours.wrapping_add(1);
        self.word(self.consumer).store(self.ours, Ordering::Release);
        Some(value)
    }

    /// Slots that were produced here and that the kernel has not consumed.
    pub(super) fn unread(&self) -> u32 {
        self.ours.wrapping_sub(self.word(self.consumer).load(Ordering::Acquire)).min(self.size)
    }

    /// Produces a slot; `false`: the ring is full.
    pub(super) fn push(&mut self, value: T) -> bool {
        if self.unread() == self.size {
            return false;
        }
        // SAFETY: the slot is inside of the mapping (see `slot`). The kernel has consumed its old
        // contents (Acquire in `unread`), and reads it again only after our index has passed it.
        unsafe { self.slot(self.ours).write(value) };
        self.ours = self.ours.wrapping_add(1);
        self.word(self.producer).store(self.ours, Ordering::Release);
        true
    }

    /// Does the kernel want a system call after this was produced for?
    pub(super) fn wants_call(&self) -> bool {
        // XDP_RING_NEED_WAKEUP; without flags always.
        self.flags.is_none_or(|at| self.word(at).load(Ordering::Relaxed) & 1 != 0)
    }
}

impl<T> Drop for XdpRing<T> {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and no reference into it outlives `self`.
        let _ = unsafe { rustix::mm::munmap(self.map, self.len) };
    }
}
