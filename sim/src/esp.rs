//! ESP (RFC 4303) between the hosts: their associations, and an observer's view of its packets.
//!
//! The cipher of these worlds hides nothing, so the checkers see the segments inside. Its check
//! value is real: whatever a link damages, a host must notice. The observer shares no code with the
//! engine. It has a replay window of its own ([`Gate`]), which tells what a host must drop.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::ops::Range;

use inet::{
    Cidr, EspCipher, EspCipherError, EspHeader, EspMode, EspSelector, EspShape, SaConfig, SaId,
    SaLifetimes, SpAction, SpConfig, SpDirection, SpTemplate,
};

use crate::router::{ETHERNET, TooBig};
use crate::wire::add;

/// Bytes of the check value.
const ICV: usize = 8;
/// SPI and sequence number, bytes.
const HEADER: usize = 8;
/// Pad length and next header, bytes.
const TRAILER: usize = 2;
/// Bytes of an IPv4 header.
const IPV4: usize = 20;
/// The number of both associations.
const SPI: u32 = 0x1000;

/// How the packets of a world are protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EspPlan {
    /// In tunnels between the hosts themselves.
    pub tunnel: bool,
    /// Sequence numbers have 64 bits.
    pub extended: bool,
    /// Packets of the replay window.
    pub window: u32,
    /// The number of the last packet before the world began.
    pub before: u64,
}

/// Sums what is sent, and encrypts nothing.
#[derive(Debug)]
struct Sum;

/// FNV-1a of `parts`, one after the other.
fn sum(parts: &[&[u8]]) -> [u8; ICV] {
    let bytes = parts.iter().flat_map(|part| part.iter());
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.fold(0xcbf2_9ce4_8422_2325, step).to_be_bytes()
}

impl EspCipher for Sum {
    fn shape(&self) -> EspShape {
        EspShape { iv: 0, icv: ICV, block: 4 }
    }

    fn seal(
        &mut self,
        header: &EspHeader,
        _: &mut [u8],
        body: &mut [u8],
        icv: &mut [u8],
    ) -> Result<(), EspCipherError> {
        icv.copy_from_slice(&sum(&[&header.wire(), &header.sequence.to_be_bytes(), body]));
        Ok(())
    }

    fn open(
        &mut self,
        header: &EspHeader,
        _: &[u8],
        body: &mut [u8],
        icv: &[u8],
    ) -> Result<(), EspCipherError> {
        let right = sum(&[&header.wire(), &header.sequence.to_be_bytes(), body]);
        if right == icv { Ok(()) } else { Err(EspCipherError::BadCheckValue) }
    }
}

impl EspPlan {
    /// In transport mode, with the least window that never drops a packet of a link without
    /// faults.
    pub const PLAIN: Self = Self { tunnel: false, extended: false, window: 32, before: 0 };

    /// The association for packets from one host to the other.
    pub fn association(self, from: IpAddr, to: IpAddr) -> SaConfig {
        SaConfig {
            id: SaId { spi: SPI, destination: to },
            source: from,
            reqid: 1,
            mode: self.mode(),
            cipher: Box::new(Sum),
            replay_window: self.window,
            extended: self.extended,
            sent: self.before,
            received: self.before,
            lifetimes: SaLifetimes::default(),
            selector: None,
            padded_to: 0,
        }
    }

    /// The policy for them.
    pub fn policy(self, direction: SpDirection, from: IpAddr, to: IpAddr) -> SpConfig {
        let ends = self.tunnel.then_some((from, to));
        let template = SpTemplate { mode: self.mode(), reqid: 1, spi: None, ends, optional: false };
        let selector = EspSelector::between(Cidr::host(from), Cidr::host(to));
        SpConfig { direction, selector, priority: 0, action: SpAction::Protect(template) }
    }

    fn mode(self) -> EspMode {
        if self.tunnel { EspMode::Tunnel } else { EspMode::Transport }
    }

    /// Bytes between the header of ESP and the segment.
    fn inner(self) -> usize {
        if self.tunnel { IPV4 } else { 0 }
    }

    /// The segment in a frame that a host sends.
    pub fn find(self, frame: &[u8]) -> Option<(IpAddr, IpAddr, Range<usize>)> {
        let packet = EspPacket::read(frame)?;
        let [.., padding, _] = *frame.get(packet.body.clone())? else { return None };
        let start = packet.body.start + self.inner();
        let end = packet.body.end.checked_sub(TRAILER + usize::from(padding))?;
        (start <= end).then_some((packet.from, packet.to, start..end))
    }

    /// The router's report in a frame about such a segment. It counts packets before they are
    /// protected.
    pub fn read_too_big(self, frame: &[u8], report: TooBig) -> Option<TooBig> {
        // Ethernet, IPv4, ICMP, the quoted header.
        let quoted = frame.get(ETHERNET + IPV4 + 8 + IPV4..)?;
        let segment = quoted.get(HEADER + self.inner()..)?;
        let seq = u32::from_be_bytes(*segment.get(4..)?.first_chunk()?);
        let body = report.mtu.checked_sub(IPV4 + HEADER + ICV)? / 4 * 4;
        let mtu = body.checked_sub(TRAILER)? + IPV4 - self.inner();
        Some(TooBig { mtu, seq })
    }
}

/// A packet of ESP on the link.
struct EspPacket {
    from: IpAddr,
    to: IpAddr,
    low: u32,
    /// What would be encrypted.
    body: Range<usize>,
}

impl EspPacket {
    /// Reads an unfragmented IPv4 packet with an intact header.
    fn read(frame: &[u8]) -> Option<Self> {
        let packet = frame.get(ETHERNET..)?;
        let header = packet.get(..IPV4)?;
        let mut sum = 0;
        add(&mut sum, header);
        let is_whole = u16::from_be_bytes([header[6], header[7]]) & 0x3fff == 0;
        let is_ours = frame[12..14] == [8, 0] && header[0] == 0x45 && header[9] == 50;
        let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
        if !is_ours || !is_whole || sum % 0xffff != 0 || total > packet.len() {
            return None;
        }
        let start = ETHERNET + IPV4 + HEADER;
        let end = (ETHERNET + total).checked_sub(ICV).filter(|end| *end >= start + TRAILER)?;
        let at = |at: usize| <[u8; 4]>::try_from(&header[at..at + 4]).expect("four bytes");
        let low = u32::from_be_bytes(*frame.get(start - 4..)?.first_chunk()?);
        Some(Self { from: at(12).into(), to: at(16).into(), low, body: start..end })
    }
}

/// What a host lets through, by an observer's account.
#[derive(Debug)]
pub struct Gate {
    plan: EspPlan,
    top: u64,
    seen: BTreeSet<u64>,
}

impl Gate {
    /// Before the first packet.
    pub fn new(plan: EspPlan) -> Self {
        Self { plan, top: plan.before, seen: BTreeSet::new() }
    }

    /// The segment in a frame that reaches a host, if the host must take it: its check value is
    /// right, and its number is new.
    pub fn admit(&mut self, frame: &[u8]) -> Option<(IpAddr, IpAddr, Range<usize>)> {
        let packet = EspPacket::read(frame)?;
        let epoch = if self.plan.extended { self.top >> 32 } else { 0 };
        let epochs = if self.plan.extended { epoch.saturating_sub(1)..=epoch + 1 } else { 0..=0 };
        let numbers = epochs.map(|epoch| epoch << 32 | u64::from(packet.low));
        let number = numbers.min_by_key(|number| number.abs_diff(self.top))?;
        let header = frame.get(packet.body.start - HEADER..packet.body.start)?;
        let body = frame.get(packet.body.clone())?;
        let icv = frame.get(packet.body.end..)?.get(..ICV)?;
        let late = number + u64::from(self.plan.window) <= self.top;
        if late || icv != sum(&[header, &number.to_be_bytes(), body]) || !self.seen.insert(number) {
            return None;
        }
        self.top = self.top.max(number);
        self.plan.find(frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: EspPlan =
        EspPlan { tunnel: false, extended: true, window: 32, before: 0xffff_fffe };

    /// A frame of ESP with the number `number`, whose segment is `text`.
    fn frame(number: u64, text: &[u8]) -> Vec<u8> {
        let padding = (4 - (text.len() + TRAILER) % 4) % 4;
        let body = [text, &[1, 2, 3][..padding], &[padding as u8, 6]].concat();
        let wire = [SPI.to_be_bytes(), (number as u32).to_be_bytes()].concat();
        let icv = sum(&[&wire, &number.to_be_bytes(), &body]);
        let total = (IPV4 + HEADER + body.len() + ICV) as u16;
        let mut header = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 50, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        header[2..4].copy_from_slice(&total.to_be_bytes());
        let mut sum = 0;
        add(&mut sum, &header);
        let sum = !((sum % 0xffff) as u16);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        [&[0; 12], &[8, 0][..], &header, &wire, &body, &icv].concat()
    }

    fn admitted(gate: &mut Gate, frame: &[u8]) -> Option<Vec<u8>> {
        gate.admit(frame).map(|(_, _, range)| frame[range].to_vec())
    }

    #[test]
    fn a_packet_is_let_through_once() {
        let mut gate = Gate::new(PLAN);
        let first = frame(0xffff_ffff, b"first");
        assert_eq!(admitted(&mut gate, &first).as_deref(), Some(&b"first"[..]));
        assert_eq!(admitted(&mut gate, &first), None);
        // Beyond 32 bits, and back within the window.
        let second = frame(0x1_0000_0020, b"second");
        assert_eq!(admitted(&mut gate, &second).as_deref(), Some(&b"second"[..]));
        assert_eq!(admitted(&mut gate, &frame(0x1_0000_0000, b"late")), None);
        assert!(admitted(&mut gate, &frame(0x1_0000_0001, b"in time")).is_some());
    }

    #[test]
    fn a_damaged_packet_is_not_let_through() {
        let intact = frame(0xffff_ffff, b"text");
        for bit in (ETHERNET + IPV4) * 8..intact.len() * 8 {
            let mut damaged = intact.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            // The number of the association is not looked at: it is summed.
            assert_eq!(admitted(&mut Gate::new(PLAN), &damaged), None, "bit {bit}");
        }
    }
}
