//! Runs of `tasuki lab` for tests: a directory for them, and what their results say.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

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

    /// Measures by a program that runs other programs, and looks what is `wrong` with the results.
    /// The machine may have other work, so there are three attempts.
    ///
    /// # Panics
    /// When something is wrong with all three.
    #[must_use]
    pub fn eventually(
        &self,
        program: &[&str],
        words: &str,
        wrong: impl Fn(&Value) -> Vec<String>,
    ) -> Value {
        let mut said = Vec::new();
        for attempt in 0..3 {
            let free = (0..).map(|at| format!("found-{at}")).find(|name| !self.path(name).exists());
            let out = free.expect("a free name");
            let run = self.start_by(program, &format!("{words} --out {out}"));
            let _ = run.finish_within(LONG_RUN).success();
            let results = self.results(&out);
            assert!(results["partial"].is_null(), "{words}: {}", results["partial"]);
            let wrong = wrong(&results);
            if wrong.is_empty() {
                return results;
            }
            said.push(format!("run {attempt}: {}", wrong.join(", ")));
        }
        panic!("`{words}` has not in one of three runs what it must have: {said:#?}");
    }

    /// The results of a run with `--out NAME`.
    #[must_use]
    pub fn results(&self, name: &str) -> Value {
        let text = fs::read(self.path(name).join("results.json")).expect("results");
        serde_json::from_slice(&text).expect("JSON")
    }
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

/// The median over rounds of the ratio of the last place's value to the first place's.
#[must_use]
pub fn growth(results: &Value, (experiment, figure_name): (&str, &str), name: &str) -> f64 {
    let all = points(series(figure(results, experiment, figure_name), name));
    let [(_, first), .., (_, last)] = &all[..] else { panic!("{figure_name}: one place") };
    let mut ratios: Vec<f64> = first.iter().zip(last).map(|(first, last)| last / first).collect();
    ratios.sort_by(f64::total_cmp);
    ratios[ratios.len() / 2]
}
