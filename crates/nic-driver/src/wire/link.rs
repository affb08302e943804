//! The shared memory of a wire's two ends: one region, a ring and a store of bytes each way.
//!
//! ```text
//! page 0     words of the listening end (offset 0) and of the connecting end (offset 128):
//!            each its bell for frames, 64 bytes on its bell for room
//! then       rings to the connecting and to the listening end, [`RING`] slots each
//! then       stores to the connecting and to the listening end, [`STORE`] bytes each
//! ```
//!
//! The sender copies frames into its store, one after the other and round again. A slot has the
//! place of a frame, its length and its offload. Slots are taken in order, so the sender knows from
//! the ring's index alone which bytes are free again; it keeps the places of its frames to itself.
//! The receiver copies the frame out before it gives the slot back. A sender that still writes
//! there can spoil this frame and nothing else.
//!
//! The other end may be any user's. Slots are allegations. An impossible slot, like an impossible
//! index, ends the link ([`LinkFault`]).

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use abi::offload::{Features, MAX_SUPER_FRAME, RxOffload, TxOffload};
use shm::{
    Backing, Consumer, OutOfRange, Producer, PushError, Region, RingFault, Ringer, Sleep, Sleeper,
};

use crate::device::{Part, Received, frame_len};

/// Slots of each ring.
const RING: u32 = 512;
/// Bytes of frames under way in each direction; small enough to stay in a processor's cache.
const STORE: usize = 1 << 20;
/// Frames begin at multiples of this.
const ALIGN: usize = 64;
/// Frames staged before the other end sees them in mid-batch, so that it works while we go on.
const BATCH: u32 = 16;
/// Frames taken before an end that waits for room hears of it in mid-batch.
const ROOM_EVERY: u32 = 32;

const RING_BYTES: usize = shm::ring_bytes(RING).next_multiple_of(64);
const RINGS_AT: usize = shm::PAGE;
const STORES_AT: usize = (RINGS_AT + 2 * RING_BYTES).next_multiple_of(shm::PAGE);
const LEN: usize = STORES_AT + 2 * STORE;

/// Which end of the wire this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Listening,
    Connecting,
}

impl End {
    fn other(self) -> Self {
        match self {
            Self::Listening => Self::Connecting,
            Self::Connecting => Self::Listening,
        }
    }

    fn index(self) -> usize {
        match self {
            Self::Listening => 0,
            Self::Connecting => 1,
        }
    }

    fn frames_bell(self) -> usize {
        self.index() * 128
    }

    fn room_bell(self) -> usize {
        self.index() * 128 + 64
    }

    /// The ring from which this end receives.
    fn ring(self) -> usize {
        RINGS_AT + (1 - self.index()) * RING_BYTES
    }

    /// The store from which this end receives.
    fn store(self) -> usize {
        STORES_AT + (1 - self.index()) * STORE
    }
}

/// The other end broke the link; its fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum LinkFault {
    /// An index is impossible.
    #[error("it moved a ring index out of bounds: {0}")]
    Ring(#[from] RingFault),
    /// A slot names bytes that cannot be a frame.
    #[error("it named {len} bytes at {offset} as a frame")]
    Frame { offset: u64, len: u64 },
    /// A slot names an offload that this link's features do not allow.
    #[error("it left a frame to us for which this link has no feature ({0:#x})")]
    Offload(u64),
}

/// A new region for a wire.
pub(super) fn create() -> Result<(Arc<Region>, OwnedFd), shm::RegionError> {
    Region::create("tasuki-wire", LEN, Backing::Small)
}

/// Another's region for a wire.
pub(super) fn map(fd: impl AsFd) -> Result<Arc<Region>, shm::RegionError> {
    let region = Region::map(fd.as_fd(), LEN, shm::Access::ReadWrite)?;
    // A hole in huge pages may not be filled again, so the process that made them could kill us.
    if region.backing() == Backing::Huge { Err(shm::RegionError::Unsealed) } else { Ok(region) }
}

/// One end of a link that is up.
#[derive(Debug)]
pub(super) struct Link {
    region: Arc<Region>,
    features: Features,
    rx: Consumer,
    rx_store: usize,
    tx: Producer,
    tx_store: usize,
    /// Where the next frame goes, counting all bytes ever stored.
    next: u64,
    /// Bytes before this one are free again.
    free_to: u64,
    /// Where the frames end that the other end has not taken, oldest first; at most [`RING`].
    ends: VecDeque<u64>,
    /// Frames that were known as taken.
    taken: u64,
    frames: Sleeper,
    room: Sleeper,
    peer_frames: Ringer,
    peer_room: Ringer,
    /// Frames taken since the other end's room bell was rung.
    unrung: u32,
    /// There was no room for a frame.
    blocked: bool,
    /// Announcements of sleep for which the peer has not woken us. It may still do so once for
    /// each, however long the bell was not read.
    announced: u64,
}

impl Link {
    /// This end of the link over a region; `doorbell` wakes the other one.
    pub(super) fn new(
        region: &Arc<Region>,
        end: End,
        features: Features,
        doorbell: (OwnedFd, OwnedFd),
    ) -> Result<Self, OutOfRange> {
        let other = end.other();
        Ok(Self {
            features,
            rx: Consumer::attach(region, end.ring(), RING)?,
            rx_store: end.store(),
            tx: Producer::attach(region, other.ring(), RING)?,
            tx_store: other.store(),
            next: 0,
            free_to: 0,
            ends: VecDeque::new(),
            taken: 0,
            frames: Sleeper::new(region.word32(end.frames_bell())?),
            room: Sleeper::new(region.word32(end.room_bell())?),
            peer_frames: Ringer::for_untrusted(region.word32(other.frames_bell())?, doorbell.0),
            peer_room: Ringer::for_untrusted(region.word32(other.room_bell())?, doorbell.1),
            unrung: 0,
            blocked: false,
            announced: 0,
            region: Arc::clone(region),
        })
    }

    /// Copies the oldest frame into `into`, as much of it as fits.
    pub(super) fn receive(&mut self, into: &mut [u8]) -> Result<Option<Received>, LinkFault> {
        let Some([offset, len, word, ..]) = self.rx.peek()? else {
            self.tell_room();
            return Ok(None);
        };
        let bad = LinkFault::Frame { offset, len };
        let at = usize::try_from(offset).ok().filter(|at| *at < STORE).ok_or(bad)?;
        let len = usize::try_from(len).ok().filter(|len| *len <= MAX_SUPER_FRAME).ok_or(bad)?;
        if len > STORE - at {
            return Err(bad);
        }
        let offload = RxOffload::decode(word).map_err(|_| LinkFault::Offload(word))?;
        let summed = offload.verified || offload.segments.is_some();
        if summed && !self.features.has(Features::RX_CHECKSUM)
            || offload.segments.is_some() && !self.features.has(Features::GRO)
        {
            return Err(LinkFault::Offload(word));
        }
        let copied = len.min(into.len());
        self.region.read(self.rx_store + at, &mut into[..copied]).map_err(|_| bad)?;
        self.rx.advance();
        self.unrung += 1;
        if self.unrung >= ROOM_EVERY {
            self.tell_room();
        }
        Ok(Some(Received { len, offload }))
    }

    fn tell_room(&mut self) {
        if std::mem::take(&mut self.unrung) > 0 {
            let _ = self.peer_room.ring();
        }
    }

    /// Stores a frame; `false` when there is no room.
    pub(super) fn transmit(
        &mut self,
        frame: &[Part<'_>],
        offload: TxOffload,
    ) -> Result<bool, LinkFault> {
        let len = frame_len(frame);
        let Some(start) = self.place(len)? else {
            self.blocked = true;
            return Ok(false);
        };
        let offset = start % STORE as u64;
        let mut at = self.tx_store + usize::try_from(offset).unwrap_or(0);
        for part in frame {
            // The place is inside of the store, and thus of the region.
            let copied = part.copy_to(&self.region, at);
            debug_assert!(copied.is_ok());
            at += part.len();
        }
        let known = RxOffload { verified: offload.checksum.is_some(), segments: offload.segments };
        let slot = [offset, len as u64, known.encode(), 0, 0, 0, 0, 0];
        match self.tx.stage(&slot) {
            Ok(()) => {}
            Err(PushError::Full) => {
                self.blocked = true;
                return Ok(false);
            }
            Err(PushError::Fault(fault)) => return Err(fault.into()),
        }
        self.next = start + len as u64;
        self.ends.push_back(self.next);
        self.blocked = false;
        if self.tx.staged() >= BATCH {
            self.flush();
        }
        Ok(true)
    }

    /// Where a frame of this length goes.
    fn place(&mut self, len: usize) -> Result<Option<u64>, LinkFault> {
        if len > MAX_SUPER_FRAME {
            return Ok(None);
        }
        let (len, store) = (len as u64, STORE as u64);
        let start = self.next.next_multiple_of(ALIGN as u64);
        let left = store - start % store;
        // A frame is in one piece, and the rest at the end of the store may be too short.
        let start = if left < len { start + left } else { start };
        if start + len - self.free_to > store || self.ends.len() >= RING as usize {
            self.reclaim()?;
        }
        Ok((start + len - self.free_to <= store).then_some(start))
    }

    /// Frames stored so far.
    pub(super) fn sent(&self) -> u64 {
        self.taken + self.ends.len() as u64
    }

    /// Frames that the other end has taken so far.
    pub(super) fn taken(&mut self) -> Result<u64, LinkFault> {
        self.reclaim()?;
        Ok(self.taken)
    }

    /// Frames that the other end has not taken.
    pub(super) fn left(&mut self) -> Result<usize, LinkFault> {
        self.reclaim()?;
        Ok(self.ends.len())
    }

    /// Finds out which frames the other end has taken.
    fn reclaim(&mut self) -> Result<(), LinkFault> {
        let consumed = self.tx.consumed()?;
        while self.taken < consumed {
            self.taken += 1;
            // There is one for every frame that was staged.
            self.free_to = self.ends.pop_front().unwrap_or(self.next);
        }
        Ok(())
    }

    /// Publishes the stored frames to the peer, and wakes it if it sleeps.
    pub(super) fn flush(&mut self) {
        if self.tx.staged() > 0 {
            self.tx.publish();
            let _ = self.peer_frames.ring();
        }
    }

    /// The other end woke us so many times; `false` when we never slept as often.
    pub(super) fn woken(&mut self, times: usize) -> bool {
        let left = self.announced.checked_sub(times as u64);
        self.announced = left.unwrap_or(0);
        left.is_some()
    }

    /// Announces sleep; `receive`: frames are waited for. `false`: there is something to do.
    pub(super) fn prepare_sleep(&mut self, receive: bool) -> Result<bool, LinkFault> {
        self.flush();
        self.tell_room();
        if receive {
            self.announced += 1;
            self.frames.announce(Sleep::Fd);
            if !self.rx.is_empty()? {
                return Ok(false);
            }
        }
        if self.blocked {
            self.announced += 1;
            self.room.announce(Sleep::Fd);
            let before = self.taken;
            self.reclaim()?;
            return Ok(self.taken == before);
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests;
