//! `tasuki-bench`: the same unmodified program over Tasuki and over the kernel's TCP, in one run.
//!
//! One program is both ends. `serve` is always a kernel program. `client` is the measured end: it
//! starts plainly in a namespace behind a veth pair (the kernel's figures), or by `tasuki run`
//! (Tasuki's). `compare` starts them in turn, round by round, so that a drift of the machine's
//! speed meets all alike. It prints medians, and ratios to the kernel's of the same kind, as
//! Markdown, or all samples as JSON.
//!
//! Round trips follow the fourth paper: the client writes N bytes, the server reads until it has
//! all, then answers 4.
//!
//! * `calls` measures packaged calls, as the third paper does.
//! * `loops` measures the same loop in user mode and in the kernel.
//! * `hops` and `stages` measure the cost of an operation in a running instance, in wake-ups and in
//!   time.
//! * `idle` counts the wake-ups of an instance in which nothing happens.
//! * `viewer` measures what a page of `tasuki web` costs.
//! * `devices` measures the kernel's devices by themselves, without Tasuki.
//! * `syscalls` measures system calls with and without the sandbox.
//! * `programs` runs several clients on one instance at once.
//! * `applications` runs the benchmarks that programs bring along: redis-benchmark, wrk, iperf3.
//! * `fairness` measures a client beside another that does its worst.
//! * `states` measures round trips where idle processors halt, and where they are kept awake.
//! * `lab` measures the papers' experiments until they are known well enough, and makes a report.
//! * `storage` measures targets and initiators, by transport, path and back end, and beside peers.
//! * `all` runs everything; `targets` and `tables` show the results.
//!
//! ```text layers
//! compare: set-ups beside the kernel's, in rounds of the lab
//! lab: experiments in rounds, with a report
//! storage: targets and initiators
//! all: every part, one after the other
//! targets: results beside the targets
//! found: the results of all parts
//! handover relays loops devices syscalls: areas, relayed calls, loops, devices, system calls
//! calls: packaged calls by themselves
//! states: round trips in both states of the machine
//! programs idle viewer fairness applications: whole instances
//! instruments clients: bells, sleeps and stages; commands from start to end
//! late_host: hosts that are made when they are needed
//! hosts operations client serve: namespaces, operations, both ends
//! running_server: a server from its start to its end
//! bridged: two instances on one bridge
//! report native smoltcp_peer turns: tables; the stacks besides `std::net`; two processes
//! many_connections: a program with many connections
//! default_congestion: the congestion control of a namespace
//! row args transport: shared by all of them
//! protocol setup machine: the order on the wire, set-ups, the machine's state
//! processor_time process_memory: what processes have used, and what they have
//! median progress cleanup shell: the middle of some figures, how far a run is, its end, scripts
//! described: the machine and the build
//! ```

mod all;
mod applications;
mod args;
mod bridged;
mod calls;
mod cleanup;
mod client;
mod clients;
mod compare;
mod default_congestion;
mod described;
mod devices;
mod fairness;
mod found;
mod handover;
mod hosts;
mod idle;
mod instruments;
mod lab;
mod late_host;
mod loops;
mod machine;
mod many_connections;
mod median;
mod native;
mod operations;
mod process_memory;
mod processor_time;
mod programs;
mod progress;
mod protocol;
mod relays;
mod report;
mod row;
mod running_server;
mod serve;
mod setup;
mod shell;
mod smoltcp_peer;
mod states;
mod storage;
mod syscalls;
mod targets;
mod transport;
mod turns;
mod viewer;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::args::{ClientArgs, CompareArgs, ServeArgs};

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
    /// Show the results of `all` beside the targets.
    Targets(all::FileArgs),
    /// Show all tables of the results of `all`.
    Tables(all::FileArgs),
    /// Experiments of the papers with a report, as `tasuki lab` measures them.
    Lab(Box<lab::MeasureArgs>),
    /// The other end of every measurement.
    Serve(ServeArgs),
    /// One measured client; prints one JSON line per size.
    Client(ClientArgs),
    /// The other process of a client that measures turns.
    #[command(hide = true)]
    TakeTurns(turns::TurnsArgs),
    /// All set-ups in turn, the kernel's and Tasuki's (needs root).
    Compare(CompareArgs),
    /// Measure the cost of a hand-over, by the area's size.
    Handover(handover::HandoverArgs),
    /// Calls through servers that hand them on, answered directly and by the same way back.
    Relays(relays::RelaysArgs),
    /// The same loop in user mode and in the kernel, as a BPF program.
    Loops(loops::LoopsArgs),
    /// Calls that travel together against calls one by one, and against the kernel's.
    Calls(calls::CallsArgs),
    /// Measure the cost of a frame by each way that the kernel offers to a device (needs root).
    Devices(devices::DevicesArgs),
    /// The cost of a system call in the sandbox of each role, and without one.
    Syscalls(syscalls::SyscallsArgs),
    /// The child of `syscalls`.
    #[command(hide = true)]
    SyscallsInside(syscalls::InsideArgs),
    /// System calls and wake-ups of each operation (needs root).
    Hops(instruments::InstanceArgs),
    /// Where the time of a send goes, beside the first paper's figures, and of a receive (needs
    /// root).
    Stages(instruments::InstanceArgs),
    /// How often an instance is woken in which nothing happens (needs root).
    Idle(instruments::InstanceArgs),
    /// What somebody who looks at `tasuki web` costs the data path (needs root).
    Viewer(viewer::ViewerArgs),
    /// Round trips of several programs at once, with and without spinning (needs root).
    Programs(programs::ProgramsArgs),
    /// Targets and initiators: transports, peers, sealing (needs root).
    Storage(storage::StorageArgs),
    /// The server of `storage`'s whole blocks.
    #[command(hide = true)]
    ServeBlocks(storage::ServeBlocksArgs),
    /// The reader of `storage`'s whole blocks.
    #[command(hide = true)]
    ReadBlocks(storage::ReadBlocksArgs),
    /// Programs' own benchmarks, on Tasuki and on the kernel (needs root).
    Applications(applications::ApplicationsArgs),
    /// Removes what a run has made when the run ends.
    #[command(hide = true)]
    CleanUp(cleanup::CleanUpArgs),
    /// Round trips where idle processors halt, and where they are kept awake (needs root).
    States(states::StatesArgs),
    /// Keeps a processor awake for `states`.
    #[command(hide = true)]
    KeepAwake,
    /// What a client notices while a neighbour does its worst (needs root).
    Fairness(fairness::FairnessArgs),
    /// Measures the machine for `lab`.
    #[command(hide = true)]
    Calibrate,
    /// Sends datagrams over a link for `lab`.
    #[command(hide = true)]
    Background(lab::BackgroundArgs),
    /// A wire with losses and a delay for `lab`.
    #[command(hide = true)]
    BadWire(lab::BadWireArgs),
    /// The client of `fairness`.
    #[command(hide = true)]
    Neighbour(fairness::NeighbourArgs),
    /// The neighbours that do their worst.
    #[command(hide = true)]
    Worst(fairness::WorstArgs),
    /// The client of `idle`.
    #[command(hide = true)]
    Waiting(idle::WaitingArgs),
    /// A program with many connections for `lab`.
    #[command(hide = true)]
    ManyConnections(many_connections::ManyConnectionsArgs),
    /// Several programs that send at once, for `lab`.
    #[command(hide = true)]
    ProgramsAtOnce(programs::AtOnceArgs),
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

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        // Its failures have sentences and exit codes of their own.
        Command::Lab(args) => return lab::main(&args),
        command => part(command),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("Error: {error:?}");
            ExitCode::FAILURE
        }
    }
}

/// Carries out all others.
fn part(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Lab(_) => Ok(()),
        Command::Calibrate => lab::calibrate(),
        Command::Background(args) => lab::background(&args),
        Command::BadWire(args) => lab::bad_wire(&args),
        Command::All(args) => all::run(&args),
        Command::Targets(args) => all::targets(&args),
        Command::Tables(args) => all::tables(&args),
        Command::Idle(args) => idle::idle(&args),
        Command::Viewer(args) => viewer::run(&args),
        Command::Programs(args) => programs::run(&args),
        Command::Applications(args) => applications::run(&args),
        Command::Storage(args) => storage::run(&args),
        Command::ServeBlocks(args) => storage::serve_blocks(&args),
        Command::ReadBlocks(args) => storage::read_blocks(&args),
        Command::CleanUp(args) => cleanup::run(&args),
        Command::States(args) => states::run(&args),
        Command::KeepAwake => machine::keep_awake(),
        Command::Fairness(args) => fairness::run(&args),
        Command::Neighbour(args) => fairness::neighbour(&args),
        Command::Worst(args) => fairness::worst(&args),
        Command::Waiting(args) => idle::waiting(&args),
        Command::Serve(args) => serve::serve(&args),
        Command::Client(args) => client::run(&args),
        Command::TakeTurns(args) => turns::take(&args),
        Command::Syscalls(args) => syscalls::run(&args),
        Command::SyscallsInside(args) => syscalls::inside(&args),
        Command::Hops(args) => instruments::hops(&args),
        Command::Stages(args) => instruments::stages(&args),
        Command::ManyConnections(args) => many_connections::run(&args),
        Command::ProgramsAtOnce(args) => programs::at_once(&args),
        Command::Paced(args) => operations::paced(&args),
        Command::Accepting(args) => operations::accepting(&args),
        Command::Dialing(args) => operations::dialing(&args),
        Command::Datagrams(args) => operations::datagrams(&args),
        Command::Nulls(args) => operations::nulls(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Calls(args) => calls::run(&args),
        Command::Devices(args) => devices::run(&args),
        Command::Handover(args) => handover::run(&args),
        Command::Relays(args) => relays::run(&args),
        Command::Loops(args) => loops::run(&args),
        Command::CallsServer(args) => calls::serve(&args),
    }
}
