//! The set-ups: the measured client's TCP, its device, and the set-up that it is compared with.

use serde::{Deserialize, Serialize};

/// Whose TCP the measured client uses.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    clap::ValueEnum,
    Serialize,
    Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Setup {
    /// The kernel's over veth, MTU 1500, all offloads off.
    LinuxOff,
    /// The same, where each end's processor receives the frames for that end (receive packet
    /// steering). Otherwise the sender's processor does it all.
    LinuxRps,
    /// Tasuki over a TAP without offloads, one process each.
    SplitOff,
    /// The same, inet server and driver in one process.
    FusedOff,
    /// The same, inside the client.
    LibraryOff,
    /// Tasuki split, over a packet socket on the kernel's veth pair, all offloads off.
    Packet,
    /// Tasuki split, over AF_XDP on the kernel's veth pair, all offloads off.
    Xdp,
    /// smoltcp, in the client's process.
    Smoltcp,
    /// lwIP as Debian packages it, in the client's process.
    Lwip,
    /// gVisor's netstack, in the client's process.
    Gvisor,
    /// The kernel's over veth with its default offloads.
    LinuxOn,
    /// Tasuki over a TAP with offloads, one process each.
    Split,
    /// The same, for a client without the library: by the filter and the relay.
    SplitRelay,
    /// The same, inet server and driver in one process.
    Fused,
    /// The same, inside the client.
    Library,
    /// As split, with a client that uses the native API.
    SplitNative,
    /// As fused, with a client that uses the native API.
    FusedNative,
    /// As split-native, with `[memory] share_frames`.
    SplitShared,
    /// As fused-native, with `[memory] share_frames`.
    FusedShared,
    /// As split, client and server both on Tasuki, the TAP devices of both on one bridge.
    BridgeSplit,
    /// The same, processes as fused.
    BridgeFused,
    /// The same, as library.
    BridgeLibrary,
    /// The kernel's loopback interface.
    Loopback,
    /// Client and server both on Tasuki, with a wire between their instances; processes as split.
    WireSplit,
    /// The same, processes as fused.
    WireFused,
    /// The same, as library.
    WireLibrary,
    /// As wire-split, client and server by the native API.
    WireSplitNative,
    /// As wire-fused, client and server by the native API.
    WireFusedNative,
    /// As wire-split-native, with `[memory] share_frames` at both ends.
    WireSplitShared,
    /// As wire-fused-native, with `[memory] share_frames` at both ends.
    WireFusedShared,
    /// The kernel's in a user's own namespace, which pasta connects to this host.
    Pasta,
    /// Tasuki over passt, for a user without rights; processes as split.
    PasstSplit,
    /// The same, processes as fused.
    PasstFused,
    /// The same, as library.
    PasstLibrary,
}

/// Which build of Tasuki a set-up runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Build {
    /// The one that is measured.
    #[default]
    New,
    /// The earlier one, that it is compared with.
    Before,
}

impl Build {
    /// What tells names of its hosts from those of the other build.
    pub(crate) fn letter(self) -> &'static str {
        match self {
            Self::New => "n",
            Self::Before => "o",
        }
    }
}

/// The part of the measured end: that of the set-up's stack. The other end is on the kernel's, but
/// over a wire or a bridge.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Default,
    clap::ValueEnum,
    Serialize,
    Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Role {
    /// It connects and asks.
    #[default]
    Client,
    /// It listens and answers. `send` and `receive` are the client's words: it receives and sends.
    Server,
}

/// How Tasuki runs in a set-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tasuki {
    /// As `tasuki run --mode` takes it.
    pub(crate) mode: &'static str,
    /// The device.
    pub(crate) device: Device,
    /// By the native API.
    pub(crate) native: bool,
    /// With `[memory] share_frames`.
    pub(crate) shared: bool,
    /// As `tasuki run --intercept seccomp` has it.
    pub(crate) relayed: bool,
}

/// The device of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Device {
    /// A TAP device with or without offloads.
    Tap { offload: bool },
    /// A TAP device with offloads, on a bridge with that of the server's instance.
    Bridge,
    /// An interface of a veth pair, by the back end of that name.
    Veth(&'static str),
    /// A wire to the server's instance.
    Wire,
    /// passt, which connects to this host.
    Passt,
}

impl Setup {
    /// The set-ups of `compare` without `--only`: all but the peers and those over a bridge or
    /// passt.
    pub(crate) const ALL: [Self; 24] = [
        Self::LinuxOff,
        Self::LinuxRps,
        Self::SplitOff,
        Self::FusedOff,
        Self::LibraryOff,
        Self::Packet,
        Self::Xdp,
        Self::LinuxOn,
        Self::Split,
        Self::SplitRelay,
        Self::Fused,
        Self::Library,
        Self::SplitNative,
        Self::FusedNative,
        Self::SplitShared,
        Self::FusedShared,
        Self::Loopback,
        Self::WireSplit,
        Self::WireFused,
        Self::WireLibrary,
        Self::WireSplitNative,
        Self::WireFusedNative,
        Self::WireSplitShared,
        Self::WireFusedShared,
    ];

    /// The kernel's set-ups, each with a title for all that is compared with it.
    pub(crate) const BASES: [(Self, &'static str); 4] = [
        (Self::LinuxOff, "Off: MTU 1500, no offloads"),
        (Self::LinuxOn, "On: the default offloads of both"),
        (Self::Loopback, "Two programs over a wire"),
        (Self::Pasta, "Without rights: over passt"),
    ];

    /// The kernel's set-up that it is compared with.
    pub(crate) fn base(self) -> Self {
        match self {
            Self::LinuxOn
            | Self::Split
            | Self::SplitRelay
            | Self::Fused
            | Self::Library
            | Self::SplitNative
            | Self::FusedNative
            | Self::SplitShared
            | Self::FusedShared
            | Self::BridgeSplit
            | Self::BridgeFused
            | Self::BridgeLibrary => Self::LinuxOn,
            Self::Loopback
            | Self::WireSplit
            | Self::WireFused
            | Self::WireLibrary
            | Self::WireSplitNative
            | Self::WireFusedNative
            | Self::WireSplitShared
            | Self::WireFusedShared => Self::Loopback,
            Self::Pasta | Self::PasstSplit | Self::PasstFused | Self::PasstLibrary => Self::Pasta,
            _ => Self::LinuxOff,
        }
    }

    /// Is it measured in this role? Servers are unmodified programs, and the kernel's own.
    pub(crate) fn has(self, role: Role) -> bool {
        let servers = [
            Self::LinuxOff,
            Self::SplitOff,
            Self::FusedOff,
            Self::LibraryOff,
            Self::LinuxOn,
            Self::Split,
            Self::SplitRelay,
            Self::Fused,
            Self::Library,
        ];
        role == Role::Client || servers.contains(&self)
    }

    /// How Tasuki runs; `None`: it does not.
    pub(crate) fn tasuki(self) -> Option<Tasuki> {
        let device = match self.base() {
            Self::Loopback => Device::Wire,
            Self::Pasta => Device::Passt,
            base => Device::Tap { offload: base == Self::LinuxOn },
        };
        let plain = |mode| Tasuki { mode, device, native: false, shared: false, relayed: false };
        Some(match self {
            Self::SplitOff | Self::Split | Self::WireSplit | Self::PasstSplit => plain("split"),
            Self::FusedOff | Self::Fused | Self::WireFused | Self::PasstFused => plain("fused"),
            Self::LibraryOff | Self::Library | Self::WireLibrary | Self::PasstLibrary => {
                plain("library")
            }
            Self::BridgeSplit => Tasuki { device: Device::Bridge, ..plain("split") },
            Self::BridgeFused => Tasuki { device: Device::Bridge, ..plain("fused") },
            Self::BridgeLibrary => Tasuki { device: Device::Bridge, ..plain("library") },
            Self::SplitRelay => Tasuki { relayed: true, ..plain("split") },
            Self::Packet => Tasuki { device: Device::Veth("packet"), ..plain("split") },
            Self::Xdp => Tasuki { device: Device::Veth("xdp"), ..plain("split") },
            Self::SplitNative | Self::WireSplitNative => Tasuki { native: true, ..plain("split") },
            Self::FusedNative | Self::WireFusedNative => Tasuki { native: true, ..plain("fused") },
            Self::SplitShared | Self::WireSplitShared => {
                Tasuki { native: true, shared: true, ..plain("split") }
            }
            Self::FusedShared | Self::WireFusedShared => {
                Tasuki { native: true, shared: true, ..plain("fused") }
            }
            Self::LinuxOff
            | Self::LinuxRps
            | Self::LinuxOn
            | Self::Loopback
            | Self::Pasta
            | Self::Smoltcp
            | Self::Lwip
            | Self::Gvisor => return None,
        })
    }

    /// Is the server on Tasuki, if the set-up's end has this role? Its instance outlives a
    /// measurement.
    pub(crate) fn serves_on_tasuki(self, role: Role) -> bool {
        role == Role::Server && self.tasuki().is_some() || self.is_tasuki_at_both_ends()
    }

    /// Can two processes of the client's side have one connection?
    pub(crate) fn has_several_processes(self) -> bool {
        let tasuki = self.tasuki();
        !self.is_peer() && tasuki.is_none_or(|it| !it.native && it.mode != "library")
    }

    /// Is it for users without rights, who make no namespaces of the machine?
    pub(crate) fn is_rootless(self) -> bool {
        self.base() == Self::Pasta
    }

    /// Are client and server both on Tasuki?
    pub(crate) fn is_tasuki_at_both_ends(self) -> bool {
        let device = self.tasuki().map(|tasuki| tasuki.device);
        matches!(device, Some(Device::Wire | Device::Bridge))
    }

    /// A stack in the client's own process, over a TAP that is made for it?
    pub(crate) fn is_peer(self) -> bool {
        matches!(self, Self::Smoltcp | Self::Lwip | Self::Gvisor)
    }

    /// The kernel's TCP, over a veth pair?
    pub(crate) fn is_kernel_on_veth(self) -> bool {
        matches!(self, Self::LinuxOff | Self::LinuxRps | Self::LinuxOn)
    }

    /// Over a veth pair, the other end of which is the server's?
    pub(crate) fn on_veth(self) -> bool {
        let ours = self.tasuki().map(|tasuki| tasuki.device);
        self.is_kernel_on_veth() || matches!(ours, Some(Device::Veth(_)))
    }

    /// Do bytes come in super-segments, so that many are needed for a measurement?
    pub(crate) fn is_fast(self) -> bool {
        self.base() != Self::LinuxOff
    }

    /// Its column's head, beside those of the same base.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::LinuxOff | Self::LinuxOn | Self::Pasta => "Linux",
            Self::LinuxRps => "Linux, RPS",
            Self::SplitOff | Self::Split | Self::WireSplit | Self::PasstSplit => "split",
            Self::FusedOff | Self::Fused | Self::WireFused | Self::PasstFused => "fused",
            Self::LibraryOff | Self::Library | Self::WireLibrary | Self::PasstLibrary => "library",
            Self::BridgeSplit => "split to split",
            Self::BridgeFused => "fused to fused",
            Self::BridgeLibrary => "library to library",
            Self::SplitRelay => "split, relay",
            Self::Packet => "split, packet:",
            Self::Xdp => "split, xdp:",
            Self::SplitNative | Self::WireSplitNative => "split, native",
            Self::FusedNative | Self::WireFusedNative => "fused, native",
            Self::SplitShared | Self::WireSplitShared => "split, native, share_frames",
            Self::FusedShared | Self::WireFusedShared => "fused, native, share_frames",
            Self::Loopback => "Linux loopback",
            Self::Smoltcp => "smoltcp",
            Self::Lwip => "lwIP",
            Self::Gvisor => "gVisor netstack",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_and_both_ends_serve_on_tasuki() {
        assert!(Setup::Split.serves_on_tasuki(Role::Server));
        assert!(Setup::BridgeFused.serves_on_tasuki(Role::Client));
        assert!(!Setup::Split.serves_on_tasuki(Role::Client));
        assert!(!Setup::LinuxOn.serves_on_tasuki(Role::Server));
    }
}
