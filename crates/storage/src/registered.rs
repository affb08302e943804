//! Memory that the kernel has pinned for an io_uring: it looks up no page for an operation there.
//!
//! It is one range, of which each user has a part of its own. The first free part that is long
//! enough is taken; parts that are free and lie side by side become one again.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::BytesMut;

/// Alignment in bytes: a page, which all devices take.
pub(crate) const ALIGNMENT: usize = 4096;

/// A range of memory and its free parts. Any thread may give a part back.
#[derive(Debug)]
pub(crate) struct RegisteredMemory {
    start: usize,
    len: usize,
    /// In the order of their addresses; no two lie side by side.
    free: Mutex<Vec<BytesMut>>,
}

/// A part of such a range.
#[derive(Debug)]
pub(crate) struct RegisteredPart {
    pub(crate) memory: BytesMut,
    range: Arc<RegisteredMemory>,
}

impl RegisteredMemory {
    /// Zeroes, as many as asked for: a multiple of [`ALIGNMENT`], or 0.
    pub(crate) fn new(len: usize) -> Arc<Self> {
        let mut memory = BytesMut::zeroed(len + ALIGNMENT);
        let before = memory.as_ptr().align_offset(ALIGNMENT);
        let mut memory = memory.split_off(before);
        // The rest behind it would join a part that comes back.
        drop(memory.split_off(len));
        let start = memory.as_ptr().expose_provenance();
        Arc::new(Self { start, len, free: Mutex::new(vec![memory]) })
    }

    /// Its first byte. It lives as long as this, or as a part of it.
    pub(crate) fn start(&self) -> usize {
        self.start
    }

    /// Bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Are all of these bytes here?
    pub(crate) fn has(&self, address: usize, len: usize) -> bool {
        let end = address.checked_add(len);
        address >= self.start && end.is_some_and(|end| end <= self.start + self.len)
    }

    /// A part of at least `room` bytes, with the bytes of whoever had it before. `None`: nothing so
    /// long is free.
    pub(crate) fn take(self: &Arc<Self>, room: usize) -> Option<RegisteredPart> {
        let room = room.max(1).checked_next_multiple_of(ALIGNMENT)?;
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let at = free.iter().position(|part| part.len() >= room)?;
        let memory = match free[at].len() == room {
            true => free.remove(at),
            false => free[at].split_to(room),
        };
        Some(RegisteredPart { memory, range: Arc::clone(self) })
    }

    fn put(&self, part: BytesMut) {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let at = free.partition_point(|other| other.as_ptr() < part.as_ptr());
        free.insert(at, part);
        for at in [at, at.wrapping_sub(1)] {
            if at < free.len() && at + 1 < free.len() {
                let next = free.remove(at + 1);
                if let Err(apart) = free[at].try_unsplit(next) {
                    free.insert(at + 1, apart);
                }
            }
        }
    }
}

impl Drop for RegisteredPart {
    fn drop(&mut self) {
        self.range.put(std::mem::take(&mut self.memory));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PAGES: usize = 16;

    fn free_of(memory: &RegisteredMemory) -> Vec<(usize, usize)> {
        let free = memory.free.lock().unwrap();
        free.iter().map(|part| (part.as_ptr().addr() - memory.start, part.len())).collect()
    }

    #[test]
    fn memory_without_bytes_has_no_parts() {
        let none = RegisteredMemory::new(0);
        assert!(none.take(0).is_none() && none.take(1).is_none());
        assert!(!none.has(none.start(), 1));
    }

    #[test]
    fn a_part_outlives_its_range() {
        let memory = RegisteredMemory::new(PAGES * ALIGNMENT);
        let mut part = memory.take(5000).unwrap();
        drop(memory);
        part.memory.fill(7);
        assert_eq!(part.memory.len(), 8192);
    }

    proptest! {
        /// Parts never overlap, and all that is free is one range in the end.
        #[test]
        fn parts_are_apart_and_join_again(
            steps in prop::collection::vec((any::<bool>(), 0..4 * ALIGNMENT, 0..PAGES), 0..200),
        ) {
            let memory = RegisteredMemory::new(PAGES * ALIGNMENT);
            let mut taken = Vec::new();
            for (number, (takes, room, which)) in steps.into_iter().enumerate() {
                if takes && let Some(mut part) = memory.take(room) {
                    let (address, len) = (part.memory.as_ptr().addr(), part.memory.len());
                    prop_assert!(address.is_multiple_of(ALIGNMENT) && len >= room);
                    prop_assert!(memory.has(address, len) && !memory.has(address, len + (1 << 20)));
                    part.memory.fill(number as u8);
                    taken.push((number as u8, part));
                } else if !takes && which < taken.len() {
                    drop(taken.swap_remove(which));
                }
                let held: usize = taken.iter().map(|(_, part)| part.memory.len()).sum();
                let free = free_of(&memory);
                let left: usize = free.iter().map(|(_, len)| len).sum();
                prop_assert_eq!(held + left, memory.len());
                let apart = free.windows(2).all(|two| two[0].0 + two[0].1 < two[1].0);
                prop_assert!(apart, "{:?}", free);
            }
            for (number, part) in taken {
                prop_assert!(part.memory.iter().all(|byte| *byte == number));
            }
            prop_assert_eq!(free_of(&memory), [(0, PAGES * ALIGNMENT)]);
        }
    }
}
