//! The instance's interfaces, as programs see them by rtnetlink(7) in the relay's namespace.
//!
//! Each is a TAP device with the interface's name, hardware address, MTU and addresses. The routing
//! table `main` has the instance's routes. All of it is to be looked at only: packets of programs
//! leave by the TUN device, as the namespace's rules say, and nothing reads these devices.
//!
//! In its sandbox the relay cannot open a device. So some are opened before, and get their names
//! when the interfaces are known.

#![allow(unsafe_code)]

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};

use abi::network::{InterfaceStatus, NetworkStatus, RouteStatus};
use rustix::fs::{Mode, OFlags};

use crate::route::RouteSocket;
use crate::system::check;

/// Most interfaces that are shown.
const MOST: usize = 8;

/// The shown interfaces.
pub(crate) struct Mirror {
    /// Devices without a name.
    free: Vec<OwnedFd>,
    links: Vec<MirroredLink>,
    shown: Vec<RouteStatus>,
}

struct MirroredLink {
    name: String,
    index: u32,
    mtu: u32,
    /// The device is there as long as this is open.
    _device: OwnedFd,
}

impl Mirror {
    /// Opens the devices, for this network namespace.
    pub(crate) fn new() -> Self {
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let open = || rustix::fs::open(c"/dev/net/tun", flags, Mode::empty()).ok();
        Self { free: (0..MOST).map_while(|_| open()).collect(), links: vec![], shown: vec![] }
    }

    /// The device that shows this interface, made now if there is none yet. `None` for a loopback
    /// interface.
    pub(crate) fn link(&mut self, routes: &RouteSocket, of: &InterfaceStatus) -> Option<u32> {
        let mac = hardware(of.mac.as_deref()?)?;
        if let Some(known) = self.links.iter_mut().find(|link| link.name == of.name) {
            if known.mtu != of.mtu && routes.set_up(known.index, Some(of.mtu)).is_ok() {
                known.mtu = of.mtu;
            }
            return Some(known.index);
        }
        let device = self.free.pop()?;
        // The library gives the same number.
        let index = of.index;
        let made = name_device(&device, &of.name, index)
            .and_then(|()| routes.set_hardware(index, &mac))
            .and_then(|()| routes.set_up(index, Some(of.mtu)));
        if let Err(error) = made {
            tracing::debug!(%error, interface = of.name, "programs cannot see it by netlink");
            return None;
        }
        let (name, mtu) = (of.name.clone(), of.mtu);
        self.links.push(MirroredLink { name, index, mtu, _device: device });
        Some(index)
    }

    /// Shows the routes of the instance. The kernel adds those of the links' own networks.
    pub(crate) fn show_routes(&mut self, routes: &RouteSocket, network: &NetworkStatus) {
        let by_router = |one: &&RouteStatus| one.via.is_some_and(|router| !router.is_unspecified());
        let wanted: Vec<_> = network.routes.iter().filter(by_router).collect();
        if wanted.iter().copied().eq(&self.shown) {
            return;
        }
        for old in self.shown.iter().filter(|old| !wanted.contains(old)) {
            let _ = self.set(routes, old, false);
        }
        let new = wanted.into_iter().filter(|one| {
            let done = self.set(routes, one, true);
            done.inspect_err(|error| tracing::debug!(%error, "a route is not shown")).is_ok()
        });
        self.shown = new.cloned().collect();
    }

    fn set(&self, routes: &RouteSocket, one: &RouteStatus, add: bool) -> io::Result<()> {
        let link = self.links.iter().find(|link| link.name == one.interface);
        let (Some(link), Some(via)) = (link, one.via) else { return Ok(()) };
        let to: (IpAddr, u8) = (one.to.address, one.to.prefix);
        routes.shown_route(to, via, (link.index, one.metric), add)
    }
}

/// The bytes of `02:00:00:00:00:01`.
fn hardware(text: &str) -> Option<[u8; 6]> {
    let bytes: Result<Vec<u8>, _> =
        text.split(':').map(|byte| u8::from_str_radix(byte, 16)).collect();
    bytes.ok()?.try_into().ok()
}

/// Gives an opened device its name and number.
fn name_device(device: &OwnedFd, name: &str, index: u32) -> io::Result<()> {
    const FLAGS: libc::c_int = libc::IFF_TAP | libc::IFF_NO_PI;
    // SAFETY: an ifreq is bytes and numbers, for which zero is a value.
    let mut request: libc::ifreq = unsafe { core::mem::zeroed() };
    let places = request.ifr_name.iter_mut().take(libc::IFNAMSIZ - 1);
    places.zip(name.bytes()).for_each(|(to, from)| *to = from.cast_signed());
    request.ifr_ifru.ifru_flags = FLAGS as libc::c_short;
    set_index(device, index)?;
    // SAFETY: TUNSETIFF reads and writes one ifreq.
    check(unsafe { libc::ioctl(device.as_raw_fd(), libc::TUNSETIFF, &raw mut request) }).map(drop)
}

/// The number that an opened device will have.
///
/// # Errors
/// The system's.
pub(crate) fn set_index(device: &OwnedFd, index: u32) -> io::Result<()> {
    // SAFETY: TUNSETIFINDEX reads one number.
    check(unsafe { libc::ioctl(device.as_raw_fd(), libc::TUNSETIFINDEX, &raw const index) })
        .map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hardware_addresses() {
        assert_eq!(hardware("02:00:00:00:00:fe"), Some([2, 0, 0, 0, 0, 0xfe]));
        assert_eq!(hardware("02:00:00:00:00"), None);
        assert_eq!(hardware("x2:00:00:00:00:00"), None);
    }
}
