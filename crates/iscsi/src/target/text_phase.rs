//! Text of the full feature phase: SendTargets (RFC 7143 11.10, 11.11, appendix C).

use bytes::Bytes;

use super::connection::TargetConnection;
use super::event::{RequestId, SendTargetsScope, TargetEvent, TargetRecord};
use super::output_item::StatusOutput;
use super::text_exchange::TextExchange;
use crate::error::{ProtocolError, UsageError};
use crate::pdu::{NO_TAG, RejectReason, Request, TextRequest};
use crate::settings::{LENGTHS, SessionType};
use crate::text::{self, TextAssembler, TextWriter};

/// What a text asks for.
enum TextDemand {
    Targets(SendTargetsScope),
    Nothing,
}

impl TargetConnection {
    pub(super) fn handle_text(&mut self, request: &TextRequest, data: &Bytes) {
        if let Err(reason) = self.take_text(request, data) {
            self.text = None;
            let bhs = Request::Text(*request).emit().with_lengths(0, data.len());
            self.reject(bhs, reason);
        }
    }

    fn take_text(&mut self, request: &TextRequest, data: &Bytes) -> Result<(), RejectReason> {
        if request.transfer_tag == NO_TAG {
            // RFC 7143 11.10.4: a new exchange; an old one is forgotten.
            self.text = Some(TextExchange {
                tag: request.task_tag,
                lun: request.lun,
                transfer_tag: NO_TAG,
                assembler: TextAssembler::default(),
                question: None,
                prefix: Vec::new(),
                is_final: false,
                output: Bytes::new(),
            });
        }
        let same = |exchange: &&mut TextExchange| {
            exchange.tag == request.task_tag
                && exchange.transfer_tag == request.transfer_tag
                && exchange.question.is_none()
        };
        let exchange = self.text.as_mut().filter(same).ok_or(RejectReason::InvalidPduField)?;
        exchange.is_final = request.is_final;
        if !exchange.output.is_empty() {
            self.send_text();
            return Ok(());
        }
        let whole = exchange.assembler.push(data, request.more);
        match whole.map_err(|_| RejectReason::ProtocolError)? {
            Some(text) => self.answer_text(&text),
            None => {
                // RFC 7143 6.2: an empty response asks for the rest.
                self.send_text();
                Ok(())
            }
        }
    }

    fn answer_text(&mut self, text: &[u8]) -> Result<(), RejectReason> {
        let mut out = TextWriter::default();
        let demand = self.read_text(text, &mut out).map_err(|_| RejectReason::ProtocolError)?;
        let id = self.fresh_request();
        let Some(exchange) = &mut self.text else { return Ok(()) };
        match demand {
            TextDemand::Targets(scope) => {
                exchange.prefix = out.finish();
                exchange.question = Some(id);
                let request = RequestId(id);
                self.events.push_back(TargetEvent::SendTargets { request, scope });
            }
            TextDemand::Nothing => {
                exchange.output = out.finish().into();
                self.send_text();
            }
        }
        Ok(())
    }

    fn read_text(
        &mut self,
        text: &[u8],
        out: &mut TextWriter,
    ) -> Result<TextDemand, ProtocolError> {
        let pairs = text::parse(text)?;
        let wrong = |key: &str| ProtocolError::Negotiation(key.to_owned());
        let mut demand = TextDemand::Nothing;
        let mut limit = None;
        let mut understood = pairs.is_empty();
        for (key, value) in pairs {
            match key {
                "SendTargets" => {
                    demand = TextDemand::Targets(self.scope(value).ok_or_else(|| wrong(key))?);
                    understood = true;
                }
                // RFC 7143 13.12: may be declared anew.
                "MaxRecvDataSegmentLength" => {
                    let declared = text::number(value).filter(|limit| LENGTHS.contains(limit));
                    limit = Some(declared.ok_or_else(|| wrong(key))?);
                    understood = true;
                }
                // RFC 7143 13.7: nothing hangs on it.
                "InitiatorAlias" => understood = true,
                _ => out.push(key, "NotUnderstood"),
            }
        }
        // A text without any key of this phase is rejected as a whole, as Linux's target does:
        // libiscsi takes any other answer for one to SendTargets.
        if !understood {
            return Err(ProtocolError::Text("it has no key of this phase"));
        }
        // RFC 7143 7.12: only a text that is answered has an effect.
        if let Some(limit) = limit {
            self.parameters.send_limit = limit;
        }
        Ok(demand)
    }

    /// RFC 7143, appendix C: the value of SendTargets.
    fn scope(&self, value: &str) -> Option<SendTargetsScope> {
        match (value, self.session) {
            ("All", SessionType::Discovery) => Some(SendTargetsScope::All),
            // RFC 7143 has no "All" here; libiscsi asks for it, and Linux's target answers.
            ("All" | "", SessionType::Normal) => Some(SendTargetsScope::Current),
            (name, _) => name.parse().ok().map(SendTargetsScope::Target),
        }
    }

    /// Answers [`TargetEvent::SendTargets`].
    ///
    /// # Errors
    ///
    /// The request is not open: the initiator may have asked something else.
    pub fn answer_send_targets(
        &mut self,
        request: RequestId,
        targets: &[TargetRecord],
    ) -> Result<(), UsageError> {
        let open = self.text.as_mut().filter(|text| text.question == Some(request.0));
        let exchange = open.ok_or(UsageError::UnknownRequest)?;
        exchange.question = None;
        let mut out = TextWriter::default();
        for target in targets {
            out.push("TargetName", target.name.as_str());
            target.addresses.iter().for_each(|address| out.push("TargetAddress", address));
        }
        let mut text = std::mem::take(&mut exchange.prefix);
        text.extend(out.finish());
        exchange.output = text.into();
        self.send_text();
        Ok(())
    }

    /// Sends as much text as the initiator takes in one PDU.
    fn send_text(&mut self) {
        let limit = self.parameters.send_limit as usize;
        let fresh = self.fresh_transfer_tag();
        let Some(exchange) = &mut self.text else { return };
        let length = exchange.output.len().min(limit);
        let text = exchange.output.split_to(length);
        let more = !exchange.output.is_empty();
        let is_final = !more && exchange.is_final;
        let transfer_tag = if is_final { NO_TAG } else { fresh };
        exchange.transfer_tag = transfer_tag;
        let (tag, lun) = (exchange.tag, exchange.lun);
        self.queue_status(StatusOutput::Text { tag, lun, transfer_tag, is_final, more, text });
        if is_final {
            self.text = None;
        }
    }
}
