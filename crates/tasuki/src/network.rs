//! Which addresses and device names are free on this host.
//!
//! The kernel tells its routes in /proc/net/fib_trie: a leaf line `|-- ADDRESS`, then a line
//! `/PREFIX SCOPE TYPE` for each route to it. Local addresses are the routes of type LOCAL. The
//! device of every running instance has such routes, so whoever holds the lock of the directory
//! while choosing and configuring never chooses what another instance of this network namespace
//! has.

use std::net::Ipv4Addr;

use crate::cidr::{self, Cidr};
use crate::exit::{Code, Failure};

/// The kernel's routes.
const ROUTES: &str = "/proc/self/net/fib_trie";

/// A stack's address and the host's address on the same device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Addresses {
    /// The stack's.
    pub(crate) stack: Cidr,
    /// The host's; the stack's router.
    pub(crate) gateway: Ipv4Addr,
}

/// A route of this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Route {
    network: Ipv4Addr,
    prefix: u8,
    /// One of this host's own addresses.
    local: bool,
}

/// All routes of this host.
#[derive(Debug)]
pub(crate) struct Routes(Vec<Route>);

impl Routes {
    /// As they are now.
    ///
    /// # Errors
    /// When the kernel does not tell them.
    pub(crate) fn read() -> Result<Self, Failure> {
        std::fs::read_to_string(ROUTES)
            .map(|text| Self::parse(&text))
            .map_err(|error| Failure::system(format!("read {ROUTES}"), error))
    }

    fn parse(text: &str) -> Self {
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
        Self(routes)
    }

    /// Is it one of this host's own addresses?
    fn is_local(&self, address: Ipv4Addr) -> bool {
        self.0.iter().any(|route| route.local && route.prefix == 32 && route.network == address)
    }

    /// Is there a route to exactly this network?
    fn has_network(&self, network: Cidr) -> bool {
        self.0.iter().any(|r| r.network == network.network() && r.prefix == network.prefix())
    }

    /// Does a route share addresses with this network? Routes wider than /16 (the default, a VPN's
    /// 10/8) do not count: the device's own route is narrower and wins.
    fn overlaps(&self, network: Cidr) -> bool {
        self.0.iter().filter(|route| route.prefix >= 16).any(|route| {
            let mask = cidr::mask(route.prefix.min(network.prefix()));
            (route.network.to_bits() ^ network.network().to_bits()) & mask == 0
        })
    }

    /// The first of 10.219.N.2/24 that nobody uses, with the host at 10.219.N.1.
    ///
    /// # Errors
    /// [`Code::InUse`] when all are used.
    pub(crate) fn choose(&self) -> Result<Addresses, Failure> {
        (0..=255)
            .filter_map(|n| {
                let stack = Cidr::new(Ipv4Addr::new(10, 219, n, 2), 24).ok()?;
                Some(Addresses { stack, gateway: Ipv4Addr::new(10, 219, n, 1) })
            })
            .find(|addresses| !self.overlaps(addresses.stack))
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
    pub(crate) fn check(&self, addresses: Addresses) -> Result<(), Failure> {
        let Addresses { stack, gateway } = addresses;
        let taken = |what: String| Err(Failure::new(Code::InUse, what));
        if let Some(address) = [stack.address(), gateway].into_iter().find(|a| self.is_local(*a)) {
            return taken(format!(
                "{address} is in use: this host has it already; choose others with --address \
                 and --gateway"
            ));
        }
        if self.has_network(stack) {
            return taken(format!(
                "the network {}/{} is in use: this host has a route to it already; choose \
                 another with --address",
                stack.network(),
                stack.prefix()
            ));
        }
        Ok(())
    }
}

/// Makes the first of `tasuki0`, `tasuki1`, … that is free, by `open`; `exists` says whether some
/// device has the name.
///
/// # Errors
/// [`Code::InUse`] when a thousand names are taken, or what `open` says.
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

    fn addresses(stack: &str, gateway: &str) -> Addresses {
        Addresses { stack: stack.parse().unwrap(), gateway: gateway.parse().unwrap() }
    }

    #[test]
    fn the_kernels_table_is_understood() {
        let routes = Routes::parse(TRIE);
        assert_eq!(routes.0.len(), 8);
        assert!(routes.is_local(Ipv4Addr::new(10, 219, 0, 1)));
        assert!(!routes.is_local(Ipv4Addr::new(10, 219, 0, 255)));
        assert!(Routes::parse("").0.is_empty());
        assert!(Routes::parse("|-- x\n/24 a\n|-- 1.2.3.4\n/99 b\n").0.is_empty());
    }

    #[test]
    fn the_first_free_network_is_chosen() {
        let choice = |text| Routes::parse(text).choose().unwrap().gateway;
        assert_eq!(choice(""), Ipv4Addr::new(10, 219, 0, 1));
        // 0 is a device's network, 1 has an address in it; the wide route to 10/8 does not matter.
        assert_eq!(choice(TRIE), Ipv4Addr::new(10, 219, 2, 1));
        let all = Routes::parse("|-- 10.219.0.0\n/16 universe UNICAST\n").choose().unwrap_err();
        assert_eq!(all.code, Code::InUse);
    }

    #[test]
    fn given_addresses_are_checked() {
        let check = |stack, gateway| Routes::parse(TRIE).check(addresses(stack, gateway));
        assert!(check("10.219.5.2/24", "10.219.5.1").is_ok());
        assert!(check("192.168.7.9/16", "192.168.0.1").is_ok());
        for (stack, gateway, what) in [
            ("10.219.1.2/25", "10.219.1.77", "10.219.1.77 is in use"),
            ("10.219.1.77/25", "10.219.1.1", "10.219.1.77 is in use"),
            ("10.219.0.7/24", "10.219.0.8", "network 10.219.0.0/24 is in use"),
        ] {
            let failure = check(stack, gateway).unwrap_err();
            assert_eq!(failure.code, Code::InUse);
            assert!(failure.sentence.contains(what), "{failure}");
        }
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
