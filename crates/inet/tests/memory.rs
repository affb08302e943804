//! What an idle connection costs, and what ended sockets leave behind: bytes that are really
//! allocated, counted by the allocator.
#![expect(unsafe_code, reason = "a global allocator cannot be written without")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::time::Duration;

use tasuki_inet::{
    Cidr, Config, Egress, EventKind, Family, Instant, InterfaceConfig, InterfaceId, RxBytes,
    SocketKind, Stack, TxBytes, TxOffload, TxPiece,
};

/// Counts what is allocated and not freed.
struct Counting;

thread_local! {
    /// Of the test's own thread: those of other tests and of the harness do not count.
    static ALLOCATED: Cell<usize> = const { Cell::new(0) };
}

/// Bytes that this thread has allocated and not freed.
fn allocated() -> usize {
    ALLOCATED.get()
}

// SAFETY: all is left to the system's allocator; the count touches no memory of the caller's.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.set(ALLOCATED.get().wrapping_add(layout.size()));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        ALLOCATED.set(ALLOCATED.get().wrapping_sub(layout.size()));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Connections, on each of two hosts.
const CONNECTIONS: usize = 100_000;

/// Most bytes that one may cost.
const MOST: usize = 1024;

/// Payload that is not there: the connections are idle.
#[derive(Debug)]
struct Nothing;

impl TxBytes for Nothing {
    fn len(&self) -> usize {
        0
    }
    fn checksum(&self, _: Range<usize>) -> u16 {
        0
    }
    fn copy_to(&self, _: Range<usize>, _: &mut [u8]) {}
    fn append(&mut self, next: Self) -> Result<(), Self> {
        Err(next)
    }
}

#[derive(Debug)]
struct Frame(Vec<u8>);

impl RxBytes for Frame {
    fn bytes(&self) -> &[u8] {
        &self.0
    }
}

#[derive(Default)]
struct Wire(VecDeque<Vec<u8>>);

impl Egress<Nothing> for Wire {
    fn ready(&mut self, _: InterfaceId) -> bool {
        true
    }
    fn emit(
        &mut self,
        _: InterfaceId,
        head: &[u8],
        _: &[TxPiece<'_, Nothing>],
        _: TxOffload,
    ) -> bool {
        self.0.push_back(head.to_vec());
        true
    }
}

struct Host {
    stack: Stack<Nothing, Frame>,
    wire: Wire,
}

impl Host {
    fn new(last: u8) -> Self {
        let config = Config { sockets: 2 * CONNECTIONS, backlog: 4096, ..Config::default() };
        let mut stack = Stack::new(config, [last; 16]);
        let mac = [2, 0, 0, 0, 0, last];
        let id = stack.add_interface(InterfaceConfig { mac, mtu: 1500 });
        stack.add_address(id, Cidr::new(Ipv4Addr::new(10, 0, 0, last), 24)).unwrap();
        Self { stack, wire: Wire::default() }
    }

    /// Takes what the other has sent; whether there was anything.
    fn take(&mut self, now: Instant, from: &mut Wire) -> bool {
        let frames = std::mem::take(&mut from.0);
        let any = !frames.is_empty();
        for frame in frames {
            self.stack.handle_frame(now, InterfaceId(0), Frame(frame), &mut self.wire);
        }
        self.stack.poll(now, &mut self.wire);
        while let Some(event) = self.stack.poll_event() {
            assert!(matches!(event.kind, EventKind::Connected | EventKind::Acceptable));
        }
        any
    }
}

#[test]
fn an_idle_connection_costs_a_kibibyte() {
    let (mut a, mut b) = (Host::new(1), Host::new(2));
    let mut now = Instant::from_nanos(1_000_000_000);
    let any = |port| SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port);
    let listeners: Vec<_> = (0..8)
        .map(|n| {
            let listener = b.stack.open(SocketKind::Stream, 0).unwrap();
            b.stack.bind(listener, any(80 + n)).unwrap();
            b.stack.listen(listener, 1024).unwrap();
            listener
        })
        .collect();
    let before = allocated();
    let mut made = 0;
    while made < CONNECTIONS {
        for (listener, port) in listeners.iter().zip(80..) {
            for _ in 0..100 {
                let socket = a.stack.open(SocketKind::Stream, 1).unwrap();
                let server = SocketAddr::new(Ipv4Addr::new(10, 0, 0, 2).into(), port);
                a.stack.connect(now, socket, server).unwrap();
            }
            a.stack.poll(now, &mut a.wire);
            loop {
                let to_b = b.take(now, &mut a.wire);
                let to_a = a.take(now, &mut b.wire);
                if !to_a && !to_b {
                    break;
                }
            }
            while b.stack.accept(*listener, 2).unwrap().is_some() {
                made += 1;
            }
        }
        now += Duration::from_millis(1);
    }
    // Whatever was armed for a moment is over.
    for _ in 0..40 {
        now += Duration::from_secs(1);
        // One poll handles a bounded number of timers.
        while [&a, &b].into_iter().any(|host| host.stack.poll_at().is_some_and(|at| at <= now)) {
            a.take(now, &mut b.wire);
            b.take(now, &mut a.wire);
        }
    }
    let states = |host: &Host| host.stack.sockets().filter(|s| s.state == "ESTAB").count();
    assert_eq!((states(&a), states(&b)), (made, made));
    let each = (allocated() - before) / (2 * made);
    println!("{each} bytes for each of {} connections", 2 * made);
    assert!(each <= MOST, "{each} bytes for each of {} connections", 2 * made);
}

/// Sockets of each kind in a round.
const ROUND: u16 = 300;
/// Most further bytes after a round: a table that has found one more entry at the same time.
const MORE: usize = 2048;

/// Hands frames over until there are none, and drops all events.
fn exchange(now: Instant, a: &mut Host, b: &mut Host) {
    loop {
        a.stack.poll(now, &mut a.wire);
        b.stack.poll(now, &mut b.wire);
        let (to_b, to_a) = (std::mem::take(&mut a.wire.0), std::mem::take(&mut b.wire.0));
        let over = to_a.is_empty() && to_b.is_empty();
        for (host, frames) in [(&mut *a, to_a), (&mut *b, to_b)] {
            for frame in frames {
                host.stack.handle_frame(now, InterfaceId(0), Frame(frame), &mut host.wire);
            }
            while host.stack.poll_event().is_some() {}
        }
        if over {
            return;
        }
    }
}

/// Opens sockets of all kinds for a party of its own, uses and closes them in every way.
fn round(now: &mut Instant, a: &mut Host, b: &mut Host) {
    let owner = a.stack.add_owner();
    let listener = b.stack.open(SocketKind::Stream, 0).unwrap();
    b.stack.bind(listener, SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 80)).unwrap();
    b.stack.listen(listener, ROUND).unwrap();
    let to = |last, port| SocketAddr::from((Ipv4Addr::new(10, 0, 0, last), port));
    let mut open = |kind| a.stack.open_for(owner, Family::V4, kind, 1).unwrap();
    let streams: Vec<_> = (0..ROUND).map(|_| open(SocketKind::Stream)).collect();
    let datagrams: Vec<_> = (0..ROUND).map(|_| open(SocketKind::Datagram)).collect();
    let peers = [to(2, 80), to(2, 80), to(2, 81), to(9, 80)];
    for ((n, stream), datagram) in (0_u16..).zip(&streams).zip(&datagrams) {
        // One in four finds nobody who listens, another one no host.
        let peer = peers[usize::from(n % 4)];
        a.stack.connect(*now, *stream, peer).unwrap();
        a.stack.send(*now, *datagram, Nothing, Some(peer)).unwrap();
        if n.is_multiple_of(50) {
            let group = Ipv4Addr::new(239, 0, 0, 1 + (n / 50) as u8).into();
            a.stack.join_group(*now, *datagram, group, Some(InterfaceId(0))).unwrap();
        }
        exchange(*now, a, b);
    }
    let accepted = std::iter::from_fn(|| b.stack.accept(listener, 2).unwrap());
    let accepted: Vec<_> = accepted.map(|(handle, _)| handle).collect();
    assert_eq!(accepted.len(), usize::from(ROUND) / 2);
    for (n, handle) in streams.iter().chain(&datagrams).enumerate() {
        let ended = match n % 3 {
            0 => a.stack.abort(*now, *handle),
            _ => a.stack.close(*now, *handle),
        };
        ended.unwrap();
    }
    exchange(*now, a, b);
    accepted.iter().for_each(|handle| b.stack.close(*now, *handle).unwrap());
    b.stack.close(*now, listener).unwrap();
    a.stack.remove_owner(owner);
    for _ in 0..600 {
        *now += Duration::from_secs(1);
        exchange(*now, a, b);
    }
    assert_eq!(a.stack.sockets().count() + b.stack.sockets().count(), 0);
}

#[test]
fn ended_sockets_leave_nothing_behind() {
    let (mut a, mut b) = (Host::new(1), Host::new(2));
    let mut now = Instant::from_nanos(1_000_000_000);
    let mut counts = Vec::new();
    for _ in 0..4 {
        round(&mut now, &mut a, &mut b);
        counts.push(allocated());
    }
    println!("bytes after each round: {counts:?}");
    for pair in counts.windows(2) {
        assert!(pair[1] <= pair[0] + MORE, "{counts:?}");
    }
}
