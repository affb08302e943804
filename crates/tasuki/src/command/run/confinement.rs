//! What a program of `tasuki run` is kept from beside the host's network: descriptors that lead
//! around its instance, settings of the host's network, and Unix sockets if the user wants that.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use relay::inherited::{self, UnfitDescriptor};

use crate::cli::{Intercept, RunArgs};
use crate::exit::{Code, Failure};
use crate::program::FoundProgram;

/// See the module.
#[derive(Debug, Clone, Copy)]
pub(super) struct Confinement {
    host_sockets: bool,
}

impl Confinement {
    /// Closes what leads around the instance. Call it before anything is opened.
    ///
    /// # Errors
    /// [`Code::Usage`]
    pub(super) fn begin(args: &RunArgs) -> Result<Self, Failure> {
        let host_sockets = !args.no_host_sockets;
        if !host_sockets && args.intercept == Intercept::Preload {
            let sentence = "a filter keeps programs from Unix sockets: --no-host-sockets does not \
                            go with --intercept preload";
            return Err(Failure::new(Code::Usage, sentence));
        }
        let closed = inherited::close_ways_around(&args.keep_fd, !host_sockets);
        closed.map_err(|unfit| Failure::new(Code::Usage, sentence(unfit)))?;
        Ok(Self { host_sockets })
    }

    /// The command that executes the program.
    ///
    /// # Errors
    /// The system cannot keep it from the host's Unix sockets.
    pub(super) fn command(
        self,
        found: &FoundProgram,
        name: &OsStr,
        arguments: &[OsString],
    ) -> Result<Command, Failure> {
        let mut command = Command::new(&found.path);
        command.arg0(name).args(arguments);
        relay::settings_of_networks::protect(&mut command);
        if !self.host_sockets {
            relay::host_sockets::keep_out(&mut command).map_err(|error| {
                let what = "keep the program from the host's Unix sockets (--no-host-sockets needs \
                            Landlock of Linux 6.12)";
                Failure::system(what, error)
            })?;
        }
        Ok(command)
    }
}

fn sentence(unfit: UnfitDescriptor) -> String {
    match unfit {
        UnfitDescriptor::NotOpen(fd) => {
            format!("--keep-fd names descriptor {fd}, which is not open")
        }
        UnfitDescriptor::Stream(fd) => {
            let name = ["standard input", "standard output", "standard error"]
                [usize::try_from(fd).unwrap_or(0).min(2)];
            format!(
                "{name} is a socket of the host's network, by which the program could leave its \
                 instance: give it another one, or name it with --keep-fd {fd}"
            )
        }
    }
}
