//! The names of `sysctl` that scripts set, and their meaning for the core.
//!
//! A setting is known and obeyed, known and without a meaning here, or unknown. A script that sets
//! an unknown one tests something that this stack does not have. The script gets an error that says
//! so.

use std::collections::BTreeMap;
use std::time::Duration;

use inet::tcp::{CongestionKind, EcnPolicy};
use inet::{Config, FastOpenKeys};

/// Segments that may leave as one.
pub(crate) const MOST_SEGMENTS: u16 = 64;

/// Settings that change nothing here, each for its own reason. They are about behaviour that the
/// core always has, about the kernel's other protocols, or they have no effect on any script.
const WITHOUT_MEANING: &[&str] = &[
    "tcp_fack",
    "tcp_tso_win_divisor",
    "tcp_pacing_ss_ratio",
    "tcp_pacing_ca_ratio",
    "tcp_ecn_option",
];

/// Settings by their short name (`tcp_sack`), as text.
#[derive(Debug, Clone, Default)]
pub struct Sysctls {
    values: BTreeMap<String, String>,
    unknown: Vec<String>,
}

/// The last part of `net.ipv4.tcp_sack` or `/proc/sys/net/ipv4/tcp_sack`.
pub fn short_name(name: &str) -> &str {
    name.rsplit(['.', '/']).next().unwrap_or(name)
}

fn number(text: &str) -> Option<i64> {
    let text = text.trim();
    match text.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

impl Sysctls {
    /// Sets `name` (long or short).
    pub fn set(&mut self, name: &str, value: &str) {
        let name = short_name(name);
        self.values.insert(name.to_owned(), value.trim().to_owned());
    }

    /// The setting as text.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// The setting as a number.
    pub fn number(&self, name: &str) -> Option<i64> {
        self.get(name).and_then(number)
    }

    /// The setting as three numbers: least, default and most.
    pub fn triple(&self, name: &str) -> Option<[i64; 3]> {
        let mut numbers = self.get(name)?.split_whitespace().map(number);
        Some([numbers.next()??, numbers.next()??, numbers.next()??])
    }

    /// The one or two keys of `tcp_fastopen_key`, if it is set and well-formed.
    pub fn fast_open_keys(&self) -> Option<FastOpenKeys> {
        let mut keys = self.get("tcp_fastopen_key")?.split(',').map(fast_open_key);
        Some(FastOpenKeys { current: keys.next()??, other: keys.next().flatten() })
    }

    /// The settings that this stack does not have.
    pub fn unknown(&self) -> &[String] {
        &self.unknown
    }

    /// Changes `config` to the settings.
    pub fn apply(&mut self, config: &mut Config) {
        self.unknown.clear();
        for (name, value) in &self.values {
            if !WITHOUT_MEANING.contains(&&name[..]) && !apply_one(config, name, value) {
                self.unknown.push(name.clone());
            }
        }
    }
}

/// A key written as four hexadecimal numbers with hyphens between them.
fn fast_open_key(text: &str) -> Option<[u8; 16]> {
    let mut key = [0; 16];
    let mut words = text.trim().split('-');
    for place in key.chunks_exact_mut(4) {
        let word = u32::from_str_radix(words.next()?, 16).ok()?;
        place.copy_from_slice(&word.to_le_bytes());
    }
    words.next().is_none().then_some(key)
}

/// Obeys one setting; false if it is not known.
fn apply_one(config: &mut Config, name: &str, value: &str) -> bool {
    let tcp = &mut config.tcp;
    let least = number(value.split_whitespace().next().unwrap_or_default()).unwrap_or(0);
    let on = least != 0;
    let count = u8::try_from(least).unwrap_or(u8::MAX);
    let bytes = u16::try_from(least).unwrap_or(u16::MAX);
    let seconds = Duration::from_secs(least.unsigned_abs());
    match name {
        "tcp_slow_start_after_idle" => tcp.slow_start_after_idle = on,
        "tcp_congestion_control" => {
            let found = CongestionKind::ALL.into_iter().find(|kind| kind.name() == value);
            let Some(found) = found else { return false };
            tcp.congestion_control = found;
        }
        "tcp_sack" => tcp.sack = on,
        "tcp_dsack" => tcp.dsack = on,
        "tcp_frto" => tcp.frto = on,
        "tcp_min_tso_segs" => tcp.min_tso_segs = u16::from(count),
        "tcp_tso_rtt_log" => tcp.tso_rtt_log = count,
        "tcp_reordering" => tcp.reordering = u16::from(count),
        "tcp_early_retrans" => tcp.early_retrans = count,
        "tcp_recovery" => tcp.recovery = count,
        "tcp_ecn" => {
            tcp.ecn = match least {
                0 => EcnPolicy::Off,
                1 => EcnPolicy::On,
                _ => EcnPolicy::Accept,
            }
        }
        // The times between repeated SYNs always double here.
        "tcp_syn_linear_timeouts" => return !on,
        "tcp_timestamps" => tcp.timestamps = on,
        "tcp_window_scaling" => tcp.window_scaling = on,
        "tcp_syn_retries" => tcp.syn_retries = count,
        "tcp_synack_retries" => tcp.synack_retries = count,
        "tcp_retries2" => tcp.retries = count,
        "tcp_orphan_retries" => tcp.orphan_retries = count,
        "tcp_fin_timeout" => tcp.fin_timeout = seconds,
        "tcp_moderate_rcvbuf" => tcp.moderate_rcvbuf = on,
        "tcp_retries1" => tcp.retries1 = count,
        "tcp_mtu_probing" => tcp.mtu_probing = count,
        "tcp_base_mss" => tcp.base_mss = bytes,
        "tcp_mtu_probe_floor" => tcp.mtu_probe_floor = bytes,
        "tcp_probe_threshold" => tcp.probe_threshold = bytes,
        "tcp_probe_interval" => tcp.probe_interval = seconds,
        "tcp_rmem" => {
            // Half of the memory is for payload (tcp_adv_win_scale 1).
            let mut sizes = value.split_whitespace().skip(1).map(number);
            let mut next = || usize::try_from(sizes.next()??).ok();
            let (Some(default), Some(most)) = (next(), next()) else { return false };
            tcp.recv_buffer = default / 2;
            tcp.recv_buffer_max = most;
        }
        // Not Linux's: the device cuts super-segments.
        "device_tso" => tcp.gso_max_segs = if on { MOST_SEGMENTS } else { 1 },
        // The settings that the host itself reads.
        "tcp_wmem" | "tcp_notsent_lowat" => {}
        // Settings of parts of the core that are on whatever they say.
        "tcp_fastopen_key" => {}
        "tcp_fastopen_blackhole_timeout_sec" => tcp.fastopen_blackhole_timeout = seconds,
        "tcp_fastopen" => tcp.fastopen = u32::try_from(least).unwrap_or(0),
        "tcp_syncookies" => tcp.syncookies = count,
        "tcp_max_syn_backlog" => tcp.max_syn_backlog = u32::try_from(least).unwrap_or(0),
        "tcp_abort_on_overflow" => tcp.abort_on_overflow = on,
        _ => return false,
    }
    true
}
