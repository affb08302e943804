//! One interface: its rings, its pools, and the frames that its driver has.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use abi::control::RingStatus;
use abi::frame::{
    self, Chain, DriverCall, FillSlot, HEAD_PAGES, IfAttach, MAX_PIECES, RxFrame, TxFrame,
};
use abi::nic::{INET, NIC, NicLayout, RING};
use abi::offload::Features;
use abi::stages::TraceReader;
use inet::{InterfaceId, OwnerId, RxBytes as _, TxOffload, TxPiece};
use shm::{Consumer, OutOfRange, Pool, Producer, Region, RingFault, Ringer, Sleeper, Slot};

use crate::observe::counters::Counters;
use crate::tx::chunk::ClientChunk;

use super::frame::ReceivedFrame;
use super::offload;
use super::output::{Output, SentFrame};

/// Unused bytes before the headers in a head page.
const HEAD_ROOM: u16 = 0;

/// A call of a driver.
pub(crate) enum DriverInput {
    /// `ifattach`: this is the interface.
    Attach(IfAttach),
    /// `ethinput`.
    Frame(ReceivedFrame),
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
    pub(super) output: Output,
    pub(super) interface: Option<InterfaceId>,
    /// The offloads that the driver registered at `ifattach`.
    pub(super) features: Features,
    pub(super) trace: TraceReader,
    pub(super) backing: String,
    ring: bool,
    pub(super) dead: bool,
}

/// A ring with its slots, and those in use; `None` if it is broken, which its next use reports.
fn ring_status(name: &str, fill: Result<(u32, u32), RingFault>) -> Option<RingStatus> {
    let (slots, used) = fill.ok()?;
    Some(RingStatus { name: name.to_owned(), slots, used })
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
            output: Output::attach(region, layout)?,
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

    /// How full the rings are, but for broken ones.
    pub(super) fn rings(&mut self) -> Vec<RingStatus> {
        let [priority, bulk] = self.output.fill();
        let all = [
            ("fill", self.fill.fill()),
            ("rx", self.rx.fill()),
            ("tx-priority", priority),
            ("tx", bulk),
        ];
        all.into_iter().filter_map(|(name, fill)| ring_status(name, fill)).collect()
    }

    /// Takes back the heads of frames that the driver has passed. Returns whether there was any.
    pub(super) fn complete(&mut self, counters: &mut Counters) -> Result<bool, RingFault> {
        self.output.complete(|frame| {
            if self.heads.take_back(frame.area).is_err() {
                counters.nic_lost_pages += 1;
            }
        })
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
        self.ring |= self.output.publish();
        std::mem::take(&mut self.ring) && self.driver.ring()
    }

    #[inline]
    pub(super) fn send(
        &mut self,
        (number, sender, shared): (u64, OwnerId, bool),
        head: &[u8],
        body: &[TxPiece<'_, ClientChunk>],
        offload: TxOffload,
    ) -> Option<()> {
        // Room first: the server could not get a page back that it has handed over.
        let queue = self.output.choose(sender)?;
        let area = self.heads.alloc(HEAD_PAGES).ok()?;
        area.write(usize::from(HEAD_ROOM), head).ok()?;
        let mut pieces = [frame::Piece::default(); MAX_PIECES];
        let (mut count, mut bytes) = (0, head.len());
        if let (Some(piece), Some(id)) = (body.first(), self.interface) {
            piece.bytes.note_exit(id);
        }
        for piece in body {
            bytes += piece.range.len();
            *pieces.get_mut(usize::from(count))? = piece.bytes.piece(piece.range.clone())?;
            count += 1;
        }
        let len = u16::try_from(head.len()).ok()?;
        let area = area.hand_over(NIC);
        let offload = offload::to_device(offload);
        let frame = TxFrame { area, offset: HEAD_ROOM, len, count, pieces, offload, shared };
        let sent = SentFrame { area, number };
        self.output.stage((queue, sender), &frame.encode(), sent, bytes).ok()
    }
}
