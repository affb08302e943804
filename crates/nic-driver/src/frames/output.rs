//! Sending: the way of a frame to the device, and how many leave in one step.
//!
//! Frames to send and frames to receive take turns. Long turns save work: more is joined, and the
//! inet server is woken less often. But a client that waits for an answer waits for another
//! client's turn, too. So turns are short while several clients are active ([`TxFrame::shared`]).

use abi::frame::TxFrame;
use abi::nic::INET;
use abi::stages::TraceStage;
use shm::Area;

use super::Frames;
use super::parts::locate;
use super::tx_rings::TxRing;
use crate::device::{Device, MAX_PARTS, Part};
use crate::error::{BadFrame, DriverError};

/// Most frames sent in one step: frames to receive wait that long. A super-segment that is cut here
/// is as many frames as it has segments.
pub(super) const BATCH: usize = 64;
/// Descriptors and bytes after which a step sends no more while several clients are active.
pub(super) const SHARED_BATCH: usize = 6;
const SHARED_BATCH_BYTES: u64 = 128 * 1024;

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
        (self.sent, self.received, self.more) = (0, 0, false);
        // Most steps of a driver that polls find nothing.
        if self.waiting.is_some() || self.device.pending().transmit || !self.tx.is_empty()? {
            self.transmit_batch()?;
        }
        self.trace.mark(TraceStage::DriverRest);
        Ok(self.sent > 0)
    }

    fn transmit_batch(&mut self) -> Result<(), DriverError> {
        let (packets, bytes) = (self.counters.tx_packets, self.counters.tx_bytes);
        let (mut passed, mut sent) = (0, 0);
        self.more = true;
        while passed.max(sent) < BATCH {
            if self.transmit_one()? != TransmitOutcome::Done {
                self.more = false;
                break;
            }
            passed += 1;
            sent = usize::try_from(self.counters.tx_packets - packets).unwrap_or(BATCH);
            let is_long = || self.counters.tx_bytes - bytes >= SHARED_BATCH_BYTES;
            if self.tx.shared && (passed >= SHARED_BATCH || is_long()) {
                break;
            }
        }
        if passed.max(sent) > 0 || self.device.pending().transmit {
            self.flush()?;
        }
        self.tx_per_step.add(sent);
        self.sent = passed.max(sent);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), DriverError> {
        self.device.flush().or_else(|error| {
            self.counters.tx_device_errors += 1;
            DriverError::check_lost(error)
        })
    }

    fn transmit_one(&mut self) -> Result<TransmitOutcome, DriverError> {
        if let Some((ring, area, frame)) = self.waiting.take() {
            return self.transmit(ring, area, &frame);
        }
        let Some((ring, slot)) = self.tx.peek()? else {
            return Ok(TransmitOutcome::Nothing);
        };
        let Ok(frame) = TxFrame::decode(&slot) else {
            self.counters.tx_bad_slot += 1;
            return Ok(self.pass_over(ring));
        };
        self.tx.shared = frame.shared;
        let Ok(area) = self.heads.take(frame.area) else {
            self.counters.tx_bad_area += 1;
            return Ok(self.pass_over(ring));
        };
        self.transmit(ring, area, &frame)
    }

    /// Sends a frame, whose head page is `area`.
    fn transmit(
        &mut self,
        ring: TxRing,
        area: Area,
        frame: &TxFrame,
    ) -> Result<TransmitOutcome, DriverError> {
        let mut parts = [Part::EMPTY; MAX_PARTS];
        let mut lost = None;
        let taken = match locate(&self.clients, &area, frame, self.longest, &mut parts)
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
            self.waiting = Some((ring, area, *frame));
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
