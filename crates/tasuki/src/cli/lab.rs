//! The command line of `tasuki lab`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use lab::plan::LabOptions;

/// Measure this machine and Tasuki, and show the results as a report
///
/// Repeats the experiments of the papers that Tasuki comes from, beside Linux. Rounds go on until
/// the intervals are narrow or the time is up: at most 30 minutes for all, 3 with --quick. Results
/// and report are in tasuki-lab-DATE in this directory. Ctrl-C keeps what was measured, and
/// --continue goes on. Most experiments need root, for network namespaces.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = "\
Examples:
  tasuki lab --quick                                   all experiments, 3 minutes
  tasuki lab list                                      what can be measured, and its options
  tasuki lab rtt --gateways 0,1,2 --load receiver=0..8
  tasuki lab throughput --size 1024..1048576 --rounds 10
  tasuki lab --continue tasuki-lab-2026-11-25T23-50-01
  tasuki lab throughput --before old/tasuki --time 5m  two builds, in turn
  tasuki lab open                                      the last report in a browser
  tasuki lab diff before/results.json after/results.json --bound 3%")]
pub(crate) struct LabArgs {
    #[command(subcommand)]
    pub(crate) command: Option<LabCommand>,
    #[command(flatten)]
    pub(crate) options: LabOptions,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LabCommand {
    /// Show what can be measured: experiments, their time and their options
    #[command(after_help = "Examples:\n  tasuki lab list")]
    List,
    Diff(LabDiffArgs),
    Report(LabReportArgs),
    Open(LabOpenArgs),
}

/// Show what changed between two results files, or between the two builds of one
///
/// Points of two files are compared by their ratios to the base (such as Linux) within rounds,
/// where a figure has one, and by their values otherwise. A file of `tasuki lab --before` has two
/// builds that took turns: the present build is compared with the earlier one, by their ratios
/// within rounds. That sees smaller changes, and a machine whose speed changes raises no false
/// alarm. A regression is worse by more than the bound, and significant among all points; about
/// ten rounds are needed to see one of 10 %.
///
/// Exit codes: 0 without a regression; 1 with one, or when the output fails; 2 wrong usage; 118 a
/// file cannot be read, is wrong, or has no point in common with the other.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tasuki lab diff before.json after.json
  tasuki lab diff tasuki-lab-2026-11-27T10-00-00/results.json
  tasuki lab diff before.json after.json --bound 2% --json | jq '.regressions[].series'
  tasuki lab diff monday.json today.json || echo 'slower than on Monday'")]
pub(crate) struct LabDiffArgs {
    /// The earlier results, or those of two builds
    #[arg(value_name = "BEFORE")]
    pub(crate) before: PathBuf,
    /// The later results
    #[arg(value_name = "AFTER")]
    pub(crate) after: Option<PathBuf>,
    /// By how much a figure has to be worse to count
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = bound)]
    pub(crate) bound: f64,
    /// Compare values, also where a figure has a base: only for files of a quiet machine
    #[arg(long, requires = "after")]
    pub(crate) absolute: bool,
    /// Print JSON: one object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Make a report of a results file
///
/// Writes report.html, a page with all that was found, which needs no network and no other file,
/// and beside it each figure as SVG and CSV, and as PNG if rsvg-convert is installed (package
/// librsvg2-bin). Files of an earlier report are replaced.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tasuki lab report results.json
  tasuki lab report results.json --out /tmp/today && tasuki lab open /tmp/today")]
pub(crate) struct LabReportArgs {
    /// The results
    #[arg(value_name = "RESULTS")]
    pub(crate) results: PathBuf,
    /// The directory of the report, which is made
    #[arg(long, value_name = "DIR", default_value = REPORT)]
    pub(crate) out: PathBuf,
}

/// Open a report in a browser
///
/// xdg-open (package xdg-utils) chooses the browser.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tasuki lab open
  tasuki lab open /tmp/today/report.html")]
pub(crate) struct LabOpenArgs {
    /// The page of a report, or its directory [default: the newest below this directory]
    #[arg(value_name = "REPORT")]
    pub(crate) report: Option<PathBuf>,
}

/// The directory of a report, below the current one.
pub(crate) const REPORT: &str = "report";

/// `5%`, `5` or `0.5%`, as a part of 1.
fn bound(word: &str) -> Result<f64, String> {
    let number = word.strip_suffix('%').unwrap_or(word);
    let percent = number.parse().ok().filter(|percent| (0.0..100.0).contains(percent));
    let percent: f64 = percent.ok_or("say percent from 0 to below 100, such as 5%")?;
    Ok(percent / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_percent() {
        assert_eq!(bound("5%"), Ok(0.05));
        assert_eq!(bound("0.5"), Ok(0.005));
        assert_eq!(bound("0"), Ok(0.0));
        for wrong in ["", "%", "-1", "100", "NaN", "inf", "5 %", "five"] {
            assert!(bound(wrong).is_err(), "{wrong}");
        }
    }
}
