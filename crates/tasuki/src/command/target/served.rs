//! The target's own process: it opens all that it needs, enters its sandbox, and serves.

use std::cell::Cell;
use std::rc::Rc;

use abi::control::SandboxStatus;
use sandbox::{Demand, Plan, Restriction, Role};
use storage::{DeviceError, OpenError, ServeError, TargetHandle};

use super::broker_line::{BrokerLine, Preparation};
use super::control::{self, TargetNames};
use super::settings::TargetSettings;
use crate::cli::TargetUpArgs;
use crate::exit::{self, Code, Failure};
use crate::operator::join_named;
use crate::settings;
use user::forbid_dumps;

/// Serves until the target is ended. A failure before it is ready goes to the broker.
///
/// # Errors
/// Why it does not serve, or serves no more.
pub(super) fn serve(args: &TargetUpArgs) -> Result<u8, Failure> {
    if let Err(error) = sandbox::close_inherited() {
        tracing::debug!(%error, "inherited descriptors stay open");
    }
    let line = BrokerLine::take()?;
    let is_ready = Cell::new(false);
    match serve_with(args, &line, &is_ready) {
        Err(failure) if !is_ready.get() => {
            line.fail(&failure)?;
            Ok(failure.code as u8)
        }
        other => other,
    }
}

fn serve_with(
    args: &TargetUpArgs,
    line: &BrokerLine,
    is_ready: &Cell<bool>,
) -> Result<u8, Failure> {
    rustix::thread::set_name(c"tasuki-target")
        .map_err(|errno| Failure::system("name the target's process", errno))?;
    let settings = TargetSettings::new(args, Some(line))?;
    let TargetSettings { name, net, state, mut definition } = settings;
    // It may get secrets later.
    forbid_dumps()?;
    let (instance, client) = join_named(net.as_ref())?;
    definition.state = state.is_some().then(|| Rc::new(line.clone()) as _);
    let Preparation { user, pid, listener } = line.prepare(&name, state)?;
    let (target, instance) = (name.to_string(), instance.to_string());
    let told = Cell::new(Ok(()));
    let served = storage::serve(&client, definition, |handle| {
        let began = control::catch_signals(&handle)
            .and_then(|()| enter_sandbox(user, &handle))
            .and_then(|sandbox| {
                let names = TargetNames { target, instance, pid, sandbox };
                control::start(listener, names, handle.clone())
            })
            .and_then(|()| line.ready());
        match began {
            Ok(()) => is_ready.set(true),
            Err(_) => handle.end(),
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

/// From here on the target opens nothing more. Initiators are heard after that.
fn enter_sandbox(user: Option<u32>, handle: &TargetHandle) -> Result<SandboxStatus, Failure> {
    let demand = settings::sandbox()?;
    if demand != Demand::Off {
        // A backtrace would read the executable's symbols, which are out of reach from now on.
        std::panic::set_hook(Box::new(|panic| exit::say(format_args!("tasuki: {panic}"))));
    }
    let plan = Plan { role: Role::Target, demand, user, filter: true };
    let Restriction { landlock, missing } = sandbox::enter(&plan, || handle.begin_thread())
        .map_err(|error| Failure::new(Code::Rights, error.to_string()))?;
    if !missing.is_empty() {
        tracing::warn!(missing = missing.join(", "), "the sandbox of the target is not complete");
    }
    Ok(SandboxStatus { landlock, missing })
}

/// The exit code of a target that does not serve.
fn failure(error: &ServeError) -> Failure {
    let code = match error {
        ServeError::Device(DeviceError::Volume(error)) => open_code(error),
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

/// The exit code of a volume that cannot be opened.
pub(super) fn open_code(error: &OpenError) -> Code {
    match error {
        OpenError::InUse(_) => Code::InUse,
        OpenError::Open { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied => {
            Code::Rights
        }
        _ => Code::Configuration,
    }
}
