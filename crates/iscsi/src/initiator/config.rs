//! Settings of an initiator's connection.

use std::time::Duration;

use crate::login::LoginStages;
use crate::name::IscsiName;
use crate::pdu::Isid;
use crate::settings::{ChapPolicy, KeySettings};

/// How a connection of an initiator behaves.
#[derive(Debug, Clone)]
pub struct InitiatorConfig {
    /// The initiator's name.
    pub name: IscsiName,
    /// InitiatorAlias, up to 255 bytes.
    pub alias: Option<String>,
    /// The target; `None` for a discovery session.
    pub target: Option<IscsiName>,
    /// The initiator's part of the session's identifier. The same one again replaces the session.
    pub isid: Isid,
    /// The connection's identifier.
    pub cid: u16,
    /// The stages of the login. With CHAP, never `Operational`.
    pub stages: LoginStages,
    /// The operational keys that the initiator would like.
    pub keys: KeySettings,
    /// The proof of both ends; `None` for AuthMethod None.
    pub chap: Option<ChapPolicy>,
    /// Requests that the shell may have open.
    pub queue_depth: u16,
    /// Within that time a login or logout is finished.
    pub login_timeout: Duration,
    /// After that time of silence the initiator sends a ping; `None`: never.
    pub ping_interval: Option<Duration>,
    /// Within that time a ping is answered.
    pub ping_timeout: Duration,
}

impl InitiatorConfig {
    /// The settings that most sessions have.
    pub fn new(name: IscsiName, target: Option<IscsiName>, isid: Isid) -> Self {
        Self {
            name,
            alias: None,
            target,
            isid,
            cid: 0,
            stages: LoginStages::Both,
            keys: KeySettings::default(),
            chap: None,
            queue_depth: 128,
            login_timeout: Duration::from_secs(15),
            ping_interval: Some(Duration::from_secs(15)),
            ping_timeout: Duration::from_secs(10),
        }
    }
}
