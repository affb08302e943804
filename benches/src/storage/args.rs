//! The arguments of `storage`, and what they choose.

use std::path::PathBuf;

use clap::Args;

use super::plan::{BackEnd, Requests, StoragePath};

const EXAMPLES: &str = "\
Examples:
  tasuki-bench storage --quick                        a few minutes
  tasuki-bench storage                                everything, most of an hour
  tasuki-bench storage --only transports --path wire --back-end null
  tasuki-bench storage --only peers --rounds 5
  tasuki-bench storage --only blocks --plot-blocks blocks.svg
  tasuki-bench storage --only aead --plot aead.svg";

/// What `storage` runs.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct StorageArgs {
    /// The `tasuki` command.
    #[arg(long, env = "TASUKI_BIN", default_value = "target/release/tasuki")]
    pub(super) tasuki: PathBuf,
    /// Rounds, in which everything of a pair takes turns [default: 5, quick 3].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) rounds: Option<u32>,
    /// Seconds of each measurement [default: 1, quick 0.5].
    #[arg(long)]
    pub(super) seconds: Option<f64>,
    /// Fewer paths, sizes and rounds.
    #[arg(long)]
    pub(super) quick: bool,
    /// Only these parts.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "transports,peers,blocks,aead")]
    pub(super) only: Vec<StoragePart>,
    /// Only these transports.
    #[arg(long, value_delimiter = ',')]
    pub(super) transport: Vec<String>,
    /// Only these paths.
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(super) path: Vec<StoragePath>,
    /// Only these back ends.
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(super) back_end: Vec<BackEnd>,
    /// Only requests whose title contains this text, such as `read 4K`; may be repeated.
    #[arg(long, value_name = "TEXT")]
    pub(super) case: Vec<String>,
    /// Draw the speed of sealing into this SVG file.
    #[arg(long, value_name = "FILE")]
    pub(super) plot: Option<PathBuf>,
    /// Draw the speed and processor time of whole blocks into this SVG file.
    #[arg(long, value_name = "FILE")]
    pub(super) plot_blocks: Option<PathBuf>,
    /// The file for all figures, as JSON.
    #[arg(long, default_value = "target/bench-storage.json")]
    pub(super) out: PathBuf,
    /// Measure nothing: show the tables of `--out`.
    #[arg(long)]
    pub(super) show: bool,
    /// All figures as JSON instead of tables.
    #[arg(long)]
    pub(super) json: bool,
}

/// A part of `storage`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum StoragePart {
    /// Transports, on all paths.
    Transports,
    /// tgt, libiscsi, and TCP alone.
    Peers,
    /// Whole blocks encrypted above TCP, and ESP, with triple DES.
    Blocks,
    /// Sealing by the size of a record.
    Aead,
}

impl StorageArgs {
    pub(super) fn rounds(&self) -> u32 {
        self.rounds.unwrap_or(if self.quick { 3 } else { 5 })
    }

    pub(super) fn seconds(&self) -> f64 {
        self.seconds.unwrap_or(if self.quick { 0.5 } else { 1.0 })
    }

    pub(super) fn say(&self, what: &str) {
        eprintln!("storage: {what}");
    }

    pub(super) fn paths(&self) -> Vec<StoragePath> {
        use StoragePath::{Tap, TapOff, Wire, WireOne, WireTen, WireTenth};
        let all = if self.quick {
            vec![Wire, WireOne, Tap]
        } else {
            vec![Wire, WireTenth, WireOne, WireTen, Tap, TapOff]
        };
        if self.path.is_empty() { all } else { self.path.clone() }
    }

    pub(super) fn back_ends(&self) -> Vec<BackEnd> {
        let all = if self.quick { vec![BackEnd::Memory] } else { BackEnd::ALL.to_vec() };
        if self.back_end.is_empty() { all } else { self.back_end.clone() }
    }

    pub(super) fn requests(&self) -> Vec<Requests> {
        let mut all = Requests::all(self.quick);
        all.retain(|it| self.wants(*it));
        all
    }

    /// Does `--case` name these?
    pub(super) fn wants(&self, requests: Requests) -> bool {
        let named = |text: &String| requests.title().contains(text.as_str());
        self.case.is_empty() || self.case.iter().any(named)
    }
}
