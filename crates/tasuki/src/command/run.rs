//! `tasuki run`: one program on the stack.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::cli::{Intercept, RunArgs};
use crate::exit::{Code, Failure};
use crate::runtime_dir::InstanceName;
use crate::settings::Settings;
use crate::supervisor::{Instance, Signals, Supervisor, Workload, cannot_execute};
use crate::{operator, program};

/// Runs the program and returns its exit code.
///
/// # Errors
/// The reason why it could not run.
pub(crate) fn run(args: RunArgs) -> Result<u8, Failure> {
    let RunArgs { net, intercept, options, program } = args;
    let Some((name, arguments)) = program.split_first() else {
        return Err(Failure::new(Code::Usage, "no program is given"));
    };
    // Faults in the program or the configuration are reported before anything is made.
    let path = program::find(name, intercept != Intercept::Preload)?;
    let mut command = Command::new(path);
    command.arg0(name).args(arguments);
    if intercept != Intercept::Seccomp {
        command.env("LD_PRELOAD", program::preload()?);
    }
    if let Some(net) = net {
        return Err(join(&net, intercept, command));
    }
    let settings = Settings::new(InstanceName::of_run(std::process::id()), &options)?;
    let signals = Signals::catch()?;
    let instance = Instance::make(settings)?;
    on(&mut command, instance.socket_path());
    super::relay::intercept(&mut command, instance.socket_path(), intercept)?;
    Supervisor::start(instance, signals, Workload::Program(command))?.run()
}

/// Becomes the program, on an instance that runs already. Returns only why that is not possible.
fn join(name: &InstanceName, how: Intercept, mut command: Command) -> Failure {
    // Connecting shows that it is alive and lets us in.
    let socket = match operator::find_for_program(name) {
        Ok(socket) => socket,
        Err(failure) => return failure,
    };
    if let Err(failure) = super::relay::intercept(&mut command, &socket, how) {
        return failure;
    }
    let error = on(&mut command, &socket).exec();
    cannot_execute(&command, &error)
}

/// Tells the shim where the instance is.
fn on<'a>(command: &'a mut Command, socket: &Path) -> &'a mut Command {
    command.env("TASUKI_SOCKET", socket)
}
