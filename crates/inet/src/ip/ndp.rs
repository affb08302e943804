//! The messages of Neighbour Discovery (RFC 4861 4), with the options that a host acts on. The
//! library's views panic on incomplete options, so the core has its own reader.
//!
//! [`parse`] makes all checks of RFC 4861 6.1, 7.1 and 8.1 that need no state of this host. Unknown
//! options are skipped. An option of length 0 makes the message invalid (4.6).

use core::net::Ipv6Addr;
use core::time::Duration;

use smoltcp::wire::{EthernetAddress, Icmpv6Message, IpProtocol, NdiscOptionType, checksum};

use super::headers::MAX_HEADERS;
use super::packet::{Header, pseudo_sum};
use super::{source, v6};
use crate::bytes::{Egress, TxBytes};
use crate::cidr::Cidr;
use crate::interface_id::InterfaceId;
use crate::link::LinkLayer;
use crate::link::address::Nonce;
use crate::link::ethernet::{self, EtherPayload, Mac};
use crate::link::interfaces::Interface;
use crate::offload::TxOffload;

/// RFC 4861 3.1: a message with less has come through a router.
pub(crate) const HOP_LIMIT: u8 = 255;
/// Longest message that is sent: a target and two options, bytes.
pub(crate) const LONGEST: usize = 40;
/// NdpOptions of one message that are looked at.
const MOST_OPTIONS: usize = 64;

/// Length of the type, code and checksum, bytes.
const FIXED: usize = 4;
/// RFC 8106 5.1: not among the library's types.
const RDNSS: u8 = 25;
/// RFC 3971 5.3.2, used as in RFC 7527 4.
const NONCE: u8 = 14;

/// A message that passed the checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NdpMessage<'a> {
    /// A node asks for `target`, or wants to have it: then the source is unspecified.
    Solicit {
        target: Ipv6Addr,
        source_mac: Option<Mac>,
        nonce: Option<Nonce>,
    },
    Advert {
        target: Ipv6Addr,
        router: bool,
        solicited: bool,
        overrides: bool,
        mac: Option<Mac>,
    },
    Router(RouterAdvert<'a>),
    /// A redirect, or a question to routers: not for a host that trusts no redirects.
    IgnoreReason,
}

/// A router's preference as a default router (RFC 4191 2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Preference {
    Low,
    Medium,
    High,
}

/// A router's advertisement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RouterAdvert<'a> {
    /// `None` leaves it to the host, as with all of these.
    pub(crate) hop_limit: Option<u8>,
    pub(crate) preference: Preference,
    /// How long it is a default router; zero if it is not.
    pub(crate) lifetime: Duration,
    pub(crate) reachable: Option<Duration>,
    pub(crate) retrans: Option<Duration>,
    pub(crate) options: NdpOptions<'a>,
}

/// The options of a message, all complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NdpOptions<'a>(&'a [u8]);

/// An option's body, without type and length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NdpOption<'a> {
    SourceMac(Mac),
    TargetMac(Mac),
    Nonce(Nonce),
    Mtu(u32),
    Prefix(Prefix),
    /// Addresses of resolvers, and how long to use them.
    Dns {
        lifetime: Duration,
        servers: &'a [u8],
    },
    Other,
}

/// A prefix information option (RFC 4861 4.6.2). Lifetimes of all ones have no end: `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Prefix {
    pub(crate) network: Cidr,
    pub(crate) on_link: bool,
    pub(crate) autonomous: bool,
    pub(crate) valid: Option<Duration>,
    pub(crate) preferred: Option<Duration>,
}

impl<'a> NdpOptions<'a> {
    /// `None` if an option has length 0 or is incomplete, or if there are too many.
    fn check(bytes: &'a [u8]) -> Option<Self> {
        let mut rest = bytes;
        for _ in 0..MOST_OPTIONS {
            if rest.is_empty() {
                return Some(Self(bytes));
            }
            let len = usize::from(*rest.get(1)?) * 8;
            if len == 0 {
                return None;
            }
            rest = rest.get(len..)?;
        }
        None
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = NdpOption<'a>> {
        let mut rest = self.0;
        core::iter::from_fn(move || {
            let len = usize::from(*rest.get(1)?) * 8;
            let option = rest.get(..len).filter(|option| option.len() >= 8)?;
            rest = rest.get(len..)?;
            Some(read_option(option))
        })
    }

    fn source_mac(self) -> Option<Mac> {
        self.iter().find_map(|option| match option {
            NdpOption::SourceMac(mac) => Some(mac),
            _ => None,
        })
    }

    fn target_mac(self) -> Option<Mac> {
        self.iter().find_map(|option| match option {
            NdpOption::TargetMac(mac) => Some(mac),
            _ => None,
        })
    }

    fn nonce(self) -> Option<Nonce> {
        self.iter().find_map(|option| match option {
            NdpOption::Nonce(nonce) => Some(nonce),
            _ => None,
        })
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    let word = bytes.get(at..).and_then(|rest| rest.first_chunk::<4>());
    u32::from_be_bytes(word.copied().unwrap_or_default())
}

fn address(bytes: &[u8], at: usize) -> Option<Ipv6Addr> {
    Some(Ipv6Addr::from(*bytes.get(at..)?.first_chunk::<16>()?))
}

/// A lifetime in seconds. All ones means infinity: `None`.
fn lifetime(seconds: u32) -> Option<Duration> {
    (seconds != u32::MAX).then(|| Duration::from_secs(seconds.into()))
}

/// Reads an option of at least 8 bytes.
fn read_option(option: &[u8]) -> NdpOption<'_> {
    let &[kind, _, a, b, c, d, e, f, ..] = option else { return NdpOption::Other };
    if kind == NONCE {
        return NdpOption::Nonce([a, b, c, d, e, f]);
    }
    if kind == RDNSS {
        let lifetime = Duration::from_secs(word(option, 4).into());
        return NdpOption::Dns { lifetime, servers: option.get(8..).unwrap_or_default() };
    }
    let mac = EthernetAddress([a, b, c, d, e, f]);
    let is_possible = mac.is_unicast() && mac.0 != [0; 6];
    match NdiscOptionType::from(kind) {
        NdiscOptionType::SourceLinkLayerAddr if is_possible => NdpOption::SourceMac(mac),
        NdiscOptionType::TargetLinkLayerAddr if is_possible => NdpOption::TargetMac(mac),
        NdiscOptionType::Mtu => NdpOption::Mtu(word(option, 4)),
        NdiscOptionType::PrefixInformation => {
            read_prefix(option).map_or(NdpOption::Other, NdpOption::Prefix)
        }
        _ => NdpOption::Other,
    }
}

fn read_prefix(option: &[u8]) -> Option<Prefix> {
    const ON_LINK: u8 = 0x80;
    const AUTONOMOUS: u8 = 0x40;
    const ADDRESS_AT: usize = 16;
    let (len, flags) = (*option.get(2)?, *option.get(3)?);
    if len > 128 {
        return None;
    }
    Some(Prefix {
        network: Cidr::new(address(option, ADDRESS_AT)?, len).network(),
        on_link: flags & ON_LINK != 0,
        autonomous: flags & AUTONOMOUS != 0,
        valid: lifetime(word(option, 4)),
        preferred: lifetime(word(option, 8)),
    })
}

/// Reads a message of type `kind`, whose checksum is right. `bytes` is the complete message. `None`
/// if it fails a check.
pub(crate) fn parse(
    kind: Icmpv6Message,
    bytes: &[u8],
    source: Ipv6Addr,
    destination: Ipv6Addr,
    hop_limit: u8,
) -> Option<NdpMessage<'_>> {
    const TARGET: usize = 24;
    const ROUTER: usize = 16;
    let code = *bytes.get(1)?;
    if hop_limit != HOP_LIMIT || code != 0 {
        return None;
    }
    let options = |from: usize| NdpOptions::check(bytes.get(from..)?);
    match kind {
        Icmpv6Message::NeighborSolicit => {
            let target = address(bytes, 8).filter(|target| !target.is_multicast())?;
            let options = options(TARGET)?;
            let source_mac = options.source_mac();
            // RFC 4861 7.1.1: a solicitation without a source address, as in duplicate address
            // detection, goes to the target's group and has no hardware address.
            let is_probe = source.is_unspecified();
            if is_probe && (!is_solicited_node(destination) || source_mac.is_some()) {
                return None;
            }
            Some(NdpMessage::Solicit { target, source_mac, nonce: options.nonce() })
        }
        Icmpv6Message::NeighborAdvert => {
            let flags = *bytes.get(FIXED)?;
            let target = address(bytes, 8).filter(|target| !target.is_multicast())?;
            let mac = options(TARGET)?.target_mac();
            let solicited = flags & 0x40 != 0;
            if solicited && destination.is_multicast() {
                return None;
            }
            let (router, overrides) = (flags & 0x80 != 0, flags & 0x20 != 0);
            Some(NdpMessage::Advert { target, router, solicited, overrides, mac })
        }
        Icmpv6Message::RouterAdvert => {
            // RFC 4861 6.1.2: routers send from their link-local address.
            if !source.is_unicast_link_local() {
                return None;
            }
            let options = options(ROUTER)?;
            read_router(bytes, options).map(NdpMessage::Router)
        }
        Icmpv6Message::RouterSolicit | Icmpv6Message::Redirect => Some(NdpMessage::IgnoreReason),
        _ => None,
    }
}

fn read_router<'a>(bytes: &'a [u8], options: NdpOptions<'a>) -> Option<RouterAdvert<'a>> {
    let &[_, _, _, _, hop_limit, flags, high, low, ..] = bytes else { return None };
    let millis = |at| Some(word(bytes, at)).filter(|ms| *ms != 0);
    let time = |at| millis(at).map(|ms| Duration::from_millis(ms.into()));
    Some(RouterAdvert {
        hop_limit: Some(hop_limit).filter(|hops| *hops != 0),
        // RFC 4191 2.2: the reserved value counts as medium.
        preference: match flags >> 3 & 3 {
            1 => Preference::High,
            3 => Preference::Low,
            _ => Preference::Medium,
        },
        lifetime: Duration::from_secs(u16::from_be_bytes([high, low]).into()),
        reachable: time(8),
        retrans: time(12),
        options,
    })
}

fn is_solicited_node(group: Ipv6Addr) -> bool {
    v6::solicited_node(group) == group
}

/// A message to be sent.
#[derive(Debug, Clone, Copy)]
pub(crate) enum OutgoingNdp {
    RouterSolicit { mac: Option<Mac> },
    Solicit { target: Ipv6Addr, mac: Option<Mac>, nonce: Option<Nonce> },
    Advert { target: Ipv6Addr, solicited: bool, overrides: bool, mac: Mac },
}

impl OutgoingNdp {
    /// Writes the message without its checksum to the start of `out`, and gives its length: at most
    /// [`LONGEST`] bytes.
    pub(crate) fn emit(&self, out: &mut [u8; LONGEST]) -> usize {
        let mut put = Writer { out, len: 0 };
        let option = |kind: u8, value: [u8; 6]| {
            let [a, b, c, d, e, f] = value;
            [kind, 1, a, b, c, d, e, f]
        };
        let source = |mac: Option<Mac>| {
            mac.map(|mac| option(NdiscOptionType::SourceLinkLayerAddr.into(), mac.0))
        };
        match *self {
            Self::RouterSolicit { mac } => {
                put.bytes(&[Icmpv6Message::RouterSolicit.into(), 0, 0, 0, 0, 0, 0, 0]);
                source(mac).iter().for_each(|option| put.bytes(option));
            }
            Self::Solicit { target, mac, nonce } => {
                put.bytes(&[Icmpv6Message::NeighborSolicit.into(), 0, 0, 0, 0, 0, 0, 0]);
                put.bytes(&target.octets());
                source(mac).iter().for_each(|option| put.bytes(option));
                nonce.iter().for_each(|nonce| put.bytes(&option(NONCE, *nonce)));
            }
            Self::Advert { target, solicited, overrides, mac } => {
                let flags = u8::from(solicited) << 6 | u8::from(overrides) << 5;
                put.bytes(&[Icmpv6Message::NeighborAdvert.into(), 0, 0, 0, flags, 0, 0, 0]);
                put.bytes(&target.octets());
                put.bytes(&option(NdiscOptionType::TargetLinkLayerAddr.into(), mac.0));
            }
        }
        put.len
    }
}

/// The IP header of a message of `len` bytes.
pub(crate) fn header(source: Ipv6Addr, destination: Ipv6Addr, len: usize) -> Header {
    Header {
        source: source.into(),
        destination: destination.into(),
        protocol: IpProtocol::Icmpv6,
        ttl: HOP_LIMIT,
        tos: 0,
        flow: 0,
        payload_len: len,
    }
}

/// Writes a message with its checksum, and gives its length.
pub(crate) fn seal(
    source: Ipv6Addr,
    destination: Ipv6Addr,
    message: &OutgoingNdp,
    out: &mut [u8; LONGEST],
) -> usize {
    let len = message.emit(out);
    let pseudo = pseudo_sum(source.into(), destination.into(), IpProtocol::Icmpv6, len);
    let sum = !checksum::combine(&[pseudo, checksum::data(&out[..len])]);
    out[2..4].copy_from_slice(&sum.to_be_bytes());
    len
}

/// Sends a message from `source` to `destination` at the hardware address `to`.
pub(crate) fn send<T: TxBytes>(
    link: &mut LinkLayer,
    id: InterfaceId,
    (source, destination, to): (Ipv6Addr, Ipv6Addr, Mac),
    message: &OutgoingNdp,
    out: &mut dyn Egress<T>,
) {
    let mut bytes = [0; LONGEST];
    let len = seal(source, destination, message, &mut bytes);
    if link.interface(id).is_none() {
        return;
    }
    let mut frame = [0; MAX_HEADERS + LONGEST];
    let (head, rest) = frame.split_at_mut(ethernet::HEADER);
    link.write_header(id, EtherPayload::Ipv6, to, head);
    v6::emit(&header(source, destination, len), source, destination, rest);
    let end = MAX_HEADERS + len;
    frame[MAX_HEADERS..end].copy_from_slice(&bytes[..len]);
    link.emit(id, &frame[..end], &[], TxOffload::NONE, out);
}

/// Sends a message to a group.
pub(crate) fn send_to_group<T: TxBytes>(
    link: &mut LinkLayer,
    id: InterfaceId,
    source: Ipv6Addr,
    group: Ipv6Addr,
    message: &OutgoingNdp,
    out: &mut dyn Egress<T>,
) {
    send(link, id, (source, group, ethernet::multicast(group.into())), message, out);
}

/// Solicits a neighbour, by its group or at its last known hardware address (RFC 4861 7.2.2).
pub(crate) fn send_solicitation<T: TxBytes>(
    link: &mut LinkLayer,
    id: InterfaceId,
    target: Ipv6Addr,
    mac: Option<Mac>,
    out: &mut dyn Egress<T>,
) {
    let Some(from) = source::select(target, id, link.interfaces().all()) else { return };
    let Some(ours) = link.interface(id).map(Interface::mac) else { return };
    let message = OutgoingNdp::Solicit { target, mac: Some(ours), nonce: None };
    match mac {
        Some(mac) => send(link, id, (from, target, mac), &message, out),
        None => send_to_group(link, id, from, v6::solicited_node(target), &message, out),
    }
}

struct Writer<'a> {
    out: &'a mut [u8; LONGEST],
    len: usize,
}

impl Writer<'_> {
    fn bytes(&mut self, bytes: &[u8]) {
        if let Some(place) = self.out.get_mut(self.len..self.len + bytes.len()) {
            place.copy_from_slice(bytes);
            self.len += bytes.len();
        }
    }
}
