//! Runs packetdrill scripts with the real packetdrill against the plug-in: `make conformance`.
//!
//! Prints a line for each script, `pass`, `FAIL` with packetdrill's complaint, or `skip` with the
//! reason, and the sum. Exit code 0 if none has failed, 1 if one has, 2 if nothing could be run.
#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use std::{env, fs, io};

const USAGE: &str = "\
usage: conformance [--json] [--kernel] [--ip=ipv4|ipv6|ipv4-mapped-ipv6]
                   [--packetdrill=BINARY] [--plugin=LIBRARY] SCRIPT-OR-FOLDER...

  --kernel   run against this machine's kernel, in a network namespace (root)
  BINARY     packetdrill; default: $PACKETDRILL, or `packetdrill` on PATH
  LIBRARY    libtasuki_packetdrill.so; default: beside this program";

/// What no stack but the kernel's own can have, as far as scripts name it.
const KERNEL_ONLY: &[(&str, &str)] = &[
    ("MSG_ZEROCOPY", "zero-copy notices come from the kernel's error queue"),
    ("SO_TIMESTAMPING", "time stamps come from the kernel's error queue"),
    ("MSG_ERRQUEUE", "the kernel's error queue"),
    ("psp_", "PSP is the kernel's"),
    ("/proc/net/tcp", "looks for sockets in the kernel's tables"),
    ("nstat", "looks at the kernel's counters"),
    ("pfifo limit 0", "a queueing discipline that drops what the host itself sends"),
    ("qdisc replace dev tun0 root fq", "pacing by the kernel's queueing discipline"),
];

/// Longest time of one script, by the machine's clock.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug, Default)]
struct Options {
    json: bool,
    kernel: bool,
    ip: String,
    packetdrill: PathBuf,
    plugin: PathBuf,
    scripts: Vec<PathBuf>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Outcome {
    Pass,
    Fail(String),
    Skip(String),
}

fn main() -> ExitCode {
    match options().and_then(|options| run(&options)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("conformance: {error}");
            ExitCode::from(2)
        }
    }
}

fn options() -> Result<Options, String> {
    let mut options = Options { ip: "ipv4".to_owned(), ..Options::default() };
    options.packetdrill = env::var_os("PACKETDRILL")
        .filter(|value| !value.is_empty())
        .map_or_else(|| PathBuf::from("packetdrill"), PathBuf::from);
    let beside = env::current_exe().map_err(|error| error.to_string())?;
    options.plugin = beside.with_file_name("libtasuki_packetdrill.so");
    for argument in env::args().skip(1) {
        match argument.split_once('=') {
            Some(("--ip", value)) => options.ip = value.to_owned(),
            Some(("--packetdrill", value)) => options.packetdrill = value.into(),
            Some(("--plugin", value)) => options.plugin = value.into(),
            _ if argument == "--json" => options.json = true,
            _ if argument == "--kernel" => options.kernel = true,
            _ if argument.starts_with('-') => return Err(format!("{argument}?\n{USAGE}")),
            _ => options.scripts.push(argument.into()),
        }
    }
    if options.scripts.is_empty() {
        return Err(format!("no scripts\n{USAGE}"));
    }
    find_program(&mut options.packetdrill)?;
    if !options.kernel && !options.plugin.exists() {
        return Err(format!("{} is not there: build the plug-in", options.plugin.display()));
    }
    options.plugin = fs::canonicalize(&options.plugin).unwrap_or(options.plugin);
    Ok(options)
}

/// Makes `program` a path, looking along PATH.
fn find_program(program: &mut PathBuf) -> Result<(), String> {
    let name = program.clone();
    let places = env::var_os("PATH").unwrap_or_default();
    let found = match name.components().count() {
        1 => env::split_paths(&places).map(|folder| folder.join(&name)).find(|path| path.exists()),
        _ => fs::canonicalize(&name).ok(),
    };
    *program = found.ok_or_else(|| {
        format!(
            "{} is not there. packetdrill: https://github.com/google/packetdrill",
            name.display()
        )
    })?;
    Ok(())
}

/// All scripts below the places given, in order.
fn find(places: &[PathBuf]) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut waiting: VecDeque<PathBuf> = places.iter().cloned().collect();
    while let Some(place) = waiting.pop_front() {
        if place.is_dir() {
            for entry in fs::read_dir(&place)? {
                let path = entry?.path();
                if path.is_dir() || path.extension().is_some_and(|end| end == "pkt") {
                    waiting.push_back(path);
                }
            }
        } else {
            found.push(fs::canonicalize(&place)?);
        }
    }
    found.sort();
    Ok(found)
}

fn run(options: &Options) -> Result<bool, String> {
    let scripts = find(&options.scripts).map_err(|error| error.to_string())?;
    if scripts.is_empty() {
        return Err("there are no scripts (*.pkt)".to_owned());
    }
    let next = AtomicUsize::new(0);
    let outcomes: Mutex<Vec<Option<Outcome>>> = Mutex::new(vec![None; scripts.len()]);
    let workers = thread::available_parallelism().map_or(1, usize::from);
    // The kernel's time is real time: scripts beside each other make each other late.
    let workers = if options.kernel { 1 } else { workers };
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(script) = scripts.get(number) else { return };
                    let outcome = judge(options, script);
                    let mut outcomes = outcomes.lock().expect("no thread panics with it");
                    if !options.json {
                        eprint!("\r{}/{} ", number + 1, scripts.len());
                    }
                    outcomes[number] = Some(outcome);
                }
            });
        }
    });
    eprintln!();
    let outcomes = outcomes.into_inner().expect("all threads are over");
    Ok(report(options, &scripts, outcomes))
}

fn report(options: &Options, scripts: &[PathBuf], outcomes: Vec<Option<Outcome>>) -> bool {
    let root = common_folder(scripts);
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for (script, outcome) in scripts.iter().zip(outcomes.into_iter().flatten()) {
        let name = script.strip_prefix(&root).unwrap_or(script).display().to_string();
        let (word, why) = match outcome {
            Outcome::Pass => ("pass", String::new()),
            Outcome::Fail(why) => ("fail", why),
            Outcome::Skip(why) => ("skip", why),
        };
        *match word {
            "pass" => &mut passed,
            "fail" => &mut failed,
            _ => &mut skipped,
        } += 1;
        let colon = if why.is_empty() { "" } else { ": " };
        if options.json {
            let line = serde_json::json!({"script": name, "outcome": word, "reason": why});
            println!("{line}");
        } else {
            println!("{} {name}{colon}{why}", if word == "fail" { "FAIL" } else { word });
        }
    }
    if options.json {
        let line = serde_json::json!({"passed": passed, "failed": failed, "skipped": skipped});
        println!("{line}");
    } else {
        println!("{passed} passed, {failed} failed, {skipped} skipped");
    }
    failed == 0
}

/// The longest folder that all scripts are below.
fn common_folder(scripts: &[PathBuf]) -> PathBuf {
    let mut folder = scripts[0].parent().unwrap_or(Path::new("/")).to_owned();
    while !scripts.iter().all(|script| script.starts_with(&folder)) && folder.pop() {}
    folder
}

/// Runs one script.
fn judge(options: &Options, script: &Path) -> Outcome {
    let text = fs::read(script).map(|text| String::from_utf8_lossy(&text).into_owned());
    let text = match text {
        Ok(text) => text,
        Err(error) => return Outcome::Fail(error.to_string()),
    };
    let name = script.to_string_lossy();
    let other_family = match &options.ip[..] {
        "ipv6" => name.ends_with("v4.pkt"),
        _ => name.ends_with("v6.pkt") || text.contains("--ip_version=ipv6"),
    };
    if other_family {
        return Outcome::Skip(format!("not for {}", options.ip));
    }
    if !options.kernel
        && let Some((_, why)) = KERNEL_ONLY.iter().find(|(word, _)| text.contains(word))
    {
        return Outcome::Skip((*why).to_owned());
    }
    match execute(options, script, &text) {
        Ok(outcome) => outcome,
        Err(error) => Outcome::Fail(error.to_string()),
    }
}

/// What scripts take for granted, by packetdrill's own convention.
fn arguments(options: &Options) -> Vec<String> {
    let (level, cookie, addresses): (&str, &str, &[&str]) = match &options.ip[..] {
        "ipv6" => (
            "IPV6",
            "c1d1e9742a47a9bc",
            &[
                "--mtu=1520",
                "--local_ip=fd3d:0a0b:17d6::1",
                "--gateway_ip=fd3d:0a0b:17d6:8888::1",
                "--remote_ip=fd3d:fa7b:d17d::1",
            ],
        ),
        ip => (
            if ip == "ipv4" { "IP" } else { "IPV6" },
            "3021b9d889017eeb",
            &[
                "--local_ip=192.168.0.1",
                "--gateway_ip=192.168.0.1",
                "--netmask_ip=255.255.0.0",
                "--remote_ip=192.0.2.1",
                "-D",
                "CODE=host_unreachable",
            ],
        ),
    };
    let mut all = vec!["--send_omit_free".to_owned(), format!("--ip_version={}", options.ip)];
    all.extend(addresses.iter().map(|&argument| argument.to_owned()));
    for definition in [
        format!("TFO_COOKIE={cookie}"),
        format!("CMSG_LEVEL_IP=SOL_{level}"),
        format!("CMSG_TYPE_RECVERR={level}_RECVERR"),
    ] {
        all.extend(["-D".to_owned(), definition]);
    }
    all
}

fn execute(options: &Options, script: &Path, text: &str) -> io::Result<Outcome> {
    let folder = tempfile::tempdir()?;
    let said = folder.path().join("said");
    let mut command = match options.kernel {
        true => {
            let mut command = Command::new("unshare");
            let and_then = "ip link set lo up && exec \"$@\"";
            command.args(["--net", "sh", "-c", and_then, "sh"]).arg(&options.packetdrill);
            command
        }
        false => {
            let mut command = Command::new(&options.packetdrill);
            command.env("LD_PRELOAD", &options.plugin);
            command.arg(format!("--so_filename={}", options.plugin.display()));
            if options.ip == "ipv6" {
                command.arg("--so_flags=mtu=1520,local=fd3d:a0b:17d6::1");
            }
            command
        }
    };
    // What a script sets itself is not set again: the command line would win.
    let own = |argument: &String| match argument.split_once('=') {
        Some((name, _)) if name.starts_with("--") => text.contains(&format!("{name}=")),
        _ => false,
    };
    command
        .args(arguments(options).iter().filter(|argument| !own(argument)))
        .arg(script.file_name().unwrap_or_default());
    command.current_dir(script.parent().unwrap_or(Path::new("/")));
    command.env("TMPDIR", folder.path()).stdin(Stdio::null());
    command.stdout(fs::File::create(&said)?).stderr(fs::File::options().append(true).open(&said)?);
    let mut child = command.spawn()?;
    let begin = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if begin.elapsed() > PATIENCE {
            child.kill()?;
            child.wait()?;
            return Ok(Outcome::Fail(format!("no end after {} s", PATIENCE.as_secs())));
        }
        thread::sleep(Duration::from_millis(5));
    };
    let said = String::from_utf8_lossy(&fs::read(&said)?).into_owned();
    Ok(if status.success() { Outcome::Pass } else { Outcome::Fail(complaint(&said)) })
}

/// The first lines of what packetdrill says, in one.
fn complaint(said: &str) -> String {
    let lines: Vec<&str> =
        said.lines().filter(|line| !line.trim().is_empty() && !line.contains("warning")).collect();
    let first = lines.iter().position(|line| line.contains(".pkt:")).unwrap_or(0);
    let all: Vec<&str> = lines.iter().skip(first).take(3).map(|line| line.trim()).collect();
    if all.is_empty() { "it failed and said nothing".to_owned() } else { all.join(" | ") }
}
