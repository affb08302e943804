//! What is measured, and where: the machine, the build.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

use anyhow::{Context, Result};

/// Files of one line that tell a property of the machine.
const PROPERTIES: [(&str, &str); 5] = [
    ("default congestion control of the kernel", "/proc/sys/net/ipv4/tcp_congestion_control"),
    ("clock source", "/sys/devices/system/clocksource/clocksource0/current_clocksource"),
    ("frequency governor", "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
    ("highest frequency, kHz", "/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq"),
    ("simultaneous multithreading", "/sys/devices/system/cpu/smt/control"),
];

/// System, processors and their kind.
pub(crate) fn machine() -> String {
    format!("{}, {} processors, {}", system(), processors(), processor())
}

/// The kernel.
pub(crate) fn system() -> String {
    format!("Linux {}", rustix::system::uname().release().to_string_lossy())
}

/// The number of processors.
pub(crate) fn processors() -> usize {
    cpuinfo("processor").len()
}

/// Their model.
pub(crate) fn processor() -> String {
    let model = cpuinfo("model name").into_iter().next();
    model.filter(|model| !model.is_empty()).unwrap_or_else(|| "unknown".to_owned())
}

/// Whatever the kernel's default: [`Host`](crate::hosts::Host).
const KERNELS_ENDS: &str = "cubic; in paths that of a series; without root the default";

/// Further properties that change figures, as far as the system tells.
pub(crate) fn properties() -> BTreeMap<String, String> {
    let read = |(name, file): (&str, &str)| {
        let text = fs::read_to_string(file).ok()?;
        Some((name.to_owned(), text.trim().to_owned()))
    };
    let mut all: BTreeMap<String, String> = PROPERTIES.into_iter().filter_map(read).collect();
    all.insert("congestion control of Tasuki".to_owned(), "cubic".to_owned());
    all.insert("congestion control of the kernel's ends".to_owned(), KERNELS_ENDS.to_owned());
    if let Some(frequency) = cpuinfo("cpu MHz").into_iter().next() {
        all.insert("frequency at the beginning, MHz".to_owned(), frequency);
    }
    all.extend(mitigations());
    all
}

/// What the kernel does against faults of the processor that it has.
fn mitigations() -> impl Iterator<Item = (String, String)> {
    let files = fs::read_dir("/sys/devices/system/cpu/vulnerabilities").into_iter().flatten();
    files.filter_map(|file| {
        let file = file.ok()?;
        let text = fs::read_to_string(file.path()).ok()?;
        let name = format!("mitigations: {}", file.file_name().to_str()?.replace('_', " "));
        (!text.starts_with("Not affected")).then(|| (name, text.trim().to_owned()))
    })
}

/// Words of several lines on one line.
pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn cpuinfo(name: &str) -> Vec<String> {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let lines = text.lines().filter(|line| line.starts_with(name));
    lines.map(|line| line.split_once(": ").map_or("", |line| line.1).to_owned()).collect()
}

/// The version, and the commit of the source tree that the program lies in, if it lies in one.
pub(crate) fn tasuki(command: &Path) -> Result<String> {
    let output = Command::new(command).arg("--version").output();
    let output = output.with_context(|| format!("{} --version", command.display()))?;
    let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    Ok(match commit_of(command) {
        Some(commit) => format!("{version}, {commit}"),
        None => version,
    })
}

/// A program that is older than the tree's commit may be of an earlier one. Then this is told.
fn commit_of(program: &Path) -> Option<String> {
    let built = fs::metadata(program).and_then(|it| it.modified()).ok()?;
    let git = |words: &[&str]| {
        let output = Command::new("git").arg("-C").arg(program.parent()?).args(words).output();
        let output = output.ok().filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let commit = git(&["describe", "--always", "--dirty", "--exclude=*"])?;
    let seconds = git(&["log", "-1", "--format=%ct"])?.parse().ok()?;
    let older = built < UNIX_EPOCH + Duration::from_secs(seconds);
    Some(format!("{}commit {commit}", if older { "built before " } else { "" }))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn the_commit_is_that_of_the_programs_tree() {
        let tree = tempfile::tempdir().unwrap();
        let program = tree.path().join("program");
        fs::write(&program, "").unwrap();
        assert_eq!(commit_of(&program), None);
        let git = |words: &[&str]| {
            let who = ["-c", "user.name=x", "-c", "user.email=x"];
            Command::new("git").arg("-C").arg(tree.path()).args(who).args(words).output()
        };
        if git(&["init"]).is_err() {
            // The macros' output would be captured by the test runner.
            let _ = std::io::stderr().write_all(b"SKIP: git is not installed\n");
            return;
        }
        fs::write(tree.path().join("source"), "1").unwrap();
        let _ = git(&["add", "source"]).unwrap();
        let _ = git(&["commit", "--message=x"]).unwrap();
        let at = |time| fs::File::open(&program).unwrap().set_modified(time).unwrap();
        let now = SystemTime::now();
        at(now + Duration::from_secs(60));
        let commit = commit_of(&program).unwrap();
        assert!(commit.starts_with("commit ") && !commit.contains("dirty"), "{commit}");
        at(now - Duration::from_secs(60));
        assert_eq!(commit_of(&program).unwrap(), format!("built before {commit}"));
        fs::write(tree.path().join("source"), "2").unwrap();
        assert_eq!(commit_of(&program).unwrap(), format!("built before {commit}-dirty"));
    }
}
