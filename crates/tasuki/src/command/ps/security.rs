//! `tasuki ps --security`: the rights of each process.
//!
//! They are read from /proc here, not asked for: a process that lies about its rights changes
//! nothing. Landlock is not in /proc, so it is shown as the server said when it was restricted.

use std::fmt::Write as _;

use abi::control::{InstanceStatus, ProcessStatus};
use sandbox::{Measurement, capability_names, measure};
use serde::Serialize;

use crate::command::table;

/// The rights of one process; keys as in docs/reference/json.md.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct SecurityReport {
    uid: u32,
    /// In force.
    capabilities: Vec<String>,
    /// Permitted and not in force.
    permitted: Vec<String>,
    bounding: Vec<String>,
    seccomp: u32,
    no_new_privs: bool,
    landlock: Option<String>,
    /// Those that differ from the supervisor's; `None` if this user may not see them.
    namespaces: Option<Vec<&'static str>>,
    /// Layers of the sandbox that the server could not have.
    missing: Vec<String>,
}

/// The rights of all processes of an instance, in its order; `None` for one that has ended.
pub(super) fn reports(status: &InstanceStatus) -> Vec<Option<SecurityReport>> {
    let supervisor = status.processes.first().and_then(|process| measure(process.pid));
    let report = |process: &ProcessStatus| {
        let measured = measure(process.pid)?;
        Some(SecurityReport::new(process, &measured, supervisor.as_ref()))
    };
    status.processes.iter().map(report).collect()
}

impl SecurityReport {
    fn new(process: &ProcessStatus, own: &Measurement, supervisor: Option<&Measurement>) -> Self {
        let reported = process.sandbox.clone().unwrap_or_default();
        let seen = supervisor.filter(|it| !it.namespaces.is_empty() && !own.namespaces.is_empty());
        Self {
            uid: own.uid,
            capabilities: capability_names(own.effective),
            permitted: capability_names(own.permitted & !own.effective),
            bounding: capability_names(own.bounding),
            seccomp: own.seccomp,
            no_new_privs: own.no_new_privs,
            landlock: reported.landlock,
            namespaces: seen.map(|supervisor| own.namespaces_apart_from(supervisor)),
            missing: reported.missing,
        }
    }

    fn row(&self, process: &ProcessStatus) -> Vec<String> {
        let seccomp = ["none", "strict", "filter"];
        let seccomp = seccomp.get(self.seccomp as usize).copied().unwrap_or("?");
        let namespaces = match &self.namespaces {
            None => "?".to_owned(),
            Some(all) => words(all),
        };
        vec![
            role(process),
            process.pid.to_string(),
            self.uid.to_string(),
            capabilities(&self.capabilities),
            capabilities(&self.permitted),
            seccomp.to_owned(),
            if self.no_new_privs { "yes" } else { "no" }.to_owned(),
            self.landlock.clone().unwrap_or_else(|| "-".to_owned()),
            namespaces,
        ]
    }
}

/// From here on it is shorter to say "all".
const MANY: usize = 20;

fn capabilities(names: &[String]) -> String {
    match names.len() {
        MANY.. => format!("{} of them", names.len()),
        _ => words(names),
    }
}

fn words<T: AsRef<str>>(all: &[T]) -> String {
    let all: Vec<&str> = all.iter().map(AsRef::as_ref).collect();
    if all.is_empty() { "-".to_owned() } else { all.join(",") }
}

pub(super) fn role(process: &ProcessStatus) -> String {
    match process.client {
        Some(number) => format!("{} {number}", process.role),
        None => process.role.clone(),
    }
}

/// The table for people.
pub(super) fn text(status: &InstanceStatus, reports: &[Option<SecurityReport>]) -> String {
    let head = [
        "ROLE",
        "PID",
        "UID",
        "CAPABILITIES",
        "PERMITTED",
        "SECCOMP",
        "NO_NEW_PRIVS",
        "LANDLOCK",
        "NAMESPACES",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    let known = status.processes.iter().zip(reports);
    let known = known.filter_map(|(process, report)| Some((process, report.as_ref()?)));
    let known: Vec<_> = known.collect();
    rows.extend(known.iter().map(|(process, report)| report.row(process)));
    let mut text = table(&rows, &[false, true, true]);
    for (process, report) in known {
        if !report.missing.is_empty() {
            let missing = report.missing.join(", ");
            // Writing to a string does not fail.
            let _ = writeln!(text, "{} lacks: {missing}", role(process));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use abi::control::SandboxStatus;

    use super::*;

    fn process(role: &str, client: Option<u16>, sandbox: Option<SandboxStatus>) -> ProcessStatus {
        let (name, memory) = ("x".to_owned(), "-".to_owned());
        ProcessStatus { role: role.to_owned(), pid: 42, name, client, memory, sandbox }
    }

    fn measured(uid: u32, effective: u64, network: &str) -> Measurement {
        Measurement {
            uid,
            effective,
            permitted: effective | 1 << 21,
            bounding: 0,
            seccomp: 2,
            no_new_privs: true,
            namespaces: [("net", network.to_owned()), ("pid", "1".to_owned())].into(),
        }
    }

    #[test]
    fn the_table() {
        let all = measured(0, 0x1_ffff_ffff, "host");
        let server = process(
            "inet",
            None,
            Some(SandboxStatus {
                landlock: Some("v7".to_owned()),
                missing: vec!["seccomp (no)".to_owned()],
            }),
        );
        let processes =
            vec![process("supervisor", None, None), server, process("client", Some(3), None)];
        let reports = vec![
            Some(SecurityReport::new(&processes[0], &all, Some(&all))),
            Some(SecurityReport::new(&processes[1], &measured(61_184, 1, "own"), Some(&all))),
            None,
        ];
        crate::command::tests::every_key_is_documented(&reports);
        let status = InstanceStatus {
            instance: String::new(),
            mode: String::new(),
            address: String::new(),
            addresses: vec![],
            processes,
            pools: vec![],
            counters: vec![],
            histograms: vec![],
            parties: vec![],
        };
        assert_eq!(
            text(&status, &reports),
            "\
ROLE        PID    UID  CAPABILITIES  PERMITTED  SECCOMP  NO_NEW_PRIVS  LANDLOCK  NAMESPACES
supervisor   42      0  33 of them    -          filter   yes           -         -
inet         42  61184  chown         sys_admin  filter   yes           v7        net
inet lacks: seccomp (no)
"
        );
    }

    #[test]
    fn namespaces_that_this_user_may_not_see() {
        let (one, process) = (measured(0, 0, "host"), process("inet", None, None));
        let hidden = Measurement { namespaces: [].into(), ..one.clone() };
        assert_eq!(SecurityReport::new(&process, &one, Some(&hidden)).namespaces, None);
        assert_eq!(SecurityReport::new(&process, &hidden, Some(&one)).row(&process)[8], "?");
    }
}
