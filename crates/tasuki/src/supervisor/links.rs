//! Devices that are lost and come back.
//!
//! The supervisor listens for changes of interfaces ([`nic_driver::interface::Watch`]), so it polls
//! nothing. When the interface of a link is gone, the supervisor tells the driver to do without.
//! When an interface of that name is there again, it is opened as at the start, and the driver gets
//! its descriptors; a TAP device is made again by the supervisor itself. Meanwhile connections live
//! on, as with a cable unplugged.

use std::os::fd::AsFd;

use abi::control::ServerRequest;
use abi::network::{NetworkStatus, ResolverStatus};
use nic_driver::interface::{Change, Interface};

use super::backend;
use super::device_failure::interface_failure;
use super::device_state::DeviceState;
use super::instance::interface_name;
use super::servers::ServerId;
use super::{ReplyContext, Supervisor};
use crate::exit::{Code, Failure};

impl Supervisor {
    /// Something happened to the host's interfaces.
    pub(super) fn interfaces_changed(&mut self) -> Result<(), Failure> {
        for change in self.instance.watch.changes() {
            if self.stopping() {
                return Ok(());
            }
            for number in 0..self.instance.links.len() {
                self.changed(number, &change)?;
            }
        }
        Ok(())
    }

    fn changed(&mut self, number: usize, change: &Change) -> Result<(), Failure> {
        let link = &mut self.instance.links[number];
        let name = link.device.device.name();
        match change {
            _ if link.state == DeviceState::Apart => Ok(()),
            Change::Is(found) if link.state.is(found) => {
                let (before, now) = (link.state, DeviceState::of(found));
                link.state = now;
                if before == now {
                    return Ok(());
                }
                tracing::info!(device = name, state = now.name(), "the device's state");
                if now.is_up() { self.announce(number) } else { Ok(()) }
            }
            Change::Is(found) if found.name == name => self.lost(number, "there is another one"),
            Change::Gone(found) if link.state.is(found) => self.lost(number, "it was deleted"),
            // Its driver was the first to know; now the name is free.
            Change::Gone(found) if link.state == DeviceState::Gone && found.name == name => {
                self.revive(number)
            }
            Change::Is(_) | Change::Gone(_) => Ok(()),
            Change::Missed => match Interface::find(name).map_err(|e| interface_failure(&e))? {
                Some(found) => self.changed(number, &Change::Is(found)),
                None if link.state == DeviceState::Gone => Ok(()),
                None => self.lost(number, "it was deleted"),
            },
        }
    }

    /// A driver says that its device is lost.
    pub(super) fn device_lost(&mut self, server: ServerId, reason: &str) -> Result<(), Failure> {
        let number = match server {
            ServerId::Nic(number) => usize::from(number),
            // The inet server's report names no driver. It is known only if there is just one.
            ServerId::Inet if self.instance.links.len() == 1 => 0,
            ServerId::Inet => usize::MAX,
        };
        let link = self.instance.links.get(number);
        match link.filter(|_| server != ServerId::Inet).map(|link| (link.state, link.attaching)) {
            Some((DeviceState::There { .. }, 0)) => self.lost(number, reason),
            // It speaks of one that is known to be lost.
            Some((DeviceState::There { .. } | DeviceState::Gone, _)) => Ok(()),
            Some((DeviceState::Apart, _)) | None => {
                let device = link.map_or("", |link| link.device.device.name());
                let sentence = format!("the network device {device} is lost: {reason}");
                Err(Failure::new(Code::Internal, sentence))
            }
        }
    }

    fn lost(&mut self, number: usize, reason: &str) -> Result<(), Failure> {
        let link = &mut self.instance.links[number];
        let device = link.device.device.name();
        tracing::warn!(device, reason, "the network device is lost; waiting for it to come back");
        link.state = DeviceState::Gone;
        link.device.fds.clear();
        let server = ServerId::Nic(u16::try_from(number).unwrap_or(u16::MAX));
        self.servers.ask(server, ServerRequest::DetachDevice, &[], ReplyContext::Detached)?;
        self.revive(number)
    }

    /// Reopens the device of a link whose device was gone, if it is there again.
    fn revive(&mut self, number: usize) -> Result<(), Failure> {
        let wanted = &self.instance.settings.links[number];
        let link = &mut self.instance.links[number];
        let device = link.device.device.clone();
        let umem = link.frames.umem.as_ref();
        let opened = backend::open(wanted, Some(device.clone()), &link.addresses, link.mac, umem);
        match opened.and_then(|opened| Ok((opened, DeviceState::find(device.name())?))) {
            Ok((opened, state)) => (link.device, link.state) = (opened, state),
            Err(failure) => {
                tracing::info!(device = device.name(), %failure, "not there yet");
                return Ok(());
            }
        }
        tracing::warn!(device = device.name(), "the network device is back");
        link.attaching += 1;
        let server = ServerId::Nic(u16::try_from(number).unwrap_or(u16::MAX));
        let fds: Vec<_> = link.device.fds.iter().map(AsFd::as_fd).collect();
        self.servers.ask(server, ServerRequest::AttachDevice, &fds, ReplyContext::Attached(number))
    }

    /// Peers and switches may not know the stack on this link, so it announces itself.
    fn announce(&mut self, number: usize) -> Result<(), Failure> {
        if !self.servers.are_there() {
            // It will when it begins.
            return Ok(());
        }
        let nic = u16::try_from(number).unwrap_or(u16::MAX);
        self.servers.ask(
            ServerId::Inet,
            ServerRequest::Announce { nic },
            &[],
            ReplyContext::Announced,
        )
    }

    /// A driver has its device again, or cannot use it.
    pub(super) fn attached(
        &mut self,
        number: usize,
        refusal: Option<String>,
    ) -> Result<(), Failure> {
        let Some(link) = self.instance.links.get_mut(number) else { return Ok(()) };
        link.attaching = link.attaching.saturating_sub(1);
        if let Some(reason) = refusal {
            tracing::warn!(device = link.device.device.name(), %reason, "the device is not usable");
            link.state = DeviceState::Gone;
            return Ok(());
        }
        self.announce(number)
    }

    /// Completes the inet server's report of its interfaces.
    pub(super) fn complete(&self, mut status: NetworkStatus) -> NetworkStatus {
        for (number, link) in (0_u16..).zip(&self.instance.links) {
            let name = interface_name(number);
            for interface in status.interfaces.iter_mut().filter(|one| one.name == name) {
                link.state.name().clone_into(&mut interface.state);
                interface.device = link.device.device.to_string();
            }
        }
        status.raw_sockets = self.instance.settings.raw_sockets;
        status.resolver = merge(&self.instance.settings.resolver, status.resolver);
        status
    }
}

/// What is configured, and otherwise what the instance has learnt.
fn merge(configured: &ResolverStatus, learnt: ResolverStatus) -> ResolverStatus {
    fn or<T: Clone>(configured: &[T], learnt: Vec<T>) -> Vec<T> {
        if configured.is_empty() { learnt } else { configured.to_vec() }
    }
    ResolverStatus {
        servers: or(&configured.servers, learnt.servers),
        search: or(&configured.search, learnt.search),
        learns: configured.learns,
    }
}
