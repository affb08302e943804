//! The table of back ends: which device a driver drives, by the first word of `--nic`.
//!
//! The supervisor did everything that needs rights. Descriptors come from it, in the order of each
//! back end.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use abi::control::NicConfig;
use abi::nic::NicLayout;
use abi::offload::Features;
use shm::Region;

use crate::device::Device;
use crate::error::DriverError;
use crate::packet::Packet;
use crate::passt::Passt;
use crate::pcap::{Pcap, Target};
use crate::tap::Tap;
use crate::wire::Wire;
use crate::xdp::{Memory, Xdp};

/// The inputs of a device beyond its descriptors.
#[derive(Debug, Clone, Copy)]
pub struct DeviceContext<'a> {
    /// The requested device.
    pub config: &'a NicConfig,
    /// The frame region, and its layout.
    pub region: &'a Arc<Region>,
    /// See `region`.
    pub layout: &'a NicLayout,
}

/// The device that the configuration names, out of its descriptors.
///
/// # Errors
/// [`DriverError::BadMessage`] when the back end does not exist or needs other descriptors,
/// [`DriverError::System`] when a system call fails.
pub fn open(context: DeviceContext<'_>, fds: Vec<OwnedFd>) -> Result<Box<dyn Device>, DriverError> {
    let config = context.config;
    match config.device.split_once(':') {
        Some(("tap", _)) => {
            let tap = Tap::from_queues(fds, config.offload);
            Ok(Box::new(tap.map_err(system("use the TAP device's descriptors"))?))
        }
        Some(("passt", _)) => {
            let [fd] = exactly(fds)?;
            let passt = Passt::new(fd).map_err(system("use the stream to passt"))?;
            Ok(Box::new(passt))
        }
        Some(("pcap", target)) => {
            let pace = target.parse::<Target>().map_err(DriverError::BadMessage)?.pace;
            let mut files = fds.into_iter().map(File::from);
            let (Some(input), output) = (files.next(), files.next()) else {
                return Err(DriverError::BadMessage("there is no file to replay".to_owned()));
            };
            let pcap = Pcap::new(input, output, config.mac, pace);
            Ok(Box::new(pcap.map_err(system("replay the capture file"))?))
        }
        Some(("wire", path)) => {
            let [opener] = exactly(fds)?;
            let features = if config.offload { Wire::FEATURES } else { Features::NONE };
            let wire = Wire::new(path, opener, config.mtu, features);
            Ok(Box::new(wire.map_err(system("make an end of the wire"))?))
        }
        Some(("packet", _)) => {
            let [socket] = exactly(fds)?;
            let packet = Packet::new(socket, config.mtu, config.offload);
            Ok(Box::new(packet.map_err(system("use the packet socket"))?))
        }
        Some(("xdp", _)) => {
            let memory = match context.layout.umem() {
                Some(_) => Memory::Pool(Arc::clone(context.region), *context.layout),
                None => Memory::Own,
            };
            let xdp = Xdp::new(fds, memory).map_err(system("use the AF_XDP socket"))?;
            Ok(Box::new(xdp))
        }
        _ => {
            let device = &config.device;
            Err(DriverError::BadMessage(format!("there is no driver for the device {device:?}")))
        }
    }
}

fn system(doing: &'static str) -> impl FnOnce(io::Error) -> DriverError {
    move |error| DriverError::System { doing, error }
}

/// The descriptors that came, if they are as many as are needed.
pub(crate) fn exactly<const N: usize>(fds: Vec<OwnedFd>) -> Result<[OwnedFd; N], DriverError> {
    let count = fds.len();
    fds.try_into().map_err(|_| {
        DriverError::BadMessage(format!("{count} descriptors came with it, {N} are needed"))
    })
}
