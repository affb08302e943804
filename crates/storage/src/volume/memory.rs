//! A volume in memory: pages come as they are written.

use std::collections::BTreeMap;

use bytes::Bytes;
use scsi::{ByteRange, Extent, ExtentState};

use crate::memory::AlignedMemory;

/// Bytes of a page.
const PAGE: usize = 64 << 10;

/// Pages by their numbers. The others read as zero.
#[derive(Debug, Default)]
pub(super) struct SparseMemory(BTreeMap<u64, Box<[u8]>>);

/// A part of a page: its number, and bytes within it.
fn part(offset: u64, left: usize) -> (u64, std::ops::Range<usize>) {
    let (page, start) = (offset / PAGE as u64, (offset % PAGE as u64) as usize);
    (page, start..PAGE.min(start + left))
}

impl SparseMemory {
    pub(super) fn read(&self, offset: u64, len: usize) -> Bytes {
        let mut memory = AlignedMemory::with_room(len);
        let mut done = 0;
        while done < len {
            let (page, within) = part(offset + done as u64, len - done);
            done += within.len();
            match self.0.get(&page) {
                Some(bytes) => memory.append(&bytes[within]),
                None => memory.append_zeroes(within.len()),
            }
        }
        memory.into_bytes()
    }

    pub(super) fn write(&mut self, mut offset: u64, pieces: &[Bytes]) {
        for piece in pieces {
            let mut rest = &piece[..];
            while !rest.is_empty() {
                let (page, within) = part(offset, rest.len());
                let (now, later) = rest.split_at(within.len());
                let bytes = self.0.entry(page).or_insert_with(|| vec![0; PAGE].into());
                bytes[within].copy_from_slice(now);
                offset += now.len() as u64;
                rest = later;
            }
        }
    }

    pub(super) fn zero(&mut self, range: ByteRange) {
        let mut offset = range.offset;
        while offset < range.end() {
            let left = usize::try_from(range.end() - offset).unwrap_or(usize::MAX);
            let (page, within) = part(offset, left.min(PAGE));
            offset += within.len() as u64;
            if within.len() == PAGE {
                self.0.remove(&page);
            } else if let Some(bytes) = self.0.get_mut(&page) {
                bytes[within].fill(0);
            }
        }
    }

    pub(super) fn extents(&self, range: ByteRange, most: u32) -> Vec<Extent> {
        let mut extents: Vec<Extent> = Vec::new();
        let mut offset = range.offset;
        while offset < range.end() {
            let (page, start) = (offset / PAGE as u64, offset % PAGE as u64);
            let (state, end) = if self.0.contains_key(&page) {
                (ExtentState::Mapped, offset - start + PAGE as u64)
            } else {
                let next = self.0.range(page..).next().map_or(u64::MAX, |(page, _)| *page);
                (ExtentState::Deallocated, next.saturating_mul(PAGE as u64))
            };
            let len = end.min(range.end()) - offset;
            offset += len;
            let full = extents.len() >= most as usize;
            match extents.last_mut() {
                Some(last) if last.state == state => last.len += len,
                _ if full => break,
                _ => extents.push(Extent { len, state }),
            }
        }
        extents
    }
}
