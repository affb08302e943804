//! Receiving where the kernel itself puts frames into pages of the pool, without a copy (AF_XDP).
//!
//! Empty pages are *posted*: they are ours, but the kernel may write to them at any time until it
//! reports a frame in one, or its socket is closed. No code reads them meanwhile. The driver takes
//! several pages at a time out of the `fill` ring. So the ring is empty, and the inet server has to
//! wake the driver for more, only when the pool is empty.
//!
//! Segments that follow each other are joined where they lie ([`Chain`]). The first frame keeps its
//! headers, and of the others only the payload is named. All of them become visible at once.

use abi::frame::{Chain, MAX_MORE, RxFrame};
use abi::nic::{INET, UMEM_STOCK};
use abi::offload::RxOffload;
use abi::stages::TraceStage;
use shm::{PAGE, PushError};

use super::Frames;
use super::posted::{OpenChain, PageBytes, PostedPages};
use crate::device::Device;
use crate::error::DriverError;
use crate::gro::GroFrame;

/// Pages that are missing before some are posted.
const REFILL: u32 = 64;

impl<D: Device> Frames<D> {
    /// Does the device receive in place?
    pub(super) fn in_place(&self) -> bool {
        !self.posted.areas.is_empty()
    }

    /// Are there pages to be posted?
    pub(super) fn can_post(&mut self) -> Result<bool, DriverError> {
        let wanted = self.in_place() && self.posted.count + REFILL <= UMEM_STOCK;
        let fill = |fault| DriverError::Ring { ring: "fill", fault };
        Ok(wanted && self.spare.is_none() && !self.fill.is_empty().map_err(fill)?)
    }

    /// Gives the device empty pages, if it has become short of them.
    pub(super) fn post(&mut self) -> Result<(), DriverError> {
        if !self.in_place() || self.posted.count + REFILL > UMEM_STOCK {
            return Ok(());
        }
        let first = self.pool.first_page();
        while self.posted.count < UMEM_STOCK {
            let again = self.posted.again.pop();
            let Some(area) = again.map_or_else(|| self.empty_page(), |area| Ok(Some(area)))? else {
                break;
            };
            let at = area.region_offset() - first;
            let Some(place) = self.posted.areas.get_mut(at / PAGE) else { continue };
            if !self.device.post(at) {
                self.spare = Some(area);
                break;
            }
            *place = Some(area);
            self.posted.count += 1;
        }
        Ok(())
    }

    /// Another device is there, and the one before is closed. The pages posted to the old one are
    /// ours alone.
    pub(crate) fn device_replaced(&mut self) {
        let PostedPages { areas, count, again, .. } = &mut self.posted;
        again.extend(areas.iter_mut().filter_map(Option::take));
        *count = 0;
        self.empty = false;
        self.unsolicited.replaced(self.device.unsolicited_fd().is_some());
    }

    /// Receives a frame; `false` if there is none, or no room to tell of it.
    pub(super) fn receive_in_place(&mut self) -> Result<bool, DriverError> {
        let chain = self.open_in_place.as_ref().map_or(0, |open| 1 + open.more.len());
        // Both are small.
        if !self.rx_has_room(chain as u32 + 1)? {
            return Ok(false);
        }
        let begun = self.trace.note(TraceStage::Read);
        let said = self.device.receive_posted();
        let Some(placed) = self.asked(begun, said)? else { return Ok(false) };
        let Some((area, offset)) = self.posted.take(placed.at) else {
            self.counters.rx_bad_place += 1;
            return Ok(true);
        };
        let place = PageBytes { area, offset, len: placed.len };
        let offload = self.device.look_at(place.bytes());
        if !self.count(place.bytes().len()) {
            self.posted.again.push(place.area);
            return Ok(true);
        }
        self.join_in_place(place, offload).map(|()| true)
    }

    /// Joins a frame to the open one, opens it for more, or hands it over.
    fn join_in_place(&mut self, place: PageBytes, offload: RxOffload) -> Result<(), DriverError> {
        if let Some(open) = &mut self.open_in_place {
            let frame = place.bytes();
            let room = open.more.len() < usize::from(MAX_MORE) && open.joined.can_grow();
            if room && open.joined.join(open.first.bytes(), frame, offload.verified) {
                let headers = open.joined.headers();
                let (offset, len) = (place.offset + headers, place.len - headers);
                open.more.push(PageBytes { offset, len, ..place });
                self.counters.rx_joined += 1;
                return Ok(());
            }
            self.close_in_place()?;
        }
        if let Some(joined) = GroFrame::start(place.bytes(), offload.verified) {
            self.open_in_place = Some(OpenChain { first: place, more: Vec::new(), joined });
            return Ok(());
        }
        self.tell(place, offload, Chain::ALONE)?;
        self.rx.publish();
        Ok(())
    }

    /// Hands over the open frame with the segments joined to it.
    pub(super) fn close_in_place(&mut self) -> Result<(), DriverError> {
        let Some(OpenChain { mut first, more, joined }) = self.open_in_place.take() else {
            return Ok(());
        };
        let offset = first.offset;
        let frame = first.area.bytes_mut().get_mut(offset..).unwrap_or_default();
        let segments = joined.finish_apart(frame);
        // At most `MAX_MORE`.
        let chain = Chain::First(u16::try_from(more.len()).unwrap_or(MAX_MORE));
        self.tell(first, RxOffload { verified: true, segments }, chain)?;
        for place in more {
            self.tell(place, RxOffload::NONE, Chain::Next)?;
        }
        self.rx.publish();
        Ok(())
    }

    fn tell(
        &mut self,
        place: PageBytes,
        offload: RxOffload,
        chain: Chain,
    ) -> Result<(), DriverError> {
        let PageBytes { area, offset, len } = place;
        // Both fit: they are within a page.
        let short = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let (offset, len) = (short(offset), short(len));
        let frame = RxFrame { area: area.hand_over(INET), offset, len, offload, chain };
        match self.rx.stage(&frame.encode()) {
            // Full cannot be: there was room before the frame was received, and only we fill it.
            Ok(()) | Err(PushError::Full) => Ok(()),
            Err(PushError::Fault(fault)) => Err(DriverError::Ring { ring: "rx", fault }),
        }
    }
}
