//! ethtool's commands to an interface, by ioctl(2) (Linux's `linux/ethtool.h`).

#![allow(unsafe_code)]

use std::io;
use std::os::fd::AsRawFd;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

/// ioctl(2) for all of them.
const SIOCETHTOOL: libc::Ioctl = 0x8946;
const ETHTOOL_SGRO: u32 = 0x2c;
const ETHTOOL_GCHANNELS: u32 = 0x3c;

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

/// `struct ethtool_value`
#[repr(C)]
#[derive(Debug)]
struct Value {
    command: u32,
    data: u32,
}

/// How many receive queues an interface has, as `ethtool -l` shows them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReceiveQueues {
    /// Those that only receive.
    pub(crate) receive: u32,
    /// Those that do both; where both kinds are, they come first.
    pub(crate) combined: u32,
}

/// `None` if the driver reports nothing.
pub(crate) fn receive_queues(name: &str) -> Option<ReceiveQueues> {
    let mut channels = Channels { command: ETHTOOL_GCHANNELS, ..Channels::default() };
    give(name, &mut channels).ok()?;
    let Channels { receive, combined, .. } = channels;
    Some(ReceiveQueues { receive, combined })
}

/// The host is to join no segments that it receives (`ethtool -K NAME gro off`).
///
/// # Errors
/// The system's; EPERM without CAP_NET_ADMIN.
pub(crate) fn set_gro_off(name: &str) -> Result<(), Errno> {
    give(name, &mut Value { command: ETHTOOL_SGRO, data: 0 })
}

/// Runs a command, which begins with its number. The answer replaces it.
fn give<T>(name: &str, command: &mut T) -> Result<(), Errno> {
    let (family, kind) = (AddressFamily::INET, SocketType::DGRAM);
    let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
    let mut ifr_name = [0; libc::IFNAMSIZ];
    // The last byte stays zero.
    let bytes = name.bytes().take(libc::IFNAMSIZ - 1);
    ifr_name.iter_mut().zip(bytes).for_each(|(place, byte)| *place = byte.cast_signed());
    let ifru_data = (&raw mut *command).cast();
    let ifr_ifru = libc::__c_anonymous_ifr_ifru { ifru_data };
    let mut request = libc::ifreq { ifr_name, ifr_ifru };
    // SAFETY: the kernel reads and writes `request` and the structure that it points to. The
    // structure is that of the command (the callers are those above). Both live until the call is
    // over.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &raw mut request) };
    if done == 0 {
        return Ok(());
    }
    Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO))
}
