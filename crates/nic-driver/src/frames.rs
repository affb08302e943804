//! The data path of a driver: frames between a device and the rings of one frame region.
//!
//! Receiving: the driver takes an empty page out of the `fill` ring, and the device fills it. The
//! driver hands the page over to the inet server and names it in an `ethinput` call on the `rx`
//! ring. Without an empty page or room in `rx` nothing is read: the host's queue of the device
//! overflows, not ours. Segments of a stream that a device hands over singly are joined
//! ([`crate::gro`]) as long as the device has the next one already. Nothing is held back beyond a
//! step. Frames of the device's queue of unsolicited frames come behind the others, and only few
//! at a time ([`schedule`]).
//!
//! Sending ([`output`]): there are two rings, and `tx_priority` comes first. The driver looks at
//! the descriptor at the head of a ring, takes its head page, and finds the payload pieces in the
//! clients' regions. All of it goes to the device in one call, or in one for each segment that the
//! device does not make itself ([`crate::gso`]). Only then is the page handed back and the ring
//! advanced. Its consumer count tells the inet server which bytes no driver reads any more. While
//! the device has no room the frame stays where it is.
//!
//! Descriptors are allegations. A bad one is counted by cause and passed over. A page that could be
//! taken is handed back in every case. Only impossible ring indices end the driver, since with them
//! there is no next descriptor.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use abi::frame::{Chain, FillSlot, IfAttach, RxFrame, TxFrame};
use abi::nic::{INET, NIC, NicLayout, RING};
use abi::offload::{Features, RxOffload};
use abi::stages::{Mark, TraceStage, Tracer};
use abi::stats::{Histogram, Sizes};
use shm::{Area, Consumer, PoolMap, Producer, PushError, Region};

use self::posted::{OpenChain, PostedPages};
use self::schedule::UnsolicitedSchedule;
use self::tx_rings::{TxRing, TxRings};
use crate::device::{Device, ETHERNET_HEADER, Received};
use crate::error::DriverError;
use crate::gro::{GroFrame, MOST_HEADERS};
use crate::gso::Gso;

mod in_place;
mod output;
mod parts;
mod posted;
mod schedule;
mod tx_rings;
mod unsolicited;

/// Most frames received in one step: the other direction and the supervisor wait that long.
const BATCH: usize = 64;
/// Frames that the inet server has to take from when on datagrams may wait.
const CROWD: u32 = 16;
/// Most segments received in one step, if they are joined to fewer frames. The inet server is woken
/// once for all of them.
const SEGMENTS: usize = 2 * BATCH;

/// The counters of [`Frames`], each since the driver's start.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    rx_packets: u64,
    rx_bytes: u64,
    rx_joined: u64,
    rx_runts: u64,
    rx_bad_fill: u64,
    rx_bad_place: u64,
    rx_no_page: u64,
    rx_device_errors: u64,
    tx_packets: u64,
    tx_bytes: u64,
    tx_bad_slot: u64,
    tx_bad_area: u64,
    tx_bad_piece: u64,
    tx_bad_length: u64,
    tx_bad_offload: u64,
    tx_device_errors: u64,
}

/// The rings of one frame region and the device they belong to.
pub(crate) struct Frames<D> {
    pub(crate) device: D,
    /// Areas to receive into.
    pool: PoolMap,
    /// Pages with the heads of frames to send.
    heads: PoolMap,
    fill: Consumer,
    rx: Producer,
    tx: TxRings,
    clients: HashMap<u16, Arc<Region>>,
    /// An empty page that the device had nothing for.
    spare: Option<Area>,
    /// The frame that more segments may be joined to; none between steps.
    open: Option<(Area, GroFrame)>,
    /// The same where the device receives in place, and the pages that it has.
    open_in_place: Option<OpenChain>,
    posted: PostedPages,
    /// Segments are joined here, since the device does not.
    joins: bool,
    /// The device had no frame when it was asked last.
    empty: bool,
    unsolicited: UnsolicitedSchedule,
    /// The frame at the head of a ring, for which the device had no room.
    waiting: Option<(TxRing, Area, TxFrame)>,
    /// Offloads that the device leaves to us.
    gso: Gso,
    /// Longest frame that is no super-segment.
    longest: usize,
    counters: Counters,
    /// Frames that the last step sent and received.
    sent: usize,
    received: usize,
    /// The last step ended before the rings of frames to send were empty.
    more: bool,
    /// Frames in one step, each way.
    rx_per_step: Sizes,
    tx_per_step: Sizes,
    pub(crate) trace: Tracer,
}

impl<D: Device> Frames<D> {
    /// Takes up the rings of `region` where they stand, and registers the interface (`ifattach`).
    pub(crate) fn attach(
        region: &Arc<Region>,
        layout: &NicLayout,
        device: D,
        mac: [u8; 6],
        mtu: u16,
    ) -> Result<Self, DriverError> {
        let features = device.features();
        let in_place = features.has(Features::RX_IN_PLACE);
        let joins = !features.has(Features::GRO);
        // Joined segments were verified.
        let joined = Features::RX_CHECKSUM.with(Features::GRO);
        let registered = if joins { features.with(joined) } else { features }.with(Features::GSO);
        let mut frames = Self {
            gso: Gso::new(features),
            joins,
            open: None,
            open_in_place: None,
            posted: if in_place {
                PostedPages::new(layout.pool.pages)
            } else {
                PostedPages::default()
            },
            empty: false,
            unsolicited: UnsolicitedSchedule::new(device.unsolicited_fd().is_some()),
            device,
            pool: PoolMap::attach(region, layout.pool, NIC)?,
            heads: PoolMap::attach(region, layout.heads, NIC)?,
            fill: Consumer::attach(region, layout.fill, RING)?,
            rx: Producer::attach(region, layout.rx, RING)?,
            tx: TxRings::attach(region, layout)?,
            clients: HashMap::new(),
            spare: None,
            waiting: None,
            // One VLAN tag may come on top of the MTU.
            longest: usize::from(mtu) + ETHERNET_HEADER + 4,
            counters: Counters::default(),
            sent: 0,
            more: false,
            received: 0,
            rx_per_step: Sizes::default(),
            tx_per_step: Sizes::default(),
            trace: Tracer::attach(region, layout.trace)?,
        };
        let call = IfAttach { mac, mtu, features: registered };
        frames.rx.push(&call.encode()).map_err(|error| match error {
            PushError::Fault(fault) => DriverError::Ring { ring: "rx", fault },
            PushError::Full => DriverError::NoRoomToAttach,
        })?;
        Ok(frames)
    }

    /// The frame region.
    pub(crate) fn region(&self) -> &Arc<Region> {
        self.pool.region()
    }

    /// Frames of this client may be sent from now on.
    pub(crate) fn add_client(&mut self, client: u16, region: Arc<Region>) {
        self.clients.insert(client, region);
    }

    /// The client's region is not needed any more.
    pub(crate) fn remove_client(&mut self, client: u16) {
        self.clients.remove(&client);
    }

    /// Sends some frames, and receives up to [`BATCH`], or [`SEGMENTS`] joined to fewer. `true`:
    /// there were some. The inet server may be waiting for them: for received frames, room in the
    /// `tx` ring, or memory that no driver reads any more.
    pub(crate) fn step(&mut self) -> Result<bool, DriverError> {
        let sent = self.transmit_some()?;
        self.post()?;
        let crowded = !self.rx_has_room(RING - CROWD)?;
        self.device.set_crowded(crowded);
        let mut some = Ok(true);
        let most = self.counters.rx_packets - self.counters.rx_joined + BATCH as u64;
        while self.received < SEGMENTS
            && self.counters.rx_packets - self.counters.rx_joined < most
            && matches!(some, Ok(true))
        {
            some = self.receive_one();
            self.received += usize::from(matches!(some, Ok(true)));
        }
        self.close()?;
        some?;
        if self.unsolicited.exists && self.unsolicited.is_due(self.received) {
            self.receive_unsolicited()?;
        }
        self.rx_per_step.add(self.received);
        Ok(sent || self.received > 0)
    }

    /// After a step: did it send anything?
    pub(crate) fn has_sent(&self) -> bool {
        self.sent > 0
    }

    /// After a step: are there more frames to send, while several clients are active?
    pub(crate) fn answers_are_awaited(&self) -> bool {
        self.more && self.tx.shared
    }

    /// After a step: did it receive anything?
    pub(crate) fn has_received(&self) -> bool {
        self.received > 0
    }

    /// After a step: was the device asked last in vain?
    pub(crate) fn found_no_frame(&self) -> bool {
        self.empty
    }

    /// Asks the device for its error when it reports one while there is no page to read into.
    pub(crate) fn probe(&mut self) -> Result<(), DriverError> {
        let mut nowhere = [0; shm::PAGE];
        match self.device.receive(&mut nowhere) {
            Ok(None) => {}
            Ok(Some(_)) => self.counters.rx_no_page += 1,
            Err(error) => {
                self.counters.rx_device_errors += 1;
                DriverError::check_lost(error)?;
            }
        }
        Ok(())
    }

    /// Is there a frame to send that the device has not yet refused for want of room?
    pub(crate) fn has_work(&mut self) -> Result<bool, DriverError> {
        let send = self.waiting.is_none() && !self.tx.is_empty()?;
        let receive = self.device.pending().receive && self.can_receive()?;
        let post = self.can_post()?;
        // An empty page that came only now: the device may have been readable all along.
        let refilled = !self.empty && self.can_receive()?;
        Ok(send || receive || refilled || post)
    }

    /// Does the device hold up frames for want of room?
    pub(crate) fn wants_room(&self) -> bool {
        self.waiting.is_some() || self.device.pending().transmit
    }

    /// Is there an empty page and room to announce it?
    pub(crate) fn can_receive(&mut self) -> Result<bool, DriverError> {
        let ring = |ring| move |fault| DriverError::Ring { ring, fault };
        // Where it receives in place, the device has the pages.
        let page = self.in_place()
            || self.spare.is_some()
            || !self.fill.is_empty().map_err(ring("fill"))?;
        Ok(page && self.rx.free().map_err(ring("rx"))? > 0)
    }

    /// Receives a frame; `false` if there is none, or no place for it.
    fn receive_one(&mut self) -> Result<bool, DriverError> {
        if self.in_place() {
            return self.receive_in_place();
        }
        if let Some((area, joined)) = self.open.take() {
            // One page, as frames had before: longer ones than the MTU are taken, too.
            match joined.place(area.len(), shm::PAGE) {
                // A frame that cannot be joined needs a page and a slot of its own.
                Some(at) if self.has_reserve()? => return self.receive_behind(area, joined, at),
                _ => self.hand_over_joined(area, &joined)?,
            }
        }
        if !self.rx_has_room(1)? {
            return Ok(false);
        }
        let Some(mut area) = self.empty_page()? else { return Ok(false) };
        match self.ask(area.bytes_mut()) {
            Ok(Some(received)) => self.take(area, received).map(|()| true),
            other => {
                self.spare = Some(area);
                other.map(|_| false)
            }
        }
    }

    /// Asks the device for a frame of at most so many bytes; the error of a lost device only.
    fn ask(&mut self, into: &mut [u8]) -> Result<Option<Received>, DriverError> {
        let begun = self.trace.note(TraceStage::Read);
        let said = self.device.receive(into);
        let received = self.asked(begun, said)?;
        Ok(received.map(|it| Received { len: it.len.min(into.len()), ..it }))
    }

    /// Notes the device's answer to a request for a frame. The request began at the mark `begun`.
    fn asked<T>(
        &mut self,
        begun: Option<Mark>,
        said: io::Result<Option<T>>,
    ) -> Result<Option<T>, DriverError> {
        self.empty = !matches!(said, Ok(Some(_)));
        if !self.empty {
            self.trace.keep(begun);
            self.trace.mark(TraceStage::HandOver);
        }
        said.or_else(|error| {
            self.counters.rx_device_errors += 1;
            DriverError::check_lost(error).map(|()| None)
        })
    }

    /// Hands over a frame, or keeps it open for more.
    fn take(&mut self, area: Area, received: Received) -> Result<(), DriverError> {
        let Received { len, offload } = received;
        if !self.count(len) {
            self.spare = Some(area);
            return Ok(());
        }
        let first = area.bytes().get(..len).filter(|_| self.joins && offload.segments.is_none());
        if let Some(joined) = first.and_then(|frame| GroFrame::start(frame, offload.verified)) {
            self.open = Some((area, joined));
            return Ok(());
        }
        self.hand_over(area, len, offload)
    }

    /// Counts a frame; `false` if the length is not a frame's.
    fn count(&mut self, len: usize) -> bool {
        let whole = len >= ETHERNET_HEADER;
        self.counters.rx_runts += u64::from(!whole);
        self.counters.rx_packets += u64::from(whole);
        self.counters.rx_bytes += if whole { len as u64 } else { 0 };
        whole
    }

    /// Is there an empty page at hand, and a slot for one more frame than the open one?
    fn has_reserve(&mut self) -> Result<bool, DriverError> {
        self.spare = self.empty_page()?;
        Ok(self.spare.is_some() && self.rx_has_room(2)?)
    }

    /// Receives a frame behind the open one, at `at`, where its headers are not wanted if it can be
    /// joined.
    fn receive_behind(
        &mut self,
        mut area: Area,
        mut joined: GroFrame,
        at: usize,
    ) -> Result<bool, DriverError> {
        let (first, behind) = area.bytes_mut().split_at_mut(at);
        let kept = joined.len() - at;
        let mut aside = [0; MOST_HEADERS];
        aside[..kept].copy_from_slice(&behind[..kept]);
        let asked = self.ask(behind);
        let Ok(Some(received)) = asked else {
            behind[..kept].copy_from_slice(&aside[..kept]);
            self.open = Some((area, joined));
            return asked.map(|_| false);
        };
        let Received { len, offload } = received;
        let frame = &behind[..len];
        let fits = offload.segments.is_none() && joined.join(first, frame, offload.verified);
        let apart = match self.spare.take() {
            Some(mut apart) if !fits => {
                let to = apart.bytes_mut();
                let len = len.min(to.len());
                to[..len].copy_from_slice(&frame[..len]);
                Some((apart, Received { len, offload }))
            }
            spare => {
                self.spare = spare;
                None
            }
        };
        behind[..kept].copy_from_slice(&aside[..kept]);
        let Some((apart, received)) = apart else {
            self.count(len);
            self.counters.rx_joined += 1;
            self.open = Some((area, joined));
            return Ok(true);
        };
        self.hand_over_joined(area, &joined)?;
        self.take(apart, received).map(|()| true)
    }

    /// Hands over the open frame.
    fn close(&mut self) -> Result<(), DriverError> {
        self.close_in_place()?;
        let open = self.open.take();
        open.map_or(Ok(()), |(area, joined)| self.hand_over_joined(area, &joined))
    }

    fn hand_over_joined(&mut self, mut area: Area, joined: &GroFrame) -> Result<(), DriverError> {
        let segments = joined.finish(area.bytes_mut());
        self.hand_over(area, joined.len(), RxOffload { verified: true, segments })
    }

    fn hand_over(&mut self, area: Area, len: usize, offload: RxOffload) -> Result<(), DriverError> {
        let area = area.hand_over(INET);
        // `len` fits: it is at most an area.
        let len = u32::try_from(len).unwrap_or(u32::MAX);
        let frame = RxFrame { area, offset: 0, len, offload, chain: Chain::ALONE };
        match self.rx.push(&frame.encode()) {
            // Full cannot be: there was room before the frame was received, and only we fill it.
            Ok(()) | Err(PushError::Full) => Ok(()),
            Err(PushError::Fault(fault)) => Err(DriverError::Ring { ring: "rx", fault }),
        }
    }

    fn rx_has_room(&mut self, slots: u32) -> Result<bool, DriverError> {
        self.rx.has_room(slots).map_err(|fault| DriverError::Ring { ring: "rx", fault })
    }

    /// An empty page that is ours; names that the pool refuses are passed over.
    fn empty_page(&mut self) -> Result<Option<Area>, DriverError> {
        if let Some(area) = self.spare.take() {
            return Ok(Some(area));
        }
        for _ in 0..RING {
            let slot =
                self.fill.pop().map_err(|fault| DriverError::Ring { ring: "fill", fault })?;
            let Some(slot) = slot else { return Ok(None) };
            match self.pool.take(FillSlot::decode(&slot).0) {
                Ok(area) => return Ok(Some(area)),
                Err(_) => self.counters.rx_bad_fill += 1,
            }
        }
        Ok(None)
    }

    /// Calls `each` with every counter, the device's included.
    pub(crate) fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        let c = &self.counters;
        for (name, value) in [
            ("nic.rx-packets", c.rx_packets),
            ("nic.rx-bytes", c.rx_bytes),
            ("nic.rx-joined", c.rx_joined),
            ("nic.rx-unsolicited", self.unsolicited.received),
            ("nic.rx-runts", c.rx_runts),
            ("nic.rx-bad-fill", c.rx_bad_fill),
            ("nic.rx-bad-place", c.rx_bad_place),
            ("nic.rx-no-page", c.rx_no_page),
            ("nic.rx-device-errors", c.rx_device_errors),
            ("nic.tx-packets", c.tx_packets),
            ("nic.tx-bytes", c.tx_bytes),
            ("nic.tx-cut", self.gso.cut),
            ("nic.tx-bad-slot", c.tx_bad_slot),
            ("nic.tx-bad-area", c.tx_bad_area),
            ("nic.tx-bad-piece", c.tx_bad_piece),
            ("nic.tx-bad-length", c.tx_bad_length),
            ("nic.tx-bad-offload", c.tx_bad_offload),
            ("nic.tx-device-errors", c.tx_device_errors),
        ] {
            each(name, value);
        }
        self.device.counters(each);
    }
}

impl<D> Frames<D> {
    /// How many frames steps moved.
    pub(crate) fn histograms(&self) -> Vec<Histogram> {
        vec![
            self.rx_per_step.histogram("nic.rx-per-step"),
            self.tx_per_step.histogram("nic.tx-per-step"),
        ]
    }
}

#[cfg(test)]
mod tests;
