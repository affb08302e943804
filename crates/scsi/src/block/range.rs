//! The blocks that a command names, and the checks on them.

use crate::call::{Call, Failure};
use crate::sense::{Sense, SenseCode};
use crate::state::LogicalUnit;
use crate::step::ByteRange;
use crate::table::Operation;
use crate::wire;

/// Blocks of a unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Blocks {
    pub(crate) lba: u64,
    pub(crate) count: u64,
}

impl Blocks {
    /// The fields of the command. Their places follow from its length (SPC-4 4.3.3).
    pub(crate) fn of(call: &Call<'_>) -> Self {
        let cdb = &call.origin.cdb;
        let six = wire::be::<3>(cdb, 1).unwrap_or(0) & 0x1f_ffff;
        match call.origin.row.usage.len() {
            // SBC-3 5.12: a length of 0 is 256 blocks.
            6 => Self { lba: six, count: if cdb[4] == 0 { 256 } else { u64::from(cdb[4]) } },
            10 => Self { lba: u64::from(call.be32(2)), count: u64::from(call.be16(7)) },
            12 => Self { lba: u64::from(call.be32(2)), count: u64::from(call.be32(6)) },
            _ if call.origin.row.operation == Operation::CompareAndWrite => {
                Self { lba: call.be64(2), count: u64::from(cdb[13]) }
            }
            _ => Self { lba: call.be64(2), count: u64::from(call.be32(10)) },
        }
    }

    /// The blocks, if they lie within the unit. No blocks may begin at its very end.
    pub(crate) fn within(self, unit: &LogicalUnit) -> Result<Self, Failure> {
        match self.lba <= unit.blocks && self.count <= unit.blocks - self.lba {
            true => Ok(self),
            false => Err(out_of_range(self.lba.max(unit.blocks))),
        }
    }

    /// As [`Blocks::within`], where a count of 0 means all blocks to the end of the unit.
    pub(crate) fn to_end(self, unit: &LogicalUnit) -> Result<Self, Failure> {
        if self.count > 0 {
            return self.within(unit);
        }
        match self.lba < unit.blocks {
            true => Ok(Self { count: unit.blocks - self.lba, ..self }),
            false => Err(out_of_range(self.lba)),
        }
    }

    /// The bytes. The blocks lie within the unit, so nothing overflows: a unit has less than 2^63
    /// bytes.
    pub(crate) const fn bytes(self, unit: &LogicalUnit) -> ByteRange {
        let shift = unit.shift();
        ByteRange { offset: self.lba << shift, len: self.count << shift }
    }
}

/// The command's blocks, checked against the unit's end and MAXIMUM TRANSFER LENGTH.
pub(crate) fn transfer(call: &Call<'_>) -> Result<ByteRange, Failure> {
    let unit = call.unit()?;
    let blocks = Blocks::of(call).within(unit)?;
    // SBC-3 6.6.3: more than the maximum is an invalid field.
    if blocks.count > u64::from(unit.config.most_transfer) {
        return Err(bad_count(call));
    }
    Ok(blocks.bytes(unit))
}

/// The command's count of blocks is an invalid field.
pub(crate) fn bad_count(call: &Call<'_>) -> Failure {
    let byte = match call.origin.row.usage.len() {
        6 => 4,
        10 => 7,
        12 => 6,
        _ if call.origin.row.operation == Operation::CompareAndWrite => 13,
        _ => 10,
    };
    Sense::cdb_field(byte, None).into()
}

/// The first block that is not there is `lba`.
pub(crate) fn out_of_range(lba: u64) -> Failure {
    Sense::illegal(SenseCode::LBA_OUT_OF_RANGE).with_information(lba).into()
}
