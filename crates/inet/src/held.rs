//! How many received frames the core holds.
//!
//! A frame that is kept (out of order, or not yet fetched by its owner) carries a token; the number
//! of tokens is the number of frames held, exactly, wherever in the core they are dropped.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::bytes::{RxBytes, RxPiece};

/// The count of one stack, and its bound.
#[derive(Debug)]
pub(crate) struct HeldFrames {
    count: Arc<AtomicUsize>,
    limit: usize,
}

/// A received frame that counts.
#[derive(Debug)]
pub(crate) struct Held<R> {
    frame: R,
    _token: Token,
}

#[derive(Debug)]
struct Token(Arc<AtomicUsize>);

impl Drop for Token {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl HeldFrames {
    pub(crate) fn new(limit: usize) -> Self {
        Self { count: Arc::default(), limit }
    }

    pub(crate) fn hold<R>(&self, frame: R) -> Held<R> {
        self.count.fetch_add(1, Ordering::Relaxed);
        Held { frame, _token: Token(Arc::clone(&self.count)) }
    }

    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Whether one more frame may be kept. What can wait (out-of-order segments, datagrams) leaves
    /// the last quarter to what cannot.
    pub(crate) fn has_room(&self, can_wait: bool) -> bool {
        let limit = if can_wait { self.limit - self.limit / 4 } else { self.limit };
        self.count() < limit
    }
}

impl<R: RxBytes> RxBytes for Held<R> {
    fn bytes(&self) -> &[u8] {
        self.frame.bytes()
    }
}

/// The piece goes to its owner and does not count any more.
pub(crate) fn release<R>(piece: RxPiece<Held<R>>) -> RxPiece<R> {
    RxPiece { frame: piece.frame.frame, range: piece.range }
}
