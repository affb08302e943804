//! This process as a client of one instance: admission, region, pools, the way to the server's
//! bell.
//!
//! Admission is one exchange on the instance's Unix socket: `Hello`, and back come the region and
//! the server's bell. The line stays open. It carries requests for further thread slots and the
//! goodbye, and its end is how each side learns that the other is gone. Every wait that lasts
//! looks at it, or sleeps on a bell that ends with the server, so nothing here waits for a dead
//! instance. From then on all calls give ENETDOWN.
//!
//! A client belongs to the process that was admitted. After a fork the child's copy answers
//! ENOTCONN to everything and touches nothing in the region (see [`crate::forked`]).
//!
//! In mode `library` the answer is `Host` first, with the servers' ends of the lines: see
//! [`crate::drive`].
//!
//! Memory that a closed socket's queue still names stays in a *grave* until the server has released
//! it.

use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};

use abi::client::{CLIENT, ClientLayout, ClientParams, HeadWords};
use abi::control::{ClientReply, ClientRequest, VERSION};
use abi::data::DataDescriptor;
use abi::network::NetworkStatus;
use abi::nic::NicLayout;
use abi::stages::{Stage, Tracer};
use abi::{Errno, Family, SocketKind};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use shm::{Access, Channel, PoolMap, Region, Ringer, Word64};

use crate::batch::CallBatch;
use crate::drive::{self, Drive};
use crate::error::{Broken, ConnectError};
use crate::send::Grave;
use crate::socket::Socket;
use crate::thread::Threads;
use crate::tx_pool::TxPool;
use crate::{bells, fork, instance};

/// Where the library's own descriptors go when the limit allows: far from the small numbers that
/// programs expect to get, below FD_SETSIZE.
const FD_FLOOR: RawFd = 600;
/// How many operations that found nothing to do pass between two looks at the line.
const LOOK_EVERY: u32 = 64;

/// A mutex whose holder panicked holds whatever it held: nothing here is left half done by a panic.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The line to the supervisor; `watch` is a second descriptor of the same socket, for poll, so that
/// a wait does not hold the channel's lock.
#[derive(Debug)]
struct Line {
    channel: Mutex<Channel>,
    watch: OwnedFd,
}

/// A process's membership in one instance. Shared by all its threads.
#[derive(Debug)]
pub struct Client {
    me: Weak<Client>,
    pid: u32,
    number: u16,
    region: Arc<Region>,
    layout: ClientLayout,
    head: HeadWords,
    server: Ringer,
    /// In mode `library`: the stack, which is in this process.
    drive: Option<Arc<dyn Drive>>,
    line: Mutex<Option<Arc<Line>>>,
    /// Descriptors of this library that the program must not close.
    internal: Mutex<Vec<RawFd>>,
    gone: AtomicBool,
    idle: AtomicU32,
    pub(crate) tx: TxPool,
    pub(crate) rx: PoolMap,
    /// Frame pools, where frames may be read; by interface.
    frames: Vec<PoolMap>,
    pub(crate) threads: Threads,
    graves: Mutex<Vec<Grave>>,
    trace: Mutex<Tracer>,
    traced: Word64,
}

impl Client {
    /// Becomes a client of the instance whose control socket is `path`.
    ///
    /// # Errors
    /// [`ConnectError`]; its text says what to do.
    pub fn connect(path: &Path) -> Result<Arc<Self>, ConnectError> {
        shm::fork::mark();
        let mut channel = open_channel(path)?;
        let hello = ClientRequest::Hello { version: VERSION, program: program_name() };
        let mut drive = None;
        let (mut reply, mut fds) = exchange(&mut channel, &hello, None)?;
        if reply == ClientReply::Host {
            let host = drive.insert(drive::host(fds)?);
            (reply, fds) = exchange(&mut channel, &hello, Some(&**host))?;
        }
        let (number, params, frames) = match reply {
            ClientReply::Welcome { client, params, frames } => (client, params, frames),
            ClientReply::Error { message } => return Err(ConnectError::Refused { message }),
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
        Self::admitted(channel, (number, params), &region, move_high(bell), (frames, drive))
    }

    fn admitted(
        channel: Channel,
        (number, params): (u16, ClientParams),
        region: &OwnedFd,
        bell: OwnedFd,
        (frames, drive): (Vec<PoolMap>, Option<Arc<dyn Drive>>),
    ) -> Result<Arc<Self>, ConnectError> {
        let layout = params.layout().map_err(|error| ConnectError::region(&error))?;
        let region = Region::map(region.as_fd(), layout.len, Access::ReadWrite)
            .map_err(|error| ConnectError::region(&error))?;
        let head = layout.head(&region).map_err(|error| ConnectError::region(&error))?;
        let (trace, traced) = Tracer::attach(&region, layout.trace)
            .and_then(|trace| Ok((trace, region.word64(layout.trace)?)))
            .map_err(|error| ConnectError::region(&error))?;
        let tx = TxPool::create(&region, &layout).map_err(|error| ConnectError::region(&error))?;
        let rx = PoolMap::attach(&region, layout.rx_pool, CLIENT)
            .map_err(|error| ConnectError::region(&error))?;
        let watch = rustix::io::fcntl_dupfd_cloexec(channel.as_fd(), fd_floor())
            .map_err(|error| ConnectError::protocol(&error))?;
        let fds = [channel.as_fd().as_raw_fd(), watch.as_raw_fd(), bell.as_raw_fd()];
        let server = Ringer::new(head.server_bell.clone(), bell);
        let line = Line { channel: Mutex::new(channel), watch };
        Ok(Arc::new_cyclic(|me| Self {
            me: Weak::clone(me),
            pid: fork::pid(),
            number,
            region,
            layout,
            head,
            server,
            drive,
            line: Mutex::new(Some(Arc::new(line))),
            internal: Mutex::new(fds.to_vec()),
            gone: AtomicBool::new(false),
            idle: AtomicU32::new(0),
            tx,
            rx,
            frames,
            threads: Threads::new(params.threads),
            graves: Mutex::new(Vec::new()),
            trace: Mutex::new(trace),
            traced,
        }))
    }

    /// Becomes a client of the instance that [`crate::ENV`] names.
    ///
    /// # Errors
    /// [`ConnectError::NotNamed`] without that variable; otherwise as [`Client::connect`].
    pub fn from_env() -> Result<Arc<Self>, ConnectError> {
        let path = std::env::var_os(instance::ENV).filter(|path| !path.is_empty());
        Self::connect(Path::new(&path.ok_or(ConnectError::NotNamed)?))
    }

    /// This client's number in the instance, as `tasuki ps` shows it.
    #[must_use]
    pub fn number(&self) -> u16 {
        self.number
    }

    /// The stack's interfaces, addresses and routes as they are now.
    ///
    /// # Errors
    /// ENETDOWN when the instance is gone, ENOTCONN in a forked child, EIO when it does not tell.
    pub fn network(&self) -> Result<NetworkStatus, Errno> {
        self.check_memory()?;
        let line = self.line().ok_or(Errno::NETDOWN)?;
        let exchanged = self.exchange(&line, &ClientRequest::Network);
        match exchanged {
            Ok((ClientReply::Network(status), _)) => Ok(status),
            Ok((ClientReply::Error { .. }, _)) => Err(Errno::IO),
            Ok(_) | Err(_) => Err(self.fault()),
        }
    }

    /// The descriptors that this library holds. A program that closes one breaks its own sockets.
    #[must_use]
    pub fn internal_fds(&self) -> Vec<RawFd> {
        lock(&self.internal).clone()
    }

    /// Is `fd` one of [`Client::internal_fds`]?
    #[must_use]
    pub fn is_internal_fd(&self, fd: RawFd) -> bool {
        lock(&self.internal).contains(&fd)
    }

    /// A descriptor of this library that the program must not close.
    pub(crate) fn own(&self, fd: RawFd) {
        lock(&self.internal).push(fd);
    }

    /// Does this client belong to this process, not to a parent that forked it?
    #[must_use]
    pub fn is_mine(&self) -> bool {
        self.pid == fork::pid()
    }

    /// Is this a forked child with memory of its own? Told without a system call.
    pub(crate) fn is_stranger(&self) -> bool {
        self.pid != shm::fork::pid()
    }

    /// Is the instance still there, as far as is known? Otherwise every call gives ENETDOWN.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        !self.gone.load(Ordering::Acquire)
    }

    /// Ends the membership in order: sockets that are still open are closed as close(2) would, with
    /// what they have queued still sent. Every later call gives ENETDOWN. Does nothing the second
    /// time, and nothing in a forked child.
    pub fn goodbye(&self) {
        if !self.is_mine() || !self.is_alive() {
            return;
        }
        self.see_closed();
        if self.gone.swap(true, Ordering::AcqRel) {
            return;
        }
        if let Some(line) = self.take_line() {
            // Whether it arrives or not, the line's end says that this process is gone.
            let _ = send(&mut lock(&line.channel), &ClientRequest::Bye);
        }
        if let Some(drive) = &self.drive {
            drive.finish();
        }
    }

    /// Sees to it that the server has taken what closed sockets had queued: nobody waited for it,
    /// and soon nothing keeps that memory.
    fn see_closed(&self) {
        self.reap();
        // The second scan of the rings looks at those that the first may have passed before a close
        // of another thread was there.
        for _ in 0..2 {
            if !lock(&self.graves).is_empty() {
                // An instance that is gone takes nothing.
                let _ = CallBatch::call(self, abi::call::Op::Null, 0, [0; 6]);
            }
        }
    }

    /// A new socket.
    ///
    /// # Errors
    /// ENETDOWN when the instance is gone, EMFILE when it has no place left, EAFNOSUPPORT when it
    /// has no IPv6, ENOTCONN in a forked child.
    pub fn socket(self: &Arc<Self>, family: Family, kind: SocketKind) -> Result<Socket, Errno> {
        self.reap();
        let id = self.new_socket([kind.to_word(), family.to_word()])?;
        Socket::admit(self, id, family, kind)
    }

    /// The pool that a received descriptor's area is in.
    pub(crate) fn pool_of(&self, descriptor: &DataDescriptor) -> Result<&PoolMap, Broken> {
        match descriptor.frame_region() {
            None => Ok(&self.rx),
            Some(region) => self.frames.get(usize::from(region)).ok_or(Broken),
        }
    }

    pub(crate) fn region(&self) -> &Arc<Region> {
        &self.region
    }

    pub(crate) fn layout(&self) -> &ClientLayout {
        &self.layout
    }

    /// Another handle; `None` when it is being dropped.
    pub(crate) fn shared(&self) -> Option<Arc<Self>> {
        self.me.upgrade()
    }

    pub(crate) fn weak(&self) -> &Weak<Self> {
        &self.me
    }

    /// May this process use the region? The data path's check: no system call where forks are
    /// watched.
    ///
    /// # Errors
    /// ENOTCONN in a forked child, ENETDOWN when the instance is gone.
    pub(crate) fn check(&self) -> Result<(), Errno> {
        if self.pid != fork::pid_cached() {
            Err(Errno::NOTCONN)
        } else if self.is_alive() {
            Ok(())
        } else {
            Err(Errno::NETDOWN)
        }
    }

    /// [`Client::check`] for calls and waits: a child that no fork handler knows of is told apart
    /// too, if it has memory of its own.
    pub(crate) fn check_memory(&self) -> Result<(), Errno> {
        if self.pid == shm::fork::pid() { self.check() } else { Err(Errno::NOTCONN) }
    }

    /// The server wrote what no correct server writes into what all sockets share: nothing of it
    /// can be believed any more.
    pub(crate) fn fault(&self) -> Errno {
        self.gone.store(true, Ordering::Release);
        Errno::NETDOWN
    }

    /// Looks whether the instance still holds its end of the line.
    ///
    /// # Errors
    /// ENETDOWN if not.
    pub(crate) fn look(&self) -> Result<(), Errno> {
        let Some(line) = self.line() else {
            return Err(self.fault());
        };
        let mut fds = [PollFd::new(&line.watch, PollFlags::RDHUP)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        match poll(&mut fds, Some(&now)) {
            Ok(0) | Err(_) => self.check(),
            Ok(_) => Err(self.fault()),
        }
    }

    /// Called when an operation that does not wait found nothing to do: a program that only polls
    /// must learn of the instance's end as well.
    pub(crate) fn look_sometimes(&self) -> Result<(), Errno> {
        if self.idle.fetch_add(1, Ordering::Relaxed) % LOOK_EVERY == LOOK_EVERY - 1 {
            return self.look();
        }
        Ok(())
    }

    /// The stack, if it is in this process.
    pub(crate) fn drive(&self) -> Option<&Arc<dyn Drive>> {
        self.drive.as_ref()
    }

    fn exchange(
        &self,
        line: &Line,
        request: &ClientRequest,
    ) -> Result<(ClientReply, Vec<OwnedFd>), ConnectError> {
        exchange(&mut lock(&line.channel), request, self.drive.as_deref())
    }

    fn line(&self) -> Option<Arc<Line>> {
        lock(&self.line).clone()
    }

    /// The line's descriptor for poll (events: RDHUP). Keeps it open while it is polled.
    pub(crate) fn watched_line(&self) -> Option<WatchedLine> {
        self.line().map(WatchedLine)
    }

    fn take_line(&self) -> Option<Arc<Line>> {
        lock(&self.internal).clear();
        lock(&self.line).take()
    }

    /// In a forked child: closes this process's copy of the line.
    pub(crate) fn let_go(&self) {
        // The parent's threads are not here: whoever held these locks will never let go.
        let internal = match self.internal.try_lock() {
            Ok(mut fds) => std::mem::take(&mut *fds),
            Err(_) => return,
        };
        drop(internal);
        let line = match self.line.try_lock() {
            Ok(mut line) => line.take(),
            Err(TryLockError::Poisoned(line)) => line.into_inner().take(),
            Err(TryLockError::WouldBlock) => None,
        };
        drop(line);
    }

    /// One more thread slot: its number and its bell. `Ok(None)` when the instance gives none.
    pub(crate) fn attach_thread(&self) -> Result<Option<(u16, OwnedFd)>, Errno> {
        let line = self.line().ok_or(Errno::NETDOWN)?;
        let exchanged = self.exchange(&line, &ClientRequest::AttachThread);
        match exchanged {
            Ok((ClientReply::Thread { thread }, mut fds)) if fds.len() == 1 => {
                let Some(fd) = fds.pop().map(move_high) else {
                    return Err(self.fault());
                };
                if thread >= self.layout.params.threads {
                    return Err(self.fault());
                }
                self.own(fd.as_raw_fd());
                Ok(Some((thread, fd)))
            }
            Ok((ClientReply::Error { .. }, _)) => Ok(None),
            Ok(_) | Err(_) => Err(self.fault()),
        }
    }

    /// Tells the server that there is something for it, unless this thread holds the bell back.
    #[inline]
    pub(crate) fn ring(&self) {
        if !bells::owe(self) {
            self.ring_now();
        }
    }

    /// [`Client::ring`], held back or not; in mode `library`, serves what there is.
    pub(crate) fn ring_now(&self) {
        match &self.drive {
            Some(drive) => drive.work(&mut || false),
            None if self.server.ring() => {
                self.head.bells.fetch_add(1, Ordering::Relaxed);
            }
            None => {}
        }
    }

    /// Marks that a stage of a send or receive begins, if anybody wants to know.
    #[inline]
    pub(crate) fn mark(&self, stage: Stage) {
        if self.traced.load(Ordering::Relaxed) != 0 {
            lock(&self.trace).mark(stage);
        }
    }

    /// Counts that a thread sleeps.
    pub(crate) fn count_sleep(&self) {
        self.head.sleeps.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts payload bytes copied out of the rx pool.
    pub(crate) fn count_copied_rx(&self, len: usize) {
        self.head.copied_rx.fetch_add(len as u64, Ordering::Relaxed);
    }

    /// Counts payload bytes copied into the tx pool.
    pub(crate) fn count_copied_tx(&self, len: usize) {
        self.head.copied_tx.fetch_add(len as u64, Ordering::Relaxed);
    }

    /// Leaves word that a socket has news, without waking a server that sleeps.
    pub(crate) fn mark_dirty(&self, socket: u16) {
        self.head.dirty.set(socket);
    }

    /// Tells the server that a socket has news. If they may wait, a stack in this process may
    /// look only when it works next. True: it was told at once.
    #[inline]
    pub(crate) fn announce(&self, socket: u16, may_wait: bool) -> bool {
        self.mark_dirty(socket);
        let waits = may_wait && self.drive.as_ref().is_some_and(|drive| drive.post());
        if !waits {
            self.ring();
        }
        !waits
    }

    pub(crate) fn bury(&self, grave: Grave) {
        lock(&self.graves).push(grave);
    }

    /// The place `index` has a new socket, so nothing of the old one is in use any more.
    pub(crate) fn unbury(&self, index: u16) {
        self.sweep(|grave| grave.index() == index);
    }

    /// Takes back the memory of closed sockets that the server has released.
    pub(crate) fn reap(&self) {
        self.sweep(Grave::is_released);
    }

    fn sweep(&self, over: impl Fn(&Grave) -> bool) {
        lock(&self.graves).retain_mut(|grave| {
            let over = over(grave);
            if over {
                grave.empty(&self.tx);
            }
            !over
        });
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if self.is_mine() {
            self.goodbye();
        } else {
            // Areas write into the owner table when they are dropped; that table is the parent's.
            let graves = self.graves.get_mut().unwrap_or_else(PoisonError::into_inner);
            graves.drain(..).for_each(std::mem::forget);
        }
    }
}

/// Keeps the line's descriptor open while it is waited on.
pub(crate) struct WatchedLine(Arc<Line>);

impl WatchedLine {
    pub(crate) fn poll_fd(&self) -> PollFd<'_> {
        PollFd::new(&self.0.watch, PollFlags::RDHUP)
    }
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
    let line = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
        .map_err(unreachable)?;
    let line = move_high(line);
    rustix::io::retry_on_intr(|| rustix::net::connect(&line, &address)).map_err(unreachable)?;
    Ok(Channel::from_fd(line))
}

fn send(channel: &mut Channel, request: &ClientRequest) -> Result<(), ConnectError> {
    let body = serde_json::to_vec(request).map_err(|error| ConnectError::protocol(&error))?;
    channel.send(&body, &[]).map_err(|error| ConnectError::protocol(&error))
}

fn exchange(
    channel: &mut Channel,
    request: &ClientRequest,
    drive: Option<&dyn Drive>,
) -> Result<(ClientReply, Vec<OwnedFd>), ConnectError> {
    send(channel, request)?;
    let message = drive::recv(channel, drive)
        .map_err(|error| ConnectError::protocol(&error))?
        .ok_or_else(|| ConnectError::protocol(&"the instance closed the line"))?;
    let reply =
        serde_json::from_slice(&message.body).map_err(|error| ConnectError::protocol(&error))?;
    Ok((reply, message.fds))
}

/// The lowest number for our own descriptors that the process's limit leaves room above.
fn fd_floor() -> RawFd {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let limit = limit.and_then(|limit| RawFd::try_from(limit).ok()).unwrap_or(RawFd::MAX);
    FD_FLOOR.min((limit - limit / 8).saturating_sub(64)).max(3)
}

/// The same descriptor under a high number, or as it was when there is none.
pub(crate) fn move_high(fd: OwnedFd) -> OwnedFd {
    rustix::io::fcntl_dupfd_cloexec(&fd, fd_floor()).unwrap_or(fd)
}

/// The program's name as the kernel has it. By system calls: libc's `open` and `read` may be the
/// shim's own.
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
