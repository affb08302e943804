//! The answer to `tasuki ps`: counters of all servers, added up, and the list of processes.

use std::collections::btree_map::Entry;

use abi::control::{ClientReply, InstanceStatus, ProcessStatus, ServerReply, ServerRequest};
use abi::stats::is_duration;

use super::connections::ConnectionId;
use super::requests::Refusal;
use super::servers::ServerId;
use super::{PendingStatus, ReplyContext, Supervisor};
use crate::exit::Failure;

impl Supervisor {
    pub(super) fn ask_counters(&mut self, id: ConnectionId) -> Result<(), Refusal> {
        let mut lines: Vec<ServerId> =
            [ServerId::Inet].into_iter().chain(self.servers.drivers()).collect();
        lines.retain(|_| self.servers.are_there());
        self.pending_status
            .insert(id, PendingStatus { left: lines.len(), ..PendingStatus::default() });
        for server in lines {
            let context = ReplyContext::Counters { connection: id, server };
            self.ask(id, server, ServerRequest::Counters, context)?;
        }
        Ok(self.reply_status(id)?)
    }

    /// One server's part of `tasuki ps` is here.
    pub(super) fn collect_status(
        &mut self,
        id: ConnectionId,
        server: ServerId,
        reply: ServerReply,
    ) -> Result<(), Failure> {
        let Some(gather) = self.pending_status.get_mut(&id) else { return Ok(()) };
        match reply {
            ServerReply::Counters { counters, pools, histograms, parties } => {
                if let ServerId::Nic(number) = server {
                    let mut own = counters.clone();
                    own.sort_unstable();
                    gather.by_driver.insert(number, own);
                }
                gather.parties.extend(parties);
                // Counters of several drivers are added up.
                for (name, count) in counters {
                    let sum = gather.counters.entry(name.clone()).or_default();
                    *sum = match is_duration(&name) {
                        true => count.max(*sum),
                        false => sum.saturating_add(count),
                    };
                }
                gather.pools.extend(pools);
                for histogram in histograms {
                    match gather.histograms.entry(histogram.name.clone()) {
                        Entry::Vacant(place) => drop(place.insert(histogram)),
                        Entry::Occupied(mut place) => place.get_mut().merge(&histogram),
                    }
                }
            }
            _ => tracing::warn!("a server does not tell its counters"),
        }
        gather.left = gather.left.saturating_sub(1);
        self.reply_status(id)
    }

    /// The answer to `tasuki ps`, once all parts of it are here.
    fn reply_status(&mut self, id: ConnectionId) -> Result<(), Failure> {
        if self.pending_status.get(&id).is_none_or(|gather| gather.left > 0) {
            return Ok(());
        }
        let Some(gathered) = self.pending_status.remove(&id) else { return Ok(()) };
        let PendingStatus { pools, counters, histograms, mut parties, mut by_driver, .. } =
            gathered;
        // The inet server knows a driver's rings, and the driver its counters.
        for party in parties.iter_mut().filter(|party| party.role == "nic") {
            party.counters = by_driver.remove(&party.number).unwrap_or_default();
        }
        let stack = self.instance.links.iter().flat_map(|link| &link.addresses.stack);
        let addresses: Vec<String> = stack.map(ToString::to_string).collect();
        let status = InstanceStatus {
            instance: self.instance.settings.name.to_string(),
            mode: self.instance.settings.mode.to_string(),
            address: addresses.first().cloned().unwrap_or_default(),
            addresses,
            processes: self.processes(),
            pools,
            counters: counters.into_iter().collect(),
            histograms: histograms.into_values().collect(),
            parties,
        };
        self.reply(id, &ClientReply::Processes(status), &[])
    }

    fn processes(&self) -> Vec<ProcessStatus> {
        let server = |role: &str, pid, name: &str, memory: &str| ProcessStatus {
            role: role.to_owned(),
            pid,
            name: name.to_owned(),
            client: None,
            memory: memory.to_owned(),
            sandbox: None,
        };
        let mut all = vec![server("supervisor", std::process::id(), "tasuki", "-")];
        let mut links = self.instance.links.iter();
        let first = self.instance.links.first().map_or("", |link| link.frames.backing.as_str());
        for ((role, pid), sandbox) in self.servers.processes().zip(self.servers.sandboxes()) {
            let link = if role == "inet" { None } else { links.next() };
            let (name, frames) = link.map_or(("tasuki-inet", first), |link| {
                (link.device.device.name(), link.frames.backing.as_str())
            });
            all.push(ProcessStatus { sandbox, ..server(role, pid, name, frames) });
        }
        for (number, client) in self.clients.iter().filter(|(_, c)| c.connection.is_some()) {
            let backing = &client.memory.backing;
            let process = server("client", client.pid, &client.program, backing);
            all.push(ProcessStatus { client: Some(number), ..process });
        }
        all
    }
}
