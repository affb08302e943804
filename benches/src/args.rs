//! The arguments of the subcommands that several modules share.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use crate::{protocol, setup};

/// The congestion control of connections that carry bytes in bulk. Without this option it would be
/// the machine's. On some machines that is BBR, which paces by its own estimate of the path, far
/// below the rate of two processors.
#[derive(Args, Clone)]
pub(crate) struct Congestion {
    /// Congestion control (send, receive), as TCP_CONGESTION names it. For `compare` it is that of
    /// the kernel's ends; Tasuki's have CUBIC.
    #[arg(long, value_name = "NAME", default_value = "cubic")]
    pub(crate) congestion: String,
}

impl Congestion {
    /// That of all ends without the option.
    pub(crate) fn cubic() -> Self {
        Self { congestion: "cubic".to_owned() }
    }
}

/// What the other end does.
#[derive(Args)]
pub(crate) struct ServeArgs {
    /// Address to listen on.
    #[arg(long, default_value = "0.0.0.0:5202")]
    pub(crate) bind: SocketAddr,
    /// Listen on Tasuki's native API.
    #[arg(long)]
    pub(crate) native: bool,
    #[command(flatten)]
    pub(crate) congestion: Congestion,
}

/// The measurement of one client.
#[derive(Args, Clone)]
pub(crate) struct ClientArgs {
    /// The server.
    #[arg(long)]
    pub(crate) connect: SocketAddr,
    /// What to measure.
    #[arg(long, value_enum)]
    pub(crate) test: protocol::Test,
    /// Bytes per write (send, receive: the sender's) or per request (rtt).
    #[arg(long, value_delimiter = ',', default_value = "65536")]
    pub(crate) size: Vec<u32>,
    /// Pieces of that many bytes in one request of this end: areas, or parts of writev(2) and
    /// readv(2). The other end's writes are long then (send, receive).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) pieces: Option<u16>,
    /// Bytes in all (send, receive).
    #[arg(long, default_value_t = 64 << 20)]
    pub(crate) bytes: u64,
    /// Round trips (rtt).
    #[arg(long, default_value_t = 2000)]
    pub(crate) count: u32,
    /// End after so many seconds, with the round trips that there are (rtt), or write for so many
    /// (goodput).
    #[arg(long, value_name = "SECONDS")]
    pub(crate) most_seconds: Option<f64>,
    /// Print a line when a connection stands, and measure on it when a line comes.
    #[arg(long, hide = true)]
    pub(crate) wait: bool,
    /// Use smoltcp, in this process, over this TAP device.
    #[arg(long, value_name = "TAP")]
    pub(crate) smoltcp: Option<String>,
    /// Use Tasuki's native API (send, receive).
    #[arg(long, conflicts_with = "smoltcp")]
    pub(crate) native: bool,
    #[command(flatten)]
    pub(crate) congestion: Congestion,
}

/// What `compare` runs.
#[derive(Args)]
pub(crate) struct CompareArgs {
    /// The `tasuki` command.
    #[arg(long, env = "TASUKI_BIN", default_value = "target/release/tasuki")]
    pub(crate) tasuki: PathBuf,
    /// Measure this earlier build of the `tasuki` command as well, in turn with the other, and
    /// print the ratios between the two, as `tasuki lab diff` judges them. Native set-ups take the
    /// `tasuki-bench` beside it.
    #[arg(long, value_name = "TASUKI")]
    pub(crate) before: Option<PathBuf>,
    /// The folder of the peers' clients, for the set-ups lwip and gvisor.
    #[arg(long, default_value = "target/peers")]
    pub(crate) peers: PathBuf,
    /// Rounds; medians are over them.
    #[arg(long, default_value_t = 5)]
    pub(crate) rounds: u32,
    /// A tenth of the bytes and round trips: to see that it works.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Let the scheduler place everything. Otherwise each side has one processor: the client, with
    /// all of Tasuki, the first, and the server the second.
    #[arg(long)]
    pub(crate) unpinned: bool,
    /// Measure only these set-ups. Ratios are to the kernel's set-up of the same kind, if it is
    /// among them. Default: those of the kernel and of Tasuki.
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) only: Vec<setup::Setup>,
    /// Measure only these roles of a set-up's end.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "client,server")]
    pub(crate) role: Vec<setup::Role>,
    /// Run only these measurements.
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) test: Vec<protocol::Test>,
    #[command(flatten)]
    pub(crate) congestion: Congestion,
    /// Also write all samples to this file, which `tasuki lab` compares and shows. It is written
    /// after each round.
    #[arg(long, value_name = "FILE")]
    pub(crate) results: Option<PathBuf>,
    /// All samples as JSON instead of tables.
    #[arg(long)]
    pub(crate) json: bool,
}
