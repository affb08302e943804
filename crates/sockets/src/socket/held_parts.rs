//! Received parts that the program holds in place.
//!
//! The server gets memory back by one counter in queue order. So the counter stays behind the
//! oldest part that the program still holds, also if later parts were given back. Parts are
//! numbered from the oldest on, so that giving one back takes constant time.

use std::collections::VecDeque;

/// A received part that was not given back to the server.
#[derive(Debug)]
pub(super) struct HeldPart {
    /// Where it begins, in bytes or datagrams received.
    pub(super) start: u64,
    /// The program holds it.
    pub(super) live: bool,
    /// Bytes and descriptors that it is.
    pub(super) bytes: u64,
    pub(super) slots: u32,
}

/// The parts held, oldest first; the first is live.
#[derive(Debug, Default)]
pub(super) struct HeldParts {
    parts: VecDeque<HeldPart>,
    /// The number of the first.
    first: u64,
}

impl HeldParts {
    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Where the first begins.
    pub(super) fn first(&self) -> Option<u64> {
        self.parts.front().map(|part| part.start)
    }

    /// Adds a part; its number.
    pub(super) fn push(&mut self, part: HeldPart) -> u64 {
        self.parts.push_back(part);
        self.first + self.parts.len() as u64 - 1
    }

    /// The program gives a part back. If it was the oldest, returns the bytes and descriptors of
    /// the parts that are over now: this one and those after it that were given back before. `None`
    /// if an older part is still held.
    pub(super) fn end(&mut self, number: u64) -> Option<(u64, u32)> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.parts.get_mut(index)?.live = false;
        let (mut bytes, mut slots) = (0, 0);
        while let Some(part) = self.parts.front().filter(|part| !part.live) {
            (bytes, slots) = (bytes + part.bytes, slots + part.slots);
            self.first += 1;
            self.parts.pop_front();
        }
        (slots > 0 || bytes > 0).then_some((bytes, slots))
    }
}
