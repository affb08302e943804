//! The data-in of a command of an initiator, as it comes.
//!
//! Bytes that lie in memory of the socket are copied once, to where they belong: into pieces of
//! memory that are no longer than those that are used again. Long parts in memory of this process
//! are kept as they are.

use bytes::Bytes;

use crate::memory::{AlignedMemory, LARGEST};

/// Shorter parts are copied: they would keep much more memory than they have.
const LEAST_KEPT: usize = 16 << 10;

/// Data-in so far.
#[derive(Debug, Default)]
pub(crate) struct CommandDataIn {
    /// Bytes that may come at most.
    room: usize,
    /// Parts that were kept, which are the begin of the data.
    kept: Vec<Bytes>,
    kept_len: usize,
    /// What is behind them: pieces of [`LARGEST`] bytes, and the last one.
    copied: Vec<AlignedMemory>,
}

impl CommandDataIn {
    /// Nothing yet. At most `room` bytes will come.
    pub(crate) fn new(room: u32) -> Self {
        Self { room: room as usize, ..Self::default() }
    }

    /// A part, which belongs at that offset and is within the room. `lent`: its memory is needed
    /// again.
    pub(crate) fn put(&mut self, offset: usize, part: Bytes, lent: bool) {
        if !lent && part.len() >= LEAST_KEPT && self.copied.is_empty() && offset == self.kept_len {
            self.kept_len += part.len();
            self.kept.push(part);
            return;
        }
        if offset < self.kept_len {
            self.copy_kept();
        }
        self.copy(offset - self.kept_len, &part);
    }

    /// All of it, one behind the other.
    pub(crate) fn into_pieces(self) -> Vec<Bytes> {
        let mut pieces = self.kept;
        pieces.extend(self.copied.into_iter().map(AlignedMemory::into_bytes));
        pieces
    }

    /// Copies a part to its place, `start` bytes behind what is kept.
    fn copy(&mut self, mut start: usize, mut part: &[u8]) {
        while !part.is_empty() {
            let (index, at) = (start / LARGEST, start % LARGEST);
            let (here, rest) = part.split_at(part.len().min(LARGEST - at));
            while self.copied.len() <= index {
                self.begin_piece();
            }
            place(&mut self.copied[index], at, here);
            (start, part) = (start + here.len(), rest);
        }
    }

    /// One more piece. What is missing in the one before it is zero.
    fn begin_piece(&mut self) {
        if let Some(last) = self.copied.last_mut() {
            last.append_zeroes(LARGEST - last.len());
        }
        let rest = self.room - self.kept_len - self.copied.len() * LARGEST;
        self.copied.push(AlignedMemory::with_room(rest.min(LARGEST)));
    }

    /// Parts that come in another order than their offsets' are copied as well.
    fn copy_kept(&mut self) {
        let (kept, copied) = (std::mem::take(&mut self.kept), std::mem::take(&mut self.copied));
        self.kept_len = 0;
        let mut at = 0;
        for piece in kept.iter().map(|it| &it[..]).chain(copied.iter().map(AsRef::as_ref)) {
            self.copy(at, piece);
            at += piece.len();
        }
    }
}

/// Puts bytes at their place. What is before them and not there yet is zero.
fn place(memory: &mut AlignedMemory, start: usize, part: &[u8]) {
    if memory.len() < start {
        memory.append_zeroes(start - memory.len());
    }
    let over = part.len().min(memory.len() - start);
    memory.as_mut()[start..start + over].copy_from_slice(&part[..over]);
    memory.append(&part[over..]);
}

/// The pieces as one. They are copied if there are several.
pub(crate) fn in_one_piece(mut pieces: Vec<Bytes>) -> Bytes {
    match pieces.len() {
        0 | 1 => pieces.pop().unwrap_or_default(),
        _ => AlignedMemory::gather(&pieces).into_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parts of `data` in that order.
    fn put_all(data: &[u8], parts: &[(usize, usize, bool)]) -> Vec<Bytes> {
        let mut all = CommandDataIn::new(data.len() as u32);
        for &(start, end, lent) in parts {
            all.put(start, Bytes::copy_from_slice(&data[start..end]), lent);
        }
        all.into_pieces()
    }

    #[test]
    fn parts_come_in_any_order() {
        let data: Vec<u8> = (0..100_000_u32).map(|i| (i / 7) as u8).collect();
        let (long, most) = (40_000, data.len());
        for parts in [
            &[(0, long, false), (long, most, false)][..],
            &[(0, long, false), (long, long + 5, false), (long + 5, most, false)],
            &[(0, long, false), (long, most, true)],
            &[(0, long, true), (long, most, false)],
            &[(long, most, false), (0, long, false)],
            &[(0, long, false), (long + 9, most, true), (long, long + 9, true)],
            &[(0, long, false), (long, most, true), (10, 20, true)],
            &[(0, long, false), (long, most, false), (10, 20, false)],
            &[(4, 9, true), (0, 5, true), (9, most, true)],
        ] {
            assert!(put_all(&data, parts).concat() == data, "{parts:?}");
        }
        assert!(put_all(&data, &[]).is_empty());
    }

    #[test]
    fn longer_data_has_pieces_that_are_used_again() {
        let data: Vec<u8> = (0..5_u32 << 20).map(|i| (i / 1021) as u8).collect();
        let (first, most) = (LARGEST - 7, data.len());
        for parts in [
            &[(0, most, true)][..],
            &[(0, first, true), (first, most, true)],
            &[(most - 5, most, true), (0, most - 5, true)],
            &[(0, first, false), (first, most - 9, true), (most - 9, most, true)],
            &[(0, first, false), (first, most, true), (3, 9, true)],
        ] {
            let pieces = put_all(&data, parts);
            assert!(pieces.concat() == data, "{parts:?}");
        }
        let lengths: Vec<usize> =
            put_all(&data, &[(0, most, true)]).iter().map(Bytes::len).collect();
        assert_eq!(lengths, [LARGEST, LARGEST, 1 << 20]);
    }

    #[test]
    fn long_parts_are_kept_and_lent_ones_copied() {
        let (own, lent) = (Bytes::from(vec![1; 20_000]), Bytes::from(vec![2; 20_000]));
        let mut all = CommandDataIn::new(60_000);
        all.put(0, own.clone(), false);
        all.put(20_000, lent.clone(), true);
        all.put(40_000, lent.slice(..5), false);
        let pieces = all.into_pieces();
        assert_eq!(pieces[0].as_ptr(), own.as_ptr());
        assert!(lent.is_unique());
        assert_eq!(pieces.iter().map(Bytes::len).sum::<usize>(), 40_005);
        assert_eq!(in_one_piece(pieces).len(), 40_005);
        assert_eq!(in_one_piece(vec![own.clone()]).as_ptr(), own.as_ptr());
        assert!(in_one_piece(Vec::new()).is_empty());
    }
}
