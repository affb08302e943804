//! Computing processes beside an end, and datagrams of others over the link.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use clap::Args;
use rustix::process::{Signal, set_parent_process_death_signal};

use super::chain::bounded;
use super::power::PowerGroups;

/// Processes that compute as long as this lives.
pub(super) struct Loads(Vec<Child>);

impl Loads {
    /// Starts so many beside sender and receiver.
    pub(super) fn start(
        load: [u32; 2],
        processors: [usize; 2],
        power: Option<&PowerGroups>,
    ) -> Result<Self> {
        let mut loads = Self(Vec::new());
        for (end, count) in load.into_iter().enumerate() {
            for _ in 0..count {
                let mut command = bounded(power.map(|power| power.procs(end)), processors[end]);
                command.arg(std::env::current_exe()?).arg("keep-awake").stdout(Stdio::null());
                loads.0.push(command.spawn().context("starting a computing process")?);
            }
        }
        Ok(loads)
    }
}

impl Drop for Loads {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // It may have failed already.
            let _ = child.kill();
        }
        for child in &mut self.0 {
            let _ = child.wait();
        }
    }
}

/// The words of `background`.
#[derive(Args)]
pub(crate) struct BackgroundArgs {
    /// Where the datagrams go.
    #[arg(long)]
    connect: SocketAddr,
    /// Bytes a second on an Ethernet link.
    #[arg(long)]
    rate: u64,
}

/// Payload of a datagram, and what a frame has besides.
const PAYLOAD: usize = 1000;
const HEADERS: usize = 42;
/// Datagrams that are late are sent at once, so many at most.
const MOST_LATE: u64 = 64;

/// `tasuki-bench background`: sends datagrams at a rate until it is ended.
pub(crate) fn background(args: &BackgroundArgs) -> Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.connect(args.connect)?;
    let each = Duration::from_secs_f64((PAYLOAD + HEADERS) as f64 / args.rate.max(1) as f64);
    let (began, mut sent) = (Instant::now(), 0_u64);
    loop {
        let due = (began.elapsed().as_secs_f64() / each.as_secs_f64()) as u64;
        sent = sent.max(due.saturating_sub(MOST_LATE));
        while sent < due {
            // A full queue is what it is for.
            let _ = socket.send(&[0; PAYLOAD]);
            sent += 1;
        }
        sleep(each);
    }
}
