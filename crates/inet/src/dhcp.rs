//! The DHCP client for IPv4 (RFC 2131, RFC 2132, RFC 3442, RFC 4361): messages and states, and what
//! the stack does for them.

pub(crate) mod client;
mod stack;
pub(crate) mod wire;

use alloc::vec::Vec;

use crate::cidr::Cidr;
use crate::interface_id::InterfaceId;
use crate::ip::route::Route;
use crate::link::acd::Acd;
use crate::time::Instant;
use crate::wheel::TimerId;
use client::Client;

/// A client and what it has brought about.
#[derive(Debug)]
struct Entry {
    interface: InterfaceId,
    client: Client,
    /// The address that was added.
    address: Option<Cidr>,
    routes: Vec<Route>,
    /// The interface's MTU without a lease.
    mtu: u16,
}

/// An address that is looked for, announced or defended.
#[derive(Debug)]
struct Watched {
    interface: InterfaceId,
    /// It comes from DHCP.
    leased: bool,
    acd: Acd,
}

/// All clients and watched addresses of one stack.
#[derive(Debug, Default)]
pub(crate) struct Addressing {
    entries: Vec<Entry>,
    watched: Vec<Watched>,
    timer: Option<TimerId>,
}

impl Addressing {
    fn poll_at(&self) -> Option<Instant> {
        let clients = self.entries.iter().filter_map(|entry| entry.client.poll_at());
        clients.chain(self.watched.iter().filter_map(|one| one.acd.poll_at())).min()
    }

    fn entry(&mut self, interface: InterfaceId) -> Option<&mut Entry> {
        self.entries.iter_mut().find(|entry| entry.interface == interface)
    }
}
