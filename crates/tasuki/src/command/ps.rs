//! `tasuki ps`: processes, memory and counters of instances.

mod security;

use std::fmt::Write;

use abi::control::{ClientReply, ClientRequest, InstanceStatus};
use serde::Serialize;

use self::security::SecurityReport;
use super::{print, print_json, table};
use crate::cli::PsArgs;
use crate::exit::{self, Failure};
use crate::operator::Operator;

/// Shows one instance, or all of this user.
///
/// # Errors
/// When the named instance does not run.
pub(crate) fn ps(args: &PsArgs) -> Result<u8, Failure> {
    let statuses = match &args.name {
        Some(name) => vec![status(&mut Operator::connect(name)?)?],
        None => all_statuses(),
    };
    let reports = |status| args.security.then(|| security::reports(status));
    if args.json {
        let reported = statuses.iter().map(|status| Reported { status, security: reports(status) });
        print_json(&reported.collect::<Vec<_>>())?;
    } else if statuses.is_empty() {
        exit::say("no instance of this user is running; start one with `tasuki up`");
    } else {
        let text = |status| match reports(status) {
            Some(reports) => head(status) + &security::text(status, &reports),
            None => text(status, args.verbose),
        };
        let texts: Vec<String> = statuses.iter().map(text).collect();
        print(&texts.join("\n"))?;
    }
    Ok(0)
}

/// Of all instances of this user. One that does not answer is named, and hides no other.
fn all_statuses() -> Vec<InstanceStatus> {
    let mut all = Operator::connect_all();
    let answered = all.iter_mut().filter_map(|(operator, _)| match status(operator) {
        Ok(status) => Some(status),
        Err(failure) => {
            exit::say(format_args!("tasuki: {failure}"));
            None
        }
    });
    answered.collect()
}

/// The output of `--json`.
#[derive(Serialize)]
struct Reported<'a> {
    #[serde(flatten)]
    status: &'a InstanceStatus,
    /// With `--security`: by process, `null` for one that has just ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    security: Option<Vec<Option<SecurityReport>>>,
}

pub(super) fn status(operator: &mut Operator) -> Result<InstanceStatus, Failure> {
    match operator.ask(&ClientRequest::Ps)? {
        (ClientReply::Processes(status), _) => Ok(status),
        (other, _) => Err(operator.unexpected(&other)),
    }
}

fn head(status: &InstanceStatus) -> String {
    let InstanceStatus { instance, mode, .. } = status;
    format!("{instance}: {}, {mode}\n", status.addresses.join(", "))
}

fn text(status: &InstanceStatus, verbose: bool) -> String {
    let InstanceStatus { processes, pools, counters, .. } = status;
    let row = |cells: [&str; 4]| cells.map(str::to_owned).to_vec();
    let mut rows = vec![row(["ROLE", "PID", "NAME", "MEMORY"])];
    for process in processes {
        let role = security::role(process);
        rows.push(row([&role, &process.pid.to_string(), &process.name, &process.memory]));
    }
    let mut text = head(status);
    text.push_str(&table(&rows, &[false, true]));
    let mut rows = vec![row(["POOL", "PAGES", "FREE", "BACKING"])];
    for pool in pools {
        let (pages, free) = (pool.pages.to_string(), pool.free.to_string());
        rows.push(row([&pool.name, &pages, &free, &pool.backing]));
    }
    text.push('\n');
    text.push_str(&table(&rows, &[false, true, true]));
    if verbose {
        let mut rows = vec![vec!["COUNTER".to_owned(), "VALUE".to_owned()]];
        rows.extend(counters.iter().map(|(name, value)| vec![name.clone(), value.to_string()]));
        // Writing to a string does not fail.
        let _ = write!(text, "\n{}", table(&rows, &[false, true]));
    }
    text
}

#[cfg(test)]
mod tests {
    use abi::control::{PartyStatus, PoolStatus, ProcessStatus, RingStatus};

    use super::*;

    #[test]
    fn the_tables() {
        let process = |role: &str, client| ProcessStatus {
            role: role.to_owned(),
            pid: 42,
            name: "curl".to_owned(),
            client,
            memory: "4k".to_owned(),
            sandbox: None,
        };
        let status = InstanceStatus {
            instance: "default".to_owned(),
            mode: "split".to_owned(),
            address: "10.219.0.2/24".to_owned(),
            addresses: vec!["10.219.0.2/24".to_owned()],
            processes: vec![process("supervisor", None), process("client", Some(3))],
            pools: vec![PoolStatus {
                name: "frames".to_owned(),
                pages: 4096,
                free: 7,
                backing: "2M".to_owned(),
            }],
            counters: vec![("copy.rx-bytes".to_owned(), 9)],
            histograms: vec![abi::stats::Sizes::default().histogram("nic.rx-per-step")],
            parties: vec![PartyStatus {
                role: "client".to_owned(),
                number: 3,
                rings: vec![RingStatus { name: "requests".to_owned(), slots: 256, used: 1 }],
                counters: vec![("program.sleeps".to_owned(), 2)],
            }],
        };
        let short = "\
default: 10.219.0.2/24, split
ROLE        PID  NAME  MEMORY
supervisor   42  curl  4k
client 3     42  curl  4k

POOL    PAGES  FREE  BACKING
frames   4096     7  2M
";
        assert_eq!(text(&status, false), short);
        let long = format!("{short}\nCOUNTER        VALUE\ncopy.rx-bytes      9\n");
        assert_eq!(text(&status, true), long);
        crate::command::tests::every_key_is_documented(&status);
    }
}
