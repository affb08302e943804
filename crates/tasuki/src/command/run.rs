//! `tasuki run`: one program on the stack.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::cli::RunArgs;
use crate::exit::{Code, Failure};
use crate::operator::Operator;
use crate::program;
use crate::runtime_dir::{InstanceName, RuntimeDir};
use crate::settings::Settings;
use crate::supervisor::{Instance, Signals, Supervisor, Workload, cannot_execute};

/// Runs the program and returns its exit code.
///
/// # Errors
/// The reason why it could not run.
pub(crate) fn run(args: RunArgs) -> Result<u8, Failure> {
    let RunArgs { net, options, program } = args;
    let Some((name, arguments)) = program.split_first() else {
        return Err(Failure::new(Code::Usage, "no program is given"));
    };
    // Faults in the program or the configuration are reported before anything is made.
    let path = program::find(name)?;
    let preload = program::preload()?;
    let mut command = Command::new(path);
    command.arg0(name).args(arguments).env("LD_PRELOAD", preload);
    if let Some(net) = net {
        return Err(join(&net, command));
    }
    let settings = Settings::new(InstanceName::of_run(std::process::id()), &options)?;
    let signals = Signals::catch()?;
    let instance = Instance::make(settings)?;
    on(&mut command, instance.socket_path());
    Supervisor::start(instance, signals, Workload::Program(command))?.run()
}

/// Becomes the program, on an instance that runs already. Returns only why that is not possible.
fn join(name: &InstanceName, mut command: Command) -> Failure {
    // Connecting shows that it is alive and lets us in.
    if let Err(failure) = Operator::connect(name) {
        return failure;
    }
    let Some(socket) = RuntimeDir::find(name) else {
        let sentence = format!("the instance {name} has just ended");
        return Failure::new(Code::NoInstance, sentence);
    };
    let error = on(&mut command, &socket).exec();
    cannot_execute(&command, &error)
}

/// Tells the shim where the instance is.
fn on<'a>(command: &'a mut Command, socket: &Path) -> &'a mut Command {
    command.env("TASUKI_SOCKET", socket)
}
