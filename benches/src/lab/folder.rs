//! The directory of a run: `results.json`, the report, and `run.json`, by which an interrupted run
//! goes on.
//!
//! Each file is written beside its place and then renamed, so a reader sees the old one or the new
//! one, and a full disk costs at most the last round.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::Result;
use lab::{MOST_FILE_BYTES, Results, report};
use serde::{Deserialize, Serialize};
use user::exit::{Code, Failure};
use user::whole_file::replace;

const RESULTS: &str = "results.json";
const RUN: &str = "run.json";

/// What a run has to know of an earlier one, besides the samples.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunState {
    /// The words behind `tasuki lab`.
    pub(crate) words: Vec<String>,
    /// Seconds that each experiment was measured.
    pub(crate) spent: BTreeMap<String, f64>,
    /// Experiments that are over.
    pub(crate) over: Vec<String>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct RunFolder {
    path: PathBuf,
}

impl RunFolder {
    /// Makes the directory, which has no results yet.
    pub(crate) fn create(path: Option<&Path>) -> Result<Self> {
        let path = path.map_or_else(default_name, Path::to_path_buf);
        if path.join(RESULTS).exists() {
            let shown = path.display();
            let sentence = format!(
                "{shown} has results already: go on with `tasuki lab --continue {shown}`, or \
                 choose another directory with --out"
            );
            return Err(Failure::new(Code::InUse, sentence).into());
        }
        fs::create_dir_all(&path).map_err(|error| Failure::output(path.display(), error))?;
        Ok(Self { path })
    }

    /// Opens that of an earlier run.
    pub(crate) fn open(path: &Path) -> Result<(Self, RunState, Results)> {
        let wrong = |name: &str, why: String| {
            let file = path.join(name);
            let sentence = format!(
                "cannot go on with {}: {}: {why}; `tasuki lab` begins a new run",
                path.display(),
                file.display()
            );
            Failure::new(Code::Configuration, sentence)
        };
        let read = |name: &str| {
            let text = fs::metadata(path.join(name)).and_then(|found| {
                if found.len() > MOST_FILE_BYTES as u64 {
                    return Err(io::Error::other("it is too long"));
                }
                fs::read(path.join(name))
            });
            text.map_err(|error| wrong(name, error.to_string()))
        };
        let state = serde_json::from_slice(&read(RUN)?);
        let state: RunState = state.map_err(|error| wrong(RUN, error.to_string()))?;
        let results = Results::parse(&read(RESULTS)?);
        let results = results.map_err(|error| wrong(RESULTS, error.to_string()))?;
        Ok((Self { path: path.to_path_buf() }, state, results))
    }

    /// The directory.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes what there is.
    pub(crate) fn write(&self, results: &Results, state: &RunState) -> Result<()> {
        self.replace(RESULTS, &serde_json::to_vec(results)?)?;
        self.replace(RUN, &serde_json::to_vec(state)?)
    }

    /// Writes the report, and returns the paths of the page and of all plots.
    pub(crate) fn report(&self, results: &Results) -> Result<(PathBuf, Vec<PathBuf>)> {
        let mut plots = Vec::new();
        for file in report::files(results) {
            self.replace(&file.name, file.content.as_bytes())?;
            plots.extend(file.is_plot().then(|| self.path.join(&file.name)));
        }
        Ok((self.path.join(report::PAGE), plots))
    }

    fn replace(&self, name: &str, content: &[u8]) -> Result<()> {
        Ok(replace(&self.path.join(name), content)?)
    }
}

/// `tasuki-lab-2026-11-25T23-50-01`, in UTC.
fn default_name() -> PathBuf {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    PathBuf::from(format!("tasuki-lab-{}", date(since.unwrap_or_default())))
}

/// Date and time of so long after the beginning of 1970.
fn date(since: Duration) -> String {
    let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    let is_leap = |year: u64| {
        (year.is_multiple_of(4) && !year.is_multiple_of(100)) || year.is_multiple_of(400)
    };
    let (mut year, mut left) = (1970, days);
    while left >= 365 + u64::from(is_leap(year)) {
        left -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 1;
    for length in lengths {
        if left < length {
            break;
        }
        left -= length;
        month += 1;
    }
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year}-{month:02}-{:02}T{hour:02}-{minute:02}-{second:02}", left + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let said = [0, 951_782_400, 1_795_564_799, 4_107_542_400]
            .map(|seconds| date(Duration::from_secs(seconds)));
        assert_eq!(
            said,
            [
                "1970-01-01T00-00-00",
                "2000-02-29T00-00-00",
                "2026-11-24T23-59-59",
                "2100-03-01T00-00-00"
            ]
        );
    }
}
