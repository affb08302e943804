//! Two stacks back to back: a client and a server, which is the other's router as well.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::ops::Range;
use core::time::Duration;

use inet::{
    Cidr, Config, Egress, Error, EventKind, Handle, Instant, InterfaceConfig, InterfaceId, Route,
    RxBytes, SocketKind, Stack, TxBytes, TxOffload, TxPiece, gather,
};

/// Addresses of the client and of the server.
pub(crate) const ADDRESSES: [Ipv4Addr; 2] =
    [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)];

/// Payload to be sent.
#[derive(Debug)]
pub(crate) struct Bytes(pub(crate) Vec<u8>);

impl TxBytes for Bytes {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn checksum(&self, range: Range<usize>) -> u16 {
        shm::checksum(&self.0[range])
    }

    fn copy_to(&self, range: Range<usize>, out: &mut [u8]) {
        out.copy_from_slice(&self.0[range]);
    }

    fn append(&mut self, next: Self) -> Result<(), Self> {
        Err(next)
    }
}

/// A received frame.
#[derive(Debug)]
pub(crate) struct Packet(pub(crate) Vec<u8>);

impl RxBytes for Packet {
    fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Where frames leave.
#[derive(Default)]
pub(crate) struct Wire(pub(crate) Vec<Vec<u8>>);

impl Egress<Bytes> for Wire {
    fn ready(&mut self, _: InterfaceId) -> bool {
        true
    }

    fn emit(
        &mut self,
        _: InterfaceId,
        head: &[u8],
        body: &[TxPiece<'_, Bytes>],
        _: TxOffload,
    ) -> bool {
        self.0.push(gather(head, body));
        true
    }
}

/// One of the two.
pub(crate) struct End {
    pub(crate) stack: Stack<Bytes, Packet>,
    pub(crate) id: InterfaceId,
    pub(crate) connected: usize,
    pub(crate) listeners: Vec<Handle>,
    pub(crate) accepted: Vec<Handle>,
}

impl End {
    fn new(side: usize, config: Config) -> Self {
        let mut stack = Stack::new(config, [side as u8; 16]);
        let mac = [2, 0, 0, 0, 0, side as u8];
        let id = stack.add_interface(InterfaceConfig { mac, mtu: 1500 });
        stack.add_address(id, Cidr::new(ADDRESSES[side], 24)).expect("a free address");
        let route = Route::default(ADDRESSES[1 - side].into(), id);
        stack.add_route(route).expect("room for a route");
        Self { stack, id, connected: 0, listeners: Vec::new(), accepted: Vec::new() }
    }

    /// Listens at a port.
    pub(crate) fn listen(&mut self, port: u16) {
        let listener = self.stack.open(SocketKind::Stream, 0).expect("room");
        let at = SocketAddr::new(IpAddr::V4(ADDRESSES[1]), port);
        self.stack.bind(listener, at).expect("a free port");
        self.stack.listen(listener, 4096).expect("a bound socket");
        self.listeners.push(listener);
    }

    fn take_events(&mut self) -> bool {
        let mut any = false;
        while let Some(event) = self.stack.poll_event() {
            any = true;
            match event.kind {
                EventKind::Connected => self.connected += 1,
                EventKind::Acceptable => {
                    for listener in &self.listeners {
                        while let Ok(Some((handle, _))) = self.stack.accept(*listener, 1) {
                            self.accepted.push(handle);
                        }
                    }
                }
                EventKind::Failed(error) => panic!("a connection failed: {error}"),
                _ => {}
            }
        }
        any
    }
}

/// Both, and time.
pub(crate) struct Pair {
    pub(crate) now: Instant,
    pub(crate) ends: [End; 2],
    /// Drops frames to invented addresses, which are for neither end.
    pub(crate) flooded: bool,
}

impl Pair {
    pub(crate) fn new(config: &Config) -> Self {
        let ends = [0, 1].map(|side| End::new(side, config.clone()));
        Self { now: Instant::from_nanos(1_000_000_000), ends, flooded: false }
    }

    /// Moves frames until both have nothing more to say at this moment.
    pub(crate) fn rest(&mut self) {
        loop {
            let mut any = false;
            for side in 0..2 {
                let mut wire = Wire::default();
                self.ends[side].stack.poll(self.now, &mut wire);
                any |= self.carry(side, wire);
                any |= self.ends[side].take_events();
                // A poll serves a bounded number of timers.
                any |= self.ends[side].stack.poll_at().is_some_and(|at| at <= self.now);
            }
            if !any {
                return;
            }
        }
    }

    /// Hands frames to the other end, and its answers back.
    fn carry(&mut self, side: usize, wire: Wire) -> bool {
        let any = !wire.0.is_empty();
        let mut answers = Wire::default();
        for frame in wire.0 {
            // In a flood, only frames to the client's own address reach it.
            let other = frame.len() >= 34 && frame[12..14] == [8, 0];
            if self.flooded && side == 1 && other && frame[30..34] != ADDRESSES[0].octets() {
                continue;
            }
            let to = &mut self.ends[1 - side];
            to.stack.handle_frame(self.now, to.id, Packet(frame), &mut answers);
        }
        if !answers.0.is_empty() {
            self.carry(1 - side, answers);
        }
        any
    }

    pub(crate) fn pass(&mut self, time: Duration) {
        self.now += time;
        self.rest();
    }

    /// Starts a connection of the client's to a port of the server's.
    pub(crate) fn connect(&mut self, port: u16) -> Handle {
        let handle = self.ends[0].stack.open(SocketKind::Stream, 2).expect("room");
        let to = SocketAddr::new(IpAddr::V4(ADDRESSES[1]), port);
        match self.ends[0].stack.connect(self.now, handle, to) {
            Ok(()) | Err(Error::InProgress) => handle,
            Err(error) => panic!("connect: {error}"),
        }
    }
}
