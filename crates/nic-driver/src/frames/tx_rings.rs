//! The two rings of frames to send, and which frame comes next.
//!
//! The inet server decides which ring a frame is in ([`abi::nic`]). The driver takes the frames of
//! `tx_priority` first. After [`PRIORITY_BURST`] of them in succession it takes one of `tx`, so
//! that a sender of many small packets does not hold up the others.

use std::sync::Arc;

use abi::nic::{NicLayout, PRIORITY_BURST, PRIORITY_RING, RING};
use shm::{Consumer, OutOfRange, Region, RingFault, Slot};

use crate::error::DriverError;

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
    /// The last frame came from one of several active clients.
    pub(super) shared: bool,
}

impl TxRings {
    pub(super) fn attach(region: &Arc<Region>, layout: &NicLayout) -> Result<Self, OutOfRange> {
        Ok(Self {
            priority: Consumer::attach(region, layout.tx_priority, PRIORITY_RING)?,
            bulk: Consumer::attach(region, layout.tx, RING)?,
            burst: 0,
            shared: false,
        })
    }

    /// The descriptor of the next frame, which stays at the head of its ring.
    #[inline]
    pub(super) fn peek(&mut self) -> Result<Option<(TxRing, Slot)>, DriverError> {
        let is_due = self.burst < PRIORITY_BURST;
        let (ring, slot) = if is_due && !self.priority.is_empty().map_err(tx_fault)? {
            (TxRing::Priority, self.priority.peek())
        } else if !self.bulk.is_empty().map_err(tx_fault)? {
            (TxRing::Bulk, self.bulk.peek())
        } else {
            self.burst = 0;
            (TxRing::Priority, self.priority.peek())
        };
        Ok(slot.map_err(tx_fault)?.map(|slot| (ring, slot)))
    }

    /// The frame at the head of a ring is done with.
    pub(super) fn advance(&mut self, ring: TxRing) {
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

    #[inline]
    pub(super) fn is_empty(&mut self) -> Result<bool, DriverError> {
        let priority = self.priority.is_empty().map_err(tx_fault)?;
        Ok(priority && self.bulk.is_empty().map_err(tx_fault)?)
    }
}

fn tx_fault(fault: RingFault) -> DriverError {
    DriverError::Ring { ring: "tx", fault }
}
