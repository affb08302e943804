//! The state of an instance, as operators ask for it.

use core::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::stats::Histogram;
use crate::tcp::TcpStatus;

/// The part of a process's sandbox that only the process itself knows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxStatus {
    /// The version of Landlock in force, `v7`, if there is one.
    pub landlock: Option<String>,
    /// The layers that are missing, with the system's reasons.
    pub missing: Vec<String>,
}

/// One memory pool, in pages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolStatus {
    /// Such as `frames` or `client 3 rx`.
    pub name: String,
    /// All pages.
    pub pages: u32,
    /// Pages without an owner.
    pub free: u32,
    /// Page size behind it: `4k` or `2M`.
    pub backing: String,
}

/// How full a ring is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RingStatus {
    /// Such as `requests`, `results`, `fill` or `tx`.
    pub name: String,
    /// Slots in all; of a program with several threads, of all its rings of that name.
    pub slots: u32,
    /// Slots published and not consumed.
    pub used: u32,
}

/// A party that shares rings with the inet server: a program or a driver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartyStatus {
    /// `client` or `nic`, as the role of its process.
    pub role: String,
    /// The client's number, or the interface's.
    pub number: u16,
    /// Its rings, as the inet server sees them.
    pub rings: Vec<RingStatus>,
    /// Its own part of the counters, in order of name; an object in JSON.
    #[serde(with = "as_object")]
    pub counters: Vec<(String, u64)>,
}

/// A process of an instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessStatus {
    /// `supervisor`, `inet`, `nic`, `inet+nic` (both in one process) or `client`.
    pub role: String,
    /// Process id.
    pub pid: u32,
    /// Program name; for a driver, the device.
    pub name: String,
    /// Client number, for clients.
    pub client: Option<u16>,
    /// Page size, and why it is not the requested one: `4k`, `2M`, or `4k (no 2M pages free)`.
    pub memory: String,
    /// The sandbox that a server has reported.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub sandbox: Option<SandboxStatus>,
}

/// The answer to `tasuki ps`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceStatus {
    /// The instance.
    pub instance: String,
    /// `split`, `fused` or `library`.
    pub mode: String,
    /// The stack's first address and prefix, `10.219.0.2/24`.
    pub address: String,
    /// All addresses that were set up.
    pub addresses: Vec<String>,
    /// Its processes, supervisor first.
    pub processes: Vec<ProcessStatus>,
    /// Its memory pools.
    pub pools: Vec<PoolStatus>,
    /// Counters of inet server and drivers, `layer.what` each, in order of name; an object in JSON.
    #[serde(with = "as_object")]
    pub counters: Vec<(String, u64)>,
    /// Sizes of batches, in order of name.
    #[serde(default)]
    pub histograms: Vec<Histogram>,
    /// Programs and drivers, with their rings and their part of the counters.
    #[serde(default)]
    pub parties: Vec<PartyStatus>,
}

/// Pairs as a JSON object, so that `jq '.counters["tcp.retransmits"]'` does what it says.
mod as_object {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(
        pairs: &[(String, u64)],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_map(pairs.iter().map(|(name, value)| (name, value)))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<(String, u64)>, D::Error> {
        let object = BTreeMap::deserialize(deserializer)?;
        Ok(object.into_iter().collect())
    }
}

/// A row of `tasuki ss`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SocketStatus {
    /// `tcp` or `udp`.
    pub netid: String,
    /// As ss writes it: `ESTAB`, `LISTEN`, `TIME-WAIT`, `UNCONN`, …
    pub state: String,
    /// Bytes received and not yet read; listeners: connections waiting.
    pub recv_q: u64,
    /// Bytes not yet acknowledged; listeners: backlog.
    pub send_q: u64,
    /// Local end.
    pub local: SocketAddr,
    /// Other end.
    pub peer: Option<SocketAddr>,
    /// The client, while it lives.
    pub client: Option<u16>,
    /// State of the TCP connection, if it was asked for and a program has the connection.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tcp: Option<TcpStatus>,
}
