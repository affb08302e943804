//! Tables: slots with generations, and the handles that name them.

use alloc::boxed::Box;
use alloc::vec::Vec;

/// Names a socket of one stack: an index in its table and the entry's generation. A handle that
/// outlives its socket is refused and never means another socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle {
    index: u32,
    generation: u32,
}

#[derive(Debug)]
struct Slot<S> {
    generation: u32,
    value: Option<Box<S>>,
}

/// A bounded table whose slots are used again, the last freed first. Values lie outside of it, so
/// its growth neither moves nor reserves room for them.
#[derive(Debug)]
pub(crate) struct Table<S> {
    slots: Vec<Slot<S>>,
    free: Vec<u32>,
    limit: usize,
}

impl<S> Table<S> {
    pub(crate) fn new(limit: usize) -> Self {
        Self { slots: Vec::new(), free: Vec::new(), limit: limit.min(u32::MAX as usize) }
    }

    /// Stores `value` in a free slot; `None` if the table is full.
    pub(crate) fn insert(&mut self, value: S) -> Option<Handle> {
        if let Some(index) = self.free.pop() {
            let slot = self.slots.get_mut(index as usize)?;
            slot.value = Some(Box::new(value));
            return Some(Handle { index, generation: slot.generation });
        }
        if self.slots.len() >= self.limit {
            return None;
        }
        let index = u32::try_from(self.slots.len()).ok()?;
        self.slots.push(Slot { generation: 0, value: Some(Box::new(value)) });
        Some(Handle { index, generation: 0 })
    }

    /// Number of values that can still be stored.
    pub(crate) fn room(&self) -> usize {
        self.limit.saturating_sub(self.slots.len()) + self.free.len()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.room() == 0
    }

    pub(crate) fn get(&self, handle: Handle) -> Option<&S> {
        let slot = self.slots.get(handle.index as usize)?;
        slot.value.as_deref().filter(|_| slot.generation == handle.generation)
    }

    pub(crate) fn get_mut(&mut self, handle: Handle) -> Option<&mut S> {
        let slot = self.slots.get_mut(handle.index as usize)?;
        slot.value.as_deref_mut().filter(|_| slot.generation == handle.generation)
    }

    /// Frees the slot. `handle` names nothing any more.
    pub(crate) fn remove(&mut self, handle: Handle) -> Option<S> {
        let slot = self.slots.get_mut(handle.index as usize)?;
        if slot.generation != handle.generation {
            return None;
        }
        let value = slot.value.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(handle.index);
        Some(*value)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Handle, &S)> {
        (0u32..).zip(&self.slots).filter_map(|(index, slot)| {
            let handle = Handle { index, generation: slot.generation };
            Some((handle, slot.value.as_deref()?))
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::table::*;

    #[test]
    fn a_stale_handle_names_nothing() {
        let mut table = Table::new(2);
        let a = table.insert('a').unwrap();
        let b = table.insert('b').unwrap();
        assert!(table.is_full());
        assert_eq!(table.insert('c'), None);
        assert_eq!(table.remove(a), Some('a'));
        assert_eq!(table.remove(a), None);
        let c = table.insert('c').unwrap();
        assert_eq!((table.get(a), table.get(b), table.get(c)), (None, Some(&'b'), Some(&'c')));
        assert_eq!(table.get_mut(a), None);
        assert_eq!(table.iter().count(), 2);
    }
}
