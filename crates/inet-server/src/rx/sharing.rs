//! Frames that programs read in place, where the instance shares them (`[memory] share_frames`).
//!
//! A frame is lent to a program by a descriptor that names its page; it stays ours, and goes back
//! to its pool when the program's count has passed its bytes. What programs may have so is bounded
//! by [`abi::nic::PROGRAM_AREAS`] areas together, a part of the pools' sums, so nobody who sits on
//! pages can take the driver's. A client gets no more than is left for all others: one alone has half, and
//! beyond that its bytes are copied as if nothing were shared.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use abi::data::DataFlags;
use abi::nic::PROGRAM_AREAS;
use inet::RxBytes as _;
use shm::AreaName;

use crate::nic::frame::FramePiece;

/// Payloads up to this many bytes are copied where an area is open: a page and a descriptor of
/// their own would cost more.
pub(crate) const SMALL: usize = 256;

/// Pages lent by all clients, and by one.
#[derive(Debug, Clone)]
pub(crate) struct FrameQuota {
    all: Arc<AtomicU32>,
    own: Arc<AtomicU32>,
}

impl FrameQuota {
    /// For the first client of an instance.
    pub(crate) fn new() -> Self {
        Self { all: Arc::default(), own: Arc::default() }
    }

    /// For one more client.
    pub(crate) fn another(&self) -> Self {
        Self { all: Arc::clone(&self.all), own: Arc::default() }
    }

    fn take(&self) -> Option<QuotaToken> {
        let left = PROGRAM_AREAS.saturating_sub(self.all.load(Ordering::Relaxed));
        if self.own.load(Ordering::Relaxed).saturating_add(1) > left {
            return None;
        }
        self.all.fetch_add(1, Ordering::Relaxed);
        self.own.fetch_add(1, Ordering::Relaxed);
        Some(QuotaToken(self.clone()))
    }

    /// Lends the frame of a piece; the piece again if its bytes are not in a frame of a device, or
    /// there are too many lent.
    pub(crate) fn lend(&self, piece: FramePiece) -> Result<SharedPiece, FramePiece> {
        let inet::Frame::One(frame) = &piece.frame else { return Err(piece) };
        let Some(region) = DataFlags::of_frame(frame.nic()) else { return Err(piece) };
        let (area, before) = frame.place();
        let range = piece.range.clone();
        let inside = range.start <= range.end && range.end <= frame.bytes().len();
        let offset = u32::try_from(before + range.start);
        let (Ok(offset), Ok(len), true) = (offset, u32::try_from(range.len()), inside) else {
            return Err(piece);
        };
        match self.take() {
            Some(token) => {
                Ok(SharedPiece { region, area, offset, len, _piece: piece, _token: token })
            }
            None => Err(piece),
        }
    }
}

#[derive(Debug)]
struct QuotaToken(FrameQuota);

impl Drop for QuotaToken {
    fn drop(&mut self) {
        self.0.all.fetch_sub(1, Ordering::Relaxed);
        self.0.own.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A frame that is lent. Dropped, its page is the pool's again.
#[derive(Debug)]
pub(crate) struct SharedPiece {
    /// Which region, as a descriptor's flags say it.
    pub(crate) region: DataFlags,
    pub(crate) area: AreaName,
    /// The payload in the area.
    pub(crate) offset: u32,
    pub(crate) len: u32,
    _piece: FramePiece,
    _token: QuotaToken,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_gets_half_and_two_a_third_each() {
        let first = FrameQuota::new();
        let second = first.another();
        let take = |frame_quota: &FrameQuota| {
            std::iter::from_fn(|| frame_quota.take()).collect::<Vec<QuotaToken>>()
        };
        let of_first = take(&first);
        assert_eq!(of_first.len(), PROGRAM_AREAS as usize / 2);
        let of_second = take(&second);
        assert_eq!(of_second.len(), PROGRAM_AREAS as usize / 4);
        assert!(first.take().is_none() && second.take().is_none());
        drop(of_first);
        assert!(second.take().is_some());
        drop(of_second);
        assert_eq!(first.all.load(Ordering::Relaxed), 0);
        assert_eq!(take(&first.another()).len(), PROGRAM_AREAS as usize / 2);
    }
}
