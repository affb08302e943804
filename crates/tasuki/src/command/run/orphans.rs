//! Whether processes that outlive their parent are collected when they end.
//!
//! `tasuki run --net` becomes its program, so its relay is an orphan that ends after it. Process 1
//! collects orphans. In many containers it is some program that waits for its own children at most:
//! each relay would stay there as a zombie. Then `tasuki run` stays beside its program.
//!
//! No process can ask another one whether it waits for orphans. The process 1 that the kernel
//! starts does: a system would fill up without. In other process namespaces the programs that are
//! known to do so are listed. With any other one, `tasuki run` stays in vain at worst.

use std::fs;

/// The process namespace that the kernel starts with (its `PROC_PID_INIT_INO`).
const FIRST_NAMESPACE: &str = "pid:[4026531836]";

/// What process 1 is called where it waits for orphans: system managers, small ones for containers,
/// and shells.
const COLLECTORS: [&str; 19] = [
    "systemd",
    "init",
    "tini",
    "tini-static",
    "docker-init",
    "podman-init",
    "catatonit",
    "dumb-init",
    "s6-svscan",
    "runit",
    "openrc-init",
    "supervisord",
    "busybox",
    "bwrap",
    "pause",
    "sh",
    "bash",
    "dash",
    "ash",
];

/// Is an orphan collected when it ends?
pub(super) fn are_collected() -> bool {
    // Process 1 itself is this one: the relay ends with it.
    let is_first = std::process::id() == 1;
    // systemd and the like find their program by its number.
    let is_expected = std::env::var("LISTEN_PID") == Ok(std::process::id().to_string());
    is_first || is_expected || is_in_first_namespace() || process_1_collects()
}

fn is_in_first_namespace() -> bool {
    fs::read_link("/proc/self/ns/pid").is_ok_and(|name| name.as_os_str() == FIRST_NAMESPACE)
}

fn process_1_collects() -> bool {
    let read = |name| fs::read_to_string(format!("/proc/1/{name}"));
    // Without /proc nothing is known, and this process becomes the program, as usual.
    let (Ok(name), Ok(status)) = (read("comm"), read("status")) else { return true };
    collects(name.trim_end(), &status)
}

/// `status`: the text of /proc/PID/status.
fn collects(name: &str, status: &str) -> bool {
    COLLECTORS.contains(&name) || ignores_children(status)
}

/// The children of a process that ignores SIGCHLD leave nothing.
fn ignores_children(status: &str) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask & 1 << (signal_hook::consts::SIGCHLD - 1) != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_programs_and_ignored_signals() {
        let status = |mask| format!("Name:\tx\nSigIgn:\t{mask:016x}\nSigCgt:\t0\n");
        assert!(collects("systemd", &status(0)) && collects("tini", ""));
        assert!(!collects("python3", &status(0)) && !collects("node", ""));
        assert!(collects("python3", &status(1 << 16)));
        assert!(!collects("python3", &status(1 << 15 | 1 << 17)));
    }
}
