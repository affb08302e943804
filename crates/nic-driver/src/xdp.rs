//! The AF_XDP back end: an interface of the host, taken over entirely.
//!
//! A BPF program of six instructions ([`bpf`]) hands every frame of the interface's first queue to
//! a socket, before the host's stack sees it. Frames are in an area of memory (UMEM) that this
//! process and the kernel share, in pages. Four rings ([`ring`]) say which side owns a
//! page: *fill* (empty, for the kernel), *rx* (received), *tx* (to be sent), *completion* (sent).
//! Receiving needs no system call. One call sends a batch of frames ([`Device::flush`]), and it is
//! left out while the kernel does not ask for it.
//!
//! The UMEM is the pool of the frame region ([`NicLayout::umem`]). The kernel puts a frame into an
//! empty page that the driver had from its `fill` ring, and that page goes on to the inet server
//! without a copy. The pages are pinned through the supervisor's mapping, so strict mode in the
//! servers' mappings does not matter. They stay the region's, since no part of a region is ever cut
//! out of it. The socket keeps them until its last descriptor is closed.
//!
//! Frames to send are copied once, into pages behind the pool: they lie in other regions, and no
//! socket has more than one UMEM. In two cases the pool cannot be the UMEM: too much memory to
//! lock, or faults are to be made. Then the device has a UMEM of its own, and each frame is copied
//! between the two.
//!
//! XDP reports nothing about checksums, but the other end of a virtual cable may have left them
//! unfilled. Then the sum of the pseudo-header is in the checksum's place, and is recognised.
//!
//! The supervisor calls [`open`], which makes all of it (CAP_NET_ADMIN, CAP_NET_RAW, CAP_BPF, as
//! root has them). It gives the driver the socket, the memory, and the descriptors that keep
//! program and promiscuous mode in place. Both go with the last copy of their descriptors.

#![allow(unsafe_code)]

mod partial;
mod queues;
mod ring;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use abi::nic::{NicLayout, UMEM_STOCK};
use abi::offload::{Features, RxOffload, TxOffload};
use rustix::io::Errno;
use rustix::net::sockopt;
use rustix::net::xdp::{
    SocketAddrXdp, SocketAddrXdpFlags, XDP_PGOFF_RX_RING, XDP_PGOFF_TX_RING,
    XDP_UMEM_PGOFF_COMPLETION_RING, XDP_UMEM_PGOFF_FILL_RING, XdpDesc, XdpDescOptions, XdpUmemReg,
    XdpUmemRegFlags,
};
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType};
use shm::{Access, Backing, PAGE, Region};

use self::ring::XdpRing;
use crate::bpf::{self, Hook};
use crate::device::{Device, ETHERNET_HEADER, Part, Pending, Placed, Received, frame_len};
use crate::interface::{Interface, InterfaceError};
use crate::packet_socket::set_option;

const NEEDS: &str = "CAP_NET_ADMIN with CAP_BPF and CAP_NET_RAW";

/// Pages, and slots of the rings, for receiving and for sending.
const RECEIVE: u32 = UMEM_STOCK;
const SEND: u32 = abi::nic::SEND_CHUNKS;
/// Pages for receiving in a UMEM of the device's own. With the pages for sending it stays within
/// the 8 MiB that any user may lock by default (Linux's MLOCK_LIMIT), and leaves some of them.
const OWN_RECEIVE: u32 = 1280;
/// Bytes of a page of a UMEM, and of a UMEM of the device's own.
const UMEM_PAGE: u32 = PAGE as u32;
const UMEM: usize = (OWN_RECEIVE + SEND) as usize * PAGE;
/// Bytes that the kernel keeps free before each received frame (XDP_PACKET_HEADROOM).
const HEADROOM: usize = 256;
/// For so long a queue may be busy with a socket that is closed already.
const BUSY: Duration = Duration::from_millis(300);
/// XDP_MAX_TX_SKB_BUDGET: frames that one call sends in copy mode, at most the ring's.
const MAX_TX_SKB_BUDGET: libc::c_int = 9;
/// Longest IP packet whose frame, with a VLAN tag, fits into a page.
const LONGEST: usize = PAGE - HEADROOM - ETHERNET_HEADER - 4;

/// Takes the interface `name` over for packets of up to `mtu` bytes. If a frame region is given,
/// mapped for writing, it is the UMEM. Returns descriptors: the socket, those that keep the program
/// and promiscuous mode, and without a frame region the UMEM.
///
/// # Errors
/// See [`InterfaceError`]. Nothing is left behind then. [`InterfaceError::Unsupported`] may be due
/// to the frame region.
pub fn open(
    name: &str,
    mtu: u16,
    frames: Option<(&Region, &NicLayout)>,
) -> Result<Vec<OwnedFd>, InterfaceError> {
    let interface = Interface::require(name, mtu)?;
    let doing = |what: &str| format!("{what} the interface {name}");
    let unsupported =
        |what: &str, why: String| InterfaceError::Unsupported { doing: doing(what), why };
    if usize::from(mtu) > LONGEST {
        let why = format!("AF_XDP carries packets of up to {LONGEST} bytes: set nic.mtu");
        return Err(unsupported("take over", why));
    }
    if let Some(why) = queues::too_many(name) {
        return Err(unsupported("take over", why));
    }
    let failed = |what: &str, errno: Errno| match errno {
        Errno::BUSY | Errno::EXIST => InterfaceError::InUse { doing: doing(what) },
        Errno::AFNOSUPPORT | Errno::NOSYS | Errno::OPNOTSUPP => {
            unsupported(what, "the kernel or the interface does not support AF_XDP".to_owned())
        }
        errno => InterfaceError::new(doing(what), NEEDS, errno),
    };
    let no_memory = |why: &dyn std::fmt::Display| {
        unsupported("take over", format!("there is no memory for its frames: {why}"))
    };
    // Mapped until it is registered.
    let made;
    let (region, (at, len), umem) = match frames {
        Some((region, layout)) => {
            (region, layout.umem().ok_or_else(|| no_memory(&"the frame region has none"))?, None)
        }
        None => {
            let own = Region::create("tasuki-umem", UMEM, Backing::Small);
            let (own, umem) = own.map_err(|error| no_memory(&error))?;
            made = own;
            (&*made, (0, UMEM), Some(umem))
        }
    };
    let address = region.as_ptr(at, len).map_err(|error| no_memory(&error))? as u64;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::XDP, SocketType::RAW, flags, None)
        .map_err(|errno| failed("open an AF_XDP socket for", errno))?;
    set_up(&socket, address, len as u64).map_err(|errno| match errno {
        Errno::NOBUFS | Errno::NOMEM => unsupported(
            "share memory with",
            format!("{} KiB are to be locked: raise `ulimit -l`", len / 1024),
        ),
        errno => failed("share memory with", errno),
    })?;
    let address = SocketAddrXdp::new(SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP, interface.index, 0);
    bind(&socket, &address).map_err(|errno| failed("bind an AF_XDP socket to", errno))?;
    let program = bpf::socket_map(socket.as_fd())
        .and_then(|map| bpf::program(map.as_fd()))
        .map_err(|errno| failed("load the XDP program for", errno))?;
    let attach = |hook| bpf::attach(program.as_fd(), interface.index, hook);
    let link = attach(Hook::Driver)
        .or_else(|errno| match errno {
            // The interface's driver has no XDP, or not with this MTU or these offloads.
            Errno::OPNOTSUPP | Errno::INVAL | Errno::RANGE => attach(Hook::Generic),
            errno => Err(errno),
        })
        .map_err(|errno| failed("attach the XDP program to", errno))?;
    let promiscuous = crate::packet_socket::promiscuous(interface.index)
        .map_err(|errno| failed("receive frames for another address by", errno))?;
    Ok([socket, link, promiscuous].into_iter().chain(umem).collect())
}

/// Binds. The kernel frees a queue a moment after the last descriptor of its earlier socket is
/// closed. So a busy queue is tried again for a while.
fn bind(socket: &OwnedFd, address: &SocketAddrXdp) -> Result<(), Errno> {
    let end = Instant::now() + BUSY;
    loop {
        match rustix::net::bind(socket, address) {
            Err(Errno::BUSY) if Instant::now() < end => std::thread::sleep(BUSY / 100),
            other => return other,
        }
    }
}

/// Shares the memory with the kernel, and makes the rings.
fn set_up(socket: &OwnedFd, addr: u64, len: u64) -> Result<(), Errno> {
    let umem = XdpUmemReg {
        addr,
        len,
        chunk_size: UMEM_PAGE,
        headroom: 0,
        flags: XdpUmemRegFlags::empty(),
        tx_metadata_len: 0,
    };
    sockopt::set_xdp_umem_reg(socket, umem)?;
    sockopt::set_xdp_umem_fill_ring_size(socket, RECEIVE)?;
    sockopt::set_xdp_umem_completion_ring_size(socket, SEND)?;
    sockopt::set_xdp_rx_ring_size(socket, RECEIVE)?;
    sockopt::set_xdp_tx_ring_size(socket, SEND)?;
    // Linux before 6.17 does not know it.
    let _ = set_option(socket, libc::SOL_XDP, MAX_TX_SKB_BUDGET, &SEND);
    Ok(())
}

/// Where a driver has the UMEM.
#[derive(Debug, Clone)]
pub enum Memory {
    /// In a region that comes with the descriptors.
    Own,
    /// In this frame region.
    Pool(Arc<Region>, NicLayout),
}

/// An interface that was taken over.
#[derive(Debug)]
pub struct Xdp {
    fill: XdpRing<u64>,
    rx: XdpRing<XdpDesc>,
    tx: XdpRing<XdpDesc>,
    completion: XdpRing<u64>,
    /// Where the UMEM lies: from this offset of a region on.
    region: Arc<Region>,
    base: usize,
    /// The UMEM is the pool.
    in_place: bool,
    /// Addresses of the free pages to send from.
    free: Vec<u64>,
    socket: OwnedFd,
    /// Program and promiscuous mode last as long as these.
    _kept: [OwnedFd; 2],
    calls: u64,
    bad: u64,
    /// Bytes copied between UMEM and pages, or areas.
    rx_copied: u64,
    tx_copied: u64,
}

impl Xdp {
    /// A device out of the descriptors of [`open`].
    ///
    /// # Errors
    /// When they are not of such a kind, or the system has no memory left.
    pub fn new(mut fds: Vec<OwnedFd>, memory: Memory) -> io::Result<Self> {
        let short = || io::Error::from(io::ErrorKind::InvalidInput);
        let (region, base, receive, in_place) = match memory {
            Memory::Own => {
                let umem = fds.pop().ok_or_else(short)?;
                let region = Region::map(umem.as_fd(), UMEM, Access::ReadWrite);
                (region.map_err(io::Error::other)?, 0, OWN_RECEIVE, false)
            }
            Memory::Pool(region, layout) => {
                let (base, len) = layout.umem().ok_or_else(short)?;
                region.as_ptr(base, len).map_err(io::Error::other)?;
                (region, base, layout.pool.pages, true)
            }
        };
        let [socket, link, promiscuous]: [_; 3] = fds.try_into().map_err(|_| short())?;
        let offsets = sockopt::xdp_mmap_offsets(&socket)?;
        let fd = socket.as_fd();
        let mut fill = XdpRing::map(fd, XDP_UMEM_PGOFF_FILL_RING, &offsets.fr, RECEIVE)?;
        let rx = XdpRing::map(fd, XDP_PGOFF_RX_RING, &offsets.rx, RECEIVE)?;
        let tx = XdpRing::map(fd, XDP_PGOFF_TX_RING, &offsets.tx, SEND)?;
        let completion = XdpRing::map(fd, XDP_UMEM_PGOFF_COMPLETION_RING, &offsets.cr, SEND)?;
        let page_at = |number: u32| u64::from(number) * u64::from(UMEM_PAGE);
        if !in_place {
            (0..receive).for_each(|number| _ = fill.push(page_at(number)));
        }
        Ok(Self {
            fill,
            rx,
            tx,
            completion,
            region,
            base,
            in_place,
            free: (receive..receive + SEND).map(page_at).collect(),
            socket,
            _kept: [link, promiscuous],
            calls: 0,
            bad: 0,
            rx_copied: 0,
            tx_copied: 0,
        })
    }

    /// Gives the kernel an empty page. `false`: its ring is full.
    fn give(&mut self, page: u64) -> bool {
        let given = self.fill.push(page);
        if self.fill.wants_call() && self.rx.filled() == 0 {
            self.calls += 1;
            let _ = rustix::net::recv(&self.socket, &mut [0; 0][..], DONTWAIT);
        }
        given
    }

    /// Takes back the pages of sent frames.
    fn reclaim(&mut self) {
        while self.free.len() < SEND as usize
            && let Some(address) = self.completion.pop()
        {
            self.free.push(address);
        }
    }
}

impl Device for Xdp {
    fn features(&self) -> Features {
        match self.in_place {
            true => Features::RX_CHECKSUM.with(Features::RX_IN_PLACE),
            false => Features::RX_CHECKSUM,
        }
    }

    fn receive(&mut self, into: &mut [u8]) -> io::Result<Option<Received>> {
        if self.in_place {
            return Ok(None);
        }
        let Some(desc) = self.rx.pop() else { return Ok(None) };
        let len = desc.len as usize;
        let fits = len.min(into.len());
        let at = usize::try_from(desc.addr).unwrap_or(usize::MAX);
        let read = self.region.read(at, &mut into[..fits]);
        self.rx_copied += fits as u64;
        // The kernel wants the page, wherever in it the frame began.
        self.give(desc.addr - desc.addr % u64::from(UMEM_PAGE));
        if read.is_err() {
            self.bad += 1;
            return Ok(Some(Received::plain(0)));
        }
        let verified = partial::is_undone(&into[..fits]);
        Ok(Some(Received { len, offload: RxOffload { verified, segments: None } }))
    }

    fn post(&mut self, at: usize) -> bool {
        self.give(at as u64)
    }

    fn receive_posted(&mut self) -> io::Result<Option<Placed>> {
        let placed = |desc: XdpDesc| {
            // An address that no page has is no place of the pool either.
            let at = usize::try_from(desc.addr).unwrap_or(usize::MAX);
            Placed { at, len: desc.len as usize }
        };
        Ok(self.rx.pop().map(placed))
    }

    fn look_at(&mut self, frame: &[u8]) -> RxOffload {
        RxOffload { verified: partial::is_undone(frame), segments: None }
    }

    fn transmit(&mut self, frame: &[Part<'_>], _offload: TxOffload) -> io::Result<bool> {
        if self.free.is_empty() {
            self.reclaim();
        }
        let len = frame_len(frame);
        if len > PAGE {
            return Err(Errno::MSGSIZE.into());
        }
        let Some(&address) = self.free.last() else { return Ok(false) };
        let mut at = usize::try_from(address).map_or(usize::MAX, |address| self.base + address);
        for part in frame {
            part.copy_to(&self.region, at).map_err(|_| io::Error::from(Errno::FAULT))?;
            at += part.len();
        }
        let len = u32::try_from(len).unwrap_or(u32::MAX);
        let taken = self.tx.push(XdpDesc { addr: address, len, options: XdpDescOptions::empty() });
        if taken {
            self.free.pop();
            self.tx_copied += u64::from(len);
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        // In copy mode before Linux 6.17 one call sends up to 32 frames, and says EAGAIN when
        // there are more.
        while self.tx.wants_call() {
            let before = self.tx.unread();
            if before == 0 {
                break;
            }
            self.calls += 1;
            match rustix::net::send(&self.socket, &[], SendFlags::DONTWAIT) {
                Ok(_) | Err(Errno::AGAIN | Errno::BUSY | Errno::NOBUFS | Errno::INTR) => {}
                Err(errno) => {
                    return Err(errno.into());
                }
            }
            if self.tx.unread() == before {
                break;
            }
        }
        self.reclaim();
        Ok(())
    }

    fn poll_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn pending(&self) -> Pending {
        let transmit = self.tx.unread() > 0 && self.tx.wants_call();
        Pending { transmit, ..Pending::default() }
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        each("xdp.calls", self.calls);
        each("xdp.rx-bad-chunks", self.bad);
        each("xdp.rx-copied-bytes", self.rx_copied);
        each("xdp.tx-copied-bytes", self.tx_copied);
        if let Ok(counts) = sockopt::xdp_statistics(&self.socket) {
            let full = counts.rx_ring_full.unwrap_or(0);
            each("xdp.rx-dropped", counts.rx_dropped + full);
            each("xdp.rx-no-chunk", counts.rx_fill_ring_empty_descs.unwrap_or(0));
        }
    }
}

const DONTWAIT: rustix::net::RecvFlags = rustix::net::RecvFlags::DONTWAIT;

#[cfg(test)]
mod tests;
