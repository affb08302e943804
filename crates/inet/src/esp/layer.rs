//! The policies and associations of one stack.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::IpAddr;

use hashbrown::HashMap;
use smoltcp::wire::IpProtocol;

use super::association::{Association, EspMode, SaConfig, SaId, SaInfo, SecuredBy};
use super::cipher::{EspCipherError, EspShape};
use super::flow::{EspFlow, EspSelector};
use super::lifetime::SaAge;
use super::notice::{EspNotice, EspNoticeKind};
use super::packet::{self, Carrier, OpenRefusal, SealRefusal};
use super::policy::{Policies, SpAction, SpConfig, SpDirection, SpTemplate};
use crate::config::Config;
use crate::error::Error;
use crate::ip::{Packet, header_len};
use crate::secret::{KeyedHash, Secret};
use crate::table::{Handle, Table};
use crate::time::Instant;
use crate::timers::{Timer, Timers};
use crate::wheel::TimerId;

counters! { EspCounters:
    packets_in "xfrm.packets-in" "Packets of ESP opened."
    packets_out "xfrm.packets-out" "Packets of ESP sent."
    bytes_in "xfrm.bytes-in" "Bytes of ESP opened, their headers included."
    bytes_out "xfrm.bytes-out" "Bytes of ESP sent, their headers included."
    dummies_in "xfrm.dummies-in" "Packets of ESP that only hide traffic."
    in_error "xfrm.in-error" "Packets of ESP inside ESP, or with an outer ECN field that cannot be."
    in_buffer "xfrm.in-buffer-error" "Opened packets that a full memory had no room for."
    in_header "xfrm.in-header-error" "Packets of ESP that are too short or have a bad length."
    in_no_states "xfrm.in-no-states" "Packets of ESP of an unknown association."
    in_proto "xfrm.in-state-proto-error" "Packets of ESP with a wrong check value or padding."
    in_mode "xfrm.in-state-mode-error" "Packets of ESP whose payload does not fit the mode."
    in_sequence "xfrm.in-state-seq-error" "Packets of ESP that were received before, or too late."
    in_expired "xfrm.in-state-expired" "Packets of ESP of an association past its lifetime."
    in_mismatch "xfrm.in-state-mismatch" "Packets that their association must not protect."
    in_template "xfrm.in-tmpl-mismatch" "Packets that came without the protection of their policy."
    in_no_policy "xfrm.in-no-pols" "Packets out of tunnels that no policy allows."
    in_block "xfrm.in-pol-block" "Packets received that a policy drops."
    out_error "xfrm.out-error" "Packets that ESP cannot carry: fragments, or too long."
    out_no_states "xfrm.out-no-states" "Packets to be protected that have no association."
    out_proto "xfrm.out-state-proto-error" "Packets that a cipher did not encrypt."
    out_sequence "xfrm.out-state-seq-error" "Packets of associations without sequence numbers."
    out_expired "xfrm.out-state-expired" "Packets of associations past their lifetime."
    out_block "xfrm.out-pol-block" "Packets to be sent that a policy drops."
    copied "copy.esp-bytes" "Bytes copied to protect packets, and to open them."
}

/// Most notices that wait for the owner; further ones are dropped.
const MOST_NOTICES: usize = 64;
/// How far behind the last number sent a packet may be that an ICMP error quotes.
const REPORTED_WINDOW: u64 = 1 << 16;

/// What happens to a packet that is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Treatment {
    Bypass,
    Discard,
    /// This association protects it.
    Protect(SecuredBy),
}

/// Whether a received packet goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    Pass,
    Drop,
}

/// A sealed packet.
#[derive(Debug)]
pub(crate) struct SealedPacket {
    /// Its frame, whose Ethernet header is to be written.
    pub(crate) frame: Vec<u8>,
    pub(crate) destination: IpAddr,
    /// It may go elsewhere than the packet inside.
    pub(crate) tunnelled: bool,
}

/// An opened packet.
#[derive(Debug)]
pub(crate) struct OpenedPacket {
    pub(crate) bytes: Box<[u8]>,
    pub(crate) is_v4: bool,
    pub(crate) by: SecuredBy,
}

/// The policies and associations of one stack.
#[derive(Debug)]
pub(crate) struct EspLayer {
    /// There are policies or associations.
    active: bool,
    /// The association that has opened the packet that is being handled.
    opening: Option<Handle>,
    policies: Policies,
    associations: Table<Association>,
    by_id: HashMap<SaId, Handle, KeyedHash>,
    serial: u64,
    timer: Option<TimerId>,
    notices: VecDeque<EspNotice>,
    counters: EspCounters,
}

impl EspLayer {
    pub(crate) fn new(config: &Config, secret: &Secret) -> Self {
        Self {
            active: false,
            opening: None,
            policies: Policies::new(config.policies),
            associations: Table::new(config.associations),
            by_id: HashMap::with_hasher(secret.tables()),
            serial: 0,
            timer: None,
            notices: VecDeque::new(),
            counters: EspCounters::default(),
        }
    }

    /// Whether there are policies or associations. Without any, all packets pass.
    #[inline]
    pub(crate) fn is_active(&self) -> bool {
        self.active
    }

    /// The association that has opened the packet that is being handled, if one has.
    pub(crate) fn opening(&self) -> Option<Handle> {
        self.opening
    }

    /// From now on a packet is handled that this association has opened.
    pub(crate) fn begin_opened(&mut self, SecuredBy(handle): SecuredBy) {
        self.opening = Some(handle);
    }

    /// That packet has been handled.
    pub(crate) fn end_opened(&mut self) {
        self.opening = None;
    }

    /// Name and value of each counter.
    pub(crate) fn counters(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        self.counters.iter()
    }

    /// See [`Stack::add_association`](crate::Stack::add_association).
    pub(crate) fn add_association(
        &mut self,
        now: Instant,
        config: SaConfig,
        timers: &mut Timers,
    ) -> Result<(), Error> {
        let id = config.id;
        if !config.is_possible() {
            return Err(Error::Invalid);
        }
        if self.by_id.contains_key(&id) {
            return Err(Error::AddrInUse);
        }
        self.serial += 1;
        let association = Association::new(now, config, self.serial);
        let handle = self.associations.insert(association).ok_or(Error::NoBuffers)?;
        self.by_id.insert(id, handle);
        // It takes over from older ones at once.
        self.policies.forget_associations();
        self.changed(timers);
        Ok(())
    }

    /// See [`Stack::remove_association`](crate::Stack::remove_association).
    pub(crate) fn remove_association(&mut self, id: &SaId, timers: &mut Timers) -> bool {
        let Some(handle) = self.by_id.remove(id) else { return false };
        let removed = self.associations.remove(handle).is_some();
        self.changed(timers);
        removed
    }

    /// See [`Stack::add_policy`](crate::Stack::add_policy).
    pub(crate) fn add_policy(&mut self, config: SpConfig) -> Result<(), Error> {
        self.policies.add(config)?;
        self.active = true;
        Ok(())
    }

    /// See [`Stack::remove_policy`](crate::Stack::remove_policy).
    pub(crate) fn remove_policy(&mut self, direction: SpDirection, selector: &EspSelector) -> bool {
        let removed = self.policies.remove(direction, selector);
        self.active = !(self.policies.is_empty() && self.by_id.is_empty());
        removed
    }

    /// See [`Stack::clear_policies`](crate::Stack::clear_policies).
    pub(crate) fn clear_policies(&mut self) {
        self.policies.clear();
        self.active = !self.by_id.is_empty();
    }

    /// All associations, in no order.
    pub(crate) fn associations(&self) -> impl Iterator<Item = SaInfo> {
        self.associations.iter().map(|(_, association)| association.info())
    }

    /// All policies, in the order of preference.
    pub(crate) fn policies(&self) -> impl Iterator<Item = &SpConfig> {
        self.policies.iter()
    }

    /// The next notice.
    pub(crate) fn poll_notice(&mut self) -> Option<EspNotice> {
        self.notices.pop_front()
    }

    fn changed(&mut self, timers: &mut Timers) {
        self.active = !(self.policies.is_empty() && self.by_id.is_empty());
        self.arm(timers);
    }

    /// Sets the timer of the next lifetime that ends.
    fn arm(&mut self, timers: &mut Timers) {
        let all = self.associations.iter();
        let at = all.filter_map(|(_, one)| one.lifetimes.next_deadline(one.age, &one.usage)).min();
        match (self.timer, at) {
            (Some(timer), Some(at)) if timers.is_at(timer, at) => return,
            (Some(timer), _) => timers.cancel(timer),
            _ => {}
        }
        self.timer = at.map(|at| timers.arm(at, Timer::Lifetimes));
    }

    /// Lifetimes of associations have ended.
    pub(crate) fn handle_timer(&mut self, now: Instant, timers: &mut Timers) {
        self.timer = None;
        let all: Vec<Handle> = self.associations.iter().map(|(handle, _)| handle).collect();
        for handle in all {
            self.age(now, handle);
        }
        self.arm(timers);
    }

    /// Looks how old an association is, and tells it if that is news.
    fn age(&mut self, now: Instant, handle: Handle) -> SaAge {
        let Some(sa) = self.associations.get_mut(handle) else { return SaAge::Expired };
        let age = sa.lifetimes.age(now, &sa.usage).max(sa.age);
        if age > sa.age {
            sa.age = age;
            let dying = age == SaAge::Dying;
            let kind = if dying { EspNoticeKind::Dying } else { EspNoticeKind::Expired };
            let id = sa.id;
            self.notify(id, kind);
        }
        age
    }

    fn notify(&mut self, id: SaId, kind: EspNoticeKind) {
        if self.notices.len() < MOST_NOTICES {
            self.notices.push_back(EspNotice { id, kind });
        }
    }

    /// What happens to a packet that is sent.
    pub(crate) fn treatment(&mut self, now: Instant, flow: &EspFlow) -> Treatment {
        let Some(policy) = self.policies.find(SpDirection::Out, flow) else {
            return Treatment::Bypass;
        };
        let template = match policy.config.action {
            SpAction::Bypass => return Treatment::Bypass,
            SpAction::Discard => {
                self.counters.out_block += 1;
                return Treatment::Discard;
            }
            SpAction::Protect(template) => template,
        };
        let last = policy.last;
        let serves = |one: &Association| one.age == SaAge::Valid && template.serves(one, flow);
        // The association that served the last packet mostly serves this one.
        let last = last.filter(|last| self.associations.get(*last).is_some_and(serves));
        match last.or_else(|| self.choose(&template, flow)) {
            Some(handle) if self.age(now, handle) < SaAge::Expired => {
                if last.is_none()
                    && let Some(policy) = self.policies.find(SpDirection::Out, flow)
                {
                    policy.last = Some(handle);
                }
                Treatment::Protect(SecuredBy(handle))
            }
            Some(_) => {
                self.counters.out_expired += 1;
                Treatment::Discard
            }
            None if template.optional => Treatment::Bypass,
            None => {
                self.counters.out_no_states += 1;
                Treatment::Discard
            }
        }
    }

    /// The association that a template asks for: the youngest in age, and the newest of these.
    fn choose(&self, template: &SpTemplate, flow: &EspFlow) -> Option<Handle> {
        let all = self.associations.iter().filter(|(_, one)| template.serves(one, flow));
        let rank = |one: &Association| (one.age, u64::MAX - one.serial);
        all.min_by_key(|(_, one)| rank(one)).map(|(handle, _)| handle)
    }

    /// Makes a packet of ESP of `packet`.
    pub(crate) fn seal(
        &mut self,
        now: Instant,
        SecuredBy(handle): SecuredBy,
        packet: &[u8],
        (ttl, id, mtu): (u8, u32, usize),
        timers: &mut Timers,
    ) -> Option<SealedPacket> {
        let sa = self.associations.get_mut(handle)?;
        let first = sa.usage.first_used.is_none();
        let carrier = Carrier { ttl, id, mtu };
        let sealed = packet::seal(sa, packet, &carrier);
        let (name, destination) = (sa.id, sa.id.destination);
        let tunnelled = sa.mode == EspMode::Tunnel;
        let frame = match sealed {
            Ok(frame) => frame,
            Err(refusal) => {
                self.count_refusal(name, handle, refusal);
                return None;
            }
        };
        sa.usage.count(now, packet.len());
        self.counters.packets_out += 1;
        self.counters.bytes_out += frame.len() as u64;
        self.counters.copied += packet.len() as u64;
        if first {
            self.arm(timers);
        }
        Some(SealedPacket { frame, destination, tunnelled })
    }

    #[cold]
    fn count_refusal(&mut self, name: SaId, handle: Handle, refusal: SealRefusal) {
        let kind = match refusal {
            SealRefusal::Unfit | SealRefusal::TooLong => {
                self.counters.out_error += 1;
                return;
            }
            SealRefusal::NoSequence => {
                self.counters.out_sequence += 1;
                EspNoticeKind::SequenceExhausted
            }
            SealRefusal::Cipher(EspCipherError::Exhausted) => {
                self.counters.out_proto += 1;
                EspNoticeKind::KeyExhausted
            }
            SealRefusal::Cipher(_) => {
                self.counters.out_proto += 1;
                return;
            }
        };
        // It is used up, so another one may take its place.
        let Some(sa) = self.associations.get_mut(handle) else { return };
        if sa.age < SaAge::Expired {
            sa.age = SaAge::Expired;
            self.notify(name, kind);
        }
    }

    /// The association of a received packet of ESP and the packet's number, if the packet may be
    /// new. `esp` is the start of its payload.
    pub(crate) fn find_association(
        &mut self,
        now: Instant,
        destination: IpAddr,
        esp: &[u8],
    ) -> Option<(SecuredBy, u64)> {
        let Some((spi, low)) = packet::numbers(esp) else {
            self.counters.in_header += 1;
            return None;
        };
        let Some(&handle) = self.by_id.get(&SaId { spi, destination }) else {
            self.counters.in_no_states += 1;
            return None;
        };
        if self.age(now, handle) == SaAge::Expired {
            self.counters.in_expired += 1;
            return None;
        }
        let sa = self.associations.get_mut(handle)?;
        let Some(number) = sa.window.check(low) else {
            self.counters.in_sequence += 1;
            sa.replays += 1;
            return None;
        };
        Some((SecuredBy(handle), number))
    }

    /// Opens a packet of ESP. `bytes` is the packet from its IP header on, `outer` the packet as it
    /// was parsed.
    pub(crate) fn open(
        &mut self,
        now: Instant,
        (SecuredBy(handle), number): (SecuredBy, u64),
        outer: &Packet,
        mut bytes: Vec<u8>,
        timers: &mut Timers,
    ) -> Option<OpenedPacket> {
        let sa = self.associations.get_mut(handle)?;
        let (len, header) = (bytes.len(), outer.payload.start - outer.extent.start);
        let next = match packet::open(sa, &mut bytes, header, number) {
            Ok(next) => next,
            Err(OpenRefusal::Length) => {
                self.counters.in_header += 1;
                return None;
            }
            Err(refusal) => {
                self.counters.in_proto += 1;
                sa.failures += u64::from(refusal != OpenRefusal::Padding);
                return None;
            }
        };
        // RFC 4303 3.4.3: only a packet whose integrity was verified moves the window.
        sa.window.mark(number);
        let first = sa.usage.first_used.is_none();
        sa.usage.count(now, len - header);
        let mode = sa.mode;
        self.counters.packets_in += 1;
        self.counters.bytes_in += len as u64;
        self.counters.copied += len as u64;
        if first {
            self.arm(timers);
        }
        if next == packet::NOTHING {
            self.counters.dummies_in += 1;
            return None;
        }
        self.unpack(mode, (next, outer), header, bytes).map(|(bytes, is_v4)| OpenedPacket {
            bytes: bytes.into_boxed_slice(),
            is_v4,
            by: SecuredBy(handle),
        })
    }

    /// The packet that goes on: the outer one with its payload, or the one in the tunnel.
    fn unpack(
        &mut self,
        mode: EspMode,
        (next, outer): (u8, &Packet),
        header: usize,
        mut bytes: Vec<u8>,
    ) -> Option<(Vec<u8>, bool)> {
        if mode == EspMode::Transport {
            packet::restore_header(&mut bytes, next, outer.protocol_at);
            return Some((bytes, outer.source.is_ipv4()));
        }
        bytes.drain(..header);
        if !packet::is_tunnelled(next, &bytes) {
            self.counters.in_mode += 1;
            return None;
        }
        if !packet::leave_tunnel(&mut bytes, outer.tos) {
            self.counters.in_error += 1;
            return None;
        }
        Some((bytes, next == packet::IPV4_IN_IP))
    }

    /// Whether a received packet, which an association may have opened, goes on (RFC 4301 5.2).
    pub(crate) fn admit(&mut self, flow: &EspFlow, by: Option<SecuredBy>) -> Admission {
        let sa = by.and_then(|SecuredBy(handle)| self.associations.get(handle));
        if sa.is_some_and(|sa| sa.selector.is_some_and(|selector| !selector.matches(flow))) {
            self.counters.in_mismatch += 1;
            return Admission::Drop;
        }
        let policy = self.policies.find(SpDirection::In, flow).map(|policy| policy.config.action);
        let is_tunnel = sa.is_some_and(|sa| sa.mode == EspMode::Tunnel);
        match policy {
            // As Linux: what came in a tunnel needs a policy.
            None if is_tunnel => self.counters.in_no_policy += 1,
            None => return Admission::Pass,
            Some(SpAction::Discard) => self.counters.in_block += 1,
            Some(SpAction::Bypass) if is_tunnel => self.counters.in_template += 1,
            Some(SpAction::Bypass) => return Admission::Pass,
            Some(SpAction::Protect(template)) => {
                let right = match sa {
                    Some(sa) => template.is_fit_by(sa, flow),
                    None => template.optional,
                };
                if right {
                    return Admission::Pass;
                }
                self.counters.in_template += 1;
            }
        }
        Admission::Drop
    }

    /// A packet of ESP came inside another one.
    pub(crate) fn count_nested(&mut self) {
        self.counters.in_error += 1;
    }

    /// There is no room for an opened packet.
    pub(crate) fn count_no_room(&mut self) {
        self.counters.in_buffer += 1;
    }

    /// A packet that must not leave unprotected was dropped.
    pub(crate) fn count_unfit(&mut self) {
        self.counters.out_error += 1;
    }

    /// Whether policies protect packets to a host.
    #[inline]
    pub(crate) fn covers(&self, host: IpAddr) -> bool {
        self.active && self.covers_by_policy(host)
    }

    #[cold]
    #[inline(never)]
    fn covers_by_policy(&self, host: IpAddr) -> bool {
        self.policies.protecting(host).next().is_some()
    }

    /// The other end of the tunnel that protects packets from `source` to `host`, if a policy says
    /// so for all of them.
    pub(crate) fn tunnel_end(&self, source: IpAddr, host: IpAddr) -> Option<IpAddr> {
        let mut policies = self.policies.protecting(host);
        let policy = policies.find(|policy| policy.selector.source.contains(source))?;
        match policy.action {
            SpAction::Protect(SpTemplate { mode: EspMode::Tunnel, ends, .. }) => {
                ends.map(|(_, destination)| destination).filter(|end| *end != host)
            }
            _ => None,
        }
    }

    /// The other ends of all tunnels that may protect packets to `host`.
    pub(crate) fn tunnel_ends(&self, host: IpAddr) -> impl Iterator<Item = IpAddr> {
        self.policies.protecting(host).filter_map(|policy| match policy.action {
            SpAction::Protect(SpTemplate { ends, .. }) => ends.map(|(_, destination)| destination),
            _ => None,
        })
    }

    /// Longest packet to `host` that becomes a packet of ESP of at most `mtu` bytes, whichever
    /// policy protects it.
    #[cold]
    pub(crate) fn inner_mtu(&self, host: IpAddr, mtu: u16) -> u16 {
        let inner = header_len(host);
        let rooms = self.policies.protecting(host).map(|policy| {
            let SpAction::Protect(template) = policy.action else { return usize::from(mtu) };
            let outer = template.ends.map_or(inner, |(_, destination)| header_len(destination));
            let shape = self.shape_for(&template, host);
            packet::inner_mtu(shape, template.mode, mtu.into(), inner, outer)
        });
        let room = rooms.min().unwrap_or(mtu.into());
        u16::try_from(room).unwrap_or(mtu)
    }

    /// The lengths of the cipher that a template's packets to `host` get; the longest if that
    /// cannot be told.
    fn shape_for(&self, template: &SpTemplate, host: IpAddr) -> EspShape {
        let destination = template.ends.map_or(host, |(_, destination)| destination);
        let all = self.associations.iter().map(|(_, one)| one);
        let shapes = all.filter(|one| {
            one.id.destination == destination && one.mode == template.mode && template.names(one)
        });
        let joined = |a: EspShape, b: EspShape| EspShape {
            iv: a.iv.max(b.iv),
            icv: a.icv.max(b.icv),
            block: a.block.max(b.block),
        };
        shapes.map(|one| one.cipher.shape()).reduce(joined).unwrap_or(EspShape::MOST)
    }

    /// Whether an ICMP error that quotes a packet of ESP may be believed: one of our associations
    /// has sent it not long ago (RFC 4301 8.2.1). `low` is its sequence number.
    pub(crate) fn has_sent(&self, source: IpAddr, id: &SaId, low: u32) -> bool {
        let Some(sa) = self.by_id.get(id).and_then(|handle| self.associations.get(*handle)) else {
            return false;
        };
        let behind = (sa.sent as u32).wrapping_sub(low);
        sa.source == source && u64::from(behind) < REPORTED_WINDOW.min(sa.sent)
    }
}

/// The protocol of packets of ESP.
pub(crate) const PROTOCOL: IpProtocol = IpProtocol::IpSecEsp;
