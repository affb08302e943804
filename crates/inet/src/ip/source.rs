//! Which of our IPv6 addresses a packet comes from: the rules of RFC 6724 5, but for those about
//! mobility (4) and temporary addresses (7), of which there are none here.

use core::cmp::Ordering;
use core::net::{IpAddr, Ipv6Addr};

use crate::cidr::Cidr;
use crate::interface_id::InterfaceId;
use crate::link::address::{Address, AddressState};
use crate::link::interfaces::Interface;

/// RFC 6724 2.1: prefixes with their labels. Precedences are for choosing destinations, which is
/// the resolver's business.
const LABELS: [(Ipv6Addr, u8, u8); 9] = [
    (Ipv6Addr::LOCALHOST, 128, 0),
    (Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0), 96, 4),
    (Ipv6Addr::UNSPECIFIED, 96, 3),
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 32, 5),
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16, 2),
    (Ipv6Addr::new(0x3ffe, 0, 0, 0, 0, 0, 0, 0), 16, 12),
    (Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 0), 10, 11),
    (Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7, 13),
    (Ipv6Addr::UNSPECIFIED, 0, 1),
];

fn label(address: Ipv6Addr) -> u8 {
    let found = LABELS.iter().find(|(prefix, len, _)| {
        Cidr::new(IpAddr::V6(*prefix), *len).contains(IpAddr::V6(address))
    });
    found.map_or(1, |(_, _, label)| *label)
}

/// RFC 6724 3.1, in the numbers of RFC 4291 2.7.
fn scope(address: Ipv6Addr) -> u8 {
    const LINK: u8 = 2;
    const SITE: u8 = 5;
    const GLOBAL: u8 = 14;
    let [first, second, ..] = address.octets();
    if address.is_multicast() {
        second & 0x0f
    } else if address.is_unicast_link_local() || address.is_loopback() {
        LINK
    } else if first == 0xfe && second & 0xc0 == 0xc0 {
        SITE
    } else {
        GLOBAL
    }
}

#[derive(Debug, Clone, Copy)]
struct SourceCandidate {
    ip: Ipv6Addr,
    prefix: u8,
    interface: InterfaceId,
    deprecated: bool,
}

/// Our address for packets to `destination` that leave by `out`; `None` if there is none at all.
pub(crate) fn select(
    destination: Ipv6Addr,
    out: InterfaceId,
    interfaces: &[Interface],
) -> Option<Ipv6Addr> {
    // RFC 6724 4: towards groups and link-local destinations, only addresses of their interface
    // count.
    let here = destination.is_multicast() || destination.is_unicast_link_local();
    let all = (0..).map(InterfaceId).zip(interfaces).filter(|(id, _)| !here || *id == out);
    let candidates = all.flat_map(|(id, interface)| {
        interface.addresses().iter().filter_map(move |address| candidate(id, address))
    });
    let usable = candidates
        .filter(|candidate| candidate.interface == out || !candidate.ip.is_unicast_link_local());
    usable.reduce(|best, next| better(destination, out, best, next)).map(|found| found.ip)
}

fn candidate(interface: InterfaceId, address: &Address) -> Option<SourceCandidate> {
    let IpAddr::V6(ip) = address.cidr.address else { return None };
    let deprecated = address.state == AddressState::Deprecated;
    let prefix = address.cidr.prefix;
    address.is_usable().then_some(SourceCandidate { ip, prefix, interface, deprecated })
}

/// The better candidate; the first one if the rules do not decide.
fn better(
    destination: Ipv6Addr,
    out: InterfaceId,
    a: SourceCandidate,
    b: SourceCandidate,
) -> SourceCandidate {
    let prefer = |property: &dyn Fn(&SourceCandidate) -> bool| property(&a).cmp(&property(&b));
    // Rule 2: the smallest scope that is large enough; if none is, the largest.
    let scopes = || {
        let (of_a, of_b, wanted) = (scope(a.ip), scope(b.ip), scope(destination));
        match of_a.cmp(&of_b) {
            Ordering::Less if of_a < wanted => Ordering::Less,
            Ordering::Less => Ordering::Greater,
            Ordering::Greater if of_b < wanted => Ordering::Greater,
            Ordering::Greater => Ordering::Less,
            Ordering::Equal => Ordering::Equal,
        }
    };
    let labelled = label(destination);
    let order = prefer(&|c| c.ip == destination)
        .then_with(scopes)
        .then_with(|| prefer(&|c| !c.deprecated))
        .then_with(|| prefer(&|c| c.interface == out))
        .then_with(|| prefer(&|c| label(c.ip) == labelled))
        .then_with(|| common(&a, destination).cmp(&common(&b, destination)));
    if order == Ordering::Less { b } else { a }
}

/// RFC 6724 2.2: how many leading bits, at most the prefix, are the destination's.
fn common(candidate: &SourceCandidate, destination: Ipv6Addr) -> u32 {
    let different = candidate.ip.to_bits() ^ destination.to_bits();
    different.leading_zeros().min(candidate.prefix.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::address::AddressOrigin;
    use crate::link::interfaces::InterfaceConfig;
    use std::vec::Vec;

    const OUT: InterfaceId = InterfaceId(0);

    fn interface(addresses: &[&str]) -> Interface {
        let mut interface = Interface::new(InterfaceConfig { mac: [2, 0, 0, 0, 0, 1], mtu: 1500 });
        for text in addresses {
            // "-" for deprecated, "?" for tentative.
            let state = match text.chars().next() {
                Some('-') => AddressState::Deprecated,
                Some('?') => AddressState::Tentative,
                _ => AddressState::Preferred,
            };
            let ip: Ipv6Addr = text.trim_start_matches(['-', '?']).parse().unwrap();
            let address = Address::new(Cidr::new(ip, 64), AddressOrigin::Static);
            interface.add_address(Address { state, ..address });
        }
        interface
    }

    fn chosen(destination: &str, interfaces: &[&[&str]]) -> Option<Ipv6Addr> {
        let all: Vec<Interface> = interfaces.iter().map(|list| interface(list)).collect();
        select(destination.parse().unwrap(), OUT, &all)
    }

    /// Each rule alone, both orders of the candidates; among them the examples of RFC 6724 10.1.
    #[test]
    fn the_rules() {
        let table = [
            // 1: the destination itself.
            ("2001:db8:1::1", "2001:db8:1::1", "2001:db8:1::2"),
            // 2: scopes.
            ("2001:db8:1::1", "2001:db8:3::1", "fe80::1"),
            ("ff05::1", "2001:db8:3::1", "fe80::1"),
            ("fe80::1", "fe80::2", "2001:db8:1::1"),
            ("ff02::1", "fe80::2", "2001:db8:1::1"),
            ("fec0::1", "2001:db8:1::1", "fe80::1"),
            // 3: deprecated ones.
            ("2001:db8:1::1", "2001:db8:3::2", "-2001:db8:1::2"),
            ("2001:db8:1::1", "2001:db8:3::2", "-2001:db8:1::1:2"),
            // 6: labels.
            ("2002:c633:6401::1", "2002:c633:6401::d5e3:7953:13eb:22e8", "2001:db8:1::2"),
            ("2001:db8:1::1", "2001:db8:3::2", "fd00::1"),
            ("fd11::1", "fd00::1", "2001:db8:1::2"),
            ("2001::1", "2001::2", "2001:db8::2"),
            // 8: the longest prefix.
            ("2001:db8:1::1", "2001:db8:1::2", "2001:db8:3::2"),
            ("2001:db8:3::1", "2001:db8:3::2", "2001:db8:1::2"),
        ];
        for (destination, best, other) in table {
            let expected: Ipv6Addr = best.trim_start_matches('-').parse().unwrap();
            assert_eq!(chosen(destination, &[&[best, other]]), Some(expected), "{destination}");
            assert_eq!(chosen(destination, &[&[other, best]]), Some(expected), "{destination}");
        }
    }

    #[test]
    fn beyond_the_prefix_the_first_stays() {
        let both = ["2001:db8:1::ff00", "2001:db8:1::2"];
        assert_eq!(chosen("2001:db8:1::3", &[&both]), Some(both[0].parse().unwrap()));
    }

    #[test]
    fn rule_5_and_links() {
        let far = "2001:db8:1::1";
        let ip = |text: &str| Some(text.parse::<Ipv6Addr>().unwrap());
        assert_eq!(chosen(far, &[&["2001:db8:9::1"], &["2001:db8:1::2"]]), ip("2001:db8:9::1"));
        assert_eq!(chosen(far, &[&["fe80::1"], &["2001:db8:1::2"]]), ip("2001:db8:1::2"));
        assert_eq!(chosen(far, &[&[], &["fe80::1"]]), None);
        assert_eq!(chosen("fe80::9", &[&["2001:db8:9::1"], &["fe80::1"]]), ip("2001:db8:9::1"));
        assert_eq!(chosen("ff02::1", &[&[], &["fe80::1", "2001:db8::1"]]), None);
        assert_eq!(chosen(far, &[&["?2001:db8:1::1"]]), None, "not ours yet");
    }
}
