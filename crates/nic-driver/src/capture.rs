//! Capture: a device around a device that copies each frame to its readers.
//!
//! A reader gives the driver one end of a SOCK_SEQPACKET pair. For each frame that the stack
//! received or the device took, the driver writes one packet: a [`CaptureHeader`], then the first
//! bytes of the frame. The driver never waits for a reader. It counts the frames that did not fit,
//! and the count goes with the next packet that does. A capture ends when its reader closes its
//! end; the driver sees that at the next frame. There are at most [`MOST_READERS`], so a frame
//! costs at most so many copies.
//!
//! Capture is the outermost wrapper, so it shows the stack's view. It shows frames that a fault
//! wrapper loses on their way out, and does not show frames lost on their way in.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{SystemTime, UNIX_EPOCH};

use abi::control::CaptureHeader;
use abi::offload::{Features, RxOffload, TxOffload};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::SendFlags;

use crate::device::{Device, Part, Pending, Placed, Received, frame_len};

/// Most readers of one device.
const MOST_READERS: usize = 8;

/// The device has as many readers as it may have.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{MOST_READERS} captures run on this interface already: end one of them first")]
pub(crate) struct TooManyReaders;

/// A device whose frames are shown to readers.
#[derive(Debug)]
pub struct CaptureDevice<D> {
    inner: D,
    readers: Vec<CaptureReader>,
    packet: Vec<u8>,
    missed: u64,
}

#[derive(Debug)]
struct CaptureReader {
    socket: OwnedFd,
    snaplen: usize,
    /// Frames that did not fit since the last that did.
    missed: u64,
}

impl CaptureReader {
    /// Has it closed its end?
    fn is_gone(&self) -> bool {
        let mut fds = [PollFd::new(&self.socket, PollFlags::empty())];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        matches!(poll(&mut fds, Some(&now)), Ok(1..))
    }
}

impl<D: Device> CaptureDevice<D> {
    /// The device inside.
    pub(crate) fn inner_mut(&mut self) -> &mut D {
        &mut self.inner
    }

    /// Wraps `inner`, without readers yet.
    pub fn new(inner: D) -> Self {
        Self { inner, readers: Vec::new(), packet: Vec::new(), missed: 0 }
    }

    /// Shows every frame from now on to the reader at the other end of `socket`, `snaplen` bytes of
    /// each.
    ///
    /// # Errors
    /// [`TooManyReaders`]
    pub(crate) fn add_reader(
        &mut self,
        socket: OwnedFd,
        snaplen: u32,
    ) -> Result<(), TooManyReaders> {
        if self.readers.len() >= MOST_READERS {
            self.readers.retain(|reader| !reader.is_gone());
        }
        if self.readers.len() >= MOST_READERS {
            return Err(TooManyReaders);
        }
        let snaplen = usize::try_from(snaplen).unwrap_or(usize::MAX);
        self.readers.push(CaptureReader { socket, snaplen, missed: 0 });
        Ok(())
    }

    #[inline]
    fn show_received(&mut self, received: &io::Result<Option<Received>>, bytes: &[u8]) {
        if self.readers.is_empty() {
            return;
        }
        if let Ok(Some(Received { len, .. })) = received {
            self.show(&[Part::local(bytes.get(..*len).unwrap_or(bytes))], false);
        }
    }

    fn show(&mut self, frame: &[Part<'_>], sent: bool) {
        let Self { readers, packet, missed, .. } = self;
        let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let head = CaptureHeader {
            at: u64::try_from(at.as_nanos()).unwrap_or(u64::MAX),
            len: u32::try_from(frame_len(frame)).unwrap_or(u32::MAX),
            sent,
            missed: 0,
        };
        readers.retain_mut(|reader| {
            let head = CaptureHeader { missed: reader.missed, ..head };
            packet.clear();
            packet.extend_from_slice(&head.encode());
            for part in frame {
                let room = (CaptureHeader::LEN + reader.snaplen).saturating_sub(packet.len());
                part.append_to(packet, room);
            }
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match rustix::net::send(&reader.socket, packet, flags) {
                Ok(_) => reader.missed = 0,
                Err(Errno::AGAIN | Errno::NOBUFS | Errno::INTR | Errno::NOMEM) => {
                    reader.missed += 1;
                    *missed += 1;
                }
                Err(_) => return false,
            }
            true
        });
    }
}

impl<D: Device> Device for CaptureDevice<D> {
    fn features(&self) -> Features {
        self.inner.features()
    }

    fn receive(&mut self, into: &mut [u8]) -> io::Result<Option<Received>> {
        let received = self.inner.receive(into);
        self.show_received(&received, into);
        received
    }

    fn receive_unsolicited(&mut self, into: &mut [u8]) -> io::Result<Option<Received>> {
        let received = self.inner.receive_unsolicited(into);
        self.show_received(&received, into);
        received
    }

    fn unsolicited_fd(&self) -> Option<BorrowedFd<'_>> {
        self.inner.unsolicited_fd()
    }

    fn datagrams_fd(&self) -> Option<BorrowedFd<'_>> {
        self.inner.datagrams_fd()
    }

    fn datagrams_reported(&mut self) {
        self.inner.datagrams_reported();
    }

    fn timer_fd(&self) -> Option<BorrowedFd<'_>> {
        self.inner.timer_fd()
    }

    fn set_crowded(&mut self, crowded: bool) {
        self.inner.set_crowded(crowded);
    }

    fn post(&mut self, at: usize) -> bool {
        self.inner.post(at)
    }

    fn receive_posted(&mut self) -> io::Result<Option<Placed>> {
        self.inner.receive_posted()
    }

    fn look_at(&mut self, frame: &[u8]) -> RxOffload {
        if !self.readers.is_empty() {
            self.show(&[Part::local(frame)], false);
        }
        self.inner.look_at(frame)
    }

    fn transmit(&mut self, frame: &[Part<'_>], offload: TxOffload) -> io::Result<bool> {
        let taken = self.inner.transmit(frame, offload)?;
        if taken && !self.readers.is_empty() {
            self.show(frame, true);
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }

    fn poll_fd(&self) -> BorrowedFd<'_> {
        self.inner.poll_fd()
    }

    fn room_is_readable(&self) -> bool {
        self.inner.room_is_readable()
    }

    fn prepare_sleep(&mut self, receive: bool) -> bool {
        self.inner.prepare_sleep(receive)
    }

    fn awake(&mut self, ready: bool) {
        self.inner.awake(ready);
    }

    fn pending(&self) -> Pending {
        self.inner.pending()
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        each("capture.missed", self.missed);
        self.inner.counters(each);
    }
}

#[cfg(test)]
mod tests;
