//! READ CAPACITY, READ DEFECT DATA (SBC-3 5.16 to 5.19).

use crate::call::{Call, Planned};
use crate::sense::Sense;
use crate::wire::clamp32;

pub(crate) fn read_capacity10(call: &mut Call<'_>) -> Planned {
    let unit = call.unit()?;
    // SBC-3 5.16.2: the highest number says that READ CAPACITY (16) is needed.
    let last = clamp32(unit.blocks - 1);
    let block = unit.config.block_size.bytes();
    call.data([last.to_be_bytes(), block.to_be_bytes()].concat(), 8)
}

pub(crate) fn read_capacity16(call: &mut Call<'_>) -> Planned {
    let unit = call.unit()?;
    let mut data = vec![0; 32];
    data[0..8].copy_from_slice(&(unit.blocks - 1).to_be_bytes());
    data[8..12].copy_from_slice(&unit.config.block_size.bytes().to_be_bytes());
    data[13] = unit.config.physical_exponent;
    // LBPME, LBPRZ.
    data[14] = if unit.is_thin() { 0xc0 } else { 0 };
    let allocation = u64::from(call.be32(10));
    call.data(data, allocation)
}

/// READ DEFECT DATA: both lists are there and empty, in the block and the physical formats.
pub(crate) fn read_defects(call: &mut Call<'_>) -> Planned {
    let long = call.origin.row.usage.len() == 12;
    let (asked, place) = if long { (call.byte(1), 1) } else { (call.byte(2), 2) };
    // SBC-3 table 68: 110b is vendor specific, 111b is reserved.
    if asked & 7 >= 6 {
        return Err(Sense::cdb_field(place, Some(2)).into());
    }
    match long {
        true => call.data(vec![0, asked & 0x1f, 0, 0, 0, 0, 0, 0], u64::from(call.be32(6))),
        false => call.data(vec![0, asked & 0x1f, 0, 0], u64::from(call.be16(7))),
    }
}
