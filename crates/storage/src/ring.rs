//! io_uring for the back ends: operations on files as futures.
//!
//! An operation puts its entry into the submission queue and wakes the task of [`Ring::run`]. That
//! task runs after the others that are ready, so their operations enter the kernel with one system
//! call. An eventfd tells it of completions.
//!
//! Reads, and writes of what had to be copied together, use memory that is registered with the
//! ring while a part of it is free: pinning pages for each operation costs more than all else in a
//! read of 1 MiB. The kernel gets it before the first operation, as the ring's restrictions forbid
//! it later.
//!
//! The ring owns the memory and the file of each operation until the kernel has finished it, also
//! when the future is dropped. The kernel writes into no memory that somebody else has.
//!
//! ```text
//!   read() ──▶ submission queue ──┐             ┌──▶ completion queue ──▶ the future's result
//!     └─ memory, file ──▶ table   │ run: enter  │ eventfd                  and its memory back
//!                                 └──▶ kernel ──┘
//! ```

#![allow(unsafe_code)]

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use io_uring::register::Restriction;
use io_uring::squeue::Entry;
use io_uring::{IoUring, Submitter, opcode, types};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use slab::Slab;
use tokio::io::unix::AsyncFd;
use tokio::sync::{Notify, oneshot};
use tokio::time::sleep;

use crate::memory::{AlignedMemory, aligned};
use crate::registered::RegisteredMemory;

/// Entries of the submission queue. More operations wait for the next turn of the task.
const ENTRIES: u32 = 256;
/// The operations that the kernel takes, and no others for the ring's whole life.
const OPERATIONS: [u8; 6] = [
    opcode::Read::CODE,
    opcode::ReadFixed::CODE,
    opcode::Write::CODE,
    opcode::WriteFixed::CODE,
    opcode::Fsync::CODE,
    opcode::Fallocate::CODE,
];
/// Bytes of registered memory: the first number that the kernel takes. A user without rights may
/// lock 8 MiB by default, rings and other targets included.
const REGISTERED: [usize; 4] = [8 << 20, 4 << 20, 2 << 20, 1 << 20];
/// Its number in the kernel's table.
const BUFFER: u16 = 0;
/// The pause after which a submission is tried again that the kernel could not take.
const SUBMIT_AGAIN: Duration = Duration::from_millis(1);

/// An io_uring and the operations that are under way in it.
#[derive(Debug)]
pub(crate) struct Ring {
    inner: RefCell<Inner>,
    completed: AsyncFd<OwnedFd>,
    submitted: Notify,
    memory: Arc<RegisteredMemory>,
}

struct Inner {
    uring: IoUring,
    operations: Slab<Operation>,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inner").field("operations", &self.operations.len()).finish_non_exhaustive()
    }
}

/// What the kernel may use until the operation is over.
#[derive(Debug)]
enum Held {
    Nothing,
    Memory(AlignedMemory),
    Bytes(#[expect(dead_code, reason = "it is only kept")] Bytes),
}

#[derive(Debug)]
struct Operation {
    held: Held,
    _file: Rc<OwnedFd>,
    done: oneshot::Sender<(io::Result<u32>, Held)>,
}

impl Ring {
    /// Makes one, within a tokio runtime.
    ///
    /// # Errors
    /// The system's: ENOSYS or EPERM where io_uring is not allowed, EINVAL before Linux 5.10.
    pub(crate) fn new() -> io::Result<Rc<Self>> {
        let uring = IoUring::builder().setup_r_disabled().build(ENTRIES)?;
        let event = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        let submitter = uring.submitter();
        submitter.register_eventfd(event.as_raw_fd())?;
        // No filter of system calls sees what a ring does: without this it could open and connect.
        let memory = registered_with(&submitter);
        submitter.register_restrictions(&mut OPERATIONS.map(Restriction::sqe_op))?;
        submitter.register_enable_rings()?;
        let inner = RefCell::new(Inner { uring, operations: Slab::new() });
        #[expect(deprecated, reason = "what replaces it is unsafe; an owned descriptor stays open")]
        let completed = AsyncFd::with_interest(event, tokio::io::Interest::READABLE)?;
        Ok(Rc::new(Self { inner, completed, submitted: Notify::new(), memory }))
    }

    /// Submits operations and takes completions, for ever.
    ///
    /// # Errors
    /// The system's: no operation completes after that.
    pub(crate) async fn run(&self) -> io::Result<()> {
        loop {
            tokio::select! {
                () = self.submitted.notified() => {
                    if !self.inner.borrow_mut().submit()? {
                        self.submitted.notify_one();
                        sleep(SUBMIT_AGAIN).await;
                    }
                }
                ready = self.completed.readable() => {
                    let mut guard = ready?;
                    let mut count = [0; 8];
                    if rustix::io::read(&self.completed, &mut count).is_err() {
                        guard.clear_ready();
                    }
                }
            }
            self.inner.borrow_mut().complete();
        }
    }

    /// Reads `len` bytes from `offset`: fewer only at the file's end. The memory has nothing else.
    pub(crate) async fn read(
        &self,
        file: &Rc<OwnedFd>,
        offset: u64,
        len: usize,
    ) -> io::Result<AlignedMemory> {
        let mut memory = AlignedMemory::registered(&self.memory, len);
        let most = u32::try_from(len).unwrap_or(u32::MAX);
        let (fd, to) = (types::Fd(file.as_raw_fd()), memory.as_mut_ptr());
        let entry = match self.memory.has(to.addr(), len) {
            true => opcode::ReadFixed::new(fd, to, most, BUFFER).offset(offset).build(),
            false => opcode::Read::new(fd, to, most).offset(offset).build(),
        };
        match self.operate(file, entry, Held::Memory(memory)).await {
            (Ok(read), Held::Memory(mut memory)) => {
                memory.set_filled(read as usize);
                Ok(memory)
            }
            (result, _) => Err(result.err().unwrap_or_else(ended)),
        }
    }

    /// The pieces as one, where they can be written from without a copy.
    pub(crate) fn aligned(&self, pieces: &[Bytes]) -> Bytes {
        aligned(pieces, &self.memory)
    }

    /// Writes the bytes at `offset`. Gives how many were written. `durable`: they are on stable
    /// storage then (RWF_DSYNC).
    pub(crate) async fn write(
        &self,
        file: &Rc<OwnedFd>,
        offset: u64,
        bytes: Bytes,
        durable: bool,
    ) -> io::Result<u32> {
        let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let fd = types::Fd(file.as_raw_fd());
        let flags = if durable { rustix::io::ReadWriteFlags::DSYNC.bits() } else { 0 };
        let (from, flags) = (bytes.as_ptr(), flags.cast_signed());
        let entry = match self.memory.has(from.addr(), bytes.len()) {
            true => {
                let entry = opcode::WriteFixed::new(fd, from, len, BUFFER);
                entry.offset(offset).rw_flags(flags).build()
            }
            false => opcode::Write::new(fd, from, len).offset(offset).rw_flags(flags).build(),
        };
        self.operate(file, entry, Held::Bytes(bytes)).await.0
    }

    /// fdatasync(2).
    pub(crate) async fn flush(&self, file: &Rc<OwnedFd>) -> io::Result<()> {
        let fd = types::Fd(file.as_raw_fd());
        let entry = opcode::Fsync::new(fd).flags(types::FsyncFlags::DATASYNC).build();
        self.operate(file, entry, Held::Nothing).await.0.map(drop)
    }

    /// fallocate(2).
    pub(crate) async fn allocate(
        &self,
        file: &Rc<OwnedFd>,
        mode: rustix::fs::FallocateFlags,
        offset: u64,
        len: u64,
    ) -> io::Result<()> {
        let fd = types::Fd(file.as_raw_fd());
        let entry = opcode::Fallocate::new(fd, len);
        let entry = entry.offset(offset).mode(mode.bits().cast_signed()).build();
        self.operate(file, entry, Held::Nothing).await.0.map(drop)
    }

    async fn operate(
        &self,
        file: &Rc<OwnedFd>,
        entry: Entry,
        held: Held,
    ) -> (io::Result<u32>, Held) {
        let (done, result) = oneshot::channel();
        let operation = Operation { held, _file: Rc::clone(file), done };
        let begun = self.inner.borrow_mut().begin(entry, operation);
        if let Err((error, held)) = begun {
            return (Err(error), held);
        }
        self.submitted.notify_one();
        result.await.unwrap_or_else(|_| (Err(ended()), Held::Nothing))
    }
}

/// Memory that the kernel keeps pinned. It has no bytes if this user may lock no more memory.
fn registered_with(submitter: &Submitter<'_>) -> Arc<RegisteredMemory> {
    for len in REGISTERED {
        let memory = RegisteredMemory::new(len);
        let iov_base = std::ptr::with_exposed_provenance_mut(memory.start());
        let buffer = libc::iovec { iov_base, iov_len: memory.len() };
        // SAFETY: the range is mapped now, which is when the kernel pins its pages. It uses them
        // for entries that name parts of it only, and the table of operations holds those parts.
        match unsafe { submitter.register_buffers(&[buffer]) } {
            Ok(()) => return memory,
            Err(error) => tracing::debug!(%error, len, "io_uring does not register memory"),
        }
    }
    tracing::info!("io_uring has no registered memory; see `ulimit -l`");
    RegisteredMemory::new(0)
}

fn is_for_now(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    matches!(errno, Some(Errno::INTR | Errno::AGAIN | Errno::BUSY))
}

fn ended() -> io::Error {
    io::Error::other("the ring has ended")
}

impl Inner {
    fn begin(&mut self, entry: Entry, operation: Operation) -> Result<(), (io::Error, Held)> {
        if self.uring.submission().is_full()
            && let Err(error) = self.submit()
        {
            return Err((error, operation.held));
        }
        let key = self.operations.insert(operation);
        let entry = entry.user_data(key as u64);
        // SAFETY: the entry's pointer leads into memory that the table holds until the completion
        // with this key. The memory does not move when its owner does.
        let pushed = unsafe { self.uring.submission().push(&entry) };
        if pushed.is_err() {
            let operation = self.operations.remove(key);
            return Err((io::ErrorKind::WouldBlock.into(), operation.held));
        }
        Ok(())
    }

    /// Enters the kernel. `false`: the kernel is short of memory, or completions wait to be taken.
    fn submit(&self) -> io::Result<bool> {
        match self.uring.submit() {
            Ok(_) => Ok(true),
            Err(error) if is_for_now(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn complete(&mut self) {
        let Self { uring, operations } = self;
        for entry in uring.completion() {
            let Ok(key) = usize::try_from(entry.user_data()) else { continue };
            let Some(Operation { held, done, .. }) = operations.try_remove(key) else { continue };
            let result = u32::try_from(entry.result())
                .map_err(|_| io::Error::from_raw_os_error(-entry.result()));
            // A task that was ended does not want it: the memory is free again.
            let _ = done.send((result, held));
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // The kernel may write into the memory of operations until they are over.
        while !self.operations.is_empty() {
            if self.uring.submit_and_wait(1).is_err_and(|error| !is_for_now(&error)) {
                std::mem::forget(std::mem::take(&mut self.operations));
            }
            self.complete();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn registered_memory_is_used_while_there_is_some() {
        let ring = Ring::new().unwrap();
        if ring.memory.len() == 0 {
            crate::testing::skip("this user may lock no more memory (RLIMIT_MEMLOCK)");
            return;
        }
        let file = Rc::new(OwnedFd::from(tempfile::tempfile().unwrap()));
        let part = |number: u8| Bytes::from(vec![number; PART]);
        const PART: usize = 1_000_000;
        let fit = ring.memory.len() / PART.next_multiple_of(4096);
        let is_registered = |bytes: &Bytes| ring.memory.has(bytes.as_ptr().addr(), bytes.len());
        let use_it = async {
            for number in 0..12 {
                let offset = u64::from(number) * PART as u64;
                let bytes = ring.aligned(&[part(number).slice(..5), part(number).slice(5..)]);
                assert!(is_registered(&bytes));
                let written = ring.write(&file, offset, bytes, number == 3).await.unwrap();
                assert_eq!(written as usize, PART);
            }
            let mut all = Vec::new();
            for number in 0..12 {
                let offset = u64::from(number) * PART as u64;
                all.push(ring.read(&file, offset, PART).await.unwrap().into_bytes());
                assert_eq!(is_registered(&all[usize::from(number)]), usize::from(number) < fit);
                assert!(all[usize::from(number)] == part(number));
            }
            // At the end of the file there is less to be read than asked for.
            all.clear();
            let last = ring.read(&file, 11_999_999, PART).await.unwrap().into_bytes();
            assert!(is_registered(&last) && last == [11].as_slice());
        };
        tokio::select! {
            ended = ring.run() => panic!("the ring ended: {ended:?}"),
            () = use_it => {}
        }
    }

    #[tokio::test]
    async fn a_ring_takes_no_other_operation() {
        let ring = Ring::new().unwrap();
        let file = Rc::new(OwnedFd::from(tempfile::tempfile().unwrap()));
        let open =
            opcode::OpenAt::new(types::Fd(rustix::fs::CWD.as_raw_fd()), c"/etc/passwd".as_ptr())
                .build();
        for entry in [open, opcode::Nop::new().build(), opcode::Close::new(types::Fd(0)).build()] {
            let refused = async { ring.operate(&file, entry, Held::Nothing).await.0.unwrap_err() };
            let refused = tokio::select! {
                ended = ring.run() => panic!("the ring ended: {ended:?}"),
                refused = refused => refused,
            };
            assert_eq!(Errno::from_io_error(&refused), Some(Errno::ACCESS));
        }
    }
}
