//! The state of a target's connection, its input and its getters.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;

use super::config::TargetConfig;
use super::counters::ConnectionCounters;
use super::event::{CloseReason, TargetEvent, TaskId};
use super::output_item::{AnswerOutput, OrderedOutput, R2tOutput, StatusOutput};
use super::task::Task;
use super::text_exchange::TextExchange;
use super::window::CommandWindow;
use crate::error::{ProtocolError, UsageError};
use crate::framing::Decoder;
use crate::login::TargetLogin;
use crate::pdu::{Bhs, LoginRequest, NO_TAG, RejectReason, Stage, TaskFunction};
use crate::serial::SerialNumber;
use crate::settings::{SessionParameters, SessionType};

/// Payload of PDUs before the keys are agreed (RFC 7143 13.12: the default).
const LOGIN_PAYLOAD: u32 = 8192;

/// The phase of a connection.
#[derive(Debug)]
pub(super) enum TargetPhase {
    /// The login goes on, or the shell has a question of it.
    Login,
    /// The shell decides whether the session begins; stage and text of the last response.
    Ready(Stage, Vec<u8>),
    FullFeature,
    /// The answer to the logout is under way.
    LoggingOut,
    Closed,
}

/// A request of task management that the shell works on.
#[derive(Debug, Clone, Copy)]
pub(super) struct OpenManagement {
    pub(super) tag: u32,
    pub(super) function: TaskFunction,
}

/// A target's end of a connection, which is a session by itself (MaxConnections is 1).
///
/// See the crate's page for how a shell drives it.
#[derive(Debug)]
pub struct TargetConnection {
    pub(super) config: TargetConfig,
    pub(super) phase: TargetPhase,
    pub(super) login: TargetLogin,
    /// The request of the login that has no response yet.
    pub(super) login_request: Option<LoginRequest>,
    pub(super) session: SessionType,
    pub(super) cid: u16,
    pub(super) decoder: Decoder,
    pub(super) parameters: SessionParameters,
    pub(super) stat_sn: SerialNumber,
    pub(super) window: CommandWindow,
    pub(super) events: VecDeque<TargetEvent>,
    pub(super) r2ts: VecDeque<R2tOutput>,
    pub(super) answers: VecDeque<AnswerOutput>,
    pub(super) ordered: VecDeque<OrderedOutput>,
    /// Open commands by their tag.
    pub(super) tasks: BTreeMap<u32, Task>,
    pub(super) tags: BTreeMap<TaskId, u32>,
    pub(super) next_task: u64,
    /// Immediate commands and management requests that are open.
    pub(super) open_immediate: u16,
    pub(super) managements: BTreeMap<u32, OpenManagement>,
    pub(super) next_request: u32,
    /// Tags of commands that wait for an R2T.
    pub(super) r2t_waiters: VecDeque<u32>,
    /// Bytes of R2Ts that are open.
    pub(super) solicited: u32,
    pub(super) next_transfer_tag: u32,
    pub(super) text: Option<TextExchange>,
    pub(super) deadline: Duration,
    pub(super) last_heard: Duration,
    pub(super) ping: Option<(u32, Duration)>,
    pub(super) counters: ConnectionCounters,
}

impl TargetConnection {
    /// A connection that was accepted at `now`. `random` comes from a generator that nobody can
    /// foresee; it is used for one connection only.
    pub fn new(config: TargetConfig, now: Duration, random: [u8; 64]) -> Self {
        let mut chap = [0; 33];
        chap.copy_from_slice(&random[..33]);
        let number = |at: usize| {
            u32::from_be_bytes([random[at], random[at + 1], random[at + 2], random[at + 3]])
        };
        let mut config = config;
        config.queue_depth = config.queue_depth.clamp(1, 4096);
        config.max_immediate = config.max_immediate.max(1);
        Self {
            phase: TargetPhase::Login,
            login: TargetLogin::new(config.keys.clone(), config.portal_group, &chap),
            login_request: None,
            session: SessionType::Normal,
            cid: 0,
            decoder: Decoder::new(LOGIN_PAYLOAD),
            parameters: SessionParameters::default(),
            stat_sn: SerialNumber::new(number(33)),
            window: CommandWindow::new(SerialNumber::new(0), config.queue_depth),
            events: VecDeque::new(),
            r2ts: VecDeque::new(),
            answers: VecDeque::new(),
            ordered: VecDeque::new(),
            tasks: BTreeMap::new(),
            tags: BTreeMap::new(),
            next_task: 0,
            open_immediate: 0,
            managements: BTreeMap::new(),
            next_request: 0,
            r2t_waiters: VecDeque::new(),
            solicited: 0,
            next_transfer_tag: number(37),
            text: None,
            deadline: now.saturating_add(config.login_timeout),
            last_heard: now,
            ping: None,
            counters: ConnectionCounters::default(),
            config,
        }
    }

    /// Takes received bytes from the front of `input`, and leaves what it cannot take now: then
    /// [`TargetConnection::wants_input`] is false until the shell has polled output and events.
    pub fn handle_bytes(&mut self, now: Duration, input: &mut Bytes) {
        while self.wants_input() && !input.is_empty() {
            match self.decoder.decode(input) {
                Ok(Some(pdu)) => {
                    self.last_heard = now;
                    self.ping = None;
                    let result = match self.phase {
                        TargetPhase::Login | TargetPhase::Ready(..) => self.handle_login_pdu(&pdu),
                        _ => self.handle_pdu(pdu),
                    };
                    if let Err(error) = result {
                        self.close(CloseReason::Peer(error));
                    }
                }
                Ok(None) => {}
                Err(error) => {
                    let digest = matches!(error, ProtocolError::HeaderDigest);
                    self.counters.digest_errors += u64::from(digest);
                    self.close(CloseReason::Peer(error));
                }
            }
        }
        if self.is_ending() {
            // Nothing that comes after the end means anything.
            input.clear();
        }
    }

    /// Whether `handle_bytes` would take bytes. While it would not, the shell need not read.
    pub fn wants_input(&self) -> bool {
        let depth = usize::from(self.config.queue_depth) + usize::from(self.config.max_immediate);
        !self.is_ending()
            && self.answers.len() < usize::from(self.config.max_immediate)
            && self.events.len() < 2 * depth + 64
            && self.ordered.len() < 4 * depth + 64
    }

    /// Whether the connection is over but for its output.
    pub(super) fn is_ending(&self) -> bool {
        matches!(self.phase, TargetPhase::LoggingOut | TargetPhase::Closed)
    }

    /// What happened next.
    pub fn poll_event(&mut self) -> Option<TargetEvent> {
        self.events.pop_front()
    }

    /// The agreed values; the RFC's defaults before the full feature phase.
    pub fn parameters(&self) -> &SessionParameters {
        &self.parameters
    }

    /// What was counted so far.
    pub fn counters(&self) -> ConnectionCounters {
        self.counters
    }

    /// Commands that are open.
    pub fn open_commands(&self) -> usize {
        self.tasks.len()
    }

    /// Bytes of the initiator that the connection holds, and those that it has asked for. The bound
    /// is in the documentation of [`TargetConfig`].
    pub fn held_bytes(&self) -> usize {
        let tasks = self.tasks.values().map(|task| {
            let bursts = task.bursts.iter().map(|burst| burst.length as usize);
            task.data.iter().map(Bytes::len).sum::<usize>() + bursts.sum::<usize>()
        });
        let answers = self.answers.iter().map(|answer| match answer {
            AnswerOutput::Nop(_, data) => data.len(),
            _ => 0,
        });
        let text = self.text.as_ref().map_or(0, |text| text.assembler.held());
        tasks.sum::<usize>()
            + answers.sum::<usize>()
            + self.window.held()
            + text
            + self.decoder.held()
    }

    /// ExpCmdSN and MaxCmdSN as they would be sent now.
    pub fn command_window(&self) -> (SerialNumber, SerialNumber) {
        self.window.numbers()
    }

    /// Ends the connection. The shell sends what is left of the output.
    pub(super) fn close(&mut self, reason: CloseReason) {
        if matches!(self.phase, TargetPhase::Closed) {
            return;
        }
        self.drop_all();
        self.login.forget_secrets();
        self.phase = TargetPhase::Closed;
        self.events.push_back(TargetEvent::Closed(reason));
    }

    /// Forgets all commands and their output.
    pub(super) fn drop_all(&mut self) {
        self.tasks.clear();
        self.tags.clear();
        self.window.clear();
        self.managements.clear();
        self.r2ts.clear();
        self.r2t_waiters.clear();
        self.solicited = 0;
        self.text = None;
        // A response of the login is the only thing that a connection sends beyond its end.
        self.ordered.retain(|item| matches!(item, OrderedOutput::Other(StatusOutput::Login(..))));
    }

    /// A fresh Target Transfer Tag.
    pub(super) fn fresh_transfer_tag(&mut self) -> u32 {
        self.next_transfer_tag = self.next_transfer_tag.wrapping_add(1);
        if self.next_transfer_tag == NO_TAG {
            self.next_transfer_tag = 0;
        }
        self.next_transfer_tag
    }

    pub(super) fn fresh_request(&mut self) -> u32 {
        self.next_request = self.next_request.wrapping_add(1);
        self.next_request
    }

    /// Queues a Reject.
    pub(super) fn reject(&mut self, bhs: Bhs, reason: RejectReason) {
        self.counters.rejects += 1;
        self.answers.push_back(AnswerOutput::Reject(reason, bhs));
        self.events.push_back(TargetEvent::Rejected { opcode: bhs.opcode(), reason });
    }

    pub(super) fn queue_status(&mut self, item: StatusOutput) {
        self.ordered.push_back(OrderedOutput::Other(item));
    }

    /// Whether the connection is in the full feature phase.
    pub fn is_full_feature(&self) -> bool {
        matches!(self.phase, TargetPhase::FullFeature)
    }

    pub(super) fn check_full_feature(&self) -> Result<(), UsageError> {
        self.is_full_feature().then_some(()).ok_or(UsageError::WrongPhase)
    }

    /// A PDU that must not come in this phase.
    pub(super) fn out_of_place(bhs: &Bhs) -> ProtocolError {
        ProtocolError::OutOfPlace(bhs.opcode())
    }
}
