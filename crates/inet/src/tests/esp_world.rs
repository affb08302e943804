//! What the tests of ESP share: a cipher that hides nothing, associations and policies.

use core::hash::Hasher;
use std::boxed::Box;

use siphasher::sip::SipHasher13;

use super::*;

/// Mixes bytes with a key, and sums them with it. It has the shape of a cipher, and no security.
#[derive(Debug, Clone)]
pub(crate) struct Toy {
    pub(crate) key: u64,
    pub(crate) shape: EspShape,
    /// Packets that it seals until it is exhausted.
    pub(crate) left: u64,
}

pub(crate) const SHAPE: EspShape = EspShape { iv: 8, icv: 16, block: 4 };

impl Toy {
    pub(crate) fn new(key: u64) -> Self {
        Self { key, shape: SHAPE, left: u64::MAX }
    }

    fn mix(&self, header: &EspHeader, body: &mut [u8]) {
        for (index, byte) in (0_u64..).zip(body) {
            let mut hash = SipHasher13::new_with_keys(self.key, header.sequence);
            hash.write_u64(index / 8);
            *byte ^= hash.finish().to_be_bytes()[(index % 8) as usize];
        }
    }

    fn sum(&self, header: &EspHeader, iv: &[u8], body: &[u8]) -> Vec<u8> {
        let (additional, len) = header.additional();
        let mut sum = Vec::new();
        for part in 0..4 {
            let mut hash = SipHasher13::new_with_keys(self.key, part);
            [&additional[..len], iv, body].iter().for_each(|bytes| hash.write(bytes));
            sum.extend_from_slice(&hash.finish().to_be_bytes());
        }
        sum.truncate(self.shape.icv);
        sum
    }
}

impl EspCipher for Toy {
    fn shape(&self) -> EspShape {
        self.shape
    }

    fn seal(
        &mut self,
        header: &EspHeader,
        iv: &mut [u8],
        body: &mut [u8],
        icv: &mut [u8],
    ) -> Result<(), EspCipherError> {
        self.left = self.left.checked_sub(1).ok_or(EspCipherError::Exhausted)?;
        iv.fill(0x5a);
        self.mix(header, body);
        icv.copy_from_slice(&self.sum(header, iv, body));
        Ok(())
    }

    fn open(
        &mut self,
        header: &EspHeader,
        iv: &[u8],
        body: &mut [u8],
        icv: &[u8],
    ) -> Result<(), EspCipherError> {
        if self.sum(header, iv, body) != icv {
            return Err(EspCipherError::BadCheckValue);
        }
        self.mix(header, body);
        Ok(())
    }
}

pub(crate) const SPI: u32 = 0x1000;

/// An association from `source` to `destination`.
pub(crate) fn association(
    mode: EspMode,
    source: impl Into<IpAddr>,
    destination: impl Into<IpAddr>,
) -> SaConfig {
    SaConfig {
        id: SaId { spi: SPI, destination: destination.into() },
        source: source.into(),
        reqid: 7,
        mode,
        cipher: Box::new(Toy::new(1)),
        replay_window: 64,
        extended: false,
        sent: 0,
        received: 0,
        lifetimes: SaLifetimes::default(),
        selector: None,
        padded_to: 0,
    }
}

pub(crate) fn template(mode: EspMode, ends: Option<(IpAddr, IpAddr)>) -> SpTemplate {
    SpTemplate { mode, reqid: 7, spi: None, ends, optional: false }
}

/// A policy for everything from one host to the other.
pub(crate) fn policy(
    direction: SpDirection,
    (source, destination): (impl Into<IpAddr>, impl Into<IpAddr>),
    action: SpAction,
) -> SpConfig {
    let selector = EspSelector::between(Cidr::host(source), Cidr::host(destination));
    SpConfig { direction, selector, priority: 0, action }
}

impl Host {
    pub(crate) fn add_association(&mut self, config: SaConfig) {
        self.stack.add_association(self.now, config).unwrap();
    }

    pub(crate) fn add_policy(&mut self, config: SpConfig) {
        self.stack.add_policy(config).unwrap();
    }
}

impl Pair {
    /// Both protect everything between them, with associations that `change` changes.
    pub(crate) fn protected(mode: EspMode, change: impl Fn(&mut SaConfig)) -> Self {
        let mut pair = Self::new();
        pair.protect(mode, (IP_A.into(), IP_B.into()), (IP_A.into(), IP_B.into()), change);
        pair
    }

    /// Both protect everything between the addresses `inner` by packets between `outer`.
    pub(crate) fn protect(
        &mut self,
        mode: EspMode,
        inner: (IpAddr, IpAddr),
        outer: (IpAddr, IpAddr),
        change: impl Fn(&mut SaConfig),
    ) {
        let back = |(a, b)| (b, a);
        for host in [&mut self.a, &mut self.b] {
            for (source, destination) in [outer, back(outer)] {
                let mut config = association(mode, source, destination);
                change(&mut config);
                host.add_association(config);
            }
        }
        let ends = |ends| (mode == EspMode::Tunnel).then_some(ends);
        let [out, into] = [SpDirection::Out, SpDirection::In];
        for (host, forth, inner, outer) in
            [(&mut self.a, out, inner, outer), (&mut self.b, out, back(inner), back(outer))]
        {
            let there = SpAction::Protect(template(mode, ends(outer)));
            let here = SpAction::Protect(template(mode, ends(back(outer))));
            host.add_policy(policy(forth, inner, there));
            host.add_policy(policy(into, back(inner), here));
        }
    }
}
