//! `tasuki relay`: the relay of the programs of one `tasuki run`.
//!
//! It is no child of the program, also where `tasuki run` becomes the program. It is a copy of
//! `tasuki run` that executes nothing, since that is faster. It ends when the last program has. A
//! `tasuki run` that stays while its program runs collects it.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use abi::network::ResolverStatus;
use relay::line::Attachment;
use relay::resolver::ResolverFile;
use relay::trace::CallTrace;
use relay::{Beginning, ChildRelay};
use sandbox::{Demand, Plan, Role};

use crate::cli::RelayArgs;
use crate::exit::{self, Code, Failure};

/// Is the relay until the last program has ended.
///
/// # Errors
/// Why there can be none.
pub(crate) fn relay(args: &RelayArgs) -> Result<u8, Failure> {
    let failed = |error: std::io::Error| Failure::system("be the relay", error);
    let line = std::io::stdin().as_fd().try_clone_to_owned().map_err(failed)?;
    rustix::thread::set_name(c"tasuki-relay").map_err(|errno| failed(errno.into()))?;
    crate::limits::raise_descriptors();
    let demand = args.sandbox;
    let restrict = |role: Role| {
        if demand != Demand::Off {
            // A backtrace would read the executable's symbols, which are out of reach from now on.
            std::panic::set_hook(Box::new(|panic| exit::say(format_args!("tasuki: {panic}"))));
        }
        let plan = Plan { role, demand, user: None, filter: true };
        let restriction = sandbox::enter(&plan, || {}).map_err(std::io::Error::other)?;
        if !restriction.missing.is_empty() && demand == Demand::On {
            tracing::debug!(%role, missing = ?restriction.missing, "the sandbox is not complete");
        }
        Ok(())
    };
    // Without it, the program's own lines are there still.
    let trace = args.trace.as_deref().and_then(|path| CallTrace::open(path).ok());
    let host_loopback = args.host_loopback.clone();
    let beginning = Beginning { trace, eager: args.eager, host_loopback, child: args.child };
    relay::run(beginning, &line, restrict).map_err(failed)?;
    Ok(0)
}

/// A relay that waits for its program.
#[derive(Debug)]
pub(super) struct WaitingRelay(OwnedFd);

impl WaitingRelay {
    /// Starts one that is no child of this process, which will become the program. This process has
    /// one thread, and has opened nothing that the relay is not to have.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn start(args: &RelayArgs) -> Result<Self, Failure> {
        let (program, line) = UnixStream::pair().map_err(|error| not_started(&error))?;
        relay::detach(&line.into(), || serve(args)).map_err(|error| not_started(&error))?;
        Ok(Self(program.into()))
    }

    /// Starts one that this process collects, which stays while the program runs.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn start_child(args: &RelayArgs) -> Result<(Self, ChildRelay), Failure> {
        let (child, line) =
            ChildRelay::start(|| serve(args)).map_err(|error| not_started(&error))?;
        Ok((Self(line), child))
    }

    /// Lets `command` have a filter, with this relay, which becomes a client of the instance at
    /// `socket`. Where the system refuses the filter, the command starts only if the relay is not
    /// `required`, with a filter that refuses. The program sees the instance's name servers, if it
    /// has any or will learn some.
    pub(super) fn attach(
        self,
        command: &mut Command,
        socket: &Path,
        required: bool,
        resolver: &ResolverStatus,
    ) {
        let attachment = Attachment {
            line: self.0,
            instance: socket.to_owned(),
            resolver: resolver_file(resolver),
            required,
            not_started: Code::Unfiltered as u8,
        };
        relay::line::attach(command, attachment);
    }
}

fn not_started(error: &std::io::Error) -> Failure {
    Failure::system("start the relay", error)
}

/// Is the relay, in the process that was made for it. A library that was loaded into this one
/// (`tasuki run` in a program of another instance) would get in its way: so it begins anew then.
fn serve(args: &RelayArgs) -> u8 {
    let done = match std::env::var_os("LD_PRELOAD") {
        Some(_) => Err(Failure::system("start the relay", relay_command(args).exec())),
        None => relay(args),
    };
    done.unwrap_or_else(|failure| {
        exit::say(format_args!("tasuki: {failure}"));
        failure.code as u8
    })
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

fn relay_command(args: &RelayArgs) -> Command {
    let RelayArgs { sandbox, trace, eager, host_loopback, child } = args;
    let mut command = Command::new("/proc/self/exe");
    command.arg0("tasuki-relay").arg("relay").args(["--sandbox", &sandbox.to_string()]);
    command.args(eager.then_some("--eager")).args(child.then_some("--child"));
    command.args(host_loopback.iter().map(|address| format!("--host-loopback={address}")));
    if let Some(path) = trace {
        command.arg("--trace").arg(path);
    }
    command.env_remove("LD_PRELOAD");
    command
}
