//! Signals that interrupt waits, and forked children. Both need what only unsafe calls give: a
//! handler for a signal, a signal for one thread, a fork.
#![allow(unsafe_code)]

mod common;

use std::io::{IoSlice, IoSliceMut};
use std::os::unix::thread::JoinHandleExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use abi::{Family, SocketKind};
use common::{Fake, HANG, connected, small};
use tasuki_sockets::{Client, Errno, RecvFlags, SendFlags, Socket, Wait, Watch, poll, wait_any};

static HANDLED: AtomicU32 = AtomicU32::new(0);

extern "C" fn count(_: libc::c_int) {
    HANDLED.fetch_add(1, Ordering::SeqCst);
}

/// Installs the handler for both signals: SIGUSR1 with SA_RESTART, SIGUSR2 without.
fn handlers() {
    for (signal, flags) in [(libc::SIGUSR1, libc::SA_RESTART), (libc::SIGUSR2, 0)] {
        // SAFETY: a sigaction is plain integers and optional pointers.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = count as *const () as usize;
        action.sa_flags = flags;
        // SAFETY: `action` is initialised, its handler only touches an atomic.
        assert_eq!(unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) }, 0);
    }
}

/// Signals a thread that by now sleeps, and waits until its handler ran.
fn signal<T>(thread: &JoinHandle<T>, signal: libc::c_int) {
    std::thread::sleep(Duration::from_millis(50));
    assert!(!thread.is_finished(), "it waits");
    let before = HANDLED.load(Ordering::SeqCst);
    // SAFETY: the thread has not been joined, so its handle is good.
    assert_eq!(unsafe { libc::pthread_kill(thread.as_pthread_t(), signal) }, 0);
    let start = Instant::now();
    while HANDLED.load(Ordering::SeqCst) == before {
        assert!(start.elapsed() < HANG, "the handler runs");
        std::thread::yield_now();
    }
}

fn recv(socket: &Socket, wait: Wait) -> Result<usize, Errno> {
    let mut buf = [0; 100];
    let bufs = &mut [IoSliceMut::new(&mut buf)];
    socket.recv(bufs, RecvFlags::default(), wait).map(|received| received.len)
}

fn in_thread<T: Send + 'static>(
    socket: &Socket,
    work: impl FnOnce(&Socket) -> T + Send + 'static,
) -> JoinHandle<T> {
    let socket = socket.clone();
    std::thread::spawn(move || work(&socket))
}

/// As Linux: a blocking send of more than fits ends with any signal after its first bytes, and
/// gives their count. SA_RESTART matters only before the first.
fn blocking_sends_end_with_their_count(client: &Arc<Client>) {
    for kind in [libc::SIGUSR2, libc::SIGUSR1] {
        let (stream, _) = connected(client);
        let writer = in_thread(&stream, |socket| {
            let bytes = vec![0; 1 << 20];
            socket.send(&[IoSlice::new(&bytes)], SendFlags::default(), None, Wait::Forever)
        });
        signal(&writer, kind);
        assert_eq!(writer.join().unwrap(), Ok(64 * 1024), "what was sent counts");
    }
}

// One test: handlers and their count are the process's.
#[test]
fn signals_end_waits_as_on_linux() {
    handlers();
    let (fake, client) = Fake::with_client(small());
    fake.core().manner.releases = false;
    let (socket, index) = connected(&client);

    let reader = in_thread(&socket, |socket| recv(socket, Wait::Forever));
    signal(&reader, libc::SIGUSR2);
    assert_eq!(reader.join().unwrap(), Err(Errno::INTR));

    let reader = in_thread(&socket, |socket| recv(socket, Wait::Forever));
    signal(&reader, libc::SIGUSR1);
    signal(&reader, libc::SIGUSR1);
    assert!(!reader.is_finished(), "SA_RESTART, and no time limit");
    fake.core().deliver(index, b"data");
    assert_eq!(reader.join().unwrap(), Ok(4));

    let reader = in_thread(&socket, |socket| recv(socket, Wait::Until(Instant::now() + HANG)));
    signal(&reader, libc::SIGUSR1);
    assert_eq!(reader.join().unwrap(), Err(Errno::INTR), "a time limit: SA_RESTART is ignored");

    blocking_sends_end_with_their_count(&client);
    let limit = 64 * 1024;
    let bytes = vec![0; limit];
    let full = socket.send(&[IoSlice::new(&bytes)], SendFlags::default(), None, Wait::No);
    assert_eq!(full, Ok(limit));
    let writer = in_thread(&socket, |socket| {
        socket.send(&[IoSlice::new(b"x")], SendFlags::default(), None, Wait::Forever)
    });
    signal(&writer, libc::SIGUSR2);
    assert_eq!(writer.join().unwrap(), Err(Errno::INTR));

    let (watched, _) = connected(&client);
    for with_kernel in [false, true] {
        let waiter = in_thread(&watched, move |socket| {
            let (near, _far) = std::os::unix::net::UnixStream::pair().unwrap();
            let mut kernel = [rustix::event::PollFd::new(&near, rustix::event::PollFlags::IN)];
            let kernel = &mut kernel[..usize::from(with_kernel)];
            let version = socket.readiness().version;
            wait_any(&[Watch { socket, version }], kernel, None, None)
        });
        signal(&waiter, libc::SIGUSR2);
        assert_eq!(waiter.join().unwrap(), Err(Errno::INTR));
    }

    // A connect that is interrupted goes on, and its outcome is not lost.
    fake.core().manner.connects = None;
    let late = client.socket(Family::V4, SocketKind::Stream).unwrap();
    let addr = "10.219.0.1:80".parse().unwrap();
    let connecting = in_thread(&late, move |socket| socket.connect(addr, Wait::Forever));
    signal(&connecting, libc::SIGUSR2);
    assert_eq!(connecting.join().unwrap(), Err(Errno::INTR));
    fake.core().break_off(common::index_of(&late), Errno::CONNREFUSED);
    assert_eq!(late.take_error(), Some(Errno::CONNREFUSED));

    // Calls that complete at once are not interrupted: their result would be lost.
    fake.core().manner.holds = Some(abi::call::Op::SetSockOpt);
    let setting = in_thread(&socket, |socket| socket.set_int(6, 1, 1));
    signal(&setting, libc::SIGUSR2);
    fake.core().answer_held();
    assert_eq!(setting.join().unwrap(), Ok(()));
}

/// In the child: 0 if nothing works and nothing hangs, else the number of the first check that
/// failed.
fn check_child(client: &Arc<Client>, socket: &Socket) -> libc::c_int {
    let version = socket.readiness().version;
    let watch = [Watch { socket, version }];
    let checks = [
        !client.is_mine(),
        recv(socket, Wait::Forever) == Err(Errno::NOTCONN),
        socket.send(&[IoSlice::new(b"x")], SendFlags::default(), None, Wait::No)
            == Err(Errno::NOTCONN),
        socket.bind(([0, 0, 0, 0], 1).into()) == Err(Errno::NOTCONN),
        socket.accept(Wait::Forever).is_err(),
        client.socket(Family::V4, SocketKind::Stream).is_err(),
        client.wait_any(&watch, &mut [], None) == Err(Errno::NOTCONN),
        socket.readiness().events == poll::ERR | poll::HUP,
        socket.take_error().is_none(),
        (socket.readable_len(), socket.unsent_len()) == (0, 0),
    ];
    socket.close();
    client.goodbye();
    let failed = checks.iter().position(|ok| !ok);
    failed.map_or(0, |n| libc::c_int::try_from(n + 1).unwrap_or(99))
}

#[test]
fn a_forked_child_can_do_nothing_and_harms_nothing() {
    let (fake, client) = Fake::with_client(small());
    fake.core().manner.releases = false;
    let (socket, index) = connected(&client);
    let send =
        |bytes: &[u8]| socket.send(&[IoSlice::new(bytes)], SendFlags::default(), None, Wait::No);
    assert_eq!(send(&[1; 20_000]), Ok(20_000));
    fake.core().deliver(index, b"the parent's");
    let held = fake.core().pages_held();
    // SAFETY: the child runs nothing but this library, whose paths there take no lock that a thread
    // of the parent could hold, and ends without returning.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let code = check_child(&client, &socket);
        drop((socket, client));
        // SAFETY: ends the process; no destructor of the test runs.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: `status` is live; `pid` is our child.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
    assert_eq!(status, 0, "exit code {}", libc::WEXITSTATUS(status));
    assert_eq!(fake.core().pages_held(), held);
    assert!(!fake.said_bye.load(Ordering::SeqCst));
    assert_eq!(recv(&socket, Wait::No), Ok(12));
    assert_eq!(send(&[1; 100]), Ok(100));
    drop(socket);
    assert_eq!(fake.core().pages_held(), 0);
}
