//! `tasuki target reload`: a running target gets the rules, users, secrets and units that its
//! configuration has now.
//!
//! ```text
//!   tasuki target reload NAME ──asks the kernel who made the socket──▶ the broker's command line
//!     └─ the same command line once more ──reads the files──▶ requests to the target
//! ```
//!
//! The target opens no file, and is not asked which ones to read: one that was taken over would name
//! others. The command line, the folder and the variables are those of the broker. All is read and
//! opened before the target is told anything: what is wrong changes nothing.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{Seek as _, SeekFrom};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use storage::{LunDefinition, LunNumber, OpenedVolume, VolumeSpecification};

use super::access_message::AccessMessage;
use super::control::{self, Reply, Request, UnitReport, ask, ask_with};
use super::served::open_code;
use super::settings::{TargetSettings, identity_register};
use crate::cli::TargetUpArgs;
use crate::exit::{self, Code, Failure};
use crate::runtime_dir::InstanceName;

/// Set for the process that reads the configuration again.
const RELOADS: &str = "TASUKI_TARGET_RELOADS";
/// Variables of the broker that are not for that process.
const NOT_INHERITED: [&str; 3] =
    ["TASUKI_UP_BACKGROUND", "TASUKI_TARGET_BROKERED", "NOTIFY_SOCKET"];

/// Is this the process that reads the configuration again?
pub(super) fn is_reload() -> bool {
    std::env::var_os(RELOADS).is_some()
}

/// Carries out the command: as the broker's command line once more.
///
/// # Errors
/// The target does not run; what is wrong with its configuration.
pub(super) fn reload(name: &InstanceName) -> Result<u8, Failure> {
    let broker = control::broker_of(name)?;
    let read = |file: &str| {
        let path = format!("/proc/{broker}/{file}");
        std::fs::read(&path).map_err(|error| {
            let doing = format!("find how target {name} was started: {path}");
            Failure::system(doing, format_args!("{error}; try it as root"))
        })
    };
    let words = |bytes: &[u8]| -> Vec<OsString> {
        let text = bytes.strip_suffix(&[0]).unwrap_or(bytes);
        text.split(|byte| *byte == 0).map(|word| OsStr::from_bytes(word).to_owned()).collect()
    };
    let line = words(&read("cmdline")?);
    let variables = words(&read("environ")?);
    let variables = variables.iter().filter_map(|one| {
        let at = one.as_bytes().iter().position(|byte| *byte == b'=')?;
        let (name, value) = (&one.as_bytes()[..at], &one.as_bytes()[at + 1..]);
        let wanted = NOT_INHERITED.iter().all(|not| not.as_bytes() != name);
        wanted.then(|| (OsStr::from_bytes(name).to_owned(), OsStr::from_bytes(value).to_owned()))
    });
    let error = Command::new("/proc/self/exe")
        .arg0("tasuki")
        .args(line.into_iter().skip(1))
        .env_clear()
        .envs(variables)
        .env(RELOADS, "1")
        .current_dir(format!("/proc/{broker}/cwd"))
        .exec();
    Err(Failure::system("read the configuration again", error))
}

/// What becomes of the units.
#[derive(Debug, Default)]
struct UnitPlan {
    /// They go: those that the configuration does not have, and those that it has otherwise.
    removed: Vec<LunNumber>,
    /// They come, in the place of others perhaps.
    added: BTreeMap<LunNumber, LunDefinition>,
    /// They get another size; `None`: that of their file.
    resized: BTreeMap<LunNumber, Option<u64>>,
}

impl UnitPlan {
    fn new(now: &[UnitReport], wanted: &BTreeMap<LunNumber, LunDefinition>) -> Self {
        let mut plan = Self { added: wanted.clone(), ..Self::default() };
        for UnitReport { lun, definition, bytes } in now {
            let Some(number) = LunNumber::new(*lun) else { continue };
            let running: Option<LunDefinition> = definition.parse().ok();
            let Some((running, wanted)) = running.zip(wanted.get(&number)) else {
                plan.removed.push(number);
                continue;
            };
            if let Some(size) = other_size(&running, wanted, *bytes) {
                plan.added.remove(&number);
                plan.resized.insert(number, size);
            } else if running == *wanted {
                plan.added.remove(&number);
            } else {
                plan.removed.push(number);
            }
        }
        plan
    }

    /// Opens what comes and is not there already under another definition or number.
    fn open_new(&self, now: &[UnitReport]) -> Result<BTreeMap<LunNumber, OpenedVolume>, Failure> {
        let held = |one: &LunDefinition| {
            let running = now.iter().filter_map(|unit| unit.definition.parse().ok());
            running.into_iter().any(|unit: LunDefinition| unit.volume == one.volume)
        };
        let new = self.added.iter().filter(|(_, one)| !held(one));
        new.map(|(number, one)| Ok((*number, open(one)?))).collect()
    }
}

/// The same unit but for its size: which one it gets.
fn other_size(running: &LunDefinition, wanted: &LunDefinition, bytes: u64) -> Option<Option<u64>> {
    let same = LunDefinition { volume: wanted.volume.clone(), ..running.clone() } == *wanted;
    match (&running.volume, &wanted.volume) {
        _ if !same => None,
        (VolumeSpecification::File(path), VolumeSpecification::File(other)) if path == other => {
            let mut file = std::fs::File::open(path).ok()?;
            let size = file.seek(SeekFrom::End(0)).ok()?;
            let whole = size - size % u64::from(wanted.block_size.bytes());
            (whole != bytes).then_some(None)
        }
        (VolumeSpecification::Memory(old), VolumeSpecification::Memory(new))
        | (VolumeSpecification::Null(old), VolumeSpecification::Null(new)) => {
            (old != new).then_some(Some(*new))
        }
        _ => None,
    }
}

fn open(definition: &LunDefinition) -> Result<OpenedVolume, Failure> {
    let opened = definition.open(&identity_register());
    let opened = opened.map_err(|error| Failure::new(open_code(&error), error.to_string()))?;
    for notice in &opened.notices {
        exit::say(format_args!("tasuki: {notice}"));
    }
    Ok(opened)
}

/// Reads the configuration of this command line, and tells the running target.
///
/// # Errors
/// What is wrong with it. Unless the sentence says otherwise, nothing has changed.
pub(super) fn carry_out(args: &TargetUpArgs) -> Result<u8, Failure> {
    let TargetSettings { name, definition, .. } = TargetSettings::new(args, None)?;
    let Reply::Status(report) = ask(&name, &Request::Status)? else {
        return Err(Failure::system(format!("ask the target {name}"), "it tells no status"));
    };
    let running = &report.status;
    let portal = (definition.name.as_str(), definition.transport.name(), definition.portal);
    if portal != (&*running.name, &*running.transport, running.portal) {
        let sentence = format!(
            "the configuration of target {name} has another name, transport or address, which take \
             a restart: `tasuki target down {name}`, `tasuki target up ...`; nothing is changed"
        );
        return Err(Failure::new(Code::Configuration, sentence));
    }
    let Reply::Units(now) = ask(&name, &Request::Units)? else {
        return Err(Failure::system(format!("ask the target {name}"), "it tells no units"));
    };
    let mut luns = definition.luns;
    for lun in luns.values_mut() {
        let absolute = lun.clone().absolute();
        *lun = absolute.map_err(|error| Failure::system("find a volume", error))?;
    }
    let plan = UnitPlan::new(&now, &luns);
    let opened = plan.open_new(&now)?;
    let access = AccessMessage::from(&definition.access);
    let ended = match ask(&name, &Request::SetAccess { access })? {
        Reply::Sessions(ended) => ended,
        other => return other.done(),
    };
    let (added, removed) = (plan.added.len(), plan.removed.len());
    let resized = plan.resized.len();
    change_units(&name, &now, &plan, opened).map_err(|Failure { code, sentence }| {
        let sentence = format!("{sentence}; rules and users are the new ones, units only in part");
        Failure::new(code, sentence)
    })?;
    exit::say(format_args!(
        "tasuki: target {name} has its new configuration: units added {added}, removed {removed}, \
         resized {resized}; sessions ended {ended}"
    ));
    Ok(0)
}

fn change_units(
    name: &InstanceName,
    now: &[UnitReport],
    plan: &UnitPlan,
    mut opened: BTreeMap<LunNumber, OpenedVolume>,
) -> Result<(), Failure> {
    let done = |request: &Request| ask(name, request)?.done().map(drop);
    for lun in &plan.removed {
        done(&Request::RemoveLun { lun: lun.get() })?;
    }
    for (lun, definition) in &plan.added {
        let added = match opened.remove(lun) {
            Some(opened) => add(name, *lun, definition, &opened),
            None => open(definition).and_then(|opened| add(name, *lun, definition, &opened)),
        };
        if let Err(failure) = added {
            // The unit that was there is better than none.
            let before = now.iter().find(|unit| unit.lun == lun.get());
            let before = before.and_then(|unit| unit.definition.parse::<LunDefinition>().ok());
            if let Some(before) = before
                && let Ok(opened) = open(&before)
            {
                let _ = add(name, *lun, &before, &opened);
            }
            return Err(failure);
        }
    }
    for (lun, bytes) in &plan.resized {
        done(&Request::ResizeLun { lun: lun.get(), bytes: *bytes })?;
    }
    Ok(())
}

/// Adds a unit that is open.
fn add(
    name: &InstanceName,
    lun: LunNumber,
    definition: &LunDefinition,
    opened: &OpenedVolume,
) -> Result<(), Failure> {
    let request = Request::AddLun {
        lun: lun.get(),
        definition: definition.to_string(),
        identity: opened.identity.to_string(),
    };
    ask_with(name, &request, opened.file.as_ref())?.done().map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_change_as_the_configuration_says() {
        let number = |lun| LunNumber::new(lun).unwrap();
        let report = |(lun, definition, bytes): (u16, &str, u64)| UnitReport {
            lun,
            definition: definition.to_owned(),
            bytes,
        };
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, bytes| {
            let path = folder.path().join(name);
            std::fs::File::create(&path).unwrap().set_len(bytes).unwrap();
            format!("file:{}", path.display())
        };
        let (same, grown) = (file("same", 4096), file("grown", 8192));
        let now = [
            (0, &*same, 4096),
            (1, &*grown, 4096),
            (2, "memory:1M", 1 << 20),
            (3, "memory:1M", 1 << 20),
            (4, "null:1M", 1 << 20),
        ];
        let wanted: BTreeMap<LunNumber, LunDefinition> =
            [(0, &*same), (1, &grown), (2, "memory:2M"), (3, "memory:1M,ro"), (5, "null:1M")]
                .into_iter()
                .map(|(lun, definition)| (number(lun), definition.parse().unwrap()))
                .collect();
        let plan = UnitPlan::new(&now.map(report), &wanted);
        assert_eq!(plan.removed, [number(3), number(4)]);
        assert_eq!(plan.added.keys().copied().collect::<Vec<_>>(), [number(3), number(5)]);
        let resized = BTreeMap::from([(number(1), None), (number(2), Some(2 << 20))]);
        assert_eq!(plan.resized, resized);
    }
}
