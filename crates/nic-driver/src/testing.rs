//! A device in memory, for this crate's tests.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

use abi::offload::TxOffload;

use crate::device::{Device, Part, Received};

/// What the test sees of a [`Fake`].
#[derive(Debug, Default)]
pub(crate) struct Wire {
    /// Frames that the device will receive.
    pub(crate) incoming: VecDeque<Vec<u8>>,
    /// Frames that it sent.
    pub(crate) sent: Vec<Vec<u8>>,
    /// Frames it has room for.
    pub(crate) room: usize,
    /// The error of the next call, once.
    pub(crate) error: Option<i32>,
}

/// A device whose wire is a pair of queues.
#[derive(Debug)]
pub(crate) struct Fake {
    wire: Rc<RefCell<Wire>>,
    fd: OwnedFd,
}

impl Fake {
    /// A device with room for any number of frames, and its wire.
    pub(crate) fn new() -> (Self, Rc<RefCell<Wire>>) {
        let wire = Rc::new(RefCell::new(Wire { room: usize::MAX, ..Wire::default() }));
        let fd = shm::eventfd().expect("an eventfd");
        (Self { wire: Rc::clone(&wire), fd }, wire)
    }
}

impl Device for Fake {
    fn receive(&mut self, into: &mut [u8]) -> io::Result<Option<Received>> {
        let mut wire = self.wire.borrow_mut();
        if let Some(errno) = wire.error.take() {
            return Err(io::Error::from_raw_os_error(errno));
        }
        Ok(wire.incoming.pop_front().map(|frame| {
            into[..frame.len()].copy_from_slice(&frame);
            Received::plain(frame.len())
        }))
    }

    fn transmit(&mut self, frame: &[Part<'_>], _offload: TxOffload) -> io::Result<bool> {
        let mut wire = self.wire.borrow_mut();
        if let Some(errno) = wire.error.take() {
            return Err(io::Error::from_raw_os_error(errno));
        }
        if wire.room == 0 {
            return Ok(false);
        }
        wire.room -= 1;
        let mut bytes = Vec::new();
        for part in frame {
            part.append_to(&mut bytes, usize::MAX);
        }
        wire.sent.push(bytes);
        Ok(true)
    }

    fn poll_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
