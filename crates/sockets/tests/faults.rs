//! An instance that ends, and a server that writes nonsense: typed errors, never a panic, never a
//! hang.

mod common;

use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use abi::call::{PackagedResult, ReplyWords, ReturnPath};
use abi::data::{DataDescriptor, DataFlags};
use abi::{Family, SocketFlags, SocketKind};
use common::{Fake, HANG, connected, small};
use proptest::prelude::*;
use shm::AreaName;
use tasuki_sockets::{
    CallBatch, Client, ConnectError, Errno, RecvFlags, SendFlags, Socket, Wait, Watch, poll,
};

fn recv(socket: &Socket, wait: Wait) -> Result<usize, Errno> {
    let mut buf = [0; 100];
    let bufs = &mut [IoSliceMut::new(&mut buf)];
    socket.recv(bufs, RecvFlags::default(), wait).map(|received| received.len)
}

fn send(socket: &Socket, len: usize, wait: Wait) -> Result<usize, Errno> {
    socket.send(&[IoSlice::new(&vec![1; len])], SendFlags::default(), None, wait)
}

#[test]
fn connecting_to_no_instance_says_what_to_do() {
    let missing = Client::connect("/nonexistent/tasuki.sock".as_ref()).unwrap_err();
    assert!(matches!(missing, ConnectError::Unreachable { .. }));
    let text = missing.to_string();
    assert!(text.contains("/nonexistent/tasuki.sock") && text.contains("tasuki up"), "{text}");
    let error = std::io::Error::from(missing);
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
}

#[test]
fn the_end_of_the_instance_ends_every_wait_and_every_call() {
    let (fake, client) = Fake::with_client(small());
    fake.core().manner.releases = false;
    let (reader, _) = connected(&client);
    let (writer, _) = connected(&client);
    let (watched, _) = connected(&client);
    let (near, _far) = std::os::unix::net::UnixStream::pair().unwrap();
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| recv(&reader, Wait::Forever));
        let writing = scope.spawn(|| send(&writer, 1 << 20, Wait::Forever));
        let waiting = scope.spawn(|| {
            let version = watched.readiness().version;
            let mut kernel = [rustix::event::PollFd::new(&near, rustix::event::PollFlags::IN)];
            let watched = [Watch { socket: &watched, version }];
            client.wait_any(&watched, &mut kernel, None)
        });
        std::thread::sleep(Duration::from_millis(30));
        fake.die();
        waiting.join().unwrap().unwrap();
        assert_eq!(reading.join().unwrap(), Err(Errno::NETDOWN));
        assert_eq!(writing.join().unwrap(), Ok(64 * 1024), "what was sent counts");
    });
    assert!(!client.is_alive());
    assert_eq!(send(&writer, 1, Wait::Forever), Err(Errno::NETDOWN));
    assert_eq!(recv(&reader, Wait::No), Err(Errno::NETDOWN));
    assert_eq!(reader.take_error(), Some(Errno::NETDOWN));
    assert_eq!(client.socket(Family::V4, SocketKind::Stream).unwrap_err(), Errno::NETDOWN);
    assert_eq!(reader.bind("0.0.0.0:1".parse().unwrap()), Err(Errno::NETDOWN));
    let events = reader.readiness().events;
    let all = poll::IN | poll::OUT | poll::ERR | poll::HUP;
    assert_eq!(events & all, all);
    // Waiting for such a socket returns, so that its owner looks.
    let version = reader.readiness().version;
    client.wait_any(&[Watch { socket: &reader, version }], &mut [], None).unwrap();
}

#[test]
fn a_program_that_only_polls_learns_of_the_end_too() {
    let (fake, client) = Fake::with_client(small());
    let (socket, _) = connected(&client);
    assert_eq!(recv(&socket, Wait::No), Err(Errno::AGAIN));
    fake.die();
    let start = Instant::now();
    while recv(&socket, Wait::No) != Err(Errno::NETDOWN) {
        assert!(start.elapsed() < HANG);
    }
}

#[test]
fn goodbye_is_said_once_and_by_the_last_holder() {
    let (fake, client) = Fake::with_client(small());
    let (socket, _) = connected(&client);
    let fds = client.internal_fds();
    assert!(fds.len() >= 4 && fds.iter().all(|&fd| fd >= 500), "{fds:?}");
    assert!(fds.iter().all(|&fd| client.is_internal_fd(fd)) && !client.is_internal_fd(1));
    client.goodbye();
    client.goodbye();
    fake.eventually("Bye", |_| fake.said_bye.load(Ordering::SeqCst));
    assert_eq!(send(&socket, 1, Wait::Forever), Err(Errno::NETDOWN));
    drop((client, socket));

    let (fake, client) = Fake::with_client(small());
    let (socket, _) = connected(&client);
    drop(client);
    assert_eq!(send(&socket, 1, Wait::Forever), Ok(1));
    assert!(!fake.said_bye.load(Ordering::SeqCst));
    drop(socket);
    fake.eventually("Bye", |_| fake.said_bye.load(Ordering::SeqCst));
}

/// A result that no call waits for, or that cannot be: nothing of this server can be believed.
#[test]
fn nonsense_among_the_results_ends_the_membership() {
    let path = ReturnPath { client: 7, ring: 0, tag: 12_345 };
    let unknown = PackagedResult { path, outcome: Ok(ReplyWords::DONE) }.encode();
    let strange = [u64::MAX, 0, 0, 0, 0, 0, 0, 0];
    for slot in [unknown, strange] {
        let (fake, client) = Fake::with_client(small());
        connected(&client).0.close();
        let mut core = fake.core();
        let thread = &mut core.threads[0];
        thread.results.push(&slot).unwrap();
        drop(core);
        assert_eq!(client.socket(Family::V4, SocketKind::Stream).unwrap_err(), Errno::NETDOWN);
        assert!(!client.is_alive());
        assert!(CallBatch::new(&client).is_err());
    }
}

fn garbage(fake: &Fake, index: u16, change: impl Fn(&mut DataDescriptor)) -> [u64; 8] {
    let area = fake.core().rx_pool.alloc(4).unwrap();
    let mut descriptor = DataDescriptor {
        area: area.lend(),
        offset: 0,
        len: 100,
        flags: DataFlags::NONE,
        peer: None,
    };
    change(&mut descriptor);
    let slot = descriptor.encode();
    fake.core().deliver_raw(index, &slot, 100);
    drop(area);
    slot
}

#[test]
fn descriptors_of_bytes_that_do_not_exist_are_errors() {
    let changes: [fn(&mut DataDescriptor); 7] = [
        // The area is freed by the time it is read.
        |_| {},
        |d| d.area.generation += 1,
        |d| d.area.page = u32::MAX,
        |d| d.area = AreaName { page: 3, pages: 0, generation: 0 },
        |d| d.offset = u32::MAX - 50,
        |d| d.len = 16_385,
        |d| d.len = 0,
    ];
    for (n, change) in changes.into_iter().enumerate() {
        let (fake, client) = Fake::with_client(small());
        let (socket, index) = connected(&client);
        garbage(&fake, index, change);
        for _ in 0..2 {
            assert_eq!(recv(&socket, Wait::Forever), Err(Errno::IO), "{n}");
        }
        // Only this socket is concerned.
        let (other, index) = connected(&client);
        fake.core().deliver(index, b"fine");
        assert_eq!(recv(&other, Wait::No), Ok(4));
    }
}

#[test]
fn promises_that_are_not_kept_take_no_core_and_end() {
    let (fake, client) = Fake::with_client(small());
    let (socket, index) = connected(&client);
    fake.core().sock(index).words.rx_bytes.store(5, Ordering::SeqCst);
    let start = Instant::now();
    let wait = Wait::Until(start + Duration::from_millis(100));
    assert_eq!(recv(&socket, wait), Err(Errno::AGAIN));
    assert!(start.elapsed() < HANG);
}

#[test]
fn released_bytes_that_were_never_sent_are_an_error() {
    let (fake, client) = Fake::with_client(small());
    let (socket, index) = connected(&client);
    fake.core().sock(index).words.tx_released.store(1000, Ordering::SeqCst);
    assert_eq!(send(&socket, 10, Wait::Forever), Err(Errno::IO));
}

#[test]
fn a_move_that_does_not_end_is_an_error() {
    let (fake, client) = Fake::with_client(small());
    let (socket, index) = connected(&client);
    let flags = SocketFlags::CONNECTED | SocketFlags::SHARED | SocketFlags::MOVING;
    fake.core().sock(index).words.flags.store(flags.bits(), Ordering::SeqCst);
    assert_eq!(send(&socket, 10, Wait::No), Err(Errno::IO));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Whatever stands in a socket's words and queues, operations end, with some value or error.
    #[test]
    fn nothing_a_server_writes_makes_an_operation_panic_or_hang(
        words in proptest::collection::vec(any::<u64>(), 12),
        slots in proptest::collection::vec(any::<[u64; 8]>(), 1..5),
        datagram in any::<bool>(),
    ) {
        let (fake, client) = Fake::with_client(small());
        let kind = if datagram { SocketKind::Datagram } else { SocketKind::Stream };
        let socket = client.socket(Family::V4, kind).unwrap();
        let region = Arc::clone(&fake.core().region);
        {
            let mut core = fake.core();
            core.manner.takes = false;
            for slot in &slots {
                core.deliver_raw(0, slot, 1);
            }
            let sock = core.sock(0).words.clone();
            // The test above has that one, which takes its time.
            let flags = words[0] as u32 & !SocketFlags::MOVING.bits();
            sock.flags.store(flags, Ordering::SeqCst);
            sock.error.store(words[1] as u32, Ordering::SeqCst);
            sock.accept_ready.store(words[2] as u32, Ordering::SeqCst);
            sock.rx_bytes.store(words[3], Ordering::SeqCst);
            sock.tx_released.store(words[4], Ordering::SeqCst);
            sock.tx_limit.store(words[5], Ordering::SeqCst);
            // The indices of both queues that the server writes.
            let (tx, rx) = (core.layout.tx_queue(0), core.layout.rx_queue(0));
            if words[6] % 2 == 0 {
                region.word32(tx + 64).unwrap().store(words[7] as u32, Ordering::SeqCst);
                region.word32(rx).unwrap().store(words[8] as u32, Ordering::SeqCst);
            }
        }
        let soon = || Wait::Until(Instant::now() + Duration::from_millis(2));
        for _ in 0..3 {
            let _ = recv(&socket, soon());
            let _ = send(&socket, 30_000, soon());
            let _ = (socket.readiness(), socket.readable_len(), socket.unsent_len());
            let _ = (socket.take_error(), socket.accept(Wait::No).is_ok());
        }
    }
}
