//! `tasuki server …`: the servers that the supervisor starts. Standard input is the supervisor's
//! channel; a fused server has the driver's channel as standard output.
//!
//! A server enters its sandbox before it reads the first byte. Its first message says what the
//! sandbox is.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use abi::companion::Companion;
use abi::control::{SandboxStatus, ServerOutput};
use inet_server::MakeCipher;
use nic_driver::Driver;
use sandbox::{DeviceKind, Plan, Restriction, Role};
use shm::Channel;
use shm::passing::refuse_descriptors;

use super::print;
use crate::cli::ServerArgs;
use crate::exit::{Code, Failure};
use crate::limits;

/// Takes requests for the greatest latency of a wake-up (the kernel's power management).
const LATENCY: &str = "/dev/cpu_dma_latency";

/// Is the server until the supervisor ends it.
///
/// # Errors
/// The failure that ended the server.
pub(crate) fn server(args: &ServerArgs) -> Result<u8, Failure> {
    let (name, comm) = match args.role {
        Role::Inet => ("inet", c"tasuki-inet"),
        Role::Driver(_) => ("nic", c"tasuki-nic"),
        Role::Fused(_) => ("fused", c"tasuki-fused"),
        // Their sandboxes can be tried here.
        Role::Relay => ("relay", c"tasuki-relay"),
        Role::Connector => ("connector", c"tasuki-host"),
        Role::Target => ("target", c"tasuki-target"),
    };
    let failed =
        |error: &dyn std::fmt::Display| Failure::system(format!("be the {name} server"), error);
    let system = |error: std::io::Error| failed(&error);
    if let Err(error) = sandbox::close_inherited() {
        tracing::debug!(%error, "inherited descriptors stay open");
    }
    rustix::thread::set_name(comm).map_err(|errno| system(errno.into()))?;
    limits::raise_descriptors();
    if !args.tries.is_empty() {
        return probe(args);
    }
    let mut first = take(std::io::stdin().as_fd()).map_err(system)?;
    let second = take(std::io::stdout().as_fd()).map_err(system)?;
    let null = File::options().read(true).write(true).open("/dev/null").map_err(system)?;
    rustix::stdio::dup2_stdin(&null).map_err(|errno| system(errno.into()))?;
    rustix::stdio::dup2_stdout(&null).map_err(|errno| system(errno.into()))?;
    drop(null);
    // Root's, so before the sandbox. Opening it requests nothing yet.
    let latency = match args.role {
        Role::Inet | Role::Fused(_) => File::options().write(true).open(LATENCY).ok(),
        Role::Driver(_) | Role::Relay | Role::Connector | Role::Target => None,
    };
    let Restriction { landlock, missing } = enter(args)?;
    let status = ServerOutput::Sandbox(SandboxStatus { landlock, missing });
    let status = serde_json::to_vec(&status).map_err(|error| failed(&error))?;
    first.send(&status, &[]).map_err(|error| failed(&error))?;
    let ciphers = Some(esp::cipher as MakeCipher);
    match args.role {
        Role::Relay | Role::Connector | Role::Target => {
            let sentence = format!("the {name} is no server of an instance");
            return Err(Failure::new(Code::Usage, sentence));
        }
        Role::Inet => {
            inet_server::run(first, None, latency, ciphers).map_err(|error| failed(&error))?;
        }
        Role::Driver(_) => nic_driver::run(first).map_err(|error| failed(&error))?,
        Role::Fused(_) => {
            let driver = Driver::from_channel(second).map_err(|error| failed(&error))?;
            let driver: Box<dyn Companion> = Box::new(driver);
            inet_server::run(first, Some(driver), latency, ciphers)
                .map_err(|error| failed(&error))?;
        }
    }
    Ok(0)
}

/// Takes this process into its sandbox.
fn enter(args: &ServerArgs) -> Result<Restriction, Failure> {
    let plan =
        Plan { role: args.role, demand: args.sandbox, user: args.user, filter: !args.no_filter };
    // Where the kernel cannot refuse descriptors, a thread closes those that clients pass. The
    // ends of a wire pass one to each other.
    let wire = args.role.device() == Some(DeviceKind::Wire);
    let begin_threads = || {
        if wire || UnixStream::pair().is_ok_and(|(one, _)| refuse_descriptors(&one).is_err()) {
            shm::closer::interrupter::allow();
            shm::closer::start();
        }
    };
    sandbox::enter(&plan, begin_threads)
        .map_err(|error| Failure::new(Code::Rights, error.to_string()))
}

/// Tries system calls in the sandbox: a line for each, with its result. For tests.
fn probe(args: &ServerArgs) -> Result<u8, Failure> {
    let Restriction { landlock, missing } = enter(args)?;
    print(&format!("landlock {landlock:?}, missing {missing:?}\n"))?;
    for one in &args.tries {
        let result = match one.make() {
            Ok(value) => value.to_string(),
            Err(error) => error.to_string(),
        };
        print(&format!("{one}: {result}\n"))?;
    }
    Ok(0)
}

/// A control connection from a standard stream. It is a duplicate: if it owned descriptors 0 and 1
/// themselves, closing them would leave their numbers to the next open.
fn take(stream: BorrowedFd<'_>) -> std::io::Result<Channel> {
    let fd: OwnedFd = stream.try_clone_to_owned()?;
    Ok(Channel::from_fd(fd))
}
