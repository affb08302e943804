//! The parameter list of EXTENDED COPY.

use crate::id::{LunNumber, NexusId};
use crate::inquiry::{naa, vendor_identifier};
use crate::registry::Registrant;
use crate::sense::{Sense, SenseCode, SenseKey};
use crate::state::{LogicalUnit, State};
use crate::step::ByteRange;
use crate::third_party::{
    BLOCKS, BLOCKS_WITH_OFFSETS, IDENTIFICATION, MOST_DESCRIPTOR_BYTES, MOST_SEGMENT_BYTES,
    MOST_SEGMENTS, MOST_TARGETS,
};
use crate::wire::{be, be16, be32, be64, clamp16};

/// One copy from unit to unit. Both ranges are as long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Segment {
    pub(crate) from: (LunNumber, ByteRange),
    pub(crate) to: (LunNumber, ByteRange),
}

/// What becomes of a copy's result (SPC-4 table 113).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Keep {
    Always,
    Failures,
    Never,
}

/// A list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct CopyPlan {
    pub(crate) list: u8,
    pub(crate) keep: Keep,
    pub(crate) segments: Vec<Segment>,
}

/// Reads a list for a nexus, and checks that every segment can be copied.
pub(crate) fn parse(
    state: &State,
    nexus: NexusId,
    who: &Registrant,
    list: &[u8],
) -> Result<CopyPlan, Sense> {
    let (targets, segments) = descriptors(list)?;
    let keep = match list[1] >> 3 & 3 {
        0 => Keep::Always,
        2 => Keep::Failures,
        3 if list[0] == 0 => Keep::Never,
        // SPC-4 table 113: 01b is reserved; 11b has list identifier 0.
        3 => return Err(Sense::list_field(0, None)),
        _ => return Err(Sense::list_field(1, Some(4))),
    };
    for (number, target) in targets.iter().enumerate() {
        let place = clamp16(16 + 32 * number);
        if target[0] != IDENTIFICATION {
            return Err(pointing(SenseCode::UNSUPPORTED_TARGET_DESCRIPTOR, place));
        }
        // The peripheral device type: block devices only.
        if target[1] & 0x1f != 0 {
            return Err(Sense::list_field(place + 1, Some(4)));
        }
    }
    let found: Vec<Option<LunNumber>> =
        targets.iter().map(|target| resolve(state, nexus, target)).collect();
    let mut plan = Vec::new();
    let base = 16 + 32 * targets.len();
    let mut at = 0;
    while at < segments.len() {
        let segment = one(&segments[at..], base + at)?;
        let (from, to) = (segment.from, segment.to);
        let unit = |index: u16, writes| {
            let target = targets.get(usize::from(index));
            let lun = found.get(usize::from(index)).copied().flatten();
            let (lun, target) = lun.zip(target).ok_or(unreachable())?;
            let unit = state.units.get(&lun).ok_or(unreachable())?;
            if writes && state.is_read_only(nexus, lun) {
                return Err(aborted());
            }
            usable(unit, target, who, writes).map(|()| (lun, unit))
        };
        let (from_lun, from_unit) = unit(from, false)?;
        let (to_lun, to_unit) = unit(to, true)?;
        let bytes = segment.bytes(from_unit, to_unit)?;
        if bytes > 0 {
            plan.push(Segment {
                from: (from_lun, placed(from_unit, segment.from_lba, bytes)?),
                to: (to_lun, placed(to_unit, segment.to_lba, bytes)?),
            });
        }
        at += segment.length;
    }
    Ok(CopyPlan { list: list[0], keep, segments: plan })
}

fn pointing(code: SenseCode, byte: u16) -> Sense {
    Sense { code, ..Sense::list_field(byte, None) }
}

/// SPC-4 6.4.3: a target that is not there ends the copy.
fn unreachable() -> Sense {
    Sense::new(SenseKey::CopyAborted, SenseCode::TARGET_UNREACHABLE)
}

fn aborted() -> Sense {
    Sense::new(SenseKey::CopyAborted, SenseCode::NONE)
}

/// Both lists of descriptors, by the lengths in the header (SPC-4 6.4.3).
fn descriptors(list: &[u8]) -> Result<(&[[u8; 32]], &[u8]), Sense> {
    let short = Sense::list_length();
    let targets = usize::from(be16(list, 2).ok_or(short)?);
    let segments = be32(list, 8).ok_or(short)? as usize;
    let inline = be32(list, 12).ok_or(short)?;
    if targets + segments > MOST_DESCRIPTOR_BYTES {
        return Err(short);
    }
    let rest = list.get(16..).ok_or(short)?;
    let (targets, rest) = rest.split_at_checked(targets).ok_or(short)?;
    let segments = rest.get(..segments).ok_or(short)?;
    if inline > 0 {
        return Err(pointing(SenseCode::INLINE_DATA_LENGTH, 12));
    }
    let (targets, incomplete) = targets.as_chunks::<32>();
    if !incomplete.is_empty() {
        return Err(Sense::list_field(2, None));
    }
    if targets.len() > MOST_TARGETS {
        return Err(Sense::illegal(SenseCode::TOO_MANY_TARGETS));
    }
    if count(segments) > MOST_SEGMENTS {
        return Err(Sense::illegal(SenseCode::TOO_MANY_SEGMENTS));
    }
    Ok((targets, segments))
}

/// Segment descriptors, as far as their lengths lead.
fn count(mut segments: &[u8]) -> usize {
    let mut count = 0;
    while let Some(length) = be16(segments, 2) {
        count += 1;
        segments = segments.get(4 + usize::from(length)..).unwrap_or_default();
    }
    count
}

/// The unit that an identification descriptor names (SPC-4 6.4.4.4): by NAA or by vendor and serial
/// number.
fn resolve(state: &State, nexus: NexusId, target: &[u8; 32]) -> Option<LunNumber> {
    let value = target[8..28].get(..usize::from(target[7]))?;
    let matches = |unit: &LogicalUnit| match (target[4] & 0x0f, target[5] & 0x3f) {
        (1, 3) => naa(&unit.config) == value,
        (2, 1) => vendor_identifier(&state.config, &unit.config) == value,
        _ => false,
    };
    let sees = |lun| state.right(nexus, lun).is_some();
    state.units.iter().find(|(lun, unit)| sees(**lun) && matches(unit)).map(|(lun, _)| *lun)
}

/// Whether a unit can be a copy's source or destination.
fn usable(
    unit: &LogicalUnit,
    target: &[u8; 32],
    who: &Registrant,
    writes: bool,
) -> Result<(), Sense> {
    let block = be::<3>(target, 29);
    let sound = unit.loaded
        && block == Some(u64::from(unit.config.block_size.bytes()))
        && unit.registry.admits(who, !writes)
        && !(writes && unit.mode.write_protect);
    if sound { Ok(()) } else { Err(aborted()) }
}

/// The fields of a segment descriptor.
struct Fields {
    /// Bytes of the descriptor.
    length: usize,
    from: u16,
    to: u16,
    from_lba: u64,
    to_lba: u64,
    amount: Amount,
}

enum Amount {
    /// Blocks of the destination if `true`, of the source otherwise.
    Blocks(u64, bool),
    Bytes(u32),
}

impl Fields {
    fn bytes(&self, from: &LogicalUnit, to: &LogicalUnit) -> Result<u64, Sense> {
        let bytes = match self.amount {
            Amount::Blocks(count, true) => count << to.shift(),
            Amount::Blocks(count, false) => count << from.shift(),
            Amount::Bytes(bytes) => u64::from(bytes),
        };
        let larger = from.shift().max(to.shift());
        match bytes % (1 << larger) == 0 && bytes <= u64::from(MOST_SEGMENT_BYTES) {
            true => Ok(bytes),
            false => Err(aborted()),
        }
    }
}

/// One segment descriptor (SPC-4 6.4.5). `place` is where it begins in the list.
fn one(bytes: &[u8], place: usize) -> Result<Fields, Sense> {
    let place = clamp16(place);
    let short = Sense::list_length();
    let expected = match bytes.first() {
        Some(&BLOCKS) => 0x18,
        Some(&BLOCKS_WITH_OFFSETS) => 0x1c,
        _ => return Err(pointing(SenseCode::UNSUPPORTED_SEGMENT_DESCRIPTOR, place)),
    };
    if be16(bytes, 2).ok_or(short)? != expected {
        return Err(Sense::list_field(place + 2, None));
    }
    let length = 4 + usize::from(expected);
    let bytes = bytes.get(..length).ok_or(short)?;
    let field16 = |at| be16(bytes, at).ok_or(short);
    let field64 = |at| be64(bytes, at).ok_or(short);
    let amount = match expected {
        0x18 => Amount::Blocks(u64::from(field16(10)?), bytes[1] & 2 != 0),
        _ => {
            // The crate copies whole blocks: an offset within a block is not there.
            if field16(28)? != 0 || field16(30)? != 0 {
                return Err(Sense::list_field(place + 28, None));
            }
            Amount::Bytes(be32(bytes, 8).ok_or(short)?)
        }
    };
    let (from, to) = (field16(4)?, field16(6)?);
    Ok(Fields { length, from, to, from_lba: field64(12)?, to_lba: field64(20)?, amount })
}

/// Where `bytes` lie that begin with a block of a unit; the copy ends if the unit ends before.
fn placed(unit: &LogicalUnit, lba: u64, bytes: u64) -> Result<ByteRange, Sense> {
    let count = bytes >> unit.shift();
    match lba <= unit.blocks && count <= unit.blocks - lba {
        true => Ok(ByteRange { offset: lba << unit.shift(), len: bytes }),
        false => Err(aborted()),
    }
}
