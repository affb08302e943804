//! Security associations: key, sequence numbers, replay window, lifetime (RFC 4301 4.4.2).

use alloc::boxed::Box;
use core::net::IpAddr;

use super::cipher::{EspCipher, EspHeader};
use super::flow::EspSelector;
use super::lifetime::{SaAge, SaLifetimes, SaUsage};
use super::replay::{LEAST_WINDOW, MOST_WINDOW, ReplayWindow};
use crate::table::Handle;
use crate::time::Instant;

/// Least number of an association (RFC 4303 2.1): the lower ones are reserved.
const LEAST_SPI: u32 = 256;

/// Which association has opened a received packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct SecuredBy(pub(crate) Handle);

/// What ESP protects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EspMode {
    /// The payload of a packet between two hosts.
    Transport,
    /// A whole packet, in another one.
    Tunnel,
}

/// Names an association: the number that packets carry, and their destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SaId {
    /// The number, at least 256.
    pub spi: u32,
    /// Where packets of ESP go.
    pub destination: IpAddr,
}

/// An association, as the owner of the stack names it. It serves packets of one direction: to its
/// destination.
#[derive(Debug)]
pub struct SaConfig {
    /// Its name.
    pub id: SaId,
    /// Where packets of ESP come from, of the destination's family.
    pub source: IpAddr,
    /// The identifier by which policies find it; 0 is none.
    pub reqid: u32,
    /// Its mode.
    pub mode: EspMode,
    /// Encryption, integrity and key.
    pub cipher: Box<dyn EspCipher>,
    /// Packets, 32 to 4096; 0 lets packets be replayed.
    pub replay_window: u32,
    /// Sequence numbers have 64 bits; needs a replay window.
    pub extended: bool,
    /// The sequence number of the last packet sent before it was added here.
    pub sent: u64,
    /// The highest sequence number received before.
    pub received: u64,
    /// How long it lasts.
    pub lifetimes: SaLifetimes,
    /// The flows that it may protect; `None` for all that policies give to it.
    pub selector: Option<EspSelector>,
    /// In tunnel mode, shorter packets are padded to so many bytes (RFC 4303 2.7); 0 for none.
    pub padded_to: u16,
}

/// An association as others see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SaInfo {
    /// See [`SaConfig::id`].
    pub id: SaId,
    /// See [`SaConfig::source`].
    pub source: IpAddr,
    /// See [`SaConfig::reqid`].
    pub reqid: u32,
    /// See [`SaConfig::mode`].
    pub mode: EspMode,
    /// See [`SaConfig::replay_window`].
    pub replay_window: u32,
    /// See [`SaConfig::extended`].
    pub extended: bool,
    /// See [`SaConfig::lifetimes`].
    pub lifetimes: SaLifetimes,
    /// See [`SaConfig::selector`].
    pub selector: Option<EspSelector>,
    /// What it has done.
    pub usage: SaUsage,
    /// How old it is.
    pub age: SaAge,
    /// The number of the last packet sent.
    pub sent: u64,
    /// The highest number received.
    pub received: u64,
    /// Packets that were received before, or too late.
    pub replays: u64,
    /// Packets whose check value was wrong.
    pub failures: u64,
}

/// An association in the table.
#[derive(Debug)]
pub(super) struct Association {
    pub(super) id: SaId,
    pub(super) source: IpAddr,
    pub(super) reqid: u32,
    pub(super) mode: EspMode,
    pub(super) cipher: Box<dyn EspCipher>,
    pub(super) extended: bool,
    pub(super) lifetimes: SaLifetimes,
    pub(super) selector: Option<EspSelector>,
    pub(super) padded_to: u16,
    /// The number of the last packet sent.
    pub(super) sent: u64,
    pub(super) window: ReplayWindow,
    pub(super) usage: SaUsage,
    pub(super) age: SaAge,
    /// Of associations that serve a packet, the newest one is used.
    pub(super) serial: u64,
    pub(super) replays: u64,
    pub(super) failures: u64,
}

impl SaConfig {
    /// Whether such an association can be.
    pub(super) fn is_possible(&self) -> bool {
        let window = self.replay_window;
        let has_window = (LEAST_WINDOW..=MOST_WINDOW).contains(&window);
        let destination = self.id.destination;
        self.id.spi >= LEAST_SPI
            && self.source.is_ipv4() == destination.is_ipv4()
            && !destination.is_unspecified()
            && !destination.is_multicast()
            && (has_window || window == 0 && !self.extended)
            && self.selector.is_none_or(|selector| selector.is_possible())
            && self.cipher.shape().is_possible()
    }
}

impl Association {
    pub(super) fn new(now: Instant, config: SaConfig, serial: u64) -> Self {
        let SaConfig { id, source, reqid, mode, cipher, extended, lifetimes, selector, .. } =
            config;
        Self {
            id,
            source,
            reqid,
            mode,
            cipher,
            extended,
            lifetimes,
            selector: selector.map(EspSelector::canonical),
            padded_to: config.padded_to,
            sent: config.sent,
            window: ReplayWindow::new(config.replay_window, extended).after(config.received),
            usage: SaUsage::new(now),
            age: SaAge::Valid,
            serial,
            replays: 0,
            failures: 0,
        }
    }

    /// The header of the next packet; `None` if there is no number left (RFC 4303 3.3.3).
    pub(super) fn next_header(&mut self) -> Option<EspHeader> {
        let most = if self.extended { u64::MAX } else { u32::MAX.into() };
        if self.sent >= most {
            return None;
        }
        self.sent += 1;
        Some(self.header(self.sent))
    }

    pub(super) fn header(&self, sequence: u64) -> EspHeader {
        EspHeader { spi: self.id.spi, sequence, extended: self.extended }
    }

    pub(super) fn info(&self) -> SaInfo {
        SaInfo {
            id: self.id,
            source: self.source,
            reqid: self.reqid,
            mode: self.mode,
            replay_window: self.window.size(),
            extended: self.extended,
            lifetimes: self.lifetimes,
            selector: self.selector,
            usage: self.usage,
            age: self.age,
            sent: self.sent,
            received: self.window.top(),
            replays: self.replays,
            failures: self.failures,
        }
    }
}
