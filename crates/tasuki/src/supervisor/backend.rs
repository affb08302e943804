//! Opening devices: the half of each back end that needs the supervisor's rights.
//!
//! A driver gets its device as descriptors, in the order that its half of the back end
//! (`nic_driver::backend`) expects. The driver itself needs no right.

use std::fs::File;
use std::io::Seek as _;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use abi::network::Prefixed;
use abi::nic::NicLayout;
use nic_driver::wire::WireOpener;
use nic_driver::{packet, pcap, tap, xdp};
use shm::Region;

use super::device_failure::{interface_failure, tap_failure};
use super::passt::Passt;
use crate::device::{Device, Kind};
use crate::exit::{Code, Failure};
use crate::network::{Addresses, first_free_device};
use crate::output_file;
use crate::settings;

/// A frame region that is a device's memory, mapped for writing, as the kernel needs it. It is
/// needed again when the device comes back. By then programs may read the region, and no process
/// can map it for writing any more.
#[derive(Debug)]
pub(super) struct Umem {
    pub(super) region: Arc<Region>,
    pub(super) layout: NicLayout,
}

/// Can a device that is wanted so have the frame region as its memory? Where faults are made, a
/// frame may be held back or changed, so they are made on copies.
pub(super) fn wants_umem(wanted: &settings::LinkSettings) -> bool {
    let xdp = wanted.device.as_ref().is_some_and(|device| device.kind() == Kind::Xdp);
    xdp && wanted.fault.is_none()
}

/// An open device.
#[derive(Debug)]
pub(super) struct OpenedDevice {
    /// Which.
    pub(super) device: Device,
    /// For the driver.
    pub(super) fds: Vec<OwnedFd>,
    /// Finds the other end of a wire for the driver.
    pub(super) opener: Option<WireOpener>,
    /// Ends with the device.
    _passt: Option<Passt>,
}

impl OpenedDevice {
    fn new(device: Device, fds: Vec<OwnedFd>) -> Self {
        Self { device, fds, opener: None, _passt: None }
    }
}

/// Opens `device`. If no device was requested, opens a TAP device of the first free name, or passt
/// for users who may not make one. The stack's hardware address on it is `mac`. A given frame
/// region is its memory ([`Umem`]). Hold the lock of the directory.
///
/// # Errors
/// The thing that is in use, missing or not permitted. Nothing is left behind then.
pub(super) fn open(
    wanted: &settings::LinkSettings,
    device: Option<Device>,
    addresses: &Addresses,
    mac: [u8; 6],
    umem: Option<&Umem>,
) -> Result<OpenedDevice, Failure> {
    let Some(device) = device else {
        let open = |name: &str| tap::open_queues(name, wanted.offload).map_err(|e| tap_failure(&e));
        return match first_free_device(tap::exists, open) {
            Ok((name, fds)) => made_tap(Device::tap(name), fds, wanted, addresses),
            Err(failure) if failure.code == Code::Rights => {
                without_rights(wanted, addresses, &failure)
            }
            Err(failure) => Err(failure),
        };
    };
    match device.kind() {
        Kind::Tap => {
            let fds =
                tap::open_queues(device.name(), wanted.offload).map_err(|e| tap_failure(&e))?;
            made_tap(device, fds, wanted, addresses)
        }
        Kind::Passt => start_passt(device, wanted, addresses),
        Kind::Pcap => open_files(device),
        Kind::Wire => {
            let (opener, fd) = WireOpener::new(Path::new(device.name()))
                .map_err(|error| Failure::system("make a socket pair", error))?;
            Ok(OpenedDevice { opener: Some(opener), ..OpenedDevice::new(device, vec![fd]) })
        }
        Kind::Xdp => {
            let frames = umem.map(|umem| (&*umem.region, &umem.layout));
            let fds =
                xdp::open(device.name(), wanted.mtu, frames).map_err(|e| interface_failure(&e))?;
            Ok(OpenedDevice::new(device, fds))
        }
        Kind::Packet => {
            let fd =
                packet::open(device.name(), mac, wanted.mtu).map_err(|e| interface_failure(&e))?;
            Ok(OpenedDevice::new(device, vec![fd]))
        }
    }
}

/// For users without the right to make a TAP device.
fn without_rights(
    wanted: &settings::LinkSettings,
    addresses: &Addresses,
    why: &Failure,
) -> Result<OpenedDevice, Failure> {
    tracing::debug!(%why, "no TAP device: passt is to connect this host's network");
    start_passt(Device::passt(), wanted, addresses).map_err(|failure| match failure.code {
        Code::Rights => Failure::new(Code::Rights, format!("{why}; {failure}")),
        _ => failure,
    })
}

fn start_passt(
    device: Device,
    wanted: &settings::LinkSettings,
    addresses: &Addresses,
) -> Result<OpenedDevice, Failure> {
    let reaches = wanted.host_loopback || device.reaches_host_loopback();
    let (passt, fd) = Passt::start(addresses, wanted.mtu, &wanted.publish, reaches)?;
    let device = OpenedDevice::new(device, vec![fd]);
    Ok(OpenedDevice { _passt: Some(passt), ..device })
}

/// A complete capture file, and the file for sent frames.
fn open_files(device: Device) -> Result<OpenedDevice, Failure> {
    let wrong = |sentence: String| Failure::new(Code::Configuration, sentence);
    let target: pcap::Target = device.name().parse().map_err(wrong)?;
    let name = target.input.display();
    let mut input =
        File::open(&target.input).map_err(|error| wrong(format!("cannot read {name}: {error}")))?;
    pcap::check(&input).map_err(|error| wrong(format!("{name} cannot be replayed: {error}")))?;
    input.rewind().map_err(|error| Failure::system(format!("read {name}"), error))?;
    let mut fds = vec![input.into()];
    if let Some(output) = &target.output {
        fds.push(output_file::create(output)?.into());
    }
    Ok(OpenedDevice::new(device, fds))
}

fn made_tap(
    device: Device,
    fds: Vec<OwnedFd>,
    wanted: &settings::LinkSettings,
    addresses: &Addresses,
) -> Result<OpenedDevice, Failure> {
    let host: Vec<Prefixed> = addresses.host().collect();
    tap::configure(device.name(), &host, wanted.mtu).map_err(|e| tap_failure(&e))?;
    Ok(OpenedDevice::new(device, fds))
}
