//! READ, WRITE, PRE-FETCH, SYNCHRONIZE CACHE (SBC-3 5.9, 5.11 to 5.15, 5.28, 5.36 to 5.40).
//!
//! When the initiator's expected length and the command's differ, the shorter one is transferred
//! (SAM-5 5.4.3). A write whose expected length ends within a block writes nothing.

use crate::block::range::{Blocks, transfer};
use crate::call::{Call, Failure, Plan, Planned, Reply, Then, Work};
use crate::locks::Hold;
use crate::sense::{Sense, SenseCode};
use crate::status::Status;
use crate::step::{ByteRange, DataIn, MediumOperation, MediumOutput, ReadTo, WriteFrom};

pub(crate) fn read(call: &mut Call<'_>) -> Planned {
    let range = transfer(call)?;
    call.origin.length = range.len;
    let sent = range.len.min(call.origin.expected_in);
    if sent == 0 {
        return Ok(Plan::Reply(Reply::good()));
    }
    call.claim(range, Hold::Shared);
    let block = u64::from(call.unit()?.config.block_size.bytes());
    let (offset, len) = (range.offset, sent.next_multiple_of(block));
    let operation = MediumOperation::Read { offset, len, to: ReadTo::DataIn { len: sent } };
    let reply = Reply { status: Status::Good, data: DataIn::Medium { len: sent } };
    call.on_medium(operation, Then::Reply(reply))
}

pub(crate) fn write(call: &mut Call<'_>) -> Planned {
    let range = transfer(call)?;
    let Some(range) = taken(call, range)? else {
        return Ok(Plan::Reply(Reply::good()));
    };
    call.claim(range, Hold::Shared);
    let fua = call.origin.row.usage.len() > 6 && call.bit(1, 3);
    let operation = MediumOperation::Write {
        offset: range.offset,
        len: range.len,
        fua: fua || !call.unit()?.mode.write_cache,
        from: WriteFrom::DataOut,
    };
    call.on_medium(operation, Then::Reply(Reply::good()))
}

/// The part of a write's range for which the initiator has bytes; `None` if that is no block.
pub(crate) fn taken(call: &mut Call<'_>, range: ByteRange) -> Result<Option<ByteRange>, Failure> {
    call.origin.length = range.len;
    let len = range.len.min(call.origin.expected_out);
    if !len.is_multiple_of(u64::from(call.unit()?.config.block_size.bytes())) {
        return Err(Sense::illegal(SenseCode::INVALID_INFORMATION_UNIT).into());
    }
    Ok((len > 0).then_some(ByteRange { len, ..range }))
}

/// PRE-FETCH (SBC-3 5.9). The answer is GOOD, not CONDITION MET: the crate promises no cache that
/// has room.
pub(crate) fn prefetch(call: &mut Call<'_>) -> Planned {
    let unit = call.unit()?;
    let asked = Blocks::of(call);
    let blocks = if asked.lba == unit.blocks { asked.within(unit) } else { asked.to_end(unit) };
    let range = blocks?.bytes(unit);
    if range.len == 0 {
        return Ok(Plan::Reply(Reply::good()));
    }
    let operation = MediumOperation::Prefetch { offset: range.offset, len: range.len };
    call.on_medium(operation, Then::Reply(Reply::good()))
}

/// SYNCHRONIZE CACHE (SBC-3 5.28). It flushes the whole unit, and answers when that is done even
/// with IMMED.
pub(crate) fn synchronize_cache(call: &mut Call<'_>) -> Planned {
    let unit = call.unit()?;
    let asked = Blocks::of(call);
    let _ = if asked.lba == unit.blocks { asked.within(unit) } else { asked.to_end(unit) }?;
    call.on_medium(MediumOperation::Flush, Then::Reply(Reply::good()))
}

/// Ends a command after an operation that knows no FUA: without a write cache the operation's
/// result is flushed first.
pub(crate) fn flushed(call: &Call<'_>, operation: MediumOperation) -> Planned {
    let then = match call.unit()?.mode.write_cache {
        true => Then::Reply(Reply::good()),
        false => Then::Work(Box::new(FlushNext)),
    };
    call.on_medium(operation, then)
}

#[derive(Debug)]
struct FlushNext;

impl Work for FlushNext {
    fn medium(self: Box<Self>, call: &mut Call<'_>, _: MediumOutput) -> Planned {
        call.on_medium(MediumOperation::Flush, Then::Reply(Reply::good()))
    }
}
