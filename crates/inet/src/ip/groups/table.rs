//! The groups of all interfaces of one stack, each family on its own.

use alloc::vec::Vec;
use core::net::IpAddr;

use super::wire::{GroupMessage, GroupReport};
use super::{ALL_V4, ALL_V6, Filter, GroupListener, GroupMember, Groups};
use crate::error::Error;
use crate::interface_id::InterfaceId;
use crate::secret::Secret;
use crate::time::Instant;

/// A table per interface and family that has groups.
#[derive(Debug)]
pub(crate) struct GroupTable {
    tables: Vec<(InterfaceId, bool, Groups)>,
    /// Most groups of each.
    most: usize,
}

impl GroupTable {
    pub(crate) fn new(most: usize) -> Self {
        Self { tables: Vec::new(), most }
    }

    fn get(&self, interface: InterfaceId, group: IpAddr) -> Option<&Groups> {
        let found =
            self.tables.iter().find(|(id, v6, _)| (*id, *v6) == (interface, group.is_ipv6()));
        found.map(|(_, _, groups)| groups)
    }

    fn get_mut(&mut self, interface: InterfaceId, v6: bool) -> Option<&mut Groups> {
        let found = self.tables.iter_mut().find(|(id, is_v6, _)| (*id, *is_v6) == (interface, v6));
        found.map(|(_, _, groups)| groups)
    }

    /// Whether packets from `source` to `group` on `interface` are wanted by any listener.
    pub(crate) fn admits(&self, interface: InterfaceId, group: IpAddr, source: IpAddr) -> bool {
        let always = group == ALL_V4 || group == ALL_V6;
        always || self.get(interface, group).is_some_and(|groups| groups.admits(group, source))
    }

    /// The filter that a listener asked for.
    pub(crate) fn filter(
        &self,
        interface: InterfaceId,
        group: IpAddr,
        listener: GroupListener,
    ) -> Option<&Filter> {
        self.get(interface, group)?.filter(group, listener)
    }

    /// See [`Groups::listen`].
    pub(crate) fn listen(
        &mut self,
        now: Instant,
        interface: InterfaceId,
        group: IpAddr,
        (listener, member): (GroupListener, GroupMember),
        random: &mut Secret,
    ) -> Result<(), Error> {
        let v6 = group.is_ipv6();
        if self.get(interface, group).is_none() {
            self.tables.push((interface, v6, Groups::new(v6, self.most)));
        }
        let groups = self.get_mut(interface, v6).ok_or(Error::NoBuffers)?;
        groups.listen(now, group, listener, member, random)
    }

    /// See [`Groups::leave`].
    pub(crate) fn leave(
        &mut self,
        now: Instant,
        interface: InterfaceId,
        group: IpAddr,
        listener: GroupListener,
        random: &mut Secret,
    ) -> bool {
        let groups = self.get_mut(interface, group.is_ipv6());
        groups.is_some_and(|groups| groups.leave(now, group, listener, random))
    }

    /// The link of an interface is there again.
    pub(crate) fn report_all(&mut self, now: Instant, interface: InterfaceId) {
        for v6 in [false, true] {
            if let Some(groups) = self.get_mut(interface, v6) {
                groups.report_all(now);
            }
        }
    }

    /// Handles a message of another node on the link.
    pub(crate) fn handle(
        &mut self,
        now: Instant,
        interface: InterfaceId,
        v6: bool,
        message: &GroupMessage,
        random: &mut Secret,
    ) {
        let Some(groups) = self.get_mut(interface, v6) else { return };
        match message {
            GroupMessage::Query(query) => groups.handle_query(now, query, random),
            GroupMessage::Report(group) => groups.handle_report(now, *group),
            GroupMessage::Other => {}
        }
    }

    /// When to call [`poll`](Self::poll) next.
    pub(crate) fn poll_at(&self) -> Option<Instant> {
        self.tables.iter().filter_map(|(_, _, groups)| groups.poll_at()).min()
    }

    /// The next report to be sent, and on which interface.
    pub(crate) fn poll(
        &mut self,
        now: Instant,
        random: &mut Secret,
    ) -> Option<(InterfaceId, GroupReport)> {
        for (id, _, groups) in &mut self.tables {
            while groups.poll_at().is_some_and(|at| at <= now) {
                if let Some(report) = groups.poll(now, random) {
                    return Some((*id, report));
                }
            }
        }
        None
    }
}
