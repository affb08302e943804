//! The programs that must not notice anything, and the other host.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::random::Random;

const HOST: &str = "10.219.7.1";
const STACK: &str = "10.219.7.2";
/// The peer's echo for everybody, and that of the honest client alone.
const ECHO: u16 = 7000;
const HONEST: u16 = 7003;
/// The peer takes nothing that comes here.
const SILENT: u16 = 7001;
/// The peer sends without an end from here.
const POURING: u16 = 7002;
/// The honest client's listener.
const LISTENS: u16 = 7100;
/// The longest time without any progress: availability, not speed.
const LONGEST: Duration = Duration::from_secs(10);
/// The peer's threads for hostile clients.
const MOST_SERVED: usize = 128;

/// Names of the three checks.
const CHECKS: [&str; 3] = ["tcp", "udp", "accept"];

/// When each check last made progress, in milliseconds, and its longest pause.
#[derive(Default)]
struct Progress {
    last: [AtomicU64; 3],
    longest: [AtomicU64; 3],
    done: [AtomicU64; 3],
}

impl Progress {
    fn note(&self, check: usize, now: u64) {
        let before = self.last[check].swap(now, Relaxed);
        self.longest[check].fetch_max(now.saturating_sub(before), Relaxed);
        self.done[check].fetch_add(1, Relaxed);
    }
}

fn serve(port: u16, limit: usize, each: fn(TcpStream)) {
    let listener = TcpListener::bind((HOST, port)).expect("the peer's address");
    let served: &'static AtomicUsize = Box::leak(Box::default());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            // The system may be out of something that hostile clients hold.
            let Ok(stream) = stream else { continue };
            if served.fetch_add(1, Relaxed) >= limit {
                served.fetch_sub(1, Relaxed);
                continue;
            }
            std::thread::spawn(move || {
                each(stream);
                served.fetch_sub(1, Relaxed);
            });
        }
    });
}

fn echo(mut stream: TcpStream) {
    let mut bytes = [0; 16 << 10];
    // The other end chooses when it is over, and how.
    let _ = stream.set_nodelay(true);
    let _ = stream.set_read_timeout(Some(Duration::from_secs(60)));
    let _ = stream.set_write_timeout(Some(Duration::from_secs(60)));
    while let Ok(len @ 1..) = stream.read(&mut bytes) {
        if stream.write_all(&bytes[..len]).is_err() {
            break;
        }
    }
}

/// The program `peer`.
pub(crate) fn peer() {
    serve(ECHO, MOST_SERVED, echo);
    serve(HONEST, 4096, echo);
    serve(SILENT, MOST_SERVED, |stream| {
        std::thread::sleep(Duration::from_secs(20));
        drop(stream);
    });
    serve(POURING, MOST_SERVED, |mut stream| {
        let _ = stream.set_write_timeout(Some(Duration::from_secs(5)));
        while stream.write_all(&[7; 16 << 10]).is_ok() {}
    });
    for port in [ECHO, HONEST] {
        let socket = UdpSocket::bind((HOST, port)).expect("the peer's address");
        std::thread::spawn(move || {
            let mut bytes = [0; 2048];
            loop {
                // Errors are those of earlier datagrams.
                let Ok((len, from)) = socket.recv_from(&mut bytes) else { continue };
                let _ = socket.send_to(&bytes[..len], from);
            }
        });
    }
    println!("ready");
    dial();
}

/// Connects to the honest client's listener again and again. The client watches for pauses.
fn dial() {
    let to: SocketAddr = format!("{STACK}:{LISTENS}").parse().expect("an address");
    loop {
        if let Ok(mut stream) = TcpStream::connect_timeout(&to, Duration::from_secs(3)) {
            let _ = stream.write_all(b"hello");
            let _ = stream.set_read_timeout(Some(Duration::from_secs(3)));
            let _ = stream.read_exact(&mut [0; 5]);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The program `honest`: until the time is over, or a check fails.
pub(crate) fn client(seconds: &str, status: &str) {
    let progress: &'static Progress = Box::leak(Box::default());
    let begun = Instant::now();
    let end = begun + Duration::from_secs(seconds.parse().expect("a time"));
    let listener = TcpListener::bind(("0.0.0.0", LISTENS)).expect("a listener");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            // One that is over already is one of the dialer's or of a stranger.
            let Ok(mut stream) = stream else { continue };
            let _ = stream.set_read_timeout(Some(Duration::from_secs(1)));
            let mut bytes = [0; 5];
            if stream.read_exact(&mut bytes).is_ok() && &bytes == b"hello" {
                let _ = stream.write_all(&bytes);
                progress.note(2, millis(begun));
            }
        }
    });
    std::thread::spawn(move || checked(|| datagrams(begun, progress)));
    std::thread::spawn(move || checked(|| stream(begun, progress)));
    println!("begun");
    while Instant::now() < end {
        std::thread::sleep(Duration::from_millis(200));
        let now = millis(begun);
        let mut said = String::new();
        for (check, name) in CHECKS.into_iter().enumerate() {
            let pause = now.saturating_sub(progress.last[check].load(Relaxed));
            if Duration::from_millis(pause) > LONGEST {
                println!("STOPPED: no progress of {name} for {pause} ms at {now} ms");
                std::process::exit(1);
            }
            let (done, longest) = (&progress.done[check], &progress.longest[check]);
            said += &format!(
                "{name} {} times, longest pause {} ms; ",
                done.load(Relaxed),
                longest.load(Relaxed)
            );
        }
        std::fs::write(status, said).expect("the status can be written");
    }
    println!("fine");
    std::process::exit(0);
}

fn millis(begun: Instant) -> u64 {
    u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// Runs a check that must not fail.
fn checked(check: impl FnOnce() -> std::io::Result<()>) {
    if let Err(error) = check() {
        println!("FAILED: {error}");
        std::process::exit(1);
    }
}

fn differs(what: &str) -> std::io::Error {
    std::io::Error::other(format!("{what} differ from what was sent"))
}

/// Blocks of noise through the peer's echo, over one connection after the other.
fn stream(begun: Instant, progress: &Progress) -> std::io::Result<()> {
    let mut random = Random::new(1);
    loop {
        let mut stream = TcpStream::connect((HOST, HONEST))?;
        stream.set_nodelay(true)?;
        for _ in 0..200 {
            let len = random.pick(&[1, 100, 1448, 4096, 16_384]);
            let bytes = random.bytes(len);
            stream.write_all(&bytes)?;
            let mut back = vec![0; len];
            stream.read_exact(&mut back)?;
            if back != bytes {
                return Err(differs("bytes of a stream"));
            }
            progress.note(0, millis(begun));
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Datagrams with a number. Lost ones are sent once more; strange ones are failures.
fn datagrams(begun: Instant, progress: &Progress) -> std::io::Result<()> {
    let mut random = Random::new(2);
    let socket = UdpSocket::bind(("0.0.0.0", 0))?;
    socket.connect((HOST, HONEST))?;
    socket.set_read_timeout(Some(Duration::from_millis(200)))?;
    let mut back = [0; 2048];
    let mut earlier: Vec<Vec<u8>> = Vec::new();
    loop {
        let len = 8 + random.below(1400);
        let bytes = random.bytes(len);
        earlier.push(bytes);
        if earlier.len() > 256 {
            earlier.remove(0);
        }
        // An error is one of the network's about an earlier datagram: raw frames may bring some.
        let _ = socket.send(earlier.last().unwrap_or(&Vec::new()));
        if let Ok(len) = socket.recv(&mut back) {
            // The answer to an earlier one may come late.
            if !earlier.iter().any(|one| *one == back[..len]) {
                return Err(differs("a datagram"));
            }
            progress.note(1, millis(begun));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The program `newcomer`.
pub(crate) fn newcomer() {
    let mut random = Random::new(3);
    let mut stream = TcpStream::connect((HOST, HONEST)).expect("a connection");
    for _ in 0..8 {
        let bytes = random.bytes(8192);
        stream.write_all(&bytes).expect("an open connection");
        let mut back = vec![0; bytes.len()];
        stream.read_exact(&mut back).expect("an open connection");
        assert!(back == bytes, "bytes differ");
    }
    println!("fine");
}
