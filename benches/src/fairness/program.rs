//! What all programs that do their worst share: their arguments, and how they go on.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::Args;

use super::kind::Kind;

/// A kind of worst, and where.
#[derive(Args)]
pub(crate) struct WorstArgs {
    #[arg(long, value_enum)]
    pub(super) kind: Kind,
    /// The server that is everybody's peer.
    #[arg(long)]
    pub(super) connect: SocketAddr,
    /// Servers whose host never accepts from this port on.
    #[arg(long)]
    pub(super) silent: SocketAddr,
    /// The stack's own address.
    #[arg(long)]
    pub(super) stack: SocketAddr,
    /// The instance's socket for programs.
    #[arg(long)]
    pub(super) socket: PathBuf,
    /// Its socket for operators.
    #[arg(long)]
    pub(super) operator: PathBuf,
    /// The path of the instance's second interface, if that is a wire.
    #[arg(long)]
    pub(super) wire: Option<PathBuf>,
}

/// Says that the worst has begun. Everything that had to be prepared is there.
pub(super) fn begun() {
    println!("begun");
}

/// Repeats something for ever. What fails is tried again, but not more than 1,000 times a second.
pub(super) fn forever<T>(mut each: impl FnMut() -> Result<T>) -> Result<()> {
    loop {
        if each().is_err() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
