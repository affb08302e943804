//! Runs of `tasuki lab` for tests: a directory for them, and what their results say.

use std::fs;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::judged::judge;
use crate::process::{Finished, Running};
use crate::tools::{skip, tasuki_binary};

/// How long a run may take. It takes seconds, but the machine may be busy with other tests.
pub const LONG_RUN: Duration = Duration::from_secs(240);

/// The program that measures, which is built beside the tests.
#[must_use]
pub fn bench_binary() -> PathBuf {
    let test = std::env::current_exe().expect("the test's path");
    let folder = test.parent().and_then(Path::parent).expect("a folder above");
    folder.join("tasuki-bench")
}

/// A directory for the runs of a test.
#[derive(Debug)]
pub struct Lab {
    directory: tempfile::TempDir,
}

impl Lab {
    /// `None`, with a line: what measures is not built.
    #[must_use]
    pub fn new() -> Option<Self> {
        if !bench_binary().exists() {
            skip("tasuki-bench is not built: `cargo build -p tasuki-benches` builds it");
            return None;
        }
        Some(Self { directory: tempfile::tempdir().expect("a directory") })
    }

    /// The same, with the rights for namespaces.
    #[must_use]
    pub fn with_rights() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            skip("it makes network namespaces: needs root");
            return None;
        }
        Self::new()
    }

    /// The directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// A file of this directory.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Starts `tasuki lab WORDS`.
    #[must_use]
    pub fn start(&self, words: &str) -> Running {
        self.start_by(&["env"], words)
    }

    /// The same, by a program that runs other programs.
    #[must_use]
    pub fn start_by(&self, program: &[&str], words: &str) -> Running {
        let mut command = Command::new(program[0]);
        command.args(&program[1..]);
        command.arg(tasuki_binary()).arg("lab").args(words.split_whitespace());
        command.env("TASUKI_BENCH", bench_binary()).current_dir(self.directory.path());
        Running::start(command)
    }

    /// The same, to its end.
    #[must_use]
    pub fn run(&self, words: &str) -> Finished {
        self.start(words).finish_within(LONG_RUN)
    }

    /// Measures by a program that runs other programs, all that `words` say.
    ///
    /// # Panics
    /// When a part of it could not be measured.
    #[must_use]
    pub fn measure_by(&self, program: &[&str], words: &str) -> Value {
        let free = (0..).map(|at| format!("found-{at}")).find(|name| !self.path(name).exists());
        let out = free.expect("a free name");
        let run = self.start_by(program, &format!("{words} --out {out}"));
        let _ = run.finish_within(LONG_RUN).success();
        let results = self.results(&out);
        assert!(results["partial"].is_null(), "{words}: {}", results["partial"]);
        results
    }

    /// The same without another program. Series with effects have been measured; whether the
    /// effects show is for a reader ([`judge`]).
    #[must_use]
    pub fn measure(&self, words: &str, effects: &[Effect<'_>]) -> Value {
        let results = self.measure_by(&["env"], words);
        for effect in effects {
            effect.judge(words, &results);
        }
        results
    }

    /// The results of a run with `--out NAME`.
    #[must_use]
    pub fn results(&self, name: &str) -> Value {
        let text = fs::read(self.path(name).join("results.json")).expect("results");
        serde_json::from_slice(&text).expect("JSON")
    }
}

/// Namespaces and control groups that a run of the lab with this process id has made.
#[must_use]
pub fn left_of_run(pid: u32) -> Vec<String> {
    let names = |folder: &str| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|it| it.file_name().to_string_lossy().into_owned()).collect::<Vec<_>>()
    };
    // Behind its number each has a letter for the build of Tasuki.
    let tags = ["tl", "tb", "tasuki-lab-"].map(|kind| format!("{kind}{pid}n"));
    let all = ["/run/netns", "/sys/fs/cgroup", "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"];
    let all = all.into_iter().flat_map(names);
    all.filter(|name| tags.iter().any(|tag| name.starts_with(tag))).collect()
}

/// The set-up of Tasuki in this test run.
#[must_use]
pub fn mode() -> &'static str {
    match std::env::var("TASUKI_TEST_MODE").as_deref() {
        Ok("fused") => "fused",
        Ok("library") => "library",
        _ => "split",
    }
}

/// A figure of an experiment.
#[must_use]
pub fn figure<'a>(results: &'a Value, experiment: &str, name: &str) -> &'a Value {
    let of = |list: &'a Value, key: &str| {
        let all = list.as_array().into_iter().flatten();
        all.into_iter().find(|it| it["name"] == key)
    };
    let experiment = of(&results["experiments"], experiment).expect(experiment);
    of(&experiment["figures"], name).unwrap_or_else(|| panic!("no figure {name}: {experiment}"))
}

/// A series of a figure.
#[must_use]
pub fn series<'a>(figure: &'a Value, name: &str) -> &'a Value {
    let all = figure["series"].as_array().expect("series");
    all.iter().find(|it| it["name"] == name).unwrap_or_else(|| panic!("no {name}: {figure}"))
}

/// Place and values of each point.
#[must_use]
pub fn points(series: &Value) -> Vec<(f64, Vec<f64>)> {
    let points = series["points"].as_array().expect("points");
    let values = |point: &Value| {
        let samples = point["samples"].as_array().expect("samples");
        samples.iter().map(|sample| sample["value"].as_f64().expect("a value")).collect()
    };
    points.iter().map(|point| (point["x"].as_f64().expect("x"), values(point))).collect()
}

/// What a parameter does to a series, as the factor from the first place to the last.
#[derive(Debug, Clone, Copy)]
pub struct Effect<'a> {
    /// Experiment and figure.
    pub figure: (&'a str, &'a str),
    /// The series.
    pub series: &'a str,
    /// The factors that are expected; without bounds: the values are looked at alone.
    pub growth: (Bound<f64>, Bound<f64>),
}

impl Effect<'_> {
    /// Prints the row of the effect.
    ///
    /// # Panics
    /// When the series lacks a place or a value.
    pub fn judge(&self, words: &str, results: &Value) {
        let (experiment, name) = self.figure;
        let all = points(series(figure(results, experiment, name), self.series));
        let [(_, first), .., (_, last)] = &all[..] else { panic!("{name}: one place") };
        let values = all.iter().flat_map(|(_, values)| values);
        let whole = all.iter().all(|(_, values)| values.len() == first.len());
        let real = values.clone().all(|value| value.is_finite() && *value > 0.0);
        assert!(whole && real && !first.is_empty(), "{name} {}: {all:?}", self.series);
        let mut ratios: Vec<f64> =
            first.iter().zip(last).map(|(first, last)| last / first).collect();
        ratios.sort_by(f64::total_cmp);
        let what = format!("{words} | {name}: {}", self.series);
        judge(&what, ratios[ratios.len() / 2], self.growth);
    }
}
