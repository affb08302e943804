//! `tasuki relay`: the relay of the programs of one `tasuki run`.
//!
//! It is no child of the program, also where `tasuki run` becomes the program: the first process
//! starts a second one and ends. It ends when the last program has.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use abi::network::ResolverStatus;
use relay::resolver::ResolverFile;
use relay::trace::CallTrace;
use sandbox::{Demand, Plan, Role};

use crate::cli::RelayArgs;
use crate::exit::Failure;
use crate::settings;

/// Is the relay until the last program has ended.
///
/// # Errors
/// Why there can be none.
pub(crate) fn relay(args: &RelayArgs) -> Result<u8, Failure> {
    if args.detach {
        let mut command = relay_command(&args.instance, args.sandbox, args.trace.as_deref());
        // A terminal's Ctrl-C is for the program only.
        command.process_group(0);
        command.spawn().map_err(|error| Failure::system("start the relay", error))?;
        return Ok(0);
    }
    let failed = |error: std::io::Error| Failure::system("be the relay", error);
    let line = std::io::stdin().as_fd().try_clone_to_owned().map_err(failed)?;
    rustix::thread::set_name(c"tasuki-relay").map_err(|errno| failed(errno.into()))?;
    crate::limits::raise_descriptors();
    let (role, demand) = (Role::Relay, args.sandbox);
    let restrict = || {
        let plan = Plan { role, demand, user: None, filter: true };
        let restriction = sandbox::enter(&plan, || {}).map_err(std::io::Error::other)?;
        if !restriction.missing.is_empty() && demand == Demand::On {
            tracing::debug!(missing = ?restriction.missing, "the relay's sandbox is not complete");
        }
        Ok(())
    };
    // Without it, the program's own lines are there still.
    let trace = args.trace.as_deref().and_then(|path| CallTrace::open(path).ok());
    relay::run(&args.instance, trace, || relay::line::receive(&line), restrict).map_err(failed)?;
    Ok(0)
}

/// Lets `command` have a filter, with a relay that is a client of the instance at `socket`. Where
/// the system refuses the filter, the command starts without unless it is `required`. The program
/// sees the instance's name servers, if it has any or will learn some.
///
/// # Errors
/// The system's.
pub(super) fn start_relay(
    command: &mut Command,
    socket: &Path,
    required: bool,
    resolver: &ResolverStatus,
    trace: Option<&Path>,
) -> Result<(), Failure> {
    let failed = |error| Failure::system("start the relay", error);
    let (program, relay) = UnixStream::pair().map_err(failed)?;
    let mut starter = relay_command(socket, settings::sandbox()?, trace);
    starter.arg("--detach").stdin(OwnedFd::from(relay));
    // What goes wrong there is said there.
    starter.status().map_err(failed)?;
    relay::line::attach(command, program.into(), required, resolver_file(resolver));
    Ok(())
}

/// The program's /etc/resolv.conf, if it is to see another one than the host's.
fn resolver_file(resolver: &ResolverStatus) -> Option<ResolverFile> {
    if resolver.servers.is_empty() && !resolver.learns {
        return None;
    }
    let made = ResolverFile::new(resolver);
    made.inspect_err(|error| {
        tracing::warn!(%error, "programs do not see the instance's name servers: /etc/resolv.conf");
    })
    .ok()
}

fn relay_command(instance: &Path, demand: Demand, trace: Option<&Path>) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg0("tasuki-relay").arg("relay").arg(instance);
    command.args(["--sandbox", &demand.to_string()]);
    if let Some(path) = trace {
        command.arg("--trace").arg(path);
    }
    command.env_remove("LD_PRELOAD").stdout(Stdio::null()).current_dir("/");
    command
}
