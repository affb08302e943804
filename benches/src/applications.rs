//! `tasuki-bench applications`: the benchmarks that programs bring along, on Tasuki and on the
//! kernel, in one run.
//!
//! The measured end is on Tasuki, as client or as server. The other end is a kernel program. The
//! kernel's set-up has its own TCP at both ends, over a veth pair with its default offloads. So one
//! kernel measurement is the base of both roles. Tasuki's ends meet the kernel over a TAP device.
//!
//! Each round starts the servers of one program in all set-ups. Then set-ups take turns measurement
//! by measurement, as in `compare`. A program that is not installed is named and left out. A
//! measurement that fails is reported with the program's last lines, and all others go on.

mod measurements;
mod outputs;
mod ports;
mod process;
mod row;
mod servers;
mod table;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;

use self::measurements::{ClientWords, Measurement};
use self::row::{Application, ApplicationRow};
use self::servers::ApplicationServer;
use crate::cleanup::CleanUp;
use crate::hosts::{Ends, Programs};
use crate::machine::Watch;
use crate::progress::Progress;
use crate::setup::{Build, Role, Setup};

const EXAMPLES: &str = "\
Examples:
  tasuki-bench applications                              everything, about 20 minutes
  tasuki-bench applications --only iperf3,redis          two programs
  tasuki-bench applications --only nginx --case close    measurements with `close` in their names
  tasuki-bench applications --role server --setup split  servers on Tasuki beside the kernel's
  tasuki-bench applications --list                       all programs and measurements";

/// What `applications` runs.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ApplicationsArgs {
    /// The `tasuki` command.
    #[arg(long, env = "TASUKI_BIN", default_value = "target/release/tasuki")]
    tasuki: PathBuf,
    /// Rounds, in which all set-ups take turns; medians are over them.
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
    /// Only these programs.
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Application>,
    /// Only measurements whose title contains this text; may be repeated.
    #[arg(long, value_name = "TEXT")]
    case: Vec<String>,
    /// Set-ups beside the kernel's.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "split,fused")]
    setup: Vec<Setup>,
    /// Tasuki's roles.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "client,server")]
    role: Vec<Role>,
    /// Give each end one processor: the measured end, with all of Tasuki, the first. Otherwise the
    /// scheduler places everything.
    #[arg(long)]
    pinned: bool,
    /// Print the titles of all measurements, and measure nothing.
    #[arg(long)]
    list: bool,
    /// All figures as JSON instead of tables.
    #[arg(long)]
    json: bool,
}

/// Measures.
pub(crate) fn run(args: &ApplicationsArgs) -> Result<()> {
    let chosen = chosen(args);
    if args.list {
        for measurement in &chosen {
            println!("{}: {}", measurement.application.name(), measurement.title);
        }
        return Ok(());
    }
    let tasuki = &args.tasuki;
    ensure!(tasuki.exists(), "{} is not there: `make build` makes it", tasuki.display());
    for setup in &args.setup {
        let fits = setup.base() == Setup::LinuxOn && setup.has(Role::Server);
        ensure!(fits, "{} is no set-up for programs beside linux-on", setup.title());
    }
    let chosen = installed(chosen);
    ensure!(!chosen.is_empty(), "no measurement is left; --list shows all");
    let folder = Folder::new()?;
    let (mut rows, mut failures) = (Vec::new(), Vec::new());
    let ends = ends_of(args);
    let mut progress = Progress::new(args.rounds as usize * chosen.len() * ends.len());
    for round in 0..args.rounds {
        for application in Application::ALL {
            let of_it: Vec<&Measurement> =
                chosen.iter().filter(|it| it.application == application).collect();
            if of_it.is_empty() {
                continue;
            }
            let run = Round { args, folder: &folder.path, round, progress: &mut progress };
            run.measure(application, &of_it, &ends, &mut rows, &mut failures);
        }
    }
    if args.json {
        println!("{}", serde_json::to_string_pretty(&rows)?);
    } else {
        print!("{}", table::markdown(&rows));
    }
    if !failures.is_empty() {
        bail!("{} measurements failed:\n{}", failures.len(), failures.join("\n"));
    }
    Ok(())
}

/// The measurements that the arguments name.
fn chosen(args: &ApplicationsArgs) -> Vec<Measurement> {
    let mut all = measurements::all(&measurements::congestions());
    all.retain(|it| args.only.is_empty() || args.only.contains(&it.application));
    all.retain(|it| {
        args.case.is_empty() || args.case.iter().any(|text| it.title.contains(text.as_str()))
    });
    all
}

/// Leaves out programs that are not installed, each with a sentence.
fn installed(mut measurements: Vec<Measurement>) -> Vec<Measurement> {
    for application in Application::ALL {
        let wanted = measurements.iter().any(|it| it.application == application);
        let missing = if wanted { servers::missing(application) } else { Vec::new() };
        if !missing.is_empty() {
            let (name, missing) = (application.name(), missing.join(" and "));
            eprintln!("{name} is left out: {missing} is not installed.");
            measurements.retain(|it| it.application != application);
        }
    }
    measurements
}

/// The set-ups and roles, the kernel's first.
fn ends_of(args: &ApplicationsArgs) -> Vec<(Setup, Role)> {
    let ours = args.role.iter().flat_map(|role| args.setup.iter().map(|setup| (*setup, *role)));
    let ours = ours.filter(|(setup, _)| *setup != Setup::LinuxOn);
    [(Setup::LinuxOn, Role::Client)].into_iter().chain(ours).collect()
}

/// The files of this run.
struct Folder {
    path: PathBuf,
    _clean_up: CleanUp,
}

impl Folder {
    fn new() -> Result<Self> {
        let path = std::env::temp_dir().join(format!("tb{}-applications", std::process::id()));
        let _clean_up = CleanUp::new(&[], std::slice::from_ref(&path))?;
        fs::create_dir(&path).with_context(|| path.display().to_string())?;
        // Some servers run as other users.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        Ok(Self { path, _clean_up })
    }
}

/// One round of one program.
struct Round<'a> {
    args: &'a ApplicationsArgs,
    folder: &'a Path,
    round: u32,
    progress: &'a mut Progress,
}

/// The ends of a set-up with a running server.
struct Serving {
    server: ApplicationServer,
    ends: Ends,
}

impl Round<'_> {
    fn measure(
        self,
        application: Application,
        measurements: &[&Measurement],
        ends: &[(Setup, Role)],
        rows: &mut Vec<ApplicationRow>,
        failures: &mut Vec<String>,
    ) {
        let mut fail = |what: &str, error: &anyhow::Error| {
            let failure = format!("round {}: {what}: {error:#}", self.round + 1);
            eprintln!("FAILED {failure}");
            failures.push(failure);
        };
        let mut serving = Vec::new();
        for &(setup, role) in ends {
            match self.serve(application, setup, role) {
                Ok(one) => serving.push(one),
                Err(error) => {
                    let what = format!("{} server, {setup:?} {role:?}", application.name());
                    fail(&what, &error);
                }
            }
        }
        for measurement in measurements {
            // In every other round another one is first.
            let last = serving.len();
            let turn = |at: usize| if self.round.is_multiple_of(2) { at } else { last - 1 - at };
            for at in (0..last).map(turn) {
                let what = format!("{} {}", application.name(), measurement.title);
                let what = format!("{what}: {}", serving[at].ends.title());
                let (round, rounds) = (self.round + 1, self.args.rounds);
                self.progress.say(&format!("round {round} of {rounds}: {what}"));
                match self.one(measurement, &mut serving[at]) {
                    Ok(more) => rows.extend(more),
                    Err(error) => fail(&what, &error),
                }
            }
        }
    }

    fn serve(&self, application: Application, setup: Setup, role: Role) -> Result<Serving> {
        let programs = Programs {
            tasuki: self.args.tasuki.clone(),
            native: std::env::current_exe()?,
            peers: PathBuf::new(),
            build: Build::New,
        };
        let ends = Ends::new(setup, role, &programs, self.args.pinned)?;
        let server = ApplicationServer::start(application, &ends, self.folder)?;
        Ok(Serving { server, ends })
    }

    /// One measurement of one set-up.
    fn one(&self, measurement: &Measurement, serving: &mut Serving) -> Result<Vec<ApplicationRow>> {
        let Serving { server, ends } = serving;
        if let Some(congestion) = measurement.congestion {
            ends.set_congestion(congestion)?;
        }
        let words = (measurement.words)(&ClientWords {
            server: ends.server_address(),
            seconds: self.args.seconds,
            file: &self.folder.join("client.log").to_string_lossy(),
        });
        let mut command = ends.command(Role::Client, servers::limits(measurement.application))?;
        command.args(&words);
        let patience = PATIENCE + Duration::from_secs(u64::from(self.args.seconds));
        let watch = Watch::new()?;
        let said = process::output_of(&mut command, self.folder, patience);
        let machine = watch.end()?;
        let said = said.map_err(|error| match server.last_words() {
            Some(words) => error.context(format!("its server ended: {words}")),
            None => error,
        })?;
        let readings = (measurement.parse)(&said)
            .with_context(|| format!("{} printed: {}", words[0], process::last_lines(&said)))?;
        let (setup, role, round) = (ends.setup(), ends.role(), self.round);
        let row = |reading| ApplicationRow {
            application: measurement.application,
            measurement: measurement.title.clone(),
            setup,
            role,
            round,
            reading,
            machine,
        };
        Ok(readings.into_iter().map(row).collect())
    }
}

/// The most time for a client beside its own seconds.
const PATIENCE: Duration = Duration::from_secs(40);
