//! A process without a free descriptor still gets its messages. It is the only test of its process.

use std::os::fd::{AsFd, OwnedFd};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tasuki_shm::{Channel, eventfd};

#[test]
fn a_message_without_its_descriptors_says_so() {
    let (mut a, mut b) = Channel::pair().unwrap();
    let fds: Vec<OwnedFd> = (0..3).map(|_| eventfd().unwrap()).collect();
    let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let allow = |current| setrlimit(Resource::Nofile, Rlimit { current, maximum }).unwrap();
    // The lowest number that is free now is the last that may be used.
    let last = std::os::fd::AsRawFd::as_raw_fd(&eventfd().unwrap());
    a.send(b"one", &fds[..1]).unwrap();
    a.send(b"plain", &[]).unwrap();
    a.send(b"three", &fds).unwrap();
    a.send(b"two", &fds[..2]).unwrap();
    a.send(b"after", &[]).unwrap();
    allow(Some(u64::try_from(last).unwrap() + 1));
    let mut got = Vec::new();
    for _ in 0..5 {
        let message = b.recv().unwrap().unwrap();
        got.push((message.body, message.fds.len(), message.lost));
    }
    allow(maximum);
    let expected: [(&[u8], usize, bool); 5] = [
        (b"one", 1, false),
        (b"plain", 0, false),
        (b"three", 1, true),
        (b"two", 1, true),
        (b"after", 0, false),
    ];
    for (got, expected) in got.iter().zip(expected) {
        assert_eq!((&*got.0, got.1, got.2), expected);
    }
    a.send(b"again", &fds).unwrap();
    let message = b.recv().unwrap().unwrap();
    assert_eq!((&*message.body, message.fds.len(), message.lost), (&b"again"[..], 3, false));
}
