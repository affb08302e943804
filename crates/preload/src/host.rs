//! Mode `library`: the stack inside this program.
//!
//! The instance hands over the servers' ends of its connections, with the waiting messages that say
//! how the servers are set up. So the stack is made of the very parts that are processes of their
//! own in the other modes. Threads of the program do its work whenever they want something of it
//! ([`sockets::local_stack`]), under one lock, and with no system calls but those on the device.
//!
//! A thread that waits longer does so as the *poller* ([`poller`]): on the epoll set that would
//! wake a server. A thread of our own, the *helper*, becomes the poller when no call has been made
//! for some milliseconds. So timers run and frames are answered while the program computes or
//! sleeps elsewhere. The helper leaves as soon as a thread of the program wants to poll.
//!
//! A forked child has no stack (`fork` closes its copies of our descriptors). The program's end is
//! the stack's: bytes of sockets that were closed in order are still sent, for up to 5 s.

#![allow(unsafe_code)]

mod alarm;
mod helper;
mod poller;
mod stack;

use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use abi::companion::Companion;
use inet_server::{ControlActivity, EventLoop};
use nic_driver::Driver;
use shm::Channel;
use sockets::local_stack::LocalStack;

use self::stack::ProgramStack;
use crate::handlers;

/// The stack of this process: null, or from `Arc::into_raw` and never given back.
static HOST: AtomicPtr<ProgramStack> = AtomicPtr::new(null_mut());

/// Makes the stack out of the servers' ends of the instance's connections. The runtime calls it at
/// most once.
pub(crate) fn start(connections: Vec<OwnedFd>) -> Result<Arc<dyn LocalStack>, String> {
    shm::descriptors::keep_from(shm::descriptors::library_floor());
    let mut connections =
        connections.into_iter().map(|connection| Channel::from_fd(connection).keeping());
    let inet = connections.next().ok_or("the instance sent no connections")?;
    let mut drivers: Vec<Box<dyn Companion>> = Vec::new();
    for connection in connections {
        let driver = Driver::from_channel(connection).map_err(|error| error.to_string())?;
        drivers.push(Box::new(driver));
    }
    let mut stack = EventLoop::new(inet, drivers).map_err(|error| error.to_string())?;
    // The program's next calls must find the addresses of its interfaces usable.
    if stack.settle().map_err(|error| error.to_string())? == ControlActivity::Shutdown {
        return Err("the instance has just ended".to_owned());
    }
    let host = ProgramStack::new(stack).map_err(|error| error.to_string())?;
    let host = Arc::new(host);
    HOST.store(Arc::into_raw(Arc::clone(&host)).cast_mut(), Ordering::Release);
    handlers::run_at_once(true);
    helper::start(Arc::clone(&host)).map_err(|error| error.to_string())?;
    Ok(host)
}

/// Is the stack in this process?
pub(crate) fn has_stack() -> bool {
    !HOST.load(Ordering::Relaxed).is_null()
}

/// In a forked child: the stack is the parent's. Closes the child's copies of its descriptors, so
/// that the parent's end is noticed.
pub(crate) fn forget() {
    if HOST.swap(null_mut(), Ordering::AcqRel).is_null() {
        return;
    }
    handlers::run_at_once(false);
    stack::leave();
    for fd in shm::descriptors::kept() {
        shm::descriptors::forget(fd);
        // SAFETY: no pointers; the value that owns it in this process is never dropped.
        unsafe { crate::real::close(fd) };
    }
    shm::descriptors::keep_from(0);
}

/// Is it the stack that closes this descriptor, which is its own?
pub(crate) fn is_closing(fd: i32) -> bool {
    stack::is_inside() && shm::descriptors::forget(fd)
}
