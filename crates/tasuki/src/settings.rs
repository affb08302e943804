//! The settings of an instance: the configuration file, then the command line over it, then checks
//! of values that must fit together.

use std::net::IpAddr;

use abi::client::ClientParams;
use abi::control::{BusyPoll, FaultConfig, TcpDefaults};
use abi::network::{Ipv6Mode, ResolverStatus, RouteSettings};
use abi::xfrm::XfrmRequest;
use rustix::process::Gid;
use sandbox::Demand;
use sandbox::demand::VARIABLE;

use crate::cidr::{self, Cidr};
use crate::cli::{InstanceOptions, Ipv6Choice, Switch};
use crate::config::{Config, Group, InstanceSection, InterfaceSection, List, MemorySection, Mode};
use crate::device::{Device, Kind};
use crate::exit::{Code, Failure};
use crate::network::{Addresses, Routes};
use crate::publish::Publish;
use crate::runtime_dir::InstanceName;

/// All settings of the user. Settings left open are chosen when the instance is made.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) name: InstanceName,
    pub(crate) mode: Mode,
    /// The interfaces, at least one.
    pub(crate) links: Vec<LinkSettings>,
    /// For the frame region.
    pub(crate) huge_pages: bool,
    /// For the regions of clients.
    pub(crate) client_huge_pages: bool,
    pub(crate) strict: bool,
    /// Programs may read received frames in place.
    pub(crate) share_frames: bool,
    pub(crate) clients: usize,
    /// Faults that the programs of one executable get back in a second; 0: they are not counted.
    pub(crate) faults_per_second: u32,
    /// Programs of this group's users may be clients.
    pub(crate) group: Option<Gid>,
    pub(crate) params: ClientParams,
    pub(crate) tcp: TcpDefaults,
    /// How long a waiting thread looks again before it sleeps.
    pub(crate) busy_poll: BusyPoll,
    /// Idle processors may be kept from halting while the instance is busy.
    pub(crate) keep_awake: bool,
    pub(crate) ipv6: Ipv6Mode,
    pub(crate) rp_filter: u8,
    /// Security policies and associations.
    pub(crate) xfrm: Vec<XfrmRequest>,
    /// How much of the servers' sandbox is wanted.
    pub(crate) sandbox: Demand,
    /// Where programs look names up.
    pub(crate) resolver: ResolverStatus,
    /// Programs may have raw sockets.
    pub(crate) raw_sockets: bool,
}

/// The settings of one interface.
#[derive(Debug, Clone)]
pub(crate) struct LinkSettings {
    pub(crate) device: Option<Device>,
    pub(crate) mtu: u16,
    pub(crate) fault: FaultConfig,
    /// Checksums and the cutting of long segments are left to the device.
    pub(crate) offload: bool,
    pub(crate) dhcp: bool,
    pub(crate) publish: Vec<Publish>,
    /// Programs may reach this host's own loopback, also by `passt:`.
    pub(crate) host_loopback: bool,
    addresses: Option<Addresses>,
    dad_transmits: Option<u8>,
}

/// Most interfaces: each has a driver and a frame region of its own.
const MOST_LINKS: usize = 16;
/// Most of them in mode `library`: their lines reach the program in one message.
const MOST_INSIDE: usize = 7;
/// Most interfaces whose frames can be shared. Their regions go to a program in one message, with
/// two descriptors more.
const MOST_SHARED: usize = shm::channel::MAX_FDS - 2;

impl Settings {
    /// For an instance of this name.
    ///
    /// # Errors
    /// [`Code::Configuration`]; a fault in the file alone is reported with the file's name.
    pub(crate) fn new(name: InstanceName, options: &InstanceOptions) -> Result<Self, Failure> {
        let config =
            options.config.as_deref().map_or_else(|| Ok(Config::default()), Config::load)?;
        let given = !options.address.is_empty() || !options.gateway.is_empty();
        let path = options.config.as_ref();
        let file = path.map_or(String::new(), |path| format!("{}: ", path.display()));
        let wrong = |sentence: String| Failure::new(Code::Configuration, sentence);
        let in_file = |sentence: String| wrong(format!("{file}{sentence}"));
        let inet = config.inet;
        let ipv6 = options.ipv6.map_or(inet.ipv6, Ipv6Choice::mode);
        let more = config.interfaces.iter().flat_map(|section| &section.address.0);
        let mut all = options.address.iter().chain(&inet.address.0).chain(more);
        if ipv6 == Ipv6Mode::Off
            && let Some(six) = all.find(|a| !a.is_ipv4())
        {
            return Err(wrong(format!("IPv6 is off, but the stack is to have the address {six}")));
        }
        let mode = options.mode.unwrap_or(config.instance.mode);
        let most = if mode == Mode::Library { MOST_INSIDE } else { MOST_LINKS };
        if config.interfaces.len() >= most {
            return Err(in_file(format!("in mode {mode} there can be at most {most} interfaces")));
        }
        let or = |given: &[Cidr], file| if given.is_empty() { file } else { given.to_vec() };
        let gateways =
            if options.gateway.is_empty() { inet.gateway.0 } else { options.gateway.clone() };
        let first = InterfaceSection {
            device: options.nic.clone().or(config.nic.device),
            mtu: config.nic.mtu,
            offload: options.offload.map(|switch| switch == Switch::On).or(config.nic.offload),
            publish: match &options.publish[..] {
                [] => config.nic.publish,
                given => List(given.to_vec()),
            },
            address: List(or(&options.address, inet.address.0)),
            gateway: List(gateways),
            dad_transmits: inet.dad_transmits,
            dhcp: options.dhcp || inet.dhcp,
            routes: inet.routes,
            fault: options.fault.unwrap_or(config.nic.fault),
        };
        let first = LinkSettings::new(first)
            .map_err(|what| if given { wrong(what) } else { in_file(what) })?;
        let more = config.interfaces.into_iter().map(LinkSettings::new);
        let more = more.collect::<Result<Vec<_>, _>>().map_err(in_file)?;
        let links = [vec![first], more].concat();
        check_choices(inet.rp_filter, &config.tcp).map_err(in_file)?;
        check_sharing(&config.memory, links.len(), mode).map_err(in_file)?;
        Ok(Self {
            name,
            mode,
            resolver: resolver(options, &config.instance, &links, ipv6),
            raw_sockets: options.raw_sockets || config.instance.raw_sockets,
            links,
            huge_pages: config.memory.huge_pages,
            client_huge_pages: config.memory.client.huge_pages,
            strict: config.memory.strict,
            share_frames: config.memory.share_frames,
            clients: config.instance.clients.narrow().into(),
            faults_per_second: config.instance.faults_per_second.narrow().into(),
            group: group(&config.instance, &config.memory, mode).map_err(in_file)?,
            ipv6,
            rp_filter: inet.rp_filter,
            xfrm: config.xfrm.requests(mode != Mode::Library).map_err(in_file)?,
            sandbox: sandbox()?,
            params: config.memory.client.params().map_err(in_file)?,
            tcp: config.tcp,
            busy_poll: busy_poll(config.instance.busy_poll.0),
            keep_awake: config.instance.keep_awake,
        })
    }
}

/// The configured name servers and domains; or the instance may learn some.
fn resolver(
    options: &InstanceOptions,
    section: &InstanceSection,
    links: &[LinkSettings],
    ipv6: Ipv6Mode,
) -> ResolverStatus {
    let (dns, search) = (&options.dns, &options.dns_search);
    let dns = if dns.is_empty() { &section.dns.0 } else { dns };
    let search = if search.is_empty() { &section.search.0 } else { search };
    let advertised = |link: &LinkSettings| {
        let shared = link.device.as_ref().is_some_and(|device| device.kind().is_shared());
        ipv6 == Ipv6Mode::Auto && shared
    };
    let learns = links.iter().any(|link| link.dhcp || advertised(link));
    ResolverStatus {
        servers: dns.iter().map(|server| server.0).collect(),
        search: search.iter().map(|domain| domain.0.clone()).collect(),
        learns: dns.is_empty() && learns,
    }
}

/// How much of the sandbox the user wants.
///
/// # Errors
/// [`Code::Configuration`] for a word that means nothing.
pub(crate) fn sandbox() -> Result<Demand, Failure> {
    Demand::from_variable(std::env::var_os(VARIABLE).as_deref())
        .map_err(|sentence| Failure::new(Code::Configuration, sentence))
}

/// How long waiting threads look again. With one processor nothing happens while they do.
fn busy_poll(wanted: BusyPoll) -> BusyPoll {
    // The machine's processors, such as "0-3": other processes work for us on processors where we
    // may not run.
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online");
    let one = online.is_ok_and(|online| !online.contains(['-', ',']));
    if one && wanted == BusyPoll::Auto { BusyPoll::OFF } else { wanted }
}

/// Are the keys that choose one of three in their range?
fn check_choices(rp_filter: u8, tcp: &TcpDefaults) -> Result<(), String> {
    for (key, value) in [
        ("inet.rp_filter", Some(rp_filter)),
        ("tcp.ecn", tcp.ecn),
        ("tcp.mtu_probing", tcp.mtu_probing),
        ("tcp.syncookies", tcp.syncookies),
        ("tcp.tw_reuse", tcp.tw_reuse),
    ] {
        if let Some(value) = value.filter(|&value| value > 2) {
            return Err(format!("{key} = {value} is not in 0 to 2"));
        }
    }
    Ok(())
}

/// The group whose users' programs may be clients.
fn group(
    instance: &InstanceSection,
    memory: &MemorySection,
    mode: Mode,
) -> Result<Option<Gid>, String> {
    let Some(Group(group)) = instance.group else { return Ok(None) };
    let with = match (memory.share_frames, mode, rustix::process::geteuid().is_root()) {
        (true, _, _) => "memory.share_frames, by which programs read the frames of all others",
        (_, Mode::Library, _) => "mode library, in which a program has the devices",
        (_, _, false) => "an instance that is not root's: its directory is closed to others",
        _ => return Ok(Some(group)),
    };
    Err(format!("instance.group lets other users' programs in; it does not go with {with}"))
}

/// Can frames be shared, if they are to be?
fn check_sharing(memory: &MemorySection, links: usize, mode: Mode) -> Result<(), String> {
    if !memory.share_frames {
        return Ok(());
    }
    if memory.strict {
        return Err("memory.strict takes pages away from whoever does not own them, and \
                    memory.share_frames lets programs read pages that they do not own: choose one"
            .to_owned());
    }
    if mode == Mode::Library {
        return Err("memory.share_frames is for the modes split and fused; in mode library the \
                    program's own process has the frames"
            .to_owned());
    }
    if links > MOST_SHARED {
        return Err(format!(
            "memory.share_frames is for at most {MOST_SHARED} interfaces, not {links}"
        ));
    }
    Ok(())
}

impl LinkSettings {
    fn new(section: InterfaceSection) -> Result<Self, String> {
        let InterfaceSection {
            device,
            mtu,
            offload,
            publish,
            address,
            gateway,
            dad_transmits,
            dhcp,
            routes,
            fault,
        } = section;
        let device = match device {
            Some(device) if !publish.0.is_empty() && device.kind() != Kind::Passt => {
                return Err(format!(
                    "ports are published by passt: only; on {device} the stack is reached at its \
                     own address"
                ));
            }
            None if !publish.0.is_empty() => Some(Device::passt()),
            device => device,
        };
        if dhcp && let Some(four) = address.0.iter().find(|cidr| cidr.is_ipv4()) {
            return Err(format!(
                "the stack is to have the address {four}, and to get its IPv4 address by DHCP: \
                 leave one out"
            ));
        }
        let gateways = gateway.0.into_iter().map(|router| router.0).collect();
        let routes = routes.iter().map(|route| RouteSettings {
            to: route.to,
            via: route.via.map(|router| router.0),
            metric: route.metric,
        });
        let addresses = addresses(address.0, gateways, routes.collect())?;
        if let Some(device) = device.as_ref().filter(|device| !device.host_end())
            && addresses.is_none()
            && !dhcp
        {
            return Err(format!(
                "on {device} the stack needs an address of that network: give --address \
                 (inet.address), or --dhcp"
            ));
        }
        let fault = fault.0;
        // Faults happen to frames as they are on a wire, so there are no super-segments, unless the
        // setting says otherwise.
        let offload = offload.unwrap_or(true) && (fault.is_none() || fault.super_segments);
        Ok(Self {
            device,
            mtu: mtu.0.narrow(),
            fault,
            offload,
            publish: publish.0,
            host_loopback: false,
            dhcp,
            addresses,
            dad_transmits: dad_transmits.and_then(|transmits| u8::try_from(transmits.0).ok()),
        })
    }

    /// Probes for each IPv6 address of the stack before it is used, on a device of this kind. It is
    /// one, as on Linux, where more stations than this host and the stack may be on the link. A TAP
    /// device counts as such a link if a DHCP server is expected there, because it is meant to be
    /// put into a bridge.
    pub(crate) fn dad_transmits(&self, kind: Kind) -> u8 {
        let shared = kind.is_shared() || kind == Kind::Tap && self.dhcp;
        self.dad_transmits.unwrap_or(u8::from(shared))
    }

    /// The requested addresses, or free ones. Hold the lock of the directory until the device has
    /// them.
    ///
    /// # Errors
    /// [`Code::InUse`]
    pub(crate) fn addresses(&self, routes: &Routes) -> Result<Addresses, Failure> {
        match &self.addresses {
            Some(addresses) if self.device.as_ref().is_some_and(|device| !device.host_end()) => {
                routes.check_guest(addresses).map(|()| addresses.clone())
            }
            Some(addresses) => routes.check(addresses).map(|()| addresses.clone()),
            // A server will say.
            None if self.dhcp => Ok(Addresses { stack: vec![], gateways: vec![], routes: vec![] }),
            None => routes.choose(),
        }
    }
}

/// The requested addresses, completed; `None` when none was requested.
fn addresses(
    stack: Vec<Cidr>,
    mut gateways: Vec<IpAddr>,
    routes: Vec<RouteSettings>,
) -> Result<Option<Addresses>, String> {
    for (at, cidr) in stack.iter().enumerate() {
        if stack[..at].iter().any(|other| other.address() == cidr.address()) {
            return Err(format!("the address {} is given twice", cidr.address()));
        }
    }
    for (at, &gateway) in gateways.iter().enumerate() {
        if gateways[..at].iter().any(|other| other.is_ipv4() == gateway.is_ipv4()) {
            return Err(format!("{gateway} is a second gateway of its family; give one of each"));
        }
        check_hop("gateway", gateway, &stack)?;
    }
    for route in &routes {
        if let Some(via) = route.via {
            if via.is_ipv4() != route.to.address.is_ipv4() {
                return Err(format!("the route to {} cannot go via {via}: two families", route.to));
            }
            check_hop("router", via, &stack)?;
        }
        if cidr::network(route.to.address, route.to.prefix) != route.to.address {
            return Err(format!("the route's destination {} has bits behind its prefix", route.to));
        }
    }
    if stack.is_empty() {
        return match routes.first() {
            None => Ok(None),
            Some(route) => {
                Err(format!("the route to {} needs an address: give inet.address", route.to))
            }
        };
    }
    for ipv4 in [true, false] {
        let has = gateways.iter().any(|gateway| gateway.is_ipv4() == ipv4);
        let first = stack.iter().find(|cidr| cidr.is_ipv4() == ipv4);
        gateways.extend(first.filter(|_| !has).map(|cidr| cidr.first_other_host()));
    }
    Ok(Some(Addresses { stack, gateways, routes }))
}

/// A router must be another host on the link.
fn check_hop(what: &str, hop: IpAddr, stack: &[Cidr]) -> Result<(), String> {
    let mut family = stack.iter().filter(|cidr| cidr.is_ipv4() == hop.is_ipv4()).peekable();
    let Some(first) = family.peek() else {
        return Err(format!(
            "the {what} {hop} needs an address beside it: give --address (inet.address) too, in \
             the same network"
        ));
    };
    let (network, prefix) = (first.network(), first.prefix());
    let link_local = matches!(hop, IpAddr::V6(v6) if v6.is_unicast_link_local());
    if link_local && !stack.iter().any(|cidr| cidr.address() == hop)
        || family.any(|cidr| cidr.is_other_host(hop))
    {
        return Ok(());
    }
    Err(format!(
        "the {what} {hop} is not another host's address in the stack's network ({network}/{prefix})"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(options: &InstanceOptions) -> Result<Settings, Failure> {
        Settings::new("a".parse().unwrap(), options)
    }

    #[test]
    fn addresses_are_completed_and_checked() {
        let given = |stack: &str, gateways: &str| {
            let stack = stack.split_whitespace().map(|text| text.parse().unwrap()).collect();
            let gateways = gateways.split_whitespace().map(|text| text.parse().unwrap()).collect();
            let found = addresses(stack, gateways, vec![])?;
            Ok::<_, String>(found.map(|found| {
                let gateways: Vec<_> = found.gateways.iter().map(IpAddr::to_string).collect();
                gateways.join(" ")
            }))
        };
        let gateways = |text: &str| Ok(Some(text.to_owned()));
        assert_eq!(given("", ""), Ok(None));
        assert_eq!(given("10.0.0.2/24", ""), gateways("10.0.0.1"));
        assert_eq!(given("10.0.0.1/24", ""), gateways("10.0.0.2"));
        assert_eq!(given("10.0.0.2/24", "10.0.0.9"), gateways("10.0.0.9"));
        assert_eq!(given("10.0.0.2/24 fd00::2/64", ""), gateways("10.0.0.1 fd00::1"));
        assert_eq!(given("fd00::2/64", ""), gateways("fd00::1"));
        assert_eq!(given("fd00::2/64 10.0.0.2/24", "fe80::1"), gateways("fe80::1 10.0.0.1"));
        assert_eq!(given("10.0.0.2/24 10.1.0.2/24", "10.1.0.1"), gateways("10.1.0.1"));
        for (address, gateway) in [
            ("", "10.0.0.1"),
            ("10.0.0.2/24", "10.0.0.2"),
            ("10.0.0.2/24", "10.0.1.1"),
            ("10.0.0.2/24", "10.0.0.255"),
            ("10.0.0.2/24", "fd00::1"),
            ("fe80::2/64", "fe80::2"),
            ("10.0.0.2/24", "10.0.0.1 10.0.0.3"),
            ("10.0.0.2/24 10.0.0.2/16", ""),
        ] {
            assert!(given(address, gateway).is_err(), "{address} {gateway}");
        }
    }

    #[test]
    fn routes_go_over_the_link() {
        let route = |to: &str, via: &str| {
            let route = RouteSettings { to: to.parse().unwrap(), via: via.parse().ok(), metric: 0 };
            addresses(vec!["10.0.0.2/24".parse().unwrap()], vec![], vec![route]).map(drop)
        };
        assert_eq!(route("192.0.2.0/24", "10.0.0.9"), Ok(()));
        assert_eq!(route("192.0.2.0/24", ""), Ok(()));
        assert!(route("192.0.2.0/24", "10.0.1.9").unwrap_err().contains("10.0.1.9"));
        assert!(route("192.0.2.1/24", "10.0.0.9").unwrap_err().contains("bits"));
        assert!(route("2001:db8::/32", "10.0.0.9").unwrap_err().contains("families"));
    }

    #[test]
    fn the_command_line_wins_over_the_file() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let text = "[instance]\nmode = \"fused\"\n[nic]\ndevice = \"tap:one\"\nmtu = 1400\n\
                    [nic.fault]\nloss = 0.5\n[inet]\naddress = \"10.1.0.2/24\"\n";
        std::io::Write::write_all(&mut file, text.as_bytes()).unwrap();
        let mut options =
            InstanceOptions { config: Some(file.path().to_owned()), ..Default::default() };
        let found = settings(&options).unwrap();
        let link = found.links[0].clone();
        assert_eq!((found.mode, link.mtu, link.fault.loss), (Mode::Fused, 1400, 0.5));
        assert_eq!(link.device.unwrap().name(), "one");
        options.mode = Some(Mode::Split);
        options.nic = Some("tap:two".parse().unwrap());
        options.fault = Some("duplicate=0.1".parse().unwrap());
        options.address = vec!["10.2.0.2/24".parse().unwrap()];
        let found = settings(&options).unwrap();
        let link = found.links[0].clone();
        assert_eq!((found.mode, link.fault.loss, link.fault.duplicate), (Mode::Split, 0.0, 0.1));
        assert_eq!(link.device.unwrap().name(), "two");
        assert_eq!(link.addresses.unwrap().gateways, ["10.2.0.1".parse::<IpAddr>().unwrap()]);
    }

    #[test]
    fn addresses_are_probed_where_others_may_have_them() {
        let with = |text: &str| {
            let mut file = tempfile::NamedTempFile::new().unwrap();
            std::io::Write::write_all(&mut file, text.as_bytes()).unwrap();
            let config = Some(file.path().to_owned());
            let options = InstanceOptions { config, ..Default::default() };
            settings(&options).map(|found| found.links[0].clone())
        };
        let alone = with("").unwrap();
        for (kind, probes) in [
            (Kind::Tap, 0),
            (Kind::Passt, 0),
            (Kind::Pcap, 0),
            (Kind::Wire, 0),
            (Kind::Packet, 1),
            (Kind::Xdp, 1),
        ] {
            assert_eq!(alone.dad_transmits(kind), probes, "{kind:?}");
        }
        let bridged = with("[inet]\ndhcp = true\n").unwrap();
        assert_eq!(bridged.dad_transmits(Kind::Tap), 1);
        let given = with("[inet]\ndad_transmits = 3\n").unwrap();
        assert_eq!((given.dad_transmits(Kind::Tap), given.dad_transmits(Kind::Packet)), (3, 3));
        let off = with("[inet]\ndad_transmits = 0\n").unwrap();
        assert_eq!(off.dad_transmits(Kind::Packet), 0);
        let failure = with("[inet]\ndad_transmits = 6\n").unwrap_err();
        assert!(failure.sentence.contains("6 is not in 0 to 5"), "{failure}");
    }

    #[test]
    fn frames_are_shared_where_that_can_be() {
        let (split, library) = (Mode::Split, Mode::Library);
        let share = MemorySection { share_frames: true, ..MemorySection::default() };
        assert_eq!(check_sharing(&share, MOST_SHARED, split), Ok(()));
        assert!(check_sharing(&share, MOST_SHARED + 1, split).unwrap_err().contains("not 7"));
        assert!(check_sharing(&share, 1, library).unwrap_err().contains("split and fused"));
        let strict = MemorySection { strict: true, ..share };
        assert!(check_sharing(&strict, 1, split).unwrap_err().contains("choose one"));
        let not = MemorySection { share_frames: false, ..strict };
        assert_eq!(check_sharing(&not, 16, library), Ok(()));
    }

    #[test]
    fn dhcp_leaves_the_ipv4_address_to_a_server() {
        let with = |words: &str| {
            let address = words.split_whitespace().map(|text| text.parse().unwrap()).collect();
            let options = InstanceOptions { dhcp: true, address, ..Default::default() };
            settings(&options).map(|settings| settings.links[0].clone())
        };
        let none = with("").unwrap().addresses(&Routes::read().unwrap()).unwrap();
        assert_eq!((none.stack.len(), none.gateways.len()), (0, 0));
        let six = with("fd00:219:99::2/64").unwrap().addresses(&Routes::read().unwrap()).unwrap();
        assert_eq!((six.stack.len(), six.gateways.len()), (1, 1));
        let failure = with("10.0.0.2/24").unwrap_err();
        assert_eq!(failure.code, Code::Configuration);
        assert!(failure.sentence.contains("10.0.0.2/24"), "{failure}");
        assert!(!settings(&InstanceOptions::default()).unwrap().links[0].dhcp);
    }

    #[test]
    fn who_publishes_ports_has_passt() {
        let with = |nic: Option<&str>| {
            let nic = nic.map(|text| text.parse().unwrap());
            let publish = vec!["8080:80".parse().unwrap()];
            let options = InstanceOptions { nic, publish, ..Default::default() };
            settings(&options).map(|settings| settings.links[0].device.clone().unwrap().kind())
        };
        assert_eq!(with(None).unwrap(), Kind::Passt);
        assert_eq!(with(Some("passt:")).unwrap(), Kind::Passt);
        let failure = with(Some("tap:x")).unwrap_err();
        assert!(failure.sentence.contains("passt: only; on tap:x"), "{failure}");
    }

    #[test]
    fn interfaces_come_in_the_order_of_the_file() {
        let with = |text: &str| {
            let mut file = tempfile::NamedTempFile::new().unwrap();
            std::io::Write::write_all(&mut file, text.as_bytes()).unwrap();
            let config = Some(file.path().to_owned());
            settings(&InstanceOptions { config, ..Default::default() })
        };
        let found = with(
            "[nic]\nmtu = 1400\n[[interface]]\naddress = \"10.9.0.2/24\"\n\
             [[interface]]\ndhcp = true\nmtu = 1300\n",
        );
        let links = found.unwrap().links;
        let seen: Vec<_> = links.iter().map(|link| (link.mtu, link.dhcp)).collect();
        assert_eq!(seen, [(1400, false), (1500, false), (1300, true)]);
        let gateways = &links[1].addresses.as_ref().unwrap().gateways;
        assert_eq!(gateways[..], ["10.9.0.1".parse::<IpAddr>().unwrap()]);
        for text in [
            "[[interface]]\ngateway = \"10.9.0.1\"\n",
            "[[interface]]\ndhcp = true\naddress = \"10.9.0.2/24\"\n",
            "[inet]\nipv6 = \"off\"\n[[interface]]\naddress = \"fd00::2/64\"\n",
            &"[[interface]]\n".repeat(16),
        ] {
            assert_eq!(with(text).unwrap_err().code, Code::Configuration, "{text}");
        }
    }

    #[test]
    fn a_file_that_is_not_there() {
        let options = InstanceOptions { config: Some("/none/x.toml".into()), ..Default::default() };
        let failure = settings(&options).unwrap_err();
        assert_eq!(failure.code, Code::Configuration);
        assert!(failure.sentence.contains("/none/x.toml"), "{failure}");
    }
}
