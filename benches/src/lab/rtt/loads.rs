//! Computing processes beside an end, and datagrams of others over the link.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;
use rustix::process::{Signal, set_parent_process_death_signal};

use super::chain::bounded;
use super::power::PowerGroups;
use crate::machine::Spinners;

/// Starts so many computing processes beside sender and receiver.
pub(super) fn loads(
    load: [u32; 2],
    processors: [usize; 2],
    power: Option<&PowerGroups>,
) -> Result<Spinners> {
    let mut spinners = Spinners::default();
    for (end, count) in load.into_iter().enumerate() {
        for _ in 0..count {
            spinners.start(bounded(power.map(|power| power.procs(end)), processors[end]))?;
        }
    }
    Ok(spinners)
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
