//! Sending: the two rings of frames to send, and the way of one frame to the device.
//!
//! The inet server decides which ring a frame is in ([`abi::nic`]). The driver takes the frames of
//! `tx_priority` first. After [`PRIORITY_BURST`] of them in succession it takes one of `tx`, so
//! that a sender of many small packets does not hold up the others.

use std::mem;
use std::sync::Arc;

use abi::frame::TxFrame;
use abi::nic::{INET, NicLayout, PRIORITY_BURST, PRIORITY_RING, RING};
use abi::stages::TraceStage;
use shm::{Consumer, OutOfRange, Region, RingFault, Slot};

use super::Frames;
use super::parts::locate;
use crate::device::{Device, MAX_PARTS, Part};
use crate::error::{BadFrame, DriverError};

/// Descriptors in one step: frames to receive wait that long.
pub(super) const BATCH: usize = 16;
/// Segments of super-segments that are cut here, after which no other frame is begun in this step.
pub(super) const BATCH_SEGMENTS: usize = 64;
/// Bytes after which a step sends no more.
pub(super) const BATCH_BYTES: u64 = 128 * 1024;

/// Names a ring of frames to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TxRing {
    Priority,
    Bulk,
}

/// The rings of frames to send.
pub(super) struct TxRings {
    priority: Consumer,
    bulk: Consumer,
    /// Frames of `priority` in succession while `bulk` had some.
    burst: u32,
}

impl TxRings {
    pub(super) fn attach(region: &Arc<Region>, layout: &NicLayout) -> Result<Self, OutOfRange> {
        Ok(Self {
            priority: Consumer::attach(region, layout.tx_priority, PRIORITY_RING)?,
            bulk: Consumer::attach(region, layout.tx, RING)?,
            burst: 0,
        })
    }

    /// The descriptor of the next frame, which stays at the head of its ring.
    fn peek(&mut self) -> Result<Option<(TxRing, Slot)>, DriverError> {
        if self.burst < PRIORITY_BURST
            && let Some(slot) = self.priority.peek().map_err(tx_fault)?
        {
            return Ok(Some((TxRing::Priority, slot)));
        }
        if let Some(slot) = self.bulk.peek().map_err(tx_fault)? {
            return Ok(Some((TxRing::Bulk, slot)));
        }
        if mem::take(&mut self.burst) < PRIORITY_BURST {
            return Ok(None);
        }
        let slot = self.priority.peek().map_err(tx_fault)?;
        Ok(slot.map(|slot| (TxRing::Priority, slot)))
    }

    /// The frame at the head of a ring is done with.
    fn advance(&mut self, ring: TxRing) {
        match ring {
            TxRing::Priority => {
                self.burst += 1;
                self.priority.advance();
            }
            TxRing::Bulk => {
                self.burst = 0;
                self.bulk.advance();
            }
        }
    }

    pub(super) fn is_empty(&mut self) -> Result<bool, DriverError> {
        let priority = self.priority.is_empty().map_err(tx_fault)?;
        Ok(priority && self.bulk.is_empty().map_err(tx_fault)?)
    }
}

fn tx_fault(fault: RingFault) -> DriverError {
    DriverError::Ring { ring: "tx", fault }
}

/// The result for the frame that is sent next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TransmitOutcome {
    /// There is none.
    Nothing,
    /// The device has no room for it.
    Blocked,
    /// The ring moved on.
    Done,
}

impl<D: Device> Frames<D> {
    /// The half of [`Frames::step`] that sends.
    pub(crate) fn transmit_some(&mut self) -> Result<bool, DriverError> {
        self.trace.mark(TraceStage::DriverDispatch);
        (self.sent, self.received) = (0, 0);
        let before = (self.counters.tx_packets, self.counters.tx_bytes);
        let (mut passed, mut sent) = (0, 0);
        // A super-segment that is cut here is as many frames as it has segments.
        while passed < BATCH
            && sent < BATCH_SEGMENTS
            && self.counters.tx_bytes - before.1 < BATCH_BYTES
        {
            self.more = self.transmit_one()? == TransmitOutcome::Done;
            passed += usize::from(self.more);
            sent = usize::try_from(self.counters.tx_packets - before.0).unwrap_or(BATCH_SEGMENTS);
            if !self.more {
                break;
            }
        }
        if passed.max(sent) > 0 || self.device.pending().transmit {
            self.flush()?;
        }
        self.trace.mark(TraceStage::DriverRest);
        self.tx_per_step.add(sent);
        self.sent = passed.max(sent);
        Ok(self.sent > 0)
    }

    fn flush(&mut self) -> Result<(), DriverError> {
        self.device.flush().or_else(|error| {
            self.counters.tx_device_errors += 1;
            DriverError::check_lost(error)
        })
    }

    fn transmit_one(&mut self) -> Result<TransmitOutcome, DriverError> {
        let (ring, area, frame) = match self.waiting.take() {
            Some(waiting) => waiting,
            None => {
                let Some((ring, slot)) = self.tx.peek()? else {
                    return Ok(TransmitOutcome::Nothing);
                };
                let Ok(frame) = TxFrame::decode(&slot) else {
                    self.counters.tx_bad_slot += 1;
                    return Ok(self.pass_over(ring));
                };
                let Ok(area) = self.heads.take(frame.area) else {
                    self.counters.tx_bad_area += 1;
                    return Ok(self.pass_over(ring));
                };
                (ring, area, frame)
            }
        };
        let mut parts = [Part::EMPTY; MAX_PARTS];
        let mut lost = None;
        let taken = match locate(&self.clients, &area, &frame, self.longest, &mut parts)
            .and_then(|parts| Ok((parts, self.gso.work(parts, &frame.offload, self.longest)?)))
        {
            Ok((parts, work)) => {
                self.trace.mark(TraceStage::Io);
                let passed = self.gso.transmit(&mut self.device, parts, frame.offload, work);
                self.trace.mark(TraceStage::HandBack);
                match passed {
                    Ok(passed) => {
                        self.counters.tx_packets += passed.frames as u64;
                        self.counters.tx_bytes += passed.bytes as u64;
                        passed.whole
                    }
                    Err(error) => {
                        self.counters.tx_device_errors += 1;
                        lost = DriverError::check_lost(error).err();
                        lost.is_none()
                    }
                }
            }
            Err(BadFrame::Area) => tick(&mut self.counters.tx_bad_area),
            Err(BadFrame::Piece) => tick(&mut self.counters.tx_bad_piece),
            Err(BadFrame::Length) => tick(&mut self.counters.tx_bad_length),
            Err(BadFrame::Offload) => tick(&mut self.counters.tx_bad_offload),
        };
        if !taken {
            self.waiting = Some((ring, area, frame));
            return lost.map_or(Ok(TransmitOutcome::Blocked), Err);
        }
        // The inet server knows the name: it is the descriptor's.
        let _ = area.hand_over(INET);
        Ok(self.pass_over(ring))
    }

    fn pass_over(&mut self, ring: TxRing) -> TransmitOutcome {
        self.tx.advance(ring);
        TransmitOutcome::Done
    }
}

/// Counts a bad frame, which then is done with.
fn tick(counter: &mut u64) -> bool {
    *counter += 1;
    true
}
