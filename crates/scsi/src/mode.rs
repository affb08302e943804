//! MODE SENSE and MODE SELECT (SPC-4 6.11 to 6.14).

use bytes::Bytes;

use crate::attention::Attention;
use crate::call::{Call, Failure, Plan, Planned, Reply, Then, Work};
use crate::pages::{CODES, ModeBits};
use crate::sense::{Sense, SenseCode};
use crate::state::LogicalUnit;
use crate::step::StoredState;
use crate::wire::{be, be16, be32, be64, clamp16, clamp32};

/// WP, DPOFUA (SBC-3 6.5.1).
const WRITE_PROTECT: u8 = 0x80;
const DPO_FUA: u8 = 0x10;

pub(crate) fn sense(call: &mut Call<'_>) -> Planned {
    let ten = call.origin.row.usage.len() == 10;
    let (no_blocks, long_lba) = (call.bit(1, 3), ten && call.bit(1, 4));
    let (control, code, subpage) = (call.byte(2) >> 6, call.byte(2) & 0x3f, call.byte(3));
    let allocation = u64::from(if ten { call.be16(7) } else { u16::from(call.byte(4)) });
    let unit = call.unit()?;
    let (bits, changeable) = match control {
        0 => (unit.mode, false),
        1 => (ModeBits::CHANGEABLE, true),
        2 => (ModeBits { write_cache: unit.config.write_cache, ..ModeBits::default() }, false),
        // SPC-4 6.11.5.
        _ if !unit.config.keeps_state => {
            return Err(Sense::illegal(SenseCode::SAVING_UNSUPPORTED).into());
        }
        _ => (unit.saved_mode, false),
    };
    let codes = match (code, subpage) {
        (0x3f, 0x00 | 0xff) => &CODES[..],
        // No page has a subpage.
        (_, 0x01..) => return Err(Sense::cdb_field(3, None).into()),
        (code, _) => match CODES.iter().position(|known| *known == code) {
            Some(at) => &CODES[at..=at],
            None => return Err(Sense::cdb_field(2, Some(5)).into()),
        },
    };
    let mut pages = Vec::new();
    for code in codes {
        let mut page = bits.page(*code, changeable).unwrap_or_default();
        if unit.config.keeps_state {
            page[0] |= 0x80;
        }
        pages.extend(page);
    }
    let blocks = if no_blocks { Vec::new() } else { block_descriptor(unit, long_lba) };
    let read_only = call.state.is_read_only(call.origin.nexus, call.origin.lun);
    let protect = read_only || unit.mode.write_protect;
    let device = DPO_FUA | if protect { WRITE_PROTECT } else { 0 };
    let data = [head(ten, device, long_lba, blocks.len(), pages.len()), blocks, pages].concat();
    call.data(data, allocation)
}

/// The mode parameter header (SPC-4 7.5.5).
fn head(ten: bool, device: u8, long_lba: bool, blocks: usize, pages: usize) -> Vec<u8> {
    if ten {
        let [high, low] = clamp16(6 + blocks + pages).to_be_bytes();
        let [blocks_high, blocks_low] = clamp16(blocks).to_be_bytes();
        return vec![high, low, 0, device, u8::from(long_lba), 0, blocks_high, blocks_low];
    }
    let length = |bytes| u8::try_from(bytes).unwrap_or(u8::MAX);
    vec![length(3 + blocks + pages), 0, device, length(blocks)]
}

/// The block descriptor (SPC-4 7.5.6).
fn block_descriptor(unit: &LogicalUnit, long_lba: bool) -> Vec<u8> {
    let size = unit.config.block_size.bytes().to_be_bytes();
    match long_lba {
        true => [&unit.blocks.to_be_bytes()[..], &[0; 4], &size].concat(),
        false => [clamp32(unit.blocks).to_be_bytes(), size].concat(),
    }
}

pub(crate) fn select(call: &mut Call<'_>) -> Planned {
    let ten = call.origin.row.usage.len() == 10;
    let (format, save) = (call.bit(1, 4), call.bit(1, 0));
    let length = if ten { call.be16(7) } else { u16::from(call.byte(4)) };
    // SPC-4 6.9: without PF the list is vendor specific.
    if !format {
        return Err(Sense::cdb_field(1, Some(4)).into());
    }
    if save && !call.unit()?.config.keeps_state {
        return Err(Sense::cdb_field(1, Some(0)).into());
    }
    if length == 0 {
        return Ok(Plan::Reply(Reply::good()));
    }
    call.parameters(u32::from(length), Box::new(SelectList { ten, save }))
}

#[derive(Debug)]
struct SelectList {
    ten: bool,
    save: bool,
}

impl Work for SelectList {
    fn data_out(self: Box<Self>, call: &mut Call<'_>, list: Bytes) -> Planned {
        let (lun, nexus) = (call.origin.lun, call.origin.nexus);
        let unit = call.unit_mut()?;
        let pages = pages_of(unit, &list, self.ten)?;
        let bits = changed(unit.mode, &list, pages)?;
        let differs = unit.mode != bits;
        unit.mode = bits;
        if self.save {
            unit.saved_mode = bits;
        }
        // SPC-4 6.9.
        if differs {
            call.state.attend_others(lun, Some(nexus), Attention::ModeChanged);
        }
        if self.save {
            let state = StoredState::ModePages(Bytes::copy_from_slice(&bits.save()));
            return Ok(Plan::Store { lun, state, then: Then::Reply(Reply::good()) });
        }
        Ok(Plan::Reply(Reply::good()))
    }
}

/// Where the pages begin, after the header and a block descriptor that changes nothing.
fn pages_of(unit: &LogicalUnit, list: &[u8], ten: bool) -> Result<usize, Failure> {
    let short = Failure::from(Sense::list_length());
    let (begin, long_lba, blocks, kind) = match ten {
        true => {
            let blocks = usize::from(be16(list, 6).ok_or(short)?);
            (8, list[4] & 1 != 0, blocks, 2)
        }
        false => (4, false, usize::from(*list.get(3).ok_or(short)?), 1),
    };
    // SPC-4 7.5.5: the medium type is 0 for block devices.
    if list[kind] != 0 {
        return Err(Sense::list_field(clamp16(kind), None).into());
    }
    let place = clamp16(begin);
    let descriptor = list.get(begin..).and_then(|rest| rest.get(..blocks)).ok_or(short)?;
    let (count, all, size) = match (blocks, long_lba) {
        (0, _) => return Ok(begin),
        (8, false) => {
            (be32(descriptor, 0).map(u64::from), u64::from(u32::MAX), be::<3>(descriptor, 5))
        }
        (16, true) => (be64(descriptor, 0), u64::MAX, be::<4>(descriptor, 12)),
        _ => return Err(Sense::list_field(clamp16(begin - 1), None).into()),
    };
    // The capacity cannot be changed. 0 and the highest number mean the present one.
    let count = count.unwrap_or(0);
    if count != 0 && count != all && count != unit.blocks {
        return Err(Sense::list_field(place, None).into());
    }
    if size != Some(u64::from(unit.config.block_size.bytes())) {
        return Err(Sense::list_field(place + clamp16(blocks - 3), None).into());
    }
    Ok(begin + blocks)
}

/// The bits after all pages of the list, which begin at `at`.
fn changed(mut bits: ModeBits, list: &[u8], mut at: usize) -> Result<ModeBits, Failure> {
    while let Some(rest) = list.get(at..).filter(|rest| !rest.is_empty()) {
        // PS is reserved here. Initiators send it back as they got it.
        let code = rest[0] & 0x3f;
        let page = bits.page(code, false).filter(|_| rest[0] & 0x40 == 0);
        let Some(page) = page else { return Err(Sense::list_field(clamp16(at), None).into()) };
        let Some(length) = rest.get(1) else { return Err(Sense::list_length().into()) };
        if usize::from(*length) != page.len() - 2 {
            return Err(Sense::list_field(clamp16(at + 1), None).into());
        }
        let Some(new) = rest.get(..page.len()) else { return Err(Sense::list_length().into()) };
        bits = bits
            .changed_by(new)
            .map_err(|place| Failure::from(Sense::list_field(clamp16(at + place), None)))?;
        at += page.len();
    }
    Ok(bits)
}
