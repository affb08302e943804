//! A client that breaks the rules of its region. The supervisor admits it in order. Then it writes
//! values that no correct client writes. It prints "dropped" once the supervisor has dropped it.
//!
//! Arguments: the socket of the instance, and the kind of violation.
//!
//! Some kinds ([`HOST_KINDS`]) are for an instance in mode `library`. There the program hosts the
//! servers, and breaks the rules of their control connections. It prints "hosting" first.
//!
//! The kind "garbage" connects and sends garbage for some seconds, and prints how often. The kind
//! "refused" does the same with requests that are refused, and "brief" with clients that end as
//! soon as they are admitted.
//!
//! The kind "rights" is no violation. It makes the requests of operators, and prints "refused" and
//! the socket that each refusal names.

use std::io::Write as _;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use abi::call::{CallFlags, Op, PackagedCall, PackagedResult, Reply, Request, ReturnPath};
use abi::client::{ClientLayout, QUEUE, REQUESTS, RESULTS};
use abi::control::{ClientReply, ClientRequest, ServerEvent, ServerOutput, ServerReply, VERSION};
use shm::{Access, Channel, Consumer, Message, Producer, Region, Slot};

/// The client as the supervisor and the inet server know it.
struct Hostile {
    line: Channel,
    region: Arc<Region>,
    layout: ClientLayout,
    bell: OwnedFd,
    client: u16,
    thread: u16,
    thread_bell: OwnedFd,
    noise: u64,
}

fn ask(line: &mut Channel, request: &ClientRequest) -> (ClientReply, Message) {
    let body = serde_json::to_vec(request).expect("a request is plain data");
    line.send(&body, &[]).expect("the supervisor listens");
    let message = line.recv().expect("the supervisor answers").expect("the line goes on");
    (serde_json::from_slice(&message.body).expect("a reply"), message)
}

/// Connects and says hello.
fn hello(path: &str) -> (Channel, ClientReply, Message) {
    let stream = UnixStream::connect(path).expect("the instance's socket");
    let mut line = Channel::from_fd(stream.into());
    let hello = ClientRequest::Hello { version: VERSION, program: "hostile".to_owned() };
    let (reply, message) = ask(&mut line, &hello);
    (line, reply, message)
}

impl Hostile {
    fn admit(path: &str) -> Self {
        let (mut line, reply, message) = hello(path);
        let ClientReply::Welcome { client, params, .. } = reply else { panic!("{reply:?}") };
        let mut fds = message.fds.into_iter();
        let (region, bell) = (fds.next().expect("the region"), fds.next().expect("the bell"));
        let layout = params.layout().expect("possible measures");
        let region = Region::map(region.as_fd(), layout.len, Access::ReadWrite).expect("a region");
        let (reply, message) = ask(&mut line, &ClientRequest::AttachThread);
        let ClientReply::Thread { thread } = reply else { panic!("{reply:?}") };
        let thread_bell = message.fds.into_iter().next().expect("the thread's bell");
        Self { line, region, layout, bell, client, thread, thread_bell, noise: 1 }
    }

    fn noise(&mut self) -> u64 {
        self.noise = self.noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        self.noise ^ self.noise >> 29
    }

    fn spray(&mut self, from: usize, to: usize) {
        for at in (from..to).step_by(8) {
            let word = self.noise().to_le_bytes();
            self.region.write(at, &word).expect("in the region");
        }
    }

    fn ring(&self) {
        rustix::io::write(&self.bell, &1_u64.to_ne_bytes()).expect("an eventfd takes a count");
    }

    fn requests(&self) -> Producer {
        let at = self.layout.request_ring(self.thread);
        Producer::attach(&self.region, at, REQUESTS).expect("in the region")
    }

    fn call(&self, request: Request, client: u16) -> Slot {
        let path = ReturnPath { client, ring: self.thread, tag: 1 };
        let (flags, request) = (CallFlags::NONE, request.encode());
        PackagedCall::new(path, 0, flags, request).encode()
    }

    /// Opens a datagram socket as a correct client does; its place in the table.
    fn socket(&mut self) -> u16 {
        let at = self.layout.result_ring(self.thread);
        let mut results = Consumer::attach(&self.region, at, RESULTS).expect("in the region");
        let (kind, family) = (abi::SocketKind::Datagram, abi::Family::V4);
        let call = self.call(Request::Socket { kind, family }, self.client);
        self.requests().push(&call).expect("room for a call");
        self.ring();
        loop {
            if let Some(slot) = results.pop().expect("sound indices") {
                let result = PackagedResult::decode(&slot).expect("a result");
                let words = result.outcome.expect("a socket");
                let Ok(Reply::Socket(id)) = Reply::decode(Op::Socket, &words) else {
                    panic!("{words:?}")
                };
                return id.index;
            }
            std::thread::yield_now();
        }
    }

    fn dirty(&self, socket: u16) {
        let head = self.layout.head(&self.region).expect("in the region");
        head.dirty.set(socket);
    }

    /// Fills its own bell, which it made blocking, while the server rings it.
    fn deafen(&mut self) {
        let fd = &self.thread_bell;
        rustix::fs::fcntl_setfl(fd, rustix::fs::OFlags::RDWR).expect("blocking");
        // An eventfd is full then; a socket's other end gets it.
        let _ = rustix::io::write(fd, &(u64::MAX - 1).to_ne_bytes());
        let word = self.layout.thread_bell(&self.region, self.thread).expect("in the region");
        let at = self.layout.result_ring(self.thread);
        let mut results = Consumer::attach(&self.region, at, RESULTS).expect("in the region");
        for _ in 0..5000 {
            // Asleep in poll.
            word.store(2, SeqCst);
            let call = self.call(Request::Null, self.client);
            self.requests().push(&call).expect("room for a call");
            self.ring();
            while results.pop().expect("sound indices").is_none() {
                std::thread::yield_now();
            }
        }
        self.misbehave("slots");
    }

    fn misbehave(&mut self, kind: &str) {
        match kind {
            // Ring indices that no ring can have.
            "indices" => {
                let at = self.layout.request_ring(self.thread);
                self.spray(at, at + shm::ring_bytes(REQUESTS));
            }
            // Sound indices, meaningless slots.
            "slots" => {
                let mut requests = self.requests();
                for _ in 0..10 {
                    let slot = std::array::from_fn(|_| self.noise());
                    requests.push(&slot).expect("room for ten");
                }
            }
            // A bell on which the server would wait for ever if it could be made to.
            "bell" => self.deafen(),
            // A call whose result would go to another client.
            "paths" => {
                let call = self.call(Request::Null, self.client ^ 1);
                self.requests().push(&call).expect("room for a call");
            }
            // Data in an area that is none.
            "descriptors" => {
                let socket = self.socket();
                let at = self.layout.tx_queue(socket);
                let mut queue = Producer::attach(&self.region, at, QUEUE).expect("in the region");
                queue
                    .push(&[1 << 16, 7 << 32 | 3, 100 << 32, 0, 0, 0, 0, 0])
                    .expect("room for one");
                self.dirty(socket);
            }
            // More consumed than there ever was.
            "words" => {
                let socket = self.socket();
                let words = self.layout.socket_words(&self.region, socket).expect("in the region");
                words.rx_consumed.store(u64::MAX / 3, SeqCst);
                self.dirty(socket);
            }
            // Everything but the data themselves, again and again.
            "everything" => {
                let _ = self.socket();
                for _ in 0..3 {
                    self.spray(0, self.layout.tx_pool.pages_at);
                    self.ring();
                }
            }
            _ => panic!("unknown kind {kind}"),
        }
        self.ring();
    }
}

/// A program that hosts the servers, and is none.
struct HostileHost {
    inet: Channel,
    _nic: Channel,
}

/// The ways in which a host breaks the rules.
const HOST_KINDS: [&str; 5] = ["events", "silence", "ids", "refusal", "device"];

impl HostileHost {
    fn begin(path: &str) -> (Channel, Self) {
        let (line, reply, message) = hello(path);
        assert_eq!(reply, ClientReply::Host, "the instance is in mode library, and has no host");
        let mut ends = message.fds.into_iter().map(Channel::from_fd);
        let (inet, nic) = (ends.next().expect("the inet server's end"), ends.next());
        (line, Self { inet, _nic: nic.expect("the driver's end") })
    }

    fn say(&mut self, output: &ServerOutput) {
        let body = serde_json::to_vec(output).expect("plain data");
        // The supervisor may have lost its patience.
        let _ = self.inet.send(&body, &[]);
    }

    /// Breaks the rules until the supervisor ends the control connections.
    fn misbehave(mut self, kind: &str) {
        match kind {
            // As many events as the connection takes.
            "events" => {
                let event = ServerOutput::Event(ServerEvent::InterfaceReady { nic: 0 });
                let body = serde_json::to_vec(&event).expect("plain data");
                let len = u32::try_from(body.len()).expect("a short event").to_le_bytes();
                let message = [&len[..], &[0; 4], &body].concat();
                let mut socket = UnixStream::from(OwnedFd::from(self.inet));
                while socket.write_all(&message.repeat(1000)).is_ok() {}
                return;
            }
            // No reply to any request.
            "silence" => {}
            // A reply to a request that was never made.
            "ids" => self.say(&ServerOutput::Reply { id: 1 << 40, reply: ServerReply::Done }),
            // It refuses its configuration.
            "refusal" => {
                let reply = ServerReply::Error { message: "no".to_owned() };
                self.say(&ServerOutput::Reply { id: 1, reply });
            }
            // The inet server says that an interface is lost for good.
            "device" => {
                let reason = "x".repeat(100_000);
                self.say(&ServerOutput::Event(ServerEvent::DeviceLost { reason }));
            }
            _ => panic!("unknown kind {kind}"),
        }
        // Requests come and are not answered.
        while matches!(self.inet.recv(), Ok(Some(_))) {}
    }
}

/// Makes the requests of operators on the programs' socket.
fn overstep(path: &str) {
    let stream = UnixStream::connect(path).expect("the instance's socket");
    let mut line = Channel::from_fd(stream.into());
    for request in [
        ClientRequest::Ps,
        ClientRequest::Ss { info: true, from: 0 },
        ClientRequest::Trace { on: true, marks: 9 },
        ClientRequest::Capture { snaplen: 64, interface: None },
        ClientRequest::Down,
    ] {
        match ask(&mut line, &request).0 {
            ClientReply::WrongSocket { socket } => println!("refused {socket}"),
            other => panic!("{request:?}: {other:?}"),
        }
    }
    match ask(&mut line, &ClientRequest::Network).0 {
        ClientReply::Network(_) => println!("interfaces"),
        other => panic!("{other:?}"),
    }
}

/// Connections after which new ones are accepted slowly, and more.
const MANY: u32 = 200;

/// Connects and sends garbage, or a request that is refused, or ends as a client, as often as it
/// can.
fn connect_in_a_loop(path: &str, kind: &str) {
    let hello = ClientRequest::Hello { version: VERSION + 1, program: "hostile".to_owned() };
    let hello = serde_json::to_vec(&hello).expect("a request is plain data");
    let (begun, mut sent) = (Instant::now(), 0);
    let connect = || UnixStream::connect(path).expect("the instance's socket");
    while sent < MANY || begun.elapsed() < Duration::from_secs(8) {
        // The supervisor may have closed its end.
        match kind {
            "garbage" => drop(connect().write_all(&[b'x'; 64])),
            "refused" => drop(Channel::from_fd(connect().into()).send(&hello, &[])),
            _ => drop(Hostile::admit(path)),
        }
        sent += 1;
        if sent == MANY {
            println!("many");
        }
    }
    println!("{sent} {}", begun.elapsed().as_millis());
}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let [_, path, kind] = &words[..] else { panic!("usage: hostile SOCKET KIND") };
    if HOST_KINDS.contains(&kind.as_str()) {
        let (_line, host) = HostileHost::begin(path);
        println!("hosting");
        host.misbehave(kind);
        println!("dropped");
        return;
    }
    if kind == "rights" {
        return overstep(path);
    }
    if ["garbage", "refused", "brief"].contains(&kind.as_str()) {
        return connect_in_a_loop(path, kind);
    }
    let mut hostile = Hostile::admit(path);
    hostile.misbehave(kind);
    // The supervisor says nothing more: its end of the line closes.
    while matches!(hostile.line.recv(), Ok(Some(_))) {}
    println!("dropped");
}
