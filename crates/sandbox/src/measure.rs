//! What a process may do, as /proc shows it.

use std::collections::BTreeMap;
use std::fs;

/// The kinds of namespaces, as /proc names them.
const NAMESPACES: [&str; 7] = ["cgroup", "ipc", "mnt", "net", "pid", "user", "uts"];

/// The names of capabilities, by number (capabilities(7)).
const CAPABILITIES: [&str; 41] = [
    "chown",
    "dac_override",
    "dac_read_search",
    "fowner",
    "fsetid",
    "kill",
    "setgid",
    "setuid",
    "setpcap",
    "linux_immutable",
    "net_bind_service",
    "net_broadcast",
    "net_admin",
    "net_raw",
    "ipc_lock",
    "ipc_owner",
    "sys_module",
    "sys_rawio",
    "sys_chroot",
    "sys_ptrace",
    "sys_pacct",
    "sys_admin",
    "sys_boot",
    "sys_nice",
    "sys_resource",
    "sys_time",
    "sys_tty_config",
    "mknod",
    "lease",
    "audit_write",
    "audit_control",
    "setfcap",
    "mac_override",
    "mac_admin",
    "syslog",
    "wake_alarm",
    "block_suspend",
    "audit_read",
    "perfmon",
    "bpf",
    "checkpoint_restore",
];

/// A process's rights.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Measurement {
    /// Effective user.
    pub uid: u32,
    /// Effective, permitted and bounding capabilities.
    pub effective: u64,
    /// See `effective`.
    pub permitted: u64,
    /// See `effective`.
    pub bounding: u64,
    /// 0: no filter of system calls; 1: strict; 2: a filter.
    pub seccomp: u32,
    /// It can gain no right by executing a program.
    pub no_new_privs: bool,
    /// Its namespaces by kind; a kind that the caller may not see is left out.
    pub namespaces: BTreeMap<&'static str, String>,
}

/// Reads the rights of a process; `None` when it is gone.
#[must_use]
pub fn measure(pid: u32) -> Option<Measurement> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let namespace = |kind: &'static str| {
        let link = fs::read_link(format!("/proc/{pid}/ns/{kind}")).ok()?;
        Some((kind, link.to_string_lossy().into_owned()))
    };
    let namespaces = NAMESPACES.into_iter().filter_map(namespace).collect();
    Some(Measurement { namespaces, ..parse(&status)? })
}

fn parse(status: &str) -> Option<Measurement> {
    let field = |name: &str| {
        let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.map(str::trim)
    };
    let set = |name: &str| field(name).and_then(|text| u64::from_str_radix(text, 16).ok());
    Some(Measurement {
        // Real, effective, saved, of the file system.
        uid: field("Uid")?.split_whitespace().nth(1)?.parse().ok()?,
        effective: set("CapEff")?,
        permitted: set("CapPrm")?,
        bounding: set("CapBnd")?,
        // A kernel without seccomp has no such line.
        seccomp: field("Seccomp").and_then(|text| text.parse().ok()).unwrap_or(0),
        no_new_privs: field("NoNewPrivs") == Some("1"),
        namespaces: BTreeMap::new(),
    })
}

impl Measurement {
    /// The kinds of namespaces that differ from another process's.
    #[must_use]
    pub fn namespaces_apart_from(&self, other: &Self) -> Vec<&'static str> {
        let differs =
            |kind: &&'static str| match (self.namespaces.get(kind), other.namespaces.get(kind)) {
                (Some(one), Some(other)) => one != other,
                _ => false,
            };
        NAMESPACES.into_iter().filter(differs).collect()
    }
}

/// The names of the capabilities of a set, in order of their numbers.
#[must_use]
pub fn capability_names(set: u64) -> Vec<String> {
    let name = |number: usize| {
        CAPABILITIES.get(number).map_or_else(|| number.to_string(), |name| (*name).to_owned())
    };
    (0..64).filter(|number| set >> number & 1 == 1).map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str = "Name:\tx\nUid:\t0\t61184\t0\t0\nCapInh:\t0000000000000000\n\
        CapPrm:\t0000000000003000\nCapEff:\t0000000000001000\nCapBnd:\t000001ffffffffff\n\
        NoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t1\n";

    #[test]
    fn a_status_file() {
        let read = parse(STATUS).unwrap();
        assert_eq!((read.uid, read.seccomp, read.no_new_privs), (61_184, 2, true));
        assert_eq!(capability_names(read.permitted), ["net_admin", "net_raw"]);
        assert_eq!(capability_names(read.effective), ["net_admin"]);
        assert_eq!(capability_names(read.bounding).len(), CAPABILITIES.len());
        assert_eq!(capability_names(1 << 63), ["63"]);
        assert!(parse("Uid:\t0\n").is_none());
    }

    #[test]
    fn namespaces_of_the_process_itself() {
        let own = measure(std::process::id()).unwrap();
        assert_eq!(own.namespaces_apart_from(&own), [""; 0]);
        let mut other = own.clone();
        other.namespaces.insert("net", "another".to_owned());
        other.namespaces.remove("pid");
        assert_eq!(own.namespaces_apart_from(&other), ["net"]);
    }
}
