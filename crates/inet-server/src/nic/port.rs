//! One interface: its rings, its pools, and the frames that its driver has.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use abi::frame::{
    self, Chain, DriverCall, FillSlot, HEAD_PAGES, IfAttach, MAX_PIECES, RxFrame, TxFrame,
};
use abi::nic::{HEADS, INET, NIC, NicLayout, RING};
use abi::offload::Features;
use abi::stages::TraceReader;
use inet::{InterfaceId, RxBytes as _, TxOffload, TxPiece};
use shm::{
    AreaName, Consumer, OutOfRange, Pool, Producer, Region, RingFault, Ringer, Sleeper, Slot,
};

use crate::observe::counters::Counters;
use crate::tx::chunk::ClientChunk;

use super::frame::ReceivedFrame;
use super::offload;

/// Unused bytes before the headers in a head page.
const HEAD_ROOM: u16 = 0;

/// A call of a driver.
pub(crate) enum DriverInput {
    /// `ifattach`: this is the interface.
    Attach(IfAttach),
    /// `ethinput`.
    Frame(ReceivedFrame),
}

/// A frame that the driver has, or has passed, and whose head was not taken back.
pub(super) struct SentFrame {
    area: AreaName,
    pub(super) number: u64,
}

/// One interface.
pub(super) struct Port {
    pub(super) number: u16,
    /// The epoll set wakes the server by it, so it stays open.
    _bell: OwnedFd,
    pub(super) sleeper: Sleeper,
    driver: Ringer,
    /// Areas to receive into.
    pub(super) pool: Pool,
    /// Pages of an area.
    area_pages: u16,
    /// Areas that the driver has.
    driver_has: u32,
    /// Most areas that the driver may have.
    driver_most: u32,
    /// Pages for the heads of frames to send.
    heads: Pool,
    fill: Producer,
    pub(super) rx: Consumer,
    pub(super) tx: Producer,
    /// Frames whose head was not taken back, oldest first; at most [`HEADS`].
    pub(super) sent: VecDeque<SentFrame>,
    /// The driver's consumer count of `tx` at the last look.
    pub(super) tx_done: u64,
    pub(super) interface: Option<InterfaceId>,
    /// The offloads that the driver registered at `ifattach`.
    pub(super) features: Features,
    pub(super) trace: TraceReader,
    pub(super) backing: String,
    ring: bool,
    pub(super) dead: bool,
}

pub(super) enum BadDriverInput {
    Slot,
    Frame,
}

impl Port {
    /// Takes up the frame region of interface `number`. The server waits on `bell`; `driver_bell`
    /// wakes the driver.
    pub(super) fn attach(
        number: u16,
        region: &Arc<Region>,
        layout: &NicLayout,
        bell: OwnedFd,
        driver_bell: OwnedFd,
    ) -> Result<Self, OutOfRange> {
        Ok(Self {
            number,
            _bell: bell,
            sleeper: Sleeper::new(region.word32(layout.inet_bell)?),
            driver: Ringer::new(region.word32(layout.nic_bell)?, driver_bell),
            pool: Pool::create(region, layout.pool, INET)?,
            heads: Pool::create(region, layout.heads, INET)?,
            area_pages: layout.area_pages,
            driver_most: layout.stock,
            driver_has: 0,
            fill: Producer::attach(region, layout.fill, RING)?,
            rx: Consumer::attach(region, layout.rx, RING)?,
            tx: Producer::attach(region, layout.tx, RING)?,
            sent: VecDeque::with_capacity(RING as usize),
            tx_done: 0,
            interface: None,
            features: Features::NONE,
            trace: TraceReader::attach(region, layout.trace)?,
            backing: region.backing().to_string(),
            ring: false,
            dead: false,
        })
    }

    pub(super) fn decode(&mut self, slot: &Slot) -> Result<DriverInput, BadDriverInput> {
        match DriverCall::decode(slot).map_err(|_| BadDriverInput::Slot)? {
            DriverCall::EthInput(said) => {
                let first = self.take(&said);
                let Chain::First(more) = said.chain else { return Err(BadDriverInput::Frame) };
                if more == 0 {
                    return first.map(DriverInput::Frame);
                }
                // The port takes all of them, even if one is bad, so that no area is lost.
                let behind: Vec<_> = (0..more).map(|_| self.next_of_chain()).collect();
                let mut first = first?;
                first.behind = behind.into_iter().collect::<Result<_, _>>()?;
                let bytes = first.behind.iter().map(|frame| frame.frame_len()).sum::<usize>();
                // Only a super-segment has frames behind it. The sum of `MAX_MORE` areas fits into
                // 32 bits.
                let joined = first.offload.segment > 0;
                first.offload.behind =
                    u32::try_from(bytes).ok().filter(|_| joined).ok_or(BadDriverInput::Frame)?;
                Ok(DriverInput::Frame(first))
            }
            DriverCall::IfAttach(attach) => Ok(DriverInput::Attach(attach)),
        }
    }

    /// The next frame of a chain. The driver has to publish a chain at once, so it is there.
    fn next_of_chain(&mut self) -> Result<ReceivedFrame, BadDriverInput> {
        let slot = self.rx.pop().ok().flatten().ok_or(BadDriverInput::Slot)?;
        let Ok(DriverCall::EthInput(said)) = DriverCall::decode(&slot) else {
            return Err(BadDriverInput::Slot);
        };
        let frame = self.take(&said)?;
        if said.chain == Chain::Next { Ok(frame) } else { Err(BadDriverInput::Frame) }
    }

    /// Takes the area of a frame that the driver hands over.
    fn take(&mut self, said: &RxFrame) -> Result<ReceivedFrame, BadDriverInput> {
        let area = self.pool.take(said.area).map_err(|_| BadDriverInput::Frame)?;
        self.driver_has = self.driver_has.saturating_sub(1);
        let start = said.offset as usize;
        let end = start.saturating_add(said.len as usize);
        let offload = offload::from_device(self.features, said.offload);
        let offload = offload.filter(|_| end <= area.len()).ok_or(BadDriverInput::Frame)?;
        Ok(ReceivedFrame { area, start, end, offload, nic: self.number, behind: Vec::new() })
    }

    /// Is there a head page and a slot for one more frame? A broken ring counts as room: its next
    /// use reports the fault.
    pub(super) fn has_room(&mut self) -> bool {
        self.sent.len() < HEADS as usize && !matches!(self.tx.has_room(1), Ok(false))
    }

    pub(super) fn complete(&mut self, counters: &mut Counters) -> Result<bool, RingFault> {
        let consumed = self.tx.consumed()?;
        if consumed == self.tx_done {
            return Ok(false);
        }
        while self.tx_done < consumed {
            self.tx_done += 1;
            let Some(sent) = self.sent.pop_front() else { continue };
            if self.heads.take_back(sent.area).is_err() {
                counters.nic_lost_pages += 1;
            }
        }
        Ok(true)
    }

    /// Empty areas that the driver gets to receive into: half of what it may have. The other half
    /// is for frames that the server has not taken yet. With more the driver would only use more of
    /// the cache.
    fn stock(&self) -> u32 {
        (self.driver_most / 2).min(RING)
    }

    /// Fills the stock up if at least `least` areas are missing, or a quarter of it.
    pub(super) fn restock(&mut self, least: u32) -> Result<(), RingFault> {
        let before = self.fill.produced();
        let stock = self.stock();
        let missing = stock.saturating_sub(RING - self.fill.free()?);
        let missing = missing.min(self.driver_most.saturating_sub(self.driver_has));
        if missing < least.min(stock / 4) {
            return Ok(());
        }
        for _ in 0..missing {
            // The pool is the sum of what its holders may have, so it is never exhausted for long.
            let Ok(name) = self.pool.offer(self.area_pages, NIC) else { break };
            self.driver_has += 1;
            if self.fill.stage(&FillSlot(name).encode()).is_err() {
                break;
            }
        }
        self.fill.publish();
        // Only a driver that had used up its areas may sleep for want of one. The driver announces
        // sleep and then looks at the ring. The server publishes and then looks at the consumer
        // count. So one of the two sees the other.
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        self.ring |= self.fill.consumed()? >= before;
        Ok(())
    }

    pub(super) fn flush(&mut self) -> bool {
        if self.tx.staged() > 0 {
            self.tx.publish();
            self.ring = true;
        }
        std::mem::take(&mut self.ring) && self.driver.ring()
    }

    pub(super) fn send(
        &mut self,
        number: u64,
        head: &[u8],
        body: &[TxPiece<'_, ClientChunk>],
        offload: TxOffload,
    ) -> Option<()> {
        let area = self.heads.alloc(HEAD_PAGES).ok()?;
        area.write(usize::from(HEAD_ROOM), head).ok()?;
        let mut pieces = [frame::Piece::default(); MAX_PIECES];
        let mut count = 0;
        for piece in body {
            *pieces.get_mut(usize::from(count))? = piece.bytes.piece(piece.range.clone())?;
            count += 1;
        }
        let len = u16::try_from(head.len()).ok()?;
        let area = area.hand_over(NIC);
        let offload = offload::to_device(offload);
        let frame = TxFrame { area, offset: HEAD_ROOM, len, count, pieces, offload };
        self.tx.stage(&frame.encode()).ok()?;
        self.sent.push_back(SentFrame { area, number });
        Some(())
    }
}
