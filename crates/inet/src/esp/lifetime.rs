//! How long an association lasts, and what it has done (RFC 4301 4.4.2.1).

use core::time::Duration;

use crate::time::Instant;

/// Bounds on an association; `None` is none. After a soft one a notice says so, and another
/// association is preferred. After a hard one the association is not used any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SaLifetimes {
    /// Bytes encrypted or decrypted.
    pub soft_bytes: Option<u64>,
    /// See `soft_bytes`.
    pub hard_bytes: Option<u64>,
    /// Packets.
    pub soft_packets: Option<u64>,
    /// See `soft_packets`.
    pub hard_packets: Option<u64>,
    /// Time since the association was added.
    pub soft_time: Option<Duration>,
    /// See `soft_time`.
    pub hard_time: Option<Duration>,
    /// Time since its first packet.
    pub soft_use: Option<Duration>,
    /// See `soft_use`.
    pub hard_use: Option<Duration>,
}

/// What an association has done so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SaUsage {
    /// Bytes encrypted or decrypted.
    pub bytes: u64,
    /// Packets.
    pub packets: u64,
    /// When it was added.
    pub added: Instant,
    /// When its first packet came or left.
    pub first_used: Option<Instant>,
    /// When its last packet came or left.
    pub last_used: Option<Instant>,
}

/// How much of its life an association has behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum SaAge {
    /// It is used.
    #[default]
    Valid,
    /// A soft bound is passed.
    Dying,
    /// A hard bound is passed, or it has no sequence number left.
    Expired,
}

impl SaUsage {
    pub(crate) fn new(now: Instant) -> Self {
        Self { bytes: 0, packets: 0, added: now, first_used: None, last_used: None }
    }

    pub(crate) fn count(&mut self, now: Instant, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes as u64);
        self.packets = self.packets.saturating_add(1);
        self.first_used.get_or_insert(now);
        self.last_used = Some(now);
    }
}

impl SaLifetimes {
    /// The age of an association that has done so much.
    pub(crate) fn age(&self, now: Instant, usage: &SaUsage) -> SaAge {
        let counted = |most: Option<u64>, count: u64| most.is_some_and(|most| count >= most);
        let passed = |deadline: Option<Instant>| deadline.is_some_and(|at| at <= now);
        let [soft, hard] = self.deadlines(usage);
        let is_hard = counted(self.hard_bytes, usage.bytes)
            || counted(self.hard_packets, usage.packets)
            || passed(hard);
        let is_soft = counted(self.soft_bytes, usage.bytes)
            || counted(self.soft_packets, usage.packets)
            || passed(soft);
        match (is_hard, is_soft) {
            (true, _) => SaAge::Expired,
            (_, true) => SaAge::Dying,
            _ => SaAge::Valid,
        }
    }

    /// When time alone passes the soft and the hard bounds.
    fn deadlines(&self, usage: &SaUsage) -> [Option<Instant>; 2] {
        let first = |added: Option<Duration>, used: Option<Duration>| {
            let added = added.map(|time| usage.added + time);
            let used = used.and_then(|time| Some(usage.first_used? + time));
            added.into_iter().chain(used).min()
        };
        [first(self.soft_time, self.soft_use), first(self.hard_time, self.hard_use)]
    }

    /// When time alone makes the association older than `age`.
    pub(crate) fn next_deadline(&self, age: SaAge, usage: &SaUsage) -> Option<Instant> {
        let [soft, hard] = self.deadlines(usage);
        match age {
            SaAge::Valid => soft.into_iter().chain(hard).min(),
            SaAge::Dying => hard,
            SaAge::Expired => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn soft_bounds_age_and_hard_bounds_end() {
        let start = Instant::from_nanos(1);
        let seconds = |n| Some(Duration::from_secs(n));
        let lifetimes = SaLifetimes {
            soft_bytes: Some(100),
            hard_packets: Some(3),
            soft_time: seconds(50),
            hard_use: seconds(9),
            ..SaLifetimes::default()
        };
        let mut usage = SaUsage::new(start);
        let at = |n| start + Duration::from_secs(n);
        assert_eq!(lifetimes.age(start, &usage), SaAge::Valid);
        assert_eq!(lifetimes.age(at(50), &usage), SaAge::Dying);
        assert_eq!(lifetimes.next_deadline(SaAge::Valid, &usage), Some(at(50)));
        assert_eq!(lifetimes.next_deadline(SaAge::Dying, &usage), None);
        usage.count(at(10), 60);
        assert_eq!(lifetimes.next_deadline(SaAge::Valid, &usage), Some(at(19)));
        assert_eq!(lifetimes.age(at(18), &usage), SaAge::Valid);
        assert_eq!(lifetimes.age(at(19), &usage), SaAge::Expired);
        usage.count(at(11), 60);
        assert_eq!(lifetimes.age(at(11), &usage), SaAge::Dying);
        usage.count(at(12), 1);
        assert_eq!(lifetimes.age(at(12), &usage), SaAge::Expired);
    }
}
