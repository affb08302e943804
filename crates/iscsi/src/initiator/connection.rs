//! The state of an initiator's connection, its input and its getters.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;

use super::config::InitiatorConfig;
use super::event::{CommandId, Ending, InitiatorEvent};
use super::open_request::{DataRun, OpenRequest, RequestKind};
use crate::error::{ProtocolError, UsageError};
use crate::framing::Decoder;
use crate::login::{InitiatorLogin, InitiatorStep, InitiatorWishes, LoginStages};
use crate::pdu::{NO_TAG, Request};
use crate::serial::SerialNumber;
use crate::settings::SessionParameters;

/// Payload of PDUs before the keys are agreed (RFC 7143 13.12: the default).
const LOGIN_PAYLOAD: u32 = 8192;

/// The phase of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InitiatorPhase {
    Login,
    FullFeature,
    LoggingOut,
    Closed,
}

/// An initiator's end of a connection, which is a session by itself (MaxConnections is 1).
///
/// See the crate's page for how a shell drives it.
#[derive(Debug)]
pub struct InitiatorConnection {
    pub(super) config: InitiatorConfig,
    pub(super) phase: InitiatorPhase,
    pub(super) login: InitiatorLogin,
    pub(super) login_tag: u32,
    pub(super) decoder: Decoder,
    pub(super) parameters: SessionParameters,
    /// CmdSN of the next command.
    pub(super) cmd_sn: SerialNumber,
    pub(super) max_cmd_sn: SerialNumber,
    pub(super) exp_cmd_sn: SerialNumber,
    pub(super) exp_stat_sn: SerialNumber,
    pub(super) events: VecDeque<InitiatorEvent>,
    /// Requests of the login, and immediate ones: header without ExpStatSN, and payload.
    pub(super) urgent: VecDeque<(Request, Bytes)>,
    pub(super) runs: VecDeque<DataRun>,
    /// Tags of commands that are not sent yet.
    pub(super) queue: VecDeque<u32>,
    /// Open requests by their tag.
    pub(super) open: BTreeMap<u32, OpenRequest>,
    pub(super) tags: BTreeMap<CommandId, u32>,
    next_id: u64,
    next_tag: u32,
    /// When the login or logout is late.
    pub(super) deadline: Duration,
    pub(super) last_heard: Duration,
    pub(super) ping_deadline: Option<Duration>,
}

impl InitiatorConnection {
    /// A connection to a target, whose transport was connected at `now`. `random` comes from a
    /// generator that nobody can foresee; it is used for one connection only.
    ///
    /// # Errors
    ///
    /// CHAP without a security stage, without algorithms, or with the same secret for both ends.
    pub fn new(
        config: InitiatorConfig,
        now: Duration,
        random: [u8; 64],
    ) -> Result<Self, UsageError> {
        check(&config)?;
        let mut proof = [0; 33];
        proof.copy_from_slice(&random[..33]);
        let number = |at: usize| {
            u32::from_be_bytes([random[at], random[at + 1], random[at + 2], random[at + 3]])
        };
        let wishes = InitiatorWishes {
            name: config.name.clone(),
            alias: config.alias.clone(),
            target: config.target.clone(),
            isid: config.isid,
            stages: config.stages,
            keys: config.keys.clone(),
            chap: config.chap.clone(),
        };
        let cmd_sn = SerialNumber::new(number(33));
        let mut connection = Self {
            phase: InitiatorPhase::Login,
            login: InitiatorLogin::new(wishes, &proof),
            login_tag: 0,
            decoder: Decoder::new(LOGIN_PAYLOAD),
            parameters: SessionParameters::default(),
            cmd_sn,
            max_cmd_sn: cmd_sn,
            exp_cmd_sn: cmd_sn,
            exp_stat_sn: SerialNumber::new(0),
            events: VecDeque::new(),
            urgent: VecDeque::new(),
            runs: VecDeque::new(),
            queue: VecDeque::new(),
            open: BTreeMap::new(),
            tags: BTreeMap::new(),
            next_id: 0,
            next_tag: number(37),
            deadline: now.saturating_add(config.login_timeout),
            last_heard: now,
            ping_deadline: None,
            config,
        };
        connection.login_tag = connection.fresh_tag();
        let first = connection.login.start();
        connection.take_login_step(Ok(first));
        Ok(connection)
    }

    /// Takes received bytes from the front of `input`, and leaves what it cannot take now: then
    /// [`InitiatorConnection::wants_input`] is false until the shell has polled output and events.
    pub fn handle_bytes(&mut self, now: Duration, input: &mut Bytes) {
        while self.wants_input() && !input.is_empty() {
            match self.decoder.decode(input) {
                Ok(Some(pdu)) => {
                    self.last_heard = now;
                    self.ping_deadline = None;
                    if let Err(error) = self.handle_pdu(pdu) {
                        self.close(Ending::Peer(error));
                    }
                }
                Ok(None) => {}
                Err(error) => self.close(Ending::Peer(error)),
            }
        }
        if self.phase == InitiatorPhase::Closed {
            // Nothing that comes after the end means anything.
            input.clear();
        }
    }

    /// Whether `handle_bytes` would take bytes. While it would not, the shell need not read.
    pub fn wants_input(&self) -> bool {
        self.phase != InitiatorPhase::Closed
            && self.events.len() < 2 * usize::from(self.config.queue_depth) + 64
            && self.urgent.len() < 64
    }

    /// What happened next.
    pub fn poll_event(&mut self) -> Option<InitiatorEvent> {
        self.events.pop_front()
    }

    /// The agreed values; the RFC's defaults before the full feature phase.
    pub fn parameters(&self) -> &SessionParameters {
        &self.parameters
    }

    /// Whether the connection is in the full feature phase.
    pub fn is_full_feature(&self) -> bool {
        self.phase == InitiatorPhase::FullFeature
    }

    /// Requests that are open, in the order in which they were made.
    pub fn open_requests(&self) -> impl Iterator<Item = CommandId> {
        self.tags.keys().copied()
    }

    /// Bytes that the connection holds of unfinished PDUs and texts.
    pub fn held_bytes(&self) -> usize {
        let texts = self.open.values().map(|request| match &request.kind {
            RequestKind::Text(text, _) => text.held(),
            _ => 0,
        });
        texts.sum::<usize>() + self.decoder.held()
    }

    /// Ends the connection.
    pub(super) fn close(&mut self, ending: Ending) {
        if self.phase == InitiatorPhase::Closed {
            return;
        }
        self.phase = InitiatorPhase::Closed;
        self.forget_secrets();
        self.urgent.clear();
        self.runs.clear();
        self.queue.clear();
        self.open.clear();
        self.tags.clear();
        self.events.push_back(InitiatorEvent::Closed(ending));
    }

    /// The login is over: its secrets are overwritten.
    pub(super) fn forget_secrets(&mut self) {
        self.config.chap = None;
        self.login.forget_secrets();
    }

    /// A task tag that no open request has.
    pub(super) fn fresh_tag(&mut self) -> u32 {
        loop {
            self.next_tag = self.next_tag.wrapping_add(1);
            if self.next_tag != NO_TAG && !self.open.contains_key(&self.next_tag) {
                return self.next_tag;
            }
        }
    }

    /// Opens a request.
    pub(super) fn open_request(&mut self, kind: RequestKind) -> (CommandId, u32) {
        let tag = self.fresh_tag();
        self.next_id += 1;
        let id = CommandId(self.next_id);
        self.open.insert(tag, OpenRequest { id, kind });
        self.tags.insert(id, tag);
        (id, tag)
    }

    /// Ends a request. Data that is on its way for it is dropped.
    pub(super) fn end_request(&mut self, tag: u32) -> Option<OpenRequest> {
        let request = self.open.remove(&tag)?;
        self.tags.remove(&request.id);
        self.runs.retain(|run| run.tag != tag);
        self.queue.retain(|waiting| *waiting != tag);
        Some(request)
    }

    /// The first breach of an answer.
    pub(super) fn unknown(tag: u32) -> ProtocolError {
        ProtocolError::UnknownTag(tag)
    }

    pub(super) fn take_login_step(&mut self, step: Result<InitiatorStep, ProtocolError>) {
        match step {
            Ok(InitiatorStep::Request { current, transit, text }) => {
                self.queue_login(current, transit, text);
            }
            Ok(InitiatorStep::Done { tsih }) => self.begin(tsih),
            Ok(InitiatorStep::Refused(status)) => self.close(Ending::LoginRefused(status)),
            Ok(InitiatorStep::Redirected { address, permanent }) => {
                self.close(Ending::Redirected { address, permanent });
            }
            Err(error) => self.close(Ending::Peer(error)),
        }
    }
}

fn check(config: &InitiatorConfig) -> Result<(), UsageError> {
    if config.queue_depth == 0 {
        return Err(UsageError::Invalid("the queue depth is 0"));
    }
    let Some(chap) = &config.chap else { return Ok(()) };
    let own = chap.target.as_ref().map(|target| &target.secret);
    if config.stages == LoginStages::Operational {
        Err(UsageError::Invalid("CHAP needs the security stage"))
    } else if chap.algorithms.is_empty() {
        Err(UsageError::Invalid("CHAP needs an algorithm"))
    } else if own.is_some_and(|own| own.is_same(&chap.initiator.secret)) {
        // RFC 7143 9.2.1
        Err(UsageError::Invalid("both ends have the same CHAP secret"))
    } else {
        Ok(())
    }
}
