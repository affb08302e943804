//! EXTENDED COPY (LID1) and RECEIVE COPY RESULTS (SPC-4 6.4, 6.18 to 6.21) within the target.
//!
//! `list` reads and checks the parameter list: nothing is copied if a descriptor is wrong. `run`
//! copies piece by piece.

use crate::call::{Call, Plan, Planned, Reply};
use crate::copy::run::CopyList;
use crate::locks::{Claim, Hold};
use crate::results::CopyResult;
use crate::sense::Sense;
use crate::step::ByteRange;
use crate::third_party::{
    DESCRIPTORS, MOST_DESCRIPTOR_BYTES, MOST_SEGMENT_BYTES, MOST_SEGMENTS, MOST_TARGETS,
};
use crate::wire::{clamp16, clamp32};

mod list;
mod run;

/// Bytes before the descriptors.
const HEAD: usize = 16;

pub(crate) fn extended_copy(call: &mut Call<'_>) -> Planned {
    let length = call.be32(10);
    if length == 0 {
        return Ok(Plan::Reply(Reply::good()));
    }
    let most = clamp32((HEAD + MOST_DESCRIPTOR_BYTES) as u64);
    if length < clamp32(HEAD as u64) || length > most {
        return Err(Sense::list_length().into());
    }
    // The list says later which blocks of which units they are.
    let range = ByteRange { offset: 0, len: u64::MAX };
    call.origin.access.claims.push(Claim { lun: None, range, hold: Hold::Exclusive });
    call.parameters(length, Box::new(CopyList))
}

pub(crate) fn results(call: &mut Call<'_>) -> Planned {
    let (nexus, list) = (call.origin.nexus, call.byte(2));
    let allocation = u64::from(call.be32(10));
    // SPC-4 6.18.1: an unknown list identifier is an invalid field.
    let unknown = Sense::cdb_field(2, None);
    let known = call.state.copies.find(nexus, list).cloned().ok_or(unknown);
    let data = match call.byte(1) & 0x1f {
        0 => status(&known?),
        1 => known.map(|_| vec![0; 4])?,
        3 => parameters(),
        4 => {
            let found = known?;
            call.state.copies.take(nexus, list);
            failed_segment(&found)
        }
        _ => return Err(Sense::cdb_field(1, Some(4)).into()),
    };
    call.data(data, allocation)
}

/// COPY STATUS (SPC-4 6.18.2): the transfer is counted in bytes, or in the smallest power of 1,024
/// bytes that fits.
fn status(found: &CopyResult) -> Vec<u8> {
    let (mut units, mut count) = (0, found.bytes);
    while count > u64::from(u32::MAX) {
        (units, count) = (units + 1, count >> 10);
    }
    let state = if found.failure.is_none() { 1 } else { 2 };
    let [high, low] = found.segments.to_be_bytes();
    let mut data = vec![0, 0, 0, 8, state, high, low, units];
    data.extend(clamp32(count).to_be_bytes());
    data
}

/// OPERATING PARAMETERS (SPC-4 6.18.4).
fn parameters() -> Vec<u8> {
    let mut data = vec![0; 44 + DESCRIPTORS.len()];
    let length = clamp32(data.len() as u64 - 4);
    data[0..4].copy_from_slice(&length.to_be_bytes());
    // SNLID: a copy without list identifier is possible.
    data[4] = 1;
    data[8..10].copy_from_slice(&clamp16(MOST_TARGETS).to_be_bytes());
    data[10..12].copy_from_slice(&clamp16(MOST_SEGMENTS).to_be_bytes());
    data[12..16].copy_from_slice(&clamp32(MOST_DESCRIPTOR_BYTES as u64).to_be_bytes());
    data[16..20].copy_from_slice(&MOST_SEGMENT_BYTES.to_be_bytes());
    data[34..36].copy_from_slice(&128_u16.to_be_bytes());
    data[36] = 128;
    // Copies are multiples of 512 bytes.
    data[37] = 9;
    data[43] = u8::try_from(DESCRIPTORS.len()).unwrap_or(0);
    data[44..].copy_from_slice(&DESCRIPTORS);
    data
}

/// FAILED SEGMENT DETAILS (SPC-4 6.18.5); four bytes if nothing failed.
fn failed_segment(found: &CopyResult) -> Vec<u8> {
    let Some(failure) = found.failure else { return vec![0; 4] };
    let sense = failure.to_bytes(false);
    let mut data = vec![0; 60];
    // CHECK CONDITION.
    data[56] = 0x02;
    data[58..60].copy_from_slice(&clamp16(sense.len()).to_be_bytes());
    data.extend(sense);
    let length = clamp32(data.len() as u64 - 4);
    data[0..4].copy_from_slice(&length.to_be_bytes());
    data
}
