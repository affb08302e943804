//! For this crate's tests: a device in memory, and a network namespace of a thread's own.

#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard};

use abi::offload::{Features, RxOffload, TxOffload};
use shm::Region;

use crate::device::{Device, Part, Pending, Placed, Received};

/// Bytes that it leaves free before a frame that it receives in place.
const HEADROOM: usize = 256;

/// The test's view of a [`Fake`].
#[derive(Debug, Default)]
pub(crate) struct Wire {
    /// Frames that the device will receive.
    pub(crate) incoming: VecDeque<Vec<u8>>,
    /// The same, by the queue of unsolicited frames.
    pub(crate) unsolicited: VecDeque<Vec<u8>>,
    /// Frames that it sent.
    pub(crate) sent: Vec<Vec<u8>>,
    /// The offload of each sent frame.
    pub(crate) left: Vec<TxOffload>,
    /// The offload state of the frames that it receives.
    pub(crate) known: RxOffload,
    /// Frames it has room for.
    pub(crate) room: usize,
    /// The error of the next call, once.
    pub(crate) error: Option<i32>,
    /// The error of the first call that finds no frame, once.
    pub(crate) error_after: Option<i32>,
    /// The pool that it receives into in place, and the pages that it has of it.
    pub(crate) pool: Option<(Arc<Region>, usize)>,
    pub(crate) posted: VecDeque<usize>,
    /// What it says of frames that nothing reports.
    pub(crate) pending: Pending,
}

/// A [`Wire`] for device and test; never borrowed twice at a time.
#[derive(Debug, Clone)]
pub(crate) struct SharedWire(Arc<Mutex<Wire>>);

impl SharedWire {
    pub(crate) fn borrow(&self) -> MutexGuard<'_, Wire> {
        self.0.try_lock().expect("one borrower at a time")
    }

    pub(crate) fn borrow_mut(&self) -> MutexGuard<'_, Wire> {
        self.borrow()
    }
}

/// A device whose wire is a pair of queues.
#[derive(Debug)]
pub(crate) struct Fake {
    wire: SharedWire,
    pub(crate) features: Features,
    fd: OwnedFd,
    /// It is written to when the queue of unsolicited frames has some.
    unsolicited: OwnedFd,
}

impl Fake {
    /// A device with room for any number of frames, and its wire.
    pub(crate) fn new() -> (Self, SharedWire) {
        let wire = Wire { room: usize::MAX, ..Wire::default() };
        let wire = SharedWire(Arc::new(Mutex::new(wire)));
        (Self::on(&wire), wire)
    }

    /// Another device on the same wire.
    pub(crate) fn on(wire: &SharedWire) -> Self {
        Self {
            wire: wire.clone(),
            fd: shm::eventfd().expect("an eventfd"),
            unsolicited: shm::eventfd().expect("an eventfd"),
            features: Features::NONE,
        }
    }
}

impl Device for Fake {
    fn features(&self) -> Features {
        self.features
    }

    fn receive(&mut self, into: &mut [u8]) -> io::Result<Option<Received>> {
        let mut wire = self.wire.borrow_mut();
        if let Some(errno) = wire.error.take() {
            return Err(io::Error::from_raw_os_error(errno));
        }
        if wire.incoming.is_empty()
            && let Some(errno) = wire.error_after.take()
        {
            return Err(io::Error::from_raw_os_error(errno));
        }
        let offload = wire.known;
        Ok(wire.incoming.pop_front().map(|frame| {
            into[..frame.len()].copy_from_slice(&frame);
            Received { len: frame.len(), offload }
        }))
    }

    fn receive_unsolicited(&mut self, into: &mut [u8]) -> io::Result<Option<Received>> {
        let frame = self.wire.borrow_mut().unsolicited.pop_front();
        Ok(frame.map(|frame| {
            into[..frame.len()].copy_from_slice(&frame);
            Received::plain(frame.len())
        }))
    }

    fn unsolicited_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.unsolicited.as_fd())
    }

    fn post(&mut self, at: usize) -> bool {
        self.wire.borrow_mut().posted.push_back(at);
        true
    }

    fn receive_posted(&mut self) -> io::Result<Option<Placed>> {
        let mut wire = self.wire.borrow_mut();
        if let Some(errno) = wire.error.take() {
            return Err(io::Error::from_raw_os_error(errno));
        }
        let Some((region, first)) = wire.pool.clone() else { return Ok(None) };
        if wire.posted.is_empty() || wire.incoming.is_empty() {
            return Ok(None);
        }
        let placed = wire.posted.pop_front().zip(wire.incoming.pop_front());
        Ok(placed.map(|(page, frame)| {
            let at = page + HEADROOM;
            // Only if the page exists: the kernel's word is not always believed.
            let _ = region.write(first + at, &frame);
            Placed { at, len: frame.len() }
        }))
    }

    fn look_at(&mut self, _frame: &[u8]) -> RxOffload {
        self.wire.borrow().known
    }

    fn transmit(&mut self, frame: &[Part<'_>], offload: TxOffload) -> io::Result<bool> {
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
        wire.left.push(offload);
        Ok(true)
    }

    fn pending(&self) -> Pending {
        self.wire.borrow().pending
    }

    fn poll_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Says that a test is left out, and why. The test runner would capture what the macros print.
pub(crate) fn skip(why: &str) {
    let _ = io::stderr().write_all(format!("SKIP: {why}\n").as_bytes());
}

/// Moves this thread into a new network namespace, which ends with it; `None` (said aloud) without
/// the right to.
pub(crate) fn isolated() -> Option<()> {
    // SAFETY: of what threads share, only the network namespace is taken apart, and every thread
    // of the tests may have its own.
    let done = unsafe { libc::unshare(libc::CLONE_NEWNET) };
    if done < 0 {
        skip("needs root (CAP_SYS_ADMIN for a network namespace)");
    }
    (done == 0).then_some(())
}

/// `ip WORDS` in this thread's network namespace.
pub(crate) fn ip(words: &str) {
    let run = std::process::Command::new("ip").args(words.split(' ')).output();
    let run = run.expect("ip (iproute2) runs");
    assert!(run.status.success(), "ip {words}: {}", String::from_utf8_lossy(&run.stderr));
}
