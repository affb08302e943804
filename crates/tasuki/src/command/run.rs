//! `tasuki run`: one program on the stack.
//!
//! The program gets the preloaded library, which is the fast way, and beneath it a filter of system
//! calls with a relay, which is the way of everything else ([`relay`]). In mode `library` there is
//! no relay, since the stack is inside of one program: the filter refuses.

mod confinement;
mod orphans;

use std::net::IpAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use abi::network::ResolverStatus;
use relay::ChildRelay;
use relay::trace::STDERR;

use self::confinement::Confinement;
use super::relay::WaitingRelay;
use crate::cli::{Intercept, RelayArgs, RunArgs};
use crate::config::Mode;
use crate::exit::{Code, Failure};
use crate::operator;
use crate::output_file;
use crate::program::{self, Reach};
use crate::runtime_dir::InstanceName;
use crate::settings::{self, Settings};
use crate::supervisor::{Instance, Signals, Supervisor, Workload, cannot_execute, run_to_end};

/// Runs the program and returns its exit code.
///
/// # Errors
/// The reason why it could not run.
pub(crate) fn run(args: RunArgs) -> Result<u8, Failure> {
    let confinement = Confinement::begin(&args)?;
    let RunArgs { net, intercept, trace, output, host_loopback, options, program, .. } = args;
    let trace = trace.or(output);
    let Some((name, arguments)) = program.split_first() else {
        return Err(Failure::new(Code::Usage, "no program is given"));
    };
    if !host_loopback.is_empty() && intercept == Intercept::Preload {
        let sentence = "the relay connects to the host's loopback: --host-loopback does not go \
                        with --intercept preload";
        return Err(Failure::new(Code::Usage, sentence));
    }
    for v6 in [false, true] {
        if host_loopback.iter().filter(|one| one.is_ipv6() == v6).count() > 1 {
            let sentence = "--host-loopback takes one address of each family";
            return Err(Failure::new(Code::Usage, sentence));
        }
    }
    // Faults in the program or the configuration are reported before anything is made.
    if let Some(net) = net {
        let found = program::find(name, Reach::of(intercept))?;
        let command = confinement.command(&found, name, arguments)?;
        let trace = begin_trace(trace)?;
        let interception = Interception::new((intercept, host_loopback), trace, found.dynamic);
        return join(&net, interception, command);
    }
    let mut settings = Settings::new(InstanceName::of_run(std::process::id()), &options)?;
    settings.links.iter_mut().for_each(|link| link.host_loopback = !host_loopback.is_empty());
    let library = settings.mode == Mode::Library;
    if library && intercept == Intercept::Seccomp {
        let sentence = "mode library has no relay: use another --mode, or --intercept auto";
        return Err(Failure::new(Code::Usage, sentence));
    }
    if library && !host_loopback.is_empty() {
        let sentence = "mode library has no relay: --host-loopback needs another --mode";
        return Err(Failure::new(Code::Usage, sentence));
    }
    if (library || intercept == Intercept::Preload) && !options.dns.is_empty() {
        let sentence = "programs ask name servers through the relay: --dns does not go with mode \
                        library or --intercept preload";
        return Err(Failure::new(Code::Usage, sentence));
    }
    let reach = if library { Reach::Shim } else { Reach::of(intercept) };
    let found = program::find(name, reach)?;
    let mut command = confinement.command(&found, name, arguments)?;
    let trace = begin_trace(trace)?;
    let how = if library { Intercept::Preload } else { intercept };
    let mut interception = Interception::new((how, host_loopback), trace, found.dynamic);
    let _relay = interception.start_child_relay()?;
    let signals = Signals::catch()?;
    let resolver = settings.resolver.clone();
    let instance = Instance::make(settings)?;
    if library && intercept == Intercept::Auto {
        relay::line::refuse(&mut command, Code::Unfiltered as u8);
    }
    interception.apply(&mut command, instance.socket_path(), &resolver)?;
    relay::line::end_with_caller(&mut command);
    Supervisor::start(instance, signals, Workload::Program(command))?.run()
}

/// Runs the program on an instance that runs already: becomes it, unless nobody would collect the
/// relay then.
fn join(
    name: &InstanceName,
    mut interception: Interception,
    mut command: Command,
) -> Result<u8, Failure> {
    // Connecting shows that it is alive and lets us in.
    let socket = operator::find_for_program(name)?;
    let resolver = match interception.how {
        Intercept::Preload => Ok(ResolverStatus::default()),
        Intercept::Auto | Intercept::Seccomp => operator::resolver(name, &socket),
    };
    // In mode `library` an instance without a program knows nothing.
    let resolver = resolver.unwrap_or_else(|failure| {
        tracing::debug!(%failure, "programs see the host's name servers");
        ResolverStatus::default()
    });
    if interception.how == Intercept::Preload || orphans::are_collected() {
        interception.start_relay()?;
        interception.apply(&mut command, &socket, &resolver)?;
        let error = command.exec();
        return Err(cannot_execute(&command, &error));
    }
    let _relay = interception.start_child_relay()?;
    let signals = Signals::catch()?;
    interception.apply(&mut command, &socket, &resolver)?;
    relay::line::end_with_caller(&mut command);
    run_to_end(&mut command, signals)
}

/// How the program's calls become Tasuki's, and what is said about them.
struct Interception {
    how: Intercept,
    /// The file for the calls, or [`relay::trace::STDERR`].
    trace: Option<PathBuf>,
    /// The program has a dynamic loader.
    dynamic: bool,
    /// The host's addresses for the program.
    host_loopback: Vec<IpAddr>,
    relay: Option<WaitingRelay>,
}

impl Interception {
    fn new(
        (how, host_loopback): (Intercept, Vec<IpAddr>),
        trace: Option<PathBuf>,
        dynamic: bool,
    ) -> Self {
        Self { how, trace, dynamic, host_loopback, relay: None }
    }

    /// Starts the relay, if there is to be one. Nothing of an instance is open yet.
    fn start_relay(&mut self) -> Result<(), Failure> {
        if self.how != Intercept::Preload {
            self.relay = Some(WaitingRelay::start(&self.relay_args(false)?)?);
        }
        Ok(())
    }

    /// As [`Self::start_relay`]. The relay is collected when the returned value is dropped.
    fn start_child_relay(&mut self) -> Result<Option<ChildRelay>, Failure> {
        if self.how == Intercept::Preload {
            return Ok(None);
        }
        let (waiting, child) = WaitingRelay::start_child(&self.relay_args(true)?)?;
        self.relay = Some(waiting);
        Ok(Some(child))
    }

    fn relay_args(&self, child: bool) -> Result<RelayArgs, Failure> {
        Ok(RelayArgs {
            sandbox: settings::sandbox()?,
            trace: self.trace.clone(),
            // The program will need it at once.
            eager: self.how == Intercept::Seccomp || !self.dynamic,
            host_loopback: self.host_loopback.clone(),
            child,
        })
    }

    /// Puts the program on the instance at `socket`, which has these name servers.
    fn apply(
        self,
        command: &mut Command,
        socket: &Path,
        resolver: &ResolverStatus,
    ) -> Result<(), Failure> {
        command.env("TASUKI_SOCKET", socket);
        if let Some(trace) = &self.trace {
            command.env("TASUKI_TRACE", trace);
        }
        // Otherwise that of a program around this one, whose relay this is not.
        command.env_remove("TASUKI_HOST_LOOPBACK");
        if !self.host_loopback.is_empty() {
            let all: Vec<_> = self.host_loopback.iter().map(IpAddr::to_string).collect();
            command.env("TASUKI_HOST_LOOPBACK", all.join(","));
        }
        if self.how != Intercept::Seccomp {
            command.env("LD_PRELOAD", program::preload()?);
            let given = std::env::var_os(program::ASAN_OPTIONS);
            command.env(program::ASAN_OPTIONS, program::asan_options(given));
        }
        if let Some(relay) = self.relay {
            relay.attach(command, socket, self.how == Intercept::Seccomp, resolver);
        }
        Ok(())
    }
}

/// Makes the file for the calls, so that each process of the program can write to its end. Returns
/// its path for programs in other directories.
fn begin_trace(path: Option<PathBuf>) -> Result<Option<PathBuf>, Failure> {
    let Some(path) = path else { return Ok(None) };
    if path == Path::new(STDERR) {
        return Ok(Some(path));
    }
    let failed = |error| Failure::output(path.display(), error);
    output_file::create(&path)?;
    path.canonicalize().map_err(failed).map(Some)
}

impl Reach {
    fn of(how: Intercept) -> Self {
        if how == Intercept::Preload { Self::Shim } else { Self::Filter }
    }
}
