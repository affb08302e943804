//! The target's end of the line to its broker.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use seal::Fingerprint;
use shm::Channel;
use storage::{KeptState, LunNumber, StateStore, StoredState};

use super::broker_messages::{BrokerReply, BrokerRequest};
use crate::exit::Failure;
use crate::runtime_dir::InstanceName;

/// The line to the broker, shared by all that asks.
#[derive(Clone)]
pub(super) struct BrokerLine(Arc<Mutex<Channel>>);

/// What the broker has prepared.
#[derive(Debug)]
pub(super) struct Preparation {
    /// The user to become.
    pub(super) user: Option<u32>,
    /// This process, as others see it.
    pub(super) pid: u32,
    /// The socket by which the target is managed.
    pub(super) listener: UnixListener,
}

impl fmt::Debug for BrokerLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BrokerLine")
    }
}

impl BrokerLine {
    /// Takes it from standard input, which is `/dev/null` then.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn take() -> Result<Self, Failure> {
        let failed = |error: io::Error| Failure::system("be a target", error);
        // A duplicate: closing descriptor 0 would leave its number to the next open.
        let line = std::io::stdin().as_fd().try_clone_to_owned().map_err(failed)?;
        let null = File::options().read(true).write(true).open("/dev/null").map_err(failed)?;
        rustix::stdio::dup2_stdin(&null).map_err(|errno| failed(errno.into()))?;
        Ok(Self::new(line))
    }

    fn new(line: OwnedFd) -> Self {
        Self(Arc::new(Mutex::new(Channel::from_fd(line))))
    }

    /// Asks, and waits for the reply.
    fn ask(&self, request: &BrokerRequest) -> Result<(BrokerReply, Vec<OwnedFd>), Failure> {
        let failed = |error: &dyn fmt::Display| Failure::system("ask the target's broker", error);
        let body = serde_json::to_vec(request).map_err(|error| failed(&error))?;
        let mut line = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        line.send(&body, &[]).map_err(|error| failed(&error))?;
        let reply = line.recv().map_err(|error| failed(&error))?;
        let reply = reply.ok_or_else(|| failed(&"it has ended"))?;
        match serde_json::from_slice(&reply.body).map_err(|error| failed(&error))? {
            BrokerReply::Failed { code, sentence } => Err(Failure::new(code, sentence)),
            other => Ok((other, reply.fds)),
        }
    }

    fn tell(&self, request: &BrokerRequest) -> Result<(), Failure> {
        match self.ask(request)? {
            (BrokerReply::Done, _) => Ok(()),
            (other, _) => Err(unexpected(&other)),
        }
    }

    /// Has the broker make what the target needs outside.
    ///
    /// # Errors
    /// A target of this name runs; the folder for state cannot be had; the system's.
    pub(super) fn prepare(
        &self,
        name: &InstanceName,
        state: Option<PathBuf>,
    ) -> Result<Preparation, Failure> {
        let request = BrokerRequest::Prepare { name: name.to_string(), state };
        match self.ask(&request)? {
            (BrokerReply::Prepared { user, pid }, mut fds) if fds.len() == 1 => {
                Ok(Preparation { user, pid, listener: fds.remove(0).into() })
            }
            (other, _) => Err(unexpected(&other)),
        }
    }

    /// The target serves from now on.
    ///
    /// # Errors
    /// The broker could not tell that.
    pub(super) fn ready(&self) -> Result<(), Failure> {
        self.tell(&BrokerRequest::Ready)
    }

    /// The target does not serve.
    pub(super) fn fail(&self, failure: &Failure) -> Result<(), Failure> {
        let Failure { code, sentence } = failure.clone();
        self.tell(&BrokerRequest::Failed { code, sentence })
    }

    /// Is this an initiator's key that is known?
    ///
    /// # Errors
    /// The file of known keys cannot be read.
    pub(super) fn is_known(&self, key: Fingerprint) -> Result<bool, Failure> {
        match self.ask(&BrokerRequest::IsKnown { key: key.to_string() })? {
            (BrokerReply::Known(known), _) => Ok(known),
            (other, _) => Err(unexpected(&other)),
        }
    }
}

impl StateStore for BrokerLine {
    fn load(&self, lun: LunNumber) -> io::Result<KeptState> {
        match self.ask(&BrokerRequest::Load { lun: lun.get() }).map_err(io::Error::other)? {
            (BrokerReply::Kept { reservations, mode_pages }, _) => Ok(KeptState {
                reservations: reservations.map(Into::into),
                mode_pages: mode_pages.map(Into::into),
            }),
            (other, _) => Err(io::Error::other(unexpected(&other))),
        }
    }

    fn store(&self, lun: LunNumber, state: &StoredState) -> io::Result<()> {
        let request = BrokerRequest::Store { lun: lun.get(), state: state.into() };
        self.tell(&request).map_err(io::Error::other)
    }
}

fn unexpected(_: &BrokerReply) -> Failure {
    Failure::system("ask the target's broker", "its answer is one to another request")
}
