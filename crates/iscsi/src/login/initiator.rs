//! The initiator's side of a login.

use super::initiator_chap::InitiatorAuthentication;
use crate::error::ProtocolError;
use crate::keys::KeyNegotiation;
use crate::name::IscsiName;
use crate::pdu::{Isid, LoginResponse, LoginStatus, Stage};
use crate::settings::{ChapPolicy, KeySettings, SessionParameters, SessionType};
use crate::text::{self, TextAssembler, TextWriter};

/// Most responses of a login.
const MAX_RESPONSES: u32 = 64;

/// The stages that an initiator's login has (RFC 7143 6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoginStages {
    /// SecurityNegotiation, then LoginOperationalNegotiation.
    Both,
    /// LoginOperationalNegotiation only; without CHAP.
    Operational,
    /// SecurityNegotiation only: all keys keep their defaults.
    Security,
}

/// What the initiator wants of the login.
#[derive(Debug, Clone)]
pub(crate) struct InitiatorWishes {
    pub(crate) name: IscsiName,
    pub(crate) alias: Option<String>,
    pub(crate) target: Option<IscsiName>,
    pub(crate) isid: Isid,
    pub(crate) stages: LoginStages,
    pub(crate) keys: KeySettings,
    pub(crate) chap: Option<ChapPolicy>,
}

/// What comes next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum InitiatorStep {
    /// Send a request with that text; `transit` names the next stage.
    Request { current: Stage, transit: Option<Stage>, text: Vec<u8> },
    /// The full feature phase begins.
    Done { tsih: u16 },
    /// The target refuses.
    Refused(LoginStatus),
    /// The target is at that address.
    Redirected { address: String, permanent: bool },
}

/// A login as the initiator sees it.
#[derive(Debug)]
pub(crate) struct InitiatorLogin {
    wishes: InitiatorWishes,
    stage: Stage,
    responses: u32,
    text: TextAssembler,
    keys: KeyNegotiation,
    offered: bool,
    authentication: InitiatorAuthentication,
    address: Option<String>,
    portal_group: Option<u16>,
    alias: Option<String>,
}

impl InitiatorLogin {
    /// `random` is for the CHAP identifier and challenge.
    pub(crate) fn new(wishes: InitiatorWishes, random: &[u8; 33]) -> Self {
        let session = match wishes.target {
            Some(_) => SessionType::Normal,
            None => SessionType::Discovery,
        };
        let stage = match wishes.stages {
            LoginStages::Operational => Stage::Operational,
            LoginStages::Both | LoginStages::Security => Stage::Security,
        };
        Self {
            stage,
            responses: 0,
            text: TextAssembler::default(),
            keys: KeyNegotiation::new(session, &wishes.keys),
            offered: false,
            authentication: InitiatorAuthentication::new(wishes.chap.clone(), random),
            address: None,
            portal_group: None,
            alias: None,
            wishes,
        }
    }

    /// The login is over: its secrets are overwritten.
    pub(crate) fn forget_secrets(&mut self) {
        self.wishes.chap = None;
        self.authentication.forget();
    }

    pub(crate) fn agreed(&self) -> SessionParameters {
        self.keys.agreed()
    }

    pub(crate) fn portal_group(&self) -> Option<u16> {
        self.portal_group
    }

    pub(crate) fn alias(&self) -> Option<&String> {
        self.alias.as_ref()
    }

    /// The initiator's part of the session's identifier.
    pub(crate) fn isid(&self) -> Isid {
        self.wishes.isid
    }

    /// The first request (RFC 7143 6.3).
    pub(crate) fn start(&mut self) -> InitiatorStep {
        let mut out = TextWriter::default();
        out.push("InitiatorName", self.wishes.name.as_str());
        if let Some(alias) = &self.wishes.alias {
            out.push("InitiatorAlias", alias);
        }
        match &self.wishes.target {
            Some(target) => {
                out.push("TargetName", target.as_str());
                out.push("SessionType", "Normal");
            }
            None => out.push("SessionType", "Discovery"),
        }
        if self.stage == Stage::Security {
            self.authentication.offer(&mut out);
        }
        self.request(out, true)
    }

    /// The stage after the security stage.
    fn after_security(&self) -> Stage {
        match self.wishes.stages {
            LoginStages::Security => Stage::FullFeature,
            LoginStages::Both | LoginStages::Operational => Stage::Operational,
        }
    }

    /// A request in the present stage, which asks for the next one if this one is done.
    fn request(&mut self, mut out: TextWriter, is_done: bool) -> InitiatorStep {
        let current = self.stage;
        let next = match current {
            Stage::Security => self.after_security(),
            _ => Stage::FullFeature,
        };
        if current == Stage::Operational && !std::mem::replace(&mut self.offered, true) {
            self.keys.offer(&mut out);
        }
        InitiatorStep::Request { current, transit: is_done.then_some(next), text: out.finish() }
    }

    /// Takes a response.
    pub(crate) fn handle(
        &mut self,
        response: &LoginResponse,
        data: &[u8],
    ) -> Result<InitiatorStep, ProtocolError> {
        let wrong = |what| Err(ProtocolError::Login(what));
        self.responses += 1;
        if self.responses > MAX_RESPONSES {
            return wrong("it has more than 64 responses");
        }
        // Of a refusal, only the status counts: tgt leaves all else out.
        let refused = response.status != LoginStatus::Success;
        if !refused && response.isid != self.wishes.isid {
            return wrong("a response names another session");
        }
        if !refused && (response.current != self.stage || response.version_active != 0) {
            return wrong("a response is in the wrong stage or version");
        }
        let Some(text) = self.text.push(data, response.more)? else {
            // RFC 7143 6.2: an empty request asks for the rest.
            let current = self.stage;
            return Ok(InitiatorStep::Request { current, transit: None, text: Vec::new() });
        };
        let pairs = text::parse(&text)?;
        let mut out = TextWriter::default();
        if refused {
            self.declarations(&pairs);
            return self.refused(response.status);
        }
        self.take(&pairs, &mut out)?;
        if !response.transit {
            let is_done = match self.stage {
                Stage::Security => self.authentication.is_ready(),
                _ => true,
            };
            return Ok(self.request(out, is_done));
        }
        self.transit(response, out)
    }

    /// TargetAddress, TargetPortalGroupTag and TargetAlias, in any stage.
    fn declarations(&mut self, pairs: &[(&str, &str)]) {
        for (key, value) in pairs {
            match *key {
                "TargetAddress" => self.address = Some((*value).to_owned()),
                "TargetAlias" => self.alias = Some((*value).to_owned()),
                "TargetPortalGroupTag" => {
                    self.portal_group = text::number(value).and_then(|n| u16::try_from(n).ok());
                }
                _ => {}
            }
        }
    }

    fn refused(&mut self, status: LoginStatus) -> Result<InitiatorStep, ProtocolError> {
        if !status.is_redirection() {
            return Ok(InitiatorStep::Refused(status));
        }
        let address = self.address.take();
        let address = address.ok_or(ProtocolError::Login("a redirection has no address"))?;
        let permanent = status == LoginStatus::TargetMovedPermanently;
        Ok(InitiatorStep::Redirected { address, permanent })
    }

    fn take(&mut self, pairs: &[(&str, &str)], out: &mut TextWriter) -> Result<(), ProtocolError> {
        self.declarations(pairs);
        let others: Vec<(&str, &str)> = pairs
            .iter()
            .filter(|(key, _)| {
                !["TargetAddress", "TargetAlias", "TargetPortalGroupTag"].contains(key)
            })
            .copied()
            .collect();
        if self.stage == Stage::Security {
            return self.authentication.take(&others, out);
        }
        others.iter().try_for_each(|(key, value)| self.keys.take(key, value, out))
    }

    /// The target goes on to the next stage.
    fn transit(
        &mut self,
        response: &LoginResponse,
        out: TextWriter,
    ) -> Result<InitiatorStep, ProtocolError> {
        if self.stage == Stage::Security {
            self.authentication.check()?;
            if response.next != self.after_security() {
                return Err(ProtocolError::Login("a response goes on to another stage"));
            }
        }
        if response.next.code() <= self.stage.code() {
            return Err(ProtocolError::Login("a response goes back a stage"));
        }
        self.stage = response.next;
        match self.stage {
            // RFC 7143 11.13.3: the last response has the session's identifier.
            Stage::FullFeature if response.tsih == 0 => {
                Err(ProtocolError::Login("the last response has no TSIH"))
            }
            Stage::FullFeature => Ok(InitiatorStep::Done { tsih: response.tsih }),
            _ => Ok(self.request(out, true)),
        }
    }
}
