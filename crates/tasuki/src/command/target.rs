//! `tasuki target`: iSCSI targets.
//!
//! A target is a process of its own, a client of an instance. It answers at a Unix socket beside
//! those of instances ([`control`]).

mod control;

use std::net::{Ipv6Addr, SocketAddr};
use std::time::Duration;

use seal::{Fingerprint, PeerIdentity};
use storage::{
    AUTHORITY, DeviceError, Judge, LunNumber, OpenError, PortalTransport, Refusal, ServeError,
    TargetDefinition, TargetStatus,
};

use self::control::{Reply, Request, ask};
use super::background::{self, Ready};
use super::credentials::credentials;
use super::{print, print_json, table};
use crate::cli::{
    TargetArgs, TargetCommand, TargetLunArgs, TargetNameArgs, TargetPsArgs, TargetUpArgs,
};
use crate::exit::{self, Code, Failure};
use crate::keys::{KeyDirectory, KnownFile};
use crate::operator::join;
use crate::runtime_dir::{InstanceName, RuntimeDir, SocketFile};

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
        TargetCommand::Rekey(rekey) => ask(&rekey.name, &Request::Rekey)?.done(),
        TargetCommand::Ls(ls) => list(ls, false),
        TargetCommand::Ps(ps) => list(ps, true),
    }
}

fn begin(args: &TargetUpArgs) -> Result<u8, Failure> {
    if let Some(log) = background::log_path() {
        return background::work(&log, |ready| serve(args, ready));
    }
    if args.plain {
        exit::say(format_args!(
            "tasuki: target {} is plain: who sees its packets can read and change the data",
            args.name
        ));
    } else {
        // Here, so that what is wrong with keys is said at once, and a new key is told.
        transport(args)?;
    }
    if args.foreground {
        return serve(args, Box::new(background::notify));
    }
    if ask(&args.name, &Request::Status).is_ok() {
        let name = &args.name;
        let sentence =
            format!("target {name} is already running; end it with `tasuki target down {name}`");
        return Err(Failure::new(Code::AlreadyRunning, sentence));
    }
    background::detach(RuntimeDir::make()?.make_log(&format!("{}.target", args.name))?)
}

/// The definition that the options make.
fn definition(args: &TargetUpArgs) -> Result<TargetDefinition, Failure> {
    let luns = args.luns.iter().enumerate().map(|(number, lun)| {
        let number = u16::try_from(number).ok().and_then(LunNumber::new);
        number.map(|number| (number, lun.clone()))
    });
    let luns: Option<_> = luns.collect();
    let luns = luns.ok_or_else(|| Failure::new(Code::Usage, "there are too many --lun"))?;
    let name = args.iqn.clone().unwrap_or_else(|| format!("{AUTHORITY}:{}", args.name));
    let name = name.parse().map_err(|error| {
        Failure::new(Code::Usage, format!("`{name}` is no name of an iSCSI target: {error}"))
    })?;
    let portal = SocketAddr::new(args.address.unwrap_or(Ipv6Addr::UNSPECIFIED.into()), args.port);
    let transport = transport(args)?;
    Ok(TargetDefinition { name, luns, portal, transport, state: args.state.clone() })
}

/// How the portal is protected.
fn transport(args: &TargetUpArgs) -> Result<PortalTransport, Failure> {
    if args.plain {
        return Ok(PortalTransport::Plain);
    }
    let keys = KeyDirectory::find()?;
    let credentials = credentials(&args.credentials, &keys, |own| {
        let (own, keys) = (own.fingerprint(), keys.clone());
        Judge::new(move |peer| judge(&keys, own, peer))
    })?;
    let transport = match args.tls {
        true => PortalTransport::tls(credentials),
        false => PortalTransport::sealed(credentials),
    };
    transport.map_err(|error| Failure::new(Code::Configuration, error.to_string()))
}

/// Judges the key of an initiator. The file is read each time, so a change needs no restart.
fn judge(keys: &KeyDirectory, own: Fingerprint, peer: &PeerIdentity) -> Result<(), Refusal> {
    let key = peer.fingerprint();
    if key == own {
        return Ok(());
    }
    let known = keys.known(KnownFile::Initiators);
    let known = known.map_err(|failure| Refusal::Failed(failure.sentence))?;
    known.find(key).map(|_| ()).ok_or(Refusal::Unknown)
}

fn serve(args: &TargetUpArgs, ready: Ready) -> Result<u8, Failure> {
    let client = join(args.net.as_ref())?;
    let definition = definition(args)?;
    let directory = RuntimeDir::make()?;
    let lock = directory.lock()?;
    let socket: SocketFile = directory.bind_target(&args.name)?;
    drop(lock);
    let told = std::cell::Cell::new(Ok(()));
    let served = storage::serve(&client, definition, |handle| {
        let began = control::start(&socket, handle.clone()).and_then(|()| ready());
        if began.is_err() {
            handle.end();
        }
        told.set(began);
    });
    told.into_inner()?;
    match served {
        // Its end is the target's; nothing is wrong.
        Err(ServeError::Ended(_)) if !client.is_alive() => Ok(0),
        other => other.map(|()| 0).map_err(|error| failure(&error)),
    }
}

/// The exit code of a target that does not serve.
fn failure(error: &ServeError) -> Failure {
    let code = match error {
        ServeError::Device(DeviceError::Volume(OpenError::InUse(_))) => Code::InUse,
        ServeError::Device(DeviceError::Volume(OpenError::Open { source, .. }))
            if source.kind() == std::io::ErrorKind::PermissionDenied =>
        {
            Code::Rights
        }
        ServeError::Device(DeviceError::Ring(_)) => Code::Rights,
        ServeError::Device(_) => Code::Configuration,
        ServeError::Listen { source, .. } if source.kind() == std::io::ErrorKind::AddrInUse => {
            Code::InUse
        }
        ServeError::Listen { .. } => Code::Configuration,
        ServeError::Ended(_) => Code::Internal,
    };
    Failure::new(code, error.to_string())
}

fn end(args: &TargetNameArgs) -> Result<u8, Failure> {
    control::end(&args.name, PATIENCE)?;
    Ok(0)
}

fn add_lun(args: &TargetLunArgs) -> Result<u8, Failure> {
    let definition = args.definition.clone().absolute().map_err(|error| {
        Failure::system(format!("find the volume of `{}`", args.definition), error)
    })?;
    let definition = definition.to_string();
    ask(&args.name, &Request::AddLun { lun: args.lun, definition })?.done()
}

/// Targets with their units, or with their sessions.
fn list(args: &TargetPsArgs, sessions: bool) -> Result<u8, Failure> {
    let names: Vec<InstanceName> = match &args.name {
        Some(name) => vec![name.clone()],
        None => RuntimeDir::targets().into_iter().map(|(name, _)| name).collect(),
    };
    let mut all = Vec::new();
    for name in names {
        match ask(&name, &Request::Status) {
            Ok(Reply::Status(status)) => all.push((name, status)),
            Err(failure) if args.name.is_some() => return Err(failure),
            _ => {}
        }
    }
    if args.json {
        let all: Vec<_> = all.into_iter().map(|(_, status)| status).collect();
        print_json(&all)?;
    } else if sessions {
        print(&session_table(&all))?;
    } else {
        print(&unit_table(&all))?;
    }
    Ok(0)
}

fn unit_table(all: &[(InstanceName, TargetStatus)]) -> String {
    let head = ["Target", "Name", "Portal", "Transport", "LUN", "Bytes", "Volume"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for (name, target) in all {
        for lun in &target.luns {
            rows.push(vec![
                name.to_string(),
                target.name.clone(),
                target.portal.to_string(),
                target.transport.clone(),
                lun.lun.to_string(),
                lun.bytes.to_string(),
                lun.volume.clone(),
            ]);
        }
    }
    table(&rows, &[false, false, false, false, true, true])
}

fn session_table(all: &[(InstanceName, TargetStatus)]) -> String {
    let head = ["Target", "Initiator", "ISID", "Address", "Commands", "Identity"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for (name, target) in all {
        for session in &target.sessions {
            rows.push(vec![
                name.to_string(),
                session.initiator.clone(),
                session.isid.clone(),
                session.peer.to_string(),
                session.commands.to_string(),
                session.identity.clone().unwrap_or_default(),
            ]);
        }
    }
    table(&rows, &[false, false, false, false, true])
}
