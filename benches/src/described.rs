//! What is measured, and where: the machine, the build.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

/// Files of one line that tell a property of the machine.
const PROPERTIES: [(&str, &str); 5] = [
    ("congestion control of the kernel", "/proc/sys/net/ipv4/tcp_congestion_control"),
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

/// Further properties that change figures, as far as the system tells.
pub(crate) fn properties() -> BTreeMap<String, String> {
    let read = |(name, file): (&str, &str)| {
        let text = fs::read_to_string(file).ok()?;
        Some((name.to_owned(), text.trim().to_owned()))
    };
    let mut all: BTreeMap<String, String> = PROPERTIES.into_iter().filter_map(read).collect();
    all.insert("congestion control of Tasuki".to_owned(), "cubic".to_owned());
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

/// The version, and the commit if it is known.
pub(crate) fn tasuki(command: &Path) -> Result<String> {
    let output = Command::new(command).arg("--version").output();
    let output = output.with_context(|| format!("{} --version", command.display()))?;
    let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let commit = Command::new("git").args(["rev-parse", "--short", "HEAD"]).output();
    let commit = commit.ok().filter(|output| output.status.success());
    Ok(commit.map_or(version.clone(), |output| {
        format!("{version}, commit {}", String::from_utf8_lossy(&output.stdout).trim())
    }))
}
