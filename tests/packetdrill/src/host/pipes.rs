//! Pipes, and splice(2) from and to them.

use super::Host;
use super::call::{Outcome, Progress, Stop, fail};
use super::table::{Descriptor, Pipe};

/// Linux's default.
const CAPACITY: usize = 65_536;

impl Host {
    /// pipe(2): the reading and the writing end.
    pub fn pipe(&mut self) -> [i32; 2] {
        let number = self.entries.pipes.len();
        self.entries.pipes.push(Pipe::default());
        [
            self.entries.add(Descriptor::PipeReader(number)),
            self.entries.add(Descriptor::PipeWriter(number)),
        ]
    }

    /// splice(2) between a pipe and a socket: how many bytes were moved.
    ///
    /// # Errors
    /// EBADF, EINVAL (none is a pipe), EPIPE, EAGAIN, and those of the socket's call.
    pub fn splice(
        &mut self,
        from: i32,
        to: i32,
        most: usize,
        flags: u32,
        progress: &mut Progress,
    ) -> Outcome<usize> {
        let dont_wait = if flags & libc::SPLICE_F_NONBLOCK != 0 { libc::MSG_DONTWAIT } else { 0 };
        match (self.entries.get(from), self.entries.get(to)) {
            (Some(Descriptor::Socket(_)), Some(Descriptor::PipeWriter(pipe))) => {
                let pipe = *pipe;
                let room = CAPACITY.saturating_sub(self.entries.pipes[pipe].bytes.len());
                let before_mark = self.before_mark(from)?;
                if before_mark == 0 {
                    return Ok(0);
                }
                let most = most.min(room).min(before_mark);
                let message = self.recv(from, most, dont_wait, progress)?;
                self.entries.pipes[pipe].bytes.extend(&message.bytes);
                Ok(message.bytes.len())
            }
            (Some(Descriptor::PipeReader(pipe)), Some(Descriptor::Socket(_))) => {
                let pipe = *pipe;
                let bytes: Vec<u8> =
                    self.entries.pipes[pipe].bytes.iter().take(most).copied().collect();
                if bytes.is_empty() {
                    let over = self.entries.pipes[pipe].writer_closed;
                    return if over { Ok(0) } else { fail(libc::EAGAIN) };
                }
                let sent = self.send(to, &bytes, None, dont_wait, progress)?;
                self.entries.pipes[pipe].bytes.drain(..sent);
                Ok(sent)
            }
            (None, _) | (_, None) => fail(libc::EBADF),
            _ => fail(libc::EINVAL),
        }
    }

    /// The number of bytes that may be spliced before an urgent byte that was not read yet. The
    /// splice stops there, as on Linux.
    fn before_mark(&mut self, fd: i32) -> Outcome<usize> {
        let read = self.entries.socket(fd)?.read;
        let handle = self.handle(fd)?;
        let mark = self.stack().urgent_mark(handle).and_then(|mark| mark.checked_sub(read));
        Ok(mark.map_or(usize::MAX, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX)))
    }

    /// write(2) to a pipe or a socket.
    ///
    /// # Errors
    /// EBADF, EPIPE, EAGAIN, and those of [`send`](Self::send).
    pub fn write(&mut self, fd: i32, bytes: &[u8], progress: &mut Progress) -> Outcome<usize> {
        let Some(&Descriptor::PipeWriter(pipe)) = self.entries.get(fd) else {
            return self.send(fd, bytes, None, 0, progress);
        };
        let pipe = &mut self.entries.pipes[pipe];
        if pipe.reader_closed {
            return fail(libc::EPIPE);
        }
        let room = CAPACITY.saturating_sub(pipe.bytes.len());
        let taken = bytes.get(..room).unwrap_or(bytes);
        pipe.bytes.extend(taken);
        if taken.is_empty() && !bytes.is_empty() { fail(libc::EAGAIN) } else { Ok(taken.len()) }
    }

    /// read(2) from a pipe or a socket.
    ///
    /// # Errors
    /// EBADF, EAGAIN, and those of [`recv`](Self::recv).
    pub fn read(&mut self, fd: i32, most: usize, progress: &mut Progress) -> Outcome<Vec<u8>> {
        let Some(&Descriptor::PipeReader(pipe)) = self.entries.get(fd) else {
            return self.recv(fd, most, 0, progress).map(|message| message.bytes);
        };
        let pipe = &mut self.entries.pipes[pipe];
        if pipe.bytes.is_empty() {
            return if pipe.writer_closed { Ok(Vec::new()) } else { Err(Stop::Wait(None)) };
        }
        let count = most.min(pipe.bytes.len());
        Ok(pipe.bytes.drain(..count).collect())
    }
}
