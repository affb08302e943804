//! Streams over a fake server: data, waiting, readiness, errors.

mod common;

use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use abi::SocketFlags;
use abi::data::DataFlags;
use common::server::{CONNECTED, OVER};
use common::{Fake, HANG, connected, make_lost_wake_ups_hang, pattern, small};
use tasuki_sockets::{
    Errno, Family, Readiness, RecvFlags, SendFlags, ShutdownHow, Socket, SocketKind, TcpListener,
    TcpStream, Wait, Watch, poll,
};

fn send(socket: &Socket, bytes: &[u8], wait: Wait) -> Result<usize, Errno> {
    socket.send(&[IoSlice::new(bytes)], SendFlags::default(), None, wait)
}

fn recv(socket: &Socket, most: usize, wait: Wait) -> Result<Vec<u8>, Errno> {
    let mut bytes = vec![0; most];
    let bufs = &mut [IoSliceMut::new(&mut bytes)];
    let len = socket.recv(bufs, RecvFlags::default(), wait)?.len;
    bytes.truncate(len);
    Ok(bytes)
}

fn soon() -> Wait {
    Wait::Until(Instant::now() + HANG)
}

#[test]
fn a_megabyte_comes_back_and_no_page_is_lost() {
    let (fake, client) = Fake::with_client(small());
    fake.core().manner.echoes = true;
    let addr = "10.219.0.1:7";
    let stream = TcpStream::connect_via(&client, addr).unwrap();
    let data = pattern(0, 1 << 20);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for chunk in data.chunks(77_777) {
                (&stream).write_all(chunk).unwrap();
            }
        });
        let mut back = vec![0; data.len()];
        (&stream).read_exact(&mut back).unwrap();
        assert!(back == data);
    });
    assert_eq!(stream.peer_addr().unwrap(), addr.replace(":7", ":80").parse().unwrap());
    drop(stream);
    assert_eq!(fake.core().pages_held(), 0);
}

/// The server fills the queue first and counts the bytes afterwards. It may be interrupted between.
#[test]
fn bytes_received_before_they_are_counted_leave_nothing_to_receive() {
    let (fake, client) = Fake::with_client(small());
    let (socket, index) = connected(&client);
    let is_readable = || socket.readiness().events & poll::IN != 0;
    fake.core().deliver(index, b"first");
    assert!(is_readable());
    fake.core().deliver_uncounted(index, b"second");
    assert_eq!(recv(&socket, 100, Wait::No).unwrap(), b"firstsecond");
    assert!(!is_readable());
    assert_eq!(recv(&socket, 100, Wait::No).unwrap_err(), Errno::AGAIN);
    fake.core().show_received(index);
    assert!(!is_readable());
    fake.core().deliver(index, b"third");
    assert!(is_readable());
}

#[test]
fn a_send_that_may_not_wait_stops_at_the_limit() {
    let (fake, client) = Fake::with_client(small());
    fake.core().manner.takes = false;
    let (socket, index) = connected(&client);
    let data = pattern(0, 100_000);
    assert_eq!(send(&socket, &data, Wait::No), Ok(64 * 1024));
    assert_eq!(send(&socket, &data, Wait::No), Err(Errno::AGAIN));
    assert_eq!(socket.unsent_len(), 64 * 1024);
    assert_eq!(socket.readiness().events & poll::OUT, 0);
    let mut core = fake.core();
    assert_eq!(core.take(index, usize::MAX), 4, "one descriptor for each area");
    assert!(core.sock(index).got == data[..64 * 1024]);
    let more = core.sock(index).descriptors.iter().map(|d| d.flags).collect::<Vec<_>>();
    let (more_follows, none) = (DataFlags::MORE, DataFlags::NONE);
    assert_eq!(
        more,
        [more_follows, more_follows, more_follows, none],
        "only the last piece ends a push"
    );
    // A little room: a send takes it, but no thread is woken for it.
    core.release(index, 1000);
    // While this thread has the core, the server's thread releases no more.
    assert_eq!(socket.readiness().events & poll::OUT, 0);
    // The test took the data by itself, so the server's thread may sleep and not know of it.
    core.rouse();
    drop(core);
    fake.eventually("all is released", |core| core.sock(index).released == 64 * 1024);
    assert_ne!(socket.readiness().events & poll::OUT, 0);
    assert_eq!(send(&socket, &data, Wait::No), Ok(64 * 1024));
}

#[test]
fn a_send_that_waits_sends_everything_to_a_slow_server() {
    let (fake, client) = Fake::with_client(small());
    fake.core().manner.releases = false;
    let (socket, index) = connected(&client);
    let data = pattern(3, 500_000);
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| send(&socket, &data, Wait::Forever));
        while !sender.is_finished() {
            let mut core = fake.core();
            let sock = core.sock(index);
            assert!(sock.taken - sock.released <= 64 * 1024);
            core.release(index, 7_001);
            drop(core);
            std::thread::sleep(Duration::from_micros(300));
        }
        assert_eq!(sender.join().unwrap(), Ok(data.len()));
    });
    fake.eventually("everything", |core| core.sock(index).got.len() == data.len());
    assert!(fake.core().sock(index).got == data);
}

#[test]
fn a_timeout_in_the_middle_returns_what_was_sent() {
    let (fake, client) = Fake::with_client(small());
    fake.core().manner.releases = false;
    let (socket, _) = connected(&client);
    let data = pattern(0, 100_000);
    let start = Instant::now();
    let wait = Wait::Until(start + Duration::from_millis(50));
    assert_eq!(send(&socket, &data, wait), Ok(64 * 1024));
    assert!(start.elapsed() >= Duration::from_millis(50));
    let wait = Wait::Until(Instant::now() + Duration::from_millis(10));
    assert_eq!(send(&socket, &data, wait), Err(Errno::AGAIN));
}

#[test]
fn a_full_queue_is_waited_for() {
    let (fake, client) = Fake::with_client(small());
    make_lost_wake_ups_hang(&client);
    fake.core().manner.takes = false;
    let (socket, index) = connected(&client);
    for n in 0..64 {
        assert_eq!(send(&socket, &[n], Wait::No), Ok(1), "{n}");
    }
    assert_eq!(send(&socket, &[64], Wait::No), Err(Errno::AGAIN));
    assert_eq!(socket.readiness().events & poll::OUT, 0);
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let start = Instant::now();
            (send(&socket, &[64], Wait::Forever), start.elapsed())
        });
        std::thread::sleep(Duration::from_millis(50));
        assert!(!sender.is_finished());
        // Nothing is released: the send waited for room in the queue.
        fake.core().manner.releases = false;
        fake.core().take(index, 1);
        let (sent, took) = sender.join().unwrap();
        assert_eq!(sent, Ok(1));
        assert!(took < HANG, "{took:?}");
    });
    // Small sends lie side by side in one area.
    fake.core().take(index, usize::MAX);
    let mut core = fake.core();
    let first = core.sock(index).descriptors[0].area;
    assert!(core.sock(index).descriptors.iter().all(|d| d.area == first));
    assert!(core.sock(index).got.iter().copied().eq(0..=64));
}

#[test]
fn a_cork_travels_with_the_bytes() {
    const TCP_CORK: (i32, i32) = (6, 3);
    let (fake, client) = Fake::with_client(small());
    make_lost_wake_ups_hang(&client);
    fake.core().manner.takes = false;
    let (socket, index) = connected(&client);
    fake.core().calls.clear();
    let cork = |on| socket.set_int(TCP_CORK.0, TCP_CORK.1, on);
    cork(7).unwrap();
    assert_eq!(socket.int(TCP_CORK.0, TCP_CORK.1), Ok(1));
    for n in 0..62 {
        assert_eq!(send(&socket, &[n], Wait::No), Ok(1), "{n}");
    }
    // The last slot is for the cork's end.
    assert_eq!(send(&socket, &[62], Wait::No), Err(Errno::AGAIN));
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| send(&socket, &[62], Wait::Forever));
        std::thread::sleep(Duration::from_millis(50));
        assert!(!sender.is_finished());
        let start = Instant::now();
        fake.core().take(index, 1);
        assert_eq!(sender.join().unwrap(), Ok(1));
        assert!(start.elapsed() < HANG, "{:?}", start.elapsed());
    });
    cork(0).unwrap();
    assert_eq!(socket.int(TCP_CORK.0, TCP_CORK.1), Ok(0));
    let mut core = fake.core();
    core.take(index, usize::MAX);
    assert!(core.sock(index).got.iter().copied().eq(0..=62));
    let flags = core.sock(index).descriptors.iter().map(|d| d.flags).collect::<Vec<_>>();
    assert_eq!((flags[0], flags[64]), (DataFlags::CORK, DataFlags::UNCORK));
    assert!(flags[1..64].iter().all(|flags| *flags == DataFlags::NONE));
    assert!(core.calls.is_empty(), "{:?}", core.calls);
}

/// TCP_NOTSENT_LOWAT.
#[test]
fn a_send_begins_only_while_few_bytes_wait_to_leave() {
    let (fake, client) = Fake::with_client(small());
    let (socket, index) = connected(&client);
    let is_writable = || socket.readiness().events & poll::OUT != 0;
    let until = |position| {
        let mut core = fake.core();
        core.sock(index).words.tx_lowat.store(100, Ordering::Release);
        core.sock(index).words.tx_until.store(position, Ordering::Release);
        core.news(index);
    };
    until(100);
    assert!(is_writable());
    // What a send has begun it goes on with, for an area.
    assert_eq!(send(&socket, &[1; 40_000], Wait::No), Ok(16 * 1024));
    assert_eq!(send(&socket, &[1; 10], Wait::No), Err(Errno::AGAIN));
    assert!(!is_writable());
    until(16 * 1024);
    assert!(!is_writable());
    until(16 * 1024 + 50);
    assert!(!is_writable(), "half of it is not free");
    until(16 * 1024 + 51);
    assert!(is_writable());
    let waits = std::thread::scope(|scope| {
        let sender = scope.spawn(|| send(&socket, &[1; 30_000], soon()));
        fake.eventually("a send that waits", |core| core.sock(index).taken == 32 * 1024);
        until(1 << 20);
        sender.join().unwrap()
    });
    assert_eq!(waits, Ok(30_000));
}

#[test]
fn released_memory_is_filled_again_from_its_start() {
    let (fake, client) = Fake::with_client(small());
    let (socket, index) = connected(&client);
    for _ in 0..100 {
        send(&socket, &[1; 1000], Wait::No).unwrap();
        fake.eventually("release", |core| core.sock(index).released == core.sock(index).taken);
        while socket.unsent_len() > 0 {
            std::thread::yield_now();
        }
    }
    assert_eq!(fake.core().pages_held(), 4);
    assert!(fake.core().sock(index).descriptors.iter().all(|d| d.offset == 0));
}

#[test]
fn every_socket_is_sure_of_an_area_however_greedy_the_others_are() {
    let (fake, client) = Fake::with_client(small());
    fake.core().manner.releases = false;
    let sockets: Vec<_> = (0..8).map(|_| connected(&client)).collect();
    for (_, index) in &sockets {
        fake.core().sock(*index).words.tx_limit.store(1 << 30, Ordering::Release);
    }
    let data = pattern(0, 1 << 20);
    // 64 pages are 16 areas, 8 of which are promised.
    assert_eq!(send(&sockets[0].0, &data, Wait::No), Ok(9 * 16384));
    for (socket, _) in &sockets[1..] {
        assert_eq!(send(socket, &data, Wait::No), Ok(16384));
        assert_eq!(send(socket, &data, Wait::No), Err(Errno::AGAIN));
    }
    assert_eq!(fake.core().pages_held(), 64);
    fake.eventually("taking", |core| core.take(sockets[3].1, 9) == 0);
    fake.core().release(sockets[3].1, u64::MAX);
    assert_eq!(send(&sockets[3].0, &data, Wait::No), Ok(16384));
}

#[test]
fn an_error_is_told_once_and_then_the_end() {
    let (fake, client) = Fake::with_client(small());
    let (socket, index) = connected(&client);
    fake.core().deliver(index, b"last words");
    fake.core().break_off(index, Errno::CONNRESET);
    let all = poll::IN | poll::RDNORM | poll::OUT | poll::WRNORM | poll::RDHUP | poll::HUP;
    assert_eq!(socket.readiness().events, all | poll::ERR);
    assert_eq!(recv(&socket, 100, Wait::Forever), Ok(b"last words".to_vec()));
    assert_eq!(recv(&socket, 100, Wait::Forever), Err(Errno::CONNRESET));
    assert_eq!(recv(&socket, 100, Wait::Forever), Ok(vec![]));
    assert_eq!(send(&socket, b"x", Wait::Forever), Err(Errno::PIPE));
    assert_eq!(socket.readiness().events, all);

    let (socket, index) = connected(&client);
    fake.core().break_off(index, Errno::TIMEDOUT);
    assert_eq!(send(&socket, b"x", Wait::Forever), Err(Errno::TIMEDOUT));
    assert_eq!(send(&socket, b"x", Wait::Forever), Err(Errno::PIPE));
    fake.core().break_off(index, Errno::CONNRESET);
    assert_eq!(socket.int(1, 4), Ok(104), "SO_ERROR");
    assert_eq!(socket.int(1, 4), Ok(0));
    assert_eq!(socket.take_error(), None);
}

#[test]
fn a_break_wakes_those_who_wait() {
    let (fake, client) = Fake::with_client(small());
    make_lost_wake_ups_hang(&client);
    fake.core().manner.releases = false;
    let (socket, index) = connected(&client);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| recv(&socket, 10, Wait::Forever));
        let writer = scope.spawn(|| send(&socket, &[0; 100_000], Wait::Forever));
        fake.eventually("a full pipe", |core| core.sock(index).taken == 64 * 1024);
        std::thread::sleep(Duration::from_millis(30));
        let start = Instant::now();
        fake.core().break_off(index, Errno::CONNRESET);
        let read = reader.join().unwrap();
        assert_eq!(writer.join().unwrap(), Ok(64 * 1024), "what was sent before counts");
        assert!(matches!(read, Err(Errno::CONNRESET) | Ok(_)), "{read:?}");
        assert!(start.elapsed() < HANG);
    });
}

#[test]
fn states_are_those_of_linux() {
    let (fake, client) = Fake::with_client(small());
    let socket = client.socket(Family::V4, SocketKind::Stream).unwrap();
    assert_eq!(socket.readiness().events, poll::OUT | poll::WRNORM | poll::HUP);
    assert_eq!(send(&socket, b"x", Wait::Forever), Err(Errno::PIPE));
    assert_eq!(recv(&socket, 1, Wait::Forever), Err(Errno::NOTCONN));
    assert_eq!(recv(&socket, 0, Wait::No), Ok(vec![]));

    fake.core().manner.connects = None;
    let addr = "10.219.0.1:80".parse().unwrap();
    assert_eq!(socket.connect(addr, Wait::No), Err(Errno::INPROGRESS));
    assert_eq!(socket.connect(addr, Wait::No), Err(Errno::ALREADY));
    let wait = Wait::Until(Instant::now() + Duration::from_millis(5));
    assert_eq!(socket.connect(addr, wait), Err(Errno::ALREADY));
    assert_eq!(socket.readiness().events, 0);
    assert_eq!(send(&socket, b"x", Wait::No), Err(Errno::AGAIN));
    assert_eq!(recv(&socket, 1, Wait::No), Err(Errno::AGAIN));
    let index = common::index_of(&socket);
    fake.core().set_flags(index, CONNECTED);
    assert_eq!(socket.readiness().events, poll::OUT | poll::WRNORM);
    assert_eq!(send(&socket, b"x", Wait::No), Ok(1));

    fake.core().deliver(index, b"abc");
    fake.core().set_flags(index, CONNECTED | SocketFlags::READ_CLOSED);
    let open = poll::OUT | poll::WRNORM | poll::IN | poll::RDNORM | poll::RDHUP;
    assert_eq!(socket.readiness().events, open);
    assert_eq!(socket.readable_len(), 3);
    assert_eq!(recv(&socket, 10, Wait::No), Ok(b"abc".to_vec()));
    assert_eq!(recv(&socket, 10, Wait::No), Ok(vec![]));
    assert_eq!(socket.readiness().events, open, "the end stays readable");
    socket.shutdown(ShutdownHow::Both).unwrap();
    assert_eq!(send(&socket, b"x", Wait::No), Err(Errno::PIPE));
    assert_eq!(socket.readiness().events, open | poll::HUP);
    assert_eq!(
        fake.core().sock(index).words.flags.load(Ordering::Relaxed),
        (OVER | SocketFlags::CONNECTED).bits()
    );
    socket.close();
    socket.close();
    assert_eq!(send(&socket, b"x", Wait::No), Err(Errno::BADF));
    assert_eq!(recv(&socket, 1, Wait::No), Err(Errno::BADF));
    assert_eq!(socket.local_addr(), Err(Errno::BADF));
    assert_eq!(socket.readiness().events, poll::ERR | poll::HUP);
}

#[test]
fn connecting_waits_for_the_outcome() {
    let (fake, client) = Fake::with_client(small());
    make_lost_wake_ups_hang(&client);
    fake.core().manner.connects = Some(Err(Errno::CONNREFUSED));
    let addr = "10.219.0.1:80";
    let refused = TcpStream::connect_via(&client, addr).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    fake.core().manner.connects = None;
    std::thread::scope(|scope| {
        let connecting = scope.spawn(|| TcpStream::connect_via(&client, addr));
        fake.eventually("attempt", |core| core.socks[0].is_some());
        std::thread::sleep(Duration::from_millis(30));
        let start = Instant::now();
        fake.core().set_flags(0, CONNECTED);
        connecting.join().unwrap().unwrap();
        assert!(start.elapsed() < HANG);
    });
    let limit = Duration::from_millis(30);
    let late = TcpStream::connect_timeout_via(&client, &addr.parse().unwrap(), limit).unwrap_err();
    assert_eq!(late.kind(), std::io::ErrorKind::TimedOut);
}

#[test]
fn listeners_accept_as_connections_come() {
    let (fake, client) = Fake::with_client(small());
    let listener = TcpListener::bind_via(&client, "0.0.0.0:80").unwrap();
    let index = common::index_of(listener.as_socket());
    listener.set_nonblocking(true).unwrap();
    assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    assert_eq!(listener.as_socket().readiness().events, 0);
    listener.set_nonblocking(false).unwrap();
    std::thread::scope(|scope| {
        let accepting = scope.spawn(|| listener.incoming().take(2).collect::<Vec<_>>());
        std::thread::sleep(Duration::from_millis(30));
        fake.core().offer(index, 2);
        let streams = accepting.join().unwrap();
        assert_eq!(streams.len(), 2);
        for stream in streams {
            let stream = stream.unwrap();
            fake.core().deliver(common::index_of(stream.as_socket()), b"hello");
            let mut hello = [0; 5];
            (&stream).read_exact(&mut hello).unwrap();
            assert_eq!(&hello, b"hello");
        }
    });
    let (_, peer) = {
        fake.core().offer(index, 1);
        assert_eq!(listener.as_socket().readiness().events, poll::IN | poll::RDNORM);
        listener.accept().unwrap()
    };
    assert_eq!(peer, "10.219.0.1:5555".parse().unwrap());
    assert_eq!(fake.core().calls.iter().filter(|op| **op == abi::call::Op::Accept).count(), 3);
}

#[test]
fn peeking_takes_nothing_and_parts_add_up() {
    let (fake, client) = Fake::with_client(small());
    let (socket, index) = connected(&client);
    let data = pattern(0, 40_000);
    for piece in data.chunks(9_999) {
        fake.core().deliver(index, piece);
    }
    let mut all = vec![0; 50_000];
    for _ in 0..2 {
        let bufs = &mut [IoSliceMut::new(&mut all)];
        let peeked = socket.recv(bufs, RecvFlags { peek: true }, Wait::No).unwrap();
        assert_eq!(peeked.len, 40_000);
        assert!(all[..40_000] == data);
    }
    let (mut a, mut b, mut c) = ([0; 3], [0; 0], [0; 20_000]);
    let bufs = &mut [IoSliceMut::new(&mut a), IoSliceMut::new(&mut b), IoSliceMut::new(&mut c)];
    assert_eq!(socket.recv(bufs, RecvFlags::default(), Wait::No).unwrap().len, 20_003);
    assert!(a == data[..3] && c == data[3..20_003]);
    assert_eq!(socket.readable_len(), 19_997);
    assert!(recv(&socket, 7, Wait::No).unwrap() == data[20_003..20_010]);
    assert!(recv(&socket, 100_000, Wait::No).unwrap() == data[20_010..]);
    assert_eq!(recv(&socket, 1, Wait::No), Err(Errno::AGAIN));
}

#[test]
fn small_takings_wake_nobody_and_large_ones_do() {
    let (fake, client) = Fake::with_client(small());
    let (socket, index) = connected(&client);
    // Each step begins when the server sleeps, and ends when it sleeps again.
    let asleep = || {
        fake.eventually("sleep", |core| core.head.server_bell.load(Ordering::SeqCst) != 0);
        fake.core().wakes
    };
    let wakes = |what: &str, step: &dyn Fn()| {
        let before = asleep();
        step();
        fake.eventually(what, |core| core.wakes == before + 1);
    };
    let before = asleep();
    for _ in 0..20 {
        fake.core().deliver(index, b"an answer");
        recv(&socket, 100, Wait::No).unwrap();
    }
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(asleep(), before);
    // But it is told: what it does next, it does knowing.
    assert_eq!(fake.core().sock(index).words.rx_consumed.load(Ordering::SeqCst), 180);
    fake.core().deliver(index, &[0; 40_000]);
    wakes("32 KiB", &|| assert_eq!(recv(&socket, 33_000, Wait::No).unwrap().len(), 33_000));
    wakes("a quarter of what was unread", &|| drop(recv(&socket, 4_100, Wait::No).unwrap()));
    for _ in 0..60 {
        fake.core().deliver(index, b"x");
    }
    wakes("half of the queue's slots", &|| drop(recv(&socket, 10_000, Wait::No).unwrap()));
    socket.set_int(1, 8, 2304).unwrap();
    fake.core().deliver(index, &[0; 600]);
    wakes("a quarter of a small SO_RCVBUF", &|| drop(recv(&socket, 600, Wait::No).unwrap()));
}

#[test]
fn waiting_for_several_things_at_once() {
    let (fake, client) = Fake::with_client(small());
    make_lost_wake_ups_hang(&client);
    let (a, index_a) = connected(&client);
    let (b, index_b) = connected(&client);
    let (near, far) = std::os::unix::net::UnixStream::pair().unwrap();
    let changes: [(&str, &(dyn Fn() + Sync)); 3] = [
        ("first", &|| assert_eq!(fake.core().deliver(index_a, b"x"), 1)),
        ("second", &|| assert_eq!(fake.core().deliver(index_b, b"x"), 1)),
        ("kernel", &|| (&far).write_all(b"x").unwrap()),
    ];
    for with_kernel in [true, false] {
        for (name, change) in changes.iter().take(2 + usize::from(with_kernel)) {
            let watched = [&a, &b].map(|socket| {
                let Readiness { version, .. } = socket.readiness();
                Watch { socket, version }
            });
            let mut kernel = vec![rustix::event::PollFd::new(&near, rustix::event::PollFlags::IN)];
            kernel.truncate(usize::from(with_kernel));
            // Nothing happens: the deadline.
            let start = Instant::now();
            let deadline = start + Duration::from_millis(20);
            client.wait_any(&watched, &mut kernel, Some(deadline)).unwrap();
            assert!(start.elapsed() >= Duration::from_millis(20), "{name}");
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    std::thread::sleep(Duration::from_millis(20));
                    change();
                });
                let start = Instant::now();
                client.wait_any(&watched, &mut kernel, None).unwrap();
                assert!(start.elapsed() < HANG, "{name} {with_kernel} {:?}", start.elapsed());
            });
            // It has happened already: no sleep, and the kernel's answer is there.
            client.wait_any(&watched, &mut kernel, None).unwrap();
            let said = kernel.iter().any(|fd| !fd.revents().is_empty());
            assert_eq!(said, *name == "kernel", "{name}");
            let _ = (recv(&a, 9, Wait::No), recv(&b, 9, Wait::No));
        }
        near.set_nonblocking(true).unwrap();
        let _ = (&near).read(&mut [0; 9]);
    }
}

#[test]
fn closing_frees_memory_only_when_the_server_is_done() {
    let (fake, client) = Fake::with_client(small());
    {
        let mut core = fake.core();
        core.manner.takes = false;
        core.manner.releases = false;
        core.manner.holds = Some(abi::call::Op::Close);
    }
    let (socket, index) = connected(&client);
    send(&socket, &pattern(0, 20_000), Wait::No).unwrap();
    std::thread::scope(|scope| {
        let closing = scope.spawn(move || drop(socket));
        fake.eventually("close", |core| !core.held.is_empty());
        assert_eq!(fake.core().pages_held(), 8);
        // The server goes on sending after close: it must find the bytes.
        fake.core().take(index, usize::MAX);
        assert!(fake.core().sock(index).got == pattern(0, 20_000));
        fake.core().answer_held();
        closing.join().unwrap();
    });
    assert_eq!(fake.core().pages_held(), 0);
    // The same place again, with queues where the last socket left them.
    let (socket, again) = connected(&client);
    assert_eq!(again, index);
    fake.core().manner.takes = true;
    assert_eq!(send(&socket, b"new", Wait::No), Ok(3));
    fake.eventually("bytes", |core| core.sock(index).got == b"new");
    fake.core().deliver(index, b"newer");
    assert_eq!(recv(&socket, 10, soon()), Ok(b"newer".to_vec()));
}

#[test]
fn std_shaped_timeouts_and_modes_are_shared_by_clones() {
    let (fake, client) = Fake::with_client(small());
    let stream = TcpStream::connect_via(&client, "10.219.0.1:80").unwrap();
    let clone = stream.try_clone().unwrap();
    assert!(stream.set_read_timeout(Some(Duration::ZERO)).is_err());
    stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    assert_eq!(clone.read_timeout().unwrap(), Some(Duration::from_millis(20)));
    let start = Instant::now();
    assert_eq!((&clone).read(&mut [0]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    assert!(start.elapsed() >= Duration::from_millis(20));
    clone.set_nonblocking(true).unwrap();
    assert_eq!((&stream).read(&mut [0]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    fake.core().deliver(0, b"ab");
    assert_eq!(stream.peek(&mut [0; 9]).unwrap(), 2);
    stream.set_nodelay(true).unwrap();
    assert!(stream.nodelay().unwrap());
    assert_eq!(stream.ttl().unwrap(), u32::from_ne_bytes([0, 1, 2, 3]), "see long_option");
    drop(stream);
    assert_eq!((&clone).read(&mut [0; 9]).unwrap(), 2, "a clone keeps the socket open");
    clone.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!((&clone).write(b"x").unwrap_err().kind(), std::io::ErrorKind::BrokenPipe);
    drop(clone);
    assert!(fake.core().socks[0].is_none());
}
