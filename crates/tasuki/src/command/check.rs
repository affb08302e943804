//! `tasuki check`: what this system allows, and how programs will therefore run.
//!
//! Namespaces and filters cannot be taken back, so each is tried in a process of its own: this same
//! command with a hidden option. Nothing of the host is changed, so no device is made on it: of
//! those the rights are looked at.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Resource, getrlimit};
use serde::Serialize;

use super::{print, print_json, table};
use crate::cli::{Attempt, CheckArgs};
use crate::exit::{Code, Failure};
use crate::program::{self, Reach};
use crate::runtime_dir::RuntimeDir;

/// Bits of capability sets (capabilities(7)).
const NET_ADMIN: u64 = 1 << 12;
const NET_RAW: u64 = 1 << 13;

/// One thing that matters.
#[derive(Debug, Serialize)]
struct Fact {
    name: &'static str,
    /// `None`: it is only shown.
    allowed: Option<bool>,
    /// What it is, or why it is not to be had.
    detail: String,
}

/// A kind of programs, and how it runs.
#[derive(Debug, Serialize)]
struct Way {
    programs: String,
    allowed: bool,
    how: String,
}

/// The answer.
#[derive(Debug, Serialize)]
struct SystemCheck {
    facts: Vec<Fact>,
    devices: Vec<Fact>,
    programs: Vec<Way>,
}

/// Shows it.
///
/// # Errors
/// When standard output cannot be written to, or there is no such program.
pub(crate) fn check(args: &CheckArgs) -> Result<u8, Failure> {
    if let Some(attempt) = args.attempt {
        return make(attempt).map(|()| 0);
    }
    let checked = SystemCheck::new(args.program.as_deref())?;
    if args.json {
        print_json(&checked)?;
    } else {
        print(&checked.text())?;
    }
    let all = checked.programs.iter().all(|way| way.allowed);
    Ok(if all { 0 } else { Code::Rights as u8 })
}

/// Does in this process what cannot be taken back.
fn make(attempt: Attempt) -> Result<(), Failure> {
    let refused = |error: std::io::Error| Failure::new(Code::Rights, error.to_string());
    match attempt {
        Attempt::Filter => relay::filter::install().map(drop).map_err(refused),
        Attempt::UserNamespace => sandbox::begin_user().map_err(refused),
        Attempt::RelayNamespace => {
            relay::try_namespace().map_err(|why| Failure::new(Code::Rights, why))
        }
    }
}

/// Has another process do it. `Err`: why it cannot be done.
fn attempt(attempt: Attempt) -> Result<(), String> {
    let name = clap::ValueEnum::to_possible_value(&attempt);
    let name = name.map_or_else(String::new, |value| value.get_name().to_owned());
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new(own)
        .args(["check", "--attempt", &name])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.lines().last().unwrap_or("it ended without a word");
    Err(said.trim_start_matches("tasuki: ").to_owned())
}

impl Fact {
    fn shown(name: &'static str, detail: impl Into<String>) -> Self {
        Self { name, allowed: None, detail: detail.into() }
    }

    fn tried(name: &'static str, result: Result<String, String>) -> Self {
        let allowed = Some(result.is_ok());
        Self { name, allowed, detail: result.unwrap_or_else(|why| why) }
    }
}

impl SystemCheck {
    fn new(program: Option<&OsStr>) -> Result<Self, Failure> {
        let filter = attempt(Attempt::Filter);
        let namespaces = attempt(Attempt::UserNamespace);
        let relay = attempt(Attempt::RelayNamespace);
        let shim = program::preload().map_err(|failure| failure.sentence);
        let ways = ways(&filter, &relay, shim.as_ref().err());
        let programs = match program {
            Some(name) => vec![way_of(name, &ways)?],
            None => ways.into(),
        };
        let nothing = |result: Result<(), String>| result.map(|()| String::new());
        let facts = vec![
            Fact::shown("kernel", kernel()),
            Fact::shown("processors", processors()),
            Fact::shown("user", user()),
            Fact::tried("filter of system calls", nothing(filter)),
            Fact::tried("user namespaces", nothing(namespaces)),
            Fact::tried("namespace of a relay", nothing(relay)),
            Fact::tried("preloaded library", shim.map(|_| String::new())),
            Fact::tried("place of instances", place()),
            Fact::tried("/proc", proc()),
            Fact::shown("open files", limit(Resource::Nofile, 1)),
            Fact::shown("locked memory", limit(Resource::Memlock, 1024)),
            Fact::shown("address space", limit(Resource::As, 1024)),
            Fact::shown("memory of the control group", group_memory()),
        ];
        Ok(Self { facts, devices: devices(), programs })
    }

    fn text(&self) -> String {
        let rows = |title: [&str; 3], facts: &[Fact]| {
            let mut rows = vec![title.map(str::to_owned).to_vec()];
            rows.extend(facts.iter().map(|fact| {
                let allowed = fact.allowed.map_or("", |allowed| if allowed { "yes" } else { "no" });
                vec![fact.name.to_owned(), allowed.to_owned(), fact.detail.clone()]
            }));
            table(&rows, &[])
        };
        let mut programs = vec![["PROGRAMS", "NETWORK", "HOW"].map(str::to_owned).to_vec()];
        programs.extend(self.programs.iter().map(|way| {
            let allowed = if way.allowed { "yes" } else { "no" };
            vec![way.programs.clone(), allowed.to_owned(), way.how.clone()]
        }));
        [
            rows(["SYSTEM", "ALLOWED", "DETAIL"], &self.facts),
            rows(["DEVICE", "ALLOWED", "DETAIL"], &self.devices),
            table(&programs, &[]),
        ]
        .join("\n")
    }
}

/// How dynamic and other programs run.
fn ways(
    filter: &Result<(), String>,
    relay: &Result<(), String>,
    no_shim: Option<&String>,
) -> [Way; 2] {
    let way = |programs: &str, result: Result<&str, String>| Way {
        programs: programs.to_owned(),
        allowed: result.is_ok(),
        how: result.map_or_else(|why| why, str::to_owned),
    };
    let by_filter = filter.as_ref().map_err(|why| format!("no filter of system calls: {why}"));
    let by_relay = relay.as_ref().map_err(|why| format!("the relay has no sockets: {why}"));
    let by_relay = by_filter.clone().and(by_relay);
    let dynamic = match (no_shim, &by_filter, &by_relay) {
        (Some(why), ..) => Err(why.clone()),
        (None, Err(why), _) => Err(format!("{why}; `--intercept preload` runs without one")),
        (None, Ok(()), Ok(())) => Ok("by the library; its direct system calls by the relay"),
        (None, Ok(()), Err(_)) => Ok("by the library; its direct system calls have no network"),
    };
    [
        way("dynamic programs", dynamic),
        way("static programs, Go", by_relay.map(|()| "by the relay")),
    ]
}

/// How this program runs.
fn way_of(name: &OsStr, [dynamic, other]: &[Way; 2]) -> Result<Way, Failure> {
    let found = program::find(name, Reach::Filter)?;
    let kind = if found.dynamic { dynamic } else { other };
    let what = if found.dynamic { "dynamic" } else { "static" };
    let programs = format!("{} ({what})", found.path.display());
    Ok(Way { programs, allowed: kind.allowed, how: kind.how.clone() })
}

/// The devices that instances can have here.
fn devices() -> Vec<Fact> {
    let held = sandbox::measure(std::process::id()).map_or(0, |rights| rights.effective);
    let right = |wanted: u64, names: &str| match held & wanted == wanted {
        true => Ok(String::new()),
        false => Err(format!("it needs {names}")),
    };
    let tun = File::options().read(true).write(true).open("/dev/net/tun");
    let tun = tun.map(drop).map_err(|error| format!("/dev/net/tun: {error}"));
    let passt = Command::new("passt").arg("--version").output();
    let passt = match passt {
        Ok(_) if has_default_route() => Ok(String::new()),
        Ok(_) => Err("this host has no default route for it".to_owned()),
        Err(_) => Err("it is not installed: `apt install passt`".to_owned()),
    };
    let tap = tun.and_then(|()| right(NET_ADMIN, "CAP_NET_ADMIN"));
    let both = right(NET_ADMIN | NET_RAW, "CAP_NET_ADMIN and CAP_NET_RAW");
    vec![
        Fact::tried("tap:", tap),
        Fact::tried("passt:", passt),
        Fact::tried("packet:", both.clone()),
        Fact::tried("xdp:", both),
        Fact::tried("wire:", Ok(String::new())),
        Fact::tried("pcap:", Ok(String::new())),
    ]
}

/// Of either family, as passt takes its address from the interface of one.
fn has_default_route() -> bool {
    let read = |file: &str| fs::read_to_string(file).unwrap_or_default();
    let word = |line: &str, at: usize| line.split_whitespace().nth(at).map(str::to_owned);
    let v4 = read("/proc/net/route");
    let v6 = read("/proc/net/ipv6_route");
    let is_zero = |text: Option<String>| text.is_some_and(|text| text.bytes().all(|b| b == b'0'));
    let is_way = |line: &str| word(line, 9).is_some_and(|device| device != "lo");
    v4.lines().skip(1).any(|line| is_zero(word(line, 1)) && is_zero(word(line, 7)))
        || v6.lines().any(|line| is_zero(word(line, 0)) && is_zero(word(line, 1)) && is_way(line))
}

fn kernel() -> String {
    let name = rustix::system::uname();
    let text = |part: &std::ffi::CStr| part.to_string_lossy().into_owned();
    format!("{} {}, {}", text(name.sysname()), text(name.release()), text(name.machine()))
}

fn processors() -> String {
    let count = std::thread::available_parallelism();
    count.map_or_else(|error| error.to_string(), |count| count.to_string())
}

fn user() -> String {
    let user = rustix::process::geteuid();
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let whole = map.is_empty() || map.split_whitespace().eq(["0", "0", "4294967295"]);
    format!("{user}{}", if whole { "" } else { ", in a user namespace" })
}

fn place() -> Result<String, String> {
    RuntimeDir::make().map(|_| String::new()).map_err(|failure| failure.sentence)
}

fn proc() -> Result<String, String> {
    match Path::new("/proc/self/fd").exists() {
        true => Ok(String::new()),
        false => Err("it is not mounted: the relay needs it".to_owned()),
    }
}

/// A resource limit, in units of so many bytes.
fn limit(resource: Resource, unit: u64) -> String {
    let shown = |value: Option<u64>| match value {
        None => "no limit".to_owned(),
        Some(value) if unit == 1 => value.to_string(),
        Some(value) => format!("{} KiB", value / unit),
    };
    let limit = getrlimit(resource);
    match limit.current == limit.maximum {
        true => shown(limit.current),
        false => format!("{}, at most {}", shown(limit.current), shown(limit.maximum)),
    }
}

/// What the process's own group may have (cgroups version 2).
fn group_memory() -> String {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let own = groups.lines().find_map(|line| line.strip_prefix("0::"));
    let most = own.map(|own| format!("/sys/fs/cgroup{}/memory.max", own.trim_end_matches('/')));
    let most = most.and_then(|file| fs::read_to_string(file).ok());
    match most.as_deref().map(str::trim).map(|text| text.parse::<u64>()) {
        None | Some(Err(_)) => "no limit".to_owned(),
        Some(Ok(bytes)) => format!("{} KiB", bytes / 1024),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_lack_is_named_where_it_matters() {
        let (ok, no) = (Ok(()), Err("of a reason".to_owned()));
        let told = |filter: &Result<(), String>, relay: &Result<(), String>, shim| {
            ways(filter, relay, shim).map(|way| (way.allowed, way.how))
        };
        let [dynamic, other] = told(&ok, &ok, None);
        assert_eq!((dynamic.0, other), (true, (true, "by the relay".to_owned())));
        let [dynamic, other] = told(&ok, &no, None);
        assert!(dynamic.0 && dynamic.1.contains("no network"), "{dynamic:?}");
        assert_eq!(other, (false, "the relay has no sockets: of a reason".to_owned()));
        let [dynamic, other] = told(&no, &no, None);
        assert!(!dynamic.0 && dynamic.1.contains("--intercept preload"), "{dynamic:?}");
        assert!(!other.0 && other.1.contains("no filter"), "{other:?}");
        let missing = "no library".to_owned();
        assert_eq!(told(&ok, &ok, Some(&missing))[0], (false, missing));
    }

    #[test]
    fn the_tables() {
        let facts = vec![
            Fact::shown("processors", "2"),
            Fact::tried("user namespaces", Err("refused".to_owned())),
        ];
        let devices = vec![Fact::tried("tap:", Ok(String::new()))];
        let programs = ways(&Ok(()), &Ok(()), None).into();
        let checked = SystemCheck { facts, devices, programs };
        let expected = "\
SYSTEM           ALLOWED  DETAIL
processors                2
user namespaces  no       refused

DEVICE  ALLOWED  DETAIL
tap:    yes

PROGRAMS             NETWORK  HOW
dynamic programs     yes      by the library; its direct system calls by the relay
static programs, Go  yes      by the relay
";
        assert_eq!(checked.text(), expected);
        crate::command::tests::every_key_is_documented(&checked);
    }
}
