//! What an end wants of a session, and what both ends agreed on.

use crate::secret::ChapSecret;

/// Smallest and largest length that a key for lengths of data can have (RFC 7143 13.12 to 13.14).
pub const LENGTHS: std::ops::RangeInclusive<u32> = 512..=0x00ff_ffff;

/// How an end sees digests (RFC 7143 13.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DigestPreference {
    /// None only.
    Never,
    /// None if the peer takes it.
    #[default]
    Avoid,
    /// CRC32C if the peer takes it.
    Prefer,
    /// CRC32C only.
    Require,
}

impl DigestPreference {
    pub(crate) const fn list(self) -> &'static str {
        match self {
            Self::Never => "None",
            Self::Avoid => "None,CRC32C",
            Self::Prefer => "CRC32C,None",
            Self::Require => "CRC32C",
        }
    }

    pub(crate) const fn takes(self, crc32c: bool) -> bool {
        match self {
            Self::Never => !crc32c,
            Self::Require => crc32c,
            Self::Avoid | Self::Prefer => true,
        }
    }
}

/// The operational keys that an end would like (RFC 7143 13).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeySettings {
    /// HeaderDigest.
    pub header_digest: DigestPreference,
    /// DataDigest.
    pub data_digest: DigestPreference,
    /// InitialR2T: yes if either end says so.
    pub initial_r2t: bool,
    /// ImmediateData: yes if both ends say so.
    pub immediate_data: bool,
    /// MaxRecvDataSegmentLength in bytes, 512 to 2^24 - 1: the longest payload that this end takes.
    pub max_recv_data_segment: u32,
    /// MaxBurstLength in bytes, 512 to 2^24 - 1: the smaller counts.
    pub max_burst: u32,
    /// FirstBurstLength in bytes, 512 to `max_burst`: the smaller counts.
    pub first_burst: u32,
    /// MaxOutstandingR2T, 1 to 65,535: the smaller counts.
    pub max_outstanding_r2t: u16,
    /// DataPDUInOrder: yes if either end says so.
    pub data_pdu_in_order: bool,
    /// DataSequenceInOrder: yes if either end says so.
    pub data_sequence_in_order: bool,
    /// DefaultTime2Wait in seconds, up to 3,600: the larger counts.
    pub time_to_wait: u16,
    /// DefaultTime2Retain in seconds, up to 3,600: the smaller counts.
    pub time_to_retain: u16,
}

impl KeySettings {
    /// The default, with these digests of headers and of payloads.
    #[must_use]
    pub fn with_digests(digest: DigestPreference) -> Self {
        Self { header_digest: digest, data_digest: digest, ..Self::default() }
    }
}

impl Default for KeySettings {
    fn default() -> Self {
        Self {
            header_digest: DigestPreference::Avoid,
            data_digest: DigestPreference::Avoid,
            initial_r2t: false,
            immediate_data: true,
            max_recv_data_segment: 262_144,
            max_burst: 1_048_576,
            first_burst: 262_144,
            max_outstanding_r2t: 4,
            data_pdu_in_order: true,
            data_sequence_in_order: true,
            time_to_wait: 2,
            time_to_retain: 0,
        }
    }
}

/// The values that a session has (RFC 7143 13). The defaults are the RFC's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionParameters {
    /// Headers have a CRC32C.
    pub header_digest: bool,
    /// Payloads have a CRC32C.
    pub data_digest: bool,
    /// Unsolicited Data-Out is forbidden.
    pub initial_r2t: bool,
    /// Immediate data is allowed.
    pub immediate_data: bool,
    /// The longest payload in bytes that the peer takes.
    pub send_limit: u32,
    /// The longest payload in bytes that this end takes.
    pub receive_limit: u32,
    /// The longest sequence of Data-In or solicited Data-Out in bytes.
    pub max_burst: u32,
    /// Unsolicited bytes of a command, at most `max_burst`.
    pub first_burst: u32,
    /// R2Ts of a command that may be open at a time.
    pub max_outstanding_r2t: u16,
    /// Data PDUs of a sequence have rising offsets.
    pub data_pdu_in_order: bool,
    /// Sequences of a command have rising offsets.
    pub data_sequence_in_order: bool,
    /// Seconds before a reconnection.
    pub time_to_wait: u16,
    /// Seconds in which tasks can be moved after `time_to_wait`.
    pub time_to_retain: u16,
}

impl Default for SessionParameters {
    fn default() -> Self {
        Self {
            header_digest: false,
            data_digest: false,
            initial_r2t: true,
            immediate_data: true,
            send_limit: 8192,
            receive_limit: 8192,
            max_burst: 262_144,
            first_burst: 65_536,
            max_outstanding_r2t: 1,
            data_pdu_in_order: true,
            data_sequence_in_order: true,
            time_to_wait: 2,
            time_to_retain: 20,
        }
    }
}

/// The kinds of session (RFC 7143 4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SessionType {
    /// For SendTargets only.
    Discovery,
    /// For commands.
    Normal,
}

/// The algorithms of CHAP (RFC 1994; RFC 7143 12.1.3; IANA's PPP authentication algorithms).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChapAlgorithm {
    /// 5. Weak; for peers that have nothing else.
    Md5,
    /// 7.
    Sha256,
    /// 8.
    Sha3_256,
}

/// A name and a secret.
#[derive(Debug, Clone)]
pub struct ChapAccount {
    /// CHAP_N.
    pub name: String,
    /// The secret.
    pub secret: ChapSecret,
}

/// CHAP of a login as an initiator wants it (RFC 7143 12.1.3).
#[derive(Debug, Clone)]
pub struct ChapPolicy {
    /// The account with which the initiator proves itself to the target.
    pub initiator: ChapAccount,
    /// The account with which the target proves itself; `None`: it need not. With an empty name
    /// any name is taken, and the secret decides. The secret differs from that of `initiator`
    /// (RFC 7143 9.2.1).
    pub target: Option<ChapAccount>,
    /// The algorithms that are allowed, in the order in which they are offered.
    pub algorithms: Vec<ChapAlgorithm>,
}

/// CHAP of a login as a target wants it (RFC 7143 12.1.3).
#[derive(Debug, Clone)]
pub struct ChapDemand {
    /// The accounts with one of which the initiator proves itself. Their names differ.
    pub accounts: Vec<ChapAccount>,
    /// The account with which the target proves itself; `None`: it refuses to be asked. Its secret
    /// differs from those of `accounts` (RFC 7143 9.2.1).
    pub target: Option<ChapAccount>,
    /// The algorithms that are allowed. The first one that the initiator offers is taken.
    pub algorithms: Vec<ChapAlgorithm>,
}

impl From<ChapPolicy> for ChapDemand {
    /// What an initiator of that policy fulfils.
    fn from(policy: ChapPolicy) -> Self {
        let ChapPolicy { initiator, target, algorithms } = policy;
        Self { accounts: vec![initiator], target, algorithms }
    }
}
