//! How many receive queues an interface has: what `ethtool -l` shows (Linux's `linux/ethtool.h`).

use std::os::fd::AsRawFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType};

/// ioctl(2) for ethtool commands.
const SIOCETHTOOL: libc::Ioctl = 0x8946;
/// ETHTOOL_GCHANNELS
const GET_CHANNELS: u32 = 0x3c;

/// `struct ethtool_channels`
#[repr(C)]
#[derive(Debug, Default)]
struct Channels {
    command: u32,
    most: [u32; 4],
    receive: u32,
    transmit: u32,
    other: u32,
    combined: u32,
}

/// What is wrong with the queues of the interface `name`, of which the first is served, if
/// something is. One whose driver tells nothing of queues has one.
pub(super) fn too_many(name: &str) -> Option<String> {
    let Channels { receive, combined, .. } = channels(name)?;
    let count = receive.saturating_add(combined);
    // Where both kinds are, the combined ones come first.
    let kind = if combined > 0 { "combined" } else { "rx" };
    (count > 1).then(|| {
        format!(
            "it has {count} receive queues, of which one could be served: \
             `ethtool -L {name} {kind} 1`"
        )
    })
}

/// `None` where there is nothing to be told.
fn channels(name: &str) -> Option<Channels> {
    let (family, kind) = (AddressFamily::INET, SocketType::DGRAM);
    let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None).ok()?;
    let mut channels = Channels { command: GET_CHANNELS, ..Channels::default() };
    let mut ifr_name = [0; libc::IFNAMSIZ];
    // The last byte stays zero.
    let bytes = name.bytes().take(libc::IFNAMSIZ - 1);
    ifr_name.iter_mut().zip(bytes).for_each(|(place, byte)| *place = byte.cast_signed());
    let ifru_data = (&raw mut channels).cast();
    let ifr_ifru = libc::__c_anonymous_ifr_ifru { ifru_data };
    let mut request = libc::ifreq { ifr_name, ifr_ifru };
    // SAFETY: the kernel reads and writes `request`, and the structure of this command, `channels`,
    // that it points to; both live until the call is over.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &raw mut request) };
    (done == 0).then_some(channels)
}
