//! Requests to the kernel about one interface, and the opening of a TAP device's queue.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// Where TAP devices come from.
pub(super) const CLONE_DEVICE: &str = "/dev/net/tun";

/// Why there is no TAP device.
#[derive(Debug, thiserror::Error)]
pub enum TapError {
    /// The name cannot be a device's.
    #[error(
        "{0:?} cannot be a device name: 1 to 15 characters, no space, slash, colon or percent sign"
    )]
    BadName(String),
    /// The name belongs to a device that is in use or is not a TAP device.
    #[error("device name {0} is taken: choose another with --nic tap:NAME, or end its user")]
    NameTaken(String),
    /// The right to make network devices is missing.
    #[error("no right to {doing}: CAP_NET_ADMIN and access to /dev/net/tun are needed; use sudo")]
    Rights {
        /// The operation that failed.
        doing: String,
    },
    /// The kernel has no TAP devices.
    #[error("the kernel offers no TAP devices ({CLONE_DEVICE}: {0}); try `modprobe tun`")]
    NoTap(Errno),
    /// Anything else.
    #[error("cannot {doing}: {errno}")]
    System {
        /// The operation that failed.
        doing: String,
        /// The system's answer.
        errno: Errno,
    },
}

impl TapError {
    pub(super) fn new(doing: String, errno: Errno) -> Self {
        match errno {
            Errno::PERM | Errno::ACCESS => Self::Rights { doing },
            errno => Self::System { doing, errno },
        }
    }
}

/// One queue of the device `name`, with these flags beside those of all queues.
pub(super) fn open_queue(
    name: &str,
    more: impl FnOnce(BorrowedFd<'_>) -> libc::c_int,
) -> Result<OwnedFd, TapError> {
    let mut request = InterfaceRequest::new(name)?;
    let doing = || format!("make the network device {name}");
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let fd = rustix::fs::open(CLONE_DEVICE, flags, Mode::empty()).map_err(|errno| match errno {
        Errno::NOENT | Errno::NODEV | Errno::NXIO => TapError::NoTap(errno),
        errno => TapError::new(doing(), errno),
    })?;
    request.set_flags(libc::IFF_TAP | libc::IFF_NO_PI | more(fd.as_fd()));
    request.call(fd.as_fd(), libc::TUNSETIFF).map_err(|errno| match errno {
        // EINVAL: the name is there, but is no TAP device.
        Errno::BUSY | Errno::INVAL | Errno::EXIST => TapError::NameTaken(name.to_owned()),
        errno => TapError::new(doing(), errno),
    })?;
    Ok(fd)
}

/// The flags that this kernel's devices may have; 0 if it does not tell.
pub(super) fn features(fd: BorrowedFd<'_>) -> libc::c_int {
    let mut flags: libc::c_int = 0;
    // SAFETY: the request writes one unsigned int, which `flags` has room for; `fd` is open.
    let done = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNGETFEATURES, &raw mut flags) };
    if done < 0 { 0 } else { flags }
}

/// A request that reads one number.
pub(super) fn set_number(
    fd: &OwnedFd,
    request: libc::Ioctl,
    number: libc::c_int,
) -> Result<(), Errno> {
    // SAFETY: the requests made here read one int, which `number` is; `fd` is open.
    let done = unsafe { libc::ioctl(fd.as_raw_fd(), request, &raw const number) };
    if done < 0 { Err(last_errno()) } else { Ok(()) }
}

/// The kernel's interface request.
pub(super) struct InterfaceRequest(libc::ifreq);

impl InterfaceRequest {
    pub(super) fn new(name: &str) -> Result<Self, TapError> {
        let bad = |c: char| c.is_whitespace() || c.is_control() || "/:%".contains(c);
        let fits = (1..libc::IFNAMSIZ).contains(&name.len());
        if !fits || name.contains(bad) || name == "." || name == ".." {
            return Err(TapError::BadName(name.to_owned()));
        }
        let mut request = Self::unnamed();
        for (to, from) in request.0.ifr_name.iter_mut().zip(name.bytes()) {
            *to = libc::c_char::from_ne_bytes([from]);
        }
        Ok(request)
    }

    /// One about the device of the descriptor.
    pub(super) fn unnamed() -> Self {
        // SAFETY: `ifreq` is plain old data in all its variants: all zero bytes are a value of it.
        Self(unsafe { std::mem::zeroed() })
    }

    /// `flags` are those of `ifreq`, which has 16 bits for them.
    #[expect(clippy::cast_possible_truncation, reason = "the flags used are below 2^16")]
    pub(super) fn set_flags(&mut self, flags: i32) {
        self.0.ifr_ifru.ifru_flags = flags as libc::c_short;
    }

    pub(super) fn flags(&self) -> libc::c_short {
        // SAFETY: every bit pattern is a `c_short`, and the union was zeroed at first.
        unsafe { self.0.ifr_ifru.ifru_flags }
    }

    /// The number that a request is about: the MTU, the queue length.
    pub(super) fn set_number(&mut self, number: libc::c_int) {
        self.0.ifr_ifru.ifru_mtu = number;
    }

    pub(super) fn set_address(&mut self, address: Ipv4Addr) {
        // sockaddr_in within sockaddr: port (2 bytes), address (4), padding.
        let mut data = [0; 14];
        for (to, from) in data[2..6].iter_mut().zip(address.octets()) {
            *to = libc::c_char::from_ne_bytes([from]);
        }
        let family = libc::AF_INET as libc::sa_family_t;
        self.0.ifr_ifru.ifru_addr = libc::sockaddr { sa_family: family, sa_data: data };
    }

    /// The hardware address, after a request for it.
    pub(super) fn mac(&self) -> [u8; 6] {
        // SAFETY: every bit pattern is a `sockaddr`, and the union was zeroed at first.
        let data = unsafe { self.0.ifr_ifru.ifru_hwaddr.sa_data };
        std::array::from_fn(|at| data[at].to_ne_bytes()[0])
    }

    pub(super) fn call(&mut self, fd: BorrowedFd<'_>, request: libc::Ioctl) -> Result<(), Errno> {
        // SAFETY: every request made here reads and writes one `ifreq`, and `self` is one. `fd` is
        // open.
        let done = unsafe { libc::ioctl(fd.as_raw_fd(), request, &raw mut self.0) };
        if done < 0 { Err(last_errno()) } else { Ok(()) }
    }
}

pub(super) fn last_errno() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}
