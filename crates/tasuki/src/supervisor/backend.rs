//! Opening devices: what of a back end needs the supervisor's rights, and what stays with it.
//!
//! Whatever a driver needs comes out of here as descriptors, in the order that its half of the back
//! end (`nic_driver::backend`) expects; the driver itself needs no right.

use std::os::fd::OwnedFd;

use abi::network::Prefixed;
use nic_driver::tap;

use crate::device::{Device, Kind};
use crate::exit::Failure;
use crate::network::{Addresses, first_free_device};
use crate::settings;

/// An open device.
#[derive(Debug)]
pub(super) struct Opened {
    /// Which.
    pub(super) device: Device,
    /// For the driver.
    pub(super) fds: Vec<OwnedFd>,
}

/// Opens the device that is wanted; if it does not matter which, a TAP device of the first free
/// name. Hold the lock of the directory.
///
/// # Errors
/// What is in use, missing or not permitted; nothing is left behind then.
pub(super) fn open(wanted: &settings::Link, addresses: &Addresses) -> Result<Opened, Failure> {
    let Some(device) = wanted.device.clone() else {
        let open = |name: &str| tap::open(name).map_err(Failure::from);
        let (name, fd) = first_free_device(tap::exists, open)?;
        return made_tap(Device::tap(name), fd, wanted, addresses);
    };
    match device.kind() {
        Kind::Tap => {
            let fd = tap::open(device.name())?;
            made_tap(device, fd, wanted, addresses)
        }
    }
}

fn made_tap(
    device: Device,
    fd: OwnedFd,
    wanted: &settings::Link,
    addresses: &Addresses,
) -> Result<Opened, Failure> {
    let host: Vec<Prefixed> = addresses.host().collect();
    tap::configure(device.name(), &host, wanted.mtu)?;
    Ok(Opened { device, fds: vec![fd] })
}
