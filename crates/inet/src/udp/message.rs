//! Datagrams to be sent, with their senders' parameters (ancillary data).

use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use core::ops::Range;

use smoltcp::wire::checksum;

use crate::bytes::{MAX_TX_PIECES, TxBytes, TxPiece};
use crate::interface_id::InterfaceId;

/// Parameters of one datagram to be sent. [`Default`] leaves all to the socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SendOptions {
    /// The destination; `None` for the connected peer.
    pub to: Option<SocketAddr>,
    /// Its source address, if not the socket's (IP_PKTINFO's `ipi_spec_dst`); an address of this
    /// host.
    pub source: Option<IpAddr>,
    /// The interface to leave by (IP_PKTINFO's `ipi_ifindex`).
    pub interface: Option<InterfaceId>,
    /// Time to live, if not the socket's (IP_TTL); not 0.
    pub ttl: Option<u8>,
    /// Type of service, if not the socket's (IP_TOS).
    pub tos: Option<u8>,
    /// Payload bytes of each datagram into which it is segmented (UDP_SEGMENT); 0 for the socket's
    /// value.
    pub segment: u16,
    /// More of the same datagram follows; on a stream, more is written at once (MSG_MORE).
    pub more: bool,
    /// On a stream: a record ends (MSG_EOR).
    pub eor: bool,
}

/// Addresses and header fields of a received datagram. Ancillary data is made of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatagramInfo {
    /// The sender.
    pub from: SocketAddr,
    /// Its destination: an address of this host, a broadcast address or a group.
    pub to: IpAddr,
    /// Over which interface.
    pub interface: InterfaceId,
    /// Its time to live, or hop limit.
    pub ttl: u8,
    /// Its type of service byte, or traffic class.
    pub tos: u8,
}

/// Parameters of a queued datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DatagramParameters {
    pub(crate) to: SocketAddr,
    pub(crate) source: Option<IpAddr>,
    pub(crate) interface: Option<InterfaceId>,
    pub(crate) ttl: Option<u8>,
    pub(crate) tos: Option<u8>,
    /// Payload bytes of each datagram into which it is segmented; 0 for one datagram.
    pub(crate) segment: u16,
}

/// A datagram, or several of one length, and the number of bytes already sent.
#[derive(Debug)]
pub(crate) struct OutgoingDatagram<T> {
    pub(crate) message: DatagramParameters,
    first: T,
    /// Further chunks of a corked datagram.
    rest: Vec<T>,
    len: usize,
    /// Payload bytes that have been sent, in fragments or datagrams.
    pub(crate) sent: usize,
    /// Identification of its fragments; drawn with the first.
    pub(crate) id: u32,
}

impl<T: TxBytes> OutgoingDatagram<T> {
    pub(crate) fn new(chunk: T, message: DatagramParameters) -> Self {
        let len = chunk.len();
        Self { message, first: chunk, rest: Vec::new(), len, sent: 0, id: 0 }
    }

    /// Payload bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Adds a chunk; gives it back if there are too many pieces of memory for a frame.
    pub(crate) fn append(&mut self, chunk: T) -> Result<(), T> {
        let len = chunk.len();
        let last = self.rest.last_mut().unwrap_or(&mut self.first);
        match last.append(chunk) {
            Ok(()) => {}
            Err(chunk) if self.rest.len() + 1 < MAX_TX_PIECES => self.rest.push(chunk),
            Err(chunk) => return Err(chunk),
        }
        self.len += len;
        Ok(())
    }

    /// The payload of the datagram of which the next byte to be sent is a part.
    pub(crate) fn current(&self) -> Range<usize> {
        match usize::from(self.message.segment) {
            0 => 0..self.len,
            segment => {
                let start = self.sent / segment * segment;
                start..self.len.min(start + segment)
            }
        }
    }

    /// The pieces of memory that make up `range` of the payload, and how many there are.
    pub(crate) fn pieces(&self, range: Range<usize>) -> ([TxPiece<'_, T>; MAX_TX_PIECES], usize) {
        let mut pieces: [TxPiece<'_, T>; MAX_TX_PIECES] =
            core::array::from_fn(|_| TxPiece { bytes: &self.first, range: 0..0 });
        let (mut count, mut at) = (0, 0);
        for chunk in core::iter::once(&self.first).chain(&self.rest) {
            let end = at + chunk.len();
            let part = range.start.max(at)..range.end.min(end);
            if !part.is_empty()
                && let Some(piece) = pieces.get_mut(count)
            {
                *piece = TxPiece { bytes: chunk, range: part.start - at..part.end - at };
                count += 1;
            }
            at = end;
        }
        (pieces, count)
    }

    /// The sum of `range` of the payload.
    pub(crate) fn sum(&self, range: Range<usize>) -> u16 {
        let (pieces, count) = self.pieces(range);
        let (mut total, mut len) = (0, 0);
        for piece in pieces.iter().take(count) {
            let part = piece.bytes.checksum(piece.range.clone());
            // RFC 1071 2 (B): a part that starts at an odd offset has its bytes swapped.
            let part = if len % 2 == 1 { part.swap_bytes() } else { part };
            total = checksum::combine(&[total, part]);
            len += piece.range.len();
        }
        total
    }
}
