//! `tasuki-scale` measures the cost of many connections to the protocol core, in this process,
//! without devices.
//!
//! Two stacks stand back to back. Frames are handed over in memory and time is simulated, so the
//! core alone is measured.
//!
//! * `idle` opens many connections and prints the memory of each. It also measures the round trip
//!   of one active connection, beside one idle connection and beside all of them. The two take
//!   turns, so that a drift of the machine's speed meets both alike.
//! * `flood` sends SYNs from invented addresses and prints the memory that they take. Meanwhile it
//!   tries to connect.
//!
//! ```text layers
//! flood idle: the two measurements
//! pair: two stacks, back to back
//! allocator: counts allocated bytes
//! ```
#![forbid(unsafe_code)]

mod allocator;
mod flood;
mod idle;
mod pair;

use clap::{Parser, Subcommand};

/// Measure the core with many connections.
#[derive(Parser)]
#[command(name = "tasuki-scale", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Memory of idle connections, and the round trip of an active one beside them.
    Idle {
        /// Idle connections.
        #[arg(long, default_value_t = 100_000)]
        connections: usize,
        /// Rounds; medians are over them.
        #[arg(long, default_value_t = 7)]
        rounds: usize,
        /// Round trips of each round.
        #[arg(long, default_value_t = 20_000)]
        trips: usize,
    },
    /// Memory and service under a flood of SYNs.
    Flood {
        /// SYNs.
        #[arg(long, default_value_t = 1_000_000)]
        syns: u32,
        /// Of so many SYNs, one is followed by a legitimate connection.
        #[arg(long, default_value_t = 10_000)]
        every: u32,
    },
}

fn main() {
    match Cli::parse().command {
        Command::Idle { connections, rounds, trips } => idle::run(connections, rounds, trips),
        Command::Flood { syns, every } => flood::run(syns, every),
    }
}
