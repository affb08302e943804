//! The target's side of a login.

use super::info::{LoginAnswer, LoginInfo};
use super::refusal::LoginRefusal;
use super::target_chap::TargetAuthentication;
use crate::error::ProtocolError;
use crate::keys::KeyNegotiation;
use crate::pdu::{LoginRequest, LoginStatus, Stage};
use crate::settings::{KeySettings, SessionParameters, SessionType};
use crate::text::{self, TextAssembler, TextWriter};

/// Most requests of a login.
const MAX_REQUESTS: u32 = 64;

/// What comes next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TargetStep {
    /// Send a response with that text; `transit` names the next stage.
    Respond { current: Stage, transit: Option<Stage>, text: Vec<u8> },
    /// Ask the shell.
    Ask(LoginInfo),
    /// All is agreed: ask the shell to begin the session; then send that text with T and NSG 3.
    Ready { current: Stage, text: Vec<u8> },
}

/// A login as the target sees it.
#[derive(Debug)]
pub(crate) struct TargetLogin {
    settings: KeySettings,
    portal_group: u16,
    requests: u32,
    /// The first request: all others have its identifiers.
    first: Option<LoginRequest>,
    stage: Stage,
    text: TextAssembler,
    info: Option<LoginInfo>,
    /// The text that waits for the shell's answer.
    waiting: Option<(LoginRequest, Vec<u8>)>,
    keys: Option<KeyNegotiation>,
    authentication: TargetAuthentication,
    alias: Option<String>,
    told_portal_group: bool,
}

impl TargetLogin {
    /// `random` is for the CHAP identifier and challenge.
    pub(crate) fn new(settings: KeySettings, portal_group: u16, random: &[u8; 33]) -> Self {
        Self {
            settings,
            portal_group,
            requests: 0,
            first: None,
            stage: Stage::Security,
            text: TextAssembler::default(),
            info: None,
            waiting: None,
            keys: None,
            authentication: TargetAuthentication::new(random),
            alias: None,
            told_portal_group: false,
        }
    }

    pub(crate) fn info(&self) -> Option<&LoginInfo> {
        self.info.as_ref()
    }

    /// The login is over: its secrets are overwritten.
    pub(crate) fn forget_secrets(&mut self) {
        self.authentication.forget();
    }

    /// The agreed values.
    pub(crate) fn agreed(&self) -> SessionParameters {
        self.keys.as_ref().map(KeyNegotiation::agreed).unwrap_or_default()
    }

    /// Takes a request.
    pub(crate) fn handle(
        &mut self,
        request: &LoginRequest,
        data: &[u8],
    ) -> Result<TargetStep, LoginRefusal> {
        self.requests += 1;
        if self.requests > MAX_REQUESTS {
            return Err(LoginRefusal::breach("it has more than 64 requests"));
        }
        // RFC 7143 6.3: after its request the initiator waits for the response.
        if self.waiting.is_some() {
            return Err(LoginRefusal::breach("a request came before the response"));
        }
        self.check(request)?;
        let Some(text) = self.text.push(data, request.more)? else {
            // RFC 7143 6.2: an empty response asks for the rest.
            return Ok(TargetStep::Respond {
                current: self.stage,
                transit: None,
                text: Vec::new(),
            });
        };
        if self.info.is_some() {
            return self.process(request, &text);
        }
        let info = introduce(request, &text)?;
        self.keys = Some(KeyNegotiation::new(info.session, &self.settings));
        self.info = Some(info.clone());
        self.waiting = Some((*request, text));
        Ok(TargetStep::Ask(info))
    }

    /// Takes the shell's answer.
    pub(crate) fn answer(
        &mut self,
        answer: LoginAnswer,
    ) -> Option<Result<TargetStep, LoginRefusal>> {
        let (request, text) = self.waiting.take()?;
        let refuse = |status, address| Some(Err(LoginRefusal { status, error: None, address }));
        match answer {
            LoginAnswer::Allow { chap, alias } => {
                if self.authentication.set_demand(chap).is_none() {
                    return refuse(LoginStatus::TargetError, None);
                }
                self.alias = alias;
                Some(self.process(&request, &text))
            }
            LoginAnswer::Refuse(status) => refuse(status, None),
            LoginAnswer::Redirect { address, permanent: true } => {
                refuse(LoginStatus::TargetMovedPermanently, Some(address))
            }
            LoginAnswer::Redirect { address, permanent: false } => {
                refuse(LoginStatus::TargetMovedTemporarily, Some(address))
            }
        }
    }

    /// The identifiers and the stage of a request.
    fn check(&mut self, request: &LoginRequest) -> Result<(), LoginRefusal> {
        let Some(first) = &self.first else {
            // RFC 7143 11.12.4: the version is 0.
            if request.version_min > 0 {
                let error = ProtocolError::Login("it has no version in common");
                return Err(LoginRefusal::new(LoginStatus::UnsupportedVersion, error));
            }
            // RFC 7143 6.3.1: one connection a session, so a session in being takes no other.
            if request.tsih != 0 {
                let error = ProtocolError::Login("it names a session");
                return Err(LoginRefusal::new(LoginStatus::SessionDoesNotExist, error));
            }
            self.stage = request.current;
            self.first = Some(*request);
            return self.check_stage(request);
        };
        let same = (first.isid, first.tsih, first.cid) == (request.isid, request.tsih, request.cid);
        if !same {
            return Err(LoginRefusal::breach("its requests name different sessions"));
        }
        self.check_stage(request)
    }

    /// RFC 7143 11.12.3: CSG is the stage; NSG comes after it.
    fn check_stage(&self, request: &LoginRequest) -> Result<(), LoginRefusal> {
        let rises = !request.transit || request.next.code() > request.current.code();
        match request.current == self.stage && request.current != Stage::FullFeature && rises {
            true => Ok(()),
            false => Err(LoginRefusal::breach("a request is in the wrong stage")),
        }
    }

    fn process(&mut self, request: &LoginRequest, text: &[u8]) -> Result<TargetStep, LoginRefusal> {
        let mut out = TextWriter::default();
        if !self.told_portal_group {
            self.told_portal_group = true;
            self.introduce_target(&mut out);
        }
        let pairs = text::parse(text)?;
        let is_done = match self.stage {
            Stage::Security => {
                self.authentication.take(&pairs, &mut out)?;
                if let Some(info) = &mut self.info {
                    info.user = self.authentication.user().map(str::to_owned);
                }
                self.authentication.check_transit(request.transit)?
            }
            _ => {
                // RFC 7143 6.3.1: without the first stage nobody was authenticated.
                if !self.authentication.may_be_skipped() {
                    return Err(LoginRefusal::authentication("it skipped the authentication"));
                }
                self.negotiate(&pairs, &mut out)?;
                true
            }
        };
        let text = out.finish();
        let current = self.stage;
        match request.transit && is_done {
            false => Ok(TargetStep::Respond { current, transit: None, text }),
            true if request.next == Stage::FullFeature => Ok(TargetStep::Ready { current, text }),
            true => {
                self.stage = request.next;
                Ok(TargetStep::Respond { current, transit: Some(request.next), text })
            }
        }
    }

    /// RFC 7143 13.9: the first response of a normal session has the portal group.
    fn introduce_target(&self, out: &mut TextWriter) {
        let normal = self.info.as_ref().is_some_and(|info| info.session == SessionType::Normal);
        if normal {
            out.push("TargetPortalGroupTag", &self.portal_group.to_string());
            if let Some(alias) = &self.alias {
                out.push("TargetAlias", alias);
            }
        }
    }

    fn negotiate(
        &mut self,
        pairs: &[(&str, &str)],
        out: &mut TextWriter,
    ) -> Result<(), LoginRefusal> {
        let Some(keys) = &mut self.keys else { return Ok(()) };
        for (key, value) in pairs {
            match *key {
                "InitiatorName" | "InitiatorAlias" | "TargetName" | "SessionType" => {}
                "AuthMethod" | "SendTargets" => {
                    return Err(LoginRefusal::breach("a key is in the wrong stage"));
                }
                _ => keys.take(key, value, out)?,
            }
        }
        keys.declare(out);
        Ok(())
    }
}

/// Reads the names of the first request (RFC 7143 6.3).
fn introduce(request: &LoginRequest, text: &[u8]) -> Result<LoginInfo, LoginRefusal> {
    let pairs = text::parse(text)?;
    let find = |key| pairs.iter().find(|pair| pair.0 == key).map(|pair| pair.1);
    let missing =
        |what| LoginRefusal::new(LoginStatus::MissingParameter, ProtocolError::Login(what));
    let name = |key, what| match find(key).map(str::parse) {
        Some(Ok(name)) => Ok(Some(name)),
        Some(Err(_)) => Err(LoginRefusal::breach(what)),
        None => Ok(None),
    };
    let initiator = name("InitiatorName", "InitiatorName is no iSCSI name")?;
    let initiator = initiator.ok_or(missing("InitiatorName is missing"))?;
    let session = match find("SessionType") {
        Some("Discovery") => SessionType::Discovery,
        // RFC 7143 13.21: the default.
        Some("Normal") | None => SessionType::Normal,
        Some(_) => {
            let error = ProtocolError::Login("SessionType is not known");
            return Err(LoginRefusal::new(LoginStatus::SessionTypeNotSupported, error));
        }
    };
    // RFC 7143 11.13.5: a name that no target has is not found.
    let unknown = LoginRefusal::new(
        LoginStatus::NotFound,
        ProtocolError::Login("TargetName is no iSCSI name"),
    );
    let target = match session {
        SessionType::Discovery => None,
        SessionType::Normal => {
            let target = name("TargetName", "").map_err(|_| unknown)?;
            Some(target.ok_or(missing("TargetName is missing"))?)
        }
    };
    Ok(LoginInfo { initiator, target, session, isid: request.isid, cid: request.cid, user: None })
}
