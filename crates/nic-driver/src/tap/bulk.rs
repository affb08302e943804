//! Frames in bulk over a TAP device without offloads: two queues, one with a kernel thread.
//!
//! The host's kernel receives a frame within the write(2) to the TAP device. Its TCP, and the
//! segments that TCP sends in turn, are done on our processor before the call returns. That happens
//! once for each frame of 1,514 bytes. On a device with IFF_NAPI whose `threaded` is set, write(2)
//! only queues the frame. A thread of the kernel takes up to 64 frames at once, on another
//! processor if one is free. That nearly doubles the throughput of one connection, but a single
//! request arrives later by the wake-up of the thread.
//!
//! So the device has two queues (IFF_NAPI belongs to a queue, not to the device): the first with
//! the thread, the second without. [`QueueChooser`] chooses the queue of each frame. The thread
//! would also join segments before TCP sees them, but without offloads the host's end does not.
//! With offloads there is nothing to gain, since a super-segment is one call.
//!
//! The frames that the host sends take the queues as [`super::steering`] says, as on every device
//! of two queues.
//!
//! Without its thread, IFF_NAPI costs more than it brings. The thread cannot be had where sysfs is
//! not writable or belongs to another network namespace, or on one processor. There no queue has
//! it. The device itself stays: rtnetlink would report a device that came and went meanwhile as
//! lost.

use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::request::{InterfaceRequest, TapError, open_queue, set_number};
use crate::ethtool;

/// Bytes of frames, as the kernel counts them, that may wait for the thread. Some 1,800 frames of
/// 1,514 bytes: a millisecond of its work.
const WAITING: libc::c_int = 4 << 20;

/// Frames of a batch that are sent directly before the others go by the thread.
const DIRECT: u32 = 8;
/// Frames received without a pause after which frames, most of them ACKs, go by the thread.
const RUN: u32 = 16;
/// After a frame had a reason to go by the thread, all frames do so for this time. A frame that is
/// sent directly overtakes those that wait for the thread. TCP takes that for a loss if there are
/// many. The thread may have to wait for a processor, some milliseconds each time.
const HOLD: Duration = Duration::from_millis(20);

/// Is there a processor for the thread? Which of them this process may use does not matter.
pub(super) fn may_help() -> bool {
    // SAFETY: it takes a number and touches no memory of ours.
    let online = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    online > 1
}

/// Adds the queue with the thread, and makes it the first, before the queue `direct`.
///
/// # Errors
/// See [`TapError`]; the device is as it was then.
pub(super) fn open_threaded(name: &str, direct: &OwnedFd) -> Result<OwnedFd, TapError> {
    let failed = |what: &str, errno| TapError::new(format!("{what} of device {name}"), errno);
    let threaded = open_queue(name, |_| libc::IFF_MULTI_QUEUE | libc::IFF_NAPI)?;
    set_threaded(threaded.as_fd(), name)?;
    ethtool::set_gro_off(name).map_err(|errno| failed("turn GRO off", errno))?;
    // A queue with a bound has no short path for frames of less than a page. The bound is set for
    // all attached queues, so the direct queue is detached meanwhile. The queue that stays attached
    // becomes the first.
    set_queue(direct, name, libc::IFF_DETACH_QUEUE)?;
    let bound = set_number(&threaded, libc::TUNSETSNDBUF, WAITING);
    set_queue(direct, name, libc::IFF_ATTACH_QUEUE)?;
    bound.map(|()| threaded).map_err(|errno| failed("set the buffer", errno))
}

/// Takes a queue away from its device, or gives it back.
fn set_queue(queue: &OwnedFd, name: &str, flag: libc::c_int) -> Result<(), TapError> {
    let mut request = InterfaceRequest::new(name)?;
    request.set_flags(flag);
    let done = request.call(queue.as_fd(), libc::TUNSETQUEUE);
    done.map_err(|errno| TapError::new(format!("change the queues of device {name}"), errno))
}

/// Sets `threaded` of a device. That is a file of sysfs, which belongs to a network namespace, so
/// the device there must be the same as ours.
fn set_threaded(fd: BorrowedFd<'_>, name: &str) -> Result<(), TapError> {
    let doing = |what: &str| format!("{what} /sys/class/net/{name}");
    let system = |what: &str, error: &std::io::Error| {
        TapError::new(doing(what), Errno::from_io_error(error).unwrap_or(Errno::IO))
    };
    let mut request = InterfaceRequest::new(name)?;
    let told = request.call(fd, libc::SIOCGIFHWADDR);
    told.map_err(|errno| TapError::new(format!("read the address of {name}"), errno))?;
    let ours: Vec<String> = request.mac().iter().map(|byte| format!("{byte:02x}")).collect();
    let theirs = fs::read_to_string(format!("/sys/class/net/{name}/address"));
    let theirs = theirs.map_err(|error| system("read", &error))?;
    if theirs.trim() != ours.join(":") {
        // Of another network namespace.
        return Err(TapError::System { doing: doing("find it in"), errno: Errno::NODEV });
    }
    let file = format!("/sys/class/net/{name}/threaded");
    fs::write(file, "1").map_err(|error| system("write to threaded of", &error))
}

/// Says by which queue a frame goes.
#[derive(Debug, Default)]
pub(super) struct QueueChooser {
    /// Frames received without a pause, plus those of the batch that is being sent.
    received: u32,
    sent: u32,
    /// All of this batch go by the thread.
    held: bool,
    /// So do those of all batches until then.
    until: Option<Instant>,
    by_thread: u64,
}

impl QueueChooser {
    /// A frame was received.
    pub(super) fn received(&mut self) {
        self.received += 1;
        if self.received >= RUN {
            self.received = 0;
            self.hold();
        }
    }

    /// There was none to be received.
    pub(super) fn pause(&mut self) {
        self.received = 0;
    }

    /// Is the next frame to be sent directly?
    pub(super) fn is_direct(&mut self) -> bool {
        if self.sent == 0 {
            self.held = self.until.is_some_and(|until| Instant::now() < until);
            self.until = self.until.filter(|_| self.held);
        }
        !self.held && self.sent < DIRECT
    }

    /// It was sent.
    pub(super) fn sent(&mut self) {
        self.by_thread += u64::from(self.held || self.sent >= DIRECT);
        self.sent += 1;
    }

    /// All frames of the batch were sent.
    pub(super) fn batch_ends(&mut self) {
        if self.sent > DIRECT {
            self.hold();
        }
        self.sent = 0;
    }

    /// Frames that went by the thread.
    pub(super) fn by_thread(&self) -> u64 {
        self.by_thread
    }

    fn hold(&mut self) {
        self.until = Some(Instant::now() + HOLD);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn send(chooser: &mut QueueChooser, frames: u32) -> u64 {
        let before = chooser.by_thread();
        for _ in 0..frames {
            chooser.is_direct();
            chooser.sent();
        }
        chooser.batch_ends();
        chooser.by_thread() - before
    }

    #[test]
    fn few_frames_go_directly_and_many_by_the_thread() {
        let mut chooser = QueueChooser::default();
        for _ in 0..10 {
            assert_eq!(send(&mut chooser, DIRECT), 0);
        }
        assert_eq!(send(&mut chooser, DIRECT + 5), 5);
        // No frame overtakes those that still wait for the thread.
        chooser.until = Some(Instant::now() + Duration::from_secs(60));
        assert_eq!(send(&mut chooser, 3), 3);
        // The time is over.
        chooser.until = Some(Instant::now());
        assert_eq!(send(&mut chooser, 3), 0);
        assert_eq!(chooser.until, None);
    }

    #[test]
    fn answers_to_many_frames_go_by_the_thread() {
        let mut chooser = QueueChooser::default();
        for _ in 0..10 {
            (1..RUN).for_each(|_| chooser.received());
            chooser.pause();
        }
        assert_eq!(chooser.until, None);
        (0..RUN).for_each(|_| chooser.received());
        assert!(chooser.until.is_some());
    }
}
