//! The inet server's end of the frame regions: one [`Port`] per interface.
//!
//! **Receiving.** The port keeps the `fill` ring stocked with empty areas of its pool. Frames come
//! back as `ethinput` calls on the `rx` ring. Once the port has taken a call, its area is the
//! server's again. A frame whose payload lies in several areas comes as several calls
//! ([`Chain`](abi::frame::Chain)).
//!
//! **Sending** ([`Egress`]). The port writes the headers into a head page and hands the page to the
//! driver. A descriptor names the page and the payload pieces, which stay in their client's region.
//!
//! **Completion.** The driver advances the `tx` ring when it is done with the frame. Either the
//! device has the frame, or the driver dropped it, because it was bad or the device refused it. So
//! the ring's consumer count does not tell which frames were sent. It tells which head pages are
//! the server's again. Through [`Nics::passed`] it also tells which payload no driver reads any
//! more.
//!
//! Each interface has two queues to its driver ([`output`]), and each is full by itself: an
//! interface whose driver takes nothing holds up no other.
//!
//! Every frame gets a number, in one sequence over all interfaces. Memory that frames up to number
//! `n` may name is free once `passed()` has reached `n` on all interfaces that such a frame took
//! ([`Nics::awaited`]).
//!
//! The server publishes descriptors and rings the driver once per batch ([`Nics::flush`]). A driver
//! that writes impossible ring indices loses its port; the other ports go on.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use abi::control::PartyStatus;
use abi::nic::{NicLayout, RING};
use abi::offload::Features;
use abi::stages::TraceStage;
use inet::{Egress, InterfaceId, InterfaceSet, OwnerId, TxOffload, TxPiece};
use shm::{OutOfRange, Region, RingFault, Sleep};

use crate::observe::counters::Counters;
use crate::observe::trace::Trace;
use crate::tx::chunk::ClientChunk;

pub(crate) mod frame;
pub(crate) mod offload;
mod output;
mod port;

pub(crate) use self::port::DriverInput;
use self::port::{BadDriverInput, Port};

/// While busy, the server restocks the driver when this many areas are missing, or a quarter of the
/// stock if that is less. So it does not restock area by area.
const RESTOCK: u32 = 32;
/// Frames that sockets send in one iteration while several clients are active: frames that have
/// come, and calls, wait that long.
const FRAMES_PER_ITERATION: u32 = 64;
/// Frames staged before the server publishes them in mid-batch. So the driver works in parallel.
const TX_BATCH: u32 = 32;

/// All interfaces.
#[derive(Default)]
pub(crate) struct Nics {
    ports: Vec<Port>,
    /// Port of each interface of the stack, by interface number.
    by_interface: Vec<usize>,
    /// Number of the newest frame; a dropped frame has one too.
    emitted: u64,
    /// The sender of the frames that the core emits now.
    sender: OwnerId,
    /// See [`Nics::is_blocked`].
    blocked: bool,
    /// Several clients are active.
    shared: bool,
    /// Frames that sockets may still send in this iteration.
    quota: u32,
    pub(crate) counters: Counters,
    /// Marks of the stages of sends and receives.
    pub(crate) trace: Trace,
    /// Dead ports to be reported: number and reason.
    pub(crate) lost: Vec<(u16, String)>,
}

impl Nics {
    /// Takes up the frame region of interface `number`. The server waits on `bell`; `driver_bell`
    /// wakes the driver.
    pub(crate) fn add(
        &mut self,
        number: u16,
        region: &Arc<Region>,
        layout: &NicLayout,
        bell: OwnedFd,
        driver_bell: OwnedFd,
    ) -> Result<(), OutOfRange> {
        let mut port = Port::attach(number, region, layout, bell, driver_bell)?;
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

    /// Notes the offloads of a port's device.
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

    /// The next call of a port's driver. Invalid slots are counted and skipped.
    pub(crate) fn input(&mut self, port: usize) -> Option<DriverInput> {
        let entry = self.ports.get_mut(port).filter(|port| !port.dead)?;
        // The bound keeps a driver that writes only garbage from holding up all others.
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
                Err(BadDriverInput::Slot) => self.counters.nic_bad_slots += 1,
                Err(BadDriverInput::Frame) => self.counters.nic_bad_frames += 1,
            }
        }
        None
    }

    /// Takes back the head pages of frames that the drivers have passed. Returns whether there was
    /// any.
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

    /// Keeps the drivers stocked with empty areas; when the server is `idle`, to the last one.
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
        if self.trace.on && self.ports.iter().any(|port| port.output.staged() > 0) {
            self.trace.mark(TraceStage::DriverRequest);
        }
        for port in self.ports.iter_mut().filter(|port| !port.dead) {
            let rung = u64::from(port.flush());
            self.counters.bells += rung;
            self.counters.driver_bells += rung;
        }
    }

    /// Number of the newest frame; a dropped frame has one too.
    pub(crate) fn emitted(&self) -> u64 {
        self.emitted
    }

    /// The driver of an interface reads no frame up to this number any more. Each was sent or
    /// dropped.
    pub(crate) fn passed(&self, interface: InterfaceId) -> u64 {
        let port = self.by_interface.get(usize::from(interface.0));
        let port = port.and_then(|&port| self.ports.get(port));
        port.and_then(|port| port.output.oldest()).map_or(self.emitted, |oldest| oldest - 1)
    }

    /// The first of these interfaces whose driver may still read a frame up to `number`.
    pub(crate) fn awaited(&self, mut interfaces: InterfaceSet, number: u64) -> Option<InterfaceId> {
        loop {
            let first = interfaces.first()?;
            if self.passed(first) < number {
                return Some(first);
            }
            interfaces.remove(first);
        }
    }

    /// Was output refused for want of room since the last call of [`Nics::begin_output`]?
    pub(crate) fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// The core's output begins. `shared`: several clients are active, so the sockets of clients
    /// send a bounded number of frames.
    pub(crate) fn begin_output(&mut self, shared: bool) {
        self.blocked = false;
        self.shared = shared;
        self.quota = if shared { FRAMES_PER_ITERATION } else { u32::MAX };
    }

    /// Announces sleep on every port. `completions`: the drivers ring also for frames that they
    /// have passed.
    pub(crate) fn announce(&self, completions: bool) {
        let how = if completions { Sleep::Fd } else { Sleep::FdQuiet };
        self.ports.iter().for_each(|port| port.sleeper.announce(how));
    }

    /// Takes the announcement back.
    pub(crate) fn awake(&self) {
        self.ports.iter().for_each(|port| port.sleeper.awake());
    }

    /// Is there something to receive? With `completions`: or has a driver passed a frame?
    pub(crate) fn has_work(&mut self, completions: bool) -> bool {
        self.ports.iter_mut().any(|port| {
            let input = !matches!(port.rx.is_empty(), Ok(true));
            !port.dead && (input || completions && port.output.has_news())
        })
    }

    /// Each interface's rings, for operators. Its driver reports its own counters.
    pub(crate) fn parties(&mut self) -> impl Iterator<Item = PartyStatus> {
        self.ports.iter_mut().map(|port| PartyStatus {
            role: "nic".to_owned(),
            number: port.number,
            rings: port.rings(),
            counters: Vec::new(),
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
        // The server does not wait for this driver's frames any more: the supervisor will end it.
        port.output.clear();
        let reason =
            format!("the driver of interface {} broke its {ring} ring: {fault}", port.number);
        self.lost.push((port.number, reason));
    }
}

impl Egress<ClientChunk> for Nics {
    fn set_sender(&mut self, sender: OwnerId) {
        self.sender = sender;
    }

    fn ready(&mut self, interface: InterfaceId) -> bool {
        let port = self.by_interface.get(usize::from(interface.0));
        // An interface without a driver loses what it gets.
        let port = port.and_then(|&port| self.ports.get_mut(port)).filter(|port| !port.dead);
        let ready = port.is_none_or(|port| port.output.choose(self.sender).is_some());
        self.blocked |= !ready;
        let is_client = self.sender != OwnerId::default();
        ready && !(is_client && self.quota == 0)
    }

    fn stage(&mut self, stage: inet::ProcessingStage) {
        self.trace.mark(match stage {
            inet::ProcessingStage::Tcp => TraceStage::Tcp,
            inet::ProcessingStage::Ip => TraceStage::Ip,
            inet::ProcessingStage::Ethernet => TraceStage::Ethernet,
            inet::ProcessingStage::EthernetInput => TraceStage::EthernetInput,
            inet::ProcessingStage::IpInput => TraceStage::IpInput,
            inet::ProcessingStage::TcpInput => TraceStage::TcpInput,
            inet::ProcessingStage::EspSeal => TraceStage::EspSeal,
            inet::ProcessingStage::EspOpen => TraceStage::EspOpen,
        });
    }

    fn emit(
        &mut self,
        interface: InterfaceId,
        head: &[u8],
        body: &[TxPiece<'_, ClientChunk>],
        offload: TxOffload,
    ) -> bool {
        self.trace.mark(TraceStage::Descriptor);
        self.emitted += 1;
        self.quota = self.quota.saturating_sub(1);
        let port = self.by_interface.get(usize::from(interface.0));
        let port = port.and_then(|&port| self.ports.get_mut(port)).filter(|port| !port.dead);
        let sent = port.and_then(|port| {
            port.send((self.emitted, self.sender, self.shared), head, body, offload)?;
            if port.output.staged() >= TX_BATCH {
                self.trace.mark(TraceStage::DriverRequest);
                let rung = u64::from(port.flush());
                self.counters.bells += rung;
                self.counters.driver_bells += rung;
            }
            Some(())
        });
        if sent.is_none() {
            self.counters.nic_dropped += 1;
        }
        sent.is_some()
    }
}

/// Maps a frame region.
///
/// # Errors
/// The system's, or a region that is not sealed.
pub(crate) fn map(fd: &OwnedFd, len: usize, strict: bool) -> Result<Arc<Region>, shm::RegionError> {
    if strict {
        Region::map_strict(fd.as_fd(), len)
    } else {
        Region::map(fd.as_fd(), len, shm::Access::ReadWrite)
    }
}
