//! Descriptors that the caller of `tasuki run` has left open.
//!
//! A socket of the host's network, a device of it or an io_uring would lead the program around its
//! instance. So they are closed before anything is started. Pipes, files and Unix sockets stay, and
//! what the user names or systemd passes on (sd_listen_fds(3)). A standard stream is not closed
//! behind the user's back: if it is such a socket, and not named, the program does not start.

#![allow(unsafe_code)]

use std::fs;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};

use rustix::net::{AddressFamily, sockopt};
use rustix::process::{Resource, getpid, getrlimit};

/// Where the kernel says what a descriptor is.
const LINKS: &str = "/proc/self/fd";
/// What it says of an io_uring, and of devices that carry frames of the host's network: TUN,
/// macvtap, and the ends of virtual machines.
const WAYS: [&str; 4] = ["anon_inode:[io_uring]", "/dev/net/", "/dev/tap", "/dev/vhost-"];
/// Most descriptors that are looked at without /proc.
const MOST: u64 = 1 << 20;

/// A descriptor with which the program does not start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnfitDescriptor {
    /// The user names it, and it is not open.
    NotOpen(RawFd),
    /// A standard stream is a socket of the host's network.
    Stream(RawFd),
}

/// Closes this process's sockets and devices of the host's network, and its io_urings, but those
/// that are `named` or that systemd passes on. With `unix` also Unix sockets, but for standard
/// streams. Call it first of all: no value may own a descriptor yet.
///
/// # Errors
/// Which descriptor keeps the program from its start.
pub fn close_ways_around(named: &[RawFd], unix: bool) -> Result<(), UnfitDescriptor> {
    let open = open_descriptors();
    if let Some(missing) = named.iter().find(|fd| !open.contains(fd)) {
        return Err(UnfitDescriptor::NotOpen(*missing));
    }
    let activated = activated();
    for fd in open {
        if named.contains(&fd) || activated.contains(&fd) {
            continue;
        }
        let is_stream = fd <= libc::STDERR_FILENO;
        // SAFETY: it was open a moment ago, and this process has one thread.
        let leads_around = leads_around(unsafe { BorrowedFd::borrow_raw(fd) }, unix && !is_stream);
        if leads_around && is_stream {
            return Err(UnfitDescriptor::Stream(fd));
        }
        if leads_around {
            // SAFETY: it was inherited, and no value of this process owns it.
            drop(unsafe { OwnedFd::from_raw_fd(fd) });
        }
    }
    Ok(())
}

/// Those that systemd passes on to this process.
fn activated() -> std::ops::Range<RawFd> {
    let number = |name: &str| std::env::var(name).ok()?.parse::<RawFd>().ok();
    let ours = number("LISTEN_PID") == Some(getpid().as_raw_nonzero().get());
    let count = number("LISTEN_FDS").filter(|_| ours).unwrap_or(0);
    3..3_i32.saturating_add(count)
}

fn open_descriptors() -> Vec<RawFd> {
    let is_open = |fd: &RawFd| {
        // SAFETY: the call looks at a number, which may be no descriptor.
        unsafe { libc::fcntl(*fd, libc::F_GETFD) >= 0 }
    };
    let listed = fs::read_dir(LINKS).map(|all| {
        let names = all.flatten().map(|one| one.file_name());
        names.filter_map(|name| name.to_str()?.parse().ok()).collect::<Vec<RawFd>>()
    });
    // The list's own descriptor is closed by now.
    let all = listed.unwrap_or_else(|_| {
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(MOST).min(MOST);
        (0..RawFd::try_from(limit).unwrap_or(RawFd::MAX)).collect()
    });
    all.into_iter().filter(is_open).collect()
}

/// Is it a socket of the host's network, a Unix socket where these count, a device or an io_uring?
fn leads_around(fd: BorrowedFd<'_>, unix: bool) -> bool {
    use std::os::fd::AsRawFd as _;
    match sockopt::socket_domain(fd) {
        Ok(AddressFamily::UNIX) => unix,
        Ok(family) => family.as_raw() != libc::AF_ALG as u16,
        Err(_) => {
            let link = fs::read_link(format!("{LINKS}/{}", fd.as_raw_fd()));
            let link = link.unwrap_or_default().into_os_string();
            WAYS.iter().any(|way| link.as_encoded_bytes().starts_with(way.as_bytes()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsFd as _;
    use std::os::unix::net::UnixStream;

    #[test]
    fn sockets_of_networks_lead_around() {
        let of_host = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(leads_around(of_host.as_fd(), false));
        let (local, _other) = UnixStream::pair().unwrap();
        assert!(!leads_around(local.as_fd(), false));
        assert!(leads_around(local.as_fd(), true));
        let (reader, _writer) = rustix::pipe::pipe().unwrap();
        assert!(!leads_around(reader.as_fd(), true));
        let file = fs::File::open("/proc/self/status").unwrap();
        assert!(!leads_around(file.as_fd(), true));
    }

    #[test]
    fn what_is_open_is_found() {
        let (reader, _writer) = rustix::pipe::pipe().unwrap();
        let number = std::os::fd::AsRawFd::as_raw_fd(&reader);
        assert!(open_descriptors().contains(&number));
    }
}
