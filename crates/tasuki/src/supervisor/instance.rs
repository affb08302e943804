//! What an instance is made of, but for its processes: socket, device, frame region, bells.
//!
//! Everything here disappears when it is dropped: the socket's file is removed, and the TAP device
//! goes with its last descriptor.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use abi::control::{InetConfig, NicConfig, ServerRequest};
use abi::network::{InterfaceSettings, Prefixed};
use abi::nic::LAYOUT;
use nic_driver::tap;
use shm::{Backing, Region};

use super::servers::{Line, Servers};
use crate::config::Device;
use crate::exit::Failure;
use crate::network::{Addresses, Routes, first_free_device};
use crate::place::{InstanceName, Place, SocketFile};
use crate::settings::Settings;

/// The number of the one interface.
const NIC: u16 = 0;
/// What programs on the stack see it as.
const INTERFACE: &str = "eth0";

/// Memory that processes share, and how it is backed.
#[derive(Debug)]
pub(super) struct Memory {
    pub(super) fd: OwnedFd,
    /// As `tasuki ps` shows it: `4k`, `2M`, `4k (no 2M pages free)`.
    pub(super) backing: String,
}

impl Memory {
    /// A new sealed region; its descriptor only, for the supervisor does not look into it.
    ///
    /// # Errors
    /// When the system has no memory or descriptor left.
    pub(super) fn create(name: &str, len: usize, huge: bool) -> Result<Self, Failure> {
        let want = if huge { Backing::Huge } else { Backing::Small };
        let (region, fd) = Region::create(name, len, want)
            .map_err(|error| Failure::system(format!("make the memory region {name}"), error))?;
        let backing = match (huge, region.backing()) {
            (true, Backing::Small) => format!("{} (no 2M pages free)", Backing::Small),
            (_, got) => got.to_string(),
        };
        Ok(Self { fd, backing })
    }
}

/// An eventfd for a bell.
pub(super) fn bell() -> Result<OwnedFd, Failure> {
    shm::eventfd().map_err(|error| Failure::system("make an eventfd", error))
}

/// A new instance, without its processes.
#[derive(Debug)]
pub(crate) struct Instance {
    pub(super) settings: Settings,
    pub(super) addresses: Addresses,
    pub(super) device: Device,
    pub(super) socket: SocketFile,
    pub(super) frames: Memory,
    tap: OwnedFd,
    inet_bell: OwnedFd,
    nic_bell: OwnedFd,
}

impl Instance {
    /// Makes socket, device, region and bells.
    ///
    /// # Errors
    /// What is in use, missing or not permitted; nothing is left behind then.
    pub(crate) fn make(settings: Settings) -> Result<Self, Failure> {
        let place = Place::make()?;
        let lock = place.lock()?;
        let socket = place.bind(&settings.name)?;
        let addresses = settings.addresses(&Routes::read()?)?;
        let (device, tap) = match &settings.device {
            Some(device) => (device.clone(), tap::open(device.name())?),
            None => {
                let open = |name: &str| tap::open(name).map_err(Failure::from);
                let (name, tap) = first_free_device(tap::exists, open)?;
                (Device::Tap(name), tap)
            }
        };
        let host: Vec<Prefixed> = addresses.host().collect();
        tap::configure(device.name(), &host, settings.mtu)?;
        drop(lock);
        let frames = Memory::create("tasuki-frames", LAYOUT.len, settings.huge_pages)?;
        let (inet_bell, nic_bell) = (bell()?, bell()?);
        Ok(Self { settings, addresses, device, socket, frames, tap, inet_bell, nic_bell })
    }

    /// Where programs and operators connect.
    pub(crate) fn socket_path(&self) -> &Path {
        self.socket.path()
    }

    /// Tells the servers what they are; the number of replies to wait for. The requests do not wait
    /// for each other: the two parts of a fused server start one after the other.
    ///
    /// # Errors
    /// When a server is gone already.
    pub(super) fn configure<P>(
        &self,
        servers: &mut Servers<P>,
        purpose: impl Fn() -> P,
    ) -> Result<u32, Failure> {
        let settings = &self.settings;
        let nic = ServerRequest::ConfigureNic(NicConfig {
            device: self.device.to_string(),
            mac: hardware_address(&settings.name, std::process::id()),
            mtu: settings.mtu,
            fault: settings.fault,
            strict: settings.strict,
        });
        let inet = ServerRequest::ConfigureInet(InetConfig {
            instance: settings.name.to_string(),
            tcp: settings.tcp,
            ipv6: settings.ipv6,
        });
        let interface = InterfaceSettings {
            name: INTERFACE.to_owned(),
            addresses: self.addresses.stack.iter().map(|cidr| cidr.prefixed()).collect(),
            routes: self.addresses.all_routes(),
            dhcp: settings.dhcp,
        };
        let attach = ServerRequest::AddNic { nic: NIC, interface, strict: settings.strict };
        let (tap, frames) = (self.tap.as_fd(), self.frames.fd.as_fd());
        let (inet_bell, nic_bell) = (self.inet_bell.as_fd(), self.nic_bell.as_fd());
        servers.ask(Line::Nic, nic, &[tap, frames, nic_bell, inet_bell], purpose())?;
        servers.ask(Line::Inet, inet, &[], purpose())?;
        servers.ask(Line::Inet, attach, &[frames, inet_bell, nic_bell], purpose())?;
        Ok(3)
    }
}

/// A locally administered unicast address, another one for each instance.
fn hardware_address(name: &InstanceName, pid: u32) -> [u8; 6] {
    let mut hasher = DefaultHasher::new();
    (name.as_str(), pid).hash(&mut hasher);
    let [_, _, a, b, c, d, e, _] = hasher.finish().to_be_bytes();
    [0x02, a, b, c, d, e]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hardware_addresses_are_local_and_differ() {
        let address = |name: &str, pid| hardware_address(&name.parse().unwrap(), pid);
        assert_eq!(address("a", 1)[0], 0x02);
        assert_ne!(address("a", 1), address("a", 2));
        assert_ne!(address("a", 1), address("b", 1));
    }

    #[test]
    fn memory_says_how_it_is_backed() {
        assert_eq!(Memory::create("t", 4096, false).unwrap().backing, "4k");
        let huge = Memory::create("t", 4096, true).unwrap().backing;
        assert!(huge == "2M" || huge == "4k (no 2M pages free)", "{huge}");
    }
}
