//! `tasuki-bench lab`, which `tasuki lab` becomes: experiments of the papers, measured in rounds
//! until they are known well enough, with a report at the end.
//!
//! An experiment ([`experiment::LabExperiment`]) knows how one point of one set-up is measured
//! once. All else is the same for all: rounds, turns, precision and time ([`engine`]), the samples
//! ([`notebook`]), files, signals and progress ([`session`]), the state of the machine
//! ([`calibration`]). Measurements are those of the other parts of `tasuki-bench`, or run these.
//! `tasuki-bench compare` has its rounds and samples of the same engine and notebook.
//!
//! A run can be interrupted at any moment. What was measured is on the disk after each round, and
//! `--continue` goes on with it. Namespaces, devices and groups are removed by a process that
//! outlives this one ([`crate::cleanup`]).

pub(crate) mod calibration;
mod calls;
mod derived;
pub(crate) mod engine;
pub(crate) mod experiment;
#[cfg(test)]
mod figure_of;
pub(crate) mod folder;
mod frames;
mod handover;
mod loops;
pub(crate) mod notebook;
mod packets;
mod part;
mod paths;
mod peers;
mod rootless;
mod rtt;
mod scale;
mod session;
mod stages;
mod storage;
mod streams;
mod two_builds;
mod units;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Parser as _};
use lab::plan::{ExperimentName, LabOptions};
use lab::{Results, report};
use user::exit::{Code, Failure, say};

pub(crate) use self::calibration::run as calibrate;
use self::calls::PackagedCalls;
use self::engine::EngineEnd;
use self::experiment::LabExperiment;
use self::folder::{RunFolder, RunState};
use self::handover::Handovers;
use self::loops::Loops;
use self::packets::PacketTimes;
use self::paths::BadPaths;
pub(crate) use self::paths::{BadWireArgs, bad_wire};
use self::rtt::Rtt;
pub(crate) use self::rtt::{BackgroundArgs, background};
use self::scale::ManyAtOnce;
use self::session::Session;
pub(crate) use self::session::new_results;
use self::stages::SendStages;
use self::storage::DiskTransfers;
use self::streams::Streams;
use self::two_builds::TwoBuilds;
use crate::hosts::Programs;

/// The words of `lab`.
#[derive(Args)]
pub(crate) struct MeasureArgs {
    /// The `tasuki` command [default: the one beside this program].
    #[arg(long, env = "TASUKI_BIN", value_name = "TASUKI")]
    tasuki: Option<PathBuf>,
    #[command(flatten)]
    options: LabOptions,
}

/// The words of an earlier run.
#[derive(clap::Parser)]
#[command(no_binary_name = true)]
struct EarlierWords {
    #[command(flatten)]
    options: LabOptions,
}

/// The options of words behind `tasuki lab`.
#[cfg(test)]
pub(crate) fn options_of(words: &str) -> LabOptions {
    let words: Result<EarlierWords, _> = clap::Parser::try_parse_from(words.split_whitespace());
    words.expect("good words").options
}

/// Measures, and tells what went wrong in one sentence.
pub(crate) fn main(args: &MeasureArgs) -> ExitCode {
    match run(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let code = error.downcast_ref::<Failure>().map_or(Code::Internal, |it| it.code);
            say(format_args!("tasuki: {}", crate::described::one_line(&format!("{error:#}"))));
            ExitCode::from(code as u8)
        }
    }
}

/// A run, new or from before.
struct LabRun {
    options: LabOptions,
    builds: Builds,
    folder: RunFolder,
    state: RunState,
    results: Results,
}

fn run(args: &MeasureArgs) -> Result<()> {
    let tasuki = tasuki(args.tasuki.as_deref())?;
    let LabRun { options, builds, folder, state, results } = match &args.options.resume {
        Some(path) => earlier(path, &tasuki)?,
        None => new_run(&args.options, &tasuki)?,
    };
    let shown = folder.path().display().to_string();
    let mut session = Session::new(folder, state, results)?;
    let chosen = allowed(&options, &mut session)?;
    for (at, name) in chosen.iter().enumerate() {
        if session.is_over(*name) {
            continue;
        }
        let later = &chosen[at + 1..];
        let mut experiment = match made(*name, &builds, &options) {
            Ok(experiment) => experiment,
            Err(error) => {
                session.misses(format!("{}: {error:#}.", name.name()));
                continue;
            }
        };
        let end = session.measure((*name, experiment.as_mut()), &options, later)?;
        // What it has made is removed before the next one begins, and before the end.
        drop(experiment);
        if end == EngineEnd::Interrupted {
            let sentence = format!(
                "the measurement was interrupted: `tasuki lab --continue {shown}` goes on, and \
                 {shown} has what was measured"
            );
            session.end(Some(&format!("{sentence}.")))?;
            return Err(Failure::new(Code::Interrupted, sentence).into());
        }
    }
    conclude(&mut session)
}

/// Writes the report, and says what was found.
fn conclude(session: &mut Session) -> Result<()> {
    let (results, page) = session.end(None)?;
    for sentence in report::findings(&results) {
        println!("{sentence}");
    }
    for experiment in &results.experiments {
        for finding in &experiment.findings {
            println!("{}: {finding}", experiment.name);
        }
    }
    println!("\n{}", page.display());
    let missing = session.missing();
    if let Some(first) = missing.first() {
        let count = missing.len();
        let noun = if count == 1 { "thing is" } else { "things are" };
        let sentence = format!("{count} {noun} missing in the report, such as {first}");
        return Err(Failure::new(Code::Internal, sentence).into());
    }
    Ok(())
}

fn new_run(options: &LabOptions, tasuki: &Path) -> Result<LabRun> {
    options.check().map_err(|sentence| {
        Failure::new(Code::Usage, format!("{sentence}; see `tasuki lab --help`"))
    })?;
    may_measure(options)?;
    let words = words_of_options();
    let builds = Builds::new(tasuki, options)?;
    let results = builds.new_results(command(&words))?;
    let folder = RunFolder::create(options.out.as_deref())?;
    let state = RunState { words, ..RunState::default() };
    Ok(LabRun { options: options.clone(), builds, folder, state, results })
}

/// The command that measures with these words.
fn command(words: &[String]) -> String {
    [&["tasuki lab".to_owned()], words].concat().join(" ")
}

/// The words of this command line that measure the same again: not where, and with which program.
fn words_of_options() -> Vec<String> {
    let mut kept = Vec::new();
    let mut words = std::env::args().skip(2);
    while let Some(word) = words.next() {
        match &word[..] {
            "--tasuki" | "--out" => drop(words.next()),
            word if word.starts_with("--tasuki=") || word.starts_with("--out=") => {}
            _ => kept.push(word),
        }
    }
    kept
}

/// A run that goes on with the same build, on the same machine.
fn earlier(path: &Path, tasuki: &Path) -> Result<LabRun> {
    let (folder, state, results) = RunFolder::open(path)?;
    let wrong = |sentence: String| Failure::new(Code::Configuration, sentence);
    let words = EarlierWords::try_parse_from(state.words.iter().map(OsString::from));
    let shown = path.display();
    let options = words.map_err(|error| {
        wrong(format!("the words in {shown}/run.json are wrong: {}", user::clap_sentence(&error)))
    })?;
    let options = options.options;
    options.check().map_err(|sentence| wrong(format!("{shown}/run.json: {sentence}")))?;
    let builds = Builds::new(tasuki, &options)?;
    let now = builds.new_results(command(&state.words))?;
    let of = |it: &Results| -> [String; 4] {
        let before = it.made.before.clone().unwrap_or_default();
        [&it.made.tasuki, &before, &it.machine.system, &it.machine.processor].map(String::clone)
    };
    let (was, is) = (of(&results), of(&now));
    if let Some((was, is)) = was.into_iter().zip(is).find(|(was, is)| was != is) {
        let sentence = format!(
            "cannot go on with {shown}: it is of `{was}`, and this is `{is}`; `tasuki lab` begins \
             a new run"
        );
        return Err(wrong(sentence).into());
    }
    may_measure(&options)?;
    Ok(LabRun { options, builds, folder, state, results })
}

/// The `tasuki` that is measured.
fn tasuki(named: Option<&Path>) -> Result<PathBuf> {
    let me = std::env::current_exe()?;
    let beside = me.with_file_name("tasuki");
    let installed = me.parent().map(|folder| folder.join("../../bin/tasuki"));
    let all = [named.map(Path::to_path_buf), Some(beside.clone()), installed];
    let found = all.into_iter().flatten().find(|path| path.is_file());
    let found = found.ok_or_else(|| {
        let sentence = format!("{} is not there: `make build` makes it", beside.display());
        Failure::new(Code::NotFound, sentence)
    })?;
    Ok(std::path::absolute(found)?)
}

/// Why an experiment cannot be measured here with these options.
fn hindrance(name: ExperimentName, options: &LabOptions) -> Option<Failure> {
    let is_root = rustix::process::geteuid().is_root();
    if let Some(sentence) = options.of_root(name).filter(|_| !is_root) {
        return Some(Failure::new(Code::Rights, sentence));
    }
    let paths: Vec<PathBuf> = std::env::var_os("PATH")
        .map(|all| std::env::split_paths(&all).collect())
        .unwrap_or_default();
    let is_missing = |tool: &&&str| !paths.iter().any(|path| path.join(tool).is_file());
    let missing: Vec<&str> = name.tools(is_root).iter().filter(is_missing).copied().collect();
    (!missing.is_empty()).then(|| {
        let (name, missing) = (name.name(), missing.join(", "));
        let remedy = "`make deps` installs them, from iproute2, ethtool, procps, util-linux, passt";
        let sentence = format!("{name} needs {missing}, which PATH does not have: {remedy}");
        Failure::new(Code::NotFound, sentence)
    })
}

/// Fails if none can be measured.
fn may_measure(options: &LabOptions) -> Result<(), Failure> {
    let all = options.chosen().into_iter().map(|name| hindrance(name, options));
    let hindrances: Option<Vec<Failure>> = all.collect();
    match hindrances.and_then(|all| all.into_iter().next()) {
        Some(first) => Err(first),
        None => Ok(()),
    }
}

/// Those that can be measured here. The others are told.
fn allowed(options: &LabOptions, session: &mut Session) -> Result<Vec<ExperimentName>> {
    let mut allowed = Vec::new();
    for name in options.chosen() {
        match hindrance(name, options) {
            None => allowed.push(name),
            Some(failure) => session.misses(format!("{}.", failure.sentence)),
        }
    }
    Ok(allowed)
}

/// The builds that are measured.
struct Builds {
    new: Programs,
    before: Option<Programs>,
}

impl Builds {
    fn new(tasuki: &Path, options: &LabOptions) -> Result<Self> {
        let peers = options.peers.clone().unwrap_or_default();
        let before = options.before.as_ref();
        let before = before.map(|before| Programs::earlier(before, &peers)).transpose()?;
        Ok(Self { new: Programs::new(tasuki, &peers)?, before })
    }

    fn new_results(&self, command: String) -> Result<Results> {
        let before = self.before.as_ref().map(|before| &*before.tasuki);
        new_results(&self.new.tasuki, before, command)
    }
}

/// The experiment, with both builds if there are two and Tasuki is measured as a program.
fn made(
    name: ExperimentName,
    builds: &Builds,
    options: &LabOptions,
) -> Result<Box<dyn LabExperiment>> {
    let new = made_with(name, &builds.new, options)?;
    Ok(match &builds.before {
        Some(before) if name.has_builds() => {
            let words = format!(" --before {}", before.tasuki.display());
            Box::new(TwoBuilds::new(new, made_with(name, before, options)?, words))
        }
        _ => new,
    })
}

fn made_with(
    name: ExperimentName,
    programs: &Programs,
    options: &LabOptions,
) -> Result<Box<dyn LabExperiment>> {
    Ok(match name {
        ExperimentName::Throughput => Box::new(Streams::throughput(programs, options)),
        ExperimentName::Connections => Box::new(Streams::connections(programs, options)),
        ExperimentName::Handover => Box::new(Handovers::new(options)),
        ExperimentName::Stages => Box::new(SendStages::new(programs, options)),
        ExperimentName::Calls => Box::new(PackagedCalls::new(options)),
        ExperimentName::Loops => Box::new(Loops::new(options)),
        ExperimentName::Packets => Box::new(PacketTimes::new(&programs.tasuki, options)),
        ExperimentName::Paths => Box::new(BadPaths::new(programs, options)),
        ExperimentName::Scale => Box::new(ManyAtOnce::new(programs, options)?),
        ExperimentName::Storage => Box::new(DiskTransfers::new(programs, options)),
        ExperimentName::Rtt | ExperimentName::All => Box::new(Rtt::new(programs, options)?),
    })
}
