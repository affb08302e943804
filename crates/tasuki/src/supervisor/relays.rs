//! Relays: they introduce the programs behind their filters.
//!
//! A program of `tasuki run` may change its user, its root and its namespaces before its first
//! socket. It then reaches no socket of this instance by its path, and is nobody whom the instance
//! knows. But it is still behind the filter that `tasuki run` gave it, so its relay vouches for it.

use abi::control::{ClientReply, VERSION};
use rustix::process::Pid;

use super::Supervisor;
use super::connections::{ConnectionId, is_own};
use super::requests::Refusal;
use crate::config::Mode;

impl Supervisor {
    /// A relay begins.
    pub(super) fn begin_relay(&mut self, id: ConnectionId, version: u32) -> Result<(), Refusal> {
        let refuse = |message: &str| Err(Refusal::Client(message.to_owned()));
        if version != VERSION {
            return refuse("the relay is of another installation than the instance");
        }
        if self.instance.settings.mode == Mode::Library {
            // The stack is inside one program.
            return Ok(self.reply(id, &ClientReply::Host, &[])?);
        }
        Ok(self.reply(id, &ClientReply::Done, &[])?)
    }

    /// A relay vouches for a process.
    pub(super) fn introduce(&mut self, id: ConnectionId, thread: u32) -> Result<(), Refusal> {
        let refuse = |message: &str| Err(Refusal::Client(message.to_owned()));
        let Some(connection) = self.connections.get_mut(id) else { return Ok(()) };
        let user = connection.user;
        if !user.is_root() && !is_own(user) {
            return refuse("only a relay of the instance's user introduces programs");
        }
        let Some(pid) = process_of(thread) else {
            return refuse("the process that asks has ended");
        };
        match self.connections.introduce(pid, user) {
            Ok(end) => Ok(self.reply(id, &ClientReply::Introduced, &[&end])?),
            Err(error) => refuse(&format!("cannot make a connection: {error}")),
        }
    }
}

/// The process of a thread.
fn process_of(thread: u32) -> Option<Pid> {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Tgid:"))?;
    Pid::from_raw(line.trim().parse().ok()?)
}
