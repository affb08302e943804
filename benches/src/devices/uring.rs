//! Batches of reads or writes by io_uring, of one registered descriptor.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use io_uring::squeue::Entry;
use io_uring::{IoUring, opcode, types};

use super::frames::TOGETHER;

/// The registered descriptor.
const FILE: types::Fixed = types::Fixed(0);

/// How a batch is made.
#[derive(Debug, Clone, Copy)]
pub(super) struct Batch {
    /// Frames of one io_uring_enter(2).
    pub(super) together: usize,
    /// Memory is registered, too.
    pub(super) fixed: bool,
    /// IORING_SETUP_SINGLE_ISSUER and IORING_SETUP_DEFER_TASKRUN.
    pub(super) defer: bool,
}

/// A ring that moves frames between a descriptor and memory of its own.
pub(super) struct Ring {
    ring: IoUring,
    batch: Batch,
    /// The memory to write from, then [`TOGETHER`] places to read into.
    memory: Box<[u8]>,
    len: usize,
}

impl Ring {
    /// Of frames like this one.
    pub(super) fn new(fd: &OwnedFd, frame: &[u8], batch: Batch) -> io::Result<Self> {
        let mut builder = IoUring::builder();
        if batch.defer {
            builder.setup_single_issuer().setup_defer_taskrun();
        }
        let ring = builder.build(batch.together as u32)?;
        ring.submitter().register_files(&[fd.as_raw_fd()])?;
        let len = frame.len();
        let mut memory = vec![0; len * (1 + TOGETHER)].into_boxed_slice();
        memory[..len].copy_from_slice(frame);
        if batch.fixed {
            let all = libc::iovec { iov_base: memory.as_mut_ptr().cast(), iov_len: memory.len() };
            // SAFETY: the memory outlives the ring, which is dropped before it. The memory is read
            // only while no operation is on its way.
            unsafe { ring.submitter().register_buffers(&[all]) }?;
        }
        Ok(Self { ring, batch, memory, len })
    }

    /// Writes the frame so many times.
    pub(super) fn write(&mut self, count: usize) -> io::Result<()> {
        let (from, len, fixed) = (self.memory.as_ptr(), self.len as u32, self.batch.fixed);
        self.all(count, |_| match fixed {
            true => opcode::WriteFixed::new(FILE, from, len, 0).build(),
            false => opcode::Write::new(FILE, from, len).build(),
        })
    }

    /// Reads so many frames.
    pub(super) fn read(&mut self, count: usize) -> io::Result<()> {
        let (len, fixed) = (self.len, self.batch.fixed);
        let base = self.memory.as_mut_ptr();
        self.all(count, |number| {
            let into = base.wrapping_add(len * (1 + number % TOGETHER));
            match fixed {
                true => opcode::ReadFixed::new(FILE, into, len as u32, 0).build(),
                false => opcode::Read::new(FILE, into, len as u32).build(),
            }
        })
    }

    fn all(&mut self, count: usize, operation: impl Fn(usize) -> Entry) -> io::Result<()> {
        let mut left = count;
        while left > 0 {
            let batch = left.min(self.batch.together);
            for number in 0..batch {
                let operation = operation(count - left + number);
                // SAFETY: the operation is about `memory`, which outlives the ring, and is over
                // before this function returns.
                let pushed = unsafe { self.ring.submission().push(&operation) };
                pushed.map_err(io::Error::other)?;
            }
            self.ring.submit_and_wait(batch)?;
            for done in self.ring.completion() {
                if done.result() < 0 {
                    return Err(io::Error::from_raw_os_error(-done.result()));
                }
            }
            left -= batch;
        }
        Ok(())
    }
}
