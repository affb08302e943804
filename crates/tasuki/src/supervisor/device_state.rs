//! The host kernel's report of the interface behind a device.

use nic_driver::interface::Interface;

use super::device_failure::interface_failure;
use crate::exit::Failure;

/// The known state of the interface behind a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DeviceState {
    /// The device is none of the host's interfaces.
    Apart,
    /// It is there.
    There {
        /// The kernel's number for it.
        index: u32,
        /// An operator set it up.
        up: bool,
        /// There is a station at the other end.
        carrier: bool,
        /// The bridge it is a port of: another one is another link.
        master: u32,
    },
    /// It is not there any more, or cannot be opened.
    Gone,
}

impl DeviceState {
    pub(super) fn of(interface: &Interface) -> Self {
        let Interface { index, up, carrier, master, .. } = *interface;
        Self::There { index, up, carrier, master }
    }

    /// That of a device that was just opened.
    pub(super) fn find(name: &str) -> Result<Self, Failure> {
        Ok(Interface::find(name)
            .map_err(|e| interface_failure(&e))?
            .map_or(Self::Gone, |found| Self::of(&found)))
    }

    /// As `ip link` writes it (RFC 2863's ifOperStatus).
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Apart | Self::There { up: true, carrier: true, .. } => "UP",
            Self::There { up: false, .. } => "DOWN",
            Self::There { .. } => "LOWERLAYERDOWN",
            Self::Gone => "NOTPRESENT",
        }
    }

    pub(super) fn is_up(self) -> bool {
        matches!(self, Self::Apart | Self::There { up: true, carrier: true, .. })
    }

    pub(super) fn is(self, interface: &Interface) -> bool {
        matches!(self, Self::There { index, .. } if index == interface.index)
    }
}
