//! The interface of a device: one Ethernet device, frame by frame.
//!
//! A back end ([`crate::tap`]) moves frames between the kernel and memory. Wrappers
//! ([`crate::fault`], [`crate::capture`]) are devices around devices, so every back end has them.
//! No method waits. A device with nothing to give or no room says so, and [`Device::poll_fd`] tells
//! when to come back. A device tells its offloads ([`abi::offload`]) once, by [`Device::features`],
//! and their use with each frame.
//!
//! A frame to send is a list of [`Part`]s. Parts in a client's region are never seen as a Rust
//! slice, since that client may write to them at any time. They are copied out with
//! [`Region::read`] or handed to the kernel as an address.

use std::io;
use std::os::fd::BorrowedFd;

use abi::offload::{Features, RxOffload, TxOffload};
use shm::{OutOfRange, Region};

/// Bytes of an Ethernet header; a frame is never shorter.
pub const ETHERNET_HEADER: usize = 14;
/// Most parts of one frame: the head and each payload piece.
pub const MAX_PARTS: usize = 1 + abi::frame::MAX_PIECES;

/// Some consecutive bytes of a frame to send.
#[derive(Debug, Clone, Copy)]
pub struct Part<'a>(PartMemory<'a>);

#[derive(Debug, Clone, Copy)]
enum PartMemory<'a> {
    Local(&'a [u8]),
    Shared { region: &'a Region, offset: usize, len: usize },
}

impl<'a> Part<'a> {
    /// No bytes.
    pub const EMPTY: Part<'static> = Part(PartMemory::Local(&[]));

    /// Bytes that no other process changes meanwhile.
    #[must_use]
    pub fn local(bytes: &'a [u8]) -> Self {
        Self(PartMemory::Local(bytes))
    }

    /// Bytes `offset..offset + len` of a region that others may write to.
    ///
    /// # Errors
    /// [`OutOfRange`] when they are not all in the region.
    pub fn shared(region: &'a Region, offset: usize, len: usize) -> Result<Self, OutOfRange> {
        region.as_ptr(offset, len)?;
        Ok(Self(PartMemory::Shared { region, offset, len }))
    }

    /// Number of bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        match self.0 {
            PartMemory::Local(bytes) => bytes.len(),
            PartMemory::Shared { len, .. } => len,
        }
    }

    /// No bytes?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies the first `most` bytes (or all, if fewer) to the end of `into`.
    pub fn append_to(&self, into: &mut Vec<u8>, most: usize) {
        let len = self.len().min(most);
        match self.0 {
            PartMemory::Local(bytes) => into.extend_from_slice(&bytes[..len]),
            PartMemory::Shared { region, offset, .. } => {
                let start = into.len();
                into.resize(start + len, 0);
                region
                    .read(offset, &mut into[start..])
                    .expect("a shared part was found to be inside its region when it was made");
            }
        }
    }

    /// Its bytes `from..from + len`, which are inside.
    pub(crate) fn slice(&self, from: usize, len: usize) -> Self {
        Self(match self.0 {
            PartMemory::Local(bytes) => PartMemory::Local(&bytes[from..from + len]),
            PartMemory::Shared { region, offset, len: whole } => {
                assert!(from <= whole && len <= whole - from, "a slice is inside of its part");
                PartMemory::Shared { region, offset: offset + from, len }
            }
        })
    }

    /// The one's complement sum of its bytes (RFC 1071), not inverted. The first byte counts as
    /// being on an even offset.
    pub(crate) fn checksum(&self) -> u16 {
        match self.0 {
            PartMemory::Local(bytes) => shm::checksum(bytes),
            PartMemory::Shared { region, offset, len } => region
                .checksum(offset, len)
                .expect("a shared part was found to be inside its region when it was made"),
        }
    }

    /// Copies all of it to the offset `at` of a region.
    ///
    /// # Errors
    /// [`OutOfRange`] when there is no room for it there.
    pub(crate) fn copy_to(&self, into: &Region, at: usize) -> Result<(), OutOfRange> {
        match self.0 {
            PartMemory::Local(bytes) => into.write(at, bytes),
            PartMemory::Shared { region, offset, len } => region.copy_to(offset, len, into, at),
        }
    }

    /// Its bytes, if no other process can change them. Bytes that another process can change are
    /// not looked at.
    pub(crate) fn head(&self) -> &'a [u8] {
        match self.0 {
            PartMemory::Local(bytes) => bytes,
            PartMemory::Shared { .. } => &[],
        }
    }

    /// First byte's address, for the kernel. The bytes stay mapped for `'a`.
    pub(crate) fn address(&self) -> *const u8 {
        match self.0 {
            PartMemory::Local(bytes) => bytes.as_ptr(),
            PartMemory::Shared { region, offset, len } => region
                .as_ptr(offset, len)
                .expect("a shared part was found to be inside its region when it was made"),
        }
    }
}

/// Bytes of a frame in all its parts.
#[must_use]
pub fn frame_len(parts: &[Part<'_>]) -> usize {
    parts.iter().map(Part::len).sum()
}

/// Work that waits inside a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pending {
    /// `receive` has a frame even if `poll_fd` is not readable.
    pub receive: bool,
    /// Frames that `transmit` took wait for `poll_fd` to be writable.
    pub transmit: bool,
    /// `receive` will have a frame as soon as the inet server has taken some
    /// ([`Device::set_crowded`]).
    pub later: bool,
}

/// A frame that was received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// Its length, bytes. More than there was room for: the rest is lost.
    pub len: usize,
    /// The offload state that the device reports for it.
    pub offload: RxOffload,
}

impl Received {
    /// A frame as it was on the wire.
    #[must_use]
    pub fn plain(len: usize) -> Self {
        Self { len, offload: RxOffload::NONE }
    }
}

/// A frame that was received into a page posted before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placed {
    /// Its first byte, from the first page of the pool.
    pub at: usize,
    /// Its length, bytes.
    pub len: usize,
}

/// An Ethernet device. It may move to another thread, as it does in mode `library`.
pub trait Device: Send {
    /// The offloads of the device; always the same.
    fn features(&self) -> Features {
        Features::NONE
    }

    /// Receives one frame into `into`; `None` when there is none now.
    ///
    /// # Errors
    /// The system's, when the device failed. [`is_lost`] tells whether it failed for good.
    fn receive(&mut self, into: &mut [u8]) -> io::Result<Option<Received>>;

    /// As [`Device::receive`], for the queue of frames that any host can send unasked, such as echo
    /// requests, in a device that has such a queue.
    ///
    /// # Errors
    /// As [`Device::receive`].
    fn receive_unsolicited(&mut self, _into: &mut [u8]) -> io::Result<Option<Received>> {
        Ok(None)
    }

    /// Readable when there may be a frame for [`Device::receive_unsolicited`]; `None` if the device
    /// has no queue for those.
    fn unsolicited_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Edge-triggered: readable when the queue of datagrams has got a frame, in a device where they
    /// have one. [`Device::receive`] serves it, too.
    fn datagrams_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// `datagrams_fd` was readable. Until that queue is empty, [`Device::pending`] says so.
    fn datagrams_reported(&mut self) {}

    /// Edge-triggered: readable when the time of a frame within the device has come; `None` if it
    /// has no timer. [`Device::receive`] then serves both directions.
    fn timer_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// The inet server has many frames to take already, or not (again): datagrams may wait for it
    /// while segments come as well.
    fn set_crowded(&mut self, _crowded: bool) {}

    /// Gives the device an empty page to receive into; `at` is the page's offset from the pool's
    /// first. The device may write there until it reports a frame in the page, or is dropped. Only
    /// for a device with [`Features::RX_IN_PLACE`]; such a device receives nothing by
    /// [`Device::receive`]. `false`: no room, the device does not have the page.
    fn post(&mut self, _at: usize) -> bool {
        false
    }

    /// A frame in a page that was posted. The page is the caller's again. `None`: there is no frame
    /// now.
    ///
    /// # Errors
    /// As [`Device::receive`].
    fn receive_posted(&mut self) -> io::Result<Option<Placed>> {
        Ok(None)
    }

    /// The offload state of such a frame. Called once for each, with its bytes.
    fn look_at(&mut self, _frame: &[u8]) -> RxOffload {
        RxOffload::NONE
    }

    /// Sends one frame and leaves `offload` to the device. When this returns, the frame's memory is
    /// needed no more, though the frame itself may wait for [`Device::flush`]. `false`: there was
    /// no room and nothing was done. Offer the frame again when `poll_fd` is writable.
    ///
    /// # Errors
    /// The system's: the frame was refused or the device failed. [`is_lost`] tells whether it
    /// failed for good.
    fn transmit(&mut self, frame: &[Part<'_>], offload: TxOffload) -> io::Result<bool>;

    /// Sends the frames that `transmit` took: the end of a batch.
    ///
    /// # Errors
    /// The system's. [`is_lost`] tells whether the device failed for good.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Readable when there may be a frame, writable (or, if [`Device::room_is_readable`], also
    /// readable) when there may be room.
    fn poll_fd(&self) -> BorrowedFd<'_>;

    /// Does `poll_fd` become readable, rather than writable, when there is room again?
    fn room_is_readable(&self) -> bool {
        false
    }

    /// This thread is about to wait for `poll_fd`, with `receive` also for frames. `false`: there
    /// is something to do already.
    fn prepare_sleep(&mut self, _receive: bool) -> bool {
        true
    }

    /// The wait is over, or [`Device::prepare_sleep`] was not followed by one. `ready`: `poll_fd`
    /// was ready.
    fn awake(&mut self, _ready: bool) {}

    /// Work that waits inside the device and that `poll_fd` does not report.
    fn pending(&self) -> Pending {
        Pending::default()
    }

    /// Calls `each` with every counter of this device and of those inside.
    fn counters(&self, _each: &mut dyn FnMut(&'static str, u64)) {}
}

impl<D: Device + ?Sized> Device for Box<D> {
    fn features(&self) -> Features {
        (**self).features()
    }

    fn receive(&mut self, into: &mut [u8]) -> io::Result<Option<Received>> {
        (**self).receive(into)
    }

    fn receive_unsolicited(&mut self, into: &mut [u8]) -> io::Result<Option<Received>> {
        (**self).receive_unsolicited(into)
    }

    fn unsolicited_fd(&self) -> Option<BorrowedFd<'_>> {
        (**self).unsolicited_fd()
    }

    fn datagrams_fd(&self) -> Option<BorrowedFd<'_>> {
        (**self).datagrams_fd()
    }

    fn datagrams_reported(&mut self) {
        (**self).datagrams_reported();
    }

    fn timer_fd(&self) -> Option<BorrowedFd<'_>> {
        (**self).timer_fd()
    }

    fn set_crowded(&mut self, crowded: bool) {
        (**self).set_crowded(crowded);
    }

    fn post(&mut self, at: usize) -> bool {
        (**self).post(at)
    }

    fn receive_posted(&mut self) -> io::Result<Option<Placed>> {
        (**self).receive_posted()
    }

    fn look_at(&mut self, frame: &[u8]) -> RxOffload {
        (**self).look_at(frame)
    }

    fn transmit(&mut self, frame: &[Part<'_>], offload: TxOffload) -> io::Result<bool> {
        (**self).transmit(frame, offload)
    }

    fn flush(&mut self) -> io::Result<()> {
        (**self).flush()
    }

    fn poll_fd(&self) -> BorrowedFd<'_> {
        (**self).poll_fd()
    }

    fn room_is_readable(&self) -> bool {
        (**self).room_is_readable()
    }

    fn prepare_sleep(&mut self, receive: bool) -> bool {
        (**self).prepare_sleep(receive)
    }

    fn awake(&mut self, ready: bool) {
        (**self).awake(ready);
    }

    fn pending(&self) -> Pending {
        (**self).pending()
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        (**self).counters(each);
    }
}

/// Does this error mean that the device is gone, rather than that it is down or dislikes a frame?
#[must_use]
pub fn is_lost(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, UnexpectedEof};
    let stream = matches!(error.kind(), InvalidData | UnexpectedEof);
    let system = matches!(
        error.raw_os_error(),
        Some(libc::EBADFD | libc::EBADF | libc::ENODEV | libc::ENXIO | libc::ENOTCONN)
    );
    stream || system
}
