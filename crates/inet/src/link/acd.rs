//! Address conflict detection (RFC 5227), for one address on one interface.
//!
//! ```text
//!            3 probes, silence           2 announcements
//!  Probing ──────────────────▶ Announcing ─────────────▶ Defending
//!     │ anybody claims it           │ claimed: announced again, once in 10 s (2.4 b and c);
//!     ▼                             ▼ again within 10 s: given up, unless it is to be kept
//!  conflict                      conflict
//! ```
//!
//! The machine takes time and ARP packets, and gives packets to send and verdicts. The owner of the
//! configuration decides about an address in conflict: DHCP declines it. A static address stays, as
//! with Linux, and is announced at most every 10 s.

use core::net::Ipv4Addr;
use core::time::Duration;

use super::arp::ArpPacket;
use super::ethernet::Mac;
use crate::config::AcdConfig;
use crate::secret::Secret;
use crate::time::Instant;

/// RFC 5227 1.1.
pub(crate) const DEFEND_INTERVAL: Duration = Duration::from_secs(10);
const ANNOUNCEMENTS: u8 = 2;
const ANNOUNCE_INTERVAL: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AcdState {
    Probing {
        sent: u8,
    },
    Announcing {
        sent: u8,
    },
    Defending,
    /// In conflict and given up.
    Lost,
}

/// The action of a due timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AcdStep {
    /// Send an ARP probe: a request from 0.0.0.0.
    Probe,
    /// No other host has the address; use it, and announce it.
    Free,
    /// Send an announcement: a request from the address for itself.
    Announce,
}

/// The meaning of an ARP packet for the address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AcdVerdict {
    /// Nothing.
    Unconcerned,
    /// Another host has the address or wants it. This host retains it, and sends an announcement if
    /// `announce`.
    Defend { announce: bool },
    /// Another host has the address.
    Lost,
}

/// The state of one address.
#[derive(Debug, Clone)]
pub(crate) struct Acd {
    address: Ipv4Addr,
    state: AcdState,
    next: Option<Instant>,
    /// The last conflict.
    conflict: Option<Instant>,
    /// Never give it up.
    keep: bool,
}

impl Acd {
    /// Starts to probe whether another host has `address` (2.1.1).
    pub(crate) fn probe(
        now: Instant,
        address: Ipv4Addr,
        config: &AcdConfig,
        random: &mut Secret,
    ) -> Self {
        let next = Some(now + random_time(Duration::ZERO, config.probe_wait, random));
        Self { address, state: AcdState::Probing { sent: 0 }, next, conflict: None, keep: false }
    }

    /// An address that is used without probing and never given up. It is announced and defended.
    pub(crate) fn announce(now: Instant, address: Ipv4Addr) -> Self {
        let state = AcdState::Announcing { sent: 0 };
        Self { address, state, next: Some(now), conflict: None, keep: true }
    }

    /// The link is another one, or has forgotten: an address in use is announced once more.
    pub(crate) fn announce_again(&mut self, now: Instant) {
        if self.is_usable() {
            (self.state, self.next) = (AcdState::Announcing { sent: 0 }, Some(now));
        }
    }

    pub(crate) fn address(&self) -> Ipv4Addr {
        self.address
    }

    /// Whether it may be used.
    pub(crate) fn is_usable(&self) -> bool {
        matches!(self.state, AcdState::Announcing { .. } | AcdState::Defending)
    }

    /// When to call [`step`](Self::step).
    pub(crate) fn poll_at(&self) -> Option<Instant> {
        self.next
    }

    /// Does what is due at `now`.
    pub(crate) fn step(
        &mut self,
        now: Instant,
        config: &AcdConfig,
        random: &mut Secret,
    ) -> Option<AcdStep> {
        if self.next.is_none_or(|at| at > now) {
            return None;
        }
        match self.state {
            AcdState::Probing { sent } if sent < config.probes => {
                self.state = AcdState::Probing { sent: sent + 1 };
                let wait = if sent + 1 < config.probes {
                    random_time(config.probe_min, config.probe_max, random)
                } else {
                    config.announce_wait
                };
                self.next = Some(now + wait);
                Some(AcdStep::Probe)
            }
            AcdState::Probing { .. } => {
                self.state = AcdState::Announcing { sent: 0 };
                // At once: the caller asks again.
                self.next = Some(now);
                Some(AcdStep::Free)
            }
            AcdState::Announcing { sent } => {
                let more = sent + 1 < ANNOUNCEMENTS;
                self.state = if more {
                    AcdState::Announcing { sent: sent + 1 }
                } else {
                    AcdState::Defending
                };
                self.next = more.then(|| now + ANNOUNCE_INTERVAL);
                Some(AcdStep::Announce)
            }
            AcdState::Defending | AcdState::Lost => {
                self.next = None;
                None
            }
        }
    }

    /// Handles an ARP packet received on the interface with the hardware address `ours`.
    pub(crate) fn handle(&mut self, now: Instant, packet: &ArpPacket, ours: Mac) -> AcdVerdict {
        if packet.sender_mac == ours {
            return AcdVerdict::Unconcerned;
        }
        let claims = packet.sender == self.address;
        match self.state {
            AcdState::Lost => AcdVerdict::Unconcerned,
            AcdState::Probing { .. } => {
                // 2.1.1: another host may be about to take it.
                let probes = packet.is_request
                    && packet.sender.is_unspecified()
                    && packet.target == self.address;
                if claims || probes {
                    self.state = AcdState::Lost;
                    self.next = None;
                    return AcdVerdict::Lost;
                }
                AcdVerdict::Unconcerned
            }
            AcdState::Announcing { .. } | AcdState::Defending if claims => self.claimed(now),
            _ => AcdVerdict::Unconcerned,
        }
    }

    /// 2.4: another host uses our address.
    fn claimed(&mut self, now: Instant) -> AcdVerdict {
        let recent = self.conflict.is_some_and(|at| now.since(at) < DEFEND_INTERVAL);
        if recent && !self.keep {
            self.state = AcdState::Lost;
            self.next = None;
            return AcdVerdict::Lost;
        }
        if !recent {
            self.conflict = Some(now);
        }
        AcdVerdict::Defend { announce: !recent }
    }
}

/// A time from `least` to `most`.
fn random_time(least: Duration, most: Duration, random: &mut Secret) -> Duration {
    let span = u32::try_from(most.saturating_sub(least).as_micros()).unwrap_or(u32::MAX);
    least + Duration::from_micros(random.below(span.saturating_add(1)).into())
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    const OURS: Mac = smoltcp::wire::EthernetAddress([2, 0, 0, 0, 0, 2]);
    const OTHER: Mac = smoltcp::wire::EthernetAddress([2, 0, 0, 0, 0, 9]);
    const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 7);
    const START: Instant = Instant::from_nanos(5_000_000_000);

    fn packet(is_request: bool, sender: Ipv4Addr, sender_mac: Mac) -> ArpPacket {
        ArpPacket { is_request, sender, sender_mac, target: ADDRESS }
    }

    /// All steps with their times, until it waits for nothing.
    fn run(acd: &mut Acd, config: &AcdConfig, random: &mut Secret) -> Vec<(AcdStep, Duration)> {
        let mut steps = Vec::new();
        while let Some(at) = acd.poll_at() {
            assert_eq!(acd.step(at - Duration::from_nanos(1), config, random), None);
            if let Some(step) = acd.step(at, config, random) {
                steps.push((step, at.since(START)));
            }
        }
        steps
    }

    #[test]
    fn probes_then_announcements() {
        let config = AcdConfig::default();
        let seconds = Duration::from_secs;
        for seed in 0..50 {
            let mut random = Secret::new(&[seed; 16]);
            let mut acd = Acd::probe(START, ADDRESS, &config, &mut random);
            assert!(!acd.is_usable());
            let steps = run(&mut acd, &config, &mut random);
            let kinds: Vec<AcdStep> = steps.iter().map(|(step, _)| *step).collect();
            let announced = [AcdStep::Free, AcdStep::Announce, AcdStep::Announce];
            assert_eq!(kinds, [&[AcdStep::Probe; 3][..], &announced].concat());
            let times: Vec<Duration> = steps.iter().map(|(_, at)| *at).collect();
            assert!(times[0] <= seconds(1));
            for pair in times[..3].windows(2) {
                assert!((seconds(1)..=seconds(2)).contains(&(pair[1] - pair[0])));
            }
            assert_eq!(times[3] - times[2], seconds(2));
            assert_eq!((times[4] - times[3], times[5] - times[4]), (Duration::ZERO, seconds(2)));
            assert!(acd.is_usable());
        }
    }

    #[test]
    fn who_claims_a_probed_address_has_it() {
        let table = [
            (packet(true, ADDRESS, OTHER), AcdVerdict::Lost),
            (packet(false, ADDRESS, OTHER), AcdVerdict::Lost),
            // Another host probes for it.
            (packet(true, Ipv4Addr::UNSPECIFIED, OTHER), AcdVerdict::Lost),
            // Our own packets come back from a switch.
            (packet(true, Ipv4Addr::UNSPECIFIED, OURS), AcdVerdict::Unconcerned),
            // A host asks for it.
            (packet(true, Ipv4Addr::new(10, 0, 0, 1), OTHER), AcdVerdict::Unconcerned),
        ];
        let config = AcdConfig::default();
        let mut random = Secret::new(&[1; 16]);
        for (packet, verdict) in table {
            let mut acd = Acd::probe(START, ADDRESS, &config, &mut random);
            assert_eq!(acd.handle(START, &packet, OURS), verdict, "{packet:?}");
            let lost = verdict == AcdVerdict::Lost;
            assert_eq!(acd.poll_at().is_none(), lost);
            if lost {
                assert_eq!(acd.handle(START, &packet, OURS), AcdVerdict::Unconcerned, "told once");
                assert!(!acd.is_usable());
            }
        }
    }

    #[test]
    fn defended_once_in_ten_seconds() {
        let claim = packet(false, ADDRESS, OTHER);
        let second = Duration::from_secs(1);
        let defend = |announce| AcdVerdict::Defend { announce };
        // From DHCP: given up at the second conflict within ten seconds.
        let config = AcdConfig::default();
        let mut random = Secret::new(&[1; 16]);
        let mut acd = Acd::probe(START, ADDRESS, &config, &mut random);
        run(&mut acd, &config, &mut random);
        assert_eq!(acd.handle(START, &claim, OURS), defend(true));
        assert_eq!(acd.handle(START + 10 * second, &claim, OURS), defend(true));
        assert_eq!(acd.handle(START + 19 * second, &claim, OURS), AcdVerdict::Lost);
        assert!(!acd.is_usable());
        // Static: never, but without a storm.
        let mut acd = Acd::announce(START, ADDRESS);
        assert_eq!(run(&mut acd, &config, &mut random).len(), 2);
        let announced =
            (0..100).filter(|n| acd.handle(START + second * *n / 2, &claim, OURS) == defend(true));
        assert_eq!(announced.count(), 5);
        assert!(acd.is_usable());
        let probe = packet(true, Ipv4Addr::UNSPECIFIED, OTHER);
        assert_eq!(
            acd.handle(START, &probe, OURS),
            AcdVerdict::Unconcerned,
            "answered as a request"
        );
    }
}
