//! `tasuki server …`: the servers that the supervisor starts. Standard input is the supervisor's
//! channel; a fused server has the driver's channel as standard output.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use inet_server::Companion;
use nic_driver::Driver;
use rustix::process::{Signal, set_parent_process_death_signal};
use shm::Channel;

use crate::cli::{ServerArgs, ServerRole};
use crate::exit::Failure;
use crate::limits;

/// Is the server until the supervisor ends it.
///
/// # Errors
/// The failure that ended the server.
pub(crate) fn server(args: &ServerArgs) -> Result<u8, Failure> {
    let (name, comm) = match args.role {
        ServerRole::Inet => ("inet", c"tasuki-inet"),
        ServerRole::Nic => ("nic", c"tasuki-nic"),
        ServerRole::Fused => ("fused", c"tasuki-fused"),
    };
    let failed =
        |error: &dyn std::fmt::Display| Failure::system(format!("be the {name} server"), error);
    let system = |error: std::io::Error| failed(&error);
    // The line's end ends a server, too; this also ends one that is stuck.
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(|errno| system(errno.into()))?;
    rustix::thread::set_name(comm).map_err(|errno| system(errno.into()))?;
    limits::raise_descriptors();
    let first = take(std::io::stdin().as_fd()).map_err(system)?;
    let second = take(std::io::stdout().as_fd()).map_err(system)?;
    let null = File::options().read(true).write(true).open("/dev/null").map_err(system)?;
    rustix::stdio::dup2_stdin(&null).map_err(|errno| system(errno.into()))?;
    rustix::stdio::dup2_stdout(&null).map_err(|errno| system(errno.into()))?;
    match args.role {
        ServerRole::Inet => inet_server::run(first, None).map_err(|error| failed(&error))?,
        ServerRole::Nic => nic_driver::run(first).map_err(|error| failed(&error))?,
        ServerRole::Fused => {
            let driver = Driver::from_channel(second).map_err(|error| failed(&error))?;
            let driver: Box<dyn Companion> = Box::new(driver);
            inet_server::run(first, Some(driver)).map_err(|error| failed(&error))?;
        }
    }
    Ok(0)
}

/// A control connection from a standard stream. It is a duplicate: if it owned descriptors 0 and 1
/// themselves, closing them would leave their numbers to the next open.
fn take(stream: BorrowedFd<'_>) -> std::io::Result<Channel> {
    let fd: OwnedFd = stream.try_clone_to_owned()?;
    Ok(Channel::from_fd(fd))
}
