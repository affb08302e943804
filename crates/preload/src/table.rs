//! The table of descriptor numbers.
//!
//! Two levels of [`BLOCK`] entries cover the numbers below [`LIMIT`]; the second is made when first
//! needed. An entry has a `kind`, one atomic byte, and a value behind a lock. Nearly all
//! descriptors of nearly all programs are the kernel's own business. They cost the two loads of
//! [`DescriptorTable::kind`] and no lock.
//!
//! An entry is taken out before the kernel closes the number, and put in after the kernel gave it
//! out. So the kernel's own exclusion of numbers serves the table too.
//!
//! A forked child can trust no lock of its parent, which another thread may have held.
//! [`DescriptorTable::inherit`] gives it new entries and abandons the old ones. It remembers which
//! numbers were sockets.

#![allow(unsafe_code)]

use core::ffi::c_int;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Descriptors of one block.
const BLOCK: usize = 1024;
/// Blocks.
const BLOCKS: usize = 1024;
/// Numbers from here on are always the kernel's; it is also Linux's usual highest limit.
pub(crate) const LIMIT: usize = BLOCK * BLOCKS;

/// The meaning of a descriptor number to the shim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// Not the shim's business.
    Kernel = 0,
    /// A Tasuki socket; the kernel has a placeholder.
    Socket = 1,
    /// A kernel epoll instance that may watch Tasuki sockets too.
    Epoll = 2,
    /// The shim's own descriptor: the program must not touch it.
    Internal = 3,
    /// A socket of another process, or of this one before an exec, that was not taken up yet.
    Inherited = 4,
}

impl Kind {
    fn from_byte(byte: u8) -> Self {
        match byte {
            1 => Self::Socket,
            2 => Self::Epoll,
            3 => Self::Internal,
            4 => Self::Inherited,
            _ => Self::Kernel,
        }
    }
}

/// A value that an entry can hold.
pub(crate) trait TableValue: Clone {
    /// The kind of descriptor that this stands for.
    fn kind(&self) -> Kind;
}

struct Slot<V> {
    kind: AtomicU8,
    value: Mutex<Option<V>>,
}

impl<V> Slot<V> {
    fn new(kind: Kind) -> Self {
        Self { kind: AtomicU8::new(kind as u8), value: Mutex::new(None) }
    }

    fn kind(&self) -> Kind {
        Kind::from_byte(self.kind.load(Ordering::Acquire))
    }

    fn lock(&self) -> MutexGuard<'_, Option<V>> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type Block<V> = [Slot<V>; BLOCK];

/// A block whose entries have these kinds. It is made on the heap, entry by entry: a thread's stack
/// may be smaller than a block.
fn new_block<V>(kind: impl Fn(usize) -> Kind) -> Box<Block<V>> {
    let slots: Box<[Slot<V>]> = (0..BLOCK).map(|i| Slot::new(kind(i))).collect();
    // SAFETY: a slice of BLOCK slots has the layout of an array of as many.
    unsafe { Box::from_raw(Box::into_raw(slots).cast()) }
}

/// The table; see the module.
pub(crate) struct DescriptorTable<V> {
    blocks: [AtomicPtr<Block<V>>; BLOCKS],
}

impl<V: TableValue> DescriptorTable<V> {
    /// A table of kernel descriptors.
    pub(crate) const fn new() -> Self {
        Self { blocks: [const { AtomicPtr::new(null_mut()) }; BLOCKS] }
    }

    /// The kind of `fd`; lock-free.
    #[inline]
    pub(crate) fn kind(&self, fd: c_int) -> Kind {
        self.slot(fd).map_or(Kind::Kernel, Slot::kind)
    }

    /// The value that `fd` stands for. `None` for the kernel's descriptors and inherited ones.
    pub(crate) fn get(&self, fd: c_int) -> Option<V> {
        self.slot(fd)?.lock().clone()
    }

    /// Calls `look` with the value that `fd` stands for. Meanwhile the entry stays as it is.
    pub(crate) fn with<R>(&self, fd: c_int, look: impl FnOnce(Option<&V>) -> R) -> R {
        match self.slot(fd) {
            Some(slot) => look(slot.lock().as_ref()),
            None => look(None),
        }
    }

    /// Makes `fd` stand for `value`. Returns the value that it stood for before.
    ///
    /// # Errors
    /// Gives `value` back when `fd` is negative or not below [`LIMIT`].
    pub(crate) fn put(&self, fd: c_int, value: V) -> Result<Option<V>, V> {
        let Some(slot) = self.slot_or_new(fd) else { return Err(value) };
        let mut place = slot.lock();
        slot.kind.store(value.kind() as u8, Ordering::Release);
        Ok(place.replace(value))
    }

    /// Leaves `fd` to the kernel. Returns the value that it stood for.
    pub(crate) fn take(&self, fd: c_int) -> Option<V> {
        let slot = self.slot(fd)?;
        let mut place = slot.lock();
        slot.kind.store(Kind::Kernel as u8, Ordering::Release);
        place.take()
    }

    /// Makes `fd` an inherited placeholder (a duplicate of one, that is).
    pub(crate) fn put_inherited(&self, fd: c_int) {
        if let Some(slot) = self.slot_or_new(fd) {
            slot.kind.store(Kind::Inherited as u8, Ordering::Release);
        }
    }

    /// The numbers in `first..=last` that are not the kernel's, with their kinds, ascending.
    pub(crate) fn range(&self, first: u32, last: u32) -> Vec<(c_int, Kind)> {
        let mut found = Vec::new();
        let end = (last as usize).saturating_add(1).min(LIMIT);
        let mut at = first as usize;
        while at < end {
            let next = (at / BLOCK + 1) * BLOCK;
            if let Some(block) = self.block(at / BLOCK) {
                let numbers = (at..next.min(end)).zip(&block[at % BLOCK..]);
                found.extend(numbers.filter(|(_, slot)| slot.kind() != Kind::Kernel).filter_map(
                    |(number, slot)| Some((c_int::try_from(number).ok()?, slot.kind())),
                ));
            }
            at = next;
        }
        found
    }

    /// In a forked child: sockets become [`Kind::Inherited`], all other descriptors the kernel's.
    /// The values of the entries are neither dropped nor read.
    pub(crate) fn inherit(&self) {
        for place in &self.blocks {
            // SAFETY: a pointer in `blocks` is null or came from Box::into_raw and is never freed.
            let Some(old) = (unsafe { place.load(Ordering::Acquire).as_ref() }) else { continue };
            let kind = |i: usize| match old[i].kind() {
                Kind::Socket | Kind::Inherited => Kind::Inherited,
                Kind::Kernel | Kind::Epoll | Kind::Internal => Kind::Kernel,
            };
            place.store(Box::into_raw(new_block(kind)), Ordering::Release);
        }
    }

    #[inline]
    fn slot(&self, fd: c_int) -> Option<&Slot<V>> {
        let fd = usize::try_from(fd).ok()?;
        self.block(fd / BLOCK).map(|block| &block[fd % BLOCK])
    }

    #[inline]
    fn block(&self, index: usize) -> Option<&Block<V>> {
        let block = self.blocks.get(index)?.load(Ordering::Acquire);
        // SAFETY: a pointer in `blocks` is null or came from Box::into_raw and is never freed.
        unsafe { block.as_ref() }
    }

    fn slot_or_new(&self, fd: c_int) -> Option<&Slot<V>> {
        let place = self.blocks.get(usize::try_from(fd).ok()? / BLOCK)?;
        if place.load(Ordering::Acquire).is_null() {
            let new = Box::into_raw(new_block(|_| Kind::Kernel));
            let outcome =
                place.compare_exchange(null_mut(), new, Ordering::AcqRel, Ordering::Acquire);
            if outcome.is_err() {
                // SAFETY: `new` came from Box::into_raw above and was not published.
                drop(unsafe { Box::from_raw(new) });
            }
        }
        self.slot(fd)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    impl TableValue for Arc<Kind> {
        fn kind(&self) -> Kind {
            **self
        }
    }

    fn socket() -> Arc<Kind> {
        Arc::new(Kind::Socket)
    }

    #[test]
    fn unknown_numbers_are_the_kernels() {
        let table = DescriptorTable::<Arc<Kind>>::new();
        for fd in [-1, 0, 1023, 1024, c_int::MAX] {
            assert_eq!(table.kind(fd), Kind::Kernel, "{fd}");
            assert_eq!(table.get(fd), None);
            assert_eq!(table.take(fd), None);
        }
        assert!(table.put(-1, socket()).is_err());
        assert!(table.put(c_int::try_from(LIMIT).unwrap(), socket()).is_err());
    }

    #[test]
    fn put_get_take() {
        let table = DescriptorTable::new();
        let (a, b) = (socket(), Arc::new(Kind::Epoll));
        assert_eq!(table.put(5, Arc::clone(&a)), Ok(None));
        assert_eq!((table.kind(5), table.kind(6)), (Kind::Socket, Kind::Kernel));
        assert!(Arc::ptr_eq(&table.get(5).unwrap(), &a));
        assert!(Arc::ptr_eq(&table.put(5, Arc::clone(&b)).unwrap().unwrap(), &a));
        assert_eq!(table.kind(5), Kind::Epoll);
        assert!(Arc::ptr_eq(&table.take(5).unwrap(), &b));
        assert_eq!((table.kind(5), table.get(5)), (Kind::Kernel, None));
        assert_eq!((Arc::strong_count(&a), Arc::strong_count(&b)), (1, 1));
    }

    #[test]
    fn ranges_cross_chunks() {
        let table = DescriptorTable::new();
        for fd in [3, 1023, 1024, 5000] {
            table.put(fd, socket()).unwrap();
        }
        let numbers = |first, last| {
            table.range(first, last).into_iter().map(|(fd, _)| fd).collect::<Vec<_>>()
        };
        assert_eq!(numbers(0, u32::MAX), [3, 1023, 1024, 5000]);
        assert_eq!(numbers(4, 1024), [1023, 1024]);
        assert_eq!(numbers(1024, 1024), [1024]);
        assert!(numbers(6, 5).is_empty());
        assert!(numbers(u32::MAX, u32::MAX).is_empty());
    }

    #[test]
    fn a_child_inherits_numbers_but_holds_nothing() {
        let table = DescriptorTable::new();
        let socket = socket();
        table.put(3, Arc::clone(&socket)).unwrap();
        table.put(4, Arc::new(Kind::Epoll)).unwrap();
        table.put(5, Arc::new(Kind::Internal)).unwrap();
        let lock_of_the_parent = table.slot(3).unwrap().lock();
        table.inherit();
        assert_eq!(
            [3, 4, 5].map(|fd| table.kind(fd)),
            [Kind::Inherited, Kind::Kernel, Kind::Kernel]
        );
        assert_eq!(table.get(3), None);
        assert_eq!(Arc::strong_count(&socket), 2);
        assert_eq!(table.take(3), None);
        assert_eq!(table.kind(3), Kind::Kernel);
        table.put_inherited(9);
        assert_eq!(table.kind(9), Kind::Inherited);
        drop(lock_of_the_parent);
    }

    #[test]
    fn threads_see_whole_entries() {
        let table = DescriptorTable::new();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for round in 0..1000 {
                        let fd = round % 7 * 1024;
                        let _previous = table.put(fd, socket());
                        let _current = table.get(fd);
                        let _taken = table.take(fd);
                    }
                });
            }
        });
        assert_eq!(table.range(0, u32::MAX), []);
    }
}
