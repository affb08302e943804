//! The options of an instance, for `tasuki run` and `tasuki up`.

use std::path::PathBuf;

use abi::network::Ipv6Mode;
use clap::Args;

use crate::cidr::Cidr;
use crate::config::{Fault, Mode, NameServer, Router, SearchDomain};
use crate::device::Device;
use crate::publish::Publish;

// In strings, since rustdoc takes brackets for links.
const NIC_HELP: &str = "Network device: tap:NAME (made by Tasuki), packet:INTERFACE (the host's, \
    as one more station there), xdp:INTERFACE (taken over), passt: (needs no right; passt:host \
    also reaches the host's own loopback), wire:SOCKET (a link to another instance), \
    pcap:FILE[,OUTPUT][,fast][,delay=SECONDS] (a capture file) [default: tap:tasuki0, tap:tasuki1, \
    ..., or passt: for users who may not make a TAP device]";
const PUBLISH_HELP: &str = "Ports of the host that lead to the stack, with passt: \
    [ADDRESS:]PORT[:STACK-PORT][/udp]";

/// How an instance is set up; each wins over the configuration file.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct InstanceOptions {
    /// Processes: inet server and NIC driver apart (split), in one (fused), or inside the program,
    /// of which there is one at a time (library)
    #[arg(long, value_enum)]
    pub(crate) mode: Option<Mode>,
    #[arg(long, value_name = "KIND:NAME", help = NIC_HELP)]
    pub(crate) nic: Option<Device>,
    #[arg(short, long, value_name = "PORT,...", value_delimiter = ',', help = PUBLISH_HELP)]
    pub(crate) publish: Vec<Publish>,
    /// The stack's addresses with prefix lengths, IPv4 and IPv6 [default: 10.219.N.2/24, first N
    /// not in use]
    #[arg(long, visible_alias = "ip", value_name = "CIDR,...", value_delimiter = ',')]
    pub(crate) address: Vec<Cidr>,
    /// The host's addresses on the device, the stack's routers, at most one of each family
    /// [default: the first host of the family's first network]
    #[arg(long, value_name = "IP,...", value_delimiter = ',')]
    pub(crate) gateway: Vec<Router>,
    /// IPv6: from routers' advertisements too (auto), as given and link-local only (static), or not
    /// at all (off) [default: auto]
    #[arg(long, value_enum, value_name = "HOW")]
    pub(crate) ipv6: Option<Ipv6Choice>,
    /// Ask a DHCP server on the device's link for the IPv4 address, routes and name servers; the
    /// host's end of the device then gets no IPv4 address
    #[arg(long)]
    pub(crate) dhcp: bool,
    /// Name servers that programs of `tasuki run` ask [default: those that DHCP or routers tell,
    /// else the host's]
    #[arg(long, value_name = "IP,...", value_delimiter = ',')]
    pub(crate) dns: Vec<NameServer>,
    /// Domains that complete short names [default: the domain that DHCP tells]
    #[arg(id = "dns-search", long, value_name = "DOMAIN,...", value_delimiter = ',')]
    pub(crate) dns_search: Vec<SearchDomain>,
    /// Programs of `tasuki run` may have raw sockets, as some kinds of traceroute want; they send
    /// echo requests and datagrams only, from the instance's addresses
    #[arg(id = "raw-sockets", long)]
    pub(crate) raw_sockets: bool,
    /// Read the configuration from FILE (TOML)
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Leave checksums and the splitting of long segments to the device, as far as it can; off with
    /// --fault, except with super_segments=on [default: on]
    #[arg(long, value_enum, value_name = "on|off", hide_possible_values = true)]
    pub(crate) offload: Option<Switch>,
    /// Make faults on the wire: loss=P,duplicate=P,reorder=P,corrupt=P,delay_us=N,seed=N; with
    /// super_segments=on, to whole super-segments, so that many segments are lost (doubled, late)
    /// at once
    #[arg(long, value_name = "KEY=VALUE,...")]
    pub(crate) fault: Option<Fault>,
}

/// The names of all of [`InstanceOptions`]: they mean nothing for an instance that runs already.
pub(super) const INSTANCE_OPTIONS: [&str; 13] = [
    "mode",
    "nic",
    "publish",
    "address",
    "gateway",
    "ipv6",
    "dhcp",
    "dns",
    "dns-search",
    "raw-sockets",
    "config",
    "offload",
    "fault",
];

/// A switch: on or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Switch {
    On,
    Off,
}

/// How the stack comes by IPv6.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Ipv6Choice {
    Auto,
    Static,
    Off,
}

impl Ipv6Choice {
    pub(crate) fn mode(self) -> Ipv6Mode {
        match self {
            Self::Auto => Ipv6Mode::Auto,
            Self::Static => Ipv6Mode::Static,
            Self::Off => Ipv6Mode::Off,
        }
    }
}
