//! Messages of IGMP (RFC 3376 4, RFC 2236 2) and MLD (RFC 3810 5, RFC 2710 3).

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::time::Duration;

use smoltcp::wire::checksum;

/// Where reports and leaves go.
const REPORTS_V4: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 22);
const REPORTS_V6: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x16);
const ROUTERS_V4: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 2);
const ROUTERS_V6: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);
/// RFC 2236 4: the delay that a 0 in a query of IGMPv1 means.
const FIRST_DELAY: Duration = Duration::from_secs(10);
/// Most sources of a query that are looked at; with more, it is about all.
const MOST_SOURCES: usize = 64;

const IGMP_QUERY: u8 = 0x11;
const IGMP_REPORT_1: u8 = 0x12;
const IGMP_REPORT_2: u8 = 0x16;
const IGMP_LEAVE: u8 = 0x17;
const IGMP_REPORT_3: u8 = 0x22;
const MLD_QUERY: u8 = 130;
const MLD_REPORT_1: u8 = 131;
const MLD_DONE: u8 = 132;
const MLD_REPORT_2: u8 = 143;

/// The version of IGMP. MLD has two: the first is `Second`, the second `Full`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Version {
    First,
    Second,
    /// With source filters.
    Full,
}

/// A router asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Query {
    pub(crate) version: Version,
    /// The time to spread answers over.
    pub(crate) most_delay: Duration,
    /// `None` for all groups.
    pub(crate) group: Option<IpAddr>,
    /// None for all sources.
    pub(crate) sources: BTreeSet<IpAddr>,
    /// The querier's robustness variable; 0 if the query has none.
    pub(crate) robustness: u8,
    /// Time between its queries; zero if the query has none.
    pub(crate) interval: Duration,
}

/// A message of a node on the link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum GroupMessage {
    Query(Query),
    /// A report of an older version.
    Report(IpAddr),
    /// Of no interest to a host.
    Other,
}

/// Reads an IGMP message; `None` if it is malformed. The versions differ by RFC 3376 7.1.
pub(crate) fn parse_igmp(bytes: &[u8]) -> Option<GroupMessage> {
    let [kind, code, _, _, group @ ..] = bytes else { return None };
    if checksum::data(bytes) != !0 {
        return None;
    }
    let (group, rest) = group.split_first_chunk::<4>()?;
    let group = Ipv4Addr::from(*group);
    match *kind {
        IGMP_QUERY => {
            let tenths = |code: u32| Duration::from_millis(100) * code;
            let (version, most_delay) = match (rest.len(), code) {
                (0, 0) => (Version::First, FIRST_DELAY),
                (0, _) => (Version::Second, tenths(u32::from(*code))),
                (4.., _) => (Version::Full, tenths(floating(u16::from(*code), 8))),
                _ => return None,
            };
            query(version, most_delay, group.into(), rest).map(GroupMessage::Query)
        }
        IGMP_REPORT_1 | IGMP_REPORT_2 if group.is_multicast() => {
            Some(GroupMessage::Report(group.into()))
        }
        IGMP_REPORT_1 | IGMP_REPORT_2 => None,
        _ => Some(GroupMessage::Other),
    }
}

/// Whether an ICMPv6 message of that type belongs to MLD.
pub(crate) fn is_mld(kind: u8) -> bool {
    matches!(kind, MLD_QUERY | MLD_REPORT_1 | MLD_DONE | MLD_REPORT_2)
}

/// Reads an MLD message, an ICMPv6 packet whose checksum is right; `None` if it is malformed.
pub(crate) fn parse_mld(bytes: &[u8]) -> Option<GroupMessage> {
    let (head, rest) = bytes.split_first_chunk::<8>()?;
    let [kind, _, _, _, high, low, _, _] = *head;
    let code = u16::from_be_bytes([high, low]);
    match kind {
        MLD_QUERY => {
            let (group, rest) = rest.split_first_chunk::<16>()?;
            let millis = |code: u32| Duration::from_millis(code.into());
            let (version, most_delay) = match rest.len() {
                0 => (Version::Second, millis(u32::from(code))),
                4.. => (Version::Full, millis(floating(code, 16))),
                _ => return None,
            };
            query(version, most_delay, Ipv6Addr::from(*group).into(), rest).map(GroupMessage::Query)
        }
        MLD_REPORT_1 => {
            let (group, _) = rest.split_first_chunk::<16>()?;
            let group = Ipv6Addr::from(*group);
            group.is_multicast().then_some(GroupMessage::Report(group.into()))
        }
        _ => Some(GroupMessage::Other),
    }
}

/// A query. `rest` follows the group; it is empty in older versions.
fn query(version: Version, most_delay: Duration, group: IpAddr, rest: &[u8]) -> Option<Query> {
    let group = match group.is_unspecified() {
        true => None,
        false if group.is_multicast() => Some(group),
        false => return None,
    };
    let mut query = Query {
        version,
        most_delay,
        group,
        sources: BTreeSet::new(),
        robustness: 0,
        interval: Duration::ZERO,
    };
    if let [flags, interval, high, low, list @ ..] = rest {
        query.robustness = flags & 7;
        query.interval = Duration::from_secs(floating(u16::from(*interval), 8).into());
        let count = usize::from(u16::from_be_bytes([*high, *low]));
        let is_v6 = matches!(group, Some(IpAddr::V6(_)));
        let len = if is_v6 { 16 } else { 4 };
        let list = list.get(..count * len)?;
        if group.is_none() && count > 0 {
            return None;
        }
        if count <= MOST_SOURCES {
            query.sources = list.chunks_exact(len).filter_map(address).collect();
        }
    }
    Some(query)
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => Some(IpAddr::from(*bytes.first_chunk::<4>()?)),
        _ => Some(IpAddr::from(*bytes.first_chunk::<16>()?)),
    }
}

/// RFC 3376 4.1.1 and RFC 3810 5.1.3: with the highest bit, three bits of exponent and a mantissa.
fn floating(code: u16, bits: u32) -> u32 {
    let mantissa_bits = bits - 4;
    if code >> (bits - 1) & 1 == 0 {
        return code.into();
    }
    let mantissa = u32::from(code) & ((1 << mantissa_bits) - 1) | 1 << mantissa_bits;
    let exponent = u32::from(code) >> mantissa_bits & 7;
    mantissa << (exponent + 3)
}

/// RFC 3376 4.2.12.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecordKind {
    IsInclude = 1,
    IsExclude = 2,
    ToInclude = 3,
    ToExclude = 4,
    Allow = 5,
    Block = 6,
}

/// The report about one group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) kind: RecordKind,
    pub(crate) group: IpAddr,
    pub(crate) sources: Vec<IpAddr>,
}

/// A message of this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum GroupReport {
    Full {
        v6: bool,
        records: Vec<Record>,
    },
    /// We listen, in an older version.
    Old {
        version: Version,
        group: IpAddr,
    },
    /// We do not any more.
    Leave {
        group: IpAddr,
    },
}

impl GroupReport {
    pub(crate) fn full(v6: bool, records: Vec<Record>) -> Self {
        Self::Full { v6, records }
    }

    pub(crate) fn old(version: Version, group: IpAddr) -> Self {
        Self::Old { version, group }
    }

    pub(crate) fn leave(group: IpAddr) -> Self {
        Self::Leave { group }
    }

    /// Its destination.
    pub(crate) fn destination(&self) -> IpAddr {
        match self {
            Self::Full { v6: false, .. } => REPORTS_V4.into(),
            Self::Full { v6: true, .. } => REPORTS_V6.into(),
            Self::Old { group, .. } => *group,
            Self::Leave { group: IpAddr::V4(_) } => ROUTERS_V4.into(),
            Self::Leave { group: IpAddr::V6(_) } => ROUTERS_V6.into(),
        }
    }

    /// The messages, each of at most `most` bytes; the checksums of MLD are zero and its sender's
    /// business, for they cover the addresses.
    pub(crate) fn emit(&self, most: usize) -> Vec<Vec<u8>> {
        let single = |kind: u8, group: IpAddr| match group {
            IpAddr::V4(group) => [&[kind, 0, 0, 0][..], &group.octets()].concat(),
            IpAddr::V6(group) => [&[kind, 0, 0, 0, 0, 0, 0, 0][..], &group.octets()].concat(),
        };
        let mut messages = match self {
            Self::Full { v6, records } => full(*v6, records, most),
            Self::Old { group: group @ IpAddr::V4(_), version: Version::First } => {
                [single(IGMP_REPORT_1, *group)].into()
            }
            Self::Old { group: group @ IpAddr::V4(_), .. } => {
                [single(IGMP_REPORT_2, *group)].into()
            }
            Self::Old { group, .. } => [single(MLD_REPORT_1, *group)].into(),
            Self::Leave { group: group @ IpAddr::V4(_) } => [single(IGMP_LEAVE, *group)].into(),
            Self::Leave { group } => Vec::from([single(MLD_DONE, *group)]),
        };
        if self.destination().is_ipv4() {
            for message in &mut messages {
                let sum = !checksum::data(message);
                if let Some(field) = message.get_mut(2..4) {
                    field.copy_from_slice(&sum.to_be_bytes());
                }
            }
        }
        messages
    }
}

/// Records spread over as many messages as necessary. A record has at most 64 sources, so it fits.
fn full(v6: bool, records: &[Record], most: usize) -> Vec<Vec<u8>> {
    let kind = if v6 { MLD_REPORT_2 } else { IGMP_REPORT_3 };
    let mut messages = Vec::new();
    let mut message = Vec::new();
    let mut count: u16 = 0;
    let mut finish = |message: &mut Vec<u8>, count: &mut u16| {
        if let Some(field) = message.get_mut(6..8) {
            field.copy_from_slice(&count.to_be_bytes());
            messages.push(core::mem::take(message));
            *count = 0;
        }
    };
    for record in records {
        let len = if v6 { 20 + 16 * record.sources.len() } else { 8 + 4 * record.sources.len() };
        if message.len() + len > most {
            finish(&mut message, &mut count);
        }
        if message.is_empty() {
            message.extend_from_slice(&[kind, 0, 0, 0, 0, 0, 0, 0]);
        }
        count += 1;
        let sources = u16::try_from(record.sources.len()).unwrap_or(u16::MAX).to_be_bytes();
        message.extend_from_slice(&[record.kind as u8, 0, sources[0], sources[1]]);
        for ip in core::iter::once(&record.group).chain(&record.sources) {
            match ip {
                IpAddr::V4(ip) => message.extend_from_slice(&ip.octets()),
                IpAddr::V6(ip) => message.extend_from_slice(&ip.octets()),
            }
        }
    }
    finish(&mut message, &mut count);
    messages
}
