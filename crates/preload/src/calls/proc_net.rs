//! /proc/net/if_inet6 as the C library's fopen(3) opens it: the stack's IPv6 addresses.
//!
//! The kernel shows the files of /proc/net by the reader's network namespace, which is the host's.
//! Java reads this one and asks for each interface's flags by ioctl, which fails for one of the
//! host's. No other program that reads /proc/net is known to need the stack's view.

#![allow(unsafe_code)]

use core::ffi::{CStr, c_char};
use core::fmt::Write as _;
use core::net::IpAddr;
use std::fs::File;
use std::io::{Seek as _, Write as _};
use std::os::fd::{AsRawFd as _, IntoRawFd as _};

use abi::network::InterfaceStatus;
use libc::FILE;
use rustix::fs::MemfdFlags;
use rustix::io::Errno;

use super::interfaces::interfaces;
use crate::errno::{self, Outcome};
use crate::interpose::interpose;
use crate::{instance, real};

const PATHS: [&CStr; 2] = [c"/proc/net/if_inet6", c"/proc/self/net/if_inet6"];
/// Flags of an address (linux/if_addr.h).
const DEPRECATED: u8 = 0x20;
const TENTATIVE: u8 = 0x40;
const PERMANENT: u8 = 0x80;

/// Is it this file, for reading?
unsafe fn is_addresses(path: *const c_char, mode: *const c_char) -> bool {
    if path.is_null() || mode.is_null() {
        return false;
    }
    // SAFETY: not null, and the program says that they are strings.
    let [path, mode] = [path, mode].map(|text| unsafe { CStr::from_ptr(text) });
    let reads = mode.to_bytes().starts_with(b"r") && !mode.to_bytes().contains(&b'+');
    reads && PATHS.contains(&path) && instance::is_wanted()
}

/// The file's lines: address, number of the interface, length of the prefix, scope, flags, name.
fn lines(interfaces: &[InterfaceStatus]) -> String {
    let mut text = String::new();
    for interface in interfaces {
        for row in &interface.addresses {
            let IpAddr::V6(address) = row.address else { continue };
            // linux/rtnetlink.h and net/ipv6.h.
            let scope = match address {
                _ if address.is_loopback() => 0x10,
                _ if address.is_unicast_link_local() => 0x20,
                _ => 0,
            };
            let state = match &*row.state {
                "tentative" => TENTATIVE,
                "deprecated" => DEPRECATED,
                _ => 0,
            };
            let flags = state | if row.valid.is_none() { PERMANENT } else { 0 };
            let (bits, index, prefix) = (address.to_bits(), interface.index, row.prefix);
            // A String takes all.
            let _ = writeln!(
                text,
                "{bits:032x} {index:02x} {prefix:02x} {scope:02x} {flags:02x} {:>8}",
                interface.name
            );
        }
    }
    text
}

/// A stream of those lines.
unsafe fn open(mode: *const c_char) -> Outcome<*mut FILE> {
    // SAFETY: the program says that it is a string.
    let closes = unsafe { CStr::from_ptr(mode) }.to_bytes().contains(&b'e');
    let flags = if closes { MemfdFlags::CLOEXEC } else { MemfdFlags::empty() };
    let mut file = File::from(rustix::fs::memfd_create(c"if_inet6", flags)?);
    let wrong = |error: std::io::Error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
    file.write_all(lines(&interfaces()?).as_bytes()).map_err(wrong)?;
    file.rewind().map_err(wrong)?;
    // SAFETY: the descriptor is open, and the mode is a string.
    let stream = unsafe { real::fdopen(file.as_raw_fd(), mode) };
    if stream.is_null() {
        return Err(errno::last());
    }
    // The stream closes it.
    let _ = file.into_raw_fd();
    Ok(stream)
}

interpose! {
    fn fopen(path: *const c_char, mode: *const c_char) -> *mut FILE {
        is_addresses(path, mode) => open(mode)
    }
    fn fopen64(path: *const c_char, mode: *const c_char) -> *mut FILE {
        is_addresses(path, mode) => open(mode)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use abi::network::AddressStatus;

    #[test]
    fn lines_are_as_the_kernel_has_them() {
        let address = |text: &str, prefix, state: &str, valid| AddressStatus {
            address: text.parse().unwrap(),
            prefix,
            state: state.to_owned(),
            origin: String::new(),
            valid,
        };
        let interface = InterfaceStatus {
            index: 2,
            name: "eth0".to_owned(),
            mac: Some("02:00:00:00:00:ff".to_owned()),
            mtu: 1500,
            state: "UP".to_owned(),
            addresses: vec![
                address("10.0.0.1", 8, "preferred", None),
                address("fd00::2", 64, "preferred", None),
                address("fe80::1", 64, "tentative", None),
                address("fd00::3", 64, "deprecated", Some(9)),
            ],
            name_servers: vec![],
            device: String::new(),
            features: vec![],
        };
        let lo = InterfaceStatus {
            index: 65_536,
            name: "lo".to_owned(),
            mac: None,
            addresses: vec![address("::1", 128, "preferred", None)],
            ..interface.clone()
        };
        assert_eq!(
            lines(&[interface, lo]),
            "fd000000000000000000000000000002 02 40 00 80     eth0\n\
             fe800000000000000000000000000001 02 40 20 c0     eth0\n\
             fd000000000000000000000000000003 02 40 00 20     eth0\n\
             00000000000000000000000000000001 10000 80 10 80       lo\n"
        );
    }

    #[test]
    fn other_files_and_modes_are_the_kernels() {
        for (path, mode) in [(c"/proc/net/if_inet6", c"w"), (c"/proc/net/route", c"r")] {
            // SAFETY: strings.
            assert!(!unsafe { is_addresses(path.as_ptr(), mode.as_ptr()) });
        }
        // SAFETY: null is allowed.
        assert!(!unsafe { is_addresses(core::ptr::null(), c"r".as_ptr()) });
    }
}
