//! The host's interfaces, as its kernel reports them by rtnetlink.
//!
//! The supervisor asks for one when a back end is to use it, and hears of changes ([`Watch`]). So
//! it learns that a device is gone, or back, or without carrier, and sleeps meanwhile. Messages are
//! `struct nlmsghdr`, `struct ifinfomsg` and attributes, in the byte order of the machine (Linux's
//! `linux/netlink.h`, `linux/rtnetlink.h`). A message that is too short is ignored.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

/// ARPHRD_ETHER: the interface carries Ethernet frames.
const ETHERNET: u16 = 1;
/// Length of `nlmsghdr`, of `ifinfomsg` behind it, of an attribute's head.
const HEADER: usize = 16;
const INFO: usize = 16;
const ATTRIBUTE: usize = 4;
/// `nlmsg_type`s.
const NLMSG_ERROR: u16 = 2;
const RTM_NEWLINK: u16 = 16;
const RTM_DELLINK: u16 = 17;
const RTM_NEWQDISC: u16 = 36;
/// NLM_F_REQUEST, NLM_F_ACK, NLM_F_REPLACE, NLM_F_CREATE
const REQUEST: u16 = 1;
const ACK: u16 = 4;
const REPLACE: u16 = 0x100;
const CREATE: u16 = 0x400;
/// Length of `tcmsg`; TC_H_ROOT, and the attribute with a discipline's name.
const TRAFFIC: usize = 20;
const TC_H_ROOT: u32 = u32::MAX;
const TCA_KIND: u16 = 1;
/// Attributes.
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_MASTER: u16 = 10;
const IFLA_EXT_MASK: u16 = 29;
/// RTEXT_FILTER_SKIP_STATS
const SKIP_STATS: u32 = 1 << 3;
/// RTMGRP_LINK
const LINKS: u32 = 1;

/// Why an interface cannot be a device.
#[derive(Debug, thiserror::Error)]
pub enum InterfaceError {
    /// There is none of that name.
    #[error("this host has no interface {0}: see `ip link`")]
    Missing(String),
    /// It does not carry Ethernet frames.
    #[error("the interface {0} is not an Ethernet interface")]
    NotEthernet(String),
    /// Its frames are shorter than the stack's would be.
    #[error("the MTU {wanted} is more than the {has} of the interface {name}: set nic.mtu")]
    Mtu {
        /// The interface.
        name: String,
        /// The MTU that the stack is to have.
        wanted: u16,
        /// The MTU of the interface.
        has: u32,
    },
    /// A right is missing.
    #[error("no right to {doing}: {needs} is needed; use sudo")]
    Rights {
        /// The operation that failed.
        doing: String,
        /// Capabilities.
        needs: &'static str,
    },
    /// Another program has the interface, which only one can have.
    #[error("cannot {doing}: the interface is in use by another program; see `ip -d link`")]
    InUse {
        /// The operation that failed.
        doing: String,
    },
    /// The kernel or the interface cannot do it.
    #[error("cannot {doing}: {why}")]
    Unsupported {
        /// The operation that failed.
        doing: String,
        /// The missing feature.
        why: String,
    },
    /// Anything else.
    #[error("cannot {doing}: {errno}")]
    System {
        /// The operation that failed.
        doing: String,
        /// The system's answer.
        errno: Errno,
    },
}

impl InterfaceError {
    /// The system's answer to something that needs capabilities.
    pub(crate) fn new(doing: impl Into<String>, needs: &'static str, errno: Errno) -> Self {
        let doing = doing.into();
        match errno {
            Errno::PERM | Errno::ACCESS => Self::Rights { doing, needs },
            errno => Self::System { doing, errno },
        }
    }
}

/// An interface of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Its number, at least 1; a new one of the same name has another.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Bytes of the longest IP packet.
    pub mtu: u32,
    /// It carries Ethernet frames.
    pub ethernet: bool,
    /// An operator set it up (IFF_UP).
    pub up: bool,
    /// There is a station at the other end of the cable (IFF_LOWER_UP).
    pub carrier: bool,
    /// The bridge (bond, …) it is a port of, by number; 0 for none.
    pub master: u32,
}

impl Interface {
    /// The interface of that name, if there is one.
    ///
    /// # Errors
    /// [`InterfaceError::System`] when the kernel does not answer.
    pub fn find(name: &str) -> Result<Option<Self>, InterfaceError> {
        let failed = |errno| InterfaceError::System { doing: "ask for interfaces".into(), errno };
        let socket = socket(0).map_err(failed)?;
        rustix::net::sendto(&socket, &question(name), SendFlags::empty(), &kernel())
            .map_err(failed)?;
        let mut buffer = vec![0; 1 << 14];
        let (len, _) =
            rustix::net::recv(&socket, &mut buffer[..], RecvFlags::empty()).map_err(failed)?;
        let mut found = None;
        each_message(&buffer[..len], |kind, body| {
            if kind == RTM_NEWLINK && found.is_none() {
                found = parse(body);
            }
        });
        Ok(found)
    }

    /// The Ethernet interface of that name, for packets of up to `mtu` bytes.
    ///
    /// # Errors
    /// See [`InterfaceError`].
    pub fn require(name: &str, mtu: u16) -> Result<Self, InterfaceError> {
        let found = Self::find(name)?.ok_or_else(|| InterfaceError::Missing(name.to_owned()))?;
        if !found.ethernet {
            return Err(InterfaceError::NotEthernet(name.to_owned()));
        }
        if found.mtu < mtu.into() {
            let name = name.to_owned();
            return Err(InterfaceError::Mtu { name, wanted: mtu, has: found.mtu });
        }
        Ok(found)
    }
}

/// A change of an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// It is there, and so.
    Is(Interface),
    /// It is gone.
    Gone(Interface),
    /// The kernel dropped messages that were not read in time. Look again ([`Interface::find`]).
    Missed,
}

/// Hears of changes of interfaces in this network namespace.
#[derive(Debug)]
pub struct Watch(OwnedFd);

impl Watch {
    /// Listens from now on.
    ///
    /// # Errors
    /// The system's.
    pub fn new() -> io::Result<Self> {
        Ok(Self(socket(LINKS)?))
    }

    /// The changes since the last call; does not wait.
    #[must_use]
    pub fn changes(&self) -> Vec<Change> {
        let mut all = Vec::new();
        let mut buffer = vec![0; 1 << 14];
        loop {
            match rustix::net::recv(&self.0, &mut buffer[..], RecvFlags::DONTWAIT) {
                Ok((len, _)) => each_message(&buffer[..len], |kind, body| {
                    all.extend(match kind {
                        RTM_NEWLINK => parse(body).map(Change::Is),
                        RTM_DELLINK => parse(body).map(Change::Gone),
                        _ => None,
                    });
                }),
                Err(Errno::INTR) => {}
                Err(Errno::NOBUFS) => all.push(Change::Missed),
                Err(_) => return all,
            }
        }
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn kernel() -> SocketAddrNetlink {
    SocketAddrNetlink::new(0, 0)
}

fn socket(groups: u32) -> Result<OwnedFd, Errno> {
    let (family, kind) = (AddressFamily::NETLINK, SocketType::RAW);
    // Protocol 0 is NETLINK_ROUTE.
    let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
    rustix::net::bind(&socket, &SocketAddrNetlink::new(0, groups))?;
    Ok(socket)
}

/// RTM_GETLINK for one name.
fn question(name: &str) -> Vec<u8> {
    let mut message = vec![0; HEADER + INFO];
    attribute(&mut message, IFLA_EXT_MASK, &SKIP_STATS.to_ne_bytes());
    attribute(&mut message, IFLA_IFNAME, &[name.as_bytes(), &[0]].concat());
    headed(message, libc::RTM_GETLINK, REQUEST)
}

fn attribute(message: &mut Vec<u8>, kind: u16, value: &[u8]) {
    let len = u16::try_from(ATTRIBUTE + value.len()).unwrap_or(u16::MAX);
    message.extend_from_slice(&len.to_ne_bytes());
    message.extend_from_slice(&kind.to_ne_bytes());
    message.extend_from_slice(value);
    message.resize(message.len().next_multiple_of(4), 0);
}

/// The message with its header, for which there is room.
fn headed(mut message: Vec<u8>, kind: u16, flags: u16) -> Vec<u8> {
    let len = u32::try_from(message.len()).unwrap_or(u32::MAX);
    message[..4].copy_from_slice(&len.to_ne_bytes());
    message[4..6].copy_from_slice(&kind.to_ne_bytes());
    message[6..8].copy_from_slice(&flags.to_ne_bytes());
    message
}

/// Frames to be sent go to the interface at once (`tc qdisc replace dev NAME root noqueue`),
/// because it has a queue of its own.
///
/// # Errors
/// The system's.
pub(crate) fn set_no_queue(name: &str) -> Result<(), Errno> {
    let socket = socket(0)?;
    let index = rustix::net::netdevice::name_to_index(&socket, name)?;
    let mut message = vec![0; HEADER + TRAFFIC];
    message[HEADER + 4..HEADER + 8].copy_from_slice(&index.to_ne_bytes());
    message[HEADER + 12..HEADER + 16].copy_from_slice(&TC_H_ROOT.to_ne_bytes());
    attribute(&mut message, TCA_KIND, b"noqueue\0");
    let message = headed(message, RTM_NEWQDISC, REQUEST | ACK | REPLACE | CREATE);
    rustix::net::sendto(&socket, &message, SendFlags::empty(), &kernel())?;
    // The answer is there when the call is over: NLMSG_ERROR with a negative number, or 0.
    let mut answer = [0; 1 << 10];
    let (len, _) = rustix::net::recv(&socket, &mut answer[..], RecvFlags::DONTWAIT)?;
    match u32_at(&answer[..len], HEADER).map(u32::cast_signed) {
        Some(0) => Ok(()),
        Some(number) => Err(Errno::from_raw_os_error(number.saturating_neg())),
        None => Err(Errno::PROTO),
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Calls `each` with type and body of every message. Errors (no such interface) are skipped.
fn each_message(mut bytes: &[u8], mut each: impl FnMut(u16, &[u8])) {
    while let (Some(len), Some(kind)) = (u32_at(bytes, 0), u16_at(bytes, 4)) {
        let Some(body) = bytes.get(HEADER..len as usize) else { return };
        if kind != NLMSG_ERROR {
            each(kind, body);
        }
        bytes = bytes.get((len as usize).next_multiple_of(4)..).unwrap_or_default();
    }
}

/// Parses an `ifinfomsg` and its attributes. A message with a family is a bridge's report about its
/// ports, and is ignored: a port that leaves its bridge is deleted there, but is not gone.
fn parse(body: &[u8]) -> Option<Interface> {
    if u16::from(*body.first()?) != AddressFamily::UNSPEC.as_raw() {
        return None;
    }
    let flags = u32_at(body, 8)?.cast_signed();
    let mut interface = Interface {
        index: u32_at(body, 4)?,
        name: String::new(),
        mtu: 0,
        ethernet: u16_at(body, 2)? == ETHERNET,
        up: flags & libc::IFF_UP != 0,
        carrier: flags & libc::IFF_LOWER_UP != 0,
        master: 0,
    };
    let mut rest = body.get(INFO..)?;
    while let (Some(len), Some(kind)) = (u16_at(rest, 0), u16_at(rest, 2)) {
        let Some(value) = rest.get(ATTRIBUTE..len.into()) else { break };
        match kind {
            IFLA_IFNAME => {
                let name = value.split(|byte| *byte == 0).next().unwrap_or_default();
                interface.name = String::from_utf8_lossy(name).into_owned();
            }
            IFLA_MTU => interface.mtu = u32_at(value, 0)?,
            IFLA_MASTER => interface.master = u32_at(value, 0)?,
            _ => {}
        }
        rest = rest.get(usize::from(len).next_multiple_of(4)..).unwrap_or_default();
    }
    (!interface.name.is_empty()).then_some(interface)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_are_found_by_name() {
        let lo = Interface::find("lo").unwrap().expect("every namespace has a loopback");
        assert_eq!((lo.index > 0, lo.ethernet, lo.name.as_str()), (true, false, "lo"));
        assert!(lo.mtu >= 1500, "{lo:?}");
        assert_eq!(Interface::find("no-such-link").unwrap(), None);
        let refused = |name| Interface::require(name, 1500).unwrap_err();
        assert!(matches!(refused("lo"), InterfaceError::NotEthernet(_)));
        assert!(matches!(refused("no-such-link"), InterfaceError::Missing(_)));
    }

    #[test]
    fn short_and_false_messages_say_nothing() {
        let whole = question("lo");
        let mut count = 0;
        each_message(&whole, |_, _| count += 1);
        assert_eq!(count, 1);
        for len in 0..whole.len() {
            each_message(&whole[..len], |_, _| panic!("{len} bytes are no message"));
            let _ = parse(&whole[..len]);
        }
        let mut endless = whole.clone();
        endless[..4].fill(0);
        each_message(&endless, |_, _| panic!("it has no length"));
        // An attribute that is shorter than its head, and one that is longer than the message.
        for len in [0_u16, 3, 999] {
            let mut false_one = whole[HEADER..].to_vec();
            false_one[INFO..INFO + 2].copy_from_slice(&len.to_ne_bytes());
            assert_eq!(parse(&false_one), None);
        }
        assert_eq!(parse(&whole[HEADER..]).map(|link| link.name), Some("lo".to_owned()));
        let mut of_bridge = whole[HEADER..].to_vec();
        of_bridge[0] = libc::AF_BRIDGE as u8;
        assert_eq!(parse(&of_bridge), None, "what a bridge says of its port");
    }
}
