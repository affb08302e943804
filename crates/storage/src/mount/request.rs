//! Requests of the kernel that need the disk.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use fuser::{Errno, ReplyData, ReplyEmpty, ReplyWrite};
use tokio::sync::{Semaphore, mpsc};

use crate::disk::{Disk, DiskError};

/// Bytes of requests that are under way.
pub(super) const ROOM: usize = 64 << 20;
/// What a request takes of that at least, and a multiple of.
pub(super) const UNIT: usize = 64 << 10;

/// A request.
#[derive(Debug)]
pub(super) enum FileRequest {
    Read { offset: u64, len: usize, reply: ReplyData },
    Write { offset: u64, bytes: Bytes, durable: bool, reply: ReplyWrite },
    Flush { reply: ReplyEmpty },
    Zero { offset: u64, len: u64, unmap: bool, reply: ReplyEmpty },
}

impl FileRequest {
    /// Units of [`ROOM`].
    fn units(&self) -> u32 {
        let len = match self {
            Self::Read { len, .. } => *len,
            Self::Write { bytes, .. } => bytes.len(),
            Self::Flush { .. } | Self::Zero { .. } => 0,
        };
        u32::try_from(len.clamp(1, ROOM).div_ceil(UNIT)).unwrap_or(1)
    }
}

/// Carries requests out, side by side, until no more come. The units of `room` are back when their
/// requests are answered.
pub(super) async fn serve(
    disk: &Disk,
    requests: &mut mpsc::Receiver<FileRequest>,
    room: &Arc<Semaphore>,
) {
    let failures = Rc::new(Failures::default());
    while let Some(request) = requests.recv().await {
        // It is never closed.
        let units = Arc::clone(room).acquire_many_owned(request.units()).await;
        let (disk, failures) = (disk.clone(), Rc::clone(&failures));
        tokio::task::spawn_local(async move {
            carry_out(&disk, request, &failures).await;
            drop(units);
        });
    }
}

async fn carry_out(disk: &Disk, request: FileRequest, failures: &Failures) {
    match request {
        FileRequest::Read { offset, len, reply } => {
            // As much as there is before the end.
            let len = within(disk, offset, len);
            match disk.read(offset.min(disk.capacity().bytes()), len).await {
                Ok(bytes) => reply.data(&bytes),
                Err(error) => reply.error(failures.tell("read", &error)),
            }
        }
        FileRequest::Write { offset, bytes, durable, reply } => {
            // As a block device: what fits, and ENOSPC at the end.
            let len = within(disk, offset, bytes.len());
            if len == 0 && !bytes.is_empty() {
                return reply.error(Errno::ENOSPC);
            }
            match disk.write(offset, bytes.slice(..len), durable).await {
                Ok(()) => reply.written(u32::try_from(len).unwrap_or(u32::MAX)),
                Err(error) => reply.error(failures.tell("write", &error)),
            }
        }
        FileRequest::Flush { reply } => finish(disk.flush().await, reply, "flush", failures),
        FileRequest::Zero { offset, len, unmap, reply } => {
            finish(disk.zero(offset, len, unmap).await, reply, "make zero", failures);
        }
    }
}

fn finish(result: Result<(), DiskError>, reply: ReplyEmpty, doing: &str, failures: &Failures) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(failures.tell(doing, &error)),
    }
}

/// How many of the bytes are before the end.
fn within(disk: &Disk, offset: u64, len: usize) -> usize {
    let left = disk.capacity().bytes().saturating_sub(offset);
    len.min(usize::try_from(left).unwrap_or(usize::MAX))
}

/// Failures in the log, without repetitions.
#[derive(Debug, Default)]
struct Failures(RefCell<String>);

impl Failures {
    /// The number that the program gets.
    fn tell(&self, doing: &str, error: &DiskError) -> Errno {
        let sentence = format!("cannot {doing}: {error}");
        if *self.0.borrow() != sentence {
            tracing::warn!("{sentence}");
            self.0.replace(sentence);
        }
        Errno::from_i32(error.errno().raw_os_error())
    }
}
