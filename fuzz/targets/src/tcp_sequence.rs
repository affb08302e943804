//! A sequence of segments, calls and time against one live connection.
//!
//! The input plays the peer. Each segment is a legal header, with numbers near the edges that
//! matter (next byte, window, unacknowledged data), with every option, and with correct checksums.
//! The application's calls and the passing of time come from the input, too.
//!
//! For any input there is no panic, no acknowledgement of bytes that were not sent, no byte beyond
//! a window that was ever offered, and no flood of answers. All memory stays within its bounds.

use core::net::SocketAddr;
use core::time::Duration;

use arbitrary::{Result, Unstructured};
use inet::{
    Cidr, Config, Error, EventKind, Handle, Instant, InterfaceConfig, InterfaceId, ShutdownHow,
    SockOption, SocketKind, Stack,
};
use sim::ranges::Ranges;
use sim::wire::{self, Segment};

use crate::memory::{Chunk, Frame, Wire};
use crate::packet::{MAC, OURS, PEER, PEER_PORT, PORT, arp, frame_of};

/// Most frames that the stack may hold.
const HELD: u64 = 64;
/// Most frames that one step may cause: a window of the smallest segments that we let it queue.
const ANSWERS: usize = 2_000;
/// Most bytes queued at a time.
const QUEUED: usize = 100_000;
const STREAM: u64 = 2;
const LISTENER: u64 = 1;

/// The connection, and the peer's knowledge of it.
struct TcpSequenceRun {
    stack: Stack<Chunk, Frame>,
    id: InterfaceId,
    now: Instant,
    listener: Option<Handle>,
    stream: Option<Handle>,
    /// The stack's port: it listens, or has connected from another.
    port: u16,
    /// The peer's initial number, and the bytes it has sent from there on.
    iss: u32,
    given: Ranges,
    /// The stack's initial number, next byte, and the window it offers.
    irs: Option<u32>,
    next: u32,
    acked: u32,
    window: u32,
    /// The right edge of the window ever offered to the stack, as an offset from `irs`.
    edge: i64,
    clock: u32,
    echo: u32,
    queued: usize,
}

impl TcpSequenceRun {
    fn new(u: &mut Unstructured<'_>) -> Result<Self> {
        let now = Instant::from_nanos(1_000_000_000);
        let config = Config { held_frames: HELD as usize, ..Config::default() };
        let mut stack = Stack::new(config, [9; 16]);
        let id = stack.add_interface(InterfaceConfig { mac: MAC, mtu: 1500 });
        stack.add_address(id, Cidr::new(OURS, 24)).expect("a free address");
        stack.handle_frame(now, id, Frame(arp()), &mut Wire::default());
        let mut fuzz = Self {
            stack,
            id,
            now,
            listener: None,
            stream: None,
            port: PORT,
            iss: u.arbitrary()?,
            given: Ranges::default(),
            irs: None,
            next: 0,
            acked: 0,
            window: 0,
            edge: 0,
            clock: u.arbitrary()?,
            echo: 0,
            queued: 0,
        };
        fuzz.acked = fuzz.iss;
        let passive: bool = u.arbitrary()?;
        let tag = if passive { LISTENER } else { STREAM };
        let handle = fuzz.stack.open(SocketKind::Stream, tag).expect("room");
        if passive {
            fuzz.stack.bind(handle, SocketAddr::new(OURS.into(), PORT)).expect("free");
            fuzz.stack.listen(handle, 5).expect("bound");
            fuzz.listener = Some(handle);
        } else {
            match fuzz.stack.connect(now, handle, SocketAddr::new(PEER.into(), PEER_PORT)) {
                Ok(()) | Err(Error::InProgress) => {}
                Err(error) => panic!("connect: {error}"),
            }
            fuzz.stream = Some(handle);
        }
        fuzz.poll();
        Ok(fuzz)
    }

    fn step(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        match u.int_in_range(0..=15)? {
            0..=9 => self.segment(u)?,
            10 | 11 => self.now += Duration::from_millis(1 << u.int_in_range(0..=18)?),
            _ => self.call(u)?,
        }
        self.poll();
        Ok(())
    }

    /// A number near one of the edges.
    fn near(u: &mut Unstructured<'_>, edges: &[u32]) -> Result<u32> {
        let edge = *u.choose(edges)?;
        Ok(match u.int_in_range(0..=7)? {
            0..=3 => edge,
            4 => edge.wrapping_add_signed(i32::from(u.arbitrary::<i8>()?)),
            5 => edge.wrapping_add_signed(i32::from(u.arbitrary::<i16>()?)),
            6 => edge.wrapping_add_signed(u.arbitrary::<i32>()? >> 8),
            _ => u.arbitrary()?,
        })
    }

    /// The other end sends a segment.
    fn segment(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        let flags = *u.choose(&[0x10, 0x10, 0x10, 0x18, 0x11, 0x02, 0x12, 0x04, 0x14, 0, 0xff])?;
        let flags: u8 = if u.ratio(1, 16)? { u.arbitrary()? } else { flags };
        let opening = self.given.reach(0) == 0;
        let first = if flags & 2 != 0 && opening { self.iss } else { self.acked };
        let seq = Self::near(u, &[first, self.acked, self.acked.wrapping_add(self.window)])?;
        let una = self.irs.unwrap_or(0).wrapping_add(1);
        let ack = Self::near(u, &[self.next, self.next, una])?;
        let window: u16 = *u.choose(&[0, 1, 100, 1460, 20_000, 65_535])?;
        let options = self.options(u, flags, una)?;
        let len = if u.ratio(1, 3)? { u.int_in_range(0..=3000)? } else { 0 };
        let mut bytes = Vec::with_capacity(60 + len);
        bytes.extend(PEER_PORT.to_be_bytes());
        bytes.extend(self.port.to_be_bytes());
        bytes.extend(seq.to_be_bytes());
        bytes.extend(ack.to_be_bytes());
        bytes.extend([(((20 + options.len()) / 4) << 4) as u8, flags]);
        bytes.extend(window.to_be_bytes());
        bytes.extend([0, 0]);
        bytes.extend(u.arbitrary::<u16>()?.to_be_bytes());
        bytes.extend(options);
        bytes.extend(core::iter::repeat_n(7, len));
        if flags & 4 == 0 {
            let place = i64::from(seq.wrapping_sub(self.iss).cast_signed());
            let span = len as i64 + i64::from(flags & 1) + i64::from(flags >> 1 & 1);
            self.given.add(place, place + span);
            // The window is scaled by at most 14, whatever the options were.
            let offset = i64::from(ack.wrapping_sub(self.irs.unwrap_or(0)).cast_signed());
            self.edge = self.edge.max(offset + (i64::from(window) << 14));
        }
        let mut wire = Wire::default();
        self.stack.handle_frame(self.now, self.id, Frame(frame_of(&bytes)), &mut wire);
        self.look(&wire);
        Ok(())
    }

    fn options(&mut self, u: &mut Unstructured<'_>, flags: u8, una: u32) -> Result<Vec<u8>> {
        let mut options = Vec::new();
        let kinds: u8 = u.arbitrary()?;
        if flags & 2 != 0 {
            if kinds & 1 != 0 {
                options.extend([2, 4]);
                options.extend(u.choose(&[0_u16, 1, 536, 1460, 9000])?.to_be_bytes());
            }
            if kinds & 2 != 0 {
                options.extend([1, 3, 3, *u.choose(&[0, 7, 14, 255])?]);
            }
            if kinds & 4 != 0 {
                options.extend([4, 2, 1, 1]);
            }
        }
        if kinds & 8 != 0 {
            self.clock = self.clock.wrapping_add_signed(i32::from(u.arbitrary::<i8>()?));
            options.extend([1, 1, 8, 10]);
            options.extend(self.clock.to_be_bytes());
            options.extend(Self::near(u, &[self.echo])?.to_be_bytes());
        }
        if kinds & 16 != 0 && options.len() <= 24 {
            let blocks = u.int_in_range(0..=(40 - options.len() - 4) / 8)?;
            options.extend([1, 1, 5, 2 + 8 * blocks as u8]);
            for _ in 0..blocks {
                options.extend(Self::near(u, &[una, self.next])?.to_be_bytes());
                options.extend(Self::near(u, &[una, self.next])?.to_be_bytes());
            }
        }
        if kinds & 32 != 0 && options.len() <= 36 {
            options.extend(u.arbitrary::<[u8; 4]>()?);
        }
        Ok(options)
    }

    /// The application does something.
    fn call(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        let Some(stream) = self.stream else { return Ok(()) };
        match u.int_in_range(0..=9)? {
            0..=3 => {
                let len = u.int_in_range(1..=20_000)?;
                // A connection that has failed or is shut gives an error.
                if self.queued + len <= QUEUED
                    && self.stack.send(self.now, stream, Chunk(vec![3; len]), None).is_ok()
                {
                    self.queued += len;
                }
            }
            4 | 5 => {
                while let Some(received) = self.stack.recv(stream) {
                    let len = received.piece.bytes().len();
                    self.stack.consumed(self.now, stream, len);
                }
            }
            6 => {
                let how = if u.arbitrary()? { ShutdownHow::Write } else { ShutdownHow::Both };
                let _ = self.stack.shutdown(self.now, stream, how);
            }
            7 => {
                let option = match u.int_in_range(0..=2)? {
                    0 => SockOption::NoDelay(u.arbitrary()?),
                    1 => SockOption::Cork(u.arbitrary()?),
                    _ => SockOption::RecvBuffer(usize::from(u.arbitrary::<u16>()?)),
                };
                let _ = self.stack.set_option(self.now, stream, option);
            }
            8 => {
                self.stream = None;
                self.stack.close(self.now, stream).expect("close");
            }
            _ => {
                self.stream = None;
                self.stack.abort(self.now, stream).expect("abort");
            }
        }
        Ok(())
    }

    fn poll(&mut self) {
        let mut wire = Wire::default();
        self.stack.poll(self.now, &mut wire);
        self.look(&wire);
        while let Some(event) = self.stack.poll_event() {
            if event.kind == EventKind::Acceptable
                && let Some(listener) = self.listener
                && self.stream.is_none()
                && let Ok(Some((stream, _))) = self.stack.accept(listener, STREAM)
            {
                self.stream = Some(stream);
            }
        }
        let held = self.stack.counters().find(|(name, _)| *name == "memory.frames-held");
        assert!(held.is_some_and(|(_, held)| held <= HELD), "more frames held than allowed");
    }

    /// Checks the frames that the stack has sent.
    fn look(&mut self, wire: &Wire) {
        assert!(wire.0.len() <= ANSWERS, "{} frames at once", wire.0.len());
        for frame in &wire.0 {
            let Some((from, to, range)) = wire::find(frame) else { continue };
            let bytes = &frame[range];
            let segment = Segment::decode(from, to, bytes).expect("a legal segment");
            self.port = u16::from_be_bytes([bytes[0], bytes[1]]);
            if segment.rst {
                continue;
            }
            if segment.syn && self.irs != Some(segment.seq) {
                self.irs = Some(segment.seq);
                // The window of a SYN is never scaled.
                (self.next, self.edge) = (segment.seq, 1 + i64::from(u16::MAX));
            }
            let Some(irs) = self.irs else { continue };
            let place = i64::from(segment.seq.wrapping_sub(irs).cast_signed());
            let end = place + i64::from(segment.span());
            if segment.len > 0 {
                assert!(end <= self.edge, "{end} is beyond the window {}", self.edge);
            }
            let next = i64::from(self.next.wrapping_sub(irs).cast_signed());
            self.next = irs.wrapping_add(end.max(next) as u32);
            if let Some(ack) = segment.ack {
                let place = i64::from(ack.wrapping_sub(self.iss).cast_signed());
                assert!(self.given.covers(place - 1, place), "ACK of {place}, never given");
                self.acked = ack;
                self.window = u32::from(segment.window) << if segment.syn { 0 } else { 2 };
            }
            if let Some((value, _)) = segment.timestamps {
                self.echo = value;
            }
        }
    }
}

/// See the module.
pub fn run(data: &[u8]) {
    let mut u = Unstructured::new(data);
    let Ok(mut fuzz) = TcpSequenceRun::new(&mut u) else { return };
    while !u.is_empty() {
        if fuzz.step(&mut u).is_err() {
            break;
        }
    }
}
