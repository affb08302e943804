//! The stack's interfaces by the calls that programs know: getifaddrs, if_nametoindex and its
//! relatives, and the SIOCGIF ioctls on Tasuki sockets.
//!
//! A program that runs on Tasuki sees the stack's interfaces and addresses, not the host's. Each
//! call asks the instance anew: such calls are rare, and addresses change.

#![allow(unsafe_code)]

use core::ffi::{CStr, c_char, c_int, c_uint};
use core::mem::size_of;
use core::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV6};
use core::ptr::null_mut;

use abi::network::{AddressStatus, InterfaceStatus};
use libc::{ifaddrs, ifreq, sockaddr, sockaddr_in, sockaddr_storage};
use rustix::io::Errno;
use sockets::Family;

use crate::errno::Outcome;
use crate::interpose::interpose;
use crate::pointers::{can_fill, can_read, can_write};
use crate::sockaddr::to_bytes;
use crate::{departure, instance, real};

/// Bytes of an interface's name with the zero behind it.
const NAME: usize = libc::IFNAMSIZ;

/// Linux's usual length of an interface's transmit queue, which SIOCGIFTXQLEN tells.
const QUEUE: c_int = 1000;

/// All interfaces. As on Linux, the loopback interface is the first.
///
/// # Errors
/// ENONET in a network namespace of the process's own, whose interfaces the kernel knows.
pub(super) fn interfaces() -> Outcome<Vec<InterfaceStatus>> {
    if departure::has_left() {
        return Err(Errno::NONET);
    }
    let mut all = instance::client()?.network()?.interfaces;
    all.sort_by_key(|interface| interface.mac.is_some());
    Ok(all)
}

fn flags(interface: &InterfaceStatus) -> c_int {
    let kind = match interface.mac {
        Some(_) => libc::IFF_BROADCAST | libc::IFF_MULTICAST,
        None => libc::IFF_LOOPBACK,
    };
    libc::IFF_UP | libc::IFF_RUNNING | kind
}

/// A name as `char[IFNAMSIZ]`.
fn name_bytes(name: &str) -> [u8; NAME] {
    let mut bytes = [0; NAME];
    let kept = name.bytes().take(NAME - 1);
    bytes.iter_mut().zip(kept).for_each(|(to, from)| *to = from);
    bytes
}

/// The netmask of a prefix, as an address.
fn netmask(address: &AddressStatus) -> IpAddr {
    match address.address {
        IpAddr::V4(_) => {
            let bits = u32::MAX.checked_shl(32 - u32::from(address.prefix.min(32))).unwrap_or(0);
            Ipv4Addr::from_bits(bits).into()
        }
        IpAddr::V6(_) => {
            let bits = u128::MAX.checked_shl(128 - u32::from(address.prefix.min(128)));
            core::net::Ipv6Addr::from_bits(bits.unwrap_or(0)).into()
        }
    }
}

fn broadcast(address: &AddressStatus) -> Option<IpAddr> {
    match (address.address, netmask(address)) {
        (IpAddr::V4(v4), IpAddr::V4(mask)) => {
            Some(Ipv4Addr::from_bits(v4.to_bits() | !mask.to_bits()).into())
        }
        _ => None,
    }
}

/// `struct rtnl_link_stats`: 24 counters.
type Counters = [u32; 24];

/// One element of getifaddrs' list, with the memory that it points to.
#[repr(C)]
struct Element {
    head: ifaddrs,
    address: sockaddr_storage,
    netmask: sockaddr_storage,
    broadcast: sockaddr_storage,
    name: [u8; NAME],
    counters: Counters,
}

impl Element {
    /// What each element of an interface has.
    fn begin(&mut self, interface: &InterfaceStatus) {
        self.name = name_bytes(&interface.name);
        self.head.ifa_name = self.name.as_mut_ptr().cast();
        self.head.ifa_flags = flags(interface).cast_unsigned();
        self.head.ifa_addr = (&raw mut self.address).cast();
    }

    /// The element of the interface itself. Its counters are 0.
    fn link(&mut self, interface: &InterfaceStatus) {
        self.begin(interface);
        fill_link(&mut self.address, interface, &hardware_bytes(interface));
        let broadcast = [u8::MAX; 6].map(|byte| if interface.mac.is_some() { byte } else { 0 });
        fill_link(&mut self.broadcast, interface, &broadcast);
        self.head.ifa_ifu = (&raw mut self.broadcast).cast();
        self.head.ifa_data = (&raw mut self.counters).cast();
    }

    /// The element of one of its addresses.
    fn address(&mut self, interface: &InterfaceStatus, address: &AddressStatus) {
        self.begin(interface);
        fill(&mut self.address, address.address, interface.index);
        fill(&mut self.netmask, netmask(address), 0);
        self.head.ifa_netmask = (&raw mut self.netmask).cast();
        let broadcast = broadcast(address).filter(|_| interface.mac.is_some());
        if let Some(broadcast) = broadcast {
            fill(&mut self.broadcast, broadcast, 0);
            self.head.ifa_ifu = (&raw mut self.broadcast).cast();
        }
    }
}

/// An interface's hardware address as a `struct sockaddr_ll`.
fn fill_link(place: &mut sockaddr_storage, interface: &InterfaceStatus, address: &[u8; 6]) {
    const { assert!(size_of::<libc::sockaddr_ll>() <= size_of::<sockaddr_storage>()) };
    let mut sll_addr = [0; 8];
    sll_addr.iter_mut().zip(address).for_each(|(to, from)| *to = *from);
    #[expect(clippy::cast_possible_truncation, reason = "AF_PACKET is 17")]
    let link = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as libc::sa_family_t,
        sll_protocol: 0,
        sll_ifindex: interface.index.cast_signed(),
        sll_hatype: hardware_kind(interface),
        sll_pkttype: 0,
        sll_halen: 6,
        sll_addr,
    };
    // SAFETY: the place is longer than a sockaddr_ll, and aligned for every address.
    unsafe { (&raw mut *place).cast::<libc::sockaddr_ll>().write(link) };
}

/// An address as a `struct sockaddr_in` or `sockaddr_in6`; link-local ones name their interface.
fn fill(place: &mut sockaddr_storage, ip: IpAddr, index: u32) {
    let (address, family) = match ip {
        IpAddr::V4(_) => (SocketAddr::new(ip, 0), Family::V4),
        IpAddr::V6(v6) => {
            let scope = if v6.is_unicast_link_local() { index } else { 0 };
            (SocketAddrV6::new(v6, 0, 0, scope).into(), Family::V6)
        }
    };
    let Ok((bytes, len)) = to_bytes(address, family) else { return };
    // SAFETY: a sockaddr_storage has room for every address, and any bytes are a value of it.
    unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), (&raw mut *place).cast(), len) };
}

/// What is listed, in the order of the C library and Linux: all interfaces, their IPv4 addresses,
/// their IPv6 addresses.
fn rows(interfaces: &[InterfaceStatus]) -> Vec<(&InterfaceStatus, Option<&AddressStatus>)> {
    let addresses = |v6: bool| {
        interfaces.iter().flat_map(move |interface| {
            let family = interface.addresses.iter().filter(move |one| one.address.is_ipv6() == v6);
            family.map(move |address| (interface, Some(address)))
        })
    };
    let links = interfaces.iter().map(|interface| (interface, None));
    links.chain(addresses(false)).chain(addresses(true)).collect()
}

/// The list, in one piece of the C library's memory, so that its own `freeifaddrs` frees it.
unsafe fn list(place: *mut *mut ifaddrs) -> Outcome<c_int> {
    // SAFETY: the program says that it is valid, or it is null.
    let place = unsafe { place.as_mut() }.ok_or(Errno::FAULT)?;
    let interfaces = interfaces()?;
    let rows = rows(&interfaces);
    *place = null_mut();
    if rows.is_empty() {
        return Ok(0);
    }
    // SAFETY: plain memory, zeroed.
    let memory: *mut Element = unsafe { libc::calloc(rows.len(), size_of::<Element>()) }.cast();
    if memory.is_null() {
        return Err(Errno::NOMEM);
    }
    // SAFETY: as many elements as there are rows were just allocated, and all zero bytes are a
    // value of one.
    let elements = unsafe { core::slice::from_raw_parts_mut(memory, rows.len()) };
    let mut next: *mut ifaddrs = null_mut();
    for (element, (interface, address)) in elements.iter_mut().zip(rows).rev() {
        match address {
            None => element.link(interface),
            Some(address) => element.address(interface, address),
        }
        element.head.ifa_next = next;
        next = &raw mut element.head;
    }
    *place = next;
    Ok(0)
}

/// The index of the interface of a name; 0 and ENODEV when there is none.
unsafe fn index_of(name: *const c_char) -> Outcome<c_uint> {
    if name.is_null() {
        return Err(Errno::FAULT);
    }
    // SAFETY: not null, and the program says that it is a string.
    let name = unsafe { CStr::from_ptr(name) }.to_bytes();
    let found = interfaces()?.into_iter().find(|one| one.name.as_bytes() == name);
    found.map(|one| one.index).ok_or(Errno::NODEV)
}

/// Writes the name of an interface to IFNAMSIZ bytes.
unsafe fn name_of(index: c_uint, place: *mut c_char) -> Outcome<*mut c_char> {
    let interfaces = interfaces()?;
    let found = interfaces.iter().find(|one| one.index == index).ok_or(Errno::NXIO)?;
    if place.is_null() {
        return Err(Errno::FAULT);
    }
    let bytes = name_bytes(&found.name);
    // SAFETY: not null, and the program says that IFNAMSIZ bytes are writable.
    unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr().cast(), place, NAME) };
    Ok(place)
}

/// Index and name of each interface, and zeros behind the last. The C library's `if_freenameindex`
/// frees each name, then the array, so each is a piece of its memory of its own.
fn names(interfaces: &[InterfaceStatus]) -> Outcome<*mut libc::if_nameindex> {
    let size = size_of::<libc::if_nameindex>();
    // SAFETY: plain memory, zeroed.
    let memory = unsafe { libc::calloc(interfaces.len() + 1, size) }.cast::<libc::if_nameindex>();
    if memory.is_null() {
        return Err(Errno::NOBUFS);
    }
    // SAFETY: so many elements were just allocated, and all zero bytes are a value of one.
    let elements = unsafe { core::slice::from_raw_parts_mut(memory, interfaces.len()) };
    for (element, interface) in elements.iter_mut().zip(interfaces) {
        let name = name_bytes(&interface.name);
        // SAFETY: a string that ends within its bytes.
        element.if_name = unsafe { libc::strdup(name.as_ptr().cast()) };
        element.if_index = interface.index;
        if element.if_name.is_null() {
            element.if_index = 0;
            // SAFETY: it was made here, and ends at the first element without name and index.
            unsafe { libc::if_freenameindex(memory) };
            return Err(Errno::NOBUFS);
        }
    }
    Ok(memory)
}

/// `struct ifconf` (netdevice(7)).
#[repr(C)]
struct InterfaceList {
    len: c_int,
    place: *mut ifreq,
}

/// Lists the interfaces with an IPv4 address: as many as there is room for. Without a place it
/// tells the room that is needed.
unsafe fn list_conf(conf: *mut InterfaceList) -> Outcome<()> {
    if !can_fill(conf) {
        return Err(Errno::FAULT);
    }
    // SAFETY: the program says that it points to an ifconf, and there is memory.
    let conf = unsafe { &mut *conf };
    // As on Linux, a length below zero is none, and without a place it means nothing.
    let room = usize::try_from(conf.len).unwrap_or(0);
    let interfaces = interfaces()?;
    let rows = interfaces.iter().flat_map(|interface| {
        let four = interface.addresses.iter().filter(|one| one.address.is_ipv4());
        four.map(move |one| (interface, v4(one.address)))
    });
    let mut count = 0;
    for (interface, address) in rows {
        if !conf.place.is_null() {
            if (count + 1) * size_of::<ifreq>() > room {
                break;
            }
            // SAFETY: all zero bytes are a value of it.
            let mut row: ifreq = unsafe { core::mem::zeroed() };
            let name = name_bytes(&interface.name);
            row.ifr_name.iter_mut().zip(name).for_each(|(to, from)| *to = from.cast_signed());
            row.ifr_ifru.ifru_addr = address;
            let place = conf.place.wrapping_add(count);
            if !can_fill(place) {
                return Err(Errno::FAULT);
            }
            // SAFETY: the program says that so many bytes are writable; they may be unaligned.
            unsafe { place.write_unaligned(row) };
        }
        count += 1;
    }
    conf.len = c_int::try_from(count * size_of::<ifreq>()).map_err(|_| Errno::INVAL)?;
    Ok(())
}

/// Answers an ioctl about interfaces. `None`: the ioctl is about something else.
///
/// To the kernel the placeholder is a socket of the host's network namespace. So what is not
/// answered here must not reach it: it would show, and change, the host's devices.
///
/// # Errors
/// ENODEV for a name that no interface has, EADDRNOTAVAIL when it has no IPv4 address, EFAULT,
/// EOPNOTSUPP for requests that are not known here.
///
/// # Safety
/// `arg` is as the request's manual page (netdevice(7)) requires, or null.
pub(super) unsafe fn control(request: libc::c_ulong, arg: *mut c_char) -> Option<Outcome<c_int>> {
    // SIOCGIFNAME is the first of them (linux/sockios.h). The others are those of wireless devices.
    if !matches!(request, 0x8910..=0x89FF | 0x8B00..=0x8BFF) {
        return None;
    }
    let known = [
        libc::SIOCGIFFLAGS,
        libc::SIOCGIFADDR,
        libc::SIOCGIFDSTADDR,
        libc::SIOCGIFNETMASK,
        libc::SIOCGIFBRDADDR,
        libc::SIOCGIFMETRIC,
        libc::SIOCGIFMTU,
        libc::SIOCGIFHWADDR,
        libc::SIOCGIFINDEX,
        libc::SIOCGIFNAME,
        libc::SIOCGIFTXQLEN,
    ];
    if request == libc::c_ulong::from(libc::SIOCGIFCONF) {
        // SAFETY: passed on from the program.
        return Some(unsafe { list_conf(arg.cast()) }.map(|()| 0));
    }
    if request == libc::c_ulong::from(libc::SIOCETHTOOL) {
        // SAFETY: passed on from the program.
        return Some(unsafe { ask_device(arg.cast()) }.map(|()| 0));
    }
    if !known.iter().any(|one| libc::c_ulong::from(*one) == request) {
        return Some(Err(Errno::OPNOTSUPP));
    }
    let place = arg.cast::<ifreq>();
    if !can_fill(place) {
        return Some(Err(Errno::FAULT));
    }
    // SAFETY: the program says that it points to an ifreq, and there is memory.
    Some(answer(request, unsafe { &mut *place }).map(|()| 0))
}

fn answer(request: libc::c_ulong, place: &mut ifreq) -> Outcome<()> {
    let interfaces = interfaces()?;
    if request == libc::c_ulong::from(libc::SIOCGIFNAME) {
        // SAFETY: every bit pattern is an int.
        let index = unsafe { place.ifr_ifru.ifru_ifindex };
        let found = interfaces.iter().find(|one| one.index == index.cast_unsigned());
        let name = name_bytes(&found.ok_or(Errno::NODEV)?.name);
        place.ifr_name.iter_mut().zip(name).for_each(|(to, from)| *to = from.cast_signed());
        return Ok(());
    }
    let found = named(&interfaces, place)?;
    let first = || {
        let mut all = found.addresses.iter();
        all.find(|one| one.address.is_ipv4()).ok_or(Errno::ADDRNOTAVAIL)
    };
    match libc::Ioctl::try_from(request).map_err(|_| Errno::INVAL)? {
        libc::SIOCGIFFLAGS => {
            // The flags are below 2^15.
            place.ifr_ifru.ifru_flags = i16::try_from(flags(found)).unwrap_or(0);
        }
        libc::SIOCGIFINDEX => place.ifr_ifru.ifru_ifindex = found.index.cast_signed(),
        libc::SIOCGIFMTU => place.ifr_ifru.ifru_mtu = found.mtu.cast_signed(),
        libc::SIOCGIFHWADDR => place.ifr_ifru.ifru_hwaddr = hardware(found),
        libc::SIOCGIFMETRIC => place.ifr_ifru.ifru_metric = 0,
        libc::SIOCGIFTXQLEN => place.ifr_ifru.ifru_metric = QUEUE,
        // No interface is the end of a point-to-point link: the address is its own.
        libc::SIOCGIFADDR | libc::SIOCGIFDSTADDR => {
            place.ifr_ifru.ifru_addr = v4(first()?.address);
        }
        libc::SIOCGIFNETMASK => place.ifr_ifru.ifru_netmask = v4(netmask(first()?)),
        _ => {
            let address = first()?;
            let broadcast = broadcast(address).filter(|_| found.mac.is_some());
            place.ifr_ifru.ifru_broadaddr = v4(broadcast.unwrap_or(Ipv4Addr::UNSPECIFIED.into()));
        }
    }
    Ok(())
}

/// The interface that a request names.
fn named<'a>(interfaces: &'a [InterfaceStatus], place: &ifreq) -> Outcome<&'a InterfaceStatus> {
    let bytes = place.ifr_name.iter().map(|byte| byte.cast_unsigned());
    let name: Vec<u8> = bytes.take_while(|byte| *byte != 0).collect();
    interfaces.iter().find(|one| one.name.as_bytes() == name).ok_or(Errno::NODEV)
}

/// SIOCETHTOOL (linux/ethtool.h). One question has an answer: which times SO_TIMESTAMPING can give.
/// It gives none, and there is no clock.
unsafe fn ask_device(place: *const ifreq) -> Outcome<()> {
    /// ETHTOOL_GET_TS_INFO.
    const TIMES: u32 = 0x41;
    /// Of a `struct ethtool_ts_info`: question, kinds of times, number of the clock, and filters.
    const WORDS: usize = 11;
    if !can_read(place, size_of::<libc::ifreq>()) {
        return Err(Errno::FAULT);
    }
    // SAFETY: the program says that it points to an ifreq.
    let request = unsafe { place.read_unaligned() };
    // SAFETY: every bit pattern is a pointer.
    let data: *mut [u32; WORDS] = unsafe { request.ifr_ifru.ifru_data }.cast();
    if !can_write(data) {
        return Err(Errno::FAULT);
    }
    // SAFETY: every question begins with its number; the program says that it is there.
    let question = unsafe { data.cast::<u32>().read_unaligned() };
    named(&interfaces()?, &request)?;
    if question != TIMES {
        return Err(Errno::OPNOTSUPP);
    }
    let mut answer = [0; WORDS];
    (answer[0], answer[2]) = (TIMES, u32::MAX);
    // SAFETY: the program says that there is room for the answer to its question.
    unsafe { data.write_unaligned(answer) };
    Ok(())
}

/// A `struct sockaddr_in` as the `struct sockaddr` of an ifreq; both have 16 bytes.
fn v4(ip: IpAddr) -> sockaddr {
    const { assert!(size_of::<sockaddr>() == size_of::<sockaddr_in>()) };
    let mut data = [0; 14];
    if let IpAddr::V4(v4) = ip {
        let octets = v4.octets().map(u8::cast_signed);
        data.iter_mut().skip(2).zip(octets).for_each(|(to, from)| *to = from);
    }
    #[expect(clippy::cast_possible_truncation, reason = "AF_INET is 2")]
    sockaddr { sa_family: libc::AF_INET as libc::sa_family_t, sa_data: data }
}

/// ARPHRD_ETHER with the hardware address, or ARPHRD_LOOPBACK.
fn hardware(interface: &InterfaceStatus) -> sockaddr {
    let mut data = [0; 14];
    let bytes = hardware_bytes(interface);
    data.iter_mut().zip(bytes).for_each(|(to, from)| *to = from.cast_signed());
    sockaddr { sa_family: hardware_kind(interface), sa_data: data }
}

fn hardware_kind(interface: &InterfaceStatus) -> u16 {
    if interface.mac.is_some() { libc::ARPHRD_ETHER } else { libc::ARPHRD_LOOPBACK }
}

/// The hardware address; zeros for a loopback interface.
fn hardware_bytes(interface: &InterfaceStatus) -> [u8; 6] {
    let mut address = [0; 6];
    let bytes = interface.mac.iter().flat_map(|mac| mac.split(':'));
    let bytes = bytes.filter_map(|byte| u8::from_str_radix(byte, 16).ok());
    address.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
    address
}

/// What we know, or what the kernel does of a network namespace of the process's own.
fn known_by<T>(ours: Outcome<T>, kernels: impl FnOnce() -> T) -> Outcome<T> {
    match ours {
        Err(Errno::NONET) => Ok(kernels()),
        ours => ours,
    }
}

interpose! {
    fn getifaddrs(place: *mut *mut ifaddrs) -> c_int {
        instance::is_wanted() => known_by(list(place), || real::getifaddrs(place))
    }
    fn if_nametoindex(name: *const c_char) -> c_uint {
        instance::is_wanted() => known_by(index_of(name), || real::if_nametoindex(name))
    }
    fn if_nameindex() -> *mut libc::if_nameindex {
        instance::is_wanted() => {
            known_by(interfaces().and_then(|all| names(&all)), || real::if_nameindex())
        }
    }
    fn if_indextoname(index: c_uint, place: *mut c_char) -> *mut c_char {
        instance::is_wanted() => {
            known_by(name_of(index, place), || real::if_indextoname(index, place))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str, prefix: u8) -> AddressStatus {
        AddressStatus {
            address: text.parse().unwrap(),
            prefix,
            state: "preferred".to_owned(),
            origin: "static".to_owned(),
            valid: None,
        }
    }

    #[test]
    fn masks_and_broadcast() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let four = address("10.219.7.2", 20);
        assert_eq!(netmask(&four), ip("255.255.240.0"));
        assert_eq!(broadcast(&four), Some(ip("10.219.15.255")));
        let six = address("fd00::2", 64);
        assert_eq!((netmask(&six), broadcast(&six)), (ip("ffff:ffff:ffff:ffff::"), None));
        assert_eq!(netmask(&address("::1", 0)), ip("::"));
    }

    #[test]
    fn names_and_hardware_addresses_in_c_form() {
        assert_eq!(name_bytes("eth0")[..5], *b"eth0\0");
        assert_eq!(name_bytes("a-name-that-is-too-long")[15], 0);
        let interface = InterfaceStatus {
            index: 1,
            name: "eth0".to_owned(),
            mac: Some("02:00:00:00:00:ff".to_owned()),
            mtu: 1500,
            state: "UP".to_owned(),
            addresses: vec![],
            name_servers: vec![],
            device: String::new(),
            features: vec![],
        };
        assert_eq!(hardware(&interface).sa_data[..6], [2, 0, 0, 0, 0, -1]);
        let lo = InterfaceStatus { mac: None, index: 65_536, name: "lo".to_owned(), ..interface };
        assert_eq!(hardware(&lo).sa_family, libc::ARPHRD_LOOPBACK);
        assert_ne!(flags(&lo) & libc::IFF_LOOPBACK, 0);
        let list = names(&[lo]).unwrap();
        // SAFETY: an element for the interface, and an empty one.
        let [first, last] = unsafe { *list.cast::<[libc::if_nameindex; 2]>() };
        // SAFETY: a string of the list, which lives.
        assert_eq!(unsafe { CStr::from_ptr(first.if_name) }, c"lo");
        assert_eq!(first.if_index, 65_536);
        assert!(last.if_name.is_null() && last.if_index == 0);
        // SAFETY: the list is as the C library requires it, and is not used again.
        unsafe { libc::if_freenameindex(list) };
    }
}
