//! A fake instance inside the test's process: supervisor and inet server over the real region,
//! rings and bells, with as much of TCP as the tests want. One thread answers the control socket;
//! another plays the server, and tests take its lock ([`Fake::core`]) to play it themselves.

#![allow(dead_code, reason = "each test binary uses its part of it")]

pub(crate) mod server;

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use abi::client::ClientParams;
use abi::control::{ClientReply, ClientRequest};
use shm::{Backing, Channel, Region};
use tasuki_sockets::{Client, Family, Socket, SocketKind, Wait};

use self::server::Core;

/// Nothing in these tests takes this long unless it hangs, however busy the machine is.
pub(crate) const HANG: Duration = Duration::from_secs(60);

/// From here on a wake-up that is lost costs twice that time, and no longer a second.
pub(crate) fn make_lost_wake_ups_hang(client: &Client) {
    client.set_futex_sleep(2 * HANG);
}

/// The instance.
pub(crate) struct Fake {
    pub(crate) path: PathBuf,
    core: Arc<Mutex<Option<Core>>>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    line: Arc<Mutex<Option<UnixStream>>>,
    pub(crate) said_bye: Arc<AtomicBool>,
}

/// Few threads and sockets, and small pools that tests can fill.
pub(crate) fn small() -> ClientParams {
    ClientParams { threads: 4, sockets: 8, area_pages: 4, tx_pages: 64, rx_pages: 8 * 20 + 32 }
}

impl Fake {
    pub(crate) fn start(params: ClientParams) -> Fake {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("tasuki-sockets-test-{}-{number}.sock", std::process::id());
        let path = std::env::temp_dir().join(name);
        let listener = UnixListener::bind(&path).unwrap();
        let mut fake = Fake {
            path,
            core: Arc::default(),
            stop: Arc::default(),
            threads: Vec::new(),
            line: Arc::default(),
            said_bye: Arc::default(),
        };
        let (core, line, bye) =
            (Arc::clone(&fake.core), Arc::clone(&fake.line), Arc::clone(&fake.said_bye));
        fake.threads.push(std::thread::spawn(move || {
            let Ok((stream, _)) = listener.accept() else { return };
            *line.lock().unwrap() = Some(stream.try_clone().unwrap());
            supervise(Channel::from_fd(OwnedFd::from(stream)), params, &core, &bye);
        }));
        let (core, stop) = (Arc::clone(&fake.core), Arc::clone(&fake.stop));
        fake.threads.push(std::thread::spawn(move || serve(&core, &stop)));
        fake
    }

    /// A started instance and its one client.
    pub(crate) fn with_client(params: ClientParams) -> (Fake, Arc<Client>) {
        let fake = Fake::start(params);
        let client = Client::connect(&fake.path).unwrap();
        (fake, client)
    }

    /// The server, while its own thread waits.
    pub(crate) fn core(&self) -> CoreGuard<'_> {
        CoreGuard(self.core.lock().unwrap())
    }

    /// Waits until the server's state is as wanted; fails when that takes too long.
    pub(crate) fn eventually(&self, what: &str, mut is_so: impl FnMut(&mut Core) -> bool) {
        let start = Instant::now();
        while !is_so(&mut self.core()) {
            assert!(start.elapsed() < HANG, "never came: {what}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// The instance dies: no goodbye, no bell.
    pub(crate) fn die(&self) {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(line) = self.line.lock().unwrap().take() {
            let _ = line.shutdown(std::net::Shutdown::Both);
        }
        if let Ok(Some(core)) = self.core.lock().as_deref() {
            core.rouse();
        }
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.die();
        // If no client came, the listening thread still waits for one.
        let _ = UnixStream::connect(&self.path);
        let _ = std::fs::remove_file(&self.path);
        for thread in self.threads.drain(..) {
            let outcome = thread.join();
            if !std::thread::panicking() {
                outcome.unwrap();
            }
        }
    }
}

pub(crate) struct CoreGuard<'a>(MutexGuard<'a, Option<Core>>);

impl std::ops::Deref for CoreGuard<'_> {
    type Target = Core;

    fn deref(&self) -> &Core {
        self.0.as_ref().expect("admitted")
    }
}

impl std::ops::DerefMut for CoreGuard<'_> {
    fn deref_mut(&mut self) -> &mut Core {
        self.0.as_mut().expect("admitted")
    }
}

fn supervise(
    mut channel: Channel,
    params: ClientParams,
    core: &Mutex<Option<Core>>,
    bye: &AtomicBool,
) {
    let mut threads = 0;
    let send = |channel: &mut Channel, reply: &ClientReply, fds: &[OwnedFd]| {
        let body = serde_json::to_vec(reply).unwrap();
        let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
        let _ = channel.send(&body, &fds);
    };
    while let Ok(Some(message)) = channel.recv() {
        match serde_json::from_slice(&message.body).unwrap() {
            ClientRequest::Hello { .. } => {
                let layout = params.layout().unwrap();
                let (region, fd) = Region::create("test", layout.len, Backing::Small).unwrap();
                let bell = shm::eventfd().unwrap();
                let fds = [fd, bell.try_clone().unwrap()];
                *core.lock().unwrap() = Some(Core::new(7, layout, region, bell));
                let welcome = ClientReply::Welcome { client: 7, params, frames: 0 };
                send(&mut channel, &welcome, &fds);
            }
            ClientRequest::AttachThread if threads < params.threads => {
                let (bell, theirs) = shm::doorbell().unwrap();
                let fds = [theirs];
                core.lock().unwrap().as_mut().unwrap().add_thread(threads, bell);
                send(&mut channel, &ClientReply::Thread { thread: threads }, &fds);
                threads += 1;
            }
            ClientRequest::AttachThread => {
                let message = "no thread slot is left".to_owned();
                send(&mut channel, &ClientReply::Error { message }, &[]);
            }
            ClientRequest::Bye => bye.store(true, Ordering::SeqCst),
            other => panic!("unexpected {other:?}"),
        }
    }
}

fn serve(core: &Mutex<Option<Core>>, stop: &AtomicBool) {
    while !stop.load(Ordering::SeqCst) {
        // A test that failed with the core in hand must not hang in its sockets' close.
        let mut core = core.lock().unwrap_or_else(PoisonError::into_inner);
        let asleep = core.as_mut().map(Core::turn);
        drop(core);
        match asleep {
            Some(Some(asleep)) => asleep.sleep(Duration::from_secs(5)),
            Some(None) => std::thread::yield_now(),
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

/// A connected stream; the server's name for it is its index.
pub(crate) fn connected(client: &Arc<Client>) -> (Socket, u16) {
    let socket = client.socket(Family::V4, SocketKind::Stream).unwrap();
    socket.connect("10.219.0.1:80".parse().unwrap(), Wait::Forever).unwrap();
    let index = index_of(&socket);
    (socket, index)
}

/// The place of a socket, from what its Debug says.
pub(crate) fn index_of(socket: &Socket) -> u16 {
    let text = format!("{socket:?}");
    let digits = text.split("index: ").nth(1).unwrap();
    digits.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
}

/// Bytes that differ from their neighbours at any distance that a bug would shift them by.
pub(crate) fn pattern(start: u64, len: usize) -> Vec<u8> {
    (start..start + len as u64).map(|i| (i ^ (i >> 8) ^ (i >> 15)) as u8).collect()
}
