//! The frames that are moved, and the packet socket that sends them from the far end.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, OwnedFd};

use abi::offload::{Checksum, SegmentKind, Segments, TxOffload};
use anyhow::{Context, Result};
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

/// Length of virtio's header.
pub(super) const HEADER: usize = 10;
/// Length of the headers of Ethernet, IPv4 and TCP.
const HEADERS: usize = 54;
/// Payload of a segment, and segments of a super-segment.
const SEGMENT: usize = 1460;
const SEGMENTS: usize = 44;
/// Connections, so that the kernel may spread them over queues.
const FLOWS: u8 = 64;
/// Bytes that wait in a socket.
const BUFFER: usize = 256 << 20;
/// Frames that one sendmmsg(2) has.
pub(super) const TOGETHER: usize = 64;

/// A frame, with virtio's header before it.
#[derive(Clone)]
pub(super) struct Parcel(Vec<u8>);

impl Parcel {
    /// Of one segment, or of a super-segment.
    pub(super) fn new(super_segment: bool) -> Self {
        let payload = if super_segment { SEGMENT * SEGMENTS } else { SEGMENT };
        let mut bytes = vec![0; HEADER + HEADERS + payload];
        if super_segment {
            // VIRTIO_NET_HDR_F_NEEDS_CSUM, GSO_TCPV4; lengths; where the checksum is.
            bytes[..2].copy_from_slice(&[1, 1]);
            for (at, number) in [(2, HEADERS), (4, SEGMENT), (6, 34), (8, 16)] {
                bytes[at..at + 2].copy_from_slice(&(number as u16).to_ne_bytes());
            }
        }
        let frame = &mut bytes[HEADER..];
        // Stations 02:…:02 and 02:…:01, neither of which is here; IPv4.
        frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0]);
        let len = ((20 + 20 + payload) as u16).to_be_bytes();
        // Version and length, total length, don't fragment, TTL, TCP, addresses.
        frame[14..34].copy_from_slice(&[
            0x45, 0, len[0], len[1], 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
        ]);
        // Ports; length of the header and ACK.
        frame[34..38].copy_from_slice(&[0x80, 0, 0x80, 0]);
        frame[46..48].copy_from_slice(&[0x50, 0x10]);
        Self(bytes)
    }

    /// All of it, with virtio's header if that is wanted.
    pub(super) fn bytes(&self, header: bool) -> &[u8] {
        &self.0[if header { 0 } else { HEADER }..]
    }

    /// Bytes of the frame.
    pub(super) fn frame_len(&self) -> usize {
        self.0.len() - HEADER
    }

    /// The content of the header, as Tasuki's drivers have it.
    pub(super) fn offload(&self) -> TxOffload {
        if !self.is_super() {
            return TxOffload::NONE;
        }
        let checksum = Some(Checksum { start: 34, offset: 16 });
        let segments = Some(Segments { kind: SegmentKind::Tcp4, size: SEGMENT as u16 });
        TxOffload { checksum, segments }
    }

    /// Is it a super-segment?
    pub(super) fn is_super(&self) -> bool {
        self.0[1] != 0
    }
}

/// The places that receive frames: as many as the largest batch needs, used in turn. So all ways
/// use as much of the processor's caches.
pub(super) struct Places {
    memory: Vec<u8>,
    len: usize,
    next: usize,
}

impl Places {
    /// For frames of so many bytes.
    pub(super) fn new(len: usize) -> Self {
        Self { memory: vec![0; len * TOGETHER], len, next: 0 }
    }

    /// The next one.
    pub(super) fn next(&mut self) -> &mut [u8] {
        let at = self.next * self.len;
        self.next = (self.next + 1) % TOGETHER;
        &mut self.memory[at..at + self.len]
    }

    /// All.
    pub(super) fn all(&mut self) -> impl Iterator<Item = &mut [u8]> {
        self.memory.chunks_mut(self.len)
    }
}

/// A packet socket on an interface that exists, with virtio's header before each frame.
pub(super) fn packet_socket(interface: &str, protocol: u16) -> Result<OwnedFd> {
    let (family, kind) = (AddressFamily::PACKET, SocketType::RAW);
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, kind, flags, None)
        .context("opening a packet socket (needs root)")?;
    set_option(&socket, libc::PACKET_VNET_HDR, &1)?;
    let index = rustix::net::netdevice::name_to_index(&socket, interface)?;
    sockopt::set_socket_send_buffer_size_force(&socket, BUFFER)?;
    sockopt::set_socket_recv_buffer_size_force(&socket, BUFFER)?;
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as libc::c_ushort,
        sll_protocol: protocol.to_be(),
        sll_ifindex: index.cast_signed(),
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    let len = mem::size_of_val(&address) as libc::socklen_t;
    // SAFETY: the kernel reads the `len` bytes of `address`.
    let done = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) };
    if done < 0 {
        return Err(io::Error::last_os_error()).context("binding a packet socket");
    }
    Ok(socket)
}

/// Sets an option of a packet socket.
pub(super) fn set_option<T>(socket: &OwnedFd, option: libc::c_int, value: &T) -> io::Result<()> {
    let len = mem::size_of::<T>() as libc::socklen_t;
    let fd = socket.as_raw_fd();
    // SAFETY: the kernel reads the `len` bytes of `value`, which holds no pointers.
    let done =
        unsafe { libc::setsockopt(fd, libc::SOL_PACKET, option, (&raw const *value).cast(), len) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Sends frames of many connections to a device from its far end.
pub(super) struct Source {
    socket: OwnedFd,
    /// One of each connection.
    frames: Vec<Parcel>,
}

impl Source {
    /// By this interface; past its queueing discipline, so that nothing waits there.
    pub(super) fn new(interface: &str, parcel: &Parcel) -> Result<Self> {
        let socket = packet_socket(interface, 0)?;
        set_option(&socket, libc::PACKET_QDISC_BYPASS, &1)?;
        let of = |flow| {
            let mut frame = parcel.clone();
            frame.0[HEADER + 35] = flow;
            frame
        };
        Ok(Self { socket, frames: (0..FLOWS).map(of).collect() })
    }

    pub(super) fn send(&self, count: usize) -> io::Result<()> {
        let mut left = count;
        while left > 0 {
            let frames = self.frames.iter().map(|parcel| parcel.bytes(true)).take(left);
            left -= send_together(&self.socket, frames)?;
        }
        Ok(())
    }
}

/// Sends up to [`TOGETHER`] frames by one sendmmsg(2); how many were sent.
pub(super) fn send_together<'a>(
    socket: &OwnedFd,
    frames: impl Iterator<Item = &'a [u8]>,
) -> io::Result<usize> {
    let vector = |frame: &[u8]| libc::iovec {
        iov_base: frame.as_ptr().cast_mut().cast(),
        iov_len: frame.len(),
    };
    together(frames.map(vector), |messages, count| {
        // SAFETY: each of the first `count` messages names a vector of its own, which names a
        // frame that is borrowed for the call; sendmmsg only reads them, and writes lengths to
        // `messages`.
        unsafe { libc::sendmmsg(socket.as_raw_fd(), messages, count, 0) }
    })
}

/// Receives up to [`TOGETHER`] frames by one recvmmsg(2), as many as there are; how many came.
pub(super) fn receive_together<'a>(
    socket: &OwnedFd,
    places: impl Iterator<Item = &'a mut [u8]>,
) -> io::Result<usize> {
    let vector = |place: &mut [u8]| libc::iovec {
        iov_base: place.as_mut_ptr().cast(),
        iov_len: place.len(),
    };
    together(places.map(vector), |messages, count| {
        let none = std::ptr::null_mut();
        // SAFETY: as above, but the memory that a vector names is borrowed mutably, and written.
        unsafe { libc::recvmmsg(socket.as_raw_fd(), messages, count, 0, none) }
    })
}

/// One call with a message for each vector.
fn together(
    these: impl Iterator<Item = libc::iovec>,
    call: impl FnOnce(*mut libc::mmsghdr, libc::c_uint) -> libc::c_int,
) -> io::Result<usize> {
    let nothing = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
    let mut vectors = [nothing; TOGETHER];
    // SAFETY: `mmsghdr` is plain old data: all zero bytes are a value of it.
    let mut messages: [libc::mmsghdr; TOGETHER] = unsafe { mem::zeroed() };
    let mut count = 0;
    for ((message, vector), this) in messages.iter_mut().zip(&mut vectors).zip(these) {
        *vector = this;
        message.msg_hdr.msg_iov = &raw mut *vector;
        message.msg_hdr.msg_iovlen = 1;
        count += 1;
    }
    let done = call(messages.as_mut_ptr(), count);
    usize::try_from(done).map_err(|_| io::Error::last_os_error())
}
