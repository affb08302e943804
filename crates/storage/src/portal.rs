//! The portal of a target: who may log in, and what SendTargets tells.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::Rc;

use iscsi::IscsiName;
use iscsi::pdu::LoginStatus;
use iscsi::target::{LoginAnswer, LoginInfo, SendTargetsScope, TargetRecord};
use scsi::UnitRights;

use crate::access::{AccessPolicy, Judgement, Peer};
use crate::counters::TargetCounters;
use crate::definition::TargetDefinition;
use crate::device::{Device, PORTAL_GROUP};
use crate::session::{Session, SessionTable, SharedBySessions};
use crate::transport::{PortalTransport, TransportError};

/// Connections that are not logged in, at a time.
const MOST_LOGINS: usize = 64;

/// What all connections of a target share.
#[derive(Debug)]
pub(crate) struct Portal {
    pub(crate) device: Rc<Device>,
    pub(crate) sessions: Rc<SessionTable>,
    /// Connections that are not logged in, the oldest first.
    logins: RefCell<VecDeque<Rc<Session>>>,
    pub(crate) counters: TargetCounters,
    definition: TargetDefinition,
    /// Who may use the target now.
    access: RefCell<AccessPolicy>,
}

impl Portal {
    pub(crate) fn new(device: Rc<Device>, mut definition: TargetDefinition) -> Rc<Self> {
        let (sessions, logins, counters) = Default::default();
        let access = RefCell::new(std::mem::take(&mut definition.access));
        Rc::new(Self { device, sessions, logins, counters, definition, access })
    }

    /// Other rules are valid from now on. Sessions go on, unless they lose a right: these end, and
    /// so do logins that have begun by the old rules. How many sessions end.
    pub(crate) fn set_access(&self, access: AccessPolicy) -> usize {
        let before = self.access.replace(access);
        for login in self.logins.take() {
            login.end();
        }
        let sessions: Vec<_> = self.sessions.borrow().values().cloned().collect();
        let goes_on = |session: &&Rc<Session>| !self.adapt(session, &before);
        let ended: Vec<_> = sessions.iter().filter(goes_on).collect();
        for session in &ended {
            let (peer, initiator) = (session.ends.peer, session.said());
            tracing::warn!(%peer, initiator, "the session ends: its right was withdrawn");
            session.finish();
        }
        ended.len()
    }

    /// Gives a session its rights of now. `false`: it has lost one.
    fn adapt(&self, session: &Session, before: &AccessPolicy) -> bool {
        let (Some(peer), Some(nexus)) = (session.peer(), session.nexus.get()) else { return false };
        let access = self.access.borrow();
        let rights = access.rights(&peer);
        let mut scsi = self.device.scsi.borrow_mut();
        if !access.still_takes(&peer, before) || scsi.would_lose(nexus, &rights) {
            return false;
        }
        scsi.extend_rights(nexus, rights);
        true
    }

    /// The target's name.
    pub(crate) fn name(&self) -> &IscsiName {
        &self.definition.name
    }

    /// Where the target listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.definition.portal
    }

    /// What its sessions share.
    pub(crate) fn shared(&self) -> SharedBySessions<'_> {
        SharedBySessions {
            device: &self.device,
            table: &self.sessions,
            digest: self.definition.digest,
        }
    }

    /// The transport that the target speaks.
    pub(crate) fn transport(&self) -> &PortalTransport {
        &self.definition.transport
    }

    /// A connection has come. Another one that is not logged in makes room for it.
    pub(crate) fn expect_login(&self, session: &Rc<Session>) {
        let mut logins = self.logins.borrow_mut();
        if logins.len() >= MOST_LOGINS
            && let Some(oldest) = logins.pop_front()
        {
            tracing::warn!(peer = %oldest.ends.peer, "dropped: {MOST_LOGINS} others log in");
            TargetCounters::count(&self.counters.dropped);
            oldest.end();
        }
        logins.push_back(Rc::clone(session));
    }

    /// The connection is logged in, or over.
    pub(crate) fn forget_login(&self, session: &Rc<Session>) {
        self.logins.borrow_mut().retain(|one| !Rc::ptr_eq(one, session));
    }

    /// Who an initiator is.
    fn peer(session: &Session, info: &LoginInfo) -> Peer {
        Peer {
            address: session.ends.peer.ip(),
            initiator: info.initiator.clone(),
            user: info.user.clone(),
            identities: session.proven_identities(),
        }
    }

    /// May the initiator log in?
    pub(crate) fn judge(&self, session: &Session, info: &LoginInfo) -> LoginAnswer {
        session.says(&info.initiator);
        if info.target.as_ref().is_some_and(|target| *target != self.definition.name) {
            self.refused(session, "it wants a target that is not here");
            return LoginAnswer::Refuse(LoginStatus::NotFound);
        }
        match self.access.borrow().judge(&Self::peer(session, info)) {
            Judgement::Welcome => LoginAnswer::Allow { chap: None, alias: None },
            Judgement::Prove(demand) => LoginAnswer::Allow { chap: Some(demand), alias: None },
            Judgement::Stranger => {
                self.refused(session, "no rule of the target fits its name and address");
                LoginAnswer::Refuse(LoginStatus::AuthorizationFailure)
            }
        }
    }

    /// What the initiator may do, which has proved what it had to.
    pub(crate) fn rights(&self, session: &Session, info: &LoginInfo) -> UnitRights {
        self.access.borrow().rights(&Self::peer(session, info))
    }

    /// A login was refused: the log tells whose, and why. Its rate is bounded by the log.
    pub(crate) fn refused(&self, session: &Session, why: &str) {
        TargetCounters::count(&self.counters.refused);
        let (peer, initiator) = (session.ends.peer, session.said());
        tracing::warn!(%peer, initiator, "refused a login: {why}");
    }

    /// The transport let no session begin.
    pub(crate) fn count_failure(&self, error: &TransportError) {
        match error {
            TransportError::Slow(_) => TargetCounters::count(&self.counters.dropped),
            // The peer has gone.
            TransportError::Stream(_) => {}
            _ => TargetCounters::count(&self.counters.refused),
        }
    }

    /// What SendTargets tells of this target.
    pub(crate) fn records(&self, scope: &SendTargetsScope, local: SocketAddr) -> Vec<TargetRecord> {
        let name = &self.definition.name;
        match scope {
            SendTargetsScope::Target(target) if target != name => Vec::new(),
            _ => {
                let addresses = vec![format!("{local},{PORTAL_GROUP}")];
                vec![TargetRecord { name: name.clone(), addresses }]
            }
        }
    }
}
