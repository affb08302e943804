//! The far end: a stack of its own, in memory.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::ops::Range;

use inet::{
    Cidr, Config, Egress, Error, Features, Handle, Instant, InterfaceConfig, InterfaceId, RxBytes,
    RxOffload, SocketKind, Stack, TxBytes, TxOffload, TxPiece, gather,
};

use crate::counting::aside;

/// Payload to be sent.
#[derive(Debug)]
pub(crate) struct Bytes(Vec<u8>);

impl Bytes {
    pub(crate) fn new(len: usize) -> Self {
        Self(vec![0x5a; len])
    }
}

impl TxBytes for Bytes {
    fn len(&self) -> usize {
        self.0.len()
    }

    /// It is the owner's affair, not the core's.
    fn checksum(&self, range: Range<usize>) -> u16 {
        aside(|| shm::checksum(&self.0[range]))
    }

    fn copy_to(&self, range: Range<usize>, out: &mut [u8]) {
        out.copy_from_slice(&self.0[range]);
    }

    fn append(&mut self, next: Self) -> Result<(), Self> {
        Err(next)
    }
}

/// A frame, and the facts that its interface knows of it.
#[derive(Debug)]
pub(crate) struct Packet(pub(crate) Vec<u8>, pub(crate) RxOffload);

impl RxBytes for Packet {
    fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn offload(&self) -> RxOffload {
        self.1
    }
}

/// Where frames leave.
#[derive(Default)]
pub(crate) struct Wire(pub(crate) Vec<(Vec<u8>, TxOffload)>);

impl Egress<Bytes> for Wire {
    fn ready(&mut self, _: InterfaceId) -> bool {
        true
    }

    fn emit(
        &mut self,
        _: InterfaceId,
        head: &[u8],
        body: &[TxPiece<'_, Bytes>],
        left: TxOffload,
    ) -> bool {
        aside(|| {
            let frame = gather(head, body);
            self.0.push((frame, left));
        });
        true
    }
}

/// A frame as it arrives at the other end of the link of a device that does all offloads.
pub(crate) fn carried((frame, left): (Vec<u8>, TxOffload)) -> Packet {
    let segment = left.segments.map_or(0, |segments| segments.size);
    Packet(frame, RxOffload { verified: left.checksum.is_some(), segment, behind: 0 })
}

/// One stack on the link 10.0.0.0/24, and the connection that is measured.
pub(crate) struct Peer {
    pub(crate) stack: Stack<Bytes, Packet>,
    pub(crate) id: InterfaceId,
    pub(crate) wire: Wire,
    pub(crate) address: Ipv4Addr,
    pub(crate) connection: Option<Handle>,
    listener: Option<Handle>,
    /// Takes datagrams.
    datagrams: Option<Handle>,
    /// It answers so many bytes of a connection, and closes it.
    pub(crate) request: Option<usize>,
    /// Bytes that came on the connection.
    came: usize,
    pub(crate) datagrams_came: u32,
}

/// Bytes of an answer.
pub(crate) const ANSWER: usize = 4;

impl Peer {
    pub(crate) fn new(last: u8, offload: bool) -> Self {
        let mut stack = Stack::new(Config::default(), [last; 16]);
        let id = stack.add_interface(InterfaceConfig { mac: [2, 0, 0, 0, 0, last], mtu: 1500 });
        let address = Ipv4Addr::new(10, 0, 0, last);
        stack.add_address(id, Cidr::new(address, 24)).expect("a free address");
        let features = Features { tx_checksum: offload, tso4: offload, tso6: offload };
        stack.set_features(id, features).expect("an interface");
        Self {
            stack,
            id,
            wire: Wire::default(),
            address,
            connection: None,
            listener: None,
            datagrams: None,
            request: None,
            came: 0,
            datagrams_came: 0,
        }
    }

    pub(crate) fn listen(&mut self, port: u16) {
        let listener = self.stack.open(SocketKind::Stream, 0).expect("room");
        let at = SocketAddr::new(IpAddr::V4(self.address), port);
        self.stack.bind(listener, at).expect("a free port");
        self.stack.listen(listener, 16).expect("a bound socket");
        self.listener = Some(listener);
        let datagrams = self.stack.open(SocketKind::Datagram, 0).expect("room");
        self.stack.bind(datagrams, at).expect("a free port");
        self.datagrams = Some(datagrams);
    }

    pub(crate) fn connect(&mut self, now: Instant, to: SocketAddr) {
        let handle = self.stack.open(SocketKind::Stream, 0).expect("room");
        match self.stack.connect(now, handle, to) {
            Ok(()) | Err(Error::InProgress) => self.connection = Some(handle),
            Err(error) => panic!("connect: {error}"),
        }
    }

    /// Events, timers and whatever may leave.
    pub(crate) fn poll(&mut self, now: Instant) {
        self.stack.poll(now, &mut self.wire);
        while self.stack.poll_event().is_some() {}
        let accepted = self.listener.map(|listener| self.stack.accept(listener, 1));
        if let Some(Ok(Some((handle, _)))) = accepted {
            (self.connection, self.came) = (Some(handle), 0);
        }
    }

    pub(crate) fn handle(&mut self, now: Instant, frame: Packet) {
        self.stack.handle_frame(now, self.id, frame, &mut self.wire);
    }

    /// Sends on the connection.
    pub(crate) fn send(&mut self, now: Instant, bytes: Bytes) {
        let connection = self.connection.expect("it is connected");
        let sent = self.stack.send(now, connection, bytes, None);
        assert!(sent.is_ok(), "an open connection takes data");
    }

    /// Takes all that came on the connection, and datagrams; how much the former was.
    pub(crate) fn take(&mut self, now: Instant) -> usize {
        while let Some((socket, received)) =
            self.datagrams.and_then(|socket| Some((socket, self.stack.recv(socket)?)))
        {
            let len = received.piece.bytes().len();
            self.stack.consumed(now, socket, len);
            self.datagrams_came += 1;
        }
        let Some(connection) = self.connection else { return 0 };
        let mut sum = 0;
        while let Some(received) = self.stack.recv(connection) {
            let len = received.piece.bytes().len();
            self.stack.consumed(now, connection, len);
            sum += len;
        }
        self.came += sum;
        if self.request.is_some_and(|request| self.came >= request) {
            self.send(now, Bytes::new(ANSWER));
            self.stack.close(now, connection).expect("it is open");
            self.connection = None;
        }
        sum
    }
}
