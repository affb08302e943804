//! The login phase of a target's connection.

use std::time::Duration;

use super::connection::{TargetConnection, TargetPhase};
use super::event::{CloseReason, TargetEvent};
use super::output_item::StatusOutput;
use super::window::CommandWindow;
use crate::error::{ProtocolError, UsageError};
use crate::framing::RawPdu;
use crate::login::{LoginAnswer, LoginRefusal, TargetStep};
use crate::pdu::{LoginRequest, LoginResponse, LoginStatus, Opcode, Request, Stage};

impl TargetConnection {
    /// RFC 7143 6.3: before the full feature phase there are Login Requests only.
    pub(super) fn handle_login_pdu(&mut self, pdu: &RawPdu) -> Result<(), ProtocolError> {
        if pdu.bhs.opcode() != Opcode::LoginRequest as u8 {
            return Err(Self::out_of_place(&pdu.bhs));
        }
        let request = match Request::parse(&pdu.bhs) {
            Ok(Request::Login(request)) => request,
            Ok(_) => return Err(Self::out_of_place(&pdu.bhs)),
            Err(error) => return Err(error.into()),
        };
        if self.login_request.is_some() {
            return Err(ProtocolError::Login("a request came before the response"));
        }
        if self.login.info().is_none() {
            // RFC 7143 4.2.2.1: the first command has the CmdSN of the login.
            self.window = CommandWindow::new(request.cmd_sn, self.config.queue_depth);
        }
        self.login_request = Some(request);
        let step = self.login.handle(&request, &pdu.data);
        self.take_step(step);
        Ok(())
    }

    /// Answers [`TargetEvent::Login`].
    ///
    /// # Errors
    ///
    /// The connection has no such question.
    pub fn answer_login(&mut self, answer: LoginAnswer) -> Result<(), UsageError> {
        if !matches!(self.phase, TargetPhase::Login) {
            return Err(UsageError::WrongPhase);
        }
        let step = self.login.answer(answer).ok_or(UsageError::UnknownRequest)?;
        self.take_step(step);
        Ok(())
    }

    fn take_step(&mut self, step: Result<TargetStep, LoginRefusal>) {
        match step {
            Ok(TargetStep::Ask(info)) => self.events.push_back(TargetEvent::Login(info)),
            Ok(TargetStep::Respond { current, transit, text }) => {
                self.respond_login(current, transit, 0, text);
            }
            Ok(TargetStep::Ready { current, text }) => {
                self.phase = TargetPhase::Ready(current, text);
                if let Some(info) = self.login.info().cloned() {
                    self.events.push_back(TargetEvent::SessionReady(info));
                }
            }
            Err(refusal) => self.refuse_login(refusal),
        }
    }

    /// Answers [`TargetEvent::SessionReady`]: the session begins. `tsih` is not 0 and is no other
    /// session's of the same initiator.
    ///
    /// # Errors
    ///
    /// The connection has no such question, or `tsih` is 0.
    pub fn accept_session(&mut self, now: Duration, tsih: u16) -> Result<(), UsageError> {
        if tsih == 0 {
            return Err(UsageError::Invalid("TSIH is 0"));
        }
        let TargetPhase::Ready(current, text) = &mut self.phase else {
            return Err(UsageError::WrongPhase);
        };
        let (current, text) = (*current, std::mem::take(text));
        self.phase = TargetPhase::FullFeature;
        self.respond_login(current, Some(Stage::FullFeature), tsih, text);
        self.parameters = self.login.agreed();
        self.login.forget_secrets();
        let limit = self.parameters.receive_limit;
        // RFC 7143 13.1: digests hold from the first PDU of the full feature phase on.
        self.decoder.set(limit, self.parameters.header_digest, self.parameters.data_digest);
        if let Some(info) = self.login.info() {
            self.session = info.session;
            self.cid = info.cid;
        }
        self.last_heard = now;
        self.events.push_back(TargetEvent::LoggedIn(self.parameters.clone()));
        Ok(())
    }

    /// Answers [`TargetEvent::SessionReady`]: the session does not begin.
    ///
    /// # Errors
    ///
    /// The connection has no such question.
    pub fn refuse_session(&mut self, status: LoginStatus) -> Result<(), UsageError> {
        if !matches!(self.phase, TargetPhase::Ready(..)) {
            return Err(UsageError::WrongPhase);
        }
        self.refuse_login(LoginRefusal { status, error: None, address: None });
        Ok(())
    }

    fn refuse_login(&mut self, refusal: LoginRefusal) {
        let status = match refusal.status {
            LoginStatus::Success => LoginStatus::TargetError,
            status => status,
        };
        if let Some(request) = self.login_request.take() {
            let text = match refusal.address {
                // RFC 7143 13.8
                Some(address) => format!("TargetAddress={address}\0").into_bytes(),
                None => Vec::new(),
            };
            let response = response(&request, request.current, None, 0, status);
            self.queue_status(StatusOutput::Login(response, text));
        }
        self.close(match refusal.error {
            Some(error) => CloseReason::Peer(error),
            None => CloseReason::LoginRefused(status),
        });
    }

    fn respond_login(&mut self, current: Stage, transit: Option<Stage>, tsih: u16, text: Vec<u8>) {
        if let Some(request) = self.login_request.take() {
            let response = response(&request, current, transit, tsih, LoginStatus::Success);
            self.queue_status(StatusOutput::Login(response, text));
        }
    }
}

/// A response without numbers.
fn response(
    request: &LoginRequest,
    current: Stage,
    transit: Option<Stage>,
    tsih: u16,
    status: LoginStatus,
) -> LoginResponse {
    LoginResponse {
        transit: transit.is_some(),
        more: false,
        current,
        next: transit.unwrap_or(current),
        version_max: 0,
        version_active: 0,
        isid: request.isid,
        tsih,
        task_tag: request.task_tag,
        stat_sn: request.exp_stat_sn,
        exp_cmd_sn: request.cmd_sn,
        max_cmd_sn: request.cmd_sn,
        status,
    }
}
