//! The portal of a target: who may log in, and what SendTargets tells.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::Rc;

use iscsi::IscsiName;
use iscsi::pdu::LoginStatus;
use iscsi::target::{LoginAnswer, LoginInfo, SendTargetsScope, TargetRecord};

use crate::definition::TargetDefinition;
use crate::device::{Device, PORTAL_GROUP};
use crate::session::{Session, SessionTable};
use crate::transport::PortalTransport;

/// Connections that are not logged in, at a time.
const MOST_LOGINS: usize = 64;

/// What all connections of a target share.
#[derive(Debug)]
pub(crate) struct Portal {
    pub(crate) device: Rc<Device>,
    pub(crate) sessions: Rc<SessionTable>,
    /// Connections that are not logged in, the oldest first.
    logins: RefCell<VecDeque<Rc<Session>>>,
    definition: TargetDefinition,
}

impl Portal {
    pub(crate) fn new(device: Rc<Device>, definition: TargetDefinition) -> Rc<Self> {
        Rc::new(Self { device, sessions: Rc::default(), logins: RefCell::default(), definition })
    }

    /// The target's name.
    pub(crate) fn name(&self) -> &IscsiName {
        &self.definition.name
    }

    /// Where the target listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.definition.portal
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
            oldest.end();
        }
        logins.push_back(Rc::clone(session));
    }

    /// The connection is logged in, or over.
    pub(crate) fn forget_login(&self, session: &Rc<Session>) {
        self.logins.borrow_mut().retain(|one| !Rc::ptr_eq(one, session));
    }

    /// May the initiator log in?
    pub(crate) fn judge(&self, info: &LoginInfo) -> LoginAnswer {
        match &info.target {
            Some(target) if *target != self.definition.name => {
                LoginAnswer::Refuse(LoginStatus::NotFound)
            }
            _ => LoginAnswer::Allow { chap: None, alias: None },
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
