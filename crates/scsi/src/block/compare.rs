//! Commands that compare or combine: VERIFY, WRITE AND VERIFY, ORWRITE, COMPARE AND WRITE
//! (SBC-3 5.2, 5.8, 5.31 to 5.33, 5.41 to 5.43).
//!
//! All but COMPARE AND WRITE work in pieces of [`PREFERRED_TRANSFER_BYTES`]: they ask for a piece
//! of data-out, read the piece of the medium, and go on. So no command holds more than two pieces.

use bytes::Bytes;

use crate::block::range::{Blocks, bad_count, transfer};
use crate::block::transfer::taken;
use crate::call::{Call, Failure, Plan, Planned, Reply, Then, Work};
use crate::limits::{MOST_COMPARE_BLOCKS, PREFERRED_TRANSFER_BYTES};
use crate::locks::Hold;
use crate::sense::{Sense, SenseCode, SenseKey};
use crate::step::{ByteRange, MediumOperation, MediumOutput, ReadTo, WriteFrom};
use crate::wire::clamp32;

/// What a command does with each piece.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Combination {
    /// Reads and compares.
    Verify,
    /// Writes, reads back and compares.
    WriteVerify,
    /// Reads, combines and writes.
    Or,
}

/// A command in pieces. `data` is the present piece of data-out.
#[derive(Debug)]
struct Pieces {
    combination: Combination,
    range: ByteRange,
    done: u64,
    fua: bool,
    data: Bytes,
    /// The piece was written and is to be read back.
    written: bool,
}

impl Pieces {
    fn begin(combination: Combination, range: ByteRange, fua: bool) -> Planned {
        let data = Bytes::new();
        let written = false;
        Box::new(Self { combination, range, done: 0, fua, data, written }).next()
    }

    fn length(&self) -> u32 {
        clamp32(self.range.len - self.done).min(PREFERRED_TRANSFER_BYTES)
    }

    /// Asks for the next piece.
    fn next(self: Box<Self>) -> Planned {
        if self.done >= self.range.len {
            return Ok(Plan::Reply(Reply::good()));
        }
        Ok(Plan::DataOut { offset: self.done, len: self.length(), work: self })
    }

    fn read(self: Box<Self>, call: &Call<'_>) -> Planned {
        let (offset, len) = (self.range.offset + self.done, u64::from(self.length()));
        let operation = MediumOperation::Read { offset, len, to: ReadTo::Task };
        call.on_medium(operation, Then::Work(self))
    }

    fn write(mut self: Box<Self>, call: &Call<'_>, bytes: Bytes) -> Planned {
        self.written = true;
        let (offset, len) = (self.range.offset + self.done, u64::from(self.length()));
        let from = WriteFrom::Bytes(bytes);
        let operation = MediumOperation::Write { offset, len, fua: self.fua, from };
        call.on_medium(operation, Then::Work(self))
    }

    fn piece_done(mut self: Box<Self>) -> Planned {
        self.done += u64::from(self.length());
        self.written = false;
        self.next()
    }
}

impl Work for Pieces {
    fn data_out(mut self: Box<Self>, call: &mut Call<'_>, bytes: Bytes) -> Planned {
        self.data = bytes.clone();
        match self.combination {
            Combination::WriteVerify => self.write(call, bytes),
            Combination::Verify | Combination::Or => self.read(call),
        }
    }

    fn medium(self: Box<Self>, call: &mut Call<'_>, output: MediumOutput) -> Planned {
        match (self.combination, output) {
            (Combination::Or, MediumOutput::Bytes(old)) => {
                let combined = old.iter().zip(&self.data).map(|(a, b)| a | b).collect();
                self.write(call, combined)
            }
            (Combination::Or, _) => self.piece_done(),
            (_, MediumOutput::Bytes(bytes)) => {
                equal(&bytes, &self.data, self.done)?;
                self.piece_done()
            }
            (_, _) => self.read(call),
        }
    }
}

/// Whether bytes of the medium are the initiator's, which begin `base` bytes into its buffer.
fn equal(medium: &[u8], data: &[u8], base: u64) -> Result<(), Failure> {
    if medium == data {
        return Ok(());
    }
    let different = medium.iter().zip(data).position(|(a, b)| a != b).unwrap_or(0);
    // SBC-3 5.2: INFORMATION is the place of the first difference in the data-out buffer.
    let sense = Sense::new(SenseKey::Miscompare, SenseCode::MISCOMPARE);
    Err(sense.with_information(base + different as u64).into())
}

pub(crate) fn verify(call: &mut Call<'_>) -> Planned {
    let unit = call.unit()?;
    match call.byte(1) >> 1 & 3 {
        0 => {
            let range = Blocks::of(call).within(unit)?.bytes(unit);
            if range.len == 0 {
                return Ok(Plan::Reply(Reply::good()));
            }
            call.claim(range, Hold::Shared);
            let (offset, len) = (range.offset, range.len);
            let operation = MediumOperation::Read { offset, len, to: ReadTo::Nowhere };
            call.on_medium(operation, Then::Reply(Reply::good()))
        }
        1 => {
            let range = transfer(call)?;
            call.origin.length = range.len;
            call.needs_data_out(range.len)?;
            if range.len > 0 {
                call.claim(range, Hold::Shared);
            }
            Pieces::begin(Combination::Verify, range, false)
        }
        3 => verify_one(call),
        // SBC-3 table 106: 10b is reserved.
        _ => Err(Sense::cdb_field(1, Some(2)).into()),
    }
}

/// VERIFY with BYTCHK 11b: each block is compared with one block of data-out.
fn verify_one(call: &mut Call<'_>) -> Planned {
    let unit = call.unit()?;
    let block = unit.config.block_size.bytes();
    let range = Blocks::of(call).within(unit)?.bytes(unit);
    if range.len == 0 {
        return Ok(Plan::Reply(Reply::good()));
    }
    call.claim(range, Hold::Shared);
    let work = Same { range, done: 0, block: Bytes::new() };
    call.parameters(block, Box::new(work))
}

/// A range whose blocks are all to be equal to one.
#[derive(Debug)]
struct Same {
    range: ByteRange,
    done: u64,
    block: Bytes,
}

impl Same {
    fn read(self: Box<Self>, call: &Call<'_>) -> Planned {
        let len = (self.range.len - self.done).min(u64::from(PREFERRED_TRANSFER_BYTES));
        if len == 0 {
            return Ok(Plan::Reply(Reply::good()));
        }
        let offset = self.range.offset + self.done;
        let operation = MediumOperation::Read { offset, len, to: ReadTo::Task };
        call.on_medium(operation, Then::Work(self))
    }
}

impl Work for Same {
    fn data_out(mut self: Box<Self>, call: &mut Call<'_>, bytes: Bytes) -> Planned {
        self.block = bytes;
        self.read(call)
    }

    fn medium(mut self: Box<Self>, call: &mut Call<'_>, output: MediumOutput) -> Planned {
        let MediumOutput::Bytes(bytes) = output else { return Err(Sense::internal().into()) };
        for block in bytes.chunks(self.block.len().max(1)) {
            equal(block, &self.block, 0)?;
        }
        self.done += bytes.len() as u64;
        self.read(call)
    }
}

pub(crate) fn write_and_verify(call: &mut Call<'_>) -> Planned {
    let compares = match call.byte(1) >> 1 & 3 {
        0 => false,
        1 => true,
        // SBC-3 5.41: 10b and 11b are reserved.
        _ => return Err(Sense::cdb_field(1, Some(2)).into()),
    };
    let range = transfer(call)?;
    let Some(range) = taken(call, range)? else {
        return Ok(Plan::Reply(Reply::good()));
    };
    call.claim(range, Hold::Shared);
    if compares {
        return Pieces::begin(Combination::WriteVerify, range, true);
    }
    let (offset, len, from) = (range.offset, range.len, WriteFrom::DataOut);
    let operation = MediumOperation::Write { offset, len, fua: true, from };
    call.on_medium(operation, Then::Work(Box::new(ReadBack { range })))
}

/// WRITE AND VERIFY without comparison: what was written can be read.
#[derive(Debug)]
struct ReadBack {
    range: ByteRange,
}

impl Work for ReadBack {
    fn medium(self: Box<Self>, call: &mut Call<'_>, _: MediumOutput) -> Planned {
        let (offset, len) = (self.range.offset, self.range.len);
        let operation = MediumOperation::Read { offset, len, to: ReadTo::Nowhere };
        call.on_medium(operation, Then::Reply(Reply::good()))
    }
}

pub(crate) fn or_write(call: &mut Call<'_>) -> Planned {
    let range = transfer(call)?;
    call.origin.length = range.len;
    call.needs_data_out(range.len)?;
    if range.len > 0 {
        call.claim(range, Hold::Exclusive);
    }
    let fua = call.bit(1, 3) || !call.unit()?.mode.write_cache;
    Pieces::begin(Combination::Or, range, fua)
}

pub(crate) fn compare_and_write(call: &mut Call<'_>) -> Planned {
    let unit = call.unit()?;
    let blocks = Blocks::of(call);
    // SBC-3 5.2: more than MAXIMUM COMPARE AND WRITE LENGTH is an invalid field.
    let most = u64::from(MOST_COMPARE_BLOCKS).min(u64::from(unit.config.most_transfer));
    // A count of 0 beside data-out is more than 255, cut to the field's eight bits.
    if blocks.count > most || (blocks.count == 0 && call.origin.expected_out > 0) {
        return Err(bad_count(call));
    }
    let range = blocks.within(unit)?.bytes(unit);
    let fua = call.bit(1, 3) || !unit.mode.write_cache;
    let both = 2 * range.len;
    call.origin.length = both;
    if call.origin.expected_out != both {
        return Err(Sense::illegal(SenseCode::INVALID_INFORMATION_UNIT).into());
    }
    if both == 0 {
        return Ok(Plan::Reply(Reply::good()));
    }
    call.claim(range, Hold::Exclusive);
    let work = CompareAndWrite { range, fua, data: Bytes::new(), written: false };
    call.parameters(clamp32(both), Box::new(work))
}

/// The first half of `data` is compared, the second half is written.
#[derive(Debug)]
struct CompareAndWrite {
    range: ByteRange,
    fua: bool,
    data: Bytes,
    written: bool,
}

impl Work for CompareAndWrite {
    fn data_out(mut self: Box<Self>, call: &mut Call<'_>, bytes: Bytes) -> Planned {
        self.data = bytes;
        let (offset, len) = (self.range.offset, self.range.len);
        call.on_medium(MediumOperation::Read { offset, len, to: ReadTo::Task }, Then::Work(self))
    }

    fn medium(mut self: Box<Self>, call: &mut Call<'_>, output: MediumOutput) -> Planned {
        let MediumOutput::Bytes(old) = output else {
            return match self.written {
                true => Ok(Plan::Reply(Reply::good())),
                false => Err(Sense::internal().into()),
            };
        };
        // Both halves are as long as what was read.
        let half = old.len().min(self.data.len());
        equal(&old, &self.data[..half], 0)?;
        self.written = true;
        let from = WriteFrom::Bytes(self.data.split_off(half));
        let ByteRange { offset, len } = self.range;
        let operation = MediumOperation::Write { offset, len, fua: self.fua, from };
        call.on_medium(operation, Then::Work(self))
    }
}
