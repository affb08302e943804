//! A copy under way: reads a piece of a segment, writes it, goes on.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::call::{Call, Failure, Plan, Planned, Reply, Then, Work, medium_sense};
use crate::copy::list::{CopyPlan, Keep, parse};
use crate::id::LunNumber;
use crate::inquiry::naa;
use crate::limits::PREFERRED_TRANSFER_BYTES;
use crate::locks::{Claim, Hold};
use crate::results::CopyResult;
use crate::sense::{Sense, SenseCode, SenseKey};
use crate::state::LogicalUnit;
use crate::step::{MediumError, MediumOperation, MediumOutput, ReadTo, WriteFrom};
use crate::wire::clamp16;

/// Waits for its parameter list.
#[derive(Debug)]
pub(crate) struct CopyList;

impl Work for CopyList {
    fn data_out(self: Box<Self>, call: &mut Call<'_>, list: Bytes) -> Planned {
        let plan = parse(call.state, call.origin.nexus, &call.registrant()?, &list)?;
        let claims = plan.segments.iter().flat_map(|segment| {
            let (from, to) = (segment.from, segment.to);
            let read = Claim { lun: Some(from.0), range: from.1, hold: Hold::Shared };
            let write = Claim { lun: Some(to.0), range: to.1, hold: Hold::Exclusive };
            [read, write]
        });
        call.origin.access.claims = claims.collect();
        let luns = plan.segments.iter().flat_map(|segment| [segment.from.0, segment.to.0]);
        let units = luns.filter_map(|lun| Some((lun, naa(&call.state.units.get(&lun)?.config))));
        let units = units.collect();
        Box::new(CopyRun { plan, units, segment: 0, done: 0, bytes: 0, length: 0 }).next(call)
    }
}

#[derive(Debug)]
struct CopyRun {
    plan: CopyPlan,
    /// What names the units: others may come in their places.
    units: BTreeMap<LunNumber, [u8; 8]>,
    /// The present segment, and how many of its bytes are done.
    segment: usize,
    done: u64,
    /// Bytes of all segments that are done.
    bytes: u64,
    /// Bytes of the piece that is being written.
    length: u64,
}

impl CopyRun {
    fn next(mut self: Box<Self>, call: &mut Call<'_>) -> Planned {
        if let Some(segment) = self.plan.segments.get(self.segment)
            && self.done >= segment.from.1.len
        {
            self.segment += 1;
            self.done = 0;
        }
        let Some(segment) = self.plan.segments.get(self.segment) else {
            self.keep(call, None);
            return Ok(Plan::Reply(Reply::good()));
        };
        let (lun, range) = segment.from;
        self.is_there(call, lun)?;
        let len = (range.len - self.done).min(u64::from(PREFERRED_TRANSFER_BYTES));
        let offset = range.offset + self.done;
        let operation = MediumOperation::Read { offset, len, to: ReadTo::Task };
        Ok(Plan::Medium { lun, operation, then: Then::Work(self) })
    }

    fn write(mut self: Box<Self>, call: &Call<'_>, bytes: Bytes) -> Planned {
        let Some(segment) = self.plan.segments.get(self.segment) else {
            return Err(Sense::internal().into());
        };
        let (lun, range) = segment.to;
        self.is_there(call, lun)?;
        let cached = call.state.units.get(&lun).is_some_and(|unit| unit.mode.write_cache);
        self.length = bytes.len() as u64;
        let (offset, len) = (range.offset + self.done, self.length);
        let from = WriteFrom::Bytes(bytes);
        let operation = MediumOperation::Write { offset, len, fua: !cached, from };
        Ok(Plan::Medium { lun, operation, then: Then::Work(self) })
    }

    /// Is the unit of this number the one that the list names?
    fn is_there(&self, call: &Call<'_>, lun: LunNumber) -> Result<(), Failure> {
        let now = call.state.units.get(&lun).map(|unit| naa(&unit.config));
        match now.is_some() && now.as_ref() == self.units.get(&lun) {
            true => Ok(()),
            false => Err(Sense::new(SenseKey::CopyAborted, SenseCode::TARGET_UNREACHABLE).into()),
        }
    }

    /// Keeps the result, if the list wants it kept.
    fn keep(&self, call: &mut Call<'_>, failure: Option<Sense>) {
        let wanted = match self.plan.keep {
            Keep::Always => true,
            Keep::Failures => failure.is_some(),
            Keep::Never => false,
        };
        if wanted {
            call.state.copies.enter(CopyResult {
                nexus: call.origin.nexus,
                list: self.plan.list,
                segments: clamp16(self.segment),
                bytes: self.bytes,
                failure,
            });
        }
    }
}

impl Work for CopyRun {
    fn medium(mut self: Box<Self>, call: &mut Call<'_>, output: MediumOutput) -> Planned {
        if let MediumOutput::Bytes(bytes) = output {
            return self.write(call, bytes);
        }
        self.done += self.length;
        self.bytes += self.length;
        self.next(call)
    }

    /// SPC-4 6.4.3: the copy ends; its result has the medium's own sense data.
    fn medium_failed(self: Box<Self>, call: &mut Call<'_>, error: MediumError) -> Planned {
        let shift = self.plan.segments.get(self.segment).and_then(|segment| {
            let lun =
                if matches!(error, MediumError::Read(_)) { segment.from.0 } else { segment.to.0 };
            call.state.units.get(&lun).map(LogicalUnit::shift)
        });
        let own = medium_sense(error, shift.unwrap_or(0));
        self.keep(call, Some(own));
        let sense = Sense::new(SenseKey::CopyAborted, SenseCode::THIRD_PARTY_FAILURE);
        Err(Failure::Check(sense.with_information(self.segment as u64)))
    }
}
