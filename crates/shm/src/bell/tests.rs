use std::sync::Arc;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, poll};

use super::*;
use crate::{Backing, Consumer, Producer, Region, ring_bytes};

fn bell(region: &Arc<Region>, at: usize) -> (Sleeper, Ringer, OwnedFd) {
    let fd = eventfd().unwrap();
    let word = region.word32(at).unwrap();
    let ringer = Ringer::new(word.clone(), fd.try_clone().unwrap());
    (Sleeper::new(word), ringer, fd)
}

fn region() -> Arc<Region> {
    Region::create("bell-test", 64 << 10, Backing::Small).unwrap().0
}

fn readable(fd: &OwnedFd) -> bool {
    let now = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::new(fd, PollFlags::IN)], Some(&now)).unwrap() == 1
}

#[test]
fn nobody_asleep_costs_no_system_call() {
    let (sleeper, ringer, fd) = bell(&region(), 0);
    assert!(!ringer.ring());
    sleeper.announce(Sleep::Fd);
    sleeper.awake();
    assert!(!ringer.ring());
    assert!(!readable(&fd));
}

#[test]
fn the_eventfd_is_written_once() {
    let (sleeper, ringer, fd) = bell(&region(), 0);
    sleeper.announce(Sleep::Fd);
    assert!(ringer.ring());
    assert!(!ringer.ring(), "the first one woke it");
    assert!(readable(&fd));
    drain(&fd);
    assert!(!readable(&fd));
    drain(&fd);
}

#[test]
fn a_futex_rung_before_sleep_does_not_sleep() {
    let (sleeper, ringer, fd) = bell(&region(), 0);
    sleeper.announce(Sleep::Futex);
    assert!(ringer.ring());
    assert_eq!(sleeper.wait_futex(None), Ok(()));
    assert!(!readable(&fd), "the futex is not the eventfd");
}

#[test]
fn a_futex_sleep_ends_in_time_and_leaves_the_word_awake() {
    let (sleeper, ringer, _fd) = bell(&region(), 0);
    sleeper.announce(Sleep::Futex);
    let start = Instant::now();
    let waited = sleeper.wait_futex(Some(Duration::from_millis(20)));
    assert_eq!(waited, Err(Errno::TIMEDOUT));
    assert!(start.elapsed() >= Duration::from_millis(20));
    assert!(!ringer.ring());
}

#[test]
fn garbage_in_the_word_rings_nothing() {
    let region = region();
    let (_sleeper, ringer, fd) = bell(&region, 0);
    for garbage in [3, 77, u32::MAX] {
        region.word32(0).unwrap().store(garbage, Ordering::Relaxed);
        assert!(!ringer.ring());
    }
    assert!(!readable(&fd));
}

#[test]
fn a_full_eventfd_does_not_block() {
    let (sleeper, ringer, fd) = bell(&region(), 0);
    rustix::io::write(&fd, &(u64::MAX - 1).to_ne_bytes()).unwrap();
    sleeper.announce(Sleep::Fd);
    assert!(ringer.ring());
}

#[test]
fn a_stranger_cannot_make_its_ringer_wait() {
    let word = region().word32(0).unwrap();
    let (ours, theirs) = doorbell().unwrap();
    let (sleeper, ringer) = (Sleeper::new(word.clone()), Ringer::for_untrusted(word, ours));
    rustix::fs::fcntl_setfl(&theirs, rustix::fs::OFlags::RDWR).unwrap();
    // Far more than it holds, and nobody reads.
    for _ in 0..10_000 {
        sleeper.announce(Sleep::Fd);
        assert!(ringer.ring());
    }
    assert!(readable(&theirs));
    drop(theirs);
    sleeper.announce(Sleep::Fd);
    assert!(ringer.ring(), "nor does its end harm us");
}

#[test]
fn a_stranger_cannot_leave_anything_with_its_ringer() {
    let (ours, theirs) = doorbell().unwrap();
    let flags = rustix::net::SendFlags::NOSIGNAL;
    assert_eq!(rustix::net::send(&theirs, b"x", flags), Err(Errno::PIPE));
    let mut space = [core::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = rustix::net::SendAncillaryBuffer::new(&mut space);
    let fds = [theirs.as_fd()];
    assert!(control.push(rustix::net::SendAncillaryMessage::ScmRights(&fds)));
    let data = [io::IoSlice::new(b"x")];
    assert_eq!(rustix::net::sendmsg(&theirs, &data, &mut control, flags), Err(Errno::PIPE));
    rustix::net::send(&ours, b"x", flags).unwrap();
    assert!(readable(&theirs));
}

#[test]
fn a_doorbell_is_heard_until_it_is_drained() {
    let word = region().word32(0).unwrap();
    let (ours, theirs) = doorbell().unwrap();
    let (sleeper, ringer) = (Sleeper::new(word.clone()), Ringer::for_untrusted(word, ours));
    sleeper.announce(Sleep::Fd);
    assert!(ringer.ring());
    assert!(readable(&theirs));
    assert!(drain(&theirs));
    assert!(!readable(&theirs));
    assert!(drain(&theirs));
    drop(ringer);
    assert!(readable(&theirs) && !drain(&theirs), "the other end is gone");
}

#[test]
fn one_that_drives_is_rung_without_a_system_call() {
    let region = region();
    let (sleeper, ringer, fd) = bell(&region, 0);
    sleeper.announce(Sleep::Driving);
    assert!(!sleeper.is_rung());
    assert!(!ringer.ring(), "no system call");
    assert!(sleeper.is_rung());
    assert!(!sleeper.change(Sleep::Driving, Sleep::Fd), "rung before it slept");
    sleeper.announce(Sleep::Driving);
    assert!(sleeper.change(Sleep::Driving, Sleep::Fd));
    assert!(ringer.ring());
    assert!(readable(&fd));
    assert!(!sleeper.change(Sleep::Fd, Sleep::Driving));
}

#[test]
fn completions_wake_only_who_waits_for_them() {
    let (sleeper, ringer, fd) = bell(&region(), 0);
    sleeper.announce(Sleep::FdQuiet);
    assert!(!ringer.ring_completion());
    assert!(!readable(&fd));
    assert!(ringer.ring(), "still asleep");
    assert!(readable(&fd));
    drain(&fd);
    sleeper.announce(Sleep::Fd);
    assert!(ringer.ring_completion());
    assert!(readable(&fd));
}

/// Ping-pong between two threads which sleep each time: with one wake-up lost it would hang.
#[test]
fn ping_pong_sleeping_on_both_sides() {
    const CAPACITY: u32 = 4;
    const ROUNDS: u64 = 2_000;
    let region = region();
    let (there, back) = (128, 128 + ring_bytes(CAPACITY));
    let (sleeper_a, ringer_a, _fd_a) = bell(&region, 0);
    let (sleeper_b, ringer_b, fd_b) = bell(&region, 64);
    let echo = std::thread::spawn({
        let mut rx = Consumer::attach(&region, there, CAPACITY).unwrap();
        let mut tx = Producer::attach(&region, back, CAPACITY).unwrap();
        move || {
            let mut left = ROUNDS;
            while left > 0 {
                while let Some(slot) = rx.pop().unwrap() {
                    tx.push(&slot).unwrap();
                    ringer_a.ring();
                    left -= 1;
                }
                sleeper_b.announce(Sleep::Fd);
                if left > 0 && rx.is_empty().unwrap() {
                    poll(&mut [PollFd::new(&fd_b, PollFlags::IN)], None).unwrap();
                    drain(&fd_b);
                }
                sleeper_b.awake();
            }
        }
    });
    let mut tx = Producer::attach(&region, there, CAPACITY).unwrap();
    let mut rx = Consumer::attach(&region, back, CAPACITY).unwrap();
    for n in 0..ROUNDS {
        tx.push(&[n; 8]).unwrap();
        ringer_b.ring();
        let got = loop {
            if let Some(slot) = rx.pop().unwrap() {
                break slot;
            }
            sleeper_a.announce(Sleep::Futex);
            if rx.is_empty().unwrap() {
                sleeper_a.wait_futex(None).unwrap();
            } else {
                sleeper_a.awake();
            }
        };
        assert_eq!(got, [n; 8]);
    }
    echo.join().unwrap();
}
