//! Where the time of sends and receives goes: marks that each process makes as it enters a stage.
//!
//! A mark is a time and the stage that begins then. Programs and drivers make theirs in a ring of
//! their region, from which the inet server takes them; without room a mark is left out. A word
//! beside the ring says whether anybody wants them: while it is 0 a mark costs one load and a
//! branch that is never taken. What comes out of the ring is an allegation, used for nothing but
//! the report.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use shm::{Consumer, OutOfRange, Producer, Region, Slot, Word64};

use crate::bad_slot::BadSlot;

/// Slots of a ring of marks.
pub const MARKS: u32 = 1024;
/// Bytes of a word and a ring of marks.
pub const TRACE_BYTES: usize = 64 + shm::ring_bytes(MARKS);

/// What begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum TraceStage {
    /// Program: a send; its bytes are copied.
    Send = 1,
    /// Program: a descriptor is published and the inet server rung.
    Request,
    /// Program: the send has returned.
    Returned,
    /// Inet server: a turn, until it finds what is to be sent.
    Dispatch,
    /// Inet server: TCP makes a segment, checksum included.
    Tcp,
    /// Inet server: the IP header.
    Ip,
    /// Inet server: the Ethernet header.
    Ethernet,
    /// Inet server: the descriptor for the driver.
    Descriptor,
    /// Inet server: descriptors are published and the driver rung.
    DriverRequest,
    /// Inet server: anything else.
    InetRest,
    /// Driver: a step, until it has found a frame and its memory.
    DriverDispatch,
    /// Driver: the device takes a frame.
    Io,
    /// Driver: the frame's page is handed back.
    HandBack,
    /// Driver: the inet server is rung.
    Result,
    /// Driver: anything else.
    DriverRest,
    /// Driver: the device was asked for a frame, and gave one.
    Read,
    /// Driver: the frame is joined to others or handed to the inet server.
    HandOver,
    /// Inet server: the Ethernet header of a frame that came.
    EthernetInput,
    /// Inet server: its IP header.
    IpInput,
    /// Inet server: its TCP header, and what it changes.
    TcpInput,
    /// Inet server: bytes are put where the program reads them.
    Deliver,
    /// Inet server: the program is rung, after its words were written.
    Announce,
    /// Program: a receive looks whether something is there, again after each sleep.
    Recv,
    /// Program: the receive has got something and returns.
    Received,
}

impl TraceStage {
    /// All of them, in order.
    pub const ALL: [Self; 24] = [
        Self::Send,
        Self::Request,
        Self::Returned,
        Self::Dispatch,
        Self::Tcp,
        Self::Ip,
        Self::Ethernet,
        Self::Descriptor,
        Self::DriverRequest,
        Self::InetRest,
        Self::DriverDispatch,
        Self::Io,
        Self::HandBack,
        Self::Result,
        Self::DriverRest,
        Self::Read,
        Self::HandOver,
        Self::EthernetInput,
        Self::IpInput,
        Self::TcpInput,
        Self::Deliver,
        Self::Announce,
        Self::Recv,
        Self::Received,
    ];
}

/// A time, and what begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// CLOCK_MONOTONIC, nanoseconds.
    pub at: u64,
    /// What begins then.
    pub stage: TraceStage,
}

impl Mark {
    /// That `stage` begins now.
    #[must_use]
    pub fn now(stage: TraceStage) -> Self {
        let now = clock_gettime(ClockId::Monotonic);
        // Both are positive, and this is enough for 584 years.
        let at = now.tv_sec.cast_unsigned().wrapping_mul(1_000_000_000);
        Self { at: at.wrapping_add(now.tv_nsec.cast_unsigned()), stage }
    }

    fn encode(self) -> Slot {
        [self.at, self.stage as u64, 0, 0, 0, 0, 0, 0]
    }

    fn decode(slot: &Slot) -> Result<Self, BadSlot> {
        let stage = TraceStage::ALL.into_iter().find(|&stage| stage as u64 == slot[1]);
        Ok(Self { at: slot[0], stage: stage.ok_or(BadSlot::new("stage", slot[1]))? })
    }
}

/// The end that makes marks.
#[derive(Debug)]
pub struct Tracer {
    wanted: Word64,
    marks: Producer,
}

impl Tracer {
    /// At the place of a region that has [`TRACE_BYTES`].
    ///
    /// # Errors
    /// [`OutOfRange`] when they are not all in the region.
    pub fn attach(region: &Arc<Region>, offset: usize) -> Result<Self, OutOfRange> {
        let marks = Producer::attach(region, offset + 64, MARKS)?;
        Ok(Self { wanted: region.word64(offset)?, marks })
    }

    /// Does anybody want marks?
    #[inline]
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.wanted.load(Ordering::Relaxed) != 0
    }

    /// Makes a mark, if anybody wants it and there is room.
    #[inline]
    pub fn mark(&mut self, stage: TraceStage) {
        if self.is_on() {
            self.push(stage);
        }
    }

    /// A mark for [`Tracer::keep`], made now, if anybody wants it: for what may turn out to be
    /// nothing.
    #[inline]
    #[must_use]
    pub fn note(&self, stage: TraceStage) -> Option<Mark> {
        self.is_on().then(|| Mark::now(stage))
    }

    /// Keeps a mark, if there is room.
    #[inline]
    pub fn keep(&mut self, noted: Option<Mark>) {
        if let Some(mark) = noted {
            self.add(mark);
        }
    }

    #[cold]
    fn push(&mut self, stage: TraceStage) {
        self.add(Mark::now(stage));
    }

    #[cold]
    fn add(&mut self, mark: Mark) {
        // Without room it is left out; a reader that breaks the ring gets none.
        let _ = self.marks.push(&mark.encode());
    }
}

/// The end that wants marks.
#[derive(Debug)]
pub struct TraceReader {
    wanted: Word64,
    marks: Consumer,
}

impl TraceReader {
    /// At the place of a region that has [`TRACE_BYTES`].
    ///
    /// # Errors
    /// [`OutOfRange`] when they are not all in the region.
    pub fn attach(region: &Arc<Region>, offset: usize) -> Result<Self, OutOfRange> {
        let marks = Consumer::attach(region, offset + 64, MARKS)?;
        Ok(Self { wanted: region.word64(offset)?, marks })
    }

    /// Says whether marks are wanted.
    pub fn want(&self, wanted: bool) {
        self.wanted.store(wanted.into(), Ordering::Relaxed);
    }

    /// The next mark; `None` when there is none, or a slot is none.
    pub fn take(&mut self) -> Option<Mark> {
        Mark::decode(&self.marks.pop().ok()??).ok()
    }
}

/// What was found out of one stage of sends, or of receives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageTime {
    /// What is done, in words.
    pub stage: String,
    /// The process: `program`, `inet` or `driver`; two with an arrow for a way between them.
    pub process: String,
    /// Sends (receives) in which it was seen.
    pub seen: u64,
    /// Times in all of them.
    pub times: u64,
    /// Median over these of the time spent in it by one, nanoseconds.
    pub median_ns: u64,
    /// Mean, nanoseconds.
    pub mean_ns: u64,
}

/// Where the time of sends and receives went.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StageReport {
    /// Sends seen from their begin to their end.
    pub sends: u64,
    /// Marks for which there was no room; the last sends are missing then.
    pub missed: u64,
    /// Of sends, in the order of the way.
    pub stages: Vec<StageTime>,
    /// Receives seen: from the frame that came first to what follows the program's return.
    pub receives: u64,
    /// Of receives, in the order of the way.
    pub receive_stages: Vec<StageTime>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_cross_only_while_they_are_wanted() {
        let len = TRACE_BYTES.next_multiple_of(shm::PAGE);
        let (region, _) = Region::create("trace", len, shm::Backing::Small).unwrap();
        let mut tracer = Tracer::attach(&region, 0).unwrap();
        let mut reader = TraceReader::attach(&region, 0).unwrap();
        tracer.mark(TraceStage::Send);
        assert_eq!((tracer.note(TraceStage::Read), reader.take()), (None, None));
        reader.want(true);
        for stage in TraceStage::ALL {
            tracer.mark(stage);
        }
        let marks: Vec<Mark> = std::iter::from_fn(|| reader.take()).collect();
        assert!(marks.iter().map(|mark| mark.stage).eq(TraceStage::ALL));
        assert!(marks.is_sorted_by_key(|mark| mark.at));
        let noted = tracer.note(TraceStage::Read);
        tracer.keep(noted);
        assert_eq!(reader.take(), noted);
        // A full ring takes no more, and gives what it has.
        (0..MARKS + 5).for_each(|_| tracer.mark(TraceStage::Io));
        assert_eq!(std::iter::from_fn(|| reader.take()).count(), MARKS as usize);
        assert!(
            Mark::decode(&[0; 8]).is_err() && Mark::decode(&[0, 99, 0, 0, 0, 0, 0, 0]).is_err()
        );
    }
}
