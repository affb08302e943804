use std::io::{Read as _, Write as _};
use std::ops::{Deref, DerefMut};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use shm::Backing;

use super::*;

/// An end and the supervisor's half of it, which goes first: it removes the socket's file.
struct TestEnd {
    opener: WireOpener,
    wire: Wire,
}

impl Deref for TestEnd {
    type Target = Wire;

    fn deref(&self) -> &Wire {
        &self.wire
    }
}

impl DerefMut for TestEnd {
    fn deref_mut(&mut self) -> &mut Wire {
        &mut self.wire
    }
}

fn wire_with(path: &Path, mtu: u16) -> TestEnd {
    let (opener, fd) = WireOpener::new(path).unwrap();
    let name = path.display().to_string();
    let mut end = TestEnd { opener, wire: Wire::new(&name, fd, mtu, Features::NONE).unwrap() };
    until(&mut [&mut end], "it has looked", |all| !matches!(all[0].state, State::Looking));
    end
}

fn wire(path: &Path) -> TestEnd {
    wire_with(path, 1500)
}

/// Lets every end do its ready work, as a driver does between sleeps.
fn turn(wires: &mut [&mut TestEnd]) {
    for wire in wires {
        assert!(wire.opener.serve());
        let sleeps = wire.prepare_sleep(true);
        let wait = Timespec { tv_sec: 0, tv_nsec: if sleeps { 1_000_000 } else { 0 } };
        let ready = poll(&mut [PollFd::new(&wire.set, PollFlags::IN)], Some(&wait)).unwrap() > 0;
        wire.awake(ready);
    }
}

fn until(
    wires: &mut [&mut TestEnd],
    what: &str,
    mut done: impl FnMut(&mut [&mut TestEnd]) -> bool,
) {
    let begun = Instant::now();
    while !done(wires) {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}: not within 20 seconds");
        turn(wires);
    }
}

fn all_up(wires: &mut [&mut TestEnd]) -> bool {
    wires.iter().all(|wire| wire.carrier())
}

fn carries(from: &mut Wire, to: &mut Wire) {
    let frame = [5; 100];
    assert!(from.transmit(&[Part::local(&frame)], TxOffload::NONE).unwrap());
    from.flush().unwrap();
    let mut page = [0; 4096];
    assert_eq!(to.receive(&mut page).unwrap(), Some(Received::plain(100)));
    assert_eq!(page[..100], frame);
}

#[test]
fn two_ends_meet_and_meet_again_whoever_goes() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("w");
    let mut a = wire(&path);
    assert!(!a.carrier() && path.exists());
    assert!(a.transmit(&[Part::local(&[5; 60])], TxOffload::NONE).unwrap());
    assert_eq!(a.no_carrier, 1, "dropped and counted");
    let mut b = wire(&path);
    until(&mut [&mut a, &mut b], "they meet", all_up);
    carries(&mut a, &mut b);
    carries(&mut b, &mut a);
    // The connecting end goes, and another comes.
    drop(b);
    until(&mut [&mut a], "its end is noticed", |all| !all[0].carrier());
    let mut b = wire(&path);
    until(&mut [&mut a, &mut b], "they meet again", all_up);
    carries(&mut b, &mut a);
    // The listening end goes: the other takes its place.
    drop(a);
    until(&mut [&mut b], "its end is noticed", |all| !all[0].carrier());
    until(&mut [&mut b], "it listens", |_| path.exists());
    let mut a = wire(&path);
    until(&mut [&mut a, &mut b], "they meet a third time", all_up);
    carries(&mut a, &mut b);
    assert_eq!((b.ups, b.peer_faults), (2, 0));
    drop((a, b));
    assert!(!path.exists());
}

#[test]
fn a_third_end_waits_for_its_turn() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("w");
    let (mut a, mut b, mut c) = (wire(&path), wire(&path), wire(&path));
    until(&mut [&mut a, &mut b], "the first two meet", all_up);
    for _ in 0..5 {
        turn(&mut [&mut a, &mut b, &mut c]);
    }
    assert!(a.carrier() && b.carrier() && !c.carrier());
    drop(b);
    until(&mut [&mut a, &mut c], "the third takes its place", all_up);
    carries(&mut c, &mut a);
}

#[test]
fn ends_that_differ_do_not_come_together() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("w");
    let mut a = wire(&path);
    let mut b = wire_with(&path, 9000);
    let refused = |all: &mut [&mut TestEnd]| all.iter().all(|wire| wire.peer_faults > 0);
    until(&mut [&mut a, &mut b], "both refuse", refused);
    assert!(!a.carrier() && !b.carrier() && a.last_report.contains("9000"), "{}", a.last_report);
}

#[test]
fn nobody_is_waited_for_who_cannot_be_met() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, "precious").unwrap();
    for path in [file.clone(), directory.path().join("none/w")] {
        let wire = wire(&path);
        assert!(
            !wire.carrier() && wire.last_report.contains("cannot meet"),
            "{}",
            wire.last_report
        );
    }
    assert_eq!(std::fs::read(&file).unwrap(), b"precious");
}

/// An end that sends a message that no wire sends.
fn stranger(path: &Path, say: impl Fn(&mut UnixStream)) -> (TestEnd, UnixStream) {
    let mut a = wire(path);
    let mut peer = UnixStream::connect(path).unwrap();
    say(&mut peer);
    until(&mut [&mut a], "it is dropped", |all| {
        matches!(all[0].state, State::Waiting | State::Listening) && all[0].peer_faults > 0
    });
    (a, peer)
}

#[test]
fn whoever_breaks_the_greeting_is_dropped_and_the_next_is_heard() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("w");
    let framed = |body: &[u8]| {
        let mut message = u32::try_from(body.len()).unwrap().to_le_bytes().to_vec();
        message.extend_from_slice(&[0; 4]);
        message.extend_from_slice(body);
        message
    };
    for words in [
        vec![0xff; 300],
        framed(b"not json"),
        framed(br#"{"wire":99,"mtu":1500,"features":0}"#),
        framed(br#"{"wire":1,"mtu":1500,"features":0,"more":"#),
    ] {
        let (mut a, peer) = stranger(&path, |peer| peer.write_all(&words).unwrap());
        drop(peer);
        let mut b = wire(&path);
        until(&mut [&mut a, &mut b], "an honest end is heard", all_up);
    }
    let (_a, mut peer) = stranger(&path, |peer| peer.shutdown(std::net::Shutdown::Write).unwrap());
    let mut rest = Vec::new();
    peer.read_to_end(&mut rest).unwrap();
    assert!(!rest.is_empty(), "it was greeted");
}

/// An honest end, and the resources of a hostile end that has greeted.
fn hostile(path: &Path) -> (TestEnd, UnixStream, Arc<Region>) {
    let mut a = wire(path);
    let peer = UnixStream::connect(path).unwrap();
    let mut line = Channel::from_fd(peer.try_clone().unwrap().into());
    line.post(&serde_json::to_vec(&a.hello).unwrap(), &[]).unwrap();
    until(&mut [&mut a], "it is up", all_up);
    let message = line.recv().unwrap().unwrap();
    (a, peer, link::map(&message.fds[0]).unwrap())
}

#[test]
fn whoever_breaks_a_ring_loses_the_link_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("w");
    let (mut a, peer, region) = hostile(&path);
    // All of the words and rings.
    region.write(0, &vec![0xff; 128 << 10]).unwrap();
    assert_eq!(a.receive(&mut [0; 4096]).unwrap(), None);
    assert!(!a.carrier() && a.peer_faults == 1, "{}", a.last_report);
    drop(peer);
    let mut b = wire(&path);
    until(&mut [&mut a, &mut b], "an honest end is heard", all_up);
    carries(&mut a, &mut b);
}

/// In one thread with the inet server a driver may sleep many times before it looks at its device.
#[test]
fn wakes_that_are_read_late_are_no_fault() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("w");
    let (mut a, mut b) = (wire(&path), wire(&path));
    until(&mut [&mut a, &mut b], "they meet", all_up);
    for _ in 0..200 {
        assert!(a.prepare_sleep(true));
        carries(&mut b, &mut a);
        a.awake(false);
    }
    until(&mut [&mut a], "all are read", |all| {
        poll(&mut [PollFd::new(&all[0].set, PollFlags::IN)], Some(&Timespec::default())).unwrap()
            == 0
    });
    assert!(a.carrier() && a.peer_faults == 0, "{}", a.last_report);
}

#[test]
fn whoever_wakes_without_end_is_dropped() {
    let directory = tempfile::tempdir().unwrap();
    let (mut a, mut peer, _region) = hostile(&directory.path().join("w"));
    peer.write_all(&[0; 1000]).unwrap();
    until(&mut [&mut a], "it is dropped", |all| all[0].peer_faults == 1);
    assert!(!a.carrier());
}

/// What an end does that takes no frames: those that are to be sent may not wait for ever.
#[test]
fn frames_for_an_end_that_takes_none_are_dropped() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("w");
    let (mut a, mut b) = (wire(&path), wire(&path));
    until(&mut [&mut a, &mut b], "they meet", all_up);
    let send = |a: &mut Wire| a.transmit(&[Part::local(&[5; 100])], TxOffload::NONE).unwrap();
    let mut stored = 0;
    while send(&mut a) {
        stored += 1;
    }
    until(&mut [&mut a], "frames are dropped", |all| send(all[0]));
    assert!(a.stalled == 1 && a.carrier(), "{} dropped", a.stalled);
    // Taking some of them is not enough.
    let mut page = [0; 4096];
    for _ in 0..stored / 2 {
        assert!(b.receive(&mut page).unwrap().is_some());
    }
    b.flush().unwrap();
    assert!(b.prepare_sleep(false) && send(&mut a));
    assert_eq!(a.stalled, 2);
    while b.receive(&mut page).unwrap().is_some() {}
    assert!(b.prepare_sleep(false));
    carries(&mut a, &mut b);
    assert_eq!(a.stalled, 2);
}

#[test]
fn a_region_that_is_none_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("w");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let mut b = wire(&path);
    let (peer, _) = listener.accept().unwrap();
    let (_region, short) = Region::create("short", 4096, Backing::Small).unwrap();
    let mut line = Channel::from_fd(peer.into());
    line.post(&serde_json::to_vec(&b.hello).unwrap(), &[short.as_fd()]).unwrap();
    until(&mut [&mut b], "it is refused", |all| all[0].peer_faults == 1);
    assert!(!b.carrier() && b.last_report.contains("4096"), "{}", b.last_report);
}
