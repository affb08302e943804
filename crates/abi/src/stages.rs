//! Marks that show where the time of sends and receives goes. A process makes a mark when it enters
//! a stage.
//!
//! A mark is a time and the stage that begins then. Programs and drivers write theirs to a ring in
//! their region, and the inet server takes them out. If the ring is full, the mark is lost. A mark
//! from a ring is an allegation; the report is its only use.
//!
//! A word beside the ring switches marks on. While it is 0, a mark costs one load and a branch that
//! is never taken.

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

/// A stage of a send or a receive; a mark says that it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum TraceStage {
    /// Program: a send; its bytes are copied.
    Send = 1,
    /// Program: a descriptor is published and the inet server rung.
    Request,
    /// Program: the send has returned.
    Returned,
    /// Inet server: an iteration, until it finds something to send.
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
    /// Driver: it asked the device for a frame, and got one.
    Read,
    /// Driver: the frame is joined to others or handed to the inet server.
    HandOver,
    /// Inet server: the Ethernet header of a received frame.
    EthernetInput,
    /// Inet server: the frame's IP header.
    IpInput,
    /// Inet server: the frame's TCP header, and its effects.
    TcpInput,
    /// Inet server: it puts bytes where the program reads them.
    Deliver,
    /// Inet server: it rings the program, after it has written the socket's words.
    Announce,
    /// Program: a receive looks for data, again after each sleep.
    Recv,
    /// Program: the receive has data and returns.
    Received,
    /// Program: it seals a record of the sealed transport.
    Seal,
    /// Program: it opens such a record.
    Open,
    /// Program: the cipher has done its work.
    CipherDone,
    /// Program: its disk reads or writes. Other stages may come before the end.
    Disk,
    /// Program: the disk has done it.
    DiskDone,
    /// Inet server: ESP encrypts a packet.
    EspSeal,
    /// Inet server: ESP decrypts a packet.
    EspOpen,
}

/// The process that makes a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TraceProcess {
    /// A program.
    Program,
    /// The inet server.
    Inet,
    /// A driver.
    Driver,
}

impl TraceStage {
    /// The process that goes through the stage.
    #[must_use]
    pub fn process(self) -> TraceProcess {
        match self {
            Self::Send
            | Self::Request
            | Self::Returned
            | Self::Recv
            | Self::Received
            | Self::Seal
            | Self::Open
            | Self::CipherDone
            | Self::Disk
            | Self::DiskDone => TraceProcess::Program,
            Self::DriverDispatch
            | Self::Io
            | Self::HandBack
            | Self::Result
            | Self::DriverRest
            | Self::Read
            | Self::HandOver => TraceProcess::Driver,
            _ => TraceProcess::Inet,
        }
    }

    /// All of them, in order.
    pub const ALL: [Self; 31] = [
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
        Self::Seal,
        Self::Open,
        Self::CipherDone,
        Self::Disk,
        Self::DiskDone,
        Self::EspSeal,
        Self::EspOpen,
    ];
}

/// A time, and the stage that begins then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// CLOCK_MONOTONIC, nanoseconds.
    pub at: u64,
    /// The stage that begins.
    pub stage: TraceStage,
}

impl Mark {
    /// A mark that `stage` begins now.
    #[must_use]
    pub fn now(stage: TraceStage) -> Self {
        let now = clock_gettime(ClockId::Monotonic);
        // Both are positive, and 64 bits are enough for 584 years.
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

    /// Does the reader want marks?
    #[inline]
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.wanted.load(Ordering::Relaxed) != 0
    }

    /// Makes a mark, if the reader wants it and there is room.
    #[inline]
    pub fn mark(&mut self, stage: TraceStage) {
        if self.is_on() {
            self.push(stage);
        }
    }

    /// A mark made now for [`Tracer::keep`], if the reader wants it. The caller keeps it only if
    /// the stage turns out to do something.
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
        // Without room the mark is lost; a reader that breaks the ring gets none.
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

    /// Switches marks on or off.
    pub fn want(&self, wanted: bool) {
        self.wanted.store(wanted.into(), Ordering::Relaxed);
    }

    /// The next mark; `None` when there is none, or when its slot is invalid.
    pub fn take(&mut self) -> Option<Mark> {
        Mark::decode(&self.marks.pop().ok()??).ok()
    }
}

/// A row of the report: the time of sends, or of receives, in one stage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageTime {
    /// The stage, in words.
    pub stage: String,
    /// The process: `program`, `inet` or `driver`; two with an arrow for the time between them.
    pub process: String,
    /// Number of sends (receives) that went through the stage.
    pub seen: u64,
    /// Number of times that all of them together went through the stage.
    pub times: u64,
    /// Median time that one of them spent in the stage, nanoseconds.
    pub median_ns: u64,
    /// Mean, nanoseconds.
    pub mean_ns: u64,
}

/// The report: where the time of sends and receives went.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StageReport {
    /// Sends seen from their begin to their end.
    pub sends: u64,
    /// Marks for which there was no room. The last sends are missing then.
    pub missed: u64,
    /// Stages of sends, in the order of the data path.
    pub stages: Vec<StageTime>,
    /// Receives seen: each from its first frame to the first frame after the program's return.
    pub receives: u64,
    /// Stages of receives, in the order of the data path.
    pub receive_stages: Vec<StageTime>,
    /// The newest marks, if they were asked for: CLOCK_MONOTONIC in nanoseconds, and the stage that
    /// begins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<(u64, TraceStage)>,
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
