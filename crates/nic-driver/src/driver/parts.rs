//! The parts that a driver is made of.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use abi::control::{NicConfig, NumberedRequest, ServerOutput};
use abi::nic::NicLayout;
use shm::{Access, Message, Region, Ringer, Sleeper};

use crate::backend::{DeviceContext, exactly};
use crate::capture::CaptureDevice;
use crate::device::Device;
use crate::error::DriverError;
use crate::fault::FaultDevice;
use crate::frames::Frames;
use crate::slot::DeviceSlot;

/// Descriptors of [`NicConfig`] before those of the device.
const RINGS_FDS: usize = 3;

/// Every device of a driver can make faults and be captured.
pub(super) type WrappedDevice = CaptureDevice<FaultDevice<DeviceSlot>>;

/// Makes a device out of configuration and descriptors.
pub(super) type OpenDevice =
    Box<dyn FnMut(DeviceContext<'_>, Vec<OwnedFd>) -> Result<Box<dyn Device>, DriverError> + Send>;

/// The parts of a driver, except its control connection.
pub(super) struct DriverParts {
    pub(super) frames: Frames<WrappedDevice>,
    pub(super) sleeper: Sleeper,
    pub(super) inet: Ringer,
    pub(super) bell: OwnedFd,
}

impl DriverParts {
    pub(super) fn new(
        config: &NicConfig,
        mut fds: Vec<OwnedFd>,
        open: &mut OpenDevice,
    ) -> Result<Self, DriverError> {
        let device = fds.split_off(fds.len().min(RINGS_FDS));
        let [region, bell, inet_bell] = exactly(fds)?;
        let layout = layout_of(config);
        let region: Arc<Region> = if config.strict {
            Region::map_strict(region.as_fd(), layout.len)?
        } else {
            Region::map(region.as_fd(), layout.len, Access::ReadWrite)?
        };
        let context = DeviceContext { config, region: &region, layout: &layout };
        let slot = DeviceSlot::new(open(context, device)?).map_err(no_eventfd)?;
        let device = FaultDevice::new(slot, config.fault).map_err(no_timer)?;
        Ok(Self {
            sleeper: Sleeper::new(region.word32(layout.nic_bell)?),
            inet: Ringer::new(region.word32(layout.inet_bell)?, inet_bell),
            frames: Frames::attach(
                &region,
                &layout,
                CaptureDevice::new(device),
                config.mac,
                config.mtu,
            )?,
            bell,
        })
    }
}

/// The frame region's layout.
pub(super) fn layout_of(config: &NicConfig) -> NicLayout {
    NicLayout::of(config.offload, config.umem)
}

fn no_timer(error: io::Error) -> DriverError {
    DriverError::System { doing: "make a timer", error }
}

pub(super) fn no_eventfd(error: io::Error) -> DriverError {
    DriverError::System { doing: "make an eventfd", error }
}

/// A request of the supervisor, with its descriptors.
pub(super) fn parse(message: Message) -> Result<(NumberedRequest, Vec<OwnedFd>), DriverError> {
    let ask = serde_json::from_slice(&message.body)
        .map_err(|error| DriverError::BadMessage(error.to_string()))?;
    Ok((ask, message.fds))
}

/// A message to the supervisor.
pub(super) fn encode(say: &ServerOutput) -> Vec<u8> {
    serde_json::to_vec(say).expect("these types have only string keys and finite numbers")
}
