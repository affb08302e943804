//! The relay's end of the TUN device.

use std::io;
use std::os::fd::OwnedFd;

use rustix::io::{read, write};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// virtio's header before each packet: of no interest but for whole super-segments.
const VIRTIO: usize = 10;
/// Longest packet with its header.
pub(crate) const LONGEST: usize = VIRTIO + 65_535 + 40;

/// The device.
pub(crate) struct Tun(AsyncFd<OwnedFd>);

/// A packet as the device gives it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame<'a>(&'a [u8]);

impl<'a> Frame<'a> {
    /// A frame that was kept.
    pub(crate) fn of(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The packet, from its IP header on.
    pub(crate) fn packet(self) -> &'a [u8] {
        self.0.get(VIRTIO..).unwrap_or_default()
    }

    /// With the device's header.
    pub(crate) fn bytes(self) -> &'a [u8] {
        self.0
    }

    /// With the device's header, to be sent back one day.
    pub(crate) fn to_vec(self) -> Vec<u8> {
        self.0.to_vec()
    }
}

impl Tun {
    pub(crate) fn new(fd: OwnedFd) -> io::Result<Self> {
        #[expect(deprecated, reason = "what replaces it is unsafe; an owned descriptor stays open")]
        let device = AsyncFd::with_interest(fd, Interest::READABLE);
        device.map(Self)
    }

    /// Waits until there may be a packet.
    pub(crate) async fn readable(&self) -> io::Result<()> {
        self.0.readable().await?.retain_ready();
        Ok(())
    }

    /// The next packet, if there is one.
    pub(crate) fn read<'a>(&self, into: &'a mut [u8]) -> io::Result<Option<Frame<'a>>> {
        match self.0.try_io(Interest::READABLE, |fd| Ok(read(fd, &mut *into)?)) {
            Ok(len) => Ok(into.get(..len).map(Frame)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Gives a packet back to the kernel as it came: it is then one for this namespace. A packet
    /// that the device does not take is lost, as on any link.
    pub(crate) fn bounce(&self, frame: &[u8]) {
        let _ = write(self.0.get_ref(), frame);
    }

    /// Gives the kernel a packet that the relay has made.
    pub(crate) fn write(&self, packet: &[u8]) {
        let parts = [io::IoSlice::new(&[0; VIRTIO]), io::IoSlice::new(packet)];
        let _ = rustix::io::writev(self.0.get_ref(), &parts);
    }
}
