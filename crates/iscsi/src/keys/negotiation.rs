//! A negotiation, of either end.

use super::rules::{KeyRule, RULES};
use crate::error::ProtocolError;
use crate::settings::{DigestPreference, KeySettings, LENGTHS, SessionParameters, SessionType};
use crate::text::{self, TextWriter};

/// The state of a negotiation of operational keys.
#[derive(Debug)]
pub(crate) struct KeyNegotiation {
    session: SessionType,
    settings: KeySettings,
    agreed: SessionParameters,
    /// Keys that this end offered and the peer has not answered.
    open: Vec<&'static str>,
    /// Keys that are settled: a second offer is a breach (RFC 7143 6.3).
    settled: Vec<&'static str>,
    declared: bool,
}

const HEADER_DIGEST: &str = "HeaderDigest";
const DATA_DIGEST: &str = "DataDigest";
const MAX_RECEIVE: &str = "MaxRecvDataSegmentLength";
const TASK_REPORTING: &str = "TaskReporting";

fn wrong(key: &str) -> ProtocolError {
    ProtocolError::Negotiation(key.to_owned())
}

impl KeyNegotiation {
    /// A negotiation with these wishes. Lengths out of their range are brought into it.
    pub(crate) fn new(session: SessionType, settings: &KeySettings) -> Self {
        Self {
            session,
            settings: settings.clone(),
            agreed: SessionParameters::default(),
            open: Vec::new(),
            settled: Vec::new(),
            declared: false,
        }
    }

    /// The agreed values.
    pub(crate) fn agreed(&self) -> SessionParameters {
        let mut agreed = self.agreed.clone();
        // RFC 7143 13.14: FirstBurstLength is not larger than MaxBurstLength.
        agreed.first_burst = agreed.first_burst.min(agreed.max_burst);
        agreed
    }

    /// Declares MaxRecvDataSegmentLength, the first time.
    pub(crate) fn declare(&mut self, out: &mut TextWriter) {
        if !std::mem::replace(&mut self.declared, true) {
            let limit = self.settings.max_recv_data_segment;
            let limit = limit.clamp(*LENGTHS.start(), *LENGTHS.end());
            self.agreed.receive_limit = limit;
            out.push(MAX_RECEIVE, &limit.to_string());
        }
    }

    /// Writes the offers of an initiator.
    pub(crate) fn offer(&mut self, out: &mut TextWriter) {
        out.push(HEADER_DIGEST, self.settings.header_digest.list());
        out.push(DATA_DIGEST, self.settings.data_digest.list());
        self.open.extend([HEADER_DIGEST, DATA_DIGEST]);
        for rule in &RULES {
            // An initiator asks for what differs from the default of RFC 7143 13.24 only.
            if self.is_relevant(rule) && rule.name != "iSCSIProtocolLevel" {
                out.push(rule.name, &rule.text(rule.own(&self.settings)));
                self.open.push(rule.name);
            }
        }
        self.declare(out);
    }

    fn is_relevant(&self, rule: &KeyRule) -> bool {
        self.session == SessionType::Normal || !rule.normal_only
    }

    fn settle(&mut self, key: &'static str) -> Result<(), ProtocolError> {
        if self.settled.contains(&key) {
            return Err(wrong(key));
        }
        self.settled.push(key);
        Ok(())
    }

    /// Takes a pair of the peer: an answer to an own offer, a declaration, or an offer, which is
    /// answered. A key that is not known is answered with NotUnderstood.
    ///
    /// # Errors
    ///
    /// The value is not one that the key can have, or the key is settled. The login fails (RFC 7143
    /// 7.12); the peer is at fault.
    pub(crate) fn take(
        &mut self,
        key: &str,
        value: &str,
        out: &mut TextWriter,
    ) -> Result<(), ProtocolError> {
        if let Some(at) = self.open.iter().position(|open| *open == key) {
            let key = self.open.swap_remove(at);
            self.settle(key)?;
            return self.take_answer(key, value);
        }
        match key {
            HEADER_DIGEST | DATA_DIGEST => self.take_digests(key, value, out),
            MAX_RECEIVE => {
                self.settle(MAX_RECEIVE)?;
                let limit = text::number(value).filter(|limit| LENGTHS.contains(limit));
                self.agreed.send_limit = limit.ok_or_else(|| wrong(key))?;
                Ok(())
            }
            TASK_REPORTING => {
                self.settle(TASK_REPORTING)?;
                // RFC 7143 13.23: the default of those that the peer offers.
                if !value.split(',').any(|value| value == "RFC3720") {
                    return Err(wrong(key));
                }
                out.push(key, "RFC3720");
                Ok(())
            }
            // RFC 7143 13.25: obsolete, and understood.
            "IFMarker" | "OFMarker" => {
                out.push(key, "No");
                Ok(())
            }
            "IFMarkInt" | "OFMarkInt" => {
                out.push(key, "Reject");
                Ok(())
            }
            _ => self.take_offer(key, value, out),
        }
    }

    fn take_offer(
        &mut self,
        key: &str,
        value: &str,
        out: &mut TextWriter,
    ) -> Result<(), ProtocolError> {
        let Some(rule) = KeyRule::of(key) else {
            // Also an answer to a key that is not known; it gets no answer (RFC 7143 6.2).
            if !["NotUnderstood", "Irrelevant", "Reject"].contains(&value) {
                out.push(key, "NotUnderstood");
            }
            return Ok(());
        };
        self.settle(rule.name)?;
        if !self.is_relevant(rule) {
            out.push(key, "Irrelevant");
            return Ok(());
        }
        let offered = parse(rule, value)?;
        let result = rule.result(offered, rule.own(&self.settings));
        rule.agree(&mut self.agreed, result);
        out.push(key, &rule.text(result));
        Ok(())
    }

    fn preference(&mut self, key: &str) -> (DigestPreference, &mut bool) {
        match key == HEADER_DIGEST {
            true => (self.settings.header_digest, &mut self.agreed.header_digest),
            false => (self.settings.data_digest, &mut self.agreed.data_digest),
        }
    }

    /// RFC 7143 6.2.1: the first value of the list that this end takes.
    fn take_digests(
        &mut self,
        key: &str,
        list: &str,
        out: &mut TextWriter,
    ) -> Result<(), ProtocolError> {
        self.settle(if key == HEADER_DIGEST { HEADER_DIGEST } else { DATA_DIGEST })?;
        let (preference, agreed) = self.preference(key);
        let known = list.split(',').filter_map(digest);
        let chosen = known.into_iter().find(|crc32c| preference.takes(*crc32c));
        *agreed = chosen.ok_or_else(|| wrong(key))?;
        out.push(key, if *agreed { "CRC32C" } else { "None" });
        Ok(())
    }

    fn take_answer(&mut self, key: &'static str, value: &str) -> Result<(), ProtocolError> {
        let Some(rule) = KeyRule::of(key) else {
            let (preference, agreed) = self.preference(key);
            let chosen = digest(value).filter(|crc32c| preference.takes(*crc32c));
            *agreed = chosen.ok_or_else(|| wrong(key))?;
            return Ok(());
        };
        match value {
            // The default holds.
            "Irrelevant" | "NotUnderstood" => return Ok(()),
            _ => {}
        }
        let answered = parse(rule, value)?;
        // The answer is the result of both values, so it gives the same result again.
        if rule.result(answered, rule.own(&self.settings)) != answered {
            return Err(wrong(key));
        }
        rule.agree(&mut self.agreed, answered);
        Ok(())
    }
}

fn digest(value: &str) -> Option<bool> {
    match value {
        "CRC32C" => Some(true),
        "None" => Some(false),
        _ => None,
    }
}

fn parse(rule: &KeyRule, value: &str) -> Result<u32, ProtocolError> {
    let parsed = match rule.is_boolean() {
        true => text::boolean(value).map(u32::from),
        false => text::number(value).filter(|n| (rule.range.0..=rule.range.1).contains(n)),
    };
    parsed.ok_or_else(|| wrong(rule.name))
}
