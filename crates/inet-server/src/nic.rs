//! The inet server's end of the frame regions: one [`Port`] per interface.
//!
//! Receiving: the port keeps the `fill` ring stocked with empty areas of its pool; frames
//! come back as `ethinput` calls on the `rx` ring, each area ours again once taken; several calls
//! for one frame whose payload lies in several areas ([`Chain`](abi::frame::Chain)). Sending
//! ([`Egress`]): headers are written into a page, the page is handed to the driver, and a
//! descriptor names page and payload pieces, which stay in their client's region. The driver
//! advances the `tx` ring when it is done with the frame: the device has it, or the frame was bad
//! or refused and is dropped. So the ring's consumer count tells which head pages are ours again
//! and, through [`Nics::passed`], which payload nobody reads any more. It does not tell what was
//! sent.
//!
//! Every frame gets a number, in one sequence over all interfaces: memory that frames up to number
//! `n` may name is free once `passed()` has reached `n`.
//!
//! Descriptors become visible, and the driver's bell is rung, once per batch ([`Nics::flush`]).
//! A driver that writes impossible ring indices is given up alone: its port stays, dead.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use abi::nic::{NicLayout, RING};
use abi::offload::Features;
use abi::stages::TraceStage;
use inet::{Egress, InterfaceId, TxOffload, TxPiece};
use shm::{OutOfRange, Region, RingFault, Sleep};

use crate::observe::counters::Counters;
use crate::observe::trace::Trace;
use crate::tx::chunk::ClientChunk;

pub(crate) mod frame;
pub(crate) mod offload;
mod port;

pub(crate) use self::port::DriverInput;
use self::port::{BadDriverInput, Port};

/// While busy, the stock is filled up when this many are missing, or a quarter if that is less, so
/// that it is not done page by page.
const RESTOCK: u32 = 32;
/// Frames staged before the driver sees them in mid-batch, so that it works while we go on.
const TX_BATCH: u32 = 32;

/// All interfaces.
#[derive(Default)]
pub(crate) struct Nics {
    ports: Vec<Port>,
    /// Port of each interface of the stack, by interface number.
    by_interface: Vec<usize>,
    /// Number of the newest frame; a dropped frame has one too.
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
    pub(crate) fn input(&mut self, port: usize) -> Option<DriverInput> {
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
                Err(BadDriverInput::Slot) => self.counters.nic_bad_slots += 1,
                Err(BadDriverInput::Frame) => self.counters.nic_bad_frames += 1,
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

    /// No driver reads a frame up to this number any more. It was sent, or dropped.
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

impl Egress<ClientChunk> for Nics {
    fn ready(&mut self) -> bool {
        self.ports.iter_mut().all(|port| port.dead || port.has_room())
    }

    fn stage(&mut self, stage: inet::ProcessingStage) {
        self.trace.mark(match stage {
            inet::ProcessingStage::Tcp => TraceStage::Tcp,
            inet::ProcessingStage::Ip => TraceStage::Ip,
            inet::ProcessingStage::Ethernet => TraceStage::Ethernet,
            inet::ProcessingStage::EthernetInput => TraceStage::EthernetInput,
            inet::ProcessingStage::IpInput => TraceStage::IpInput,
            inet::ProcessingStage::TcpInput => TraceStage::TcpInput,
        });
    }

    fn emit(
        &mut self,
        interface: InterfaceId,
        head: &[u8],
        body: &[TxPiece<'_, ClientChunk>],
        offload: TxOffload,
    ) {
        self.trace.mark(TraceStage::Descriptor);
        self.emitted += 1;
        let port = self.by_interface.get(usize::from(interface.0));
        let port = port.and_then(|&port| self.ports.get_mut(port)).filter(|port| !port.dead);
        let sent = port.and_then(|port| {
            // Room first: a page that was handed over could not be had back.
            port.has_room().then_some(())?;
            port.send(self.emitted, head, body, offload)?;
            if port.tx.staged() >= TX_BATCH {
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
