//! The inet server's end of the frame regions: one [`Port`] per interface.
//!
//! Receiving: the port keeps the `fill` ring stocked with empty areas of its pool; frames
//! come back as `ethinput` calls on the `rx` ring, each area ours again once taken; several calls
//! for one frame whose payload lies in several areas ([`Chain`]). Sending
//! ([`Egress`]): headers are written into a page, the page is handed to the driver, and a
//! descriptor names page and payload pieces, which stay in their client's region. The driver
//! advances the `tx` ring when the device has the frame, so the ring's consumer count tells which
//! head pages are ours again and, through [`Nics::passed`], which payload nobody reads any more.
//!
//! Every frame gets a number, in one sequence over all interfaces: memory that frames up to number
//! `n` may name is free once `passed()` has reached `n`.
//!
//! Descriptors become visible, and the driver's bell is rung, once per batch ([`Nics::flush`]).
//! A driver that writes impossible ring indices is given up alone: its port stays, dead.

use std::collections::VecDeque;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use abi::frame::{
    self, Chain, DriverCall, FillSlot, HEAD_PAGES, IfAttach, MAX_PIECES, RxFrame, TxFrame,
};
use abi::nic::{HEADS, INET, NIC, NicLayout, RING};
use abi::offload::Features;
use abi::stages::{Stage, TraceReader};
use inet::{Egress, InterfaceId, RxBytes, RxOffload, RxPiece, TxOffload, TxPiece};
use shm::{
    Area, AreaName, Consumer, OutOfRange, Pool, Producer, Region, RingFault, Ringer, Sleep, Sleeper,
};

use crate::counters::Counters;
use crate::lend::Piece;
use crate::offload;
use crate::stages::Trace;
use crate::tx::Chunk;

/// While busy, the stock is filled up when this many are missing, or a quarter if that is less, so
/// that it is not done page by page.
const RESTOCK: u32 = 32;
/// Frames staged before the driver sees them in mid-batch, so that it works while we go on.
const TX_BATCH: u32 = 32;
/// Unused bytes before the headers in a head page.
const HEAD_ROOM: u16 = 0;

/// A received frame in a page that is ours; dropping it gives the page back to the pool.
#[derive(Debug)]
pub(crate) struct Frame {
    area: Area,
    start: usize,
    end: usize,
    offload: RxOffload,
    /// Number of the interface.
    nic: u16,
    /// Payloads that continue its own.
    behind: Vec<Frame>,
}

impl Frame {
    /// Number of the interface in whose region it is.
    pub(crate) fn nic(&self) -> u16 {
        self.nic
    }

    /// Its area, and where in it its first byte is.
    pub(crate) fn place(&self) -> (AreaName, usize) {
        (self.area.lend(), self.start)
    }
}

/// Puts a piece into `parts`, each of them in one area.
pub(crate) fn take_apart(piece: Piece, parts: &mut VecDeque<Piece>) {
    let mut put = |frame, range: Range<usize>| {
        if !range.is_empty() {
            parts.push_back(RxPiece { frame: inet::Frame::One(frame), range });
        }
    };
    let RxPiece { frame, range } = piece;
    match frame {
        inet::Frame::One(mut first) if !first.behind.is_empty() => {
            let behind = std::mem::take(&mut first.behind);
            let mut at = 0;
            for frame in std::iter::once(first).chain(behind) {
                let len = frame.bytes().len();
                let within = |position: usize| position.clamp(at, at + len) - at;
                let part = within(range.start)..within(range.end);
                put(frame, part);
                at += len;
            }
        }
        frame => parts.push_back(RxPiece { frame, range }),
    }
}

impl RxBytes for Frame {
    fn bytes(&self) -> &[u8] {
        self.area.bytes().get(self.start..self.end).unwrap_or_default()
    }

    fn offload(&self) -> RxOffload {
        self.offload
    }

    fn frames(&self) -> usize {
        1 + self.behind.len()
    }
}

/// An interface as its driver registers it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Link {
    /// The stack's hardware address on it.
    pub(crate) mac: [u8; 6],
    /// IP bytes per frame.
    pub(crate) mtu: u16,
    /// What the device does for frames.
    pub(crate) features: Features,
}

/// What a driver says.
pub(crate) enum Input {
    /// `ifattach`: this is the interface.
    Attach(Link),
    /// `ethinput`.
    Frame(Frame),
}

/// A frame given to the driver.
struct Sent {
    area: AreaName,
    number: u64,
}

/// One interface.
struct Port {
    number: u16,
    /// Kept open: it is what wakes us.
    _bell: OwnedFd,
    sleeper: Sleeper,
    driver: Ringer,
    /// Areas to receive into, how long they are, how many of them the driver has, and may have.
    pool: Pool,
    area_pages: u16,
    driver_has: u32,
    driver_most: u32,
    /// Pages for the heads of frames to send.
    heads: Pool,
    fill: Producer,
    rx: Consumer,
    tx: Producer,
    /// Frames whose head was not taken back, oldest first; at most [`HEADS`].
    sent: VecDeque<Sent>,
    /// How many of `tx` the driver had consumed when we last looked.
    tx_done: u64,
    interface: Option<InterfaceId>,
    /// What the driver said at `ifattach`.
    features: Features,
    trace: TraceReader,
    backing: String,
    ring: bool,
    dead: bool,
}

/// All interfaces.
#[derive(Default)]
pub(crate) struct Nics {
    ports: Vec<Port>,
    /// Port of each interface of the stack, by interface number.
    by_interface: Vec<usize>,
    /// Number of the last frame sent; also frames that were dropped have one.
    emitted: u64,
    pub(crate) counters: Counters,
    /// Marks of the stages of sends.
    pub(crate) trace: Trace,
    /// Ports that died, to be reported: number and reason.
    pub(crate) lost: Vec<(u16, String)>,
}

impl Nics {
    /// Takes up the frame region of interface `number`. `bell` is ours, `driver_bell` the driver's.
    pub(crate) fn add(
        &mut self,
        number: u16,
        region: &Arc<Region>,
        layout: &NicLayout,
        bell: OwnedFd,
        driver_bell: OwnedFd,
    ) -> Result<(), OutOfRange> {
        let mut port = Port {
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
        };
        port.trace.want(self.trace.on);
        if port.restock(1).is_ok() {
            port.flush();
        }
        self.ports.push(port);
        Ok(())
    }

    /// Is there an interface of that number?
    pub(crate) fn contains(&self, number: u16) -> bool {
        self.ports.iter().any(|port| port.number == number)
    }

    /// Number of ports, for [`Nics::input`].
    pub(crate) fn len(&self) -> usize {
        self.ports.len()
    }

    /// The number of a port's interface, as the supervisor counts.
    pub(crate) fn number(&self, port: usize) -> Option<u16> {
        Some(self.ports.get(port)?.number)
    }

    /// The stack's name of a port's interface, once attached.
    pub(crate) fn interface(&self, port: usize) -> Option<InterfaceId> {
        self.ports.get(port)?.interface
    }

    /// Notes what a port's device does for frames.
    pub(crate) fn set_features(&mut self, port: usize, features: Features) {
        if let Some(entry) = self.ports.get_mut(port) {
            entry.features = features;
        }
    }

    /// Notes that the stack calls a port's interface `id`.
    pub(crate) fn set_interface(&mut self, port: usize, id: InterfaceId) {
        let Some(entry) = self.ports.get_mut(port) else { return };
        entry.interface = Some(id);
        let index = usize::from(id.0);
        if self.by_interface.len() <= index {
            self.by_interface.resize(index + 1, usize::MAX);
        }
        self.by_interface[index] = port;
    }

    /// The next thing that a port's driver says; slots that nobody could mean are counted and
    /// skipped.
    pub(crate) fn input(&mut self, port: usize) -> Option<Input> {
        let entry = self.ports.get_mut(port).filter(|port| !port.dead)?;
        // The bound keeps a driver that writes only garbage from holding up everybody else.
        for _ in 0..RING {
            let slot = match entry.rx.pop() {
                Ok(slot) => slot?,
                Err(fault) => {
                    self.give_up(port, "rx", &fault);
                    return None;
                }
            };
            match entry.decode(&slot) {
                Ok(input) => return Some(input),
                Err(BadInput::Slot) => self.counters.nic_bad_slots += 1,
                Err(BadInput::Frame) => self.counters.nic_bad_frames += 1,
            }
        }
        None
    }

    /// Takes back the head pages of frames that the drivers have passed. Was there any?
    pub(crate) fn complete(&mut self) -> bool {
        let mut progress = false;
        for port in 0..self.ports.len() {
            let entry = &mut self.ports[port];
            if entry.dead {
                continue;
            }
            match entry.complete(&mut self.counters) {
                Ok(some) => progress |= some,
                Err(fault) => self.give_up(port, "tx", &fault),
            }
        }
        progress
    }

    /// Keeps the drivers stocked with empty pages; to the last one when there is time for it
    /// (`idle`).
    pub(crate) fn restock(&mut self, idle: bool) {
        let least = if idle { 1 } else { RESTOCK };
        for port in 0..self.ports.len() {
            let entry = &mut self.ports[port];
            if entry.dead {
                continue;
            }
            if let Err(fault) = entry.restock(least) {
                self.give_up(port, "fill", &fault);
            }
        }
    }

    /// Begins or ends a trace.
    pub(crate) fn set_trace(&mut self, on: bool) {
        self.trace.set(on);
        self.ports.iter().for_each(|port| port.trace.want(on));
    }

    /// Takes the drivers' marks.
    pub(crate) fn take_marks(&mut self) {
        self.ports.iter_mut().for_each(|port| self.trace.take(&mut port.trace));
    }

    /// Makes all descriptors visible and rings the drivers that sleep.
    pub(crate) fn flush(&mut self) {
        if self.ports.iter().any(|port| port.tx.staged() > 0) {
            self.trace.mark(Stage::DriverRequest);
        }
        for port in self.ports.iter_mut().filter(|port| !port.dead) {
            let rung = u64::from(port.flush());
            self.counters.bells += rung;
            self.counters.driver_bells += rung;
        }
    }

    /// Number of the last frame given to a driver.
    pub(crate) fn emitted(&self) -> u64 {
        self.emitted
    }

    /// Every frame up to this number has been passed by its driver.
    pub(crate) fn passed(&self) -> u64 {
        let oldest = self.ports.iter().filter_map(|port| port.sent.front());
        oldest.map(|sent| sent.number - 1).min().unwrap_or(self.emitted)
    }

    /// Says that we sleep, on every port; the drivers ring for frames that they have passed only
    /// if somebody waits for that (`completions`).
    pub(crate) fn announce(&self, completions: bool) {
        let how = if completions { Sleep::Fd } else { Sleep::FdQuiet };
        self.ports.iter().for_each(|port| port.sleeper.announce(how));
    }

    /// Takes the announcement back.
    pub(crate) fn awake(&self) {
        self.ports.iter().for_each(|port| port.sleeper.awake());
    }

    /// Is there something to receive, or, if somebody waits for it (`completions`), a frame that
    /// was passed?
    pub(crate) fn has_work(&mut self, completions: bool) -> bool {
        self.ports.iter_mut().any(|port| {
            let input = !matches!(port.rx.is_empty(), Ok(true));
            let mut done = || !matches!(port.tx.consumed(), Ok(done) if done == port.tx_done);
            !port.dead && (input || completions && done())
        })
    }

    /// Name, pages, free pages and backing of each frame pool.
    pub(crate) fn pools(&self) -> impl Iterator<Item = (String, u32, u32, &str)> {
        self.ports.iter().enumerate().map(|(index, port)| {
            let name = match index {
                0 => "frames".to_owned(),
                _ => format!("frames {}", port.number),
            };
            (name, port.pool.pages(), port.pool.free_pages(), port.backing.as_str())
        })
    }

    fn give_up(&mut self, port: usize, ring: &str, fault: &RingFault) {
        let port = &mut self.ports[port];
        port.dead = true;
        // Nothing that it was given is waited for any more: it will be told to go.
        port.sent.clear();
        let reason =
            format!("the driver of interface {} broke its {ring} ring: {fault}", port.number);
        self.lost.push((port.number, reason));
    }
}

enum BadInput {
    Slot,
    Frame,
}

impl Port {
    fn decode(&mut self, slot: &shm::Slot) -> Result<Input, BadInput> {
        match DriverCall::decode(slot).map_err(|_| BadInput::Slot)? {
            DriverCall::EthInput(said) => {
                let first = self.take(&said);
                let Chain::First(more) = said.chain else { return Err(BadInput::Frame) };
                if more == 0 {
                    return first.map(Input::Frame);
                }
                // All of them are taken, whatever is wrong with one, so that no area is lost.
                let behind: Vec<_> = (0..more).map(|_| self.next_of_chain()).collect();
                let mut first = first?;
                first.behind = behind.into_iter().collect::<Result<_, _>>()?;
                let bytes = first.behind.iter().map(|frame| frame.bytes().len()).sum::<usize>();
                // Only what was joined has something behind it; an area of `MAX_MORE` each is less
                // than 32 bits.
                let joined = first.offload.segment > 0;
                first.offload.behind =
                    u32::try_from(bytes).ok().filter(|_| joined).ok_or(BadInput::Frame)?;
                Ok(Input::Frame(first))
            }
            DriverCall::IfAttach(IfAttach { mac, mtu, features }) => {
                Ok(Input::Attach(Link { mac, mtu, features }))
            }
        }
    }

    /// The driver was to publish all of a chain at once.
    fn next_of_chain(&mut self) -> Result<Frame, BadInput> {
        let slot = self.rx.pop().ok().flatten().ok_or(BadInput::Slot)?;
        let Ok(DriverCall::EthInput(said)) = DriverCall::decode(&slot) else {
            return Err(BadInput::Slot);
        };
        let frame = self.take(&said)?;
        if said.chain == Chain::Next { Ok(frame) } else { Err(BadInput::Frame) }
    }

    /// A frame whose area was handed over.
    fn take(&mut self, said: &RxFrame) -> Result<Frame, BadInput> {
        let area = self.pool.take(said.area).map_err(|_| BadInput::Frame)?;
        self.driver_has = self.driver_has.saturating_sub(1);
        let start = said.offset as usize;
        let end = start.saturating_add(said.len as usize);
        let offload = offload::from_device(self.features, said.offload);
        let offload = offload.filter(|_| end <= area.len()).ok_or(BadInput::Frame)?;
        Ok(Frame { area, start, end, offload, nic: self.number, behind: Vec::new() })
    }

    /// Is there a head page and a slot for one more frame? What is wrong with a ring is told when
    /// it is used.
    fn has_room(&mut self) -> bool {
        self.sent.len() < HEADS as usize && !matches!(self.tx.has_room(1), Ok(false))
    }

    fn complete(&mut self, counters: &mut Counters) -> Result<bool, RingFault> {
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

    /// Empty areas that the driver has to receive into, half of what it may have: so many frames
    /// may lag behind. More would only make the driver walk through more of the cache.
    fn stock(&self) -> u32 {
        (self.driver_most / 2).min(RING)
    }

    /// Fills the stock up if at least `least` pages are missing, or a quarter of it.
    fn restock(&mut self, least: u32) -> Result<(), RingFault> {
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
        // Only a driver that had used up its pages may sleep for want of one. It announces sleep
        // and then looks at the ring; we publish and then look at what it consumed: one of us sees
        // the other.
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        self.ring |= self.fill.consumed()? >= before;
        Ok(())
    }

    fn flush(&mut self) -> bool {
        if self.tx.staged() > 0 {
            self.tx.publish();
            self.ring = true;
        }
        std::mem::take(&mut self.ring) && self.driver.ring()
    }

    fn send(
        &mut self,
        number: u64,
        head: &[u8],
        body: &[TxPiece<'_, Chunk>],
        offload: TxOffload,
    ) -> Option<()> {
        let mut area = self.heads.alloc(HEAD_PAGES).ok()?;
        area.bytes_mut()
            .get_mut(usize::from(HEAD_ROOM)..)?
            .get_mut(..head.len())?
            .copy_from_slice(head);
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
        self.sent.push_back(Sent { area, number });
        Some(())
    }
}

impl Egress<Chunk> for Nics {
    fn ready(&mut self) -> bool {
        self.ports.iter_mut().all(|port| port.dead || port.has_room())
    }

    fn stage(&mut self, stage: inet::Stage) {
        self.trace.mark(match stage {
            inet::Stage::Tcp => Stage::Tcp,
            inet::Stage::Ip => Stage::Ip,
            inet::Stage::Ethernet => Stage::Ethernet,
            inet::Stage::EthernetInput => Stage::EthernetInput,
            inet::Stage::IpInput => Stage::IpInput,
            inet::Stage::TcpInput => Stage::TcpInput,
        });
    }

    fn emit(
        &mut self,
        interface: InterfaceId,
        head: &[u8],
        body: &[TxPiece<'_, Chunk>],
        offload: TxOffload,
    ) {
        self.trace.mark(Stage::Descriptor);
        self.emitted += 1;
        let port = self.by_interface.get(usize::from(interface.0));
        let port = port.and_then(|&port| self.ports.get_mut(port)).filter(|port| !port.dead);
        let sent = port.and_then(|port| {
            // Room first: a page that was handed over could not be had back.
            port.has_room().then_some(())?;
            port.send(self.emitted, head, body, offload)?;
            if port.tx.staged() >= TX_BATCH {
                self.trace.mark(Stage::DriverRequest);
                let rung = u64::from(port.flush());
                self.counters.bells += rung;
                self.counters.driver_bells += rung;
            }
            Some(())
        });
        if sent.is_none() {
            self.counters.nic_dropped += 1;
        }
    }
}

/// Maps a frame region.
///
/// # Errors
/// What the system or the sealing said.
pub(crate) fn map(fd: &OwnedFd, len: usize, strict: bool) -> Result<Arc<Region>, shm::RegionError> {
    if strict {
        Region::map_strict(fd.as_fd(), len)
    } else {
        Region::map(fd.as_fd(), len, shm::Access::ReadWrite)
    }
}
