//! The TAP back end: the kernel's network on the other side of a character device.
//!
//! A TAP device is an Ethernet device of the host whose cable ends in a file descriptor. The driver
//! reads the frames that the host sends, and the host receives the frames that the driver writes.
//! `IFF_NO_PI` leaves out packet information before frames. `IFF_VNET_HDR`, where offloads are
//! wanted, puts virtio's header before each frame ([`crate::vnet`]). Then checksums stay undone,
//! and super-segments of up to 64 KiB go unsegmented in both directions; TUNSETOFFLOAD sets which
//! the host may send. Without the header a read(2) receives a frame, which costs less than a
//! readv(2) of two parts.
//!
//! A device has three queues where the kernel allows it: neither frames that any host can send
//! unasked nor datagrams share a queue with the segments of connections ([`steering`]). The last
//! two take turns ([`turns`]).
//!
//! Each frame costs a system call, and the host's kernel receives the frame within that call. For
//! frames in bulk without offloads a kernel thread does that instead ([`bulk`]). The device lives
//! as long as its descriptors, so nothing is left when their holders end.
//!
//! The supervisor calls [`open`], [`open_queues`] and [`configure`], which need CAP_NET_ADMIN. The
//! driver process gets the open descriptors and needs no right at all.

#![allow(unsafe_code)]

mod bulk;
mod request;
mod steering;
mod turns;

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use abi::network::Prefixed;
use abi::offload::{Features, RxOffload, TxOffload};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use self::bulk::QueueChooser;
pub use self::request::TapError;
use self::request::{InterfaceRequest, features, last_errno, open_queue, set_number};
use self::turns::{Queue, Turns};
use crate::device::{Device, MAX_PARTS, Part, Pending, Received};
use crate::interface;
use crate::vnet::{self, HEADER};

/// Frames that the host may queue on the device while the driver is busy. With the kernel's default
/// of 1,000, a hundred parallel downloads overflow the queue whenever the driver waits for a
/// processor. Frames lost there cost whole retransmission timeouts. This length holds the first ten
/// segments of more than a thousand connections, at most some 40 MiB of the host's memory. The
/// driver takes them within a fraction of the 200 ms after which the host's TCP would retransmit.
const HOST_QUEUE: libc::c_int = 16_384;

/// Makes the TAP device `name` and returns its descriptor: non-blocking, closed on exec. With
/// `offload` the device can have offloads. An existing device is not changed, not even an unused
/// persistent one.
///
/// # Errors
/// See [`TapError`].
pub fn open(name: &str, offload: bool) -> Result<OwnedFd, TapError> {
    open_queue(name, |fd| header_flag(fd, offload) | libc::IFF_TUN_EXCL)
}

fn header_flag(fd: BorrowedFd<'_>, offload: bool) -> libc::c_int {
    if offload { features(fd) & libc::IFF_VNET_HDR } else { 0 }
}

/// As [`open`], with more queues where that is possible. The descriptors are, in this order:
///
/// 1. the queue of all frames, or of the regular ones where there is another;
/// 2. the queue of unsolicited frames ([`steering`]);
/// 3. the queue of datagrams;
/// 4. the queue for frames that the host is to receive at once, if the first has a thread
///    ([`bulk`]). It is the second queue again.
///
/// # Errors
/// See [`TapError`].
pub fn open_queues(name: &str, offload: bool) -> Result<Vec<OwnedFd>, TapError> {
    // Without the program the kernel would divide the frames by the hash of their flows.
    let steering = match steering::load() {
        Ok(program) => program,
        Err(errno) => {
            tracing::info!(device = name, %errno, "one queue for all: the kernel loads no program");
            return open(name, offload).map(|fd| vec![fd]);
        }
    };
    let many = |fd: BorrowedFd<'_>| header_flag(fd, offload) | libc::IFF_MULTI_QUEUE;
    let first = open_queue(name, |fd| many(fd) | libc::IFF_TUN_EXCL)?;
    // A device of several queues could have 256, and the kernel would make a queueing discipline
    // for each: 100 MB at this length. Frames are queued in the device in any case.
    if let Err(errno) = interface::set_no_queue(name) {
        tracing::warn!(%errno, device = name, "the kernel makes a queue for each of 256 queues");
    }
    let failed = |errno| TapError::new(format!("choose the queues of device {name}"), errno);
    set_number(&first, libc::TUNSETSTEERINGEBPF, steering.as_raw_fd()).map_err(failed)?;
    if !offload && bulk::may_help() {
        match bulk::open_threaded(name, &first) {
            Ok(threaded) => {
                let direct = first.try_clone().map_err(|error| {
                    failed(Errno::from_io_error(&error).unwrap_or(Errno::MFILE))
                })?;
                let third = open_queue(name, many)?;
                return Ok(vec![threaded, first, third, direct]);
            }
            Err(error) => tracing::debug!(%error, "no kernel thread receives frames in bulk"),
        }
    }
    let (second, third) = (open_queue(name, many)?, open_queue(name, many)?);
    Ok(vec![first, second, third])
}

/// Sets the host's addresses on the device, its MTU and queue length, and brings it up.
///
/// # Errors
/// See [`TapError`].
pub fn configure(name: &str, addresses: &[Prefixed], mtu: u16) -> Result<(), TapError> {
    let doing = |what: &str| format!("{what} of network device {name}");
    let socket = datagram_socket(AddressFamily::INET)?;
    let mut request = InterfaceRequest::new(name)?;
    let call = |request: &mut InterfaceRequest, number, what: &str| {
        let done = request.call(socket.as_fd(), number);
        done.map_err(|errno| TapError::new(doing(what), errno))
    };
    request.set_number(mtu.into());
    call(&mut request, libc::SIOCSIFMTU, "set the MTU")?;
    request.set_number(HOST_QUEUE);
    match request.call(socket.as_fd(), libc::SIOCSIFTXQLEN) {
        // The kernel asks for the host's own CAP_NET_ADMIN, which root of a user namespace lacks. A
        // shorter queue may lose frames of a burst, as on any link.
        Ok(()) | Err(Errno::PERM) => {}
        Err(errno) => return Err(TapError::new(doing("set the queue length"), errno)),
    }
    for address in addresses {
        if let IpAddr::V4(ip) = address.address {
            request.set_address(ip);
            call(&mut request, libc::SIOCSIFADDR, "set the address")?;
            let mask = u32::MAX.checked_shl(32 - u32::from(address.prefix.min(32))).unwrap_or(0);
            request.set_address(Ipv4Addr::from_bits(mask));
            call(&mut request, libc::SIOCSIFNETMASK, "set the network mask")?;
        }
    }
    // The host's addresses on our device are unique. So the next program should not have to wait
    // for the host's duplicate address detection. Without IPv6 in the kernel the file does not
    // exist.
    let setting = |key: &str, value| {
        let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/{key}"), value);
    };
    setting("accept_dad", "0");
    if addresses.iter().any(|address| address.address.is_ipv6()) {
        // Some machines start with IPv6 off on new devices; on this device it was requested.
        setting("disable_ipv6", "0");
    }
    call(&mut request, libc::SIOCGIFFLAGS, "read the flags")?;
    request.set_flags(i32::from(request.flags()) | libc::IFF_UP | libc::IFF_RUNNING);
    call(&mut request, libc::SIOCSIFFLAGS, "set the flags")?;
    for address in addresses {
        if let IpAddr::V6(ip) = address.address {
            add_v6(name, ip, address.prefix)
                .map_err(|errno| TapError::new(doing("set the IPv6 address"), errno))?;
        }
    }
    Ok(())
}

fn datagram_socket(family: AddressFamily) -> Result<OwnedFd, TapError> {
    rustix::net::socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
        .map_err(|errno| TapError::new("open a socket".to_owned(), errno))
}

/// Adds an IPv6 address to the device.
fn add_v6(name: &str, address: Ipv6Addr, prefix: u8) -> Result<(), Errno> {
    let (family, kind) = (AddressFamily::INET6, SocketType::DGRAM);
    let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
    let index = rustix::net::netdevice::name_to_index(&socket, name)?;
    let request = libc::in6_ifreq {
        ifr6_addr: libc::in6_addr { s6_addr: address.octets() },
        ifr6_prefixlen: prefix.into(),
        ifr6_ifindex: index.cast_signed(),
    };
    // SAFETY: on an AF_INET6 socket this request reads one `in6_ifreq`, which `request` is.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFADDR, &raw const request) };
    if done < 0 { Err(last_errno()) } else { Ok(()) }
}

/// Is there a network device of that name?
#[must_use]
pub fn exists(name: &str) -> bool {
    rustix::net::socket(AddressFamily::UNIX, SocketType::DGRAM, None)
        .is_ok_and(|socket| rustix::net::netdevice::name_to_index(socket, name).is_ok())
}

/// The offloads that the host may leave to us: checksums, and the segmentation of TCP's
/// super-segments.
const HOST_OFFLOADS: libc::c_uint =
    libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;

/// An open TAP device.
#[derive(Debug)]
pub struct Tap {
    fd: OwnedFd,
    /// The queue of unsolicited frames, if they have one.
    unsolicited: Option<OwnedFd>,
    /// The queue of datagrams, if they have one.
    datagrams: Option<(OwnedFd, Turns)>,
    /// The queue of frames that the host receives within the call, if `fd` is that of a thread.
    direct: Option<(OwnedFd, QueueChooser)>,
    /// There is a header before each frame.
    header: bool,
    features: Features,
}

impl Tap {
    /// A device from a descriptor of [`open`]. With `offload`, checksums and super-segments are
    /// left to the other side. A kernel without them is reported in the log.
    ///
    /// # Errors
    /// The system's, when the descriptor is no TAP device's or cannot be made non-blocking.
    pub fn new(fd: OwnedFd, offload: bool) -> io::Result<Self> {
        let flags = rustix::fs::fcntl_getfl(&fd)?;
        rustix::fs::fcntl_setfl(&fd, flags | OFlags::NONBLOCK)?;
        let mut request = InterfaceRequest::unnamed();
        request.call(fd.as_fd(), libc::TUNGETIFF)?;
        let header = i32::from(request.flags()) & libc::IFF_VNET_HDR != 0;
        let offloads = if offload { HOST_OFFLOADS } else { 0 };
        let set = header && set_offloads(fd.as_fd(), offloads).is_ok();
        if offload && !set {
            tracing::info!(
                "the kernel's TAP devices have no offloads: frames are sent as they are"
            );
        }
        let features = if offload && set { Self::FEATURES } else { Features::NONE };
        Ok(Self { fd, unsolicited: None, datagrams: None, direct: None, header, features })
    }

    /// As [`Tap::new`], from the descriptors of [`open_queues`].
    ///
    /// # Errors
    /// As there; `InvalidInput` when there are none, or too many.
    pub fn from_queues(queues: Vec<OwnedFd>, offload: bool) -> io::Result<Self> {
        let mut queues = queues.into_iter();
        let Some(fd) = queues.next() else { return Err(io::ErrorKind::InvalidInput.into()) };
        let tap = Self::new(fd, offload)?;
        let unsolicited = queues.next();
        let datagrams = queues.next().map(|fd| (fd, Turns::new()));
        let direct = queues.next().map(|fd| (fd, QueueChooser::default()));
        if queues.next().is_some() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Ok(Self { unsolicited, datagrams, direct, ..tap })
    }

    /// Reads a frame of a queue; `None` if there is none.
    #[inline]
    fn read(&self, queue: &OwnedFd, into: &mut [u8]) -> io::Result<Option<Received>> {
        let mut header = [0; HEADER];
        loop {
            let read = match self.header {
                true => {
                    let parts = &mut [IoSliceMut::new(&mut header), IoSliceMut::new(into)];
                    let read = rustix::io::readv(queue, parts);
                    read.map(|len| len.saturating_sub(HEADER))
                }
                false => rustix::io::read(queue, &mut *into),
            };
            match read {
                Ok(len) => {
                    let known = self.features != Features::NONE;
                    let offload = if known { vnet::decode(&header) } else { RxOffload::NONE };
                    return Ok(Some(Received { len, offload }));
                }
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Reads a frame of the regular queue or of the one of datagrams, in turn.
    #[inline]
    fn read_in_turn(&mut self, into: &mut [u8]) -> io::Result<Option<Received>> {
        let Some((_, turns)) = &mut self.datagrams else { return self.read(&self.fd, into) };
        let first = turns.first();
        if let Some(received) = self.read_of(first, into)? {
            return Ok(Some(received));
        }
        let other = self.datagrams.as_mut().is_some_and(|(_, turns)| turns.asks_other());
        if other { self.read_of(first.other(), into) } else { Ok(None) }
    }

    fn read_of(&mut self, queue: Queue, into: &mut [u8]) -> io::Result<Option<Received>> {
        let fd = match (queue, &self.datagrams) {
            (Queue::Datagrams, Some((fd, _))) => fd,
            _ => &self.fd,
        };
        let read = self.read(fd, into)?;
        if let Some((_, turns)) = &mut self.datagrams {
            if read.is_some() { turns.received(queue) } else { turns.found_none(queue) }
        }
        Ok(read)
    }

    const FEATURES: Features = Features::TX_CHECKSUM
        .with(Features::TSO4)
        .with(Features::TSO6)
        .with(Features::RX_CHECKSUM)
        .with(Features::GRO);
}

/// Sets the offloads that the host may leave to us.
fn set_offloads(fd: BorrowedFd<'_>, offloads: libc::c_uint) -> Result<(), Errno> {
    let argument = libc::c_ulong::from(offloads);
    // SAFETY: the request takes its argument as a number; `fd` is open.
    let done = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETOFFLOAD, argument) };
    if done < 0 { Err(last_errno()) } else { Ok(()) }
}

impl Device for Tap {
    fn features(&self) -> Features {
        self.features
    }

    fn receive(&mut self, into: &mut [u8]) -> io::Result<Option<Received>> {
        let received = self.read_in_turn(into)?;
        if let Some((_, chooser)) = &mut self.direct {
            if received.is_some() { chooser.received() } else { chooser.pause() }
        }
        Ok(received)
    }

    fn receive_unsolicited(&mut self, into: &mut [u8]) -> io::Result<Option<Received>> {
        self.unsolicited.as_ref().map_or(Ok(None), |queue| self.read(queue, into))
    }

    fn unsolicited_fd(&self) -> Option<BorrowedFd<'_>> {
        self.unsolicited.as_ref().map(AsFd::as_fd)
    }

    fn datagrams_fd(&self) -> Option<BorrowedFd<'_>> {
        self.datagrams.as_ref().map(|(fd, _)| fd.as_fd())
    }

    fn datagrams_reported(&mut self) {
        if let Some((_, turns)) = &mut self.datagrams {
            turns.reported(Queue::Datagrams);
        }
    }

    fn set_crowded(&mut self, crowded: bool) {
        if let Some((_, turns)) = &mut self.datagrams {
            turns.crowded = crowded;
        }
    }

    fn awake(&mut self, ready: bool) {
        if let Some((_, turns)) = self.datagrams.as_mut().filter(|_| ready) {
            turns.reported(Queue::Regular);
        }
    }

    fn pending(&self) -> Pending {
        let Some((_, turns)) = &self.datagrams else { return Pending::default() };
        let (wait, held) = (turns.datagrams_wait(), turns.datagrams_are_held());
        Pending { receive: wait && !held, later: wait && held, transmit: false }
    }

    fn transmit(&mut self, frame: &[Part<'_>], offload: TxOffload) -> io::Result<bool> {
        let header = vnet::encode(&offload, frame.first().map_or(&[], Part::head));
        let before = if self.header { &header[..] } else { &[] };
        let direct = self.direct.as_mut();
        let direct = direct.and_then(|(fd, chooser)| chooser.is_direct().then_some(&*fd));
        let fd = direct.unwrap_or(&self.fd);
        loop {
            match write_parts(fd.as_fd(), before, frame) {
                Ok(()) => {
                    if let Some((_, chooser)) = &mut self.direct {
                        chooser.sent();
                    }
                    return Ok(true);
                }
                Err(Errno::AGAIN) => return Ok(false),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        if let Some((_, chooser)) = &mut self.direct {
            chooser.batch_ends();
        }
        Ok(())
    }

    fn poll_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        let queues = [self.unsolicited.is_some(), self.datagrams.is_some()];
        each("tap.rx-queues", 1 + queues.map(u64::from).iter().sum::<u64>());
        if let Some((_, chooser)) = &self.direct {
            each("tap.tx-by-thread", chooser.by_thread());
        }
    }
}

/// One frame, one `writev`: the kernel copies straight out of the client's pages.
fn write_parts(fd: BorrowedFd<'_>, header: &[u8], frame: &[Part<'_>]) -> Result<(), Errno> {
    let empty = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
    let mut vectors = [empty; 1 + MAX_PARTS];
    let mut count = 0;
    let header = (!header.is_empty()).then(|| Part::local(header));
    for (vector, part) in vectors.iter_mut().zip(header.iter().chain(frame)) {
        *vector = libc::iovec { iov_base: part.address().cast_mut().cast(), iov_len: part.len() };
        count += 1;
    }
    // SAFETY: each of the first `count` vectors names bytes that stay mapped and readable for the
    // life of its `Part`, thus during the call. writev only reads them, and only the kernel looks
    // at them. So another process may write to them meanwhile: that spoils the frame, not memory.
    let written = unsafe { libc::writev(fd.as_raw_fd(), vectors.as_ptr(), count) };
    // A TAP device takes all of a frame or nothing.
    if written < 0 { Err(last_errno()) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
