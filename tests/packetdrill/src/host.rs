//! The host: a stack with one link, descriptors, and a clock that its driver moves.
//!
//! Every call does its work at the present moment and lets the stack settle. A call that would have
//! to wait returns [`Stop::Wait`]. It changes nothing that its repetition would do twice. The
//! driver repeats it, with the same [`Progress`], after each event.

mod call;
mod calls;
mod info;
mod link;
mod memory;
mod options;
mod pipes;
mod poll;
mod table;
mod transfer;

use std::collections::VecDeque;
use std::time::Duration;

use inet::{Config, Event, EventKind, Features, Instant, InterfaceId, Stack};

use crate::bytes::{Chunk, Frame};
use crate::errno;
use crate::sysctl::{MOST_SEGMENTS, Sysctls};
pub use call::{Message, Outcome, Progress, Stop};
pub use link::Link;
use link::SentFrames;
use table::{Descriptor, Socket};
pub use table::{EpollEvent, PollFd};

/// A packet that has left, without link header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentPacket {
    /// When.
    pub time: Instant,
    /// From the IP header on.
    pub bytes: Vec<u8>,
}

/// Where the clock starts: not at zero, so that a moment before the start can be named.
const START: Duration = Duration::from_secs(1000);

/// A Linux-like host.
#[derive(Debug)]
pub struct Host {
    link: Link,
    now: Instant,
    /// Made when the first socket is, so that everything set before holds.
    running: Option<Running>,
    sysctls: Sysctls,
    entries: table::DescriptorTable,
    sent: VecDeque<SentPacket>,
}

#[derive(Debug)]
struct Running {
    stack: Stack<Chunk, Frame>,
    interface: InterfaceId,
}

/// The secret of every host: a script is to give the same result each time.
const SECRET: [u8; 16] = *b"packetdrill host";

impl Host {
    /// A host on `link`. Descriptors count up from `first_fd`.
    pub fn new(link: Link, first_fd: i32) -> Self {
        Self {
            link,
            now: Instant::ZERO + START,
            running: None,
            sysctls: Sysctls::default(),
            entries: table::DescriptorTable::new(first_fd),
            sent: VecDeque::new(),
        }
    }

    /// The present.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Changes the link; no effect once there is a socket.
    pub fn set_link(&mut self, link: Link) {
        self.link = link;
    }

    /// How the link looks.
    pub fn link(&self) -> Link {
        self.link
    }

    /// Changes a setting, for sockets made from now on.
    pub fn set_sysctl(&mut self, name: &str, value: &str) {
        self.sysctls.set(name, value);
        match &mut self.running {
            Some(running) => {
                running.stack.configure(|config| self.sysctls.apply(config));
                set_keys(&mut running.stack, &self.sysctls);
            }
            None => self.sysctls.apply(&mut Config::default()),
        }
    }

    /// Forgets all that connections have learnt of their peers (`ip tcp_metrics flush all`).
    pub fn forget_peers(&mut self) {
        if let Some(running) = &mut self.running {
            running.stack.forget_fast_open_peers();
        }
    }

    /// The settings.
    pub fn sysctls(&self) -> &Sysctls {
        &self.sysctls
    }

    fn running(&mut self) -> &mut Running {
        let (sysctls, link) = (&mut self.sysctls, self.link);
        self.running.get_or_insert_with(|| {
            let mut config = Config::default();
            // Scripts' addresses are there from the start.
            config.v6.dad_transmits = 0;
            // The link takes the packets that Linux's device takes: up to 64 KiB.
            config.tcp.gso_max_segs = MOST_SEGMENTS;
            sysctls.apply(&mut config);
            let mut stack = Stack::new(config, SECRET);
            let interface = stack.add_interface(link::interface(link));
            // Whether any are made is a setting.
            let cuts = Features { tso4: true, tso6: true, ..Features::default() };
            let _ = stack.set_features(interface, cuts);
            link::join(&mut stack, interface, link);
            set_keys(&mut stack, sysctls);
            Running { stack, interface }
        })
    }

    fn stack(&mut self) -> &mut Stack<Chunk, Frame> {
        &mut self.running().stack
    }

    /// Takes an IP packet from the link.
    pub fn deliver(&mut self, packet: &[u8]) {
        let now = self.now;
        let joined = link::payload_len(packet) > usize::from(self.link.joined);
        let segment = if joined { self.link.joined } else { 0 };
        let frame = Frame::joined(link::wrap(packet), segment);
        let mut wire = SentFrames::default();
        let running = self.running();
        running.stack.handle_frame(now, running.interface, frame, &mut wire);
        self.carry(wire);
        self.settle();
    }

    /// Lets the stack do everything that is to be done now.
    fn settle(&mut self) {
        let now = self.now;
        loop {
            let mut wire = SentFrames::default();
            let stack = self.stack();
            stack.poll(now, &mut wire);
            let due = stack.poll_at().is_some_and(|at| at <= now);
            let quiet = wire.is_empty();
            self.carry(wire);
            let told = self.take_events();
            if quiet && !due && !told {
                return;
            }
        }
    }

    /// Gives the frames of the stack to the link, and answers those that concern the link alone.
    fn carry(&mut self, wire: SentFrames) {
        let now = self.now;
        for frame in wire.frames {
            match link::unwrap(&frame) {
                link::FrameContent::Packet(bytes) => {
                    self.sent.push_back(SentPacket { time: now, bytes: bytes.to_vec() });
                }
                link::FrameContent::Answer(answer) => {
                    let mut wire = SentFrames::default();
                    let running = self.running();
                    let frame = Frame::new(answer);
                    running.stack.handle_frame(now, running.interface, frame, &mut wire);
                    self.carry(wire);
                }
                link::FrameContent::Nothing => {}
            }
        }
    }

    /// Whether the stack had an event.
    fn take_events(&mut self) -> bool {
        let mut any = false;
        while let Some(Event { tag, kind }) = self.stack().poll_event() {
            any = true;
            let fd = i32::try_from(tag).unwrap_or(-1);
            let Some(running) = &mut self.running else { continue };
            if let Some(Descriptor::Socket(socket)) = self.entries.get_mut(fd) {
                socket.handle_event(kind, &mut running.stack);
            }
            if kind == EventKind::Acked && self.is_writable(fd) {
                self.entries.wake_writer(fd);
            }
        }
        any
    }

    /// Moves the clock to the next event that happens by itself, or to `limit`. Returns false if no
    /// event comes before the limit.
    pub fn step(&mut self, limit: Option<Instant>) -> bool {
        let next = self.running.as_ref().and_then(|running| running.stack.poll_at());
        match (next, limit) {
            (Some(next), _) if limit.is_none_or(|limit| next <= limit) => {
                self.now = self.now.max(next);
                self.settle();
                true
            }
            (_, Some(limit)) => {
                self.now = self.now.max(limit);
                false
            }
            (_, None) => false,
        }
    }

    /// Moves the clock by `time`.
    pub fn sleep(&mut self, time: Duration) {
        let until = self.now + time;
        while self.step(Some(until)) {}
    }

    /// Whether a packet has left.
    pub fn has_packet(&self) -> bool {
        !self.sent.is_empty()
    }

    /// A packet that has left.
    pub fn take_packet(&mut self) -> Option<SentPacket> {
        self.sent.pop_front()
    }
}

impl Socket {
    /// Something happened on the socket.
    fn handle_event(&mut self, kind: EventKind, stack: &mut Stack<Chunk, Frame>) {
        // More room is announced elsewhere: `wake_writer`.
        self.activity += u64::from(kind != EventKind::Acked);
        match kind {
            EventKind::Connected => self.connected = true,
            EventKind::Acceptable => self.acceptable = true,
            EventKind::Readable => {
                let Some(handle) = self.handle else { return };
                while let Some(received) = stack.recv(handle) {
                    self.received.push(received);
                }
            }
            EventKind::Eof => self.eof = true,
            EventKind::Acked => {
                if let Some(handle) = self.handle {
                    self.acked = stack.acked(handle);
                }
            }
            EventKind::Failed(error) => {
                self.error = Some(errno::of(error));
                self.failed = true;
            }
            EventKind::Urgent | EventKind::ErrorQueued | EventKind::Closed => {}
        }
    }
}

/// Gives the stack the keys of Fast Open that are set.
fn set_keys(stack: &mut Stack<Chunk, Frame>, sysctls: &Sysctls) {
    if let Some(keys) = sysctls.fast_open_keys() {
        stack.set_fast_open_keys(keys);
    }
}
