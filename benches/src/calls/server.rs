//! The server under test: a process of its own with as much of a supervisor as one client needs.

use std::io::{BufRead as _, BufReader};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use abi::client::ClientParams;
use abi::control::{
    ClientReply, ClientRequest, InetConfig, NumberedRequest, ServerOutput, ServerReply,
    ServerRequest,
};
use anyhow::{Context as _, Result, bail};
use clap::Args;
use inet_server::Companion;
use rustix::event::epoll::EventFlags;
use rustix::thread::{CpuSet, sched_setaffinity};
use shm::{Backing, Channel, Region};

/// The arguments of `calls-server`.
#[derive(Args)]
pub(crate) struct ServerArgs {
    /// Its control socket.
    #[arg(long)]
    socket: PathBuf,
    /// The processor it is tied to.
    #[arg(long)]
    processor: usize,
    /// Never sleep.
    #[arg(long)]
    running: bool,
    /// The caller has the same processor: give way when there is nothing to do.
    #[arg(long)]
    yielding: bool,
}

/// Ties this process to a processor.
pub(crate) fn pin(processor: usize) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(processor);
    sched_setaffinity(None, &set)
        .with_context(|| format!("this process may not have processor {processor}"))
}

/// A server process; killed on drop.
pub(crate) struct Child {
    pub(crate) socket: PathBuf,
    process: std::process::Child,
}

impl Child {
    pub(crate) fn start(processor: usize, running: bool, yielding: bool) -> Result<Self> {
        let name = format!("tasuki-bench-{}-{running}-{yielding}.sock", std::process::id());
        let socket = std::env::temp_dir().join(name);
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("calls-server").arg("--socket").arg(&socket);
        command.args(["--processor", &processor.to_string()]);
        command.args(running.then_some("--running"));
        command.args(yielding.then_some("--yielding"));
        let mut process = command.stdout(Stdio::piped()).spawn().context("starting the server")?;
        let said = process.stdout.take().context("the server's output")?;
        let child = Self { socket, process };
        let mut line = String::new();
        BufReader::new(said).read_line(&mut line)?;
        if line.is_empty() {
            bail!("the server of the benchmark did not start");
        }
        Ok(child)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_file(&self.socket);
    }
}

/// Keeps the server from sleeping.
struct Busy {
    yielding: bool,
}

impl Companion for Busy {
    fn step(&mut self) -> Result<bool, String> {
        if self.yielding {
            rustix::thread::sched_yield();
        }
        Ok(true)
    }

    fn send(&mut self) -> Result<bool, String> {
        Ok(false)
    }

    fn ask(&mut self) {}

    fn prepare_sleep(&mut self) -> bool {
        false
    }

    fn awake(&mut self) {}

    fn watch_in(&mut self, _: BorrowedFd<'_>, _: u64) -> Result<(), String> {
        Ok(())
    }

    fn woken(&mut self, _: u64, _: EventFlags) {}
}

/// The server process.
pub(crate) fn serve(args: &ServerArgs) -> Result<()> {
    pin(args.processor)?;
    let (line, theirs) = Channel::pair()?;
    let (running, yielding) = (args.running, args.yielding);
    let server = std::thread::spawn(move || {
        let busy = running.then(|| Box::new(Busy { yielding }) as Box<dyn Companion>);
        inet_server::run(theirs, busy, None, None)
    });
    let mut supervisor = Supervisor { line, asked: 0 };
    let config = InetConfig { instance: "bench".to_owned(), ..InetConfig::default() };
    supervisor.ask(ServerRequest::ConfigureInet(config), &[])?;
    let listener = UnixListener::bind(&args.socket)
        .with_context(|| format!("binding {}", args.socket.display()))?;
    println!("ready");
    let (stream, _) = listener.accept()?;
    supervisor.serve(Channel::from_fd(OwnedFd::from(stream)))?;
    supervisor.ask(ServerRequest::Shutdown, &[])?;
    match server.join() {
        Ok(ended) => Ok(ended?),
        Err(_) => bail!("the server's thread panicked"),
    }
}

struct Supervisor {
    line: Channel,
    asked: u64,
}

impl Supervisor {
    /// Has the server carry out a request.
    fn ask(&mut self, request: ServerRequest, fds: &[BorrowedFd<'_>]) -> Result<()> {
        self.asked += 1;
        let body = serde_json::to_vec(&NumberedRequest { id: self.asked, request })?;
        self.line.send(&body, fds)?;
        loop {
            let message = self.line.recv()?.context("the server ended")?;
            match serde_json::from_slice(&message.body)? {
                ServerOutput::Reply { reply: ServerReply::Error { message }, .. } => bail!(message),
                ServerOutput::Reply { .. } => return Ok(()),
                // Such as that the client is gone.
                ServerOutput::Event(_) | ServerOutput::Sandbox(_) => {}
            }
        }
    }

    /// Serves the only client until it is gone.
    fn serve(&mut self, mut client: Channel) -> Result<()> {
        let (params, mut thread) = (ClientParams::default(), 0);
        while let Ok(Some(message)) = client.recv() {
            match serde_json::from_slice(&message.body)? {
                ClientRequest::Hello { .. } => {
                    let len = params.layout()?.len;
                    let (_, fd) = Region::create("bench", len, Backing::Small)?;
                    let bell = shm::eventfd()?;
                    let fds = [fd.as_fd(), bell.as_fd()];
                    self.ask(ServerRequest::AddClient { client: 1, params }, &fds)?;
                    reply(
                        &mut client,
                        &ClientReply::Welcome { client: 1, params, frames: 0 },
                        &fds,
                    )?;
                }
                ClientRequest::AttachThread => {
                    let (ours, theirs) = shm::doorbell()?;
                    let add = ServerRequest::AddThread { client: 1, thread };
                    self.ask(add, &[ours.as_fd()])?;
                    let reply_with = [theirs.as_fd()];
                    reply(&mut client, &ClientReply::Thread { thread }, &reply_with)?;
                    thread += 1;
                }
                ClientRequest::Bye => return Ok(()),
                other => bail!("{other:?} is none of the benchmark's requests"),
            }
        }
        Ok(())
    }
}

fn reply(to: &mut Channel, reply: &ClientReply, fds: &[BorrowedFd<'_>]) -> Result<()> {
    Ok(to.send(&serde_json::to_vec(reply)?, fds)?)
}
