//! The state that all tasks of the relay share.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use sockets::Client;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::header::Manner;
use crate::host_loopback::HostLoopback;
use crate::introduction::Introductions;
use crate::namespace::Namespace;
use crate::resolver::ShownResolver;
use crate::sweep::Sweep;
use crate::tun::Tun;

/// Datagrams of a port that may wait for the instance. More are lost, as on a link.
pub(crate) const QUEUE: usize = 64;

/// All that the relay's tasks share.
pub(crate) struct Relay {
    pub(crate) client: Arc<Client>,
    pub(crate) namespace: RefCell<Namespace>,
    pub(crate) tun: Tun,
    pub(crate) sweep: Sweep,
    pub(crate) introductions: RefCell<Introductions>,
    /// The file that programs see as /etc/resolv.conf, if they see one of ours.
    pub(crate) resolver: Option<ShownResolver>,
    /// The way to servers of the host, if programs may have it.
    pub(crate) host_loopback: Option<HostLoopback>,
    /// Connections that programs are making: both ends, as the program has them.
    pub(crate) connecting: RefCell<HashSet<(SocketAddr, SocketAddr)>>,
    /// One of them is made, or refused.
    pub(crate) decided: tokio::sync::Notify,
    /// Own connections of the relay to itself that it has aborted: the end that connected first.
    pub(crate) withdrawn: RefCell<HashSet<(SocketAddr, SocketAddr)>>,
    /// What listens at the instance for programs, by their sockets' local ends.
    pub(crate) listeners: RefCell<HashMap<SocketAddr, JoinHandle<()>>>,
    /// Held by who adds to `listeners`, since two for the same socket would refuse each other its
    /// port, and by who removes some, until their ports are free.
    pub(crate) listening: tokio::sync::Mutex<()>,
    pub(crate) carriers: RefCell<HashMap<Port, Carrier>>,
    /// Of datagrams for servers of the host: by the program's end and the server's.
    pub(crate) host_carriers: RefCell<HashMap<(SocketAddr, SocketAddr), Carrier>>,
    pub(crate) raw: RawState,
    /// Packets that the device has given so far.
    pub(crate) packets: Cell<u64>,
    /// Connections that are carried.
    pub(crate) carried: Cell<usize>,
    /// Calls of bind(2) whose sockets are still looked for.
    pub(crate) binding: Cell<usize>,
}

/// Echo requests and raw sockets.
#[derive(Default)]
pub(crate) struct RawState {
    /// By the identifiers of echo requests.
    pub(crate) echoes: RefCell<HashMap<Port, EchoCarrier>>,
    /// Programs may have raw sockets.
    pub(crate) allowed: Cell<bool>,
    /// A program was told that it may not.
    pub(crate) refused: Cell<bool>,
}

/// The port of a program, and whether it is IPv6's.
pub(crate) type Port = (bool, u16);

/// What carries the datagrams of one port.
pub(crate) struct Carrier {
    pub(crate) queue: mpsc::Sender<QueuedDatagram>,
    pub(crate) task: JoinHandle<()>,
}

/// A datagram of a program, on its way to the instance.
pub(crate) struct QueuedDatagram {
    /// The program's end, to which answers go.
    pub(crate) from: SocketAddr,
    pub(crate) to: SocketAddr,
    pub(crate) payload: Vec<u8>,
    pub(crate) manner: Manner,
    /// The begin of the packet, to be quoted by an error.
    pub(crate) packet: Vec<u8>,
}

/// What carries the echo requests of one identifier.
pub(crate) struct EchoCarrier {
    pub(crate) queue: mpsc::Sender<QueuedEcho>,
    pub(crate) task: JoinHandle<()>,
}

/// An echo request of a program, on its way to the instance.
pub(crate) struct QueuedEcho {
    pub(crate) from: IpAddr,
    pub(crate) to: IpAddr,
    pub(crate) seq: u16,
    pub(crate) manner: Manner,
    pub(crate) data: Vec<u8>,
}

impl Carrier {
    /// Has all that programs have sent left?
    pub(crate) fn is_idle(&self) -> bool {
        self.queue.capacity() == QUEUE
    }
}

impl Relay {
    /// Is nothing on its way that a program has sent?
    pub(crate) fn is_idle(&self) -> bool {
        let idle = self.carriers.borrow().values().all(Carrier::is_idle);
        let idle = idle && self.host_carriers.borrow().values().all(Carrier::is_idle);
        self.carried.get() == 0 && idle && self.connecting.borrow().is_empty()
    }

    /// The programs' sockets get the addresses that the instance has now, and programs its name
    /// servers.
    pub(crate) fn refresh_addresses(&self) {
        match self.client.network() {
            Ok(network) => {
                self.raw.allowed.set(network.raw_sockets);
                if let Some(shown) = &self.resolver {
                    shown.update(&network.resolver);
                }
                if let Err(error) = self.namespace.borrow_mut().show(&network) {
                    tracing::warn!(%error, "programs' sockets lack addresses of the instance");
                }
            }
            Err(error) => tracing::debug!(%error, "the instance does not tell its addresses"),
        }
    }
}
