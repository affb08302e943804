//! Frames that programs read in place, where the instance shares them (`[memory] share_frames`).
//!
//! A descriptor that names a frame's area lends the frame to a program. The area stays the
//! server's. It goes back to its pool when the program's count has passed the frame's bytes.
//!
//! All programs together hold at most [`abi::nic::PROGRAM_AREAS`] areas, a part of the pool's sum.
//! So a program that keeps frames cannot take the driver's areas. A client gets no more than is
//! left for all others, so one client alone has half. The server copies what is over the quota, as
//! if nothing were shared.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use abi::data::DataFlags;
use abi::nic::PROGRAM_AREAS;
use inet::RxBytes as _;
use shm::AreaName;

use crate::nic::frame::FramePiece;

/// Largest payload that the server copies into an open area instead of lending its frame. A page
/// and a descriptor of its own would cost more.
pub(crate) const SMALL: usize = 256;

/// Counts of areas lent to all clients, and to one.
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

    /// Lends the frame of a piece. Gives the piece back if its bytes are not in a frame of a
    /// device, or if the quota is used up.
    pub(crate) fn lend(&self, piece: FramePiece) -> Result<SharedPiece, FramePiece> {
        let inet::Frame::One(frame) = &piece.frame else { return Err(piece) };
        let Some(region) = DataFlags::of_frame(frame.nic()) else { return Err(piece) };
        let (area, before) = frame.place();
        let range = piece.range.clone();
        let inside = range.start <= range.end && range.end <= frame.frame_len();
        let offset = u32::try_from(before + range.start);
        let (Ok(offset), Ok(len), true) = (offset, u32::try_from(range.len()), inside) else {
            return Err(piece);
        };
        match self.take() {
            Some(token) => Ok(SharedPiece { region, area, offset, len, piece, _token: token }),
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

/// A piece whose frame is lent to a program. Dropping it gives the frame back to the pool.
#[derive(Debug)]
pub(crate) struct SharedPiece {
    /// The frame's region, as flags of a descriptor.
    pub(crate) region: DataFlags,
    pub(crate) area: AreaName,
    /// The payload in the area.
    pub(crate) offset: u32,
    pub(crate) len: u32,
    pub(crate) piece: FramePiece,
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
