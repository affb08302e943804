//! `tasuki target`: iSCSI targets.
//!
//! A target is a process of its own in a sandbox, a client of an instance ([`served`]). It answers
//! at a Unix socket beside those of instances ([`control`]). Its parent keeps the rights of its
//! user for it ([`broker`]). Its configuration can be read again ([`reload`]).

mod access_message;
mod broker;
mod broker_line;
mod broker_messages;
mod control;
mod reload;
mod served;
mod settings;

use std::time::Duration;

use storage::{LunDefinition, PortalTransport};

pub(crate) use self::control::TargetReport;
use self::control::{Reply, Request, ask, ask_with};
use self::served::open_code;
use self::settings::{TargetSettings, identity_register};
use super::background;
use super::{print, print_json, table};
use crate::cli::{
    TargetArgs, TargetCommand, TargetLunArgs, TargetNameArgs, TargetPsArgs, TargetUpArgs,
};
use crate::exit::{self, Code, Failure};
use crate::runtime_dir::RuntimeDir;

/// How long a target may take to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// Carries out the command.
///
/// # Errors
/// As each.
pub(crate) fn target(args: &TargetArgs) -> Result<u8, Failure> {
    match &args.command {
        TargetCommand::Up(up) => begin(up),
        TargetCommand::Down(down) => end(down),
        TargetCommand::Add(add) => add_lun(add),
        TargetCommand::Remove(remove) => {
            let request = Request::RemoveLun { lun: remove.lun };
            ask(&remove.name, &request)?.done()
        }
        TargetCommand::Reload(it) => reload::reload(&it.name),
        TargetCommand::Rekey(rekey) => ask(&rekey.name, &Request::Rekey)?.done(),
        TargetCommand::Resize(resize) => {
            let request = Request::ResizeLun { lun: resize.lun, bytes: resize.size };
            ask(&resize.name, &request)?.done()
        }
        TargetCommand::Ls(ls) => list(ls, false),
        TargetCommand::Ps(ps) => list(ps, true),
    }
}

fn begin(args: &TargetUpArgs) -> Result<u8, Failure> {
    if reload::is_reload() {
        return reload::carry_out(args);
    }
    if broker::is_target() {
        return served::serve(args);
    }
    if let Some(log) = background::log_path() {
        return background::work(&log, broker::run);
    }
    // Here, so that what is wrong with rules and keys is said at once, and a new key is told.
    let settings = TargetSettings::new(args, None)?;
    let name = settings.name.clone();
    if matches!(settings.definition.transport, PortalTransport::Plain) {
        exit::say(format_args!(
            "tasuki: target {name} is plain: who sees its packets can read and change the data"
        ));
        if settings.definition.access.is_open() {
            exit::say(format_args!(
                "tasuki: target {name} is open: whoever reaches its portal may use it; a \
                 configuration file can say who may"
            ));
        }
    }
    for tail in settings.definition.luns.values().filter_map(LunDefinition::tail) {
        exit::say(format_args!("tasuki: {tail}"));
    }
    if args.foreground {
        // The broker has no key in its memory.
        drop(settings);
        return broker::run(Box::new(background::notify));
    }
    if ask(&name, &Request::Status).is_ok() {
        let sentence =
            format!("target {name} is already running; end it with `tasuki target down {name}`");
        return Err(Failure::new(Code::AlreadyRunning, sentence));
    }
    background::detach(RuntimeDir::make()?.make_log(&format!("{name}.target"))?)
}

fn end(args: &TargetNameArgs) -> Result<u8, Failure> {
    control::end(&args.name, PATIENCE)?;
    Ok(0)
}

fn add_lun(args: &TargetLunArgs) -> Result<u8, Failure> {
    let definition = args.definition.clone().absolute().map_err(|error| {
        Failure::system(format!("find the volume of `{}`", args.definition), error)
    })?;
    let opened = definition
        .open(&identity_register())
        .map_err(|error| Failure::new(open_code(&error), error.to_string()))?;
    for notice in &opened.notices {
        exit::say(format_args!("tasuki: {notice}"));
    }
    let request = Request::AddLun {
        lun: args.lun,
        definition: definition.to_string(),
        identity: opened.identity.to_string(),
    };
    ask_with(&args.name, &request, opened.file.as_ref())?.done()
}

/// All running targets of this user, in order of name.
pub(super) fn reports() -> Vec<TargetReport> {
    let names = RuntimeDir::targets().into_iter().map(|(name, _)| name);
    let found = names.filter_map(|name| match ask(&name, &Request::Status) {
        Ok(Reply::Status(report)) => Some(*report),
        _ => None,
    });
    found.collect()
}

/// Targets with their units, or with their sessions.
fn list(args: &TargetPsArgs, sessions: bool) -> Result<u8, Failure> {
    let all = match &args.name {
        Some(name) => match ask(name, &Request::Status)? {
            Reply::Status(report) => vec![*report],
            other => return other.done(),
        },
        None => reports(),
    };
    if args.json {
        print_json(&all)?;
    } else if sessions {
        print(&session_table(&all))?;
    } else {
        print(&unit_table(&all))?;
    }
    Ok(0)
}

fn unit_table(all: &[TargetReport]) -> String {
    let head = ["Target", "Name", "Portal", "Transport", "LUN", "Bytes", "Volume", "Identity"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for TargetReport { target: name, status: target, .. } in all {
        for lun in &target.luns {
            rows.push(vec![
                name.clone(),
                target.name.clone(),
                target.portal.to_string(),
                target.transport.clone(),
                lun.lun.to_string(),
                lun.bytes.to_string(),
                lun.volume.clone(),
                lun.identity.clone(),
            ]);
        }
    }
    table(&rows, &[false, false, false, false, true, true])
}

fn session_table(all: &[TargetReport]) -> String {
    let head = ["Target", "Initiator", "User", "ISID", "Address", "Commands", "Identity"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for TargetReport { target: name, status: target, .. } in all {
        for session in &target.sessions {
            rows.push(vec![
                name.clone(),
                session.initiator.clone(),
                session.user.clone().unwrap_or_else(|| "-".to_owned()),
                session.isid.clone(),
                session.peer.to_string(),
                session.commands.to_string(),
                session.identity.clone().unwrap_or_default(),
            ]);
        }
    }
    table(&rows, &[false, false, false, false, false, true])
}
