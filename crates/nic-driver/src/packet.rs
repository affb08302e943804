//! The packet back end: an existing interface of the host, by a packet socket.
//!
//! The stack is one more station on that interface's link, with a hardware address of its own. The
//! interface is made to take frames for others (promiscuous). A filter in the kernel passes on the
//! frames for the stack's address and for groups. Frames that the host itself sends by the
//! interface are not seen. The host's own stack sees all incoming frames as before; it drops those
//! for our address. So host and stack both work on one interface, though not with each other.
//!
//! Received frames are in a ring of memory that is shared with the kernel ([`ring`]). Each is
//! copied out of the ring into a page of the frame region, without a system call. A super-segment
//! is longer than a slot, and one `recvmsg` gets it straight into such a page. Without a ring
//! (Linux before 4.6, or no memory for it) all frames are received so. One `sendmsg` sends one
//! frame, straight out of the clients' pages. Most of its time is the other end's receiving or the
//! device's. Over a veth pair 64 frames a call (`sendmmsg`) save a twentieth of it; a ring to send
//! from and `PACKET_QDISC_BYPASS` save less.
//!
//! `PACKET_VNET_HDR` puts virtio's header before each frame ([`crate::vnet`]). The header says
//! which frames are right although the other end of a virtual cable left their checksums undone. It
//! also allows super-segments to be sent. Received ones go on unchanged, or are segmented
//! ([`crate::superframe`]) where the stack takes none; those of UDP always are. VLAN tags that the
//! kernel took out are put back.
//!
//! The supervisor calls [`open`], which needs CAP_NET_RAW. The driver gets the socket and needs no
//! right. When the interface is deleted the socket says so (ENETDOWN, then ENXIO).

#![allow(unsafe_code)]

mod ring;
mod vlan;

use std::cell::Cell;
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use abi::offload::{Features, TxOffload};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use self::ring::{PacketRing, PacketSlot};
use self::vlan::{TAG, put_tag, vlan_tag};
use crate::device::{Device, MAX_PARTS, Part, Pending, Received};
use crate::interface::{Interface, InterfaceError};
use crate::packet_socket::{
    bind, bind_again, get_option, join_promiscuous, last_errno, set_option,
};
use crate::superframe::{self, SuperFrame};
use crate::vnet;

const NEEDS: &str = "CAP_NET_RAW";

/// Bytes of frames that wait in the kernel for the driver, and of frames that wait for the
/// interface. The kernel's count includes its overhead for each frame.
const RECEIVE_BUFFER: usize = 16 << 20;
const SEND_BUFFER: usize = 4 << 20;

/// A packet socket on the interface `name` for a station with the address `mac` and packets of up
/// to `mtu` bytes: non-blocking, closed on exec.
///
/// # Errors
/// See [`InterfaceError`].
pub fn open(name: &str, mac: [u8; 6], mtu: u16) -> Result<OwnedFd, InterfaceError> {
    let interface = Interface::require(name, mtu)?;
    let doing = |what: &str| format!("{what} the interface {name}");
    let failed = |what: &str, errno| InterfaceError::new(doing(what), NEEDS, errno);
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    // Without a protocol it receives nothing until it is bound.
    let socket = rustix::net::socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)
        .map_err(|errno| match errno {
            Errno::AFNOSUPPORT => InterfaceError::Unsupported {
                doing: doing("open a packet socket on"),
                why: "the kernel has no packet sockets; try `modprobe af_packet`".to_owned(),
            },
            errno => failed("open a packet socket on", errno),
        })?;
    for option in [libc::PACKET_VNET_HDR, libc::PACKET_AUXDATA, libc::PACKET_IGNORE_OUTGOING] {
        set_option(&socket, libc::SOL_PACKET, option, &1_i32)
            .map_err(|errno| failed("set an option of a packet socket on", errno))?;
    }
    let index = interface.index.cast_signed();
    join_promiscuous(&socket, index)
        .map_err(|errno| failed("receive frames for another address by", errno))?;
    filter(&socket, mac).map_err(|errno| failed("set a filter on", errno))?;
    // Only root can go over the limit. Other users get the system's limit.
    let _ = sockopt::set_socket_recv_buffer_size_force(&socket, RECEIVE_BUFFER)
        .or_else(|_| sockopt::set_socket_recv_buffer_size(&socket, RECEIVE_BUFFER));
    let _ = sockopt::set_socket_send_buffer_size_force(&socket, SEND_BUFFER)
        .or_else(|_| sockopt::set_socket_send_buffer_size(&socket, SEND_BUFFER));
    bind(&socket, index, libc::ETH_P_ALL)
        .map_err(|errno| failed("bind a packet socket to", errno))?;
    Ok(socket)
}

/// Classic BPF: frames to `mac` and to groups pass.
fn program(mac: [u8; 6]) -> [libc::sock_filter; 7] {
    let [a, b, c, d, e, f] = mac;
    let op = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let load = |size: u32, at| op(libc::BPF_LD | size | libc::BPF_ABS, 0, 0, at);
    let equal = |jt, jf, k| op(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, jt, jf, k);
    [
        load(libc::BPF_B, 0),
        op(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, 4, 0, 1),
        load(libc::BPF_W, 0),
        equal(0, 3, u32::from_be_bytes([a, b, c, d])),
        load(libc::BPF_H, 4),
        equal(0, 1, u32::from(u16::from_be_bytes([e, f]))),
        // The accepted length; the jumps above lead here, or behind it, where
        op(libc::BPF_RET | libc::BPF_K, 0, 0, u32::MAX),
    ]
}

fn filter(socket: &OwnedFd, mac: [u8; 6]) -> Result<(), Errno> {
    let mut program = [&program(mac)[..], &[refuse()]].concat();
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    set_option(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &filter)
}

/// … a frame is dropped.
fn refuse() -> libc::sock_filter {
    libc::sock_filter { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k: 0 }
}

/// An open packet socket.
#[derive(Debug)]
pub struct Packet {
    socket: OwnedFd,
    features: Features,
    /// Where the kernel puts received frames; without one they are all in the socket's queue.
    ring: Option<PacketRing>,
    /// The socket was reported ready, and its error was not read since.
    ready: bool,
    /// A super-frame that was received, while it is cut.
    cutting: SuperFrame,
    super_frames: u64,
    /// Super-frames that make no sense.
    bad_super_frames: u64,
    /// Frames that the kernel had dropped for want of room at the last reading.
    dropped: Cell<u64>,
    /// Frames longer than a slot that the kernel had no room for.
    lost: u64,
    /// Bytes copied out of the ring.
    copied: u64,
}

/// Room for the control message with [`libc::tpacket_auxdata`], aligned as the kernel wants it.
#[repr(C, align(8))]
struct Control([u8; 64]);

impl Packet {
    /// A device from a socket of [`open`], for packets of up to `mtu` bytes. With `offload` it
    /// offers its offloads for frames to send. Checksums of received frames may be unfilled in any
    /// case.
    ///
    /// # Errors
    /// EBUSY when another process still receives by it.
    pub fn new(socket: OwnedFd, mtu: u16, offload: bool) -> io::Result<Self> {
        let cutting = SuperFrame::new();
        let all = Features::TX_CHECKSUM.with(Features::TSO4).with(Features::TSO6);
        let all = if offload { all.with(Features::GRO) } else { Features::NONE };
        let features = all.with(Features::RX_CHECKSUM);
        let ring = match PacketRing::make(&socket, mtu) {
            Ok(ring) => Some(ring),
            Err(Errno::BUSY) => return Err(Errno::BUSY.into()),
            Err(errno) => {
                tracing::info!(%errno, "no ring for received frames: each takes a system call");
                None
            }
        };
        bind_again(&socket)?;
        Ok(Self {
            socket,
            features,
            ring,
            ready: false,
            cutting,
            super_frames: 0,
            bad_super_frames: 0,
            dropped: Cell::new(0),
            lost: 0,
            copied: 0,
        })
    }

    /// Frames that the kernel dropped since the start for want of room. Reading the kernel's count
    /// resets it.
    fn dropped(&self) -> u64 {
        let mut count = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
        if get_option(&self.socket, libc::PACKET_STATISTICS, &mut count).is_ok() {
            self.dropped.set(self.dropped.get() + u64::from(count.tp_drops));
        }
        self.dropped.get() + self.lost
    }

    /// One frame into `into`, as [`Packet::receive_queued`]; `None` when there is none.
    fn receive_raw(&mut self, into: &mut [u8]) -> Result<Option<Raw>, Errno> {
        loop {
            let Some(ring) = &mut self.ring else { return self.receive_queued(into) };
            let Some(slot) = ring.front() else {
                return match mem::take(&mut self.ready) {
                    true => sockopt::socket_error(&self.socket)?.map(|()| None),
                    false => Ok(None),
                };
            };
            let raw = match slot {
                PacketSlot::Frame(header, tag, frame) => {
                    let (first, rest) = frame.split_at(frame.len().min(into.len()));
                    into[..first.len()].copy_from_slice(first);
                    let behind = self.cutting.bytes_mut().get_mut(into.len()..);
                    let behind = behind.and_then(|behind| behind.get_mut(..rest.len()));
                    behind.unwrap_or_default().copy_from_slice(rest);
                    self.copied += frame.len() as u64;
                    Some(Raw { len: frame.len(), header, tag })
                }
                PacketSlot::Queued => self.receive_queued(into)?,
                PacketSlot::Lost => {
                    self.lost += 1;
                    None
                }
            };
            if let Some(ring) = &mut self.ring {
                ring.pass();
            }
            if raw.is_some() {
                return Ok(raw);
            }
        }
    }

    /// Receives one frame of the socket's queue into `into`. The rest of a longer frame goes to
    /// `self.cutting`, from byte `into.len()` on. Returns its length, header and VLAN tag.
    fn receive_queued(&mut self, into: &mut [u8]) -> Result<Option<Raw>, Errno> {
        let mut header = [0; vnet::HEADER];
        let rest = self.cutting.bytes_mut().get_mut(into.len()..).unwrap_or_default();
        let mut vectors = [
            libc::iovec { iov_base: header.as_mut_ptr().cast(), iov_len: header.len() },
            libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() },
            libc::iovec { iov_base: rest.as_mut_ptr().cast(), iov_len: rest.len() },
        ];
        let mut control = Control([0; 64]);
        // SAFETY: `msghdr` is plain old data: all zero bytes are a value of it.
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        message.msg_iov = vectors.as_mut_ptr();
        message.msg_iovlen = vectors.len();
        message.msg_control = (&raw mut control.0).cast();
        message.msg_controllen = control.0.len();
        let len = loop {
            // SAFETY: `message` names the header, the caller's bytes, our own and `control`, each
            // with its length. All are borrowed mutably until the call is over.
            let len = unsafe { libc::recvmsg(self.socket.as_raw_fd(), &raw mut message, 0) };
            match usize::try_from(len).map_err(|_| last_errno()) {
                Ok(len) => break len.saturating_sub(vnet::HEADER),
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        };
        let tag = tag(&control.0[..message.msg_controllen.min(64)]);
        Ok(Some(Raw { len, header, tag }))
    }

    /// Does a super-frame go on as it is? There must be room for it, one of UDP is always cut.
    fn goes_whole(&mut self, raw: &Raw, room: usize) -> bool {
        let tag = if raw.tag.is_some() { TAG } else { 0 };
        let fits = raw.len + tag <= room.min(superframe::LONGEST);
        let whole = fits
            && self.features.has(Features::GRO)
            && vnet::decode(&raw.header).segments.is_some();
        self.super_frames += u64::from(whole);
        whole
    }

    /// Begins to segment the super-frame whose beginning is in `into`. Returns the first segment.
    fn cut(&mut self, raw: &Raw, into: &mut [u8]) -> Option<Received> {
        // One that is longer than any, as a host may be set up to make them, is refused below.
        let first = into.len().min(raw.len).min(superframe::LONGEST);
        self.cutting.bytes_mut()[..first].copy_from_slice(&into[..first]);
        self.super_frames += 1;
        let next = self.cutting.begin(raw.len, &raw.header).then(|| self.cutting.next(into));
        next.flatten().or_else(|| {
            self.bad_super_frames += 1;
            None
        })
    }
}

/// A frame as it came out of the kernel.
struct Raw {
    len: usize,
    header: [u8; vnet::HEADER],
    tag: Option<[u8; TAG]>,
}

/// The VLAN tag from a control message.
fn tag(control: &[u8]) -> Option<[u8; TAG]> {
    // struct cmsghdr: length, level, type; then the data.
    let word =
        |at: usize| control.get(at..at + 4).map(|b| u32::from_ne_bytes([b[0], b[1], b[2], b[3]]));
    let data = mem::size_of::<libc::cmsghdr>();
    let kind = (word(data - 8)?.cast_signed(), word(data - 4)?.cast_signed());
    if kind != (libc::SOL_PACKET, libc::PACKET_AUXDATA) {
        return None;
    }
    let short = |at: usize| control.get(at..at + 2).map(|b| u16::from_ne_bytes([b[0], b[1]]));
    let status = word(data + mem::offset_of!(libc::tpacket_auxdata, tp_status))?;
    let identifier = short(data + mem::offset_of!(libc::tpacket_auxdata, tp_vlan_tci))?;
    let protocol = short(data + mem::offset_of!(libc::tpacket_auxdata, tp_vlan_tpid))?;
    vlan_tag(status, identifier, protocol)
}

impl Device for Packet {
    fn features(&self) -> Features {
        self.features
    }

    fn receive(&mut self, into: &mut [u8]) -> io::Result<Option<Received>> {
        if let Some(segment) = self.cutting.next(into) {
            return Ok(Some(segment));
        }
        loop {
            let Some(raw) = self.receive_raw(into)? else { return Ok(None) };
            if vnet::segment_size(&raw.header) > 0 && !self.goes_whole(&raw, into.len()) {
                match self.cut(&raw, into) {
                    Some(segment) => return Ok(Some(segment)),
                    None => continue,
                }
            }
            let offload = vnet::decode(&raw.header);
            let len = raw.tag.map_or(raw.len, |tag| put_tag(into, raw.len, tag));
            return Ok(Some(Received { len, offload }));
        }
    }

    fn transmit(&mut self, frame: &[Part<'_>], offload: TxOffload) -> io::Result<bool> {
        let header = vnet::encode(&offload, frame.first().map_or(&[], Part::head));
        loop {
            match send_parts(self.socket.as_fd(), &header, frame) {
                Ok(()) => return Ok(true),
                // NOBUFS: the interface's own queue is full, and the frame lost, as on any link.
                Err(Errno::NOBUFS) => return Ok(true),
                Err(Errno::AGAIN) => return Ok(false),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    fn poll_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn awake(&mut self, ready: bool) {
        self.ready |= ready;
    }

    fn pending(&self) -> Pending {
        Pending { receive: self.cutting.has_more(), ..Pending::default() }
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        each("packet.rx-dropped", self.dropped());
        each("packet.rx-copied-bytes", self.copied);
        each("packet.rx-super-frames", self.super_frames);
        each("packet.rx-bad-super-frames", self.bad_super_frames);
    }
}

/// One frame, one `sendmsg`: the kernel copies straight out of the client's pages.
fn send_parts(
    socket: BorrowedFd<'_>,
    header: &[u8; vnet::HEADER],
    frame: &[Part<'_>],
) -> Result<(), Errno> {
    let empty = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
    let mut vectors = [empty; 1 + MAX_PARTS];
    let mut count = 0;
    for (vector, part) in vectors.iter_mut().zip([&Part::local(header)].into_iter().chain(frame)) {
        *vector = libc::iovec { iov_base: part.address().cast_mut().cast(), iov_len: part.len() };
        count += 1;
    }
    // SAFETY: `msghdr` is plain old data: all zero bytes are a value of it.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = vectors.as_mut_ptr();
    message.msg_iovlen = count;
    // SAFETY: each of the first `count` vectors names bytes that stay mapped and readable for the
    // life of its `Part`, thus during the call. Only the kernel reads them. So another process may
    // write to them meanwhile: that spoils the frame, not memory.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, 0) };
    if sent < 0 { Err(last_errno()) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
