//! The arguments of `storage`, and what they choose.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;

use super::plan::{BackEnd, Requests, StoragePath, TRANSPORTS, Transport};

/// A transport that is bound by its cipher on every path.
const SLOW: &str = "esp-3des";

const EXAMPLES: &str = "\
Examples:
  tasuki-bench storage --quick                        a few minutes
  tasuki-bench storage                                everything, about an hour
  tasuki-bench storage --show --brief                 short tables of what was measured
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
    /// Rounds, in which everything of a pair takes turns [default: 4, quick 3].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) rounds: Option<u32>,
    /// Seconds of each measurement [default: 0.8, quick 0.5].
    #[arg(long)]
    pub(super) seconds: Option<f64>,
    /// Fewer paths, sizes and rounds.
    #[arg(long)]
    pub(super) quick: bool,
    /// Only these parts.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "transports,peers,blocks,aead")]
    pub(super) only: Vec<StoragePart>,
    /// Only these transports. Default: all; esp-3des, whose cipher bounds it on every path, on
    /// `wire` and `wire-1ms` only.
    #[arg(long, value_delimiter = ',')]
    pub(super) transport: Vec<String>,
    /// Only these paths.
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(super) path: Vec<StoragePath>,
    /// Only these back ends. Default: all on `wire` and `tap`, memory on the other paths.
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
    /// Short tables, for a page: medians alone, transports in columns.
    #[arg(long)]
    pub(super) brief: bool,
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
        self.rounds.unwrap_or(if self.quick { 3 } else { 4 })
    }

    pub(super) fn seconds(&self) -> f64 {
        self.seconds.unwrap_or(if self.quick { 0.5 } else { 0.8 })
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

    /// The back ends that are measured on a path.
    pub(super) fn back_ends(&self, path: StoragePath) -> Vec<BackEnd> {
        let has_all = !self.quick && matches!(path, StoragePath::Wire | StoragePath::Tap);
        let all = if has_all { BackEnd::ALL.to_vec() } else { vec![BackEnd::Memory] };
        if self.back_end.is_empty() { all } else { self.back_end.clone() }
    }

    /// The transports that are measured on a path.
    ///
    /// # Errors
    /// A name that no transport has.
    pub(super) fn transports(&self, path: StoragePath) -> Result<Vec<&'static Transport>> {
        let known: Vec<&str> = TRANSPORTS.iter().map(|transport| transport.name).collect();
        if let Some(unknown) = self.transport.iter().find(|name| !known.contains(&name.as_str())) {
            bail!("`{unknown}` is no transport: say some of {}", known.join(", "));
        }
        let has_slow = matches!(path, StoragePath::Wire | StoragePath::WireOne);
        let wanted = |it: &&Transport| match &self.transport[..] {
            [] => it.name != SLOW || has_slow,
            named => named.iter().any(|name| name == it.name),
        };
        Ok(TRANSPORTS.iter().filter(wanted).collect())
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

#[cfg(test)]
pub(super) mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Words {
        #[command(flatten)]
        args: StorageArgs,
    }

    /// The arguments behind `storage`.
    pub(in super::super) fn of(words: &str) -> StorageArgs {
        Words::parse_from(["storage"].into_iter().chain(words.split_whitespace())).args
    }

    fn names(args: &StorageArgs, path: StoragePath) -> Vec<&'static str> {
        args.transports(path).expect("known ones").iter().map(|it| it.name).collect()
    }

    #[test]
    fn what_a_path_has() {
        use StoragePath::{Tap, TapOff, Wire, WireOne, WireTen};
        let all = of("");
        let has_all_ends = |path| all.back_ends(path) == BackEnd::ALL;
        assert!(has_all_ends(Wire) && has_all_ends(Tap));
        assert_eq!(all.back_ends(TapOff), [BackEnd::Memory]);
        assert_eq!(of("--quick").back_ends(Wire), [BackEnd::Memory]);
        assert_eq!(of("--back-end file").back_ends(WireTen), [BackEnd::File]);
        assert!(names(&all, WireOne).contains(&SLOW) && !names(&all, WireTen).contains(&SLOW));
        assert_eq!(names(&of("--transport esp-3des,tls"), WireTen), ["tls", SLOW]);
        let wrong = of("--transport ipsec").transports(Wire).unwrap_err().to_string();
        assert!(wrong.contains("`ipsec`") && wrong.contains("plain, tls, sealed"), "{wrong}");
    }
}
