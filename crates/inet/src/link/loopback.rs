//! The loopback interface: packets to 127/8, ::1 and our own addresses, and copies of those to
//! groups and broadcast addresses that a socket here listens to.
//!
//! A frame that is sent here is copied once, with its payload, and waits in a queue;
//! [`Stack::poll`] takes it out and handles it like one that came in. So nothing recurses, and two
//! connections that answer each other take turns with all others. A socket that sends to ourselves
//! asks for room first. Answers without a socket are dropped if there is none.
//!
//! [`Stack::poll`]: crate::Stack::poll

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::bytes::{TxBytes, TxPiece};
use crate::interface_id::InterfaceId;

/// Most packets handled in one [`Stack::poll`](crate::Stack::poll).
pub(crate) const MOST_FRAMES_AT_ONCE: usize = 1024;

/// The queue.
#[derive(Debug)]
pub(crate) struct Loopback {
    frames: VecDeque<(InterfaceId, Box<[u8]>)>,
    bytes: usize,
    most_frames: usize,
    most_bytes: usize,
}

impl Loopback {
    pub(crate) fn new(most_frames: usize, most_bytes: usize) -> Self {
        Self { frames: VecDeque::new(), bytes: 0, most_frames, most_bytes }
    }

    /// Whether there is room for one more frame.
    pub(crate) fn has_room(&self) -> bool {
        self.frames.len() < self.most_frames && self.bytes < self.most_bytes
    }

    pub(crate) fn len(&self) -> usize {
        self.frames.len()
    }

    /// Queues a frame that is to be received as if from `interface`. Gives the number of payload
    /// bytes that were copied.
    pub(crate) fn push<T: TxBytes>(
        &mut self,
        interface: InterfaceId,
        head: &[u8],
        body: &[TxPiece<'_, T>],
    ) -> usize {
        let payload: usize = body.iter().map(|piece| piece.range.len()).sum();
        let mut frame = Vec::with_capacity(head.len() + payload);
        frame.extend_from_slice(head);
        for piece in body {
            let start = frame.len();
            frame.resize(start + piece.range.len(), 0);
            if let Some(place) = frame.get_mut(start..) {
                piece.bytes.copy_to(piece.range.clone(), place);
            }
        }
        self.bytes += frame.len();
        self.frames.push_back((interface, frame.into_boxed_slice()));
        payload
    }

    pub(crate) fn pop(&mut self) -> Option<(InterfaceId, Box<[u8]>)> {
        let (interface, frame) = self.frames.pop_front()?;
        self.bytes -= frame.len();
        Some((interface, frame))
    }
}
