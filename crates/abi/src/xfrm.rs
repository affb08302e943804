//! Security associations and policies of ESP, in the words of `ip xfrm`.

use core::fmt::{self, Debug, Formatter};
use core::net::IpAddr;
use core::str::FromStr;

use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::network::Prefixed;

/// Longest key, bytes.
const MOST_KEY: usize = 256;

/// A key. Its text is hexadecimal after `0x`. It is cleared when it is dropped, and no message of
/// an error or a log shows it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct XfrmKey(Zeroizing<Vec<u8>>);

impl XfrmKey {
    /// The key of these bytes.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The key as text.
    #[must_use]
    pub fn text(&self) -> String {
        let digits = self.0.iter().map(|byte| format!("{byte:02x}"));
        core::iter::once("0x".to_owned()).chain(digits).collect()
    }
}

impl Debug for XfrmKey {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "XfrmKey({} bytes)", self.0.len())
    }
}

impl FromStr for XfrmKey {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // The text is not repeated: it may be a key.
        let wrong = || "a key is hexadecimal digits after 0x, two for each byte".to_owned();
        let digits = match text.strip_prefix("0x") {
            Some(digits) => digits.as_bytes(),
            None if text.is_empty() => b"",
            None => return Err(wrong()),
        };
        if digits.len() % 2 != 0 || digits.len() > 2 * MOST_KEY {
            return Err(wrong());
        }
        let digit = |byte: u8| char::from(byte).to_digit(16);
        let mut bytes = Zeroizing::new(Vec::with_capacity(digits.len() / 2));
        for pair in digits.chunks_exact(2) {
            let &[high, low] = pair else { return Err(wrong()) };
            let (Some(high), Some(low)) = (digit(high), digit(low)) else { return Err(wrong()) };
            bytes.push((high << 4 | low) as u8);
        }
        Ok(Self(bytes))
    }
}

impl TryFrom<String> for XfrmKey {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Zeroizing::new(text).parse()
    }
}

impl From<XfrmKey> for String {
    fn from(key: XfrmKey) -> Self {
        key.text()
    }
}

/// An algorithm by its name in the kernel, and its key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct XfrmAlgorithm {
    /// Such as `rfc4106(gcm(aes))`.
    pub name: String,
    /// `None` where keys are not shown.
    pub key: Option<XfrmKey>,
    /// Length of the integrity check value, bits; `None` for the algorithm's own.
    pub icv: Option<u16>,
}

/// The algorithms of an association: a combined one, or encryption and integrity apart.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct XfrmAlgorithms {
    /// Encryption with integrity.
    pub aead: Option<XfrmAlgorithm>,
    /// Encryption.
    pub enc: Option<XfrmAlgorithm>,
    /// Integrity.
    pub auth: Option<XfrmAlgorithm>,
    /// Algorithms are allowed that protect too little today.
    pub insecure: bool,
}

impl XfrmAlgorithms {
    /// The same without keys.
    #[must_use]
    pub fn without_keys(&self) -> Self {
        let mut all = self.clone();
        let each = [&mut all.aead, &mut all.enc, &mut all.auth];
        each.into_iter().flatten().for_each(|algorithm| algorithm.key = None);
        all
    }
}

/// What ESP protects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum XfrmMode {
    /// The payload of packets between two hosts.
    #[default]
    Transport,
    /// Whole packets.
    Tunnel,
}

/// Which packets a policy is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum XfrmDirection {
    /// Those received.
    In,
    /// Those sent.
    Out,
}

/// The flows of a policy or of an association.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct XfrmSelector {
    /// Of the source.
    pub src: Prefixed,
    /// Of the destination.
    pub dst: Prefixed,
    /// Number of the transport protocol; `None` for all.
    pub proto: Option<u8>,
    /// The source port, or the type of ICMP.
    pub sport: Option<u16>,
    /// The destination port, or the code of ICMP.
    pub dport: Option<u16>,
}

/// Bounds on an association, soft and hard; times in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(missing_docs, reason = "the names are those of `ip xfrm`")]
pub struct XfrmLimits {
    pub byte_soft: Option<u64>,
    pub byte_hard: Option<u64>,
    pub packet_soft: Option<u64>,
    pub packet_hard: Option<u64>,
    pub time_soft: Option<u64>,
    pub time_hard: Option<u64>,
    pub time_use_soft: Option<u64>,
    pub time_use_hard: Option<u64>,
}

/// Initialization vectors that are reserved for one association: from `first` on, below `end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct XfrmVectors {
    /// The first one.
    pub first: u64,
    /// The first one beyond.
    pub end: u64,
}

/// Names an association.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct XfrmId {
    /// Where packets of ESP go.
    pub dst: IpAddr,
    /// The number that they carry.
    pub spi: u32,
}

/// An association.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct XfrmState {
    /// Where packets of ESP come from.
    pub src: IpAddr,
    /// Its name.
    pub id: XfrmId,
    /// By which policies find it; 0 for none.
    pub reqid: u32,
    /// Its mode.
    pub mode: XfrmMode,
    /// Its algorithms and keys.
    pub algorithms: XfrmAlgorithms,
    /// Packets; 0 for none.
    pub replay_window: u32,
    /// Sequence numbers have 64 bits.
    pub esn: bool,
    /// Highest sequence number received before.
    pub seq: u64,
    /// Last sequence number sent before.
    pub oseq: u64,
    /// Its bounds.
    pub limits: XfrmLimits,
    /// Its flows, if not all.
    pub sel: Option<XfrmSelector>,
    /// In tunnel mode, packets are padded to so many bytes.
    pub tfcpad: u16,
}

/// The association that a policy asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct XfrmTemplate {
    /// Source and destination of packets of ESP; `None` for those of the packet.
    pub ends: Option<(IpAddr, IpAddr)>,
    /// Its number, if not any.
    pub spi: Option<u32>,
    /// Its request identifier; 0 for any.
    pub reqid: u32,
    /// Its mode.
    pub mode: XfrmMode,
    /// `level use`: without it packets pass unprotected.
    pub optional: bool,
}

/// What a policy says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "lowercase")]
pub enum XfrmAction {
    /// Drop.
    Block,
    /// Pass as they are.
    Allow,
    /// Protect.
    Protect(XfrmTemplate),
}

/// A policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct XfrmPolicy {
    /// Of packets received or sent.
    pub dir: XfrmDirection,
    /// Of these flows.
    pub sel: XfrmSelector,
    /// The least number counts.
    pub priority: u32,
    /// What happens.
    pub action: XfrmAction,
}

/// A request about associations and policies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "xfrm", rename_all = "kebab-case")]
pub enum XfrmRequest {
    /// Add an association.
    AddState(Box<XfrmState>),
    /// Remove one.
    DeleteState(XfrmId),
    /// Remove all.
    FlushStates,
    /// Add a policy.
    AddPolicy(XfrmPolicy),
    /// Remove one.
    DeletePolicy {
        /// Its direction.
        dir: XfrmDirection,
        /// Its flows.
        sel: XfrmSelector,
    },
    /// Remove all.
    FlushPolicies,
    /// Tell all of both.
    List {
        /// With keys.
        keys: bool,
    },
}

/// What an association has done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct XfrmStateStatus {
    /// The association. `seq` and `oseq` are its present numbers.
    pub state: XfrmState,
    /// `valid`, `dying` or `expired`.
    pub age: String,
    /// Bytes protected or opened.
    pub bytes: u64,
    /// Packets.
    pub packets: u64,
    /// Seconds since it was added.
    pub added: u64,
    /// Seconds since its first packet.
    pub used: Option<u64>,
    /// Packets that were received before, or too late.
    pub replay: u64,
    /// Packets with a wrong check value.
    pub failed: u64,
}

/// All associations and policies.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct XfrmStatus {
    /// In the order of their numbers.
    pub states: Vec<XfrmStateStatus>,
    /// In the order of preference.
    pub policies: Vec<XfrmPolicy>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_hexadecimal_and_stay_secret() {
        let key: XfrmKey = "0x00ffA5".parse().unwrap();
        assert_eq!((key.bytes(), key.text().as_str()), (&[0, 0xff, 0xa5][..], "0x00ffa5"));
        assert_eq!(format!("{key:?}"), "XfrmKey(3 bytes)");
        for wrong in ["00ff", "0x0", "0xgg", &format!("0x{}", "00".repeat(257))] {
            let error = wrong.parse::<XfrmKey>().unwrap_err();
            assert!(!error.contains(wrong), "{error}");
        }
        assert_eq!("".parse::<XfrmKey>().unwrap().bytes(), b"");
    }
}
