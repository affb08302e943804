//! The parts of an instance without its processes: socket, devices, frame regions, bells.
//!
//! Everything here disappears when it is dropped: the socket's file is removed, and a TAP device
//! goes with its last descriptor.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use abi::control::{Audience, InetConfig, NicConfig, ServerRequest};
use abi::network::{InterfaceSettings, Ipv6Mode};
use abi::nic::NicLayout;
use nic_driver::interface::Watch;
use rustix::io::Errno;
use shm::{Backing, Region, RegionError};

use super::backend::{self, OpenedDevice, Umem};
use super::device_state::DeviceState;
use super::passt;
use super::server_process::SandboxPlan;
use super::servers::{ServerId, Servers};
use crate::device::Kind;
use crate::exit::{Code, Failure};
use crate::network::{Addresses, Routes};
use crate::runtime_dir::{InstanceName, InstanceSockets, RuntimeDir};
use crate::settings::{self, Settings};
use crate::vectors::reserved;

/// The difference in metric between the default routes of one interface and those of the next.
const METRIC_STEP: u32 = 100;

/// Memory that processes share, and how it is backed.
#[derive(Debug)]
pub(super) struct Memory {
    pub(super) fd: OwnedFd,
    /// As `tasuki ps` shows it: `4k`, `2M`, `4k (no 2M pages free)`.
    pub(super) backing: String,
    /// A frame region that is a device's memory.
    pub(super) umem: Option<Umem>,
}

impl Memory {
    /// A new sealed region. Only its descriptor is kept, because the supervisor does not look into
    /// it.
    ///
    /// # Errors
    /// When the system has no memory or descriptor left.
    pub(super) fn create(name: &str, len: usize, huge: bool) -> Result<Self, Failure> {
        Self::create_by(Region::create, name, len, huge).map(|(memory, _)| memory)
    }

    /// A frame region; `umem` if it is to be the device's memory.
    fn of_frames(
        wanted: &settings::LinkSettings,
        (huge, share): (bool, bool),
        umem: bool,
    ) -> Result<Self, Failure> {
        let create = if share { Region::create_unsealed } else { Region::create };
        let layout = NicLayout::of(wanted.offload, umem);
        let (memory, region) = Self::create_by(create, "tasuki-frames", layout.len, huge)?;
        Ok(Self { umem: umem.then_some(Umem { region, layout }), ..memory })
    }

    /// A descriptor by which a server can only read the region.
    ///
    /// # Errors
    /// When the system has no descriptor left.
    pub(super) fn read_only(&self) -> Result<OwnedFd, Failure> {
        Region::read_only(self.fd.as_fd()).or_else(|errno| {
            tracing::warn!(%errno, "drivers get clients' memory writable: is /proc mounted?");
            let copy = self.fd.try_clone();
            copy.map_err(|error| Failure::system("copy a descriptor of a memory region", error))
        })
    }

    fn create_by(
        create: fn(&str, usize, Backing) -> Created,
        name: &str,
        len: usize,
        huge: bool,
    ) -> Result<(Self, Arc<Region>), Failure> {
        let want = if huge { Backing::Huge } else { Backing::Small };
        let (region, fd) = create(name, len, want).map_err(|error| refusal(name, &error))?;
        let backing = match (huge, region.backing()) {
            (true, Backing::Small) => format!("{} (no 2M pages free)", Backing::Small),
            (_, got) => got.to_string(),
        };
        Ok((Self { fd, backing, umem: None }, region))
    }
}

type Created = Result<(Arc<Region>, OwnedFd), RegionError>;

/// Why there is no region of this name, and which limits to look at.
fn refusal(name: &str, error: &RegionError) -> Failure {
    let limits = match error {
        RegionError::System { errno: Errno::NOMEM, .. } => {
            ": raise `ulimit -v`, or the memory limit of the cgroup"
        }
        _ => "",
    };
    Failure::system(format!("make the memory region {name}"), format!("{error}{limits}"))
}

/// An eventfd for a bell.
pub(super) fn bell() -> Result<OwnedFd, Failure> {
    shm::eventfd().map_err(|error| Failure::system("make an eventfd", error))
}

/// A new instance, without its processes.
#[derive(Debug)]
pub(crate) struct Instance {
    pub(super) settings: Settings,
    pub(super) sockets: InstanceSockets,
    /// Its interfaces, at least one; eth0, eth1, … to the programs.
    pub(super) links: Vec<Link>,
    /// Reports changes of their devices.
    pub(super) watch: Watch,
}

/// An interface, without its driver.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) addresses: Addresses,
    pub(super) device: OpenedDevice,
    /// The stack's hardware address.
    pub(super) mac: [u8; 6],
    /// The known state of the device.
    pub(super) state: DeviceState,
    /// Devices that the driver was given and has not yet taken.
    pub(super) attaching: u32,
    pub(super) frames: Memory,
    inet_bell: OwnedFd,
    nic_bell: OwnedFd,
}

impl Link {
    /// Makes device, region and bells. Hold the lock of the directory.
    fn make(
        wanted: &settings::LinkSettings,
        memory: (bool, bool),
        mac: [u8; 6],
    ) -> Result<Self, Failure> {
        let addresses = wanted.addresses(&Routes::read()?)?;
        let (device, frames) = open_with_frames(wanted, &addresses, mac, memory)?;
        let state = match device.device.is_interface() {
            true => DeviceState::find(device.device.name())?,
            false => DeviceState::Apart,
        };
        let (inet_bell, nic_bell) = (bell()?, bell()?);
        let attaching = 0;
        Ok(Self { addresses, device, mac, state, attaching, frames, inet_bell, nic_bell })
    }
}

/// Opens the device, and makes the frame region, which is the device's memory where it can be.
fn open_with_frames(
    wanted: &settings::LinkSettings,
    addresses: &Addresses,
    mac: [u8; 6],
    memory: (bool, bool),
) -> Result<(OpenedDevice, Memory), Failure> {
    let open =
        |umem: Option<&Umem>| backend::open(wanted, wanted.device.clone(), addresses, mac, umem);
    if backend::wants_umem(wanted) {
        let frames = Memory::of_frames(wanted, memory, true)?;
        match open(frames.umem.as_ref()) {
            Ok(device) => return Ok((device, frames)),
            // If that is not the reason, the next attempt says it again.
            Err(failure) => {
                tracing::info!(%failure, "the device cannot use the frame region as its memory");
            }
        }
    }
    let device = open(None)?;
    Ok((device, Memory::of_frames(wanted, memory, false)?))
}

impl Instance {
    /// Makes socket, devices, regions and bells.
    ///
    /// # Errors
    /// The thing that is in use, missing or not permitted. Nothing is left behind then.
    pub(crate) fn make(settings: Settings) -> Result<Self, Failure> {
        // Nothing that happens to a device from its opening on is missed.
        let watch = Watch::new()
            .map_err(|error| Failure::system("listen for changes of interfaces", error))?;
        let place = RuntimeDir::make()?;
        let lock = place.lock()?;
        let sockets = place.bind(&settings.name, settings.group)?;
        let make = |(number, wanted)| {
            let mac = hardware_address(&settings.name, std::process::id(), number);
            Link::make(wanted, (settings.huge_pages, settings.share_frames), mac)
        };
        let links = (0_u16..).zip(&settings.links).map(make).collect::<Result<_, _>>()?;
        drop(lock);
        Ok(Self { settings, sockets, links, watch })
    }

    /// The sandboxes of its servers.
    pub(super) fn sandbox_plan(&self) -> SandboxPlan {
        let devices = self.links.iter().map(|link| link.device.device.kind().sandbox());
        SandboxPlan {
            demand: self.settings.sandbox,
            leases: self.socket_path().with_file_name("users"),
            devices: devices.collect(),
        }
    }

    /// All servers have mapped their memory. From now on no other process may write to frames;
    /// programs may only read them.
    ///
    /// # Errors
    /// When the system does not support it (Linux before 5.1).
    pub(super) fn seal_frames(&self) -> Result<(), Failure> {
        if !self.settings.share_frames {
            return Ok(());
        }
        self.links.iter().try_for_each(|link| {
            Region::seal_writers(link.frames.fd.as_fd()).map_err(|errno| {
                Failure::system("seal the frames' memory for memory.share_frames", errno)
            })
        })
    }

    /// The frame regions that programs may read.
    pub(super) fn shared_frames(&self) -> Vec<BorrowedFd<'_>> {
        match self.settings.share_frames {
            true => self.links.iter().map(|link| link.frames.fd.as_fd()).collect(),
            false => Vec::new(),
        }
    }

    /// Where programs connect.
    pub(crate) fn socket_path(&self) -> &Path {
        self.sockets.of(Audience::Programs).path()
    }

    /// Fresh frame regions and bells, and AF_XDP sockets, for servers that begin anew.
    ///
    /// # Errors
    /// When the system has no memory or descriptor left, or takes the device away.
    pub(super) fn renew(&mut self) -> Result<(), Failure> {
        for (link, wanted) in self.links.iter_mut().zip(&self.settings.links) {
            let memory = (self.settings.huge_pages, self.settings.share_frames);
            (link.inet_bell, link.nic_bell) = (bell()?, bell()?);
            if matches!(link.device.device.kind(), Kind::Xdp | Kind::Wire) {
                // The socket's rings stand where the driver before has left them, and know of
                // memory that it had. The opener of a wire listens for the driver before.
                link.device.fds.clear();
                link.device.opener = None;
                (link.device, link.frames) =
                    open_with_frames(wanted, &link.addresses, link.mac, memory)?;
            } else {
                link.frames = Memory::of_frames(wanted, memory, false)?;
            }
        }
        Ok(())
    }

    /// The number of the interface that programs see under a name.
    pub(super) fn link_named(&self, name: &str) -> Option<u16> {
        (0..).zip(&self.links).map(|(number, _)| number).find(|n| interface_name(*n) == name)
    }

    /// Configures the servers. Returns the number of replies and events to wait for. The requests
    /// do not wait for each other, because the two parts of a fused server start one after the
    /// other.
    ///
    /// # Errors
    /// When a server is gone already.
    pub(super) fn configure<P>(
        &self,
        servers: &mut Servers<P>,
        context: impl Fn() -> P,
        of_policies: impl Fn() -> P,
    ) -> Result<u32, Failure> {
        let settings = &self.settings;
        let inet = ServerRequest::ConfigureInet(InetConfig {
            instance: settings.name.to_string(),
            tcp: settings.tcp,
            ipv6: settings.ipv6,
            rp_filter: settings.rp_filter,
            share_frames: settings.share_frames,
            busy_poll: settings.busy_poll,
            keep_awake: settings.keep_awake,
        });
        servers.ask(ServerId::Inet, inet, &[], context())?;
        let mut asked = 1;
        // Before the interfaces, so that nothing leaves unprotected.
        for xfrm in settings.xfrm.iter().cloned() {
            let vectors = reserved(&xfrm)
                .map_err(|refusal| Failure::new(Code::Configuration, format!("xfrm: {refusal}")))?;
            let request = ServerRequest::Xfrm { xfrm, vectors };
            servers.ask(ServerId::Inet, request, &[], of_policies())?;
            asked += 1;
        }
        for ((number, link), wanted) in (0_u16..).zip(&self.links).zip(&settings.links) {
            let nic = ServerRequest::ConfigureNic(NicConfig {
                device: link.device.device.to_string(),
                mac: link.mac,
                mtu: wanted.mtu,
                fault: wanted.fault,
                strict: settings.strict,
                offload: wanted.offload,
                umem: link.frames.umem.is_some(),
                busy_poll: settings.busy_poll,
            });
            let mut routes = link.addresses.all_routes(u32::from(number) * METRIC_STEP);
            let reaches = wanted.host_loopback || link.device.device.reaches_host_loopback();
            if link.device.device.kind() == Kind::Passt && !reaches {
                routes.extend(passt::routes_away(settings.ipv6 != Ipv6Mode::Off));
            }
            let interface = InterfaceSettings {
                name: interface_name(number),
                addresses: link.addresses.stack.iter().map(|cidr| cidr.prefixed()).collect(),
                routes,
                dhcp: wanted.dhcp,
                dad_transmits: wanted.dad_transmits(link.device.device.kind()),
                awaits_router: link.device.device.kind() == Kind::Passt
                    && settings.ipv6 == Ipv6Mode::Auto
                    && passt::advertises(&link.addresses),
            };
            let (strict, offload) = (settings.strict, wanted.offload);
            let umem = link.frames.umem.is_some();
            let attach = ServerRequest::AddNic { nic: number, interface, strict, offload, umem };
            let frames = link.frames.fd.as_fd();
            let (inet_bell, nic_bell) = (link.inet_bell.as_fd(), link.nic_bell.as_fd());
            let server = ServerId::Nic(number);
            let mut fds = vec![frames, nic_bell, inet_bell];
            fds.extend(link.device.fds.iter().map(AsFd::as_fd));
            servers.ask(server, nic, &fds, context())?;
            servers.ask(ServerId::Inet, attach, &[frames, inet_bell, nic_bell], context())?;
            // Both answer, and the inet server reports when the interface is usable.
            asked += 3;
        }
        Ok(asked)
    }
}

/// The name of an interface for programs on the stack. The inet server numbers interfaces in the
/// same way.
pub(super) fn interface_name(number: u16) -> String {
    format!("eth{number}")
}

/// A locally administered unicast address, another one for each interface of each instance.
fn hardware_address(name: &InstanceName, pid: u32, number: u16) -> [u8; 6] {
    let mut hasher = DefaultHasher::new();
    (name.as_str(), pid, number).hash(&mut hasher);
    let [_, _, a, b, c, d, e, _] = hasher.finish().to_be_bytes();
    [0x02, a, b, c, d, e]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hardware_addresses_are_local_and_differ() {
        let address = |name: &str, pid, n| hardware_address(&name.parse().unwrap(), pid, n);
        assert_eq!(address("a", 1, 0)[0], 0x02);
        assert_ne!(address("a", 1, 0), address("a", 2, 0));
        assert_ne!(address("a", 1, 0), address("b", 1, 0));
        assert_ne!(address("a", 1, 0), address("a", 1, 1));
    }

    #[test]
    fn memory_says_how_it_is_backed() {
        assert_eq!(Memory::create("t", 4096, false).unwrap().backing, "4k");
        let huge = Memory::create("t", 4096, true).unwrap().backing;
        assert!(huge == "2M" || huge == "4k (no 2M pages free)", "{huge}");
    }
}
