//! Relays: they introduce the programs behind their filters.
//!
//! A program of `tasuki run` may change its user, its root and its namespaces before its first
//! socket. It then reaches no socket of this instance by its path, and is nobody whom the instance
//! knows. But it is still behind the filter that `tasuki run` gave it, so its relay vouches for it.

use abi::control::{ClientReply, VERSION};
use rustix::process::{Pid, Uid};

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
        let Some((pid, owner)) = process_of(thread) else {
            return refuse("the process that asks has ended");
        };
        // `instance.group` lets users in for themselves.
        if !user.is_root() && !is_own(user) && owner != user {
            return refuse(
                "a relay of another user than the instance's introduces programs of its own user \
                 only",
            );
        }
        match self.connections.introduce(pid, user) {
            Ok(end) => Ok(self.reply(id, &ClientReply::Introduced, &[&end])?),
            Err(error) => refuse(&format!("cannot make a connection: {error}")),
        }
    }
}

/// The process of a thread, and its effective user.
fn process_of(thread: u32) -> Option<(Pid, Uid)> {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
    let pid = Pid::from_raw(field("Tgid:")?.trim().parse().ok()?)?;
    let user = field("Uid:")?.split_whitespace().nth(1)?.parse().ok()?;
    Some((pid, Uid::from_raw(user)))
}
