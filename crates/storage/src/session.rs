//! A session: an initiator port that is logged in, and its commands.
//!
//! RFC 7143 lets a session have several connections; ours has one. The sessions of a target know
//! each other by the [`SessionTable`]: task management, PREEMPT AND ABORT and reinstatement reach
//! into others.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use iscsi::pdu::{AsyncEvent, Isid};
use iscsi::settings::{DigestPreference, KeySettings};
use iscsi::target::{Completion, TargetConnection};
use iscsi::{IscsiName, Lun, TargetConfig, TaskId};
use scsi::NexusId;
use seal::PeerIdentity;
use sockets::Client;
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio::task::AbortHandle;

use crate::access::Peer;
use crate::counters::SessionCounters;
use crate::device::{Device, PORTAL_GROUP};
use crate::stream::StreamSignals;
use crate::transport::SealedState;

/// Data-in that may wait to be written, and as much data-out that may wait for its volume, KiB. It
/// is at least one command's.
pub(crate) const ROOM: u32 = 16 << 10;

/// Status CHECK CONDITION (SAM-5 5.3.1), and sense data for it: ILLEGAL REQUEST, LOGICAL UNIT NOT
/// SUPPORTED (SPC-4 4.5.3).
const CHECK_CONDITION: u8 = 2;
const NO_SUCH_UNIT: [u8; 18] = [0x70, 0, 5, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x25, 0, 0, 0, 0, 0];

/// A session's name: the initiator port.
pub(crate) type SessionName = (String, Isid);

/// The sessions of a target.
pub(crate) type SessionTable = RefCell<HashMap<SessionName, Rc<Session>>>;

/// What all sessions of a target share.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SharedBySessions<'a> {
    pub(crate) device: &'a Rc<Device>,
    pub(crate) table: &'a Rc<SessionTable>,
    /// Of headers and data.
    pub(crate) digest: DigestPreference,
}

/// Both ends of a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ends {
    pub(crate) local: SocketAddr,
    pub(crate) peer: SocketAddr,
}

/// A session and its connection.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) device: Rc<Device>,
    pub(crate) connection: RefCell<TargetConnection>,
    pub(crate) signals: StreamSignals,
    pub(crate) tasks: RefCell<HashMap<TaskId, RunningTask>>,
    /// KiB of data-in that may still be read.
    pub(crate) room_in: Arc<Semaphore>,
    /// KiB of data-out that may still be taken.
    pub(crate) room_out: Arc<Semaphore>,
    /// The connection ends now, whatever it still has to send.
    pub(crate) dropped: Notify,
    pub(crate) nexus: Cell<Option<NexusId>>,
    pub(crate) table: Rc<SessionTable>,
    pub(crate) counters: SessionCounters,
    pub(crate) ends: Ends,
    /// The connection is over but for its output.
    pub(crate) closed: Cell<bool>,
    name: RefCell<Option<SessionName>>,
    /// The name that the initiator says, once it has.
    said: RefCell<Option<IscsiName>>,
    /// Who it has proved to be by CHAP.
    user: RefCell<Option<String>>,
    started: Instant,
    /// Who the peer is, where the transport proves it.
    peer: RefCell<Option<PeerIdentity>>,
    sealed: RefCell<Option<Rc<SealedState>>>,
    /// Takes marks of what the disk does.
    pub(crate) client: Arc<Client>,
}

/// A command that is under way.
#[derive(Debug)]
pub(crate) struct RunningTask {
    pub(crate) lun: Lun,
    pub(crate) abort: Option<AbortHandle>,
    /// Takes the data-out that was asked for.
    pub(crate) data: mpsc::UnboundedSender<(u32, Vec<Bytes>)>,
}

impl Session {
    /// A connection that was accepted now.
    pub(crate) fn new(
        SharedBySessions { device, table, digest }: SharedBySessions<'_>,
        client: &Arc<Client>,
        ends: Ends,
        random: [u8; 64],
    ) -> Rc<Self> {
        let keys = KeySettings::with_digests(digest);
        let config = TargetConfig { keys, portal_group: PORTAL_GROUP, ..TargetConfig::default() };
        Rc::new(Self {
            device: Rc::clone(device),
            connection: RefCell::new(TargetConnection::new(config, Duration::ZERO, random)),
            signals: StreamSignals::default(),
            tasks: RefCell::default(),
            room_in: Arc::new(Semaphore::new(ROOM as usize)),
            room_out: Arc::new(Semaphore::new(ROOM as usize)),
            dropped: Notify::new(),
            nexus: Cell::new(None),
            table: Rc::clone(table),
            counters: SessionCounters::default(),
            ends,
            closed: Cell::new(false),
            name: RefCell::default(),
            said: RefCell::default(),
            user: RefCell::default(),
            started: Instant::now(),
            peer: RefCell::default(),
            sealed: RefCell::default(),
            client: Arc::clone(client),
        })
    }

    /// The transport stands.
    pub(crate) fn identify(&self, peer: Option<PeerIdentity>, sealed: Option<Rc<SealedState>>) {
        self.peer.replace(peer);
        self.sealed.replace(sealed);
    }

    /// How the transport proved who the peer is: a name of its certificate, or its key.
    pub(crate) fn proven_name(&self) -> Option<String> {
        let peer = self.peer.borrow();
        let name = |peer: &PeerIdentity| match peer.names().first() {
            Some(name) => name.clone(),
            None => peer.fingerprint().to_string(),
        };
        peer.as_ref().map(name)
    }

    /// All that the transport proved of the peer: the names of its certificate, and its key.
    pub(crate) fn proven_identities(&self) -> Vec<String> {
        let peer = self.peer.borrow();
        let all = |peer: &PeerIdentity| {
            let key = std::iter::once(peer.fingerprint().to_string());
            peer.names().iter().cloned().chain(key).collect()
        };
        peer.as_ref().map(all).unwrap_or_default()
    }

    /// The state of a sealed session.
    pub(crate) fn sealed(&self) -> Option<Rc<SealedState>> {
        self.sealed.borrow().clone()
    }

    /// Time since the connection was accepted.
    pub(crate) fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// Takes its place in the table, which is free.
    pub(crate) fn enter(self: &Rc<Self>, name: SessionName, user: Option<String>, nexus: NexusId) {
        self.nexus.set(Some(nexus));
        self.user.replace(user);
        self.table.borrow_mut().insert(name.clone(), Rc::clone(self));
        self.name.replace(Some(name));
    }

    /// The initiator says its name.
    pub(crate) fn says(&self, initiator: &IscsiName) {
        self.said.replace(Some(initiator.clone()));
    }

    /// The name that the initiator says; empty before it has.
    pub(crate) fn said(&self) -> String {
        self.said.borrow().as_ref().map(IscsiName::to_string).unwrap_or_default()
    }

    /// Who its initiator is; `None`: it has not said its name.
    pub(crate) fn peer(&self) -> Option<Peer> {
        Some(Peer {
            address: self.ends.peer.ip(),
            initiator: self.said.borrow().clone()?,
            user: self.user(),
            identities: self.proven_identities(),
        })
    }

    /// Who has proved to have the session.
    pub(crate) fn user(&self) -> Option<String> {
        self.user.borrow().clone()
    }

    /// Is it the session of this user, and of the peer of this connection?
    pub(crate) fn is_of(&self, user: Option<&str>, connection: &Self) -> bool {
        self.user.borrow().as_deref() == user && self.proven_name() == connection.proven_name()
    }

    /// Ends a task without an answer.
    pub(crate) fn abort(&self, task: TaskId) {
        let _ = self.connection.borrow_mut().abort(task);
        self.forget(task);
    }

    pub(crate) fn forget(&self, task: TaskId) {
        let running = self.tasks.borrow_mut().remove(&task);
        if let Some(abort) = running.and_then(|running| running.abort) {
            abort.abort();
        }
    }

    pub(crate) fn forget_all(&self) {
        let all: Vec<TaskId> = self.tasks.borrow().keys().copied().collect();
        for task in all {
            self.forget(task);
        }
    }

    /// Aborts all tasks of the unit, or of all. How many there were.
    pub(crate) fn abort_all(&self, lun: Option<Lun>) -> usize {
        let meant: Vec<TaskId> = {
            let tasks = self.tasks.borrow();
            let meant = tasks.iter().filter(|(_, task)| lun.is_none_or(|lun| task.lun == lun));
            meant.map(|(id, _)| *id).collect()
        };
        for task in &meant {
            self.abort(*task);
        }
        meant.len()
    }

    /// Ends all tasks of a unit that is gone, and tells the initiator so.
    pub(crate) fn fail_all(&self, lun: Lun) {
        let meant: Vec<TaskId> = {
            let tasks = self.tasks.borrow();
            tasks.iter().filter(|(_, task)| task.lun == lun).map(|(id, _)| *id).collect()
        };
        for task in meant {
            let sense = Bytes::from_static(&NO_SUCH_UNIT);
            let gone = Completion { status: CHECK_CONDITION, sense, ..Completion::default() };
            let _ = self.connection.borrow_mut().complete(task, gone);
            self.forget(task);
        }
        self.signals.output.notify_one();
    }

    /// The target's other sessions.
    pub(crate) fn others(&self) -> Vec<Rc<Self>> {
        let sessions = self.table.borrow();
        sessions.values().filter(|other| other.nexus != self.nexus).cloned().collect()
    }

    /// Asks the initiator to go, and closes once the output has left.
    pub(crate) fn finish(&self) {
        let event = AsyncEvent::SessionDrop { wait: 2, retain: 0 };
        let _ = self.connection.borrow_mut().send_async(event, &Bytes::new());
        self.closed.set(true);
        self.signals.output.notify_one();
    }

    /// Ends the session: its tasks, its nexus, its place in the table.
    pub(crate) fn end(&self) {
        self.closed.set(true);
        self.forget_all();
        if let Some(nexus) = self.nexus.take() {
            self.device.scsi.borrow_mut().remove_nexus(nexus);
        }
        if let Some(name) = self.name.take() {
            let mut sessions = self.table.borrow_mut();
            if sessions.get(&name).is_some_and(|one| std::ptr::eq(&raw const **one, self)) {
                sessions.remove(&name);
            }
        }
        self.dropped.notify_one();
    }
}
