//! Standard error for messages, without ever waiting for its reader.
//!
//! Servers and supervisor write messages to a terminal or a pipe that they share with a program.
//! The program can stop the terminal (`tcflow`), and a reader may leave a pipe full. A write that
//! waits would then stop the instance for as long as they choose. So a message without room is
//! lost. The next one that has room is preceded by the number of those.

use std::io::{self, IoSlice, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ReadWriteFlags, pwritev2};

/// Messages that found no room since the last one that did.
static LOST: AtomicU64 = AtomicU64::new(0);

/// Writes whole messages to `fd`, which nobody need be reading.
#[derive(Debug)]
pub(super) struct IfReady<F> {
    fd: F,
    lost: &'static AtomicU64,
}

/// The writer of this process's messages.
pub(super) fn stderr() -> IfReady<io::Stderr> {
    IfReady { fd: io::stderr(), lost: &LOST }
}

impl<F: AsFd> IfReady<F> {
    /// Writes as much of `bytes` as there is room for.
    fn write_now(&self, bytes: &[u8]) -> Result<usize, Errno> {
        let now = pwritev2(&self.fd, &[IoSlice::new(bytes)], u64::MAX, ReadWriteFlags::NOWAIT);
        match now {
            // Terminals and some files cannot say so. A file always has room.
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {
                let mut room = [PollFd::new(&self.fd, PollFlags::OUT)];
                let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
                match poll(&mut room, Some(&at_once))? {
                    0 => Err(Errno::AGAIN),
                    _ => rustix::io::write(&self.fd, bytes),
                }
            }
            done => done,
        }
    }
}

impl<F: AsFd> Write for IfReady<F> {
    /// Takes all of `bytes`, which is one message: what finds no room is lost.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let lost = self.lost.swap(0, Ordering::Relaxed);
        let note = match lost {
            0 => String::new(),
            _ => format!("({lost} messages found no room here and are lost)\n"),
        };
        let message = [note.as_bytes(), bytes].concat();
        match self.write_now(&message) {
            Ok(_) => {}
            Err(Errno::AGAIN | Errno::INTR) => {
                let _ = self.lost.fetch_add(lost + 1, Ordering::Relaxed);
            }
            Err(errno) => return Err(errno.into()),
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn a_full_pipe_loses_messages_and_later_says_how_many() {
        static LOST: AtomicU64 = AtomicU64::new(0);
        let (mut reader, writer) = io::pipe().unwrap();
        let mut writer = IfReady { fd: writer, lost: &LOST };
        // More than any pipe holds by default; without the bound this would not end.
        for _ in 0..1000 {
            writer.write_all(&[b'x'; 1000]).unwrap();
        }
        let lost = LOST.load(Ordering::Relaxed);
        assert!((1..1000).contains(&lost), "{lost}");
        let mut room = vec![0; 64 << 10];
        let _ = reader.read(&mut room).unwrap();
        writer.write_all(b"at last\n").unwrap();
        drop(writer);
        let mut rest = String::new();
        let _ = reader.read_to_string(&mut rest).unwrap();
        let end = format!("({lost} messages found no room here and are lost)\nat last\n");
        assert!(rest.ends_with(&end), "{}", &rest[rest.len().saturating_sub(100)..]);
    }

    #[test]
    fn a_file_takes_all() {
        static LOST: AtomicU64 = AtomicU64::new(0);
        let mut file = tempfile::tempfile().unwrap();
        for _ in 0..100 {
            IfReady { fd: &file, lost: &LOST }.write_all(&[b'x'; 1000]).unwrap();
        }
        std::io::Seek::rewind(&mut file).unwrap();
        let mut text = String::new();
        assert_eq!(file.read_to_string(&mut text).unwrap(), 100_000);
    }
}
