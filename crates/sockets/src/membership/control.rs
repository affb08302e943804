//! The control connection: a Unix socket to the supervisor.
//!
//! Admission is one exchange on it: `Hello`, and back come the region and the server's bell. The
//! connection stays open. It carries requests for thread slots, the network's status and the
//! goodbye. Its end tells each side that the other is gone.

use std::num::NonZeroU32;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::sync::{Arc, Mutex};

use abi::Errno;
use abi::client::{CLIENT, ClientParams};
use abi::control::{ClientReply, ClientRequest, INTRODUCTION, VERSION};
use abi::nic::NicLayout;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use shm::{Access, Channel, ChannelError, PoolMap, Region};

use crate::descriptors::move_high;
use crate::error::ConnectError;
use crate::local_stack::{self, LocalStack};
use crate::lock::lock;

/// The connection. `watch` is a second descriptor of the same socket, for poll, so that a wait does
/// not hold the channel's lock.
#[derive(Debug)]
pub(super) struct ControlConnection {
    channel: Mutex<Channel>,
    watch: OwnedFd,
}

impl ControlConnection {
    fn new(channel: Channel) -> Result<Self, ConnectError> {
        let watch =
            rustix::io::fcntl_dupfd_cloexec(channel.as_fd(), shm::descriptors::library_floor())
                .map_err(|error| ConnectError::protocol(&error))?;
        Ok(Self { channel: Mutex::new(channel), watch })
    }

    pub(super) fn raw_fds(&self) -> [RawFd; 2] {
        [lock(&self.channel).as_fd().as_raw_fd(), self.watch.as_raw_fd()]
    }

    /// Makes a request and waits for its reply.
    pub(super) fn exchange(
        &self,
        request: &ClientRequest,
        stack: Option<&dyn LocalStack>,
    ) -> Result<(ClientReply, Vec<OwnedFd>), ConnectError> {
        exchange(&mut lock(&self.channel), request, stack)
    }

    /// Makes a request that has no reply.
    pub(super) fn send(&self, request: &ClientRequest) -> Result<(), ConnectError> {
        send(&mut lock(&self.channel), request)?.map_err(|error| ConnectError::protocol(&error))
    }

    /// Has the supervisor ended the connection? No, if poll(2) fails.
    pub(super) fn has_ended(&self) -> bool {
        let mut fds = [PollFd::new(&self.watch, PollFlags::RDHUP)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        !matches!(poll(&mut fds, Some(&now)), Ok(0) | Err(_))
    }
}

/// Keeps the connection's descriptor open while a thread waits on it.
pub(crate) struct ControlWatch(Arc<ControlConnection>);

impl ControlWatch {
    pub(super) fn new(control: Arc<ControlConnection>) -> Self {
        Self(control)
    }

    /// The descriptor for poll (events: RDHUP).
    pub(crate) fn poll_fd(&self) -> PollFd<'_> {
        PollFd::new(&self.0.watch, PollFlags::RDHUP)
    }
}

/// The descriptors and layout that an instance gives a process at admission.
pub(super) struct Admission {
    pub(super) number: u16,
    pub(super) params: ClientParams,
    pub(super) control: ControlConnection,
    pub(super) region: OwnedFd,
    pub(super) bell: OwnedFd,
    /// Frame pools that this process may read; by interface.
    pub(super) frames: Vec<PoolMap>,
    /// In mode `library`.
    pub(super) stack: Option<Arc<dyn LocalStack>>,
}

/// Asks the instance whose control socket is `path` for admission.
pub(super) fn ask_admission(path: &Path) -> Result<Admission, ConnectError> {
    admission(open_channel(path)?, program_name())
}

/// Asks for admission over a connection that this process's relay gives it. `None`: it has none.
pub(super) fn ask_introduction() -> Result<Option<Admission>, ConnectError> {
    use rustix::net::{AddressFamily, Protocol, SocketFlags, SocketType};
    let (kind, protocol) = INTRODUCTION;
    let protocol = NonZeroU32::new(protocol).map(Protocol::from_raw);
    let socket = rustix::net::socket_with(
        AddressFamily::INET,
        SocketType::from_raw(kind),
        SocketFlags::CLOEXEC,
        protocol,
    );
    match socket {
        Ok(socket) => ask_over(socket, program_name()).map(Some),
        Err(rustix::io::Errno::NONET) => Err(ConnectError::OwnNetwork),
        Err(_) => Ok(None),
    }
}

/// Asks for admission over a connection that is there already.
pub(super) fn ask_over(connection: OwnedFd, name: String) -> Result<Admission, ConnectError> {
    admission(Channel::from_fd(move_high(connection)), name)
}

/// Says hello, as this program.
fn admission(mut channel: Channel, program: String) -> Result<Admission, ConnectError> {
    let hello = ClientRequest::Hello { version: VERSION, program };
    let mut stack = None;
    let (mut reply, mut fds) = exchange(&mut channel, &hello, None)?;
    if reply == ClientReply::Host {
        let host = stack.insert(local_stack::host(fds)?);
        (reply, fds) = exchange(&mut channel, &hello, Some(&**host))?;
    }
    let (number, params, frames) = match reply {
        ClientReply::Welcome { client, params, frames } => (client, params, frames),
        ClientReply::Error { message } => return Err(ConnectError::Refused { message }),
        ClientReply::WrongSocket { socket } => {
            let message = format!("this socket is for operators, programs connect to {socket}");
            return Err(ConnectError::Refused { message });
        }
        other => return Err(ConnectError::protocol(&format!("unexpected reply {other:?}"))),
    };
    let mut fds = fds.into_iter();
    let count = fds.len();
    let (Some(region), Some(bell), true) =
        (fds.next(), fds.next(), count == 2 + usize::from(frames))
    else {
        let what = format!("{count} descriptors in Welcome, instead of 2 and {frames}");
        return Err(ConnectError::protocol(&what));
    };
    let frames = fds.map(|fd| map_frames(&fd)).collect::<Result<Vec<_>, _>>()?;
    let (control, bell) = (ControlConnection::new(channel)?, move_high(bell));
    Ok(Admission { number, params, control, region, bell, frames, stack })
}

/// A frame region that this process may read.
fn map_frames(fd: &OwnedFd) -> Result<PoolMap, ConnectError> {
    let len = rustix::fs::fstat(fd).map_or(0, |stat| stat.st_size.unsigned_abs());
    let layout = NicLayout::of_len(len).ok_or_else(|| {
        let what = format!("a frame region of {len} bytes, which none has");
        ConnectError::protocol(&what)
    })?;
    let region = Region::map(fd.as_fd(), layout.len, Access::ReadOnly)
        .map_err(|error| ConnectError::region(&error))?;
    PoolMap::attach(&region, layout.pool, CLIENT).map_err(|error| ConnectError::region(&error))
}

fn open_channel(path: &Path) -> Result<Channel, ConnectError> {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
    let unreachable = |errno| ConnectError::Unreachable { path: path.to_owned(), errno };
    let address = SocketAddrUnix::new(path).map_err(unreachable)?;
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
        .map_err(unreachable)?;
    let socket = move_high(socket);
    rustix::io::retry_on_intr(|| rustix::net::connect(&socket, &address)).map_err(unreachable)?;
    Ok(Channel::from_fd(socket))
}

/// Sends a request. The inner result is the channel's.
fn send(
    channel: &mut Channel,
    request: &ClientRequest,
) -> Result<Result<(), ChannelError>, ConnectError> {
    let body = serde_json::to_vec(request).map_err(|error| ConnectError::protocol(&error))?;
    Ok(channel.send(&body, &[]))
}

fn exchange(
    channel: &mut Channel,
    request: &ClientRequest,
    stack: Option<&dyn LocalStack>,
) -> Result<(ClientReply, Vec<OwnedFd>), ConnectError> {
    match send(channel, request)? {
        // An instance that refuses a process says why, and hangs up without reading.
        Ok(()) | Err(ChannelError::Gone) => {}
        Err(error) => return Err(ConnectError::protocol(&error)),
    }
    let message = local_stack::recv(channel, stack)
        .map_err(|error| ConnectError::protocol(&error))?
        .ok_or_else(|| ConnectError::protocol(&"the instance closed the connection"))?;
    let reply =
        serde_json::from_slice(&message.body).map_err(|error| ConnectError::protocol(&error))?;
    Ok((reply, message.fds))
}

/// The program's name as the kernel has it. Read by direct system calls, because libc's `open` and
/// `read` may be the shim's own.
fn program_name() -> String {
    let read = || -> Result<String, Errno> {
        let fd =
            rustix::fs::open(c"/proc/self/comm", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let mut name = [0; 64];
        let len = rustix::io::read(&fd, &mut name)?;
        let name = name.get(..len).unwrap_or_default();
        Ok(String::from_utf8_lossy(name).trim_end().to_owned())
    };
    read().unwrap_or_else(|_| "?".to_owned())
}
