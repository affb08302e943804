//! `tasuki-bench syscalls`: what the sandbox costs a system call, by role.
//!
//! A child enters the sandbox of the role by the servers' own code, or does not. It makes each
//! system call of the data path many times, in chunks. The result is the tenth percentile of the
//! chunks' times: other work on the machine makes chunks longer, and none shorter. Children with
//! and without a sandbox take turns; the table has the medians over all rounds.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::atomic::AtomicU32;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvFlags, SendFlags, recvmsg, send};
use rustix::thread::futex;
use sandbox::{Demand, Plan, Role};

/// Calls of one chunk, and chunks of one child.
const CHUNK: u32 = 400;
const CHUNKS: usize = 400;

/// Arguments of `syscalls`.
#[derive(Args)]
pub(crate) struct SyscallsArgs {
    /// Rounds; medians are over them.
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// The roles: inet, nic:KIND, fused:KIND.
    #[arg(long, default_values = ["inet", "nic:tap"])]
    roles: Vec<String>,
}

/// Arguments of a child.
#[derive(Args)]
pub(crate) struct InsideArgs {
    #[arg(long)]
    role: Role,
    #[arg(long)]
    sandbox: Demand,
}

/// Measures and prints a table for each role.
pub(crate) fn run(args: &SyscallsArgs) -> Result<()> {
    for role in &args.roles {
        let (mut on, mut off) = (Times::new(), Times::new());
        for _ in 0..args.rounds.max(1) {
            child(role, "off", &mut off)?;
            child(role, "on", &mut on)?;
        }
        println!("| {role} | off, ns | on, ns | difference |\n|---|---:|---:|---:|");
        for (name, times) in &mut off {
            let off = median(times);
            let on = on.get_mut(name).map_or(f64::NAN, |times| median(times));
            println!("| {name} | {off:.0} | {on:.0} | {:.0} |", on - off);
        }
        println!();
    }
    Ok(())
}

/// Nanoseconds of each call, in each round.
type Times = BTreeMap<String, Vec<f64>>;

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
}

fn child(role: &str, sandbox: &str, into: &mut Times) -> Result<()> {
    let mut command = Command::new(std::env::current_exe()?);
    let output =
        command.args(["syscalls-inside", "--role", role, "--sandbox", sandbox]).output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for line in said.lines() {
        let (name, time) = line.split_once(' ').context("a name and a time")?;
        into.entry(name.to_owned()).or_default().push(time.parse()?);
    }
    Ok(())
}

/// Enters the sandbox and measures.
pub(crate) fn inside(args: &InsideArgs) -> Result<()> {
    let (one, other) = UnixStream::pair()?;
    let count = eventfd(1, EventfdFlags::NONBLOCK)?;
    let empty = eventfd(0, EventfdFlags::NONBLOCK)?;
    let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let plan = Plan { role: args.role, demand: args.sandbox, user: None, filter: true };
    let restriction = sandbox::enter(&plan, || ())?;
    if let Some(layer) = restriction.missing.iter().find(|layer| layer.starts_with("seccomp")) {
        bail!("there is nothing to measure without {layer}");
    }
    let mut byte = [0; 8];
    let word = AtomicU32::new(0);
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    report("sched_yield", || {
        rustix::thread::sched_yield();
        Ok(())
    })?;
    report("futex", || futex::wake(&word, futex::Flags::empty(), 1).map(drop))?;
    report("write", || rustix::io::write(&count, &0_u64.to_ne_bytes()).map(drop))?;
    report("writev", || rustix::io::writev(&count, &[IoSlice::new(&[0; 8])]).map(drop))?;
    report("readv", || nothing(rustix::io::readv(&empty, &mut [IoSliceMut::new(&mut byte)])))?;
    report("epoll_pwait2", || {
        let mut events = [MaybeUninit::uninit(); 4];
        epoll::wait(&set, &mut events, Some(&now)).map(drop)
    })?;
    report("recvmsg", || {
        let mut control = RecvAncillaryBuffer::default();
        let into = &mut [IoSliceMut::new(&mut byte)];
        nothing(recvmsg(one.as_fd(), into, &mut control, RecvFlags::DONTWAIT).map(|it| it.bytes))
    })?;
    report("sendto", || send(&other, &[], SendFlags::DONTWAIT).map(drop))?;
    // It has a condition on its arguments.
    report("fcntl", || rustix::fs::fcntl_getfl(&one).map(drop))
}

/// There was nothing to receive, as meant.
fn nothing(received: Result<usize, Errno>) -> Result<(), Errno> {
    match received {
        Err(Errno::AGAIN) => Ok(()),
        other => other.map(drop),
    }
}

fn report(name: &str, mut call: impl FnMut() -> Result<(), Errno>) -> Result<()> {
    let mut times = Vec::with_capacity(CHUNKS);
    for _ in 0..CHUNKS {
        let began = Instant::now();
        for _ in 0..CHUNK {
            black_box(call().with_context(|| name.to_owned())?);
        }
        times.push(began.elapsed().as_secs_f64() * 1e9 / f64::from(CHUNK));
    }
    times.sort_by(f64::total_cmp);
    println!("{name} {}", times[CHUNKS / 10]);
    Ok(())
}
