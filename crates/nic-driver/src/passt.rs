//! The passt back end: frames over a Unix stream socket.
//!
//! passt(1) is a user-mode network for virtual machines. It speaks Ethernet on one side and uses
//! ordinary sockets of the host on the other, so it needs no right at all. Its framing is QEMU's
//! (`-netdev stream`): before each frame its length, 4 bytes, big-endian.
//!
//! A stream keeps no boundaries, so both directions have a buffer here, which is the device's copy.
//! One read(2) brings many frames, one write(2) takes a batch. A frame of which only a part went
//! out is finished first. An impossible length leaves no way to find the next frame; that, like the
//! stream's end, loses the device.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use abi::offload::{MAX_SUPER_FRAME, TxOffload};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

use crate::device::{Device, Part, Pending, Received, frame_len};

/// Bytes of the length before a frame.
pub const HEADER: usize = 4;
/// Bytes that one read takes at most, and at least as long as the longest frame.
const RX_BUFFER: usize = 128 << 10;
/// Bytes to be sent from which on there is no room.
const TX_BUFFER: usize = 256 << 10;

/// The other end of the stream does not keep to the framing; its fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "passt announced a frame of {len} bytes, and the longest there is has {MAX_SUPER_FRAME}: \
     its stream cannot be read any more"
)]
pub struct BadLength {
    /// The length it announced.
    pub len: u32,
}

/// The stack's end of a stream to passt.
#[derive(Debug)]
pub struct Passt {
    fd: OwnedFd,
    /// Received bytes. Those at `rx_start..rx_end` are not parsed yet.
    rx: Box<[u8]>,
    rx_start: usize,
    rx_end: usize,
    /// Bytes to be sent, of which the first `tx_sent` are.
    tx: Vec<u8>,
    tx_sent: usize,
    reads: u64,
    writes: u64,
}

impl Passt {
    /// A device out of a connected stream socket.
    ///
    /// # Errors
    /// The system's, when the descriptor cannot be made non-blocking.
    pub fn new(fd: OwnedFd) -> io::Result<Self> {
        let flags = rustix::fs::fcntl_getfl(&fd)?;
        rustix::fs::fcntl_setfl(&fd, flags | OFlags::NONBLOCK)?;
        Ok(Self {
            fd,
            rx: vec![0; RX_BUFFER].into_boxed_slice(),
            rx_start: 0,
            rx_end: 0,
            tx: Vec::new(),
            tx_sent: 0,
            reads: 0,
            writes: 0,
        })
    }

    /// Where the next frame is in the buffer, if all of it is there.
    fn next_frame(&self) -> Result<Option<(usize, usize)>, BadLength> {
        let unread = &self.rx[self.rx_start..self.rx_end];
        let Some((head, rest)) = unread.split_first_chunk::<HEADER>() else { return Ok(None) };
        let len = u32::from_be_bytes(*head);
        match usize::try_from(len) {
            Ok(bytes) if bytes <= MAX_SUPER_FRAME => {
                let start = self.rx_start + HEADER;
                Ok((rest.len() >= bytes).then_some((start, start + bytes)))
            }
            _ => Err(BadLength { len }),
        }
    }

    /// Reads more bytes behind the unparsed ones; `false` when there are none now.
    fn fill(&mut self) -> io::Result<bool> {
        // The unparsed bytes are less than a frame, so there is room behind them afterwards.
        self.rx.copy_within(self.rx_start..self.rx_end, 0);
        self.rx_end -= self.rx_start;
        self.rx_start = 0;
        loop {
            let room = &mut self.rx[self.rx_end..];
            match rustix::net::recv(&self.fd, room, RecvFlags::DONTWAIT) {
                Ok((0, _)) => return Err(ended()),
                Ok((count, _)) => {
                    self.reads += 1;
                    self.rx_end += count;
                    return Ok(true);
                }
                Err(Errno::AGAIN) => return Ok(false),
                Err(Errno::INTR) => {}
                Err(Errno::CONNRESET) => return Err(ended()),
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

fn ended() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "passt has ended")
}

impl Device for Passt {
    fn receive(&mut self, into: &mut [u8]) -> io::Result<Option<Received>> {
        loop {
            let next = self.next_frame();
            let next = next.map_err(|bad| io::Error::new(io::ErrorKind::InvalidData, bad))?;
            if let Some((start, end)) = next {
                let frame = &self.rx[start..end];
                let len = frame.len().min(into.len());
                into[..len].copy_from_slice(&frame[..len]);
                self.rx_start = end;
                return Ok(Some(Received::plain(end - start)));
            }
            if !self.fill()? {
                return Ok(None);
            }
        }
    }

    fn transmit(&mut self, frame: &[Part<'_>], _offload: TxOffload) -> io::Result<bool> {
        if self.tx.len() - self.tx_sent >= TX_BUFFER {
            self.flush()?;
            if self.tx.len() - self.tx_sent >= TX_BUFFER {
                return Ok(false);
            }
        }
        let len = u32::try_from(frame_len(frame)).map_err(|_| Errno::MSGSIZE)?;
        self.tx.extend_from_slice(&len.to_be_bytes());
        for part in frame {
            part.append_to(&mut self.tx, usize::MAX);
        }
        Ok(true)
    }

    fn flush(&mut self) -> io::Result<()> {
        while self.tx_sent < self.tx.len() {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match rustix::net::send(&self.fd, &self.tx[self.tx_sent..], flags) {
                Ok(count) => {
                    self.writes += 1;
                    self.tx_sent += count;
                }
                Err(Errno::AGAIN) => {
                    self.tx.drain(..self.tx_sent);
                    self.tx_sent = 0;
                    return Ok(());
                }
                Err(Errno::INTR) => {}
                Err(Errno::PIPE | Errno::CONNRESET) => return Err(ended()),
                Err(errno) => return Err(errno.into()),
            }
        }
        self.tx.clear();
        self.tx_sent = 0;
        Ok(())
    }

    fn poll_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    fn pending(&self) -> Pending {
        // A bad length is pending, too: `receive` reports it.
        let receive = !matches!(self.next_frame(), Ok(None));
        Pending { receive, transmit: !self.tx.is_empty(), later: false }
    }

    fn counters(&self, each: &mut dyn FnMut(&'static str, u64)) {
        each("passt.reads", self.reads);
        each("passt.writes", self.writes);
    }
}

#[cfg(test)]
mod tests;
