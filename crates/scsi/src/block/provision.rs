//! UNMAP, WRITE SAME, GET LBA STATUS (SBC-3 5.5, 5.29, 5.30, 5.44, 5.45).

use bytes::Bytes;

use crate::block::range::{Blocks, bad_count, out_of_range};
use crate::block::transfer::flushed;
use crate::call::{Call, Plan, Planned, Reply, Then, Work};
use crate::limits::MOST_SAME_BLOCKS;
use crate::locks::Hold;
use crate::sense::{Sense, SenseCode};
use crate::step::{
    Allocation, ByteRange, Extent, ExtentState, MOST_UNMAP_RANGES, MediumOperation, MediumOutput,
};
use crate::wire::{be16, be32, be64, clamp32};

pub(crate) fn unmap(call: &mut Call<'_>) -> Planned {
    let unit = call.unit()?;
    let anchor = call.bit(1, 0);
    if anchor && !unit.can_anchor() {
        return Err(Sense::cdb_field(1, Some(0)).into());
    }
    let all = Blocks { lba: 0, count: unit.blocks }.bytes(unit);
    match call.be16(7) {
        0 => Ok(Plan::Reply(Reply::good())),
        1..8 => Err(Sense::list_length().into()),
        length => {
            // The list says later which blocks they are.
            call.claim(all, Hold::Shared);
            call.parameters(u32::from(length), Box::new(UnmapList { anchor }))
        }
    }
}

#[derive(Debug)]
struct UnmapList {
    anchor: bool,
}

impl Work for UnmapList {
    fn data_out(self: Box<Self>, call: &mut Call<'_>, list: Bytes) -> Planned {
        let unit = call.unit()?;
        let length = usize::from(be16(&list, 2).unwrap_or(0));
        let descriptors = list.get(8..).and_then(|rest| rest.get(..length));
        let Some(descriptors) = descriptors else { return Err(Sense::list_length().into()) };
        // SBC-3 5.30.2: an incomplete descriptor at the end is ignored.
        let (descriptors, _) = descriptors.as_chunks::<16>();
        if descriptors.len() > usize::from(MOST_UNMAP_RANGES) {
            return Err(Sense::list_field(2, None).into());
        }
        let mut ranges = Vec::with_capacity(descriptors.len());
        for descriptor in descriptors {
            let lba = be64(descriptor, 0).unwrap_or(0);
            let count = u64::from(be32(descriptor, 8).unwrap_or(0));
            let blocks = Blocks { lba, count }.within(unit)?;
            if count > 0 {
                ranges.push(blocks.bytes(unit));
            }
        }
        call.origin.access.claims.clear();
        if ranges.is_empty() {
            return Ok(Plan::Reply(Reply::good()));
        }
        for range in &ranges {
            call.claim(*range, Hold::Shared);
        }
        flushed(call, MediumOperation::Unmap { ranges, anchor: self.anchor })
    }
}

pub(crate) fn write_same(call: &mut Call<'_>) -> Planned {
    let unit = call.unit()?;
    let (anchor, unmap) = (call.bit(1, 4), call.bit(1, 3));
    let no_data = call.origin.row.usage.len() == 16 && call.bit(1, 0);
    if unmap && !unit.is_thin() {
        return Err(Sense::cdb_field(1, Some(3)).into());
    }
    // SBC-3 5.44: ANCHOR needs UNMAP, and a unit that can anchor.
    if anchor && !(unmap && unit.can_anchor()) {
        return Err(Sense::cdb_field(1, Some(4)).into());
    }
    let block = unit.config.block_size.bytes();
    let blocks = Blocks::of(call).within(unit)?;
    // SBC-3 5.44: WSNZ is 1, so a count of 0 is an invalid field, as is one above the maximum.
    if !(1..=u64::from(MOST_SAME_BLOCKS)).contains(&blocks.count) {
        return Err(bad_count(call));
    }
    let range = blocks.bytes(unit);
    let allocation = match (unmap, anchor) {
        (false, _) => Allocation::Write,
        (true, false) => Allocation::Deallocate,
        (true, true) => Allocation::Anchor,
    };
    let length = if no_data { 0 } else { block };
    call.origin.length = u64::from(length);
    call.claim(range, Hold::Shared);
    if no_data {
        return flushed(call, MediumOperation::Zero { range, allocation });
    }
    // Another length than a block's makes the block doubtful.
    if call.origin.expected_out != u64::from(length) {
        return Err(Sense::illegal(SenseCode::INVALID_INFORMATION_UNIT).into());
    }
    call.parameters(length, Box::new(SameBlock { range, allocation }))
}

#[derive(Debug)]
struct SameBlock {
    range: ByteRange,
    allocation: Allocation,
}

impl Work for SameBlock {
    fn data_out(self: Box<Self>, call: &mut Call<'_>, block: Bytes) -> Planned {
        let range = self.range;
        // SBC-3 5.44: UNMAP unmaps only if unmapped blocks read as the block does.
        let operation = match block.iter().all(|byte| *byte == 0) {
            true => MediumOperation::Zero { range, allocation: self.allocation },
            false => MediumOperation::WriteSame { range, block },
        };
        flushed(call, operation)
    }
}

/// Most descriptors of GET LBA STATUS.
const MOST_STATUS: u32 = 256;

pub(crate) fn get_lba_status(call: &mut Call<'_>) -> Planned {
    let unit = call.unit()?;
    let lba = call.be64(2);
    if lba >= unit.blocks {
        return Err(out_of_range(lba));
    }
    let blocks = Blocks { lba, count: unit.blocks - lba };
    if !unit.is_thin() {
        let all = Run { start: lba, end: unit.blocks, state: ExtentState::Mapped };
        return status_data(call, &[all]);
    }
    let range = blocks.bytes(unit);
    let most = (call.be32(10).saturating_sub(8) / 16).clamp(1, MOST_STATUS);
    call.claim(range, Hold::Shared);
    let operation = MediumOperation::Map { range, most };
    call.on_medium(operation, Then::Work(Box::new(LbaStatus { blocks, most })))
}

#[derive(Debug)]
struct LbaStatus {
    blocks: Blocks,
    most: u32,
}

impl Work for LbaStatus {
    fn medium(self: Box<Self>, call: &mut Call<'_>, output: MediumOutput) -> Planned {
        let MediumOutput::Extents(extents) = output else { return Err(Sense::internal().into()) };
        let mut runs = runs(self.blocks, call.unit()?.shift(), &extents);
        runs.truncate(self.most as usize);
        status_data(call, &runs)
    }
}

/// Blocks that are stored alike.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Run {
    start: u64,
    end: u64,
    state: ExtentState,
}

/// Extents of bytes as runs of whole blocks. A block that is not wholly without storage is mapped.
/// There is at least one run.
fn runs(blocks: Blocks, shift: u32, extents: &[Extent]) -> Vec<Run> {
    let (first, last) = (blocks.lba, blocks.lba.saturating_add(blocks.count));
    let mut runs: Vec<Run> = Vec::new();
    let mut add = |start: u64, end: u64, state| {
        let next = runs.last().map_or(first, |run| run.end);
        let (start, end) = (start.max(next), end.min(last));
        if start >= end {
            return;
        }
        if start > next {
            runs.push(Run { start: next, end: start, state: ExtentState::Mapped });
        }
        match runs.last_mut() {
            Some(run) if run.state == state => run.end = end,
            _ => runs.push(Run { start, end, state }),
        }
    };
    let mask = (1_u64 << shift) - 1;
    let up = |byte: u64| (byte >> shift) + u64::from(byte & mask != 0);
    let mut byte = first << shift;
    for extent in extents {
        let end = byte.saturating_add(extent.len);
        match extent.state {
            ExtentState::Mapped => add(byte >> shift, up(end), extent.state),
            _ => add(up(byte), end >> shift, extent.state),
        }
        byte = end;
    }
    if runs.is_empty() {
        runs.push(Run { start: first, end: last.min(first + 1), state: ExtentState::Mapped });
    }
    runs
}

/// The parameter data (SBC-3 5.5.2).
fn status_data(call: &mut Call<'_>, runs: &[Run]) -> Planned {
    let length = u32::try_from(4 + 16 * runs.len()).unwrap_or(u32::MAX);
    let mut data = [length.to_be_bytes(), [0; 4]].concat();
    for run in runs {
        data.extend(run.start.to_be_bytes());
        data.extend(clamp32(run.end - run.start).to_be_bytes());
        let state = match run.state {
            ExtentState::Mapped => 0,
            ExtentState::Deallocated => 1,
            ExtentState::Anchored => 2,
        };
        data.extend([state, 0, 0, 0]);
    }
    let allocation = u64::from(call.be32(10));
    call.data(data, allocation)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(len: u64, state: ExtentState) -> Extent {
        Extent { len, state }
    }

    #[test]
    fn extents_become_whole_blocks() {
        use ExtentState::{Anchored, Deallocated, Mapped};
        type Case<'a> = (&'a [Extent], &'a [(u64, u64, ExtentState)]);
        let cases: [Case<'_>; 7] = [
            (&[], &[(10, 11, Mapped)]),
            (&[extent(100, Deallocated)], &[(10, 11, Mapped)]),
            (
                &[extent(1024, Deallocated), extent(512, Mapped)],
                &[(10, 12, Deallocated), (12, 13, Mapped)],
            ),
            (
                &[extent(600, Mapped), extent(100, Deallocated), extent(324, Mapped)],
                &[(10, 12, Mapped)],
            ),
            (
                &[extent(100, Deallocated), extent(412, Anchored), extent(512, Anchored)],
                &[(10, 11, Mapped), (11, 12, Anchored)],
            ),
            (&[extent(u64::MAX, Deallocated), extent(u64::MAX, Mapped)], &[(10, 30, Deallocated)]),
            (&[extent(0, Mapped), extent(512, Mapped), extent(512, Mapped)], &[(10, 12, Mapped)]),
        ];
        for (extents, expected) in cases {
            let found = runs(Blocks { lba: 10, count: 20 }, 9, extents);
            let found: Vec<_> = found.iter().map(|run| (run.start, run.end, run.state)).collect();
            assert_eq!(found, expected, "{extents:?}");
        }
    }
}
