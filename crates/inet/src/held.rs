//! The count of received frames that the core holds, and of bytes in frames of its own.
//!
//! A held frame (out of order, or not yet fetched by its owner) carries a token. The number of
//! tokens is exactly the number of held frames, wherever in the core they are dropped. Received
//! frames are scarce and are counted one by one. Frames that the core made itself
//! ([`Frame::Joined`], [`Frame::Looped`]) may be long and are counted in bytes.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::bytes::{Frame, RxBytes, RxPiece};

/// Times the free room that a connection's out-of-order frames may take: one alone gets 16/17.
const CONNECTION_SHARE: usize = 16;
/// The same for all connections of an owner. It is more, so that an owner with one greedy
/// connection has room for others.
const OWNER_SHARE: usize = 32;
/// The same for data of an owner's connections that are not accepted.
const UNACCEPTED_SHARE: usize = 16;

/// The purpose of a held frame. A purpose that can wait leaves room to those that cannot, so no
/// peer keeps frames from all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HoldPurpose {
    /// Data of a connection, in order. The owner takes it at once.
    InOrder,
    /// A datagram. The owner takes it at once, too.
    Datagram,
    /// An out-of-order segment or a fragment.
    OutOfOrder,
    /// Data of a connection that the owner has not accepted yet. It may never accept it.
    Unaccepted,
}

impl HoldPurpose {
    /// The part of all frames up to which a frame is held for this purpose.
    fn limit(self, all: usize) -> usize {
        match self {
            Self::InOrder => all,
            Self::Datagram | Self::OutOfOrder => all - all / 4,
            Self::Unaccepted => all / 2,
        }
    }
}

/// The count of one stack, and its bounds.
#[derive(Debug)]
pub(crate) struct HeldFrames {
    count: Arc<HeldCount>,
    limit: usize,
    bytes: Arc<HeldCount>,
    most_bytes: usize,
    /// Frames that there was no room for.
    refused: u64,
}

/// A received frame that counts.
#[derive(Debug)]
pub(crate) struct HeldFrame<R> {
    frame: Frame<R>,
    _token: FrameToken,
}

/// A count of frames or bytes, which may be a part of another one.
#[derive(Debug, Default)]
struct HeldCount {
    count: AtomicUsize,
    part_of: Option<Arc<HeldCount>>,
}

impl HeldCount {
    fn part_of(all: &Arc<Self>) -> Arc<Self> {
        Arc::new(Self { count: AtomicUsize::new(0), part_of: Some(Arc::clone(all)) })
    }

    fn get(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }
}

#[derive(Debug)]
struct FrameToken(Arc<HeldCount>, usize);

impl FrameToken {
    #[inline]
    fn new(count: &Arc<HeldCount>, more: usize) -> Self {
        count.count.fetch_add(more, Ordering::Relaxed);
        if let Some(all) = &count.part_of {
            all.count.fetch_add(more, Ordering::Relaxed);
        }
        Self(Arc::clone(count), more)
    }
}

impl Drop for FrameToken {
    #[inline]
    fn drop(&mut self) {
        self.0.count.fetch_sub(self.1, Ordering::Relaxed);
        if let Some(all) = &self.0.part_of {
            all.count.fetch_sub(self.1, Ordering::Relaxed);
        }
    }
}

/// How much data of connections that are not accepted is held for one owner. A frame counts until
/// the owner has taken it.
#[derive(Debug)]
pub(crate) struct UnacceptedUse {
    frames: Arc<HeldCount>,
    bytes: Arc<HeldCount>,
}

/// How much all connections of one owner hold out of order. Frames in order do not count, so they
/// cost nothing here.
#[derive(Debug, Clone, Default)]
pub(crate) struct OutOfOrderUse(Arc<OutOfOrderCounts>);

#[derive(Debug, Default)]
struct OutOfOrderCounts {
    frames: AtomicUsize,
    /// Bytes of frames that the core made itself.
    bytes: AtomicUsize,
}

/// A frame out of order that counts for an owner.
#[derive(Debug)]
pub(crate) struct OutOfOrderToken {
    of_owner: OutOfOrderUse,
    frames: usize,
    bytes: usize,
}

impl OutOfOrderUse {
    /// Counts a frame while the token lives.
    pub(crate) fn count<R: RxBytes>(&self, frame: &R) -> OutOfOrderToken {
        let frames = frame.frames();
        let bytes = if frames == 0 { frame.frame_len() } else { 0 };
        self.0.frames.fetch_add(frames, Ordering::Relaxed);
        self.0.bytes.fetch_add(bytes, Ordering::Relaxed);
        OutOfOrderToken { of_owner: self.clone(), frames, bytes }
    }
}

impl Drop for OutOfOrderToken {
    fn drop(&mut self) {
        self.of_owner.0.frames.fetch_sub(self.frames, Ordering::Relaxed);
        self.of_owner.0.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl HeldFrames {
    /// At most `limit` received frames, and `bytes` in frames of our own.
    pub(crate) fn new(limit: usize, bytes: usize) -> Self {
        Self { count: Arc::default(), limit, bytes: Arc::default(), most_bytes: bytes, refused: 0 }
    }

    pub(crate) fn hold<R: RxBytes>(&self, frame: Frame<R>) -> HeldFrame<R> {
        hold_by((&self.count, &self.bytes), frame)
    }

    /// Holds data of a connection that is not accepted.
    pub(crate) fn hold_unaccepted<R: RxBytes>(
        &self,
        frame: Frame<R>,
        of_owner: Option<&UnacceptedUse>,
    ) -> HeldFrame<R> {
        let counts = of_owner.map(|of_owner| (&of_owner.frames, &of_owner.bytes));
        hold_by(counts.unwrap_or((&self.count, &self.bytes)), frame)
    }

    /// The count of an owner.
    pub(crate) fn unaccepted_use(&self) -> UnacceptedUse {
        UnacceptedUse {
            frames: HeldCount::part_of(&self.count),
            bytes: HeldCount::part_of(&self.bytes),
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.count.get()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.get()
    }

    /// A frame was dropped for want of room here.
    pub(crate) fn count_refused(&mut self) {
        self.refused += 1;
    }

    /// Frames dropped for want of room here.
    pub(crate) fn refused(&self) -> u64 {
        self.refused
    }

    /// Whether `frame` may be held for this purpose.
    pub(crate) fn has_room<R: RxBytes>(&self, frame: &Frame<R>, purpose: HoldPurpose) -> bool {
        self.room(frame, purpose) > 0
    }

    /// Whether a connection that holds `own` frames out of order may hold `frame`, too. The free
    /// frames decide its share. One connection with losses gets nearly all, and several get equal
    /// parts. So do the owners of connections, however many connections one of them has. `of_owner`
    /// counts the frames of all connections of the owner.
    pub(crate) fn has_fair_room<R: RxBytes>(
        &self,
        frame: &Frame<R>,
        own: usize,
        of_owner: Option<&OutOfOrderUse>,
    ) -> bool {
        let room = self.room(frame, HoldPurpose::OutOfOrder);
        let (own, of_owner) = match frame {
            Frame::One(frame) => {
                let count =
                    of_owner.map_or(0, |of_owner| of_owner.0.frames.load(Ordering::Relaxed));
                (own.saturating_mul(frame.frames()), count)
            }
            // These count in bytes, at their own length.
            Frame::Joined(bytes) | Frame::Looped(bytes) => {
                let count = of_owner.map_or(0, |of_owner| of_owner.0.bytes.load(Ordering::Relaxed));
                (own.saturating_mul(bytes.len()), count)
            }
        };
        room > 0
            && own <= room.saturating_mul(CONNECTION_SHARE)
            && of_owner <= room.saturating_mul(OWNER_SHARE)
    }

    /// Whether `frame` may be held for a connection that is not accepted: within half of all, and
    /// within the owner's share of that half.
    pub(crate) fn has_unaccepted_room<R: RxBytes>(
        &self,
        frame: &Frame<R>,
        of_owner: Option<&UnacceptedUse>,
    ) -> bool {
        let room = self.room(frame, HoldPurpose::Unaccepted);
        let own = of_owner.map_or(0, |of_owner| match frame {
            Frame::One(_) => of_owner.frames.get(),
            Frame::Joined(_) | Frame::Looped(_) => of_owner.bytes.get(),
        });
        own < room.saturating_mul(UNACCEPTED_SHARE)
    }

    fn room<R: RxBytes>(&self, frame: &Frame<R>, purpose: HoldPurpose) -> usize {
        let (held, limit) = match frame {
            // There must be room for all of it.
            Frame::One(frame) => (self.count() + frame.frames().max(1) - 1, self.limit),
            Frame::Joined(_) | Frame::Looped(_) => (self.bytes(), self.most_bytes),
        };
        purpose.limit(limit).saturating_sub(held)
    }
}

impl<R: RxBytes> RxBytes for HeldFrame<R> {
    fn bytes(&self) -> &[u8] {
        self.frame.bytes()
    }

    fn frame_len(&self) -> usize {
        self.frame.frame_len()
    }

    fn read(&self, at: usize, out: &mut [u8]) {
        self.frame.read(at, out);
    }

    fn checksum(&self, range: core::ops::Range<usize>) -> u16 {
        self.frame.checksum(range)
    }

    fn frames(&self) -> usize {
        self.frame.frames()
    }
}

/// Holds a frame by the count of frames or of bytes.
#[inline]
fn hold_by<R: RxBytes>(
    (frames, bytes): (&Arc<HeldCount>, &Arc<HeldCount>),
    frame: Frame<R>,
) -> HeldFrame<R> {
    let token = match &frame {
        Frame::One(frame) => FrameToken::new(frames, frame.frames()),
        Frame::Joined(own) | Frame::Looped(own) => FrameToken::new(bytes, own.len()),
    };
    HeldFrame { frame, _token: token }
}

/// Gives the piece to its owner, and ends its count.
pub(crate) fn release<R>(piece: RxPiece<HeldFrame<R>>) -> RxPiece<Frame<R>> {
    RxPiece { frame: piece.frame.frame, range: piece.range }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    struct One;

    impl RxBytes for One {
        fn bytes(&self) -> &[u8] {
            &[]
        }
    }

    #[test]
    fn one_connection_does_not_take_all() {
        let held = HeldFrames::new(4096, 0);
        let frame = || Frame::One(One);
        let keep = |own: &mut Vec<HeldFrame<One>>| {
            let room = held.has_fair_room(&frame(), own.len(), None);
            if room {
                own.push(held.hold(frame()));
            }
            room
        };
        let (mut greedy, mut honest) = (Vec::new(), Vec::new());
        while keep(&mut greedy) {}
        // A window of 4 MiB in segments of 1,460 bytes.
        assert!((2873..3000).contains(&greedy.len()), "{}", greedy.len());
        while keep(&mut honest) {}
        assert!(honest.len() > 100, "{}", honest.len());
        assert!(!keep(&mut greedy));
        // In order, there is always room.
        assert!(held.has_room(&frame(), HoldPurpose::InOrder));
        drop(greedy);
        while keep(&mut honest) {}
        assert!(honest.len() > 2873);
    }
}
