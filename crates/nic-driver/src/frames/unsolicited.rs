//! Receiving of unsolicited frames, for which a device may have a queue of its own.
//!
//! Any host can send these frames in any number ([`crate::device::Device::receive_unsolicited`]).
//! They come behind the frames of the regular queue, few at a time: [`super::schedule`] has the
//! bounds.

use std::time::Instant;

use abi::nic::RING;

use super::Frames;
use super::schedule::{BATCH, PACE, REGULAR};
use crate::device::Device;
use crate::error::DriverError;

impl<D: Device> Frames<D> {
    /// The epoll set reported the queue of unsolicited frames.
    pub(crate) fn unsolicited_reported(&mut self) {
        self.unsolicited.ready = self.unsolicited.exists;
    }

    /// May there be frames that the epoll set does not report again? These are unsolicited, or
    /// datagrams that wait for the inet server or for the end of a pause.
    ///
    /// A pause may have ended since the last look: what had to wait then does not any more, and
    /// still nothing reports it.
    pub(crate) fn has_later(&mut self) -> Result<bool, DriverError> {
        let pending = self.device.pending();
        let unreported = self.unsolicited.ready || pending.later || pending.receive;
        Ok(unreported && self.can_receive()?)
    }

    /// Receives a batch of unsolicited frames, or puts it off.
    pub(super) fn receive_unsolicited(&mut self) -> Result<(), DriverError> {
        let mut most = BATCH;
        if self.unsolicited.rests() || !self.rx_has_room(RING - BATCH)? {
            self.unsolicited.ready = true;
            if self.unsolicited.regular < REGULAR {
                return Ok(());
            }
            most = 1;
        }
        let mut left = most;
        while left > 0 && self.rx_has_room(1)? {
            let Some(mut area) = self.empty_page()? else { break };
            let said = self.device.receive_unsolicited(area.bytes_mut());
            let Ok(Some(received)) = said else {
                self.spare = Some(area);
                self.unsolicited.ready = false;
                self.unsolicited.asked(left < most);
                return said.map(|_| ()).or_else(|error| {
                    self.counters.rx_device_errors += 1;
                    DriverError::check_lost(error)
                });
            };
            left -= 1;
            self.unsolicited.regular = 0;
            let len = received.len.min(area.len());
            if self.count(len) {
                self.unsolicited.received += 1;
                self.received += 1;
                self.hand_over(area, len, received.offload)?;
            } else {
                self.spare = Some(area);
            }
        }
        self.unsolicited.ready = true;
        if left == 0 {
            self.unsolicited.resume_at = Some(Instant::now() + PACE);
        }
        Ok(())
    }
}
