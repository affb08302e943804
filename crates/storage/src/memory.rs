//! Memory that a file can be read into and written from without a copy (O_DIRECT).
//!
//! Fresh memory costs a page fault for each of its pages, and unmapping it costs as much again. So
//! a pool keeps memory that is free, up to [`MOST_FREE`] bytes, in classes: powers of two, and a
//! page each, for what comes with a block. A sealed record of 256 KiB has its tag behind it, and
//! would otherwise take memory of 512 KiB.
//!
//! Memory that was used before still has its old bytes, which may be another unit's. Nobody sees
//! them: [`AlignedMemory`] shows only what was appended, or filled by the kernel, since it was
//! made.

use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use aligned_vec::{AVec, ConstAlign};
use bytes::Bytes;

use crate::registered::{ALIGNMENT, RegisteredMemory, RegisteredPart};

/// Bytes of the largest class. Longer memory is not kept.
pub(crate) const LARGEST: usize = 2 << 20;
/// Classes: one page and [`SLACK`], two and that, four and so on.
const CLASSES: usize = (LARGEST / ALIGNMENT).trailing_zeros() as usize + 1;
/// Bytes of each class over its power of two.
const SLACK: usize = ALIGNMENT;
/// Free bytes that a pool keeps: as much data-in as one session may have on its way, and the slack.
const MOST_FREE: usize = 17 << 20;
/// Zeroes that are there at all times: as many as a command reads at once.
const ZEROES: usize = 512 << 10;

/// All bytes of it are initialized.
type PooledMemory = AVec<u8, ConstAlign<ALIGNMENT>>;

/// The process's pool.
static POOL: MemoryPool = MemoryPool::new();
static ZERO: LazyLock<Bytes> = LazyLock::new(|| Bytes::from(vec![0; ZEROES]));

/// A pool of memory. Any thread may give memory back.
#[derive(Debug)]
struct MemoryPool(Mutex<FreeMemory>);

impl MemoryPool {
    const fn new() -> Self {
        Self(Mutex::new(FreeMemory { classes: [const { Vec::new() }; CLASSES], len: 0 }))
    }

    /// Memory of at least `room` bytes.
    fn take(&self, room: usize) -> PooledMemory {
        let class = class_of(room);
        let free = class.and_then(|class| self.with(|free| free.take(class)));
        free.unwrap_or_else(|| fresh(class.map_or(room, bytes_of)))
    }

    fn put(&self, memory: PooledMemory) {
        // What is not kept is unmapped without the lock.
        drop(self.with(|free| free.put(memory)));
    }

    fn with<T>(&self, change: impl FnOnce(&mut FreeMemory) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Memory that is free. The memory last used comes first: it may be in a cache.
#[derive(Debug)]
struct FreeMemory {
    classes: [Vec<PooledMemory>; CLASSES],
    /// Bytes of all.
    len: usize,
}

/// The class of memory that has `room` bytes. `None`: it is longer than the largest class.
fn class_of(room: usize) -> Option<usize> {
    let pages = room.saturating_sub(SLACK).div_ceil(ALIGNMENT).max(1);
    let class = pages.next_power_of_two().trailing_zeros() as usize;
    (class < CLASSES).then_some(class)
}

/// The bytes of a class's memory.
fn bytes_of(class: usize) -> usize {
    (ALIGNMENT << class) + SLACK
}

impl FreeMemory {
    fn take(&mut self, class: usize) -> Option<PooledMemory> {
        let memory = self.classes[class].pop()?;
        self.len -= memory.len();
        Some(memory)
    }

    /// Keeps memory. It comes back if there is enough, or if it is of no class.
    fn put(&mut self, memory: PooledMemory) -> Option<PooledMemory> {
        let class = class_of(memory.len()).filter(|class| memory.len() == bytes_of(*class));
        match class {
            Some(class) if self.len + memory.len() <= MOST_FREE => {
                self.len += memory.len();
                self.classes[class].push(memory);
                None
            }
            _ => Some(memory),
        }
    }
}

/// Zeroes.
fn fresh(len: usize) -> PooledMemory {
    let mut memory = AVec::with_capacity(ALIGNMENT, len);
    memory.resize(len, 0);
    memory
}

/// Bytes at the begin of a page, and room for more behind them.
#[derive(Debug)]
pub(crate) struct AlignedMemory {
    memory: Memory,
    /// Bytes at the front that were put there since this was made.
    len: usize,
}

/// Goes back to where it comes from.
#[derive(Debug)]
enum Memory {
    Pooled(&'static MemoryPool, PooledMemory),
    Registered(RegisteredPart),
}

impl Memory {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Pooled(_, memory) => memory,
            Self::Registered(part) => &part.memory,
        }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Pooled(_, memory) => memory,
            Self::Registered(part) => &mut part.memory,
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Self::Pooled(pool, memory) = self {
            pool.put(std::mem::replace(memory, AVec::new(ALIGNMENT)));
        }
    }
}

impl AlignedMemory {
    /// No bytes, and room for so many.
    pub(crate) fn with_room(room: usize) -> Self {
        Self::of(&POOL, room)
    }

    /// The same in registered memory, if a part is free there.
    pub(crate) fn registered(memory: &Arc<RegisteredMemory>, room: usize) -> Self {
        match memory.take(room) {
            Some(part) => Self { memory: Memory::Registered(part), len: 0 },
            None => Self::with_room(room),
        }
    }

    fn of(pool: &'static MemoryPool, room: usize) -> Self {
        Self { memory: Memory::Pooled(pool, pool.take(room)), len: 0 }
    }

    /// A copy of the pieces, one behind the other.
    pub(crate) fn gather(pieces: &[Bytes]) -> Self {
        Self::with_room(len_of(pieces)).and(pieces)
    }

    fn and(mut self, pieces: &[Bytes]) -> Self {
        for piece in pieces {
            self.append(piece);
        }
        self
    }

    pub(crate) fn append(&mut self, bytes: &[u8]) {
        self.grow(bytes.len()).copy_from_slice(bytes);
    }

    pub(crate) fn append_zeroes(&mut self, len: usize) {
        self.grow(len).fill(0);
    }

    /// Its bytes, to be changed.
    pub(crate) fn as_mut(&mut self) -> &mut [u8] {
        &mut self.memory.bytes_mut()[..self.len]
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Forgets the bytes behind the first `len`.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Bytes that it can have.
    pub(crate) fn room(&self) -> usize {
        self.memory.bytes().len()
    }

    /// Where the kernel may put up to [`Self::room`] bytes.
    pub(crate) fn as_mut_ptr(&mut self) -> *mut u8 {
        self.memory.bytes_mut().as_mut_ptr()
    }

    /// The kernel has filled the first `len` bytes.
    pub(crate) fn set_filled(&mut self, len: usize) {
        self.len = len.min(self.room());
    }

    /// Its bytes, without a copy. The memory is free again with the last handle of them.
    pub(crate) fn into_bytes(self) -> Bytes {
        Bytes::from_owner(self)
    }

    /// So many bytes behind those that are there. The caller writes all of them.
    fn grow(&mut self, by: usize) -> &mut [u8] {
        let (start, end) = (self.len, self.len + by);
        if end > self.room() {
            let mut longer = Self::with_room(end).memory;
            longer.bytes_mut()[..start].copy_from_slice(self.as_ref());
            self.memory = longer;
        }
        self.len = end;
        &mut self.memory.bytes_mut()[start..end]
    }
}

impl AsRef<[u8]> for AlignedMemory {
    fn as_ref(&self) -> &[u8] {
        &self.memory.bytes()[..self.len]
    }
}

fn len_of(pieces: &[Bytes]) -> usize {
    pieces.iter().map(Bytes::len).sum()
}

/// The bytes in aligned memory. A copy is made only of those that lie elsewhere, or in pieces, in
/// registered memory if a part is free there.
pub(crate) fn aligned(pieces: &[Bytes], memory: &Arc<RegisteredMemory>) -> Bytes {
    match pieces {
        [one] if one.as_ptr().addr().is_multiple_of(ALIGNMENT) => one.clone(),
        _ => AlignedMemory::registered(memory, len_of(pieces)).and(pieces).into_bytes(),
    }
}

/// So many zeroes. They are not made anew unless they are many.
pub(crate) fn zeroes(len: usize) -> Bytes {
    if len <= ZEROES {
        return ZERO.slice(..len);
    }
    let mut memory = AlignedMemory::with_room(len);
    memory.append_zeroes(len);
    memory.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pool that no other test uses.
    fn pool() -> &'static MemoryPool {
        Box::leak(Box::new(MemoryPool::new()))
    }

    #[test]
    fn memory_is_used_again_and_shows_nothing_of_before() {
        let pool = pool();
        for len in [1, ALIGNMENT, 2 * ALIGNMENT + 1, 100_000, 512 << 10, LARGEST + SLACK] {
            let mut memory = AlignedMemory::of(pool, len);
            let place = memory.as_mut_ptr();
            memory.append(&vec![0x5e; len]);
            let shown = memory.into_bytes();
            let part = shown.slice(..1);
            drop(shown);
            let other = AlignedMemory::of(pool, len).as_mut_ptr();
            assert_ne!(other, place, "it lives as long as a part of its bytes");
            assert_eq!(part[0], 0x5e);
            pool.with(|free| while free.take(class_of(len).unwrap()).is_some() {});
            drop(part);

            let mut again = AlignedMemory::of(pool, len);
            assert_eq!(again.as_mut_ptr(), place, "{len} bytes are fresh");
            assert_eq!((again.len(), again.as_ref()), (0, &[][..]));
            again.append(b"new");
            again.append_zeroes(len / 2);
            let bytes = again.into_bytes();
            assert_eq!((bytes.len(), &bytes[..3]), (3 + len / 2, &b"new"[..]));
            assert!(bytes[3..].iter().all(|byte| *byte == 0), "old bytes are seen");
        }
    }

    #[test]
    fn memory_that_grows_keeps_its_bytes() {
        let mut memory = AlignedMemory::with_room(1);
        let mut expected = Vec::new();
        for (byte, len) in [(1, 4096), (2, 5000), (3, 70_000), (4, 3 << 20)] {
            memory.append(&vec![byte; len]);
            expected.extend(vec![byte; len]);
        }
        assert!(memory.as_mut_ptr().addr().is_multiple_of(ALIGNMENT));
        assert!(memory.as_ref() == expected);
    }

    #[test]
    fn what_is_kept_has_a_bound() {
        let pool = pool();
        let kept = || pool.with(|free| free.len);
        let all: Vec<_> = (0..64).map(|_| AlignedMemory::of(pool, 1 << 20)).collect();
        assert_eq!(kept(), 0);
        drop(all);
        let each = (1 << 20) + SLACK;
        let most = MOST_FREE / each * each;
        assert_eq!(kept(), most);
        drop(AlignedMemory::of(pool, LARGEST + SLACK + 1));
        assert_eq!(kept(), most);
        let one = AlignedMemory::of(pool, 1 << 20);
        assert_eq!(kept(), most - each);
        drop(one);
        assert_eq!(kept(), most);
    }

    #[test]
    fn zeroes_are_zero_and_shared() {
        let (few, many) = (zeroes(4096), zeroes(ZEROES + 1));
        assert_eq!(few.as_ptr(), zeroes(ZEROES).as_ptr());
        assert!(few.iter().chain(&many).all(|byte| *byte == 0));
        assert_eq!((few.len(), many.len()), (4096, ZEROES + 1));
    }
}
