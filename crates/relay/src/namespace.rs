//! The relay's own network namespace, in which the programs' kernel sockets are.
//!
//! A socket belongs for good to the network namespace that it was made in, whichever process uses
//! it. The relay makes sockets here and hands them to programs. This namespace has no device but
//! its own loopback and one TUN device, whose other end is the relay. So nothing that a program
//! does with such a socket can reach the host's network.
//!
//! ```text
//!   program's socket  L:p ──▶ P:q    by tun0 to the relay, for every P: an address of this
//!                                    instance and 127.0.0.1 are no exception
//!   relay's socket    P:q ──▶ L:p    by lo; it has P's own address (IP_TRANSPARENT)
//!   packet from tun0                 is for this machine, whatever its addresses say
//!   raw socket        ──▶ 127.x      by lo: like ::1, it is this namespace alone
//! ```
//!
//! Four rules do this. The relay's own sockets have a mark, by which the first rule knows them, and
//! raw sockets have another.

#![allow(unsafe_code)]

use std::ffi::CStr;
use std::fmt;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use abi::network::{AddressStatus, NetworkStatus};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::thread::UnshareFlags;

use crate::mirror::{self, Mirror};
use crate::route::{Route, RouteSocket, Rule, TABLE_LOCAL, everywhere, width};
use crate::system::check;

/// The mark (SO_MARK) of the relay's own sockets.
pub(crate) const MARK: u32 = 1;
/// The mark of programs' raw sockets, and of what the kernel answers to their packets.
pub(crate) const RAW_MARK: u32 = 2;
/// The device's name.
const NAME: &CStr = c"tun0";
/// The longest packet. Nothing is fragmented on this device.
const MTU: u32 = 65_535;
/// Routes of packets that come from the device.
const TABLE_ARRIVED: u32 = 100;
/// Routes of packets of raw sockets, before those of all.
const TABLE_RAW: u32 = 150;
/// Routes of packets that programs send.
const TABLE_SENT: u32 = 200;
/// The loopback device of every namespace.
const LOOPBACK: u32 = 1;

/// The namespace, as long as this process and the sockets in it are there.
pub(crate) struct Namespace {
    routes: RouteSocket,
    device: u32,
    mirror: Mirror,
    addresses: Vec<IpAddr>,
    /// The same, on which interface and with which prefix.
    assigned: Vec<(u32, (IpAddr, u8))>,
    /// Addresses that stand for the host.
    hosts: Vec<IpAddr>,
}

/// Why there is no namespace for a relay.
#[derive(Debug)]
pub(crate) enum EnterError {
    NoNamespace(Errno),
    NoDevice(io::Error),
    NotFurnished(io::Error),
}

impl fmt::Display for EnterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoNamespace(Errno::NOSPC) => f.write_str(
                "a relay needs a network namespace, and the sysctl user.max_net_namespaces allows \
                 this user none",
            ),
            Self::NoNamespace(errno) => write!(
                f,
                "a relay needs a network namespace, and the system refuses this user one: {errno}"
            ),
            Self::NoDevice(error) => match error.kind() {
                io::ErrorKind::NotFound => f.write_str(
                    "a relay needs /dev/net/tun, and there is none (of a container: --device \
                     /dev/net/tun)",
                ),
                io::ErrorKind::PermissionDenied => {
                    f.write_str("a relay needs /dev/net/tun, and this user may not open it")
                }
                _ => write!(f, "a relay needs a TUN device, and the system makes none: {error}"),
            },
            Self::NotFurnished(error) => {
                write!(f, "a relay's network namespace cannot be configured: {error}")
            }
        }
    }
}

impl Namespace {
    /// Moves this process into a new namespace. Returns it, and the relay's end of its TUN device.
    /// Sockets reach `hosts` also where the instance has no address of that family.
    ///
    /// # Errors
    /// What the system refuses.
    pub(crate) fn enter(hosts: Vec<IpAddr>) -> Result<(Self, OwnedFd), EnterError> {
        // SAFETY: the flag concerns no memory, descriptor table or working directory.
        unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }
            .map_err(EnterError::NoNamespace)?;
        let tun = open_device().map_err(EnterError::NoDevice)?;
        let made = Self::furnish(hosts).map_err(EnterError::NotFurnished)?;
        Ok((made, tun))
    }

    /// Gives the new namespace its settings, routes and rules.
    fn furnish(hosts: Vec<IpAddr>) -> io::Result<Self> {
        let routes = RouteSocket::new()?;
        // By a call, as /sys may be another namespace's.
        let device = device_index()?;
        configure_kernel(&routes, device)?;
        routes.set_up(LOOPBACK, None)?;
        routes.set_up(device, Some(MTU))?;
        let (mirror, addresses, assigned) = (Mirror::new(), vec![], vec![]);
        let namespace = Self { routes, device, mirror, addresses, assigned, hosts };
        namespace.add_rules()?;
        namespace.lead_to_hosts()?;
        Ok(namespace)
    }

    fn add_rules(&self) -> io::Result<()> {
        for v6 in [false, true] {
            let rule = Rule { priority: 0, mark: None, from_interface: None, table: TABLE_LOCAL };
            let ours = Rule { priority: 10, mark: Some(MARK), ..rule };
            self.routes.rule(v6, ours)?;
            let arrived =
                Rule { priority: 20, from_interface: Some("tun0"), table: TABLE_ARRIVED, ..rule };
            self.routes.rule(v6, arrived)?;
            self.routes.rule(v6, Rule { priority: 30, table: TABLE_SENT, ..rule })?;
            self.routes.route(Route {
                to: everywhere(v6),
                interface: LOOPBACK,
                table: TABLE_ARRIVED,
                local: true,
                source: None,
            })?;
            self.routes.remove_rule(v6, rule)?;
        }
        // The kernel takes ::1 from no device but its loopback, so packets to it stay there.
        self.routes.route(Route {
            to: (Ipv6Addr::LOCALHOST.into(), 128),
            interface: LOOPBACK,
            table: TABLE_SENT,
            local: true,
            source: Some(Ipv6Addr::LOCALHOST.into()),
        })?;
        let by_relay = Route {
            to: (Ipv4Addr::new(127, 0, 0, 0).into(), 8),
            interface: self.device,
            table: TABLE_SENT,
            local: false,
            source: Some(Ipv4Addr::LOCALHOST.into()),
        };
        self.routes.route(by_relay)?;
        // A raw socket's packets have no one port by which the relay could bring the answers back,
        // and the instance has no sockets for most of them.
        let (mark, table) = (Some(RAW_MARK), TABLE_RAW);
        self.routes.rule(false, Rule { priority: 15, mark, from_interface: None, table })?;
        let interface = LOOPBACK;
        self.routes.route(Route { interface, table, local: true, ..by_relay })
    }

    /// The programs' sockets have the addresses of the instance from now on, and programs see its
    /// interfaces. The first address of each family is that of unbound sockets.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn show(&mut self, network: &NetworkStatus) -> io::Result<()> {
        let mut assigned = Vec::new();
        for interface in &network.interfaces {
            let link = self.mirror.link(&self.routes, interface);
            for one in interface.addresses.iter().filter(|one| is_usable(one)) {
                assigned.push(match link {
                    Some(link) => (link, (one.address, one.prefix)),
                    None => (self.device, (one.address, width(one.address))),
                });
            }
        }
        self.assign(assigned)?;
        self.mirror.show_routes(&self.routes, network);
        Ok(())
    }

    fn assign(&mut self, assigned: Vec<(u32, (IpAddr, u8))>) -> io::Result<()> {
        if self.assigned == assigned {
            return Ok(());
        }
        for (device, old) in self.assigned.iter().filter(|old| !assigned.contains(old)) {
            self.routes.address(*device, *old, false)?;
        }
        for (device, new) in assigned.iter().filter(|new| !self.assigned.contains(new)) {
            self.routes.address(*device, *new, true)?;
        }
        self.addresses = assigned.iter().map(|(_, (address, _))| *address).collect();
        for v6 in [false, true] {
            if let Some(source) = self.address(v6) {
                self.routes.route(Route {
                    to: everywhere(v6),
                    interface: self.device,
                    table: TABLE_SENT,
                    local: false,
                    source: Some(source),
                })?;
            }
        }
        self.assigned = assigned;
        self.lead_to_hosts()
    }

    /// Sockets reach the host: from the instance's address, or else from one beside the host's.
    fn lead_to_hosts(&self) -> io::Result<()> {
        for &host in &self.hosts {
            let source = self.address(host.is_ipv6());
            let own = beside(host);
            if source.is_none() {
                self.routes.address(self.device, (own, width(own)), true)?;
            }
            self.routes.route(Route {
                to: (host, width(host)),
                interface: self.device,
                table: TABLE_SENT,
                local: false,
                source: source.or(Some(own)),
            })?;
        }
        Ok(())
    }

    /// The number by which the kernel knows our rtnetlink socket.
    pub(crate) fn routes_number(&self) -> u32 {
        self.routes.number()
    }

    /// Does the address lead back to this instance?
    pub(crate) fn is_own(&self, address: IpAddr) -> bool {
        let beside_host = || self.hosts.iter().any(|host| beside(*host) == address);
        address.is_loopback() || self.addresses.contains(&address) || beside_host()
    }

    /// The first address of a family.
    pub(crate) fn address(&self, v6: bool) -> Option<IpAddr> {
        self.addresses.iter().copied().find(|address| address.is_ipv6() == v6)
    }
}

/// The address whose last bit differs.
fn beside(host: IpAddr) -> IpAddr {
    match host {
        IpAddr::V4(host) => Ipv4Addr::from_bits(host.to_bits() ^ 1).into(),
        IpAddr::V6(host) => Ipv6Addr::from_bits(host.to_bits() ^ 1).into(),
    }
}

/// Can programs' sockets have this address?
fn is_usable(one: &AddressStatus) -> bool {
    let link_local = matches!(one.address, IpAddr::V6(a) if a.is_unicast_link_local());
    let unsure = matches!(&*one.state, "tentative" | "dadfailed");
    !one.address.is_loopback() && !link_local && !unsure
}

/// Packets come back from the device with addresses of this namespace, so the usual checks of
/// addresses do not fit.
///
/// In most containers /proc/sys is read-only. So the device is configured by rtnetlink, and a file
/// is written only if it has another value. What this leaves undone costs something at most.
fn configure_kernel(routes: &RouteSocket, device: u32) -> io::Result<()> {
    routes.accept_own_addresses(device)?;
    // The larger one of a device's value and this counts. A new namespace has the host's.
    set("ipv4/conf/all/rp_filter", "0").map_err(|error| {
        let found = fs::read_to_string("/proc/sys/net/ipv4/conf/all/rp_filter");
        let found = found.unwrap_or_default();
        io::Error::other(format!("net.ipv4.conf.all.rp_filter is {}: {error}", found.trim()))
    })?;
    // The shown interfaces have no addresses of their own, and ask nobody. Without IPv6 there is
    // nothing to say.
    for (key, value) in [
        ("ipv4/conf/default/rp_filter", "0"),
        ("ipv6/conf/default/addr_gen_mode", "1"),
        ("ipv6/conf/default/router_solicitations", "0"),
        // A program binds ports below 1024 here only; the instance has its own rule. Most programs
        // may anyway, as this namespace belongs to their user.
        ("ipv4/ip_unprivileged_port_start", "0"),
        // As within a host: programs of this relay get every ICMP error about each other's ports. A
        // kernel without these keys limits them.
        // Answers to packets of raw sockets go the packets' way.
        ("ipv4/fwmark_reflect", "1"),
        ("ipv4/icmp_ratelimit", "0"),
        ("ipv4/icmp_ratemask", "0"),
        ("ipv6/icmp/ratelimit", "0"),
        ("ipv4/icmp_msgs_per_sec", "1000000"),
        ("ipv4/icmp_msgs_burst", "1000000"),
    ] {
        if let Err(error) = set(key, value) {
            tracing::debug!(%error, key, "a relay's network namespace keeps its value");
        }
    }
    // Sockets of IPPROTO_ICMP are made by this process. A user namespace may have one group only.
    let ping = "ipv4/ping_group_range";
    let group = rustix::process::getegid().as_raw();
    let all = set(ping, "0\t2147483647").or_else(|_| set(ping, &format!("{group}\t{group}")));
    if let Err(error) = all {
        tracing::debug!(%error, "programs behind the relay have no sockets for echo requests");
    }
    Ok(())
}

/// Gives a key of this network namespace its value, if it has another one.
fn set(key: &str, value: &str) -> io::Result<()> {
    let path = format!("/proc/sys/net/{key}");
    match fs::read_to_string(&path) {
        Ok(found) if found.trim() == value => Ok(()),
        _ => fs::write(path, value),
    }
}

/// A TUN device with checksum and segmentation offload, in this namespace.
fn open_device() -> io::Result<OwnedFd> {
    const FLAGS: libc::c_int = libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
    const OFFLOADS: libc::c_uint = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6;
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let tun = rustix::fs::open(c"/dev/net/tun", flags, Mode::empty())?;
    // A number that none of the shown interfaces has.
    mirror::set_index(&tun, 1 << 20)?;
    let mut request = request();
    request.ifr_ifru.ifru_flags = FLAGS as libc::c_short;
    // SAFETY: TUNSETIFF reads and writes one ifreq.
    check(unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNSETIFF, &raw mut request) })?;
    // SAFETY: TUNSETOFFLOAD takes a number.
    check(unsafe {
        libc::ioctl(tun.as_raw_fd(), libc::TUNSETOFFLOAD, libc::c_ulong::from(OFFLOADS))
    })?;
    Ok(tun)
}

fn device_index() -> io::Result<u32> {
    // SAFETY: no pointers.
    let socket = check(unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM, 0) })?;
    // SAFETY: just made, and nobody else's.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    let mut request = request();
    // SAFETY: SIOCGIFINDEX reads the name and writes the index of one ifreq.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFINDEX as _, &raw mut request) })?;
    // SAFETY: the call wrote this field.
    let index = unsafe { request.ifr_ifru.ifru_ifindex };
    u32::try_from(index).map_err(io::Error::other)
}

/// A request that names the device.
fn request() -> libc::ifreq {
    // SAFETY: an ifreq is bytes and numbers, for which zero is a value.
    let mut request: libc::ifreq = unsafe { core::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(NAME.to_bytes()) {
        *to = from.cast_signed();
    }
    request
}
