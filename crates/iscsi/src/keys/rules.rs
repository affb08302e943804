//! The numerical and boolean keys: ranges and result functions (RFC 7143 13).

use crate::settings::{KeySettings, LENGTHS, SessionParameters};

/// The result function of a key. Booleans are 0 and 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResultFunction {
    Minimum,
    Maximum,
    And,
    Or,
}

/// A key with a result function.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeyRule {
    pub(crate) name: &'static str,
    pub(crate) function: ResultFunction,
    /// Smallest and largest value.
    pub(crate) range: (u32, u32),
    /// The key means nothing in a discovery session.
    pub(crate) normal_only: bool,
}

use ResultFunction::{And, Maximum, Minimum, Or};

const fn rule(
    name: &'static str,
    function: ResultFunction,
    range: (u32, u32),
    normal_only: bool,
) -> KeyRule {
    KeyRule { name, function, range, normal_only }
}

const BYTES: (u32, u32) = (*LENGTHS.start(), *LENGTHS.end());

/// All of them, in the order in which an initiator offers them.
pub(crate) const RULES: [KeyRule; 12] = [
    rule("MaxConnections", Minimum, (1, 65_535), true),
    rule("InitialR2T", Or, (0, 1), true),
    rule("ImmediateData", And, (0, 1), true),
    rule("MaxBurstLength", Minimum, BYTES, true),
    rule("FirstBurstLength", Minimum, BYTES, true),
    rule("DefaultTime2Wait", Maximum, (0, 3600), false),
    rule("DefaultTime2Retain", Minimum, (0, 3600), false),
    rule("MaxOutstandingR2T", Minimum, (1, 65_535), true),
    rule("DataPDUInOrder", Or, (0, 1), true),
    rule("DataSequenceInOrder", Or, (0, 1), true),
    rule("ErrorRecoveryLevel", Minimum, (0, 2), false),
    rule("iSCSIProtocolLevel", Minimum, (0, 31), false),
];

impl KeyRule {
    pub(crate) fn of(name: &str) -> Option<&'static Self> {
        RULES.iter().find(|rule| rule.name == name)
    }

    pub(crate) const fn is_boolean(&self) -> bool {
        matches!(self.function, And | Or)
    }

    /// The result of both ends' values.
    pub(crate) fn result(&self, a: u32, b: u32) -> u32 {
        match self.function {
            Minimum | And => a.min(b),
            Maximum | Or => a.max(b),
        }
    }

    /// The value as text.
    pub(crate) fn text(&self, value: u32) -> String {
        match (self.is_boolean(), value) {
            (true, 0) => "No".to_owned(),
            (true, _) => "Yes".to_owned(),
            (false, value) => value.to_string(),
        }
    }

    /// The value that this end would like, within the key's range.
    pub(crate) fn own(&self, settings: &KeySettings) -> u32 {
        let value = match self.name {
            "InitialR2T" => settings.initial_r2t.into(),
            "ImmediateData" => settings.immediate_data.into(),
            "MaxBurstLength" => settings.max_burst,
            "FirstBurstLength" => settings.first_burst.min(settings.max_burst),
            "DefaultTime2Wait" => settings.time_to_wait.into(),
            "DefaultTime2Retain" => settings.time_to_retain.into(),
            "MaxOutstandingR2T" => settings.max_outstanding_r2t.into(),
            "DataPDUInOrder" => settings.data_pdu_in_order.into(),
            "DataSequenceInOrder" => settings.data_sequence_in_order.into(),
            // One connection; session recovery only.
            "ErrorRecoveryLevel" => 0,
            _ => 1,
        };
        value.clamp(self.range.0, self.range.1)
    }

    /// Sets the agreed value.
    pub(crate) fn agree(&self, agreed: &mut SessionParameters, value: u32) {
        let short = u16::try_from(value).unwrap_or(u16::MAX);
        match self.name {
            "InitialR2T" => agreed.initial_r2t = value != 0,
            "ImmediateData" => agreed.immediate_data = value != 0,
            "MaxBurstLength" => agreed.max_burst = value,
            "FirstBurstLength" => agreed.first_burst = value,
            "DefaultTime2Wait" => agreed.time_to_wait = short,
            "DefaultTime2Retain" => agreed.time_to_retain = short,
            "MaxOutstandingR2T" => agreed.max_outstanding_r2t = short,
            "DataPDUInOrder" => agreed.data_pdu_in_order = value != 0,
            "DataSequenceInOrder" => agreed.data_sequence_in_order = value != 0,
            _ => {}
        }
    }
}
