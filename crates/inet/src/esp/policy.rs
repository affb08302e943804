//! Security policies: what happens to the packets of a flow (RFC 4301 4.4.1).

use alloc::vec::Vec;
use core::net::IpAddr;

use super::association::{Association, EspMode};
use super::flow::{EspFlow, EspSelector};
use crate::error::Error;
use crate::table::Handle;

/// Which packets a policy is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SpDirection {
    /// Those received.
    In,
    /// Those sent.
    Out,
}

/// What a policy says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpAction {
    /// The packets are dropped.
    Discard,
    /// They pass unprotected.
    Bypass,
    /// They are protected.
    Protect(SpTemplate),
}

/// The association that a policy asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpTemplate {
    /// Its mode.
    pub mode: EspMode,
    /// Its request identifier; 0 for any.
    pub reqid: u32,
    /// Its number; `None` for any.
    pub spi: Option<u32>,
    /// Its source and destination. In transport mode, `None` means those of the packet.
    pub ends: Option<(IpAddr, IpAddr)>,
    /// Without such an association, packets pass unprotected.
    pub optional: bool,
}

/// A policy, as the owner of the stack names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpConfig {
    /// Of packets received or sent.
    pub direction: SpDirection,
    /// Of these flows.
    pub selector: EspSelector,
    /// Of policies that match a packet, the one with the least number counts; of these the oldest.
    pub priority: u32,
    /// What happens.
    pub action: SpAction,
}

/// A policy in the table.
#[derive(Debug)]
pub(super) struct Policy {
    pub(super) config: SpConfig,
    /// The association that protected its last packet.
    pub(super) last: Option<Handle>,
}

/// The policies of one stack, in the order of preference.
#[derive(Debug)]
pub(super) struct Policies {
    all: Vec<Policy>,
    limit: usize,
}

impl SpTemplate {
    /// Whether the template names all that its mode needs.
    fn is_possible(&self) -> bool {
        match (self.mode, self.ends) {
            (EspMode::Tunnel, None) => false,
            (_, Some((source, destination))) => {
                source.is_ipv4() == destination.is_ipv4() && !destination.is_unspecified()
            }
            (EspMode::Transport, None) => true,
        }
    }

    /// The source and destination of the association for a flow.
    pub(super) fn ends_for(&self, flow: &EspFlow) -> (IpAddr, IpAddr) {
        self.ends.unwrap_or((flow.source, flow.destination))
    }

    /// Whether an association has the names that the template gives.
    pub(super) fn names(&self, sa: &Association) -> bool {
        (self.reqid == 0 || self.reqid == sa.reqid) && self.spi.is_none_or(|spi| spi == sa.id.spi)
    }

    /// Whether an association that has opened a packet of a flow is the one that the template asks
    /// for.
    pub(super) fn is_fit_by(&self, sa: &Association, flow: &EspFlow) -> bool {
        sa.mode == self.mode
            && self.names(sa)
            && self.ends_for(flow) == (sa.source, sa.id.destination)
    }

    /// Whether the template may choose an association for a flow.
    pub(super) fn serves(&self, sa: &Association, flow: &EspFlow) -> bool {
        self.is_fit_by(sa, flow) && sa.selector.is_none_or(|selector| selector.matches(flow))
    }
}

impl Policies {
    pub(super) fn new(limit: usize) -> Self {
        Self { all: Vec::new(), limit }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Adds a policy, behind others of the same priority.
    ///
    /// # Errors
    /// `Invalid` for a selector or template that cannot be, `AddrInUse` if there is a policy for
    /// the same flows and direction, `NoBuffers` if there are too many.
    pub(super) fn add(&mut self, config: SpConfig) -> Result<(), Error> {
        let selector = config.selector.canonical();
        let template = match &config.action {
            SpAction::Protect(template) => Some(template),
            _ => None,
        };
        if !selector.is_possible() || !template.is_none_or(SpTemplate::is_possible) {
            return Err(Error::Invalid);
        }
        if self.position(config.direction, &selector).is_some() {
            return Err(Error::AddrInUse);
        }
        if self.all.len() >= self.limit {
            return Err(Error::NoBuffers);
        }
        let before = |policy: &Policy| policy.config.priority <= config.priority;
        let index = self.all.partition_point(before);
        let config = SpConfig { selector, ..config };
        self.all.insert(index, Policy { config, last: None });
        Ok(())
    }

    /// Removes the policy for these flows; false if there is none.
    pub(super) fn remove(&mut self, direction: SpDirection, selector: &EspSelector) -> bool {
        let found = self.position(direction, &selector.canonical());
        found.map(|index| self.all.remove(index)).is_some()
    }

    pub(super) fn clear(&mut self) {
        self.all.clear();
    }

    fn position(&self, direction: SpDirection, selector: &EspSelector) -> Option<usize> {
        let is_same =
            |one: &Policy| (one.config.direction, &one.config.selector) == (direction, selector);
        self.all.iter().position(is_same)
    }

    /// Has every policy choose its association anew.
    pub(super) fn forget_associations(&mut self) {
        self.all.iter_mut().for_each(|policy| policy.last = None);
    }

    /// The policy for a flow.
    pub(super) fn find(&mut self, direction: SpDirection, flow: &EspFlow) -> Option<&mut Policy> {
        let mut policies = self.all.iter_mut();
        policies.find(|one| one.config.direction == direction && one.config.selector.matches(flow))
    }

    /// All of them, in the order of preference.
    pub(super) fn iter(&self) -> impl Iterator<Item = &SpConfig> {
        self.all.iter().map(|policy| &policy.config)
    }

    /// The templates of those that protect packets to a host.
    pub(super) fn protecting(&self, host: IpAddr) -> impl Iterator<Item = &SpConfig> {
        self.iter().filter(move |policy| {
            policy.direction == SpDirection::Out
                && policy.selector.destination.contains(host)
                && matches!(policy.action, SpAction::Protect(_))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cidr::Cidr;

    fn policy(priority: u32, protocol: Option<u8>, action: SpAction) -> SpConfig {
        let any = EspSelector::between(Cidr::ANY_V4, Cidr::ANY_V4);
        let selector = EspSelector { protocol, ..any };
        SpConfig { direction: SpDirection::Out, selector, priority, action }
    }

    #[test]
    fn the_least_number_and_then_the_oldest_policy_counts() {
        let mut policies = Policies::new(3);
        policies.add(policy(10, None, SpAction::Discard)).unwrap();
        policies.add(policy(10, Some(6), SpAction::Bypass)).unwrap();
        let flow = |protocol| {
            let (source, destination) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
            EspFlow { source, destination, protocol, ports: None }
        };
        let found = |policies: &mut Policies, protocol| {
            policies.find(SpDirection::Out, &flow(protocol)).map(|policy| policy.config.action)
        };
        assert_eq!(found(&mut policies, 6), Some(SpAction::Discard));
        policies.add(policy(9, Some(17), SpAction::Bypass)).unwrap();
        assert_eq!(found(&mut policies, 17), Some(SpAction::Bypass));
        assert_eq!(policies.add(policy(1, Some(1), SpAction::Bypass)), Err(Error::NoBuffers));
        assert_eq!(policies.add(policy(1, None, SpAction::Bypass)), Err(Error::AddrInUse));
        assert!(policies.find(SpDirection::In, &flow(6)).is_none());
        assert!(policies.remove(SpDirection::Out, &policy(0, None, SpAction::Bypass).selector));
        assert_eq!(found(&mut policies, 6), Some(SpAction::Bypass));
        assert_eq!(found(&mut policies, 1), None);
    }

    #[test]
    fn a_tunnel_needs_its_ends() {
        let mut policies = Policies::new(3);
        let template =
            SpTemplate { mode: EspMode::Tunnel, reqid: 0, spi: None, ends: None, optional: false };
        let wrong = policy(1, None, SpAction::Protect(template));
        assert_eq!(policies.add(wrong), Err(Error::Invalid));
        let ends = Some(([10, 0, 0, 1].into(), [10, 0, 0, 2].into()));
        let right = policy(1, None, SpAction::Protect(SpTemplate { ends, ..template }));
        assert_eq!(policies.add(right), Ok(()));
    }
}
