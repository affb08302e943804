//! Payload bytes as the core sees them: handles on memory of other owners.
//!
//! The core does not copy payload, with two exceptions. It joins fragments into memory of its own
//! ([`Frame::Joined`]), and it copies loopback packets there once.
//!
//! Payload to be sent arrives as chunks ([`TxBytes`]) that remain where the application put them.
//! The core knows a chunk's length and can have ranges of it summed. It names the ranges again when
//! a frame leaves ([`Egress::emit`]). Received payload remains in its frame ([`RxBytes`]) until the
//! application has it. The core hands out ranges of frames ([`RxPiece`]). Dropping a chunk or a
//! frame gives up the core's reference to its memory.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;

use smoltcp::wire::checksum;

use crate::interface_id::InterfaceId;
use crate::offload::{RxOffload, TxOffload};
use crate::owner_id::OwnerId;

/// A chunk of payload to be sent.
pub trait TxBytes {
    /// Length, bytes.
    fn len(&self) -> usize;

    /// Whether there are no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// RFC 1071 one's complement sum of `range`, folded to 16 bits and not inverted. The bytes are
    /// taken in network order, as if the range started at an even offset.
    fn checksum(&self, range: Range<usize>) -> u16;

    /// Copies `range`, which lies within the chunk, to `out`, which has its length. The stack uses
    /// it for packets to itself.
    fn copy_to(&self, range: Range<usize>, out: &mut [u8]);

    /// Makes `next` a part of `self` if it directly continues it in memory.
    ///
    /// # Errors
    /// Gives `next` back when it is elsewhere.
    fn append(&mut self, next: Self) -> Result<(), Self>
    where
        Self: Sized;
}

/// Bytes of a frame that hold the longest headers of a TCP or UDP packet without IPv6 extension
/// headers: Ethernet, IPv4 with options, TCP with options.
pub const HEAD: usize = 144;

/// A complete received frame, from its link header on. It is dropped when no longer needed.
///
/// Its memory may be written by others, such as a driver. So the stack never looks at the frame in
/// place. It reads all fields out of private copies, each of which it makes once: of the
/// [head](Self::head), or of a whole frame whose protocol is neither TCP nor UDP.
pub trait RxBytes {
    /// The frame's bytes. The methods below rest on it unless they are overridden. It must be only
    /// for memory that nobody writes; the stack itself does not call it.
    fn bytes(&self) -> &[u8];

    /// Length in bytes.
    fn frame_len(&self) -> usize {
        self.bytes().len()
    }

    /// A copy of the first bytes. Those after the frame's end mean nothing.
    fn head(&self) -> [u8; HEAD] {
        let mut head = [0; HEAD];
        self.read(0, &mut head);
        head
    }

    /// Copies the bytes from `at` on to `out`, as far as there are both.
    fn read(&self, at: usize, out: &mut [u8]) {
        let bytes = self.bytes().get(at..).unwrap_or_default();
        out.iter_mut().zip(bytes).for_each(|(out, byte)| *out = *byte);
    }

    /// RFC 1071 one's complement sum of `range`, folded to 16 bits and not inverted, as if the
    /// range started at an even offset. Bytes after the frame's end do not count.
    fn checksum(&self, range: Range<usize>) -> u16 {
        checksum::data(self.bytes().get(range).unwrap_or_default())
    }

    /// The interface's knowledge of it.
    fn offload(&self) -> RxOffload {
        RxOffload::NONE
    }

    /// Number of the interface's frames that it occupies, those with [`RxOffload::behind`] payload
    /// included: at least 1 for a received frame.
    fn frames(&self) -> usize {
        1
    }
}

/// A frame as the core holds it.
#[derive(Debug)]
pub enum Frame<R> {
    /// As it was received.
    One(R),
    /// Made by the core: a packet joined of fragments.
    Joined(Box<[u8]>),
    /// Made by the core: sent to ourselves, so there is nothing in it to be checked.
    Looped(Box<[u8]>),
}

impl<R: RxBytes> RxBytes for Frame<R> {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::One(frame) => frame.bytes(),
            Self::Joined(bytes) | Self::Looped(bytes) => bytes,
        }
    }

    #[inline]
    fn frame_len(&self) -> usize {
        match self {
            Self::One(frame) => frame.frame_len(),
            Self::Joined(bytes) | Self::Looped(bytes) => bytes.len(),
        }
    }

    #[inline]
    fn head(&self) -> [u8; HEAD] {
        match self {
            Self::One(frame) => frame.head(),
            Self::Joined(bytes) | Self::Looped(bytes) => {
                let mut head = [0; HEAD];
                head.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
                head
            }
        }
    }

    fn read(&self, at: usize, out: &mut [u8]) {
        match self {
            Self::One(frame) => frame.read(at, out),
            Self::Joined(bytes) | Self::Looped(bytes) => {
                let bytes = bytes.get(at..).unwrap_or_default();
                out.iter_mut().zip(bytes).for_each(|(out, byte)| *out = *byte);
            }
        }
    }

    fn checksum(&self, range: Range<usize>) -> u16 {
        match self {
            Self::One(frame) => frame.checksum(range),
            Self::Joined(bytes) | Self::Looped(bytes) => {
                checksum::data(bytes.get(range).unwrap_or_default())
            }
        }
    }

    fn offload(&self) -> RxOffload {
        match self {
            Self::One(frame) => frame.offload(),
            Self::Joined(_) => RxOffload::NONE,
            Self::Looped(_) => RxOffload { verified: true, ..RxOffload::NONE },
        }
    }

    fn frames(&self) -> usize {
        match self {
            Self::One(frame) => frame.frames(),
            Self::Joined(_) | Self::Looped(_) => 0,
        }
    }
}

/// A part of a received frame.
#[derive(Debug)]
pub struct RxPiece<R> {
    /// The frame.
    pub frame: R,
    /// Which bytes of it; those past its end are of the payload behind it
    /// ([`RxOffload::behind`]).
    pub range: Range<usize>,
}

impl<R: RxBytes> RxPiece<R> {
    /// The bytes named; empty if the range is not within the frame.
    pub fn bytes(&self) -> &[u8] {
        self.frame.bytes().get(self.range.clone()).unwrap_or_default()
    }
}

/// A part of a chunk that belongs into a frame.
#[derive(Debug)]
pub struct TxPiece<'a, T> {
    /// The chunk.
    pub bytes: &'a T,
    /// Which bytes of it; within the chunk.
    pub range: Range<usize>,
}

impl<T> Clone for TxPiece<'_, T> {
    fn clone(&self) -> Self {
        Self { bytes: self.bytes, range: self.range.clone() }
    }
}

/// All bytes of a frame that [`Egress::emit`] was given, for egresses that copy them.
pub fn gather<T: TxBytes>(head: &[u8], body: &[TxPiece<'_, T>]) -> Vec<u8> {
    let mut frame = Vec::from(head);
    for piece in body {
        let start = frame.len();
        frame.resize(start + piece.range.len(), 0);
        if let Some(place) = frame.get_mut(start..) {
            piece.bytes.copy_to(piece.range.clone(), place);
        }
    }
    frame
}

/// Most pieces that one frame's payload consists of.
pub const MAX_TX_PIECES: usize = 5;

/// The parts of making a frame, and of taking one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessingStage {
    /// TCP chooses the data, and makes its header and checksum.
    Tcp,
    /// The IP header.
    Ip,
    /// The Ethernet header.
    Ethernet,
    /// A frame that came: its Ethernet header.
    EthernetInput,
    /// Its IP header.
    IpInput,
    /// Its TCP header and the changes that it causes. The checksum is included where the device did
    /// not verify it.
    TcpInput,
    /// ESP encrypts a packet.
    EspSeal,
    /// ESP decrypts a packet.
    EspOpen,
}

/// Where frames leave.
pub trait Egress<T> {
    /// The frames from now on are sent by sockets of this owner; the default: by the stack itself.
    fn set_sender(&mut self, _sender: OwnerId) {}

    /// Whether there is room for one more frame of the present sender on an interface.
    fn ready(&mut self, interface: InterfaceId) -> bool;

    /// Sends one frame: first `head` (all headers, and the payload of small answers), then `body`,
    /// of at most [`MAX_TX_PIECES`] pieces. `offload` is left to the interface. It is empty unless
    /// the interface has the [`Features`](crate::Features) for it. Returns whether the frame is
    /// sent: without room, or while not [`ready`](Self::ready), it may be dropped.
    fn emit(
        &mut self,
        interface: InterfaceId,
        head: &[u8],
        body: &[TxPiece<'_, T>],
        offload: TxOffload,
    ) -> bool;

    /// A step of making or handling a frame begins. It is called only while steps are measured
    /// ([`Stack::set_traced`](crate::Stack::set_traced)).
    fn stage(&mut self, _stage: ProcessingStage) {}
}
