//! Multicast groups of one interface and family: listeners, their filters, reports to routers.
//!
//! IGMPv3 (RFC 3376) and MLDv2 (RFC 3810) are one protocol in two formats. So are their older
//! versions. An older version is used while a router uses it (7.2.1, and RFC 3810 8.2.1).
//!
//! Each listener (a socket, or an address for its solicited-node group) has a filter. The filters
//! of a group are merged into one (3.2, 4.2). Every change of the merged filter is reported at
//! once, and again after random times, as often as the robustness variable says (5.1, 6.1).
//!
//! A query is answered after a random time within the bound that it states, with the filter of that
//! moment (5.2, 6.2). Any node can send a query. It can only cause reports, at most one for each
//! group and random delay.

pub(crate) mod report;
pub(crate) mod table;
pub(crate) mod wire;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::time::Duration;

use crate::error::Error;
use crate::owner_id::OwnerId;
use crate::secret::Secret;
use crate::table::Handle;
use crate::time::Instant;
use wire::{GroupReport, Query, Record, RecordKind, Version};

/// RFC 3376 8.1, 8.11 and 8.12: defaults, until a querier says otherwise.
const ROBUSTNESS: u8 = 2;
const UNSOLICITED_INTERVAL: Duration = Duration::from_secs(1);
/// RFC 2236 8.10, RFC 2710 7.10.
const OLD_UNSOLICITED_INTERVAL: Duration = Duration::from_secs(10);
const QUERY_INTERVAL: Duration = Duration::from_secs(125);
/// Most sources of a merged filter: with more, all are received, and each listener's own filter
/// does the rest.
const MOST_MERGED: usize = 64;
/// Most listeners of a group whose filters are merged. With more, all is received as well.
const MOST_FILTERS: usize = 256;

/// All systems on the link (RFC 1112 4, RFC 4291 2.7.1): always listened to, never reported.
pub(crate) const ALL_V4: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 1);
pub(crate) const ALL_V6: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// Whether only the listed sources are received, or all but these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilterMode {
    /// Only the listed ones (MCAST_INCLUDE).
    Include,
    /// All but the listed ones (MCAST_EXCLUDE).
    Exclude,
}

/// The sources that are wanted of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Filter {
    pub(crate) mode: FilterMode,
    pub(crate) sources: BTreeSet<IpAddr>,
}

impl Filter {
    /// Everything.
    pub(crate) fn all() -> Self {
        Self { mode: FilterMode::Exclude, sources: BTreeSet::new() }
    }

    /// Nothing.
    fn none() -> Self {
        Self { mode: FilterMode::Include, sources: BTreeSet::new() }
    }

    pub(crate) fn admits(&self, source: IpAddr) -> bool {
        (self.mode == FilterMode::Include) == self.sources.contains(&source)
    }

    fn is_none(&self) -> bool {
        self.mode == FilterMode::Include && self.sources.is_empty()
    }

    fn is_all(&self) -> bool {
        self.mode == FilterMode::Exclude && self.sources.is_empty()
    }

    /// RFC 3376 3.2.
    fn merged<'a>(all: &(impl Iterator<Item = &'a Self> + Clone)) -> Self {
        let of = |mode| all.clone().filter(move |filter| filter.mode == mode);
        let mut included = BTreeSet::new();
        of(FilterMode::Include).for_each(|filter| included.extend(&filter.sources));
        let mut excluding = of(FilterMode::Exclude);
        let merged = match excluding.next() {
            None => Self { mode: FilterMode::Include, sources: included },
            Some(first) => {
                let mut sources = first.sources.clone();
                excluding.for_each(|filter| sources.retain(|ip| filter.sources.contains(ip)));
                sources.retain(|ip| !included.contains(ip));
                Self { mode: FilterMode::Exclude, sources }
            }
        };
        if merged.sources.len() > MOST_MERGED { Self::all() } else { merged }
    }
}

/// A listener.
#[cfg_attr(not(test), expect(dead_code, reason = "IPv6 neighbour discovery joins by address"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum GroupListener {
    Socket(Handle),
    /// An address of this host, to its solicited-node group (RFC 4291 2.7.1).
    Address(Ipv6Addr),
    /// The stack itself.
    Stack,
}

/// What a listener wants of a group, and the party whose socket it is.
#[derive(Debug)]
pub(crate) struct GroupMember {
    pub(crate) owner: OwnerId,
    pub(crate) filter: Filter,
}

/// A response to be sent about one group.
#[derive(Debug)]
struct PendingResponse {
    at: Instant,
    /// About these sources; about all if there are none.
    sources: BTreeSet<IpAddr>,
}

#[derive(Debug)]
struct Group {
    /// The party whose share it counts against: that of one of its listeners, or of the last one.
    owner: OwnerId,
    listeners: BTreeMap<GroupListener, GroupMember>,
    /// Listeners that want everything.
    unfiltered: usize,
    filter: Filter,
    /// How often the change of mode is still to be reported.
    mode_reports: u8,
    /// How often the change of each source is.
    source_reports: BTreeMap<IpAddr, u8>,
    /// When, next.
    change_at: Option<Instant>,
    response: Option<PendingResponse>,
    /// This host sent the last report of an older version, and so sends a message when it leaves
    /// (RFC 2236 3).
    reporter: bool,
}

/// The groups of one interface and family.
#[derive(Debug)]
pub(crate) struct Groups {
    v6: bool,
    groups: BTreeMap<IpAddr, Group>,
    most: usize,
    robustness: u8,
    query_interval: Duration,
    /// Until when a router of an older version counts as present.
    second_until: Option<Instant>,
    first_until: Option<Instant>,
    /// When a general query is to be answered.
    general_at: Option<Instant>,
    /// Reports of older versions and leaves, made and not yet sent.
    ready: Vec<GroupReport>,
}

impl Groups {
    /// Without groups; at most `most`.
    pub(crate) fn new(v6: bool, most: usize) -> Self {
        Self {
            v6,
            groups: BTreeMap::new(),
            most,
            robustness: ROBUSTNESS,
            query_interval: QUERY_INTERVAL,
            second_until: None,
            first_until: None,
            general_at: None,
            ready: Vec::new(),
        }
    }

    /// Whether packets from `source` to `group` are wanted by any listener.
    pub(crate) fn admits(&self, group: IpAddr, source: IpAddr) -> bool {
        let always = group == ALL_V4 || group == ALL_V6;
        always || self.groups.get(&group).is_some_and(|group| group.filter.admits(source))
    }

    /// All groups listened to.
    pub(crate) fn iter(&self) -> impl Iterator<Item = IpAddr> {
        self.groups.iter().filter(|(_, group)| !group.listeners.is_empty()).map(|(ip, _)| *ip)
    }

    /// The filter that a listener asked for.
    pub(crate) fn filter(&self, group: IpAddr, listener: GroupListener) -> Option<&Filter> {
        self.groups.get(&group)?.listeners.get(&listener).map(|member| &member.filter)
    }

    /// The version to use: the oldest that a router has used lately.
    fn version(&self, now: Instant) -> Version {
        let is_on = |until: Option<Instant>| until.is_some_and(|until| until > now);
        if is_on(self.first_until) {
            Version::First
        } else if is_on(self.second_until) {
            Version::Second
        } else {
            Version::Full
        }
    }

    /// Groups of this scope are never reported (RFC 3376 5; RFC 3810 6).
    fn is_reported(group: IpAddr) -> bool {
        match group {
            IpAddr::V4(group) => group != ALL_V4,
            IpAddr::V6(group) => group != ALL_V6 && group.octets()[1] & 0xf > 1,
        }
    }

    /// `listener` wants this of `group` from now on.
    ///
    /// # Errors
    /// `Invalid` if that is no group of this family, `NoBuffers` if there are too many, or if the
    /// owner's share has no room for another.
    pub(crate) fn listen(
        &mut self,
        now: Instant,
        group: IpAddr,
        listener: GroupListener,
        member: GroupMember,
        random: &mut Secret,
    ) -> Result<(), Error> {
        if !group.is_multicast() || group.is_ipv6() != self.v6 {
            return Err(Error::Invalid);
        }
        if member.filter.is_none() {
            self.leave(now, group, listener, random);
            return Ok(());
        }
        let owner = member.owner;
        if !self.groups.contains_key(&group) && !self.has_room(owner) {
            return Err(Error::NoBuffers);
        }
        let entry = self.groups.entry(group).or_insert_with(|| Group::new(owner));
        entry.insert(listener, member);
        self.merge(now, group, random);
        Ok(())
    }

    /// Whether an owner may have another group. A group that was left counts until the routers
    /// were told.
    fn has_room(&self, owner: OwnerId) -> bool {
        let free = self.most.saturating_sub(self.groups.len());
        let own = self.groups.values().filter(|group| group.owner == owner).count();
        free > 0 && owner.may_have(own, free)
    }

    /// `listener` wants nothing of `group` any more; false if it did not before.
    pub(crate) fn leave(
        &mut self,
        now: Instant,
        group: IpAddr,
        listener: GroupListener,
        random: &mut Secret,
    ) -> bool {
        let Some(entry) = self.groups.get_mut(&group) else { return false };
        let found = entry.remove(listener);
        self.merge(now, group, random);
        found
    }

    /// The link is up again: routers on it may not know this host's groups.
    pub(crate) fn report_all(&mut self, now: Instant) {
        let robustness = self.robustness;
        self.groups.retain(|_, group| !group.listeners.is_empty());
        for (ip, group) in &mut self.groups {
            if Self::is_reported(*ip) {
                group.mode_reports = robustness;
                group.change_at = Some(now);
            }
        }
    }

    /// Listeners of a group have changed.
    fn merge(&mut self, now: Instant, ip: IpAddr, random: &mut Secret) {
        let version = self.version(now);
        let robustness = self.robustness;
        let Some(group) = self.groups.get_mut(&ip) else { return };
        let merged = group.merged();
        let before = core::mem::replace(&mut group.filter, merged);
        if before == group.filter || !Self::is_reported(ip) {
            if group.listeners.is_empty() && group.change_at.is_none() {
                self.groups.remove(&ip);
            }
            return;
        }
        if version != Version::Full {
            let (joined, left) = (before.is_none(), group.filter.is_none());
            if joined {
                // RFC 2236 3: at once, and again.
                group.reporter = true;
                group.mode_reports = robustness - 1;
                let delay = random_time(OLD_UNSOLICITED_INTERVAL, random);
                group.change_at = Some(now + delay);
                self.ready.push(GroupReport::old(version, ip));
            } else if left {
                let reporter = group.reporter;
                self.groups.remove(&ip);
                if reporter && version == Version::Second {
                    self.ready.push(GroupReport::leave(ip));
                }
            }
            return;
        }
        if before.mode == group.filter.mode {
            let changed = before.sources.symmetric_difference(&group.filter.sources);
            let changed: Vec<IpAddr> = changed.copied().collect();
            for source in changed {
                group.source_reports.insert(source, robustness);
            }
        } else {
            group.mode_reports = robustness;
            group.source_reports.clear();
        }
        group.change_at = Some(now);
    }

    /// Handles a query that came at `now`.
    pub(crate) fn handle_query(&mut self, now: Instant, query: &Query, random: &mut Secret) {
        let present = self.query_interval * u32::from(self.robustness) + query.most_delay;
        match query.version {
            // RFC 3376 7.2.1, RFC 3810 8.2.1.
            Version::First => self.first_until = Some(now + present),
            Version::Second => self.second_until = Some(now + present),
            Version::Full => {
                // 4.1.6: 0 says nothing.
                self.robustness = if query.robustness == 0 { ROBUSTNESS } else { query.robustness };
                if !query.interval.is_zero() {
                    self.query_interval = query.interval;
                }
            }
        }
        if self.version(now) != Version::Full {
            for ip in self.matching(query.group) {
                let at = now + random_time(query.most_delay, random);
                self.schedule_response(ip, at, BTreeSet::new());
            }
            return;
        }
        let at = now + random_time(query.most_delay, random);
        if self.general_at.is_some_and(|pending| pending <= at) {
            return;
        }
        match query.group {
            None => self.general_at = Some(at),
            Some(ip) => self.schedule_response(ip, at, query.sources.clone()),
        }
    }

    fn matching(&self, group: Option<IpAddr>) -> Vec<IpAddr> {
        self.iter().filter(|ip| group.is_none_or(|group| group == *ip)).collect()
    }

    /// Schedules a response about a group at `at`, or earlier if an earlier one is pending.
    fn schedule_response(&mut self, ip: IpAddr, at: Instant, sources: BTreeSet<IpAddr>) {
        let Some(group) = self.groups.get_mut(&ip) else { return };
        if group.listeners.is_empty() || !Self::is_reported(ip) {
            return;
        }
        match &mut group.response {
            None => group.response = Some(PendingResponse { at, sources }),
            Some(response) => {
                response.at = response.at.min(at);
                let all = response.sources.is_empty() || sources.is_empty();
                response.sources.extend(sources);
                // Too many to remember are all.
                if all || response.sources.len() > MOST_MERGED {
                    response.sources.clear();
                }
            }
        }
    }

    /// Another host on the link has reported a group, in an older version: that is enough
    /// (RFC 2236 3, RFC 2710 4).
    pub(crate) fn handle_report(&mut self, now: Instant, group: IpAddr) {
        if self.version(now) == Version::Full {
            return;
        }
        if let Some(group) = self.groups.get_mut(&group) {
            group.reporter = false;
            group.response = None;
            group.mode_reports = 0;
            group.change_at = None;
        }
    }

    /// When to call [`poll`](Self::poll) next.
    pub(crate) fn poll_at(&self) -> Option<Instant> {
        if !self.ready.is_empty() {
            return Some(Instant::ZERO);
        }
        let each = self.groups.values().flat_map(|group| {
            [group.change_at, group.response.as_ref().map(|response| response.at)]
                .into_iter()
                .flatten()
        });
        each.chain(self.general_at).min()
    }

    /// The next report to be sent.
    pub(crate) fn poll(&mut self, now: Instant, random: &mut Secret) -> Option<GroupReport> {
        if let Some(report) = self.ready.pop() {
            return Some(report);
        }
        if self.poll_at().is_none_or(|at| at > now) {
            return None;
        }
        match self.version(now) {
            Version::Full => self.poll_full(now, random),
            version => self.poll_old(now, version, random),
        }
    }

    fn poll_full(&mut self, now: Instant, random: &mut Secret) -> Option<GroupReport> {
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        let mut records = Vec::new();
        if is_due(self.general_at) {
            self.general_at = None;
            for (ip, group) in &mut self.groups {
                if Self::is_reported(*ip) && !group.filter.is_none() {
                    group.response = None;
                    records.push(group.state(*ip));
                }
            }
        }
        for (ip, group) in &mut self.groups {
            if group.response.as_ref().is_some_and(|response| response.at <= now) {
                records.extend(
                    group.response.take().and_then(|response| group.answer(*ip, &response)),
                );
            }
            if is_due(group.change_at) {
                group.changes(*ip, &mut records);
                let more = group.mode_reports > 0 || !group.source_reports.is_empty();
                group.change_at = more.then(|| now + random_time(UNSOLICITED_INTERVAL, random));
            }
        }
        self.forget_left();
        (!records.is_empty()).then(|| GroupReport::full(self.v6, records))
    }

    fn poll_old(
        &mut self,
        now: Instant,
        version: Version,
        random: &mut Secret,
    ) -> Option<GroupReport> {
        self.general_at = None;
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        let mut report = None;
        for (ip, group) in &mut self.groups {
            let response = is_due(group.response.as_ref().map(|response| response.at));
            let change = is_due(group.change_at);
            if !response && !change {
                continue;
            }
            group.response = group.response.take().filter(|_| !response);
            if change {
                group.source_reports.clear();
                group.mode_reports = group.mode_reports.saturating_sub(1);
                let delay = random_time(OLD_UNSOLICITED_INTERVAL, random);
                group.change_at = (group.mode_reports > 0).then(|| now + delay);
            }
            if !group.filter.is_none() {
                group.reporter = true;
                report = Some(GroupReport::old(version, *ip));
                break;
            }
        }
        self.forget_left();
        report
    }

    /// Drops groups without listeners and without a report to be sent.
    fn forget_left(&mut self) {
        self.groups.retain(|_, group| !group.listeners.is_empty() || group.change_at.is_some());
    }
}

impl Group {
    fn new(owner: OwnerId) -> Self {
        Self {
            owner,
            listeners: BTreeMap::new(),
            unfiltered: 0,
            filter: Filter::none(),
            mode_reports: 0,
            source_reports: BTreeMap::new(),
            change_at: None,
            response: None,
            reporter: false,
        }
    }

    /// Adds a listener, or changes its filter.
    fn insert(&mut self, listener: GroupListener, member: GroupMember) {
        self.unfiltered += usize::from(member.filter.is_all());
        if let Some(before) = self.listeners.insert(listener, member) {
            self.unfiltered -= usize::from(before.filter.is_all());
        }
    }

    /// Removes a listener; false if there is none. The group counts for the owner of another
    /// listener, if there is one.
    fn remove(&mut self, listener: GroupListener) -> bool {
        let Some(before) = self.listeners.remove(&listener) else { return false };
        self.unfiltered -= usize::from(before.filter.is_all());
        if before.owner == self.owner
            && let Some(other) = self.listeners.values().next()
        {
            self.owner = other.owner;
        }
        true
    }

    /// The filter of all listeners. A single one that wants everything decides it, and the filters
    /// of very many are not looked at.
    fn merged(&self) -> Filter {
        if self.unfiltered > 0 || self.listeners.len() > MOST_FILTERS {
            return Filter::all();
        }
        Filter::merged(&self.listeners.values().map(|member| &member.filter))
    }

    /// A record with the present filter.
    fn state(&self, group: IpAddr) -> Record {
        let kind = match self.filter.mode {
            FilterMode::Include => RecordKind::IsInclude,
            FilterMode::Exclude => RecordKind::IsExclude,
        };
        Record { kind, group, sources: self.filter.sources.iter().copied().collect() }
    }

    /// RFC 3376 5.2, the answer to a query of one group.
    fn answer(&self, group: IpAddr, response: &PendingResponse) -> Option<Record> {
        if self.filter.is_none() {
            return None;
        }
        if response.sources.is_empty() {
            return Some(self.state(group));
        }
        let wanted = response.sources.iter().copied().filter(|source| self.filter.admits(*source));
        let sources: Vec<IpAddr> = wanted.collect();
        (!sources.is_empty()).then_some(Record { kind: RecordKind::IsInclude, group, sources })
    }

    /// RFC 3376 5.1: records of the changes. Counts each as reported once more.
    fn changes(&mut self, group: IpAddr, records: &mut Vec<Record>) {
        if self.mode_reports > 0 {
            self.mode_reports -= 1;
            // The list is reported with the mode.
            self.source_reports.clear();
            let kind = match self.filter.mode {
                FilterMode::Include => RecordKind::ToInclude,
                FilterMode::Exclude => RecordKind::ToExclude,
            };
            let sources = self.filter.sources.iter().copied().collect();
            records.push(Record { kind, group, sources });
            return;
        }
        for (kind, wanted) in [(RecordKind::Allow, true), (RecordKind::Block, false)] {
            let all = self.source_reports.keys().copied();
            let sources: Vec<IpAddr> = all.filter(|ip| self.filter.admits(*ip) == wanted).collect();
            if !sources.is_empty() {
                records.push(Record { kind, group, sources });
            }
        }
        self.source_reports.retain(|_, left| {
            *left -= 1;
            *left > 0
        });
    }
}

/// A time up to `most`.
fn random_time(most: Duration, random: &mut Secret) -> Duration {
    let micros = u32::try_from(most.as_micros()).unwrap_or(u32::MAX);
    Duration::from_micros(random.below(micros.saturating_add(1)).into())
}

#[cfg(test)]
mod tests;
