//! Files into areas by the kernel itself, and from there to the peer.

use std::io::IoSlice;
use std::os::fd::AsFd;

use abi::Errno;

use super::handle::Socket;
use super::send::SendFlags;
use crate::wait::Wait;

/// Most bytes of a file that are read at a time.
const PART: usize = 256 * 1024;

impl Socket {
    /// Sends `count` bytes of a file from `offset` on, or to its end, on a stream. The kernel reads
    /// them into areas. They are sent from there without a copy in this process.
    ///
    /// Returns how many bytes were sent. That is less than `count` at the file's end, with
    /// [`Wait::No`] when there is no more room, and after an error that came after the first byte.
    ///
    /// # Errors
    /// EINVAL for a datagram socket; pread(2)'s own; otherwise as [`Socket::send_slices`].
    pub fn send_file(
        &self,
        file: impl AsFd,
        offset: u64,
        count: usize,
        wait: Wait,
    ) -> Result<usize, Errno> {
        if !self.core().is_stream() {
            return Err(Errno::INVAL);
        }
        let mut sent = 0;
        while sent < count {
            // After the first bytes any signal ends it, as on Linux.
            let wait = if sent == 0 { wait } else { wait.until_any_signal() };
            let at = offset.checked_add(sent as u64).ok_or(Errno::OVERFLOW);
            let part = at.and_then(|at| self.send_part(&file, at, count - sent, wait));
            match part {
                Ok(0) => break,
                Ok(now) => sent += now,
                Err(errno) if sent == 0 => return Err(errno),
                Err(_) => break,
            }
        }
        Ok(sent)
    }

    /// Sends the next bytes of a file, at most `most`; 0 at its end.
    fn send_part(
        &self,
        file: impl AsFd,
        offset: u64,
        most: usize,
        wait: Wait,
    ) -> Result<usize, Errno> {
        // Before the file is read, which would be for nothing.
        if wait == Wait::No && !self.send_half().has_room(self.core()) {
            return Err(Errno::AGAIN);
        }
        let mut area = match self.membership().alloc(most.min(PART)) {
            Err(Errno::NOBUFS) => return self.send_part_copied(file, offset, most, wait),
            area => area?,
        };
        let read = rustix::io::retry_on_intr(|| rustix::io::pread(&file, &mut area[..], offset))?;
        let Some(slice) = area.freeze().slice(..read).filter(|slice| !slice.is_empty()) else {
            return Ok(0);
        };
        self.send_slices(&[slice], SendFlags::default(), None, wait).map(|_| read)
    }

    /// As [`Socket::send_part`], by a buffer and a copy. The area promised to each socket is enough
    /// for it.
    fn send_part_copied(
        &self,
        file: impl AsFd,
        offset: u64,
        most: usize,
        wait: Wait,
    ) -> Result<usize, Errno> {
        let mut buffer = vec![0; most.min(self.membership().tx.area_len())];
        let read = rustix::io::retry_on_intr(|| rustix::io::pread(&file, &mut buffer[..], offset))?;
        let bytes = buffer.get(..read).filter(|bytes| !bytes.is_empty());
        let Some(bytes) = bytes else { return Ok(0) };
        self.send(&[IoSlice::new(bytes)], SendFlags::default(), None, wait)
    }
}
