//! The Linux kernel as one host of a world. It is a real socket, whose frames travel over a TAP
//! device that this process holds. Such a world runs in real time, in its own network namespace
//! (see the `tasuki-differential` command). Links, applications and checkers are the same.

use core::cell::Cell;
use core::net::{IpAddr, SocketAddr};
use core::ops::Range;
use core::time::Duration;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use abi::network::Prefixed;
use abi::offload::TxOffload;
use inet::tcp::TcpConfig;
use inet::{Error, Instant, RxPiece};
use nic_driver::device::{Device, Part};
use nic_driver::tap::{self, Tap};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType, sockopt,
};

use crate::bytes::{Chunk, Frame, LiveCount};
use crate::check::WriteMark;
use crate::host::{ADDRESSES, ConnectionView, Host, PORT};
use crate::wire;

const DEVICE: &str = "sim0";
/// Interval of polling the socket while it reports nothing.
const HEARTBEAT: Duration = Duration::from_millis(20);
/// Most bytes read at a time.
const PIECE: usize = 16_384;

/// The kernel's end.
#[derive(Debug)]
pub struct KernelHost {
    device: Tap,
    listener: Option<OwnedFd>,
    socket: Option<OwnedFd>,
    /// Bytes that the application has sent and the socket has not taken.
    out: VecDeque<u8>,
    taken: u64,
    shut: bool,
    left: bool,
    latest: ConnectionView,
    /// Frames that the device gave.
    frames: VecDeque<Vec<u8>>,
    pieces: LiveCount,
    active: Cell<bool>,
}

fn failed(what: &str) -> impl FnOnce(Errno) -> io::Error {
    move |errno| io::Error::new(io::Error::from(errno).kind(), format!("{what}: {errno}"))
}

/// Sets a number that belongs to this network namespace.
fn set(name: &str, value: u64) -> io::Result<()> {
    let path = format!("/proc/sys/net/{name}");
    std::fs::write(&path, format!("{value}\n"))
        .map_err(|error| io::Error::new(error.kind(), format!("{path}: {error}")))
}

fn error_of(errno: Errno) -> Error {
    match errno {
        Errno::CONNREFUSED => Error::Refused,
        Errno::CONNRESET => Error::Reset,
        Errno::TIMEDOUT => Error::TimedOut,
        Errno::HOSTUNREACH => Error::HostUnreachable,
        Errno::NETUNREACH => Error::NetUnreachable,
        Errno::PIPE => Error::BrokenPipe,
        Errno::NOTCONN => Error::NotConnected,
        _ => Error::Invalid,
    }
}

impl KernelHost {
    /// The active side (`side` 0, connecting now) or the passive one, which listens if `listens`.
    ///
    /// # Errors
    /// The system's; most likely a right that is missing.
    pub fn new(side: usize, tcp: &TcpConfig, mtu: u16, listens: bool) -> io::Result<Self> {
        set("ipv6/conf/default/disable_ipv6", 1)?;
        set("ipv4/tcp_syn_retries", tcp.syn_retries.into())?;
        set("ipv4/tcp_synack_retries", tcp.synack_retries.into())?;
        // Without offloads: worlds check every frame as it would be on a wire.
        let device = Tap::new(tap::open(DEVICE, false).map_err(io::Error::other)?, false)?;
        let address = Prefixed { address: ADDRESSES[side], prefix: 24 };
        tap::configure(DEVICE, &[address], mtu).map_err(io::Error::other)?;
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let open = || {
            rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)
                .map_err(failed("socket"))
        };
        let (mut listener, mut socket) = (None, None);
        let at = SocketAddr::new(ADDRESSES[1], PORT);
        if side == 0 {
            let fd = open()?;
            configure(&fd, tcp)?;
            match rustix::net::connect(&fd, &at) {
                Ok(()) | Err(Errno::INPROGRESS) => {}
                Err(errno) => return Err(failed("connect")(errno)),
            }
            socket = Some(fd);
        } else if listens {
            // A child inherits the options.
            let fd = open()?;
            configure(&fd, tcp)?;
            rustix::net::bind(&fd, &at).map_err(failed("bind"))?;
            rustix::net::listen(&fd, 4).map_err(failed("listen"))?;
            listener = Some(fd);
        }
        Ok(Self {
            device,
            listener,
            socket,
            out: VecDeque::new(),
            taken: 0,
            shut: false,
            left: false,
            latest: ConnectionView::default(),
            frames: VecDeque::new(),
            pieces: LiveCount::default(),
            active: Cell::new(true),
        })
    }

    fn fail(&mut self, errno: Errno) {
        self.latest.error.get_or_insert(error_of(errno));
        self.out.clear();
    }

    /// Moves bytes between the application and the socket, as far as both sides can.
    fn work(&mut self) {
        if let Some(listener) = &self.listener
            && self.socket.is_none()
            && let Ok(fd) = rustix::net::accept_with(listener, SocketFlags::NONBLOCK)
        {
            self.socket = Some(fd);
        }
        let Some(socket) = &self.socket else { return };
        if !self.latest.connected && self.latest.error.is_none() {
            match sockopt::socket_error(socket) {
                Ok(Err(errno)) => return self.fail(errno),
                _ if rustix::net::getpeername(socket).is_ok() => self.latest.connected = true,
                _ => return,
            }
        }
        while !self.out.is_empty() {
            let (front, _) = self.out.as_slices();
            match rustix::net::send(socket, front, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(len) => {
                    self.out.drain(..len);
                    self.taken += len as u64;
                }
                Err(Errno::AGAIN | Errno::INTR) => return,
                Err(errno) => return self.fail(errno),
            }
        }
        if self.shut && !self.left {
            self.shut = false;
            let _ = rustix::net::shutdown(socket, Shutdown::Write);
        }
        if self.left {
            self.socket = None;
            self.listener = None;
        }
    }

    fn read_device(&mut self) {
        let mut frame = vec![0; 65_536];
        while let Ok(Some(received)) = self.device.receive(&mut frame) {
            self.frames.push_back(frame[..received.len].to_vec());
        }
    }
}

fn configure(fd: &OwnedFd, tcp: &TcpConfig) -> io::Result<()> {
    if let Some(timeout) = tcp.user_timeout {
        let millis = timeout.as_millis() as u32;
        sockopt::set_tcp_user_timeout(fd, millis).map_err(failed("TCP_USER_TIMEOUT"))?;
    }
    if let Some(keep_alive) = tcp.keep_alive {
        sockopt::set_tcp_keepidle(fd, keep_alive.idle).map_err(failed("TCP_KEEPIDLE"))?;
        sockopt::set_tcp_keepintvl(fd, keep_alive.interval).map_err(failed("TCP_KEEPINTVL"))?;
        sockopt::set_tcp_keepcnt(fd, keep_alive.probes.into()).map_err(failed("TCP_KEEPCNT"))?;
        sockopt::set_socket_keepalive(fd, true).map_err(failed("SO_KEEPALIVE"))?;
    }
    Ok(())
}

impl Host for KernelHost {
    fn deliver(&mut self, _now: Instant, frame: Frame) {
        // The kernel answers at once. A frame that it does not take is lost on the link.
        let part = Part::local(inet::RxBytes::bytes(&frame));
        let _ = self.device.transmit(&[part], TxOffload::NONE);
        self.active.set(true);
        self.read_device();
    }

    fn poll(&mut self, _now: Instant, room: usize, out: &mut Vec<Vec<u8>>) {
        self.active.set(false);
        self.work();
        self.read_device();
        let count = room.min(self.frames.len());
        out.extend(self.frames.drain(..count));
    }

    fn poll_at(&self, now: Instant) -> Option<Instant> {
        let ended = self.left && self.socket.is_none();
        if !self.frames.is_empty() || self.active.get() {
            return Some(now);
        }
        (!ended).then_some(now + HEARTBEAT)
    }

    /// Without marks: no script of the comparison has any.
    fn send(&mut self, _now: Instant, chunk: Chunk, _mark: WriteMark) -> Result<(), Error> {
        if let Some(error) = self.latest.error {
            return Err(error);
        }
        self.out.extend(chunk.part(0..inet::TxBytes::len(&chunk)));
        self.active.set(true);
        Ok(())
    }

    fn recv(&mut self) -> Option<RxPiece<inet::Frame<Frame>>> {
        let mut bytes = vec![0; PIECE];
        let flags = RecvFlags::DONTWAIT;
        match rustix::net::recv(self.socket.as_ref()?, &mut bytes[..], flags) {
            Ok((0, _)) => self.latest.eof |= self.latest.error.is_none() && self.latest.connected,
            Ok((len, _)) => {
                bytes.truncate(len);
                let frame = inet::Frame::One(Frame::new(bytes, &self.pieces));
                return Some(RxPiece { frame, range: 0..len });
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(errno) if self.latest.connected => self.fail(errno),
            Err(_) => {}
        }
        None
    }

    fn consumed(&mut self, _now: Instant, _bytes: usize) {}

    fn shutdown(&mut self, _now: Instant) {
        self.shut = true;
        self.active.set(true);
    }

    fn close(&mut self, _now: Instant) {
        self.left = true;
        if self.socket.is_none() || self.latest.error.is_some() {
            (self.socket, self.listener) = (None, None);
        }
        self.active.set(true);
    }

    fn abort(&mut self, _now: Instant) {
        self.left = true;
        self.out.clear();
        if let Some(socket) = self.socket.take() {
            // Zero makes close(2) an abort.
            let _ = sockopt::set_socket_linger(&socket, Some(Duration::ZERO));
        }
        self.listener = None;
        self.active.set(true);
    }

    fn change(&mut self, _now: Instant, nodelay: bool, cork: bool, _recv_buffer: usize) {
        if let Some(socket) = &self.socket {
            let _ = sockopt::set_tcp_nodelay(socket, nodelay);
            let _ = sockopt::set_tcp_cork(socket, cork);
        }
    }

    fn view(&mut self) -> ConnectionView {
        self.latest.acked = self.taken;
        self.latest.ended = self.left && self.socket.is_none();
        self.latest
    }

    fn segment(&self, frame: &[u8]) -> Option<(IpAddr, IpAddr, Range<usize>)> {
        wire::find(frame)
    }

    fn wait(&mut self, time: Duration) -> bool {
        let mut fds = vec![PollFd::from_borrowed_fd(self.device.poll_fd(), PollFlags::IN)];
        let connected = self.latest.connected;
        if let Some(socket) = &self.socket {
            let writes = !connected || !self.out.is_empty();
            // Unread bytes do not wake the host: the application reads at its own times.
            fds.push(PollFd::from_borrowed_fd(
                socket.as_fd(),
                if writes { PollFlags::OUT } else { PollFlags::empty() },
            ));
        } else if let Some(listener) = &self.listener {
            fds.push(PollFd::new(listener, PollFlags::IN));
        }
        let time = time.min(HEARTBEAT);
        let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(time.subsec_nanos()) };
        let woken = poll(&mut fds, Some(&timeout)).unwrap_or(0) > 0;
        if woken {
            self.active.set(true);
        }
        true
    }
}
