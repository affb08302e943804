//! The end of an instance: its phases from Draining on, and the events that lead there.

use std::time::Instant;

use abi::control::{ServerReply, ServerRequest};
use rustix::process::Signal;

use super::child::Program;
use super::clients::Clients;
use super::servers::ServerId;
use super::signals::ReceivedSignal;
use super::{
    DRAIN_PATIENCE, PROGRAM_PATIENCE, Phase, ReplyContext, START_PATIENCE, STOP_PATIENCE,
    Supervisor, Workload,
};
use crate::exit::{Code, Failure};

impl Supervisor {
    pub(super) fn program_ended(&mut self) -> Result<(), Failure> {
        let Some(code) = self.program.as_mut().and_then(Program::collect) else { return Ok(()) };
        if self.stopping() {
            return Ok(());
        }
        // Processes that ended with the program have sent their last messages. Read those before
        // dropping the remaining connections.
        for id in self.connections.ids() {
            self.serve(id)?;
        }
        for (_, connection) in self.clients.connected() {
            self.drop_connection(connection)?;
        }
        self.verdict = Some(Ok(code));
        self.phase = Phase::Draining { until: Instant::now() + DRAIN_PATIENCE };
        Ok(())
    }

    /// In mode `library` the process that hosted the servers is gone, and all its clients with it.
    /// Another one may begin anew.
    pub(super) fn host_lost(&mut self) -> Result<(), Failure> {
        for (_, connection) in self.clients.connected() {
            self.connections.remove(connection);
        }
        self.clients = Clients::new();
        let unanswered = self.servers.renew()?;
        self.instance.renew()?;
        self.instance.configure(
            &mut self.servers,
            || ReplyContext::Configured,
            || ReplyContext::PolicyAdded,
        )?;
        for context in unanswered {
            if !matches!(context, ReplyContext::Configured | ReplyContext::Ending) {
                let message = "the program that had the stack has ended".to_owned();
                self.handle_reply(context, ServerReply::Error { message })?;
            }
        }
        Ok(())
    }

    pub(super) fn server_ended(&mut self, index: usize) -> Result<(), Failure> {
        match self.servers.collect(index) {
            Some(sentence) if !self.stopping() => Err(Failure::new(Code::Internal, sentence)),
            _ => Ok(()),
        }
    }

    pub(super) fn handle_signal(&mut self, arrived: ReceivedSignal) {
        tracing::debug!(?arrived, "signal");
        match (&self.program, self.phase) {
            (Some(program), Phase::Running) => {
                if let Some(signal) = arrived.to_pass_on() {
                    program.signal(signal, arrived.sender);
                }
            }
            (None, Phase::Starting { .. }) if arrived.ends() => {
                let code = match self.workload {
                    Some(Workload::Program(_)) => {
                        u8::try_from(128 + arrived.signal).unwrap_or(u8::MAX)
                    }
                    _ => 0,
                };
                self.stop(Some(Ok(code)));
            }
            _ if arrived.ends() => self.stop(None),
            _ => {}
        }
    }

    /// Begins to end the instance. The first verdict counts; without one, the program's exit code.
    pub(super) fn stop(&mut self, verdict: Option<Result<u8, Failure>>) {
        if let Some(Err(failure)) = &verdict
            && self.verdict.is_some()
        {
            tracing::debug!(%failure, "while ending");
        }
        if self.verdict.is_none() {
            self.verdict = verdict;
        }
        if self.stopping() {
            return;
        }
        if let Some(program) = &self.program {
            program.signal(Signal::TERM, None);
        }
        self.phase = Phase::StoppingProgram { until: Instant::now() + PROGRAM_PATIENCE };
    }

    /// Does the next work of this phase.
    pub(super) fn progress(&mut self) -> Result<(), Failure> {
        if self.servers.are_lost() && !self.stopping() {
            self.host_lost()?;
        }
        self.give_up_late()?;
        self.serve_waiting_hellos()?;
        let late = self.until().is_some_and(|until| Instant::now() >= until);
        match self.phase {
            Phase::Starting { .. } if late => {
                let seconds = START_PATIENCE.as_secs();
                let sentence = format!("the servers did not get ready within {seconds} seconds");
                return Err(Failure::new(Code::Internal, sentence));
            }
            Phase::Draining { .. } if late || self.clients.len() == 0 => self.stop(None),
            _ => {}
        }
        if let Phase::StoppingProgram { until } = self.phase {
            let ended = self.program.as_ref().is_none_or(|p| p.exit_code().is_some());
            if ended || Instant::now() >= until {
                // Dropping kills it.
                self.program = self.program.take().filter(|_| ended);
                let until = Instant::now() + STOP_PATIENCE;
                self.phase = Phase::StoppingServers { until, inet: false, nic: false };
            }
        }
        if let Phase::StoppingServers { until, inet, nic } = self.phase {
            self.stop_servers(until, inet, nic);
        }
        Ok(())
    }

    /// The inet server first: its resets must get out through the driver.
    pub(super) fn stop_servers(&mut self, until: Instant, mut inet: bool, mut nic: bool) {
        if Instant::now() >= until {
            tracing::warn!("servers did not end in time: killed");
            self.servers.kill();
            return;
        }
        // Before the other ends hear that the drivers end, and look for a listener.
        self.instance.leave_wires();
        inet = inet || self.end_server(ServerId::Inet);
        if self.servers.has_ended(ServerId::Inet) {
            nic = nic || self.servers.drivers().all(|server| self.end_server(server));
        }
        self.phase = Phase::StoppingServers { until, inet, nic };
    }

    pub(super) fn end_server(&mut self, server: ServerId) -> bool {
        if !self.servers.has_ended(server) {
            // A server that is just ending by itself need not be asked.
            let _ = self.servers.ask(server, ServerRequest::Shutdown, &[], ReplyContext::Ending);
        }
        true
    }
}
