//! The wire back end: a link between two instances of one machine, through shared memory.
//!
//! Both ends name the same path. The first listens there, the second connects (`meet`), and they
//! greet each other. From then on frames go through a region ([`link`]), and the connection carries
//! nothing but bytes that wake. The socket's mode says which users may connect.
//!
//! Only the supervisor uses the path ([`opener`]). The driver asks it for the other end and gets a
//! connected socket, or the listening socket, on which it accepts by itself.
//!
//! ```text
//! Waiting ──▶ Looking ──listen──▶ Listening ──accept──▶ Greeting ──hello──▶ Up
//!    ▲           └────────connected───────────────────────▲                 │
//!    └───────────────────── the other end gone, or a fault ─────────────────┘
//! ```
//!
//! While there is no link, there is no carrier: frames to send are dropped and counted. When the
//! other end goes, the listening end listens on. The connecting end looks again: it connects to a
//! new listener, or listens itself. So either may be started anew.
//!
//! The other end may belong to another user and is not trusted. A breach of the protocol ends this
//! link and nothing else, and the other end is not heard again for [`PENALTY`]. For an end that
//! takes no frames, see [`stall`].

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use abi::offload::{Features, TxOffload};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};
use shm::closer::{self, ClosedLater};
use shm::{Channel, Message, Region, TryRecv, passing};

use crate::device::{Device, Part, Received};
use crate::timer::DeviceTimer;

mod hello;
mod link;
mod meet;
mod opener;
mod stall;

use self::hello::Hello;
use self::link::{End, Link};
pub use self::opener::WireOpener;
use self::opener::{Found, OpenerClient};
use self::stall::{PATIENCE, StallWatch};

/// How long a greeting may take.
const GREETING: Duration = Duration::from_secs(5);
/// How long an end that broke the rules, or could not be met, is left alone.
const PENALTY: Duration = Duration::from_secs(1);
/// How often the other end is looked for while another process looks, and how long between.
const TRIES: u32 = 20;
const BETWEEN: Duration = Duration::from_millis(2);
/// Bytes of a greeting at most.
const HELLO_MOST: usize = 256;
/// Bytes that wake read at a time.
const WAKES: usize = 64;

#[derive(Debug)]
enum State {
    /// Until the timer says.
    Waiting,
    /// The supervisor was asked.
    Looking,
    /// For the other end.
    Listening,
    /// The other end is there; the listening end has a region for it.
    Greeting { line: Channel, region: Option<Arc<Region>> },
    /// Frames go. The link has copies of the line; closing the last copy may take long.
    Up { link: Box<Link>, line: ClosedLater, stall: StallWatch },
}

/// One end of a wire.
#[derive(Debug)]
pub struct Wire {
    path: String,
    opener: OpenerClient,
    hello: Hello,
    features: Features,
    /// The events that this end waits for. The driver waits for the set's own descriptor.
    set: OwnedFd,
    timer: DeviceTimer,
    state: State,
    /// Kept while the link is up: an end that connects meanwhile is next.
    listener: Option<ClosedLater>,
    /// How often another process was looking.
    tries: u32,
    /// The last fault that was reported: each is reported once.
    last_report: String,
    ups: u64,
    no_carrier: u64,
    stalled: u64,
    peer_faults: u64,
}

impl Wire {
    /// The work that both ends may leave undone, because memory spoils no bits.
    pub const FEATURES: Features = hello::FEATURES;

    /// An end at this path, for frames of so many bytes behind the Ethernet header. `opener` is the
    /// driver's descriptor of a [`WireOpener`]. Without the same `features` at both ends there is
    /// no link.
    ///
    /// # Errors
    /// The system's, when there are no descriptors left. A fault that keeps the ends from meeting
    /// is reported in the log, and meeting is tried again.
    pub fn new(path: &str, opener: OwnedFd, mtu: u16, features: Features) -> io::Result<Self> {
        let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let timer = DeviceTimer::new()?;
        epoll::add(&set, &timer, EventData::new_u64(0), EventFlags::IN)?;
        let mut wire = Self {
            path: path.to_owned(),
            opener: OpenerClient::new(opener),
            hello: Hello::new(mtu, features),
            features,
            set,
            timer,
            state: State::Waiting,
            listener: None,
            tries: 0,
            last_report: String::new(),
            ups: 0,
            no_carrier: 0,
            stalled: 0,
            peer_faults: 0,
        };
        wire.look();
        Ok(wire)
    }

    /// Is there another end?
    #[must_use]
    pub fn carrier(&self) -> bool {
        matches!(self.state, State::Up { .. })
    }

    /// Looks for the other end, or listens for it.
    fn look(&mut self) {
        if let Err(error) = self.try_look() {
            self.wait(&format!("cannot meet the other end: {error}"));
        }
    }

    fn try_look(&mut self) -> io::Result<()> {
        if let Some(listener) = &self.listener {
            epoll::add(&self.set, listener, EventData::new_u64(0), EventFlags::IN)?;
            self.state = State::Listening;
            return Ok(());
        }
        refuse_while_closing()?;
        self.opener.ask()?;
        epoll::add(&self.set, &self.opener, EventData::new_u64(0), EventFlags::IN)?;
        self.state = State::Looking;
        Ok(())
    }

    /// The supervisor has looked.
    fn looked(&mut self) -> io::Result<()> {
        let Some(found) = self.opener.reply()? else { return Ok(()) };
        self.leave_state();
        match found {
            Found::Listening(socket) => {
                let later = passing::takes_descriptors(&socket);
                self.listener = Some(ClosedLater::new(socket, later));
                self.tries = 0;
                self.try_look()
            }
            Found::Connected(socket) => {
                self.tries = 0;
                self.greet(socket, None)
            }
            Found::Busy if self.tries < TRIES => {
                self.tries += 1;
                Ok(self.timer.set(BETWEEN)?)
            }
            Found::Busy => {
                self.tries = 0;
                Err(io::Error::other("another process keeps its directory locked"))
            }
        }
    }

    /// Ends looking or listening: from here on there is nothing but the timer to wait for.
    fn leave_state(&mut self) {
        // What was added is there to be deleted; if adding failed, it is not.
        let _ = match (&self.state, &self.listener) {
            (State::Looking, _) => epoll::delete(&self.set, &self.opener),
            (State::Listening, Some(listener)) => epoll::delete(&self.set, listener),
            _ => Ok(()),
        };
        self.state = State::Waiting;
    }

    /// Begins to greet the other end.
    fn greet(&mut self, socket: OwnedFd, region: Option<Arc<Region>>) -> io::Result<()> {
        epoll::add(&self.set, &socket, EventData::new_u64(0), EventFlags::IN)?;
        self.timer.set(GREETING)?;
        // Only the listening end's greeting brings a descriptor.
        let fds = usize::from(region.is_none());
        let line = Channel::from_fd(socket).limited(HELLO_MOST, fds).untrusted();
        self.state = State::Greeting { line, region };
        Ok(())
    }

    fn accept(&mut self) -> io::Result<()> {
        let Some(listener) = &self.listener else { return Ok(()) };
        refuse_while_closing()?;
        let socket = match accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            Ok(socket) => socket,
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => return Ok(()),
            Err(errno) => return Err(errno.into()),
        };
        // One peer at a time: another one waits in the socket's queue.
        self.leave_state();
        let (region, fd) = link::create().map_err(io::Error::other)?;
        self.greet(socket, Some(region))?;
        let State::Greeting { line, .. } = &mut self.state else { return Ok(()) };
        let hello = serde_json::to_vec(&self.hello)?;
        line.post(&hello, &[fd.as_fd()]).map_err(io::Error::other)?;
        Ok(())
    }

    /// Hears the other end's greeting.
    fn hear(&mut self) -> Result<(), String> {
        let State::Greeting { line, region } = &mut self.state else { return Ok(()) };
        let (body, fds) = match line.try_recv() {
            Ok(TryRecv::Message(Message { body, fds, lost: _ })) => {
                (body, fds.into_iter().map(|fd| ClosedLater::new(fd, true)).collect::<Vec<_>>())
            }
            Ok(TryRecv::Empty) if self.timer.fired() => {
                return Err(format!("it did not greet within {GREETING:?}"));
            }
            Ok(TryRecv::Empty) => return Ok(()),
            Ok(TryRecv::Ended) => return Err("it ended while greeting".to_owned()),
            Err(error) => return Err(error.to_string()),
        };
        let hello: Hello =
            serde_json::from_slice(&body).map_err(|error| format!("greeting: {error}"))?;
        let (region, end) = match (region.take(), fds.first()) {
            (Some(region), None) => (region, End::Listening),
            (None, Some(fd)) => {
                (link::map(fd).map_err(|error| error.to_string())?, End::Connecting)
            }
            _ => return Err("its greeting has the wrong descriptors".to_owned()),
        };
        if end == End::Connecting {
            let ours = serde_json::to_vec(&self.hello).map_err(|error| error.to_string())?;
            line.post(&ours, &[]).map_err(|error| error.to_string())?;
        }
        if let Some(refusal) = self.hello.refusal(hello) {
            return Err(refusal);
        }
        self.go_up(&region, end).map_err(|error| error.to_string())
    }

    fn go_up(&mut self, region: &Arc<Region>, end: End) -> io::Result<()> {
        self.timer.set(Duration::ZERO)?;
        let State::Greeting { line, .. } = std::mem::replace(&mut self.state, State::Waiting)
        else {
            return Ok(());
        };
        // Wake-up bytes may have come behind the greeting, and are lost with the channel. That is
        // harmless: the rings are checked before the next sleep.
        let line = ClosedLater::from(line);
        // From here on only bytes come. On an older kernel each read finds that out.
        let _ = passing::refuse_descriptors(&line);
        let copy = || line.as_fd().try_clone_to_owned();
        let doorbell = (copy()?, copy()?);
        let link = Link::new(region, end, self.features, doorbell).map_err(io::Error::other)?;
        let path = &self.path;
        tracing::info!(%path, ?end, "the wire has another end");
        self.state = State::Up { line, link: Box::new(link), stall: StallWatch::default() };
        self.last_report.clear();
        self.ups += 1;
        Ok(())
    }

    /// `poll_fd` had something.
    fn ready(&mut self) {
        match &mut self.state {
            State::Waiting => {
                if self.timer.fired() {
                    self.look();
                }
            }
            State::Looking => {
                if let Err(error) = self.looked() {
                    self.wait(&format!("cannot meet the other end: {error}"));
                }
            }
            State::Listening => {
                if let Err(error) = self.accept() {
                    self.wait(&format!("cannot greet the other end: {error}"));
                }
            }
            State::Greeting { .. } => {
                if let Err(what) = self.hear() {
                    self.fault(&what);
                }
            }
            State::Up { line, link, stall } => {
                if self.timer.fired() && link.taken().is_ok_and(|taken| stall.is_over(taken)) {
                    let path = &self.path;
                    tracing::warn!(%path, "the other end of the wire takes no frames: they are \
                        dropped until it has taken those that wait");
                }
                let mut bytes = [0; WAKES];
                match closer::recv(line, &mut bytes) {
                    Ok(0) => self.gone(),
                    Ok(count) if !link.woken(count) => {
                        self.fault("it wakes us more often than we sleep");
                    }
                    Ok(_) | Err(Errno::AGAIN | Errno::INTR) => {}
                    Err(Errno::BADMSG) => self.fault("it sent descriptors after its greeting"),
                    Err(_) => self.gone(),
                }
            }
        }
    }

    /// The other end has ended.
    fn gone(&mut self) {
        let path = &self.path;
        tracing::info!(%path, "the other end of the wire is gone");
        self.state = State::Waiting;
        // The patience with it is over; setting a timer to nothing cannot fail.
        let _ = self.timer.set(Duration::ZERO);
        self.look();
    }

    /// The other end broke the rules.
    fn fault(&mut self, what: &str) {
        self.peer_faults += 1;
        self.wait(&format!("the other end of the wire was dropped: {what}"));
    }

    /// Tries again later.
    fn wait(&mut self, why: &str) {
        if self.last_report != why {
            why.clone_into(&mut self.last_report);
            let path = &self.path;
            tracing::warn!(%path, "{why}");
        }
        self.leave_state();
        // Fails only for times that do not exist.
        let _ = self.timer.set(PENALTY);
    }
}

/// Another end could send more descriptors, while too many of an end before it are being closed.
fn refuse_while_closing() -> io::Result<()> {
    if closer::is_behind() {
        return Err(io::Error::other("descriptors that another end sent are still being closed"));
    }
    Ok(())
}

impl Device for Wire {
    fn features(&self) -> Features {
        self.features
    }

    fn receive(&mut self, into: &mut [u8]) -> io::Result<Option<Received>> {
        let State::Up { link, .. } = &mut self.state else { return Ok(None) };
        match link.receive(into) {
            Ok(received) => Ok(received),
            Err(fault) => {
                self.fault(&fault.to_string());
                Ok(None)
            }
        }
    }

    fn transmit(&mut self, frame: &[Part<'_>], offload: TxOffload) -> io::Result<bool> {
        let State::Up { link, stall, .. } = &mut self.state else {
            self.no_carrier += 1;
            return Ok(true);
        };
        if stall.is_dropping() && link.left().is_ok_and(|left| stall.drops(left)) {
            self.stalled += 1;
            return Ok(true);
        }
        match link.transmit(frame, offload) {
            Ok(true) => Ok(true),
            Ok(false) => {
                if stall.full(link.sent()) {
                    self.timer.set(PATIENCE)?;
                }
                Ok(false)
            }
            Err(fault) => {
                self.fault(&fault.to_string());
                self.no_carrier += 1;
                Ok(true)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        if let State::Up { link, .. } = &mut self.state {
            link.flush();
        }
        Ok(())
    }

    fn poll_fd(&self) -> BorrowedFd<'_> {
        self.set.as_fd()
    }

    fn room_is_readable(&self) -> bool {
        true
    }

    fn prepare_sleep(&mut self, receive: bool) -> bool {
        let State::Up { link, .. } = &mut self.state else { return true };
        match link.prepare_sleep(receive) {
            Ok(sleep) => sleep,
            Err(fault) => {
                self.fault(&fault.to_string());
                false
            }
        }
    }

    fn awake(&mut self, ready: bool) {
        // The announcement stays. In mode `library` one thread may work while another still waits
        // and must be woken. This costs at most one needless bell for each sleep.
        if ready {
            self.ready();
        }
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        each("wire.carrier", self.carrier().into());
        each("wire.ups", self.ups);
        each("wire.no-carrier", self.no_carrier);
        each("wire.stalled", self.stalled);
        each("wire.peer-faults", self.peer_faults);
    }
}

#[cfg(test)]
mod tests;
