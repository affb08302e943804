//! An initiator: one session with a target, for `tasuki disk`.
//!
//! Requests are futures; any number of them may be open, up to the queue depth of the connection. A
//! connection that is lost ends all of them with an error.

mod capacity;
mod disk_portal;
mod error;
mod sense;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io::ErrorKind;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use iscsi::initiator::{DiscoveredTarget, Ending};
use iscsi::pdu::AsyncEvent::{LogoutRequested, NegotiationRequested};
use iscsi::pdu::{Isid, LogoutReason, RejectReason, ServiceResponse};
use iscsi::settings::{ChapPolicy, KeySettings};
use iscsi::{
    CommandId, InitiatorCommand, InitiatorConfig, InitiatorConnection, InitiatorEvent, IscsiName,
    Lun, ProtocolError, Transmit, UsageError,
};
use rustix::rand::{GetRandomFlags, getrandom};
use tokio::sync::{Notify, Semaphore, oneshot};
use tokio::task::AbortHandle;

pub use self::capacity::Capacity;
pub use self::disk_portal::DiskPortal;
pub use self::error::InitiatorError;
use self::sense::{NOT_READY, sense_of};
pub(crate) use self::sense::{UNIT_ATTENTION, may_be_another};
use crate::data_in::{CommandDataIn, in_one_piece};
use crate::stream::{self, StreamProtocol, StreamSignals, begins_tls};
use crate::transport::Opened;

/// Commands that are open at a time; more wait.
pub(crate) const QUEUE_DEPTH: u16 = 64;
/// Requests besides commands that may be open: pings, a logout.
const OTHERS: u16 = 8;
/// Between two looks at the protocol's timers.
const TIMER_PAUSE: Duration = Duration::from_millis(500);
/// How long the last output may take to leave.
const LAST_OUTPUT: Duration = Duration::from_secs(5);
/// How often a command is made again that found a unit attention.
const ATTENTIONS: u32 = 8;
/// Codes of unit attentions that are kept.
const MOST_ATTENTIONS: usize = 64;
/// The additional sense code MEDIUM NOT PRESENT (SPC-4 4.5.7).
const NO_MEDIUM: u16 = 0x3a;
/// Why a plain session with another kind of portal ends.
const SECRET_PORTAL: &str = "its portal speaks sealed or TLS: say iscsi+sealed:// or iscsi+tls://";
const NO_ANSWER: &str = "the portal ended it without an answer: if it is a sealed or TLS one, say \
                         iscsi+sealed:// or iscsi+tls://";
/// Why a session over TLS ends that the target does not end in order.
const CUT: &str = "the target ended it without the end of TLS: if its portal is a sealed one, say \
                   iscsi+sealed://";
/// Why a request finds no connection.
const ENDED: &str = "it has ended";
/// Status CHECK CONDITION (SAM-5 5.3.1).
const CHECK_CONDITION: u8 = 2;

/// Who an initiator is, and how it proves that.
#[derive(Debug, Clone)]
pub struct InitiatorIdentity {
    /// Its iSCSI name.
    pub name: IscsiName,
    /// The proof of both ends; `None`: neither has to prove anything.
    pub chap: Option<ChapPolicy>,
}

/// A session with a target.
#[derive(Debug, Clone)]
pub struct Initiator(Rc<Shared>);

/// What a unit says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inquiry {
    /// It is a disk (peripheral device type 00h), and nothing else that a target may have.
    pub is_disk: bool,
    /// Vendor and product.
    pub product: String,
}

#[derive(Debug)]
struct Shared {
    connection: RefCell<InitiatorConnection>,
    signals: StreamSignals,
    over: Cell<bool>,
    /// The connection ends now, whatever it still has to send.
    closed: Notify,
    /// The connection is over.
    ended: Notify,
    open: RefCell<HashMap<CommandId, OpenRequest>>,
    login: RefCell<Option<oneshot::Sender<Result<(), InitiatorError>>>>,
    /// Codes of unit attentions that nobody has asked for yet.
    attentions: RefCell<Vec<u16>>,
    slots: Semaphore,
    started: Instant,
    /// Received bytes lie in memory of the socket: the transport is plain.
    in_place: bool,
    /// The target has answered something.
    heard: Cell<bool>,
}

#[derive(Debug)]
struct OpenRequest {
    data: CommandDataIn,
    answer: oneshot::Sender<Answer>,
}

#[derive(Debug)]
enum Answer {
    Response { status: u8, sense: Bytes, data: Vec<Bytes> },
    Targets(Vec<DiscoveredTarget>),
    Failed,
    Lost(String),
}

impl Initiator {
    /// Logs in; without a target for discovery only. Within a tokio runtime that runs on Tasuki.
    ///
    /// # Errors
    /// Why it is not logged in.
    pub async fn connect(
        portal: &DiskPortal,
        identity: &InitiatorIdentity,
        target: Option<&IscsiName>,
    ) -> Result<Self, InitiatorError> {
        Self::connect_as(portal, identity, target, random_isid()?).await
    }

    /// As [`Initiator::connect`], with the initiator's part of the session's identifier. The target
    /// ends a session of the same name and identifier before (RFC 7143 6.3.5). Dropping the future
    /// ends the attempt.
    ///
    /// # Errors
    /// Why it is not logged in.
    pub async fn connect_as(
        portal: &DiskPortal,
        identity: &InitiatorIdentity,
        target: Option<&IscsiName>,
        isid: Isid,
    ) -> Result<Self, InitiatorError> {
        let opened = portal.open().await?;
        let random = random()?;
        let config = InitiatorConfig {
            queue_depth: QUEUE_DEPTH + OTHERS,
            chap: identity.chap.clone(),
            keys: KeySettings::with_digests(portal.digest),
            ..InitiatorConfig::new(identity.name.clone(), target.cloned(), isid)
        };
        let (login, logged_in) = oneshot::channel();
        let shared = Rc::new(Shared {
            connection: RefCell::new(InitiatorConnection::new(config, Duration::ZERO, random)?),
            signals: StreamSignals::default(),
            over: Cell::new(false),
            closed: Notify::new(),
            ended: Notify::new(),
            open: RefCell::default(),
            login: RefCell::new(Some(login)),
            attentions: RefCell::default(),
            slots: Semaphore::new(usize::from(QUEUE_DEPTH)),
            started: Instant::now(),
            in_place: opened.reader.is_in_place(),
            heard: Cell::new(false),
        });
        let connection = tokio::task::spawn_local(Rc::clone(&shared).run(opened));
        // A login that nobody waits for would end a later session, if it came to its end.
        let attempt = EndOnDrop(Some(connection.abort_handle()));
        match logged_in.await {
            Ok(Ok(())) => {
                attempt.keep();
                Ok(Self(shared))
            }
            Ok(Err(error)) => Err(error),
            Err(_) => Err(InitiatorError::Lost("it ended during the login".to_owned())),
        }
    }

    /// Ends the connection without a logout, and all requests with it.
    pub fn close(&self) {
        self.0.end("this end has closed it");
        self.0.closed.notify_one();
    }

    /// The codes of the unit attentions since the last call, for all units.
    #[must_use]
    pub fn take_attentions(&self) -> Vec<u16> {
        self.0.attentions.take()
    }

    /// The targets behind the portal.
    ///
    /// # Errors
    /// The connection's.
    pub async fn targets(&self) -> Result<Vec<DiscoveredTarget>, InitiatorError> {
        let request = self.0.connection.borrow_mut().send_targets(None)?;
        match self.0.answer(request, 0).await {
            Answer::Targets(targets) => Ok(targets),
            Answer::Lost(why) => Err(InitiatorError::Lost(why)),
            _ => Err(InitiatorError::Target),
        }
    }

    /// The units' numbers (REPORT LUNS, SPC-4 6.33).
    ///
    /// # Errors
    /// The command's or the connection's.
    pub async fn luns(&self) -> Result<Vec<u16>, InitiatorError> {
        // Each number that a unit can have.
        const MOST: u32 = 8 + 8 * (1 << 14);
        let mut cdb = [0; 12];
        cdb[0] = 0xa0;
        cdb[6..10].copy_from_slice(&MOST.to_be_bytes());
        let data = self.read_by(0, &cdb, MOST).await?;
        let listed = data.get(..4).ok_or(InitiatorError::Answer(cdb[0]))?;
        let listed = u32::from_be_bytes(listed.try_into().unwrap_or_default()) as usize;
        let fields = data.get(8..).unwrap_or_default().chunks_exact(8).take(listed / 8);
        Ok(fields.filter_map(|field| Lun::from_bytes(field.try_into().ok()?).number()).collect())
    }

    /// What the unit is (INQUIRY, SPC-4 6.6).
    ///
    /// # Errors
    /// The command's or the connection's.
    pub async fn inquiry(&self, lun: u16) -> Result<Inquiry, InitiatorError> {
        let data = self.read_by(lun, &[0x12, 0, 0, 0, 96, 0], 96).await?;
        let text = data.get(8..32).ok_or(InitiatorError::Answer(0x12))?;
        let words: Vec<_> = text.chunks(8).map(String::from_utf8_lossy).collect();
        let product = words.concat().split_whitespace().collect::<Vec<_>>().join(" ");
        // A direct access device that is connected.
        Ok(Inquiry { is_disk: data[0] == 0, product })
    }

    /// As [`Self::capacity`]; `None` while the unit has no medium.
    ///
    /// # Errors
    /// The command's or the connection's.
    pub async fn capacity_of_medium(&self, lun: u16) -> Result<Option<Capacity>, InitiatorError> {
        match self.capacity(lun).await {
            Err(InitiatorError::Command { key: NOT_READY, code, .. }) if code >> 8 == NO_MEDIUM => {
                Ok(None)
            }
            other => other.map(Some),
        }
    }

    /// The unit's size (READ CAPACITY (16), SBC-3 5.16).
    ///
    /// # Errors
    /// The command's or the connection's.
    pub async fn capacity(&self, lun: u16) -> Result<Capacity, InitiatorError> {
        let mut cdb = [0; 16];
        (cdb[0], cdb[1], cdb[13]) = (0x9e, 0x10, 32);
        let data = self.read_by(lun, &cdb, 32).await?;
        Capacity::parse(&data).ok_or(InitiatorError::Answer(cdb[0]))
    }

    /// Reads blocks (READ (16), SBC-3 5.13).
    ///
    /// # Errors
    /// The command's or the connection's.
    pub async fn read(
        &self,
        lun: u16,
        capacity: Capacity,
        block: u64,
        blocks: u32,
    ) -> Result<Bytes, InitiatorError> {
        self.read_pieces(lun, capacity, block, blocks).await.map(in_one_piece)
    }

    /// As [`Self::read`]. The pieces lie one behind the other, where they were received.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub async fn read_pieces(
        &self,
        lun: u16,
        capacity: Capacity,
        block: u64,
        blocks: u32,
    ) -> Result<Vec<Bytes>, InitiatorError> {
        let cdb = transfer(0x88, block, blocks);
        let len = blocks * capacity.block_size;
        let pieces = self.command(lun, &cdb, Vec::new(), len).await?;
        let came: usize = pieces.iter().map(Bytes::len).sum();
        if came == len as usize { Ok(pieces) } else { Err(InitiatorError::Answer(cdb[0])) }
    }

    /// Writes blocks (WRITE (16), SBC-3 5.34). They are in the unit's cache then.
    ///
    /// # Errors
    /// The command's or the connection's.
    pub async fn write(
        &self,
        lun: u16,
        block: u64,
        blocks: u32,
        data: Bytes,
    ) -> Result<(), InitiatorError> {
        let cdb = transfer(0x8a, block, blocks);
        self.command(lun, &cdb, vec![data], 0).await.map(drop)
    }

    /// What was written is on stable storage then (SYNCHRONIZE CACHE (16), SBC-3 5.22).
    ///
    /// # Errors
    /// The command's or the connection's.
    pub async fn flush(&self, lun: u16) -> Result<(), InitiatorError> {
        self.command(lun, &transfer(0x91, 0, 0), Vec::new(), 0).await.map(drop)
    }

    /// Logs out.
    pub async fn logout(self) {
        let now = self.0.started.elapsed();
        let reason = LogoutReason::CloseSession;
        let begun = self.0.connection.borrow_mut().logout(now, reason);
        if let Ok(request) = begun {
            self.0.answer(request, 0).await;
        }
    }

    async fn read_by(&self, lun: u16, cdb: &[u8], len: u32) -> Result<Bytes, InitiatorError> {
        self.command(lun, cdb, Vec::new(), len).await.map(in_one_piece)
    }

    /// A command, again while it finds unit attentions.
    ///
    /// # Errors
    /// The command's or the connection's.
    pub(crate) async fn command(
        &self,
        lun: u16,
        cdb: &[u8],
        data_out: Vec<Bytes>,
        expected_in: u32,
    ) -> Result<Vec<Bytes>, InitiatorError> {
        self.command_unless(|_| false, (lun, cdb), data_out, expected_in).await
    }

    /// A command for the unit that the caller knows: a unit attention that says that it may be
    /// another one, or was reset, is an error.
    ///
    /// # Errors
    /// The command's or the connection's.
    pub(crate) async fn command_of_known(
        &self,
        lun: u16,
        cdb: &[u8],
        data_out: Vec<Bytes>,
        expected_in: u32,
    ) -> Result<Vec<Bytes>, InitiatorError> {
        self.command_unless(may_be_another, (lun, cdb), data_out, expected_in).await
    }

    /// A command, again while it finds unit attentions whose codes do not end it.
    async fn command_unless(
        &self,
        ends: impl Fn(u16) -> bool,
        (lun, cdb): (u16, &[u8]),
        data_out: Vec<Bytes>,
        expected_in: u32,
    ) -> Result<Vec<Bytes>, InitiatorError> {
        let operation = cdb.first().copied().unwrap_or(0);
        let lun = Lun::from_number(lun).ok_or(InitiatorError::Answer(operation))?;
        for _ in 0..ATTENTIONS {
            // It is never closed.
            let _slot = self.0.slots.acquire().await;
            let command = InitiatorCommand {
                lun,
                cdb: Bytes::copy_from_slice(cdb),
                attribute: None,
                data_out: data_out.clone(),
                expected_in,
            };
            let request = self.0.connection.borrow_mut().submit(command);
            let request = match request {
                Err(UsageError::WrongPhase) => {
                    // A logout may be on its way: the next session begins after this one.
                    self.0.ended().await;
                    return Err(InitiatorError::Lost(ENDED.to_owned()));
                }
                other => other?,
            };
            match self.0.answer(request, expected_in).await {
                Answer::Response { status: 0, data, .. } => return Ok(data),
                Answer::Response { status: CHECK_CONDITION, sense, .. }
                    if sense_of(&sense).0 == UNIT_ATTENTION && !ends(sense_of(&sense).1) =>
                {
                    let mut attentions = self.0.attentions.borrow_mut();
                    if attentions.len() < MOST_ATTENTIONS {
                        attentions.push(sense_of(&sense).1);
                    }
                }
                Answer::Response { status, sense, .. } => {
                    let (key, code) = sense_of(&sense);
                    return Err(InitiatorError::Command { operation, status, key, code });
                }
                Answer::Lost(why) => return Err(InitiatorError::Lost(why)),
                _ => return Err(InitiatorError::Target),
            }
        }
        let (status, key, code) = (CHECK_CONDITION, UNIT_ATTENTION, 0);
        Err(InitiatorError::Command { operation, status, key, code })
    }
}

/// Ends a connection that nobody waits for any more.
struct EndOnDrop(Option<AbortHandle>);

impl EndOnDrop {
    fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        if let Some(connection) = self.0.take() {
            connection.abort();
        }
    }
}

fn random<const LEN: usize>() -> Result<[u8; LEN], InitiatorError> {
    let mut bytes = [0; LEN];
    getrandom(&mut bytes, GetRandomFlags::empty())
        .map_err(|errno| InitiatorError::Lost(errno.to_string()))?;
    Ok(bytes)
}

/// An initiator's part of a session's identifier that nobody else has.
///
/// # Errors
/// The system has no random numbers.
pub fn random_isid() -> Result<Isid, InitiatorError> {
    Ok(Isid::random(random()?))
}

/// A command block of 16 bytes with an address and a length.
pub(crate) fn transfer(operation: u8, block: u64, blocks: u32) -> [u8; 16] {
    let mut cdb = [0; 16];
    cdb[0] = operation;
    cdb[2..10].copy_from_slice(&block.to_be_bytes());
    cdb[10..14].copy_from_slice(&blocks.to_be_bytes());
    cdb
}

impl StreamProtocol for Shared {
    fn signals(&self) -> &StreamSignals {
        &self.signals
    }

    fn handle_bytes(&self, input: &mut Bytes) {
        if !self.heard.replace(true) && begins_tls(input) {
            input.clear();
            return self.end(SECRET_PORTAL);
        }
        self.connection.borrow_mut().handle_bytes(self.started.elapsed(), input);
        self.handle_events();
    }

    fn poll_transmit(&self) -> Option<Transmit> {
        self.connection.borrow_mut().poll_transmit()
    }

    fn is_over(&self) -> bool {
        self.over.get()
    }
}

impl Shared {
    /// Waits for the answer to a request.
    async fn answer(&self, request: CommandId, room: u32) -> Answer {
        if self.over.get() {
            return Answer::Lost(ENDED.to_owned());
        }
        let (answer, answered) = oneshot::channel();
        let data = CommandDataIn::new(room);
        self.open.borrow_mut().insert(request, OpenRequest { data, answer });
        self.signals.output.notify_one();
        answered.await.unwrap_or_else(|_| Answer::Lost(ENDED.to_owned()))
    }

    async fn run(self: Rc<Self>, opened: Opened) {
        let until = async {
            tokio::select! {
                () = self.watch() => {}
                () = self.closed.notified() => {}
            }
        };
        let why = match stream::run(&*self, opened.reader, opened.writer, until).await {
            _ if self.in_place && !self.heard.get() => NO_ANSWER.to_owned(),
            Ok(()) => "the target has closed it".to_owned(),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => CUT.to_owned(),
            Err(error) => error.to_string(),
        };
        self.end(&why);
    }

    async fn watch(&self) {
        while !self.over.get() {
            tokio::time::sleep(TIMER_PAUSE).await;
            self.connection.borrow_mut().handle_timeout(self.started.elapsed());
            self.handle_events();
            self.signals.output.notify_one();
        }
        // The target may not read what is left.
        tokio::time::sleep(LAST_OUTPUT).await;
    }

    fn handle_events(&self) {
        loop {
            let event = self.connection.borrow_mut().poll_event();
            let Some(event) = event else { return };
            match event {
                InitiatorEvent::LoggedIn { .. } => self.logged_in(Ok(())),
                InitiatorEvent::DataIn { command, offset, data } => {
                    if let Some(open) = self.open.borrow_mut().get_mut(&command) {
                        open.data.put(offset as usize, data, self.in_place);
                    }
                }
                InitiatorEvent::Response { command, response, status, sense, .. } => {
                    self.finish(command, |data| match response {
                        ServiceResponse::Completed => Answer::Response { status, sense, data },
                        _ => Answer::Failed,
                    });
                }
                InitiatorEvent::Targets { command, targets } => {
                    self.finish(command, |_| Answer::Targets(targets));
                }
                InitiatorEvent::Damaged { .. }
                | InitiatorEvent::Rejected {
                    command: None,
                    reason: RejectReason::DataDigestError,
                } => tracing::warn!("data was damaged on its way: it is sent again"),
                InitiatorEvent::Rejected { command: Some(command), .. } => {
                    self.finish(command, |_| Answer::Failed);
                }
                InitiatorEvent::Async {
                    event: LogoutRequested { .. } | NegotiationRequested { .. },
                    ..
                } => self.leave(),
                InitiatorEvent::Closed(Ending::LoginRefused(status)) => {
                    self.logged_in(Err(InitiatorError::Refused(status)));
                    self.end("the login was refused");
                }
                InitiatorEvent::Closed(Ending::Peer(ProtocolError::Authentication(why))) => {
                    self.logged_in(Err(InitiatorError::Unproved(why)));
                    self.end("the target does not prove who it is");
                }
                InitiatorEvent::Closed(ending) => self.end(&ending.to_string()),
                _ => {}
            }
        }
    }

    /// The target wants a logout, or other parameters, which the next session may have (RFC 7143
    /// 11.9.1). A logout honours either.
    fn leave(&self) {
        tracing::info!("the target asks for a logout");
        // A logout that is on its way will do.
        let now = self.started.elapsed();
        let _ = self.connection.borrow_mut().logout(now, LogoutReason::CloseSession);
        self.signals.output.notify_one();
    }

    /// Waits until the connection is over.
    async fn ended(&self) {
        let ended = self.ended.notified();
        if !self.over.get() {
            ended.await;
        }
    }

    fn logged_in(&self, result: Result<(), InitiatorError>) {
        if let Some(login) = self.login.take() {
            let _ = login.send(result);
        }
    }

    fn finish(&self, request: CommandId, answer: impl FnOnce(Vec<Bytes>) -> Answer) {
        if let Some(open) = self.open.borrow_mut().remove(&request) {
            let _ = open.answer.send(answer(open.data.into_pieces()));
        }
    }

    fn end(&self, why: &str) {
        self.over.set(true);
        self.ended.notify_waiters();
        self.logged_in(Err(InitiatorError::Lost(why.to_owned())));
        for (_, open) in self.open.take() {
            let _ = open.answer.send(Answer::Lost(why.to_owned()));
        }
    }
}
