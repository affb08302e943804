//! DHCP messages (RFC 2131 2, RFC 2132): a validating reader of servers' messages, a writer of the
//! client's.
//!
//! Any node can answer first, so a [`DhcpReply`] contains only validated values. Addresses are
//! possible for a host, masks are prefixes, times are in order and routers are on the link. Lists
//! are bounded, and the domain is a name. A wrong optional value is left out. A wrong required
//! value makes the whole message invalid.

use alloc::string::String;
use alloc::vec::Vec;
use core::net::Ipv4Addr;
use core::time::Duration;

use smoltcp::wire::{DhcpFlags, DhcpMessageType, DhcpOpCode, DhcpOption, DhcpPacket};

use crate::link::ethernet::Mac;

/// Ports (RFC 2131 4.1).
pub(crate) const CLIENT_PORT: u16 = 68;
pub(crate) const SERVER_PORT: u16 = 67;
/// Shortest message that every relay passes on: BOOTP's.
const SHORTEST: usize = 300;
/// Room for all that is ever written.
const ROOM: usize = 400;
const MAGIC: u32 = 0x6382_5363;
const ETHERNET: u16 = 1;
/// Most routers, name servers and classless routes that are accepted.
const MOST_ROUTERS: usize = 4;
const MOST_SERVERS: usize = 8;
const MOST_ROUTES: usize = 32;
/// Leases that end sooner are not worth having: asking again would be all that the client does.
const SHORTEST_LEASE: Duration = Duration::from_secs(2);
/// Smallest accepted MTU, bytes: every host can receive packets of this length (RFC 1122 3.3.2).
const SMALLEST_MTU: u16 = 576;

mod code {
    pub(super) const SUBNET_MASK: u8 = 1;
    pub(super) const ROUTER: u8 = 3;
    pub(super) const DNS: u8 = 6;
    pub(super) const DOMAIN: u8 = 15;
    pub(super) const MTU: u8 = 26;
    pub(super) const REQUESTED: u8 = 50;
    pub(super) const LEASE: u8 = 51;
    pub(super) const OVERLOAD: u8 = 52;
    pub(super) const MESSAGE_TYPE: u8 = 53;
    pub(super) const SERVER: u8 = 54;
    pub(super) const PARAMETERS: u8 = 55;
    pub(super) const MOST_BYTES: u8 = 57;
    pub(super) const T1: u8 = 58;
    pub(super) const T2: u8 = 59;
    pub(super) const CLIENT: u8 = 61;
    pub(super) const ROUTES: u8 = 121;
}

/// The requested parameters. RFC 3442 wants classless routes before routers.
const PARAMETERS: [u8; 9] = [
    code::SUBNET_MASK,
    code::ROUTES,
    code::ROUTER,
    code::DNS,
    code::DOMAIN,
    code::MTU,
    code::LEASE,
    code::T1,
    code::T2,
];

/// A route that a DHCP server gave (RFC 3442).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DhcpRoute {
    /// The network; bits after the prefix are zero.
    pub network: Ipv4Addr,
    /// Length of its prefix, bits (0..=32).
    pub prefix: u8,
    /// The router on the link; `None` if the network itself is on the link.
    pub router: Option<Ipv4Addr>,
}

/// A lease of a DHCP server, validated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DhcpLease {
    /// The address.
    pub address: Ipv4Addr,
    /// Length of its network's prefix, bits (1..=32).
    pub prefix: u8,
    /// Default routers, the preferred one first; none if there are classless routes (RFC 3442).
    pub routers: Vec<Ipv4Addr>,
    /// Classless routes.
    pub routes: Vec<DhcpRoute>,
    /// Name servers, the preferred one first.
    pub dns: Vec<Ipv4Addr>,
    /// The link's MTU, bytes (576..).
    pub mtu: Option<u16>,
    /// The domain for looking up names.
    pub domain: Option<String>,
    /// The server.
    pub server: Ipv4Addr,
    /// Lifetime of the address; `None` for infinity.
    pub lease: Option<Duration>,
    /// When the client starts to renew it (T1) and to ask any server (T2); before `lease`.
    pub renew: Duration,
    /// See `renew`.
    pub rebind: Duration,
}

/// A server's message to this client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DhcpReply {
    Offer(DhcpLease),
    Ack(DhcpLease),
    Nak {
        server: Ipv4Addr,
    },
    /// An offer or ACK of a lease that is too short.
    TooShort(Duration),
}

/// Reads a message of a server to the client with this hardware address and transaction. `known`
/// is the lease that it has, or was offered: what the message leaves out stays as it was.
pub(crate) fn parse(
    bytes: &[u8],
    mac: Mac,
    xid: u32,
    known: Option<&DhcpLease>,
) -> Option<DhcpReply> {
    let packet = DhcpPacket::new_checked(bytes).ok()?;
    let ours = packet.opcode() == DhcpOpCode::Reply
        && u16::from(packet.hardware_type()) == ETHERNET
        && packet.hardware_len() == 6
        && packet.client_hardware_address() == mac
        && packet.transaction_id() == xid
        && packet.magic_number() == MAGIC;
    if !ours {
        return None;
    }
    let options = DhcpOptions::collect(bytes)?;
    let server = options.address(code::SERVER).filter(|server| is_host(*server))?;
    let kind = DhcpMessageType::from(*options.get(code::MESSAGE_TYPE)?.first()?);
    let known = known.filter(|known| known.address == packet.your_ip());
    let offers = matches!(kind, DhcpMessageType::Offer | DhcpMessageType::Ack);
    let lease = if offers { Some(lease(packet.your_ip(), server, &options, known)?) } else { None };
    if let Some(short) = lease.as_ref().and_then(|lease| lease.lease)
        && short < SHORTEST_LEASE
    {
        return Some(DhcpReply::TooShort(short));
    }
    match kind {
        DhcpMessageType::Offer => lease.map(DhcpReply::Offer),
        DhcpMessageType::Ack => lease.map(DhcpReply::Ack),
        DhcpMessageType::Nak => Some(DhcpReply::Nak { server }),
        _ => None,
    }
}

fn lease(
    address: Ipv4Addr,
    server: Ipv4Addr,
    options: &DhcpOptions,
    known: Option<&DhcpLease>,
) -> Option<DhcpLease> {
    let prefix = match (options.address(code::SUBNET_MASK), known) {
        (Some(mask), _) => prefix_of(mask)?,
        (None, Some(known)) => known.prefix,
        (None, None) => class_prefix(address),
    };
    if !is_host(address) || is_reserved(address, prefix) {
        return None;
    }
    let seconds = options.number(code::LEASE)?;
    let lease = (seconds != u32::MAX).then(|| Duration::from_secs(seconds.into()));
    let (renew, rebind) = times(lease, options);
    let on_link = |router: Ipv4Addr| {
        is_host(router) && router != address && network(router, prefix) == network(address, prefix)
    };
    let routes = options.get(code::ROUTES).and_then(|bytes| classless(bytes, on_link));
    let routers = match routes {
        // RFC 3442: a client that understands classless routes ignores the router option.
        Some(_) => Vec::new(),
        None => options.addresses(code::ROUTER, MOST_ROUTERS, on_link),
    };
    let mtu =
        options.get(code::MTU).and_then(|bytes| Some(u16::from_be_bytes(*bytes.first_chunk()?)));
    let mut lease = DhcpLease {
        address,
        prefix,
        routers,
        routes: routes.unwrap_or_default(),
        dns: options.addresses(code::DNS, MOST_SERVERS, is_host),
        mtu: mtu.filter(|mtu| *mtu >= SMALLEST_MTU),
        domain: options.get(code::DOMAIN).and_then(domain),
        server,
        lease,
        renew,
        rebind,
    };
    if let Some(known) = known {
        keep_parameters(&mut lease, options, known);
    }
    Some(lease)
}

/// Some servers send an ACK of a renewal with nothing but the times: the rest is as it was.
fn keep_parameters(lease: &mut DhcpLease, options: &DhcpOptions, known: &DhcpLease) {
    let lacks = |code| options.get(code).is_none();
    if lacks(code::ROUTER) && lacks(code::ROUTES) {
        lease.routers.clone_from(&known.routers);
        lease.routes.clone_from(&known.routes);
    }
    if lacks(code::DNS) {
        lease.dns.clone_from(&known.dns);
    }
    if lacks(code::DOMAIN) {
        lease.domain.clone_from(&known.domain);
    }
    if lacks(code::MTU) {
        lease.mtu = known.mtu;
    }
}

/// T1 and T2, if they are in order, else RFC 2131 4.4.5's 1/2 and 7/8.
fn times(lease: Option<Duration>, options: &DhcpOptions) -> (Duration, Duration) {
    let Some(lease) = lease else { return (Duration::MAX, Duration::MAX) };
    let asked = |code| Some(Duration::from_secs(options.number(code)?.into()));
    let (renew, rebind) = (lease / 2, lease * 7 / 8);
    match (asked(code::T1).unwrap_or(renew), asked(code::T2).unwrap_or(rebind)) {
        (t1, t2) if !t1.is_zero() && t1 < t2 && t2 < lease => (t1, t2),
        _ => (renew, rebind),
    }
}

/// RFC 3442: prefix length, as many bytes of the network as it covers, router; all or nothing.
fn classless(mut bytes: &[u8], on_link: impl Fn(Ipv4Addr) -> bool) -> Option<Vec<DhcpRoute>> {
    let mut routes = Vec::new();
    while let [prefix, rest @ ..] = bytes {
        let (significant, rest) = rest.split_at_checked(usize::from(prefix.div_ceil(8)))?;
        let mut octets = [0; 4];
        octets.get_mut(..significant.len())?.copy_from_slice(significant);
        let (router, rest) = rest.split_first_chunk::<4>()?;
        bytes = rest;
        let router = Some(Ipv4Addr::from(*router)).filter(|router| !router.is_unspecified());
        let network = network(octets.into(), *prefix);
        let usable = router.is_none_or(&on_link) && !network.is_multicast();
        if usable && !network.is_loopback() && routes.len() < MOST_ROUTES {
            routes.push(DhcpRoute { network, prefix: *prefix, router });
        }
    }
    Some(routes)
}

/// A domain name, if it is one: letters, digits, hyphens and underscores in labels.
fn domain(bytes: &[u8]) -> Option<String> {
    let text = core::str::from_utf8(bytes).ok()?.trim_end_matches('\0').trim_end_matches('.');
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    (text.len() <= 253 && text.split('.').all(is_label)).then(|| text.into())
}

/// Whether a single host on a real network can have this address.
fn is_host(address: Ipv4Addr) -> bool {
    let first = address.octets()[0];
    first != 0 && first != 127 && first < 224
}

/// Whether it is the network's own or its broadcast address.
fn is_reserved(address: Ipv4Addr, prefix: u8) -> bool {
    let host = address.to_bits() & !mask(prefix);
    prefix < 31 && (host == 0 || host == !mask(prefix))
}

fn mask(prefix: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(prefix.min(32))).unwrap_or(0)
}

fn network(address: Ipv4Addr, prefix: u8) -> Ipv4Addr {
    Ipv4Addr::from_bits(address.to_bits() & mask(prefix))
}

fn prefix_of(address: Ipv4Addr) -> Option<u8> {
    let bits = address.to_bits();
    let prefix = u8::try_from(bits.leading_ones()).ok()?;
    (prefix > 0 && mask(prefix) == bits).then_some(prefix)
}

/// The prefix length of an address without a mask (RFC 791 3.2).
fn class_prefix(address: Ipv4Addr) -> u8 {
    match address.octets()[0] {
        0..128 => 8,
        128..192 => 16,
        _ => 24,
    }
}

/// The options of a message. Options in several parts are joined (RFC 3396). If the message says
/// so, they include those in the fields for names (RFC 2132 9.3).
struct DhcpOptions(Vec<(u8, Vec<u8>)>);

impl DhcpOptions {
    fn collect(bytes: &[u8]) -> Option<Self> {
        const NAME: core::ops::Range<usize> = 44..108;
        const FILE: core::ops::Range<usize> = 108..236;
        let mut options = Self(Vec::new());
        options.add(bytes.get(240..)?);
        let overload = options.get(code::OVERLOAD).and_then(|data| data.first().copied());
        // RFC 2131 4.1: the options field first, then the file field, then the name field.
        if let Some(1 | 3) = overload {
            options.add(bytes.get(FILE)?);
        }
        if let Some(2 | 3) = overload {
            options.add(bytes.get(NAME)?);
        }
        Some(options)
    }

    fn add(&mut self, mut bytes: &[u8]) {
        const PAD: u8 = 0;
        const END: u8 = 255;
        loop {
            match bytes {
                [PAD, rest @ ..] => bytes = rest,
                [END, ..] | [] | [_] => return,
                [code, len, rest @ ..] => {
                    let Some((data, rest)) = rest.split_at_checked(usize::from(*len)) else {
                        return;
                    };
                    bytes = rest;
                    match self.0.iter_mut().find(|(known, _)| known == code) {
                        Some((_, parts)) => parts.extend_from_slice(data),
                        None => self.0.push((*code, data.into())),
                    }
                }
            }
        }
    }

    fn get(&self, code: u8) -> Option<&[u8]> {
        let (_, data) = self.0.iter().find(|(known, _)| *known == code)?;
        Some(data)
    }

    fn number(&self, code: u8) -> Option<u32> {
        Some(u32::from_be_bytes(self.get(code)?.try_into().ok()?))
    }

    fn address(&self, code: u8) -> Option<Ipv4Addr> {
        self.number(code).map(Ipv4Addr::from_bits)
    }

    /// At most `most` different addresses that are `right`.
    fn addresses(&self, code: u8, most: usize, right: impl Fn(Ipv4Addr) -> bool) -> Vec<Ipv4Addr> {
        let mut found = Vec::new();
        let (all, _) = self.get(code).unwrap_or_default().as_chunks::<4>();
        for address in all.iter().map(|octets| Ipv4Addr::from(*octets)) {
            if right(address) && !found.contains(&address) && found.len() < most {
                found.push(address);
            }
        }
        found
    }
}

/// A message of this client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DhcpRequest {
    pub(crate) kind: DhcpMessageType,
    pub(crate) xid: u32,
    /// Seconds since the client began.
    pub(crate) secs: u16,
    /// Our address if we have and use it, else 0.0.0.0.
    pub(crate) client: Ipv4Addr,
    /// Answers are to be broadcast, because unicast packets do not reach this host yet (RFC 2131
    /// 4.1).
    pub(crate) broadcast: bool,
    pub(crate) requested: Option<Ipv4Addr>,
    pub(crate) server: Option<Ipv4Addr>,
}

impl DhcpRequest {
    /// The message of the client with this hardware address, on a link of `mtu` bytes.
    pub(crate) fn emit(&self, mac: Mac, mtu: u16) -> Vec<u8> {
        let mut bytes = alloc::vec![0; ROOM];
        let mut packet = DhcpPacket::new_unchecked(bytes.as_mut_slice());
        packet.set_opcode(DhcpOpCode::Request);
        packet.set_hardware_type(smoltcp::wire::ArpHardware::Ethernet);
        packet.set_hardware_len(6);
        packet.set_transaction_id(self.xid);
        packet.set_secs(self.secs);
        packet.set_flags(if self.broadcast { DhcpFlags::BROADCAST } else { DhcpFlags::empty() });
        packet.set_client_ip(self.client);
        packet.set_client_hardware_address(mac);
        packet.set_magic_number(MAGIC);
        let mut options = packet.options_mut();
        let mut add = |kind, data: &[u8]| {
            // There is room: see `ROOM`.
            let _ = options.emit(DhcpOption { kind, data });
        };
        add(code::MESSAGE_TYPE, &[self.kind.into()]);
        add(code::CLIENT, &client_id(mac));
        if let Some(address) = self.requested {
            add(code::REQUESTED, &address.octets());
        }
        if let Some(server) = self.server {
            add(code::SERVER, &server.octets());
        }
        if matches!(self.kind, DhcpMessageType::Discover | DhcpMessageType::Request) {
            add(code::MOST_BYTES, &mtu.max(SMALLEST_MTU).to_be_bytes());
            add(code::PARAMETERS, &PARAMETERS);
        }
        let _ = options.end();
        let end = Self::end(&bytes);
        bytes.truncate(end.max(SHORTEST));
        bytes
    }

    /// The end of the written part.
    fn end(bytes: &[u8]) -> usize {
        bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)
    }
}

/// RFC 4361 6.1: an interface's number and a DUID. The DUID is that of the link-layer address (RFC
/// 8415 11.4), so it stays the same without being stored.
fn client_id(mac: Mac) -> [u8; 15] {
    let [a, b, c, d, e, f] = mac.0;
    [255, c, d, e, f, 0, 3, 0, 1, a, b, c, d, e, f]
}

#[cfg(test)]
pub(super) mod tests;
