//! An initiator: one session with a target, for `tasuki disk`.
//!
//! Requests are futures; any number of them may be open, up to the queue depth of the connection. A
//! connection that is lost ends all of them with an error.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::{BufMut as _, Bytes, BytesMut};
use iscsi::initiator::{DiscoveredTarget, Ending};
use iscsi::pdu::{Isid, LoginStatus, LogoutReason, ServiceResponse};
use iscsi::{
    CommandId, InitiatorCommand, InitiatorConfig, InitiatorConnection, InitiatorEvent, IscsiName,
    Lun, Transmit, UsageError,
};
use rustix::rand::{GetRandomFlags, getrandom};
use tasuki_tokio::TcpStream;
use tokio::sync::{Semaphore, oneshot};

use crate::stream::{self, StreamProtocol, StreamSignals};

/// Requests that are open at a time; more wait.
pub(crate) const QUEUE_DEPTH: u16 = 64;
/// Between two looks at the protocol's timers.
const TIMER_PAUSE: Duration = Duration::from_millis(500);
/// How long the last output may take to leave.
const LAST_OUTPUT: Duration = Duration::from_secs(5);
/// How often a command is made again that found a unit attention.
const ATTENTIONS: u32 = 8;
/// Status CHECK CONDITION (SAM-5 5.3.1).
const CHECK_CONDITION: u8 = 2;
/// Sense key UNIT ATTENTION (SPC-4 4.5.6).
const UNIT_ATTENTION: u8 = 6;

/// Why a request has no result.
#[derive(Debug, thiserror::Error)]
pub enum InitiatorError {
    /// The portal cannot be reached.
    #[error("cannot connect to {address}: {source}")]
    Connect {
        /// The portal.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// The target does not let us in.
    #[error("the target refuses the login: {0:?}")]
    Refused(LoginStatus),
    /// The connection has ended.
    #[error("the connection to the target is lost: {0}")]
    Lost(String),
    /// The target has failed.
    #[error("the target failed")]
    Target,
    /// A command has failed.
    #[error("command {operation:02x}h: status {status:02x}h, sense key {key:x}h, code {code:04x}h")]
    Command {
        /// Operation code.
        operation: u8,
        /// SCSI status.
        status: u8,
        /// Sense key; 0 if there is no sense data.
        key: u8,
        /// Additional sense code and its qualifier.
        code: u16,
    },
    /// The answer is too short, or says something impossible.
    #[error("the target's answer to command {0:02x}h makes no sense")]
    Answer(u8),
    /// A call that the protocol does not allow.
    #[error(transparent)]
    Usage(#[from] UsageError),
}

/// A session with a target.
#[derive(Debug, Clone)]
pub struct Initiator(Rc<Shared>);

/// A unit's size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    /// Blocks.
    pub blocks: u64,
    /// Bytes of a block.
    pub block_size: u32,
}

impl Capacity {
    /// Bytes of the unit.
    #[must_use]
    pub fn bytes(self) -> u64 {
        self.blocks.saturating_mul(u64::from(self.block_size))
    }
}

#[derive(Debug)]
struct Shared {
    connection: RefCell<InitiatorConnection>,
    signals: StreamSignals,
    over: Cell<bool>,
    open: RefCell<HashMap<CommandId, OpenRequest>>,
    login: RefCell<Option<oneshot::Sender<Result<(), InitiatorError>>>>,
    slots: Semaphore,
    started: Instant,
}

#[derive(Debug)]
struct OpenRequest {
    data: BytesMut,
    answer: oneshot::Sender<Answer>,
}

#[derive(Debug)]
enum Answer {
    Response { status: u8, sense: Bytes, data: Bytes },
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
        address: SocketAddr,
        name: &IscsiName,
        target: Option<&IscsiName>,
    ) -> Result<Self, InitiatorError> {
        let connected = TcpStream::connect(address).await;
        let stream = connected.map_err(|source| InitiatorError::Connect { address, source })?;
        let _ = stream.set_nodelay(true).await;
        let lost = |error: rustix::io::Errno| InitiatorError::Lost(error.to_string());
        let (mut isid, mut random) = ([0; 5], [0; 64]);
        getrandom(&mut isid, GetRandomFlags::empty()).map_err(lost)?;
        getrandom(&mut random, GetRandomFlags::empty()).map_err(lost)?;
        let config = InitiatorConfig {
            queue_depth: QUEUE_DEPTH,
            ..InitiatorConfig::new(name.clone(), target.cloned(), Isid::random(isid))
        };
        let (login, logged_in) = oneshot::channel();
        let shared = Rc::new(Shared {
            connection: RefCell::new(InitiatorConnection::new(config, Duration::ZERO, random)?),
            signals: StreamSignals::default(),
            over: Cell::new(false),
            open: RefCell::default(),
            login: RefCell::new(Some(login)),
            slots: Semaphore::new(usize::from(QUEUE_DEPTH)),
            started: Instant::now(),
        });
        tokio::task::spawn_local(Rc::clone(&shared).run(stream));
        match logged_in.await {
            Ok(result) => result.map(|()| Self(shared)),
            Err(_) => Err(InitiatorError::Lost("it ended during the login".to_owned())),
        }
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

    /// Vendor and product (INQUIRY, SPC-4 6.6).
    ///
    /// # Errors
    /// The command's or the connection's.
    pub async fn inquiry(&self, lun: u16) -> Result<String, InitiatorError> {
        let data = self.read_by(lun, &[0x12, 0, 0, 0, 96, 0], 96).await?;
        let text = data.get(8..32).ok_or(InitiatorError::Answer(0x12))?;
        let words: Vec<_> = text.chunks(8).map(String::from_utf8_lossy).collect();
        Ok(words.concat().split_whitespace().collect::<Vec<_>>().join(" "))
    }

    /// The unit's size (READ CAPACITY (16), SBC-3 5.16).
    ///
    /// # Errors
    /// The command's or the connection's.
    pub async fn capacity(&self, lun: u16) -> Result<Capacity, InitiatorError> {
        let mut cdb = [0; 16];
        (cdb[0], cdb[1], cdb[13]) = (0x9e, 0x10, 32);
        let data = self.read_by(lun, &cdb, 32).await?;
        let wrong = || InitiatorError::Answer(cdb[0]);
        let field = data.get(..12).ok_or_else(wrong)?;
        let last = u64::from_be_bytes(field[..8].try_into().unwrap_or_default());
        let block_size = u32::from_be_bytes(field[8..].try_into().unwrap_or_default());
        let blocks = last.checked_add(1).ok_or_else(wrong)?;
        if !block_size.is_power_of_two() || !(512..=1 << 16).contains(&block_size) {
            return Err(wrong());
        }
        Ok(Capacity { blocks, block_size })
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
        let cdb = transfer(0x88, block, blocks);
        let len = blocks * capacity.block_size;
        let data = self.read_by(lun, &cdb, len).await?;
        if data.len() == len as usize { Ok(data) } else { Err(InitiatorError::Answer(cdb[0])) }
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
        self.command(lun, cdb, Vec::new(), len).await
    }

    /// A command, again while it finds unit attentions.
    async fn command(
        &self,
        lun: u16,
        cdb: &[u8],
        data_out: Vec<Bytes>,
        expected_in: u32,
    ) -> Result<Bytes, InitiatorError> {
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
            match self.0.answer(request?, expected_in).await {
                Answer::Response { status: 0, data, .. } => return Ok(data),
                Answer::Response { status: CHECK_CONDITION, sense, .. }
                    if sense_of(&sense).0 == UNIT_ATTENTION => {}
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

/// A command block of 16 bytes with an address and a length.
fn transfer(operation: u8, block: u64, blocks: u32) -> [u8; 16] {
    let mut cdb = [0; 16];
    cdb[0] = operation;
    cdb[2..10].copy_from_slice(&block.to_be_bytes());
    cdb[10..14].copy_from_slice(&blocks.to_be_bytes());
    cdb
}

/// Sense key and additional code of sense data in either format (SPC-4 4.5).
fn sense_of(sense: &[u8]) -> (u8, u16) {
    let at = |index: usize| sense.get(index).copied().unwrap_or(0);
    match at(0) & 0x7f {
        0x70 | 0x71 => (at(2) & 0xf, u16::from_be_bytes([at(12), at(13)])),
        0x72 | 0x73 => (at(1) & 0xf, u16::from_be_bytes([at(2), at(3)])),
        _ => (0, 0),
    }
}

impl StreamProtocol for Shared {
    fn signals(&self) -> &StreamSignals {
        &self.signals
    }

    fn handle_bytes(&self, input: &mut Bytes) {
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
            return Answer::Lost("it has ended".to_owned());
        }
        let (answer, answered) = oneshot::channel();
        let data = BytesMut::with_capacity(room as usize);
        self.open.borrow_mut().insert(request, OpenRequest { data, answer });
        self.signals.output.notify_one();
        answered.await.unwrap_or_else(|_| Answer::Lost("it has ended".to_owned()))
    }

    async fn run(self: Rc<Self>, stream: TcpStream) {
        let why = match stream::run(&*self, stream, self.watch()).await {
            Ok(()) => "the target has closed it".to_owned(),
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
                        place(&mut open.data, offset as usize, &data);
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
                InitiatorEvent::Rejected { command: Some(command), .. } => {
                    self.finish(command, |_| Answer::Failed);
                }
                InitiatorEvent::Closed(Ending::LoginRefused(status)) => {
                    self.logged_in(Err(InitiatorError::Refused(status)));
                    self.end("the login was refused");
                }
                InitiatorEvent::Closed(ending) => self.end(&format!("{ending:?}")),
                _ => {}
            }
        }
    }

    fn logged_in(&self, result: Result<(), InitiatorError>) {
        if let Some(login) = self.login.take() {
            let _ = login.send(result);
        }
    }

    fn finish(&self, request: CommandId, answer: impl FnOnce(Bytes) -> Answer) {
        if let Some(open) = self.open.borrow_mut().remove(&request) {
            let _ = open.answer.send(answer(open.data.freeze()));
        }
    }

    fn end(&self, why: &str) {
        self.over.set(true);
        self.logged_in(Err(InitiatorError::Lost(why.to_owned())));
        for (_, open) in self.open.take() {
            let _ = open.answer.send(Answer::Lost(why.to_owned()));
        }
    }
}

/// Puts data-in at its place. The connection has checked that it is within the room.
fn place(data: &mut BytesMut, offset: usize, part: &[u8]) {
    if data.len() < offset {
        data.put_bytes(0, offset - data.len());
    }
    let over = part.len().min(data.len() - offset);
    data[offset..offset + over].copy_from_slice(&part[..over]);
    data.extend_from_slice(&part[over..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_come_in_any_order() {
        let mut data = BytesMut::new();
        place(&mut data, 4, b"ef");
        place(&mut data, 0, b"abcd");
        place(&mut data, 5, b"fgh");
        assert_eq!(&data[..], b"abcdefgh");
    }

    #[test]
    fn sense_data_has_two_formats() {
        let fixed = [0x70, 0, 6, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x29, 1];
        assert_eq!(sense_of(&fixed), (6, 0x2901));
        assert_eq!(sense_of(&[0x72, 5, 0x24, 0]), (5, 0x2400));
        assert_eq!(sense_of(&[]), (0, 0));
    }
}
