//! A bell owner's part in the stack of this process: it works, and sleeps as the poller or not.

use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use abi::Errno;
use rustix::event::{PollFd, PollFlags};
use shm::{Sleep, Sleeper};

use super::server::ServerHandle;
use crate::descriptors::move_high;
use crate::local_stack::{LocalStack, refresh, wait_for_poller};
use crate::wait::Wait;

/// One thread slot's part in the stack of this process.
#[derive(Debug)]
pub(crate) struct LocalStackThread {
    stack: Arc<dyn LocalStack>,
    wakeup: Arc<OwnedFd>,
}

impl LocalStackThread {
    /// For a thread whose bell makes `bell` readable.
    pub(crate) fn new(stack: &Arc<dyn LocalStack>, bell: &OwnedFd) -> Result<Self, Errno> {
        let wakeup = move_high(shm::eventfd().map_err(|_| Errno::NFILE)?);
        stack.watch(bell.as_fd());
        Ok(Self { stack: Arc::clone(stack), wakeup: Arc::new(wakeup) })
    }

    /// The descriptor that wakes it.
    pub(crate) fn wakeup(&self) -> RawFd {
        self.wakeup.as_raw_fd()
    }

    /// Does the stack's work, and sleeps when there is none. Ends when `bell` has rung (it was
    /// announced as [`Sleep::Driving`]), poll(2) reports something for `kernel`, or `wait` is over.
    /// A ring makes `fd` readable.
    ///
    /// # Errors
    /// EINTR, and poll(2)'s own.
    pub(crate) fn until_rung(
        &self,
        server: &ServerHandle,
        bell: &Sleeper,
        fd: &OwnedFd,
        kernel: &mut [PollFd<'_>],
        wait: Wait,
    ) -> Result<(), Errno> {
        let mut is_poller = false;
        let done = loop {
            self.stack.work(&mut || bell.is_rung());
            is_poller = is_poller || self.stack.become_poller(&self.wakeup);
            let look_again = is_poller && !bell.is_rung() && !wait.is_over();
            if look_again && self.stack.spin(&mut || bell.is_rung()) {
                continue;
            }
            if wait.is_over() || self.stack.is_over() || !bell.change(Sleep::Driving, Sleep::Fd) {
                break Ok(());
            }
            server.count_sleep();
            let left = wait.deadline().map(|at| at.saturating_duration_since(Instant::now()));
            let slept = self.sleep(is_poller, fd, kernel, left);
            let rung = !bell.change(Sleep::Fd, Sleep::Driving);
            if rung {
                shm::drain(fd);
            }
            match slept {
                Err(Errno::INTR) if wait == Wait::Forever && self.stack.restarts() => {}
                Err(errno) => break Err(errno),
                Ok(()) if rung || kernel.iter().any(|fd| !fd.revents().is_empty()) => {
                    break Ok(());
                }
                Ok(()) => {}
            }
        };
        self.stack.leave_poller(&self.wakeup);
        done
    }

    fn sleep(
        &self,
        is_poller: bool,
        bell: &OwnedFd,
        kernel: &mut [PollFd<'_>],
        most: Option<Duration>,
    ) -> Result<(), Errno> {
        match (is_poller, kernel.is_empty()) {
            (true, true) => self.stack.wait(most),
            (true, false) => self.stack.wait_with(kernel, most),
            (false, _) => {
                // The bell is read when its word says that it was rung.
                let mut all = Vec::with_capacity(kernel.len() + 1);
                all.push(PollFd::new(bell, PollFlags::IN));
                all.extend(kernel.iter().cloned());
                wait_for_poller(&self.wakeup, &mut all, most)?;
                refresh(kernel, all.get(1..).unwrap_or_default())
            }
        }
    }
}
