//! `tasuki-bench`: the same unmodified program over Tasuki and over the kernel's TCP, in one run.
//!
//! One program is both ends: `serve` is always a kernel program; `client` is the measured one,
//! started plainly in a namespace behind a veth pair (the kernel's figures) or by `tasuki run`
//! (Tasuki's). `compare` starts them in turn, round by round, so that a drift of the machine's
//! speed meets all alike, and prints medians and ratios to the kernel's of the same kind as
//! Markdown, or all samples as JSON.
//!
//! Round trips follow the fourth paper: write N bytes, the server reads until it has all, then
//! answers 4.
//!
//! `calls` measures packaged calls, as the third paper does.
//!
//! `hops` and `stages` ask a running instance what an operation costs, in wake-ups and in time;
//! `idle` looks how often one is woken in which nothing happens.
//!
//! `devices` measures the kernel's devices by themselves, without Tasuki.
//!
//! `programs` runs several clients on one instance at once.
//!
//! `all` runs everything; `targets` and `tables` show what it found.

mod all;
mod calls;
mod client;
mod compare;
mod devices;
mod handover;
mod hosts;
mod idle;
mod instruments;
mod native;
mod operations;
mod paired;
mod processor_time;
mod programs;
mod protocol;
mod report;
mod serve;
mod setup;
mod smoltcp_peer;
mod targets;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// Measure Tasuki beside the kernel's TCP.
#[derive(Parser)]
#[command(name = "tasuki-bench", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Everything that the targets need; prints targets and tables (needs root).
    All(all::AllArgs),
    /// What `all` has found, beside the targets.
    Targets(all::FileArgs),
    /// All tables of what `all` has found.
    Tables(all::FileArgs),
    /// The other end of every measurement.
    Serve(ServeArgs),
    /// One measured client; prints one JSON line per size.
    Client(ClientArgs),
    /// All set-ups in turn, the kernel's and Tasuki's (needs root).
    Compare(CompareArgs),
    /// What handing an area over costs, by its size.
    Handover(handover::HandoverArgs),
    /// Calls that travel together against calls one by one, and against the kernel's.
    Calls(calls::CallsArgs),
    /// What a frame costs by each way that the kernel offers to a device (needs root).
    Devices(devices::DevicesArgs),
    /// System calls and wake-ups of each operation (needs root).
    Hops(instruments::InstanceArgs),
    /// Where the time of a send goes, beside the first paper's figures, and of a receive (needs
    /// root).
    Stages(instruments::InstanceArgs),
    /// How often an instance is woken in which nothing happens (needs root).
    Idle(instruments::InstanceArgs),
    /// Round trips of several programs at once, with and without spinning (needs root).
    Programs(programs::ProgramsArgs),
    /// The client of `idle`.
    #[command(hide = true)]
    Waiting(idle::WaitingArgs),
    /// The client of `stages`.
    #[command(hide = true)]
    Paced(operations::PacedArgs),
    /// A client of `hops`.
    #[command(hide = true)]
    Accepting(operations::AcceptArgs),
    /// A program that sends datagrams.
    Datagrams(operations::DatagramsArgs),
    /// The peer of `accepting`.
    #[command(hide = true)]
    Dialing(operations::AcceptArgs),
    /// A client of `hops`.
    #[command(hide = true)]
    Nulls(operations::NullsArgs),
    /// The server that `calls` measures.
    #[command(hide = true)]
    CallsServer(calls::ServerArgs),
}

/// The congestion control of connections that bytes in bulk go over. Without a word of ours it
/// would be the machine's, which on some is BBR: that paces by its own estimate of the path, far
/// below what two processors can move.
#[derive(Args, Clone)]
pub(crate) struct Congestion {
    /// Congestion control (send, receive), as TCP_CONGESTION names it; `compare`: of the kernel's
    /// ends, Tasuki's have CUBIC.
    #[arg(long, value_name = "NAME", default_value = "cubic")]
    congestion: String,
}

/// What the other end does.
#[derive(Args)]
pub(crate) struct ServeArgs {
    /// Address to listen on.
    #[arg(long, default_value = "0.0.0.0:5202")]
    bind: SocketAddr,
    /// Listen on Tasuki's native API.
    #[arg(long)]
    native: bool,
    #[command(flatten)]
    congestion: Congestion,
}

/// What one client measures.
#[derive(Args, Clone)]
pub(crate) struct ClientArgs {
    /// The server.
    #[arg(long)]
    connect: SocketAddr,
    /// What to measure.
    #[arg(long, value_enum)]
    test: protocol::Test,
    /// Bytes per write (send, receive: the sender's) or per request (rtt).
    #[arg(long, value_delimiter = ',', default_value = "65536")]
    size: Vec<u32>,
    /// Bytes in all (send, receive).
    #[arg(long, default_value_t = 64 << 20)]
    bytes: u64,
    /// Round trips (rtt).
    #[arg(long, default_value_t = 2000)]
    count: u32,
    /// Use smoltcp, in this process, over this TAP device.
    #[arg(long, value_name = "TAP")]
    smoltcp: Option<String>,
    /// Use Tasuki's native API (send, receive).
    #[arg(long, conflicts_with = "smoltcp")]
    native: bool,
    #[command(flatten)]
    congestion: Congestion,
}

/// What `compare` runs.
#[derive(Args)]
pub(crate) struct CompareArgs {
    /// The `tasuki` command.
    #[arg(long, env = "TASUKI_BIN", default_value = "target/release/tasuki")]
    tasuki: PathBuf,
    /// Measure this earlier build of the `tasuki` command as well, in turn with the other, and
    /// print the ratios between the two. Native set-ups take the `tasuki-bench` beside it.
    #[arg(long, value_name = "TASUKI")]
    before: Option<PathBuf>,
    /// The folder of the peers' clients, for the set-ups lwip and gvisor.
    #[arg(long, default_value = "target/peers")]
    peers: PathBuf,
    /// Rounds; medians are over them.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// A tenth of the bytes and round trips: to see that it works.
    #[arg(long)]
    quick: bool,
    /// Let the scheduler place everything. Otherwise each side has one processor: the client, with
    /// all of Tasuki, the first, and the server the second.
    #[arg(long)]
    unpinned: bool,
    /// Only these set-ups; ratios are to the kernel's of the same kind, if it is among them.
    /// Without it: the kernel's and Tasuki's.
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<setup::Setup>,
    #[command(flatten)]
    congestion: Congestion,
    /// All samples as JSON instead of tables.
    #[arg(long)]
    json: bool,
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().command {
        Command::All(args) => all::run(&args),
        Command::Targets(args) => all::targets(&args),
        Command::Tables(args) => all::tables(&args),
        Command::Idle(args) => idle::idle(&args),
        Command::Programs(args) => programs::run(&args),
        Command::Waiting(args) => idle::waiting(&args),
        Command::Serve(args) => serve::serve(&args),
        Command::Client(args) => client::run(&args),
        Command::Hops(args) => instruments::hops(&args),
        Command::Stages(args) => instruments::stages(&args),
        Command::Paced(args) => operations::paced(&args),
        Command::Accepting(args) => operations::accepting(&args),
        Command::Dialing(args) => operations::dialing(&args),
        Command::Datagrams(args) => operations::datagrams(&args),
        Command::Nulls(args) => operations::nulls(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Calls(args) => calls::run(&args),
        Command::Devices(args) => devices::run(&args),
        Command::Handover(args) => handover::run(&args),
        Command::CallsServer(args) => calls::serve(&args),
    }
}
