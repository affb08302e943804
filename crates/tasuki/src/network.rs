//! Which addresses and device names are free on this host.
//!
//! The kernel tells its IPv4 routes in /proc/net/fib_trie: a leaf line `|-- ADDRESS`, then a line
//! `/PREFIX SCOPE TYPE` for each route to it. Local addresses are the routes of type LOCAL. Its
//! IPv6 addresses are in /proc/net/if_inet6, one a line: 32 hexadecimal digits, interface, prefix
//! length, scope, flags, name. The device of every running instance has such routes. A command that
//! holds the lock of the directory while it chooses and configures never chooses an address that
//! another instance of this network namespace has.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use abi::network::{Prefixed, RouteSettings};

use crate::cidr::{self, Cidr};
use crate::exit::{Code, Failure};

/// The kernel's routes.
const ROUTES: &str = "/proc/self/net/fib_trie";
/// The kernel's IPv6 addresses.
const ADDRESSES_V6: &str = "/proc/self/net/if_inet6";

/// The addresses of a stack and of the host on the same device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Addresses {
    /// The stack's.
    pub(crate) stack: Vec<Cidr>,
    /// The host's; the stack's routers. At most one of each family.
    pub(crate) gateways: Vec<IpAddr>,
    /// More routes of the stack.
    pub(crate) routes: Vec<RouteSettings>,
}

impl Addresses {
    /// The host's addresses on the device.
    pub(crate) fn host(&self) -> impl Iterator<Item = Prefixed> {
        self.gateways.iter().map(|&address| {
            let ours = self.stack.iter().find(|cidr| cidr.contains(address));
            // Only a link-local router lies in none of the stack's networks.
            Prefixed { address, prefix: ours.map_or(64, |cidr| cidr.prefix()) }
        })
    }

    /// All routes of the stack except those to its own networks. Default routes get this metric.
    pub(crate) fn all_routes(&self, metric: u32) -> Vec<RouteSettings> {
        let default = |&via: &IpAddr| RouteSettings {
            to: if via.is_ipv4() { Prefixed::ALL_V4 } else { Prefixed::ALL_V6 },
            via: Some(via),
            metric,
        };
        self.gateways.iter().map(default).chain(self.routes.iter().copied()).collect()
    }
}

/// An IPv4 route of this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Route {
    network: Ipv4Addr,
    prefix: u8,
    /// One of this host's own addresses.
    local: bool,
}

/// All IPv4 routes and IPv6 addresses of this host.
#[derive(Debug)]
pub(crate) struct Routes {
    routes: Vec<Route>,
    six: Vec<Prefixed>,
}

impl Routes {
    /// As they are now.
    ///
    /// # Errors
    /// When the kernel does not tell them.
    pub(crate) fn read() -> Result<Self, Failure> {
        let text = std::fs::read_to_string(ROUTES)
            .map_err(|error| Failure::system(format!("read {ROUTES}"), error))?;
        // A kernel without IPv6 does not have this file.
        let six = std::fs::read_to_string(ADDRESSES_V6).unwrap_or_default();
        Ok(Self::parse(&text, &six))
    }

    fn parse(text: &str, six: &str) -> Self {
        let mut routes = Vec::new();
        let mut leaf = None;
        for line in text.lines().map(str::trim_start) {
            if let Some(address) = line.strip_prefix("|-- ") {
                leaf = address.trim().parse().ok();
            } else if let (Some(network), Some(rest)) = (leaf, line.strip_prefix('/')) {
                let mut words = rest.split_whitespace();
                let prefix = words.next().and_then(|word| word.parse().ok());
                if let Some(prefix) = prefix.filter(|prefix| *prefix <= 32) {
                    let local = words.any(|word| word == "LOCAL");
                    routes.push(Route { network, prefix, local });
                }
            } else {
                leaf = None;
            }
        }
        let six = six.lines().filter_map(|line| {
            let mut words = line.split_whitespace();
            let bits = u128::from_str_radix(words.next()?, 16).ok()?;
            let prefix = u8::from_str_radix(words.nth(1)?, 16).ok()?;
            Some(Prefixed { address: Ipv6Addr::from_bits(bits).into(), prefix })
        });
        Self { routes, six: six.collect() }
    }

    /// Is it one of this host's own addresses? Those of links do not count: each link has its own.
    fn is_local(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(v4) => {
                self.routes.iter().any(|r| r.local && r.prefix == 32 && r.network == v4)
            }
            IpAddr::V6(v6) if v6.is_unicast_link_local() => false,
            IpAddr::V6(_) => self.six.iter().any(|own| own.address == address),
        }
    }

    /// Is there a route to exactly this network?
    fn has_network(&self, network: Cidr) -> bool {
        let (address, prefix) = (network.network(), network.prefix());
        match address {
            IpAddr::V4(v4) => self.routes.iter().any(|r| r.network == v4 && r.prefix == prefix),
            IpAddr::V6(v6) if v6.is_unicast_link_local() => false,
            IpAddr::V6(_) => self
                .six
                .iter()
                .any(|own| own.prefix == prefix && cidr::network(own.address, prefix) == address),
        }
    }

    /// Does a route share addresses with this network? Routes wider than /16 (the default, a VPN's
    /// 10/8) do not count, because the device's own route is narrower and wins.
    fn overlaps(&self, network: Ipv4Addr, prefix: u8) -> bool {
        self.routes.iter().filter(|route| route.prefix >= 16).any(|route| {
            let mask = cidr::mask(route.prefix.min(prefix));
            (route.network.to_bits() ^ network.to_bits()) & mask == 0
        })
    }

    /// The first free one of 10.219.N.2/24, with the host at 10.219.N.1.
    ///
    /// # Errors
    /// [`Code::InUse`] when all are used.
    pub(crate) fn choose(&self) -> Result<Addresses, Failure> {
        (0..=255)
            .filter(|&n| !self.overlaps(Ipv4Addr::new(10, 219, n, 0), 24))
            .find_map(|n| {
                let stack = Cidr::new(Ipv4Addr::new(10, 219, n, 2).into(), 24).ok()?;
                let gateway = Ipv4Addr::new(10, 219, n, 1).into();
                Some(Addresses { stack: vec![stack], gateways: vec![gateway], routes: vec![] })
            })
            .ok_or_else(|| {
                let sentence = "every network from 10.219.0.0/24 to 10.219.255.0/24 is in use \
                                on this host: give one with --address";
                Failure::new(Code::InUse, sentence)
            })
    }

    /// Can the host take the gateway's address, and a stack beside it the other?
    ///
    /// # Errors
    /// [`Code::InUse`]
    pub(crate) fn check(&self, addresses: &Addresses) -> Result<(), Failure> {
        let Addresses { stack, gateways, .. } = addresses;
        self.check_free(stack.iter().map(|cidr| cidr.address()).chain(gateways.iter().copied()))?;
        if let Some(network) = stack.iter().find(|network| self.has_network(**network)) {
            let what = format!(
                "the network {}/{} is in use: this host has a route to it already; choose \
                 another with --address",
                network.network(),
                network.prefix()
            );
            return Err(Failure::new(Code::InUse, what));
        }
        Ok(())
    }

    /// Can a stack beside the host, in a network that may be the host's too, take these addresses?
    ///
    /// # Errors
    /// [`Code::InUse`]
    pub(crate) fn check_guest(&self, addresses: &Addresses) -> Result<(), Failure> {
        self.check_free(addresses.stack.iter().map(|cidr| cidr.address()))
    }

    fn check_free(&self, mut addresses: impl Iterator<Item = IpAddr>) -> Result<(), Failure> {
        let Some(address) = addresses.find(|address| self.is_local(*address)) else {
            return Ok(());
        };
        let what = format!(
            "{address} is in use: this host has it already; choose others with --address and \
             --gateway"
        );
        Err(Failure::new(Code::InUse, what))
    }
}

/// Makes the first free one of `tasuki0`, `tasuki1`, … by `open`. `exists` says whether a device
/// has the name.
///
/// # Errors
/// [`Code::InUse`] when a thousand names are taken; those of `open`.
pub(crate) fn first_free_device<T>(
    exists: impl Fn(&str) -> bool,
    mut open: impl FnMut(&str) -> Result<T, Failure>,
) -> Result<(String, T), Failure> {
    for name in (0..1000).map(|n| format!("tasuki{n}")).filter(|name| !exists(name)) {
        match open(&name) {
            Ok(device) => return Ok((name, device)),
            // Somebody else was quicker.
            Err(failure) if failure.code == Code::InUse => {}
            Err(failure) => return Err(failure),
        }
    }
    Err(Failure::new(
        Code::InUse,
        "the device names tasuki0 to tasuki999 are all taken: give one with --nic",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRIE: &str = "\
Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 0.0.0.0
        /0 universe UNICAST
     +-- 10.0.0.0/8 2 0 2
        |-- 10.0.0.0
           /8 universe UNICAST
        |-- 10.219.0.0
           /24 link UNICAST
     |-- 172.16.0.0
        /30 link UNICAST
Local:
  +-- 0.0.0.0/0 2 0 2
     |-- 10.219.0.1
        /32 host LOCAL
     |-- 10.219.0.255
        /32 link BROADCAST
     |-- 10.219.1.77
        /32 host LOCAL
     |-- 127.0.0.0
        /8 host LOCAL
";

    const SIX: &str = "\
fe80000000000000e829aefffe9ff4c1 04 40 20 80     eth0
20010db8000000000000000000000001 04 40 00 80     eth0
00000000000000000000000000000001 01 80 10 80       lo
";

    fn addresses(stack: &str, gateway: &str) -> Addresses {
        Addresses {
            stack: vec![stack.parse().unwrap()],
            gateways: vec![gateway.parse().unwrap()],
            routes: vec![],
        }
    }

    #[test]
    fn the_kernels_table_is_understood() {
        let routes = Routes::parse(TRIE, SIX);
        assert_eq!((routes.routes.len(), routes.six.len()), (8, 3));
        let local = |text: &str| routes.is_local(text.parse().unwrap());
        assert!(local("10.219.0.1") && !local("10.219.0.255"));
        assert!(local("2001:db8::1") && !local("2001:db8::2"));
        assert!(!local("fe80::e829:aeff:fe9f:f4c1"), "of one link only");
        assert!(Routes::parse("", "").routes.is_empty());
        let nonsense = Routes::parse("|-- x\n/24 a\n|-- 1.2.3.4\n/99 b\n", "zz 1 2\n\n1 2");
        assert!(nonsense.routes.is_empty() && nonsense.six.is_empty());
    }

    #[test]
    fn the_first_free_network_is_chosen() {
        let choice = |text| Routes::parse(text, "").choose().unwrap().gateways[0].to_string();
        assert_eq!(choice(""), "10.219.0.1");
        // 0 is a device's network, 1 has an address in it; the wide route to 10/8 does not matter.
        assert_eq!(choice(TRIE), "10.219.2.1");
        let all = Routes::parse("|-- 10.219.0.0\n/16 universe UNICAST\n", "");
        assert_eq!(all.choose().unwrap_err().code, Code::InUse);
    }

    #[test]
    fn given_addresses_are_checked() {
        let check = |stack, gateway| Routes::parse(TRIE, SIX).check(&addresses(stack, gateway));
        assert!(check("10.219.5.2/24", "10.219.5.1").is_ok());
        assert!(check("192.168.7.9/16", "192.168.0.1").is_ok());
        assert!(check("fd00::2/64", "fd00::1").is_ok());
        assert!(check("fe80::2/64", "fe80::1").is_ok());
        for (stack, gateway, what) in [
            ("10.219.1.2/25", "10.219.1.77", "10.219.1.77 is in use"),
            ("10.219.1.77/25", "10.219.1.1", "10.219.1.77 is in use"),
            ("10.219.0.7/24", "10.219.0.8", "network 10.219.0.0/24 is in use"),
            ("2001:db8::1/48", "2001:db8::2", "2001:db8::1 is in use"),
            ("2001:db8::7/64", "2001:db8::8", "network 2001:db8::/64 is in use"),
        ] {
            let guest = Routes::parse(TRIE, SIX).check_guest(&addresses(stack, gateway));
            let local = what.starts_with(&stack[..stack.find('/').unwrap()]);
            assert_eq!(guest.is_err(), local, "{stack}");
            let failure = check(stack, gateway).unwrap_err();
            assert_eq!(failure.code, Code::InUse);
            assert!(failure.sentence.contains(what), "{failure}");
        }
    }

    #[test]
    fn the_host_gets_the_routers_addresses() {
        let host = |stack, gateway| {
            let host: Vec<_> = addresses(stack, gateway).host().map(|h| h.to_string()).collect();
            host.join(" ")
        };
        assert_eq!(host("10.219.5.2/25", "10.219.5.1"), "10.219.5.1/25");
        assert_eq!(host("fd00::2/80", "fd00::1"), "fd00::1/80");
        assert_eq!(host("fd00::2/80", "fe80::1"), "fe80::1/64");
    }

    #[test]
    fn device_names_are_tried_in_turn() {
        let taken = |name: &str| {
            if name == "tasuki1" { Err(Failure::new(Code::InUse, "taken")) } else { Ok(()) }
        };
        let exists = |name: &str| name == "tasuki0";
        assert_eq!(first_free_device(exists, taken).unwrap().0, "tasuki2");
        let rights = |_: &str| Err::<(), _>(Failure::new(Code::Rights, "no"));
        assert_eq!(first_free_device(|_| false, rights).unwrap_err().code, Code::Rights);
        assert_eq!(first_free_device(|_| true, taken).unwrap_err().code, Code::InUse);
    }
}
