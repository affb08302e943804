//! Settings of a target's connection.

use std::time::Duration;

use crate::settings::KeySettings;

/// How a connection of a target behaves.
///
/// The connection's memory for bytes of the initiator is at most the sum of
///
/// * `(queue_depth + 2 × max_immediate) × max(first_burst, max_recv_data_segment)`: unsolicited data
///   of commands, requests that wait for their turn, answers to pings; an initiator that does not
///   offer FirstBurstLength has the RFC's default of 65,536 as `first_burst`;
/// * `max(data_out_budget, max_burst)`: data that R2Ts asked for;
/// * `max_recv_data_segment` + 2 KiB: a PDU that is not complete;
/// * 16 KiB: a text that is not complete.
///
/// A payload of at least an eighth of a piece of input stays in that piece. So pieces of input may
/// take up to eight times as much.
#[derive(Debug, Clone)]
pub struct TargetConfig {
    /// The operational keys that the target would like.
    pub keys: KeySettings,
    /// TargetPortalGroupTag.
    pub portal_group: u16,
    /// Commands that the initiator may have open, 1 to 4,096: the command window.
    pub queue_depth: u16,
    /// Immediate commands that the initiator may have open besides.
    pub max_immediate: u16,
    /// Bytes of R2Ts that may be open, at least one burst.
    pub data_out_budget: u32,
    /// Within that time a login is finished.
    pub login_timeout: Duration,
    /// After that time of silence the target sends a ping; `None`: never.
    pub ping_interval: Option<Duration>,
    /// Within that time a ping is answered.
    pub ping_timeout: Duration,
}

impl Default for TargetConfig {
    fn default() -> Self {
        Self {
            keys: KeySettings::default(),
            portal_group: 1,
            queue_depth: 128,
            max_immediate: 16,
            data_out_budget: 16 << 20,
            login_timeout: Duration::from_secs(15),
            ping_interval: Some(Duration::from_secs(15)),
            ping_timeout: Duration::from_secs(10),
        }
    }
}
