//! The login phase of an initiator's connection.

use bytes::Bytes;

use super::connection::{InitiatorConnection, InitiatorPhase};
use super::event::InitiatorEvent;
use crate::error::ProtocolError;
use crate::framing::RawPdu;
use crate::pdu::{LoginRequest, Request, Response, Stage};

impl InitiatorConnection {
    pub(super) fn queue_login(&mut self, current: Stage, transit: Option<Stage>, text: Vec<u8>) {
        let request = LoginRequest {
            transit: transit.is_some(),
            more: false,
            current,
            next: transit.unwrap_or(current),
            version_max: 0,
            version_min: 0,
            isid: self.login.isid(),
            tsih: 0,
            task_tag: self.login_tag,
            cid: self.config.cid,
            cmd_sn: self.cmd_sn,
            exp_stat_sn: self.exp_stat_sn,
        };
        self.urgent.push_back((Request::Login(request), Bytes::from(text)));
    }

    /// RFC 7143 6.3: before the full feature phase there are Login Responses only.
    pub(super) fn handle_login_pdu(&mut self, pdu: &RawPdu) -> Result<(), ProtocolError> {
        let Response::Login(response) = Response::parse(&pdu.bhs)? else {
            return Err(ProtocolError::OutOfPlace(pdu.bhs.opcode()));
        };
        if response.task_tag != self.login_tag || !self.urgent.is_empty() {
            return Err(Self::unknown(response.task_tag));
        }
        let is_success = response.status.code() == 0;
        if is_success {
            // RFC 7143 11.13.5: the numbers are valid with a success only.
            self.exp_stat_sn = response.stat_sn.next();
            self.exp_cmd_sn = response.exp_cmd_sn;
            self.max_cmd_sn = response.max_cmd_sn;
        }
        let step = self.login.handle(&response, &pdu.data);
        self.take_login_step(step);
        Ok(())
    }

    /// The full feature phase begins.
    pub(super) fn begin(&mut self, tsih: u16) {
        self.phase = InitiatorPhase::FullFeature;
        self.parameters = self.login.agreed();
        self.forget_secrets();
        let limit = self.parameters.receive_limit;
        self.decoder.set(limit, self.parameters.header_digest, self.parameters.data_digest);
        self.events.push_back(InitiatorEvent::LoggedIn {
            parameters: self.parameters.clone(),
            tsih,
            portal_group: self.login.portal_group(),
            alias: self.login.alias().cloned(),
        });
    }
}
