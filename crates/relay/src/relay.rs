//! The relay's event loop: calls of programs, packets of their sockets, and the instance.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sockets::Client;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::task::JoinHandle;

use crate::datagrams::{Carrier, Port};
use crate::introduction::Introductions;
use crate::namespace::Namespace;
use crate::notification::NotificationSocket;
use crate::outgoing::Outgoing;
use crate::packet::Sent;
use crate::sweep::Sweep;
use crate::tun::{self, Tun};
use crate::{calls, datagrams, incoming, outgoing};

/// How often the relay looks whether programs have closed their sockets.
const TICK: Duration = Duration::from_secs(1);
/// Packets that are read before other work has its turn.
const PACKETS: usize = 64;
/// The device is empty if it gives nothing for so long.
const PAUSE: Duration = Duration::from_millis(5);
/// How long the last bytes of programs that have ended may take.
const LAST_BYTES: Duration = Duration::from_secs(60);

/// All that the relay's tasks share.
pub(crate) struct Relay {
    pub(crate) client: Arc<Client>,
    pub(crate) namespace: RefCell<Namespace>,
    /// The number of that namespace, as its sockets tell it.
    pub(crate) cookie: u64,
    pub(crate) tun: Tun,
    pub(crate) sweep: Sweep,
    pub(crate) introductions: RefCell<Introductions>,
    pub(crate) outgoing: RefCell<Outgoing>,
    /// What listens at the instance for programs, by their sockets' local ends.
    pub(crate) listeners: RefCell<HashMap<SocketAddr, JoinHandle<()>>>,
    pub(crate) carriers: RefCell<HashMap<Port, Carrier>>,
    /// Packets that the device has given so far.
    pub(crate) packets: std::cell::Cell<u64>,
    /// Connections that are carried.
    pub(crate) carried: std::cell::Cell<usize>,
}

impl Relay {
    /// Serves programs until the last one has ended, and their last bytes are delivered.
    pub(crate) async fn serve(self: Rc<Self>, calls: NotificationSocket) -> io::Result<()> {
        let packets = tokio::task::spawn_local(read_packets(Rc::clone(&self)));
        let ticks = tokio::task::spawn_local(tick(Rc::clone(&self)));
        let done = serve_calls(&self, Rc::new(calls)).await;
        ticks.abort();
        let until = tokio::time::Instant::now() + LAST_BYTES;
        let mut seen = None;
        while tokio::time::Instant::now() < until {
            let now = self.packets.get();
            if self.is_idle() && seen == Some(now) {
                break;
            }
            seen = Some(now);
            tokio::time::sleep(PAUSE).await;
        }
        packets.abort();
        done
    }

    /// Is nothing on its way that a program has sent?
    fn is_idle(&self) -> bool {
        let idle = self.carriers.borrow().values().all(Carrier::is_idle);
        self.carried.get() == 0 && idle && self.outgoing.borrow().is_idle()
    }

    /// The programs' sockets get the addresses that the instance has now.
    pub(crate) fn refresh_addresses(&self) {
        match addresses(&self.client) {
            Ok(addresses) => {
                if let Err(error) = self.namespace.borrow_mut().set_addresses(&addresses) {
                    tracing::warn!(%error, "cannot give programs' sockets the instance's addresses");
                }
            }
            Err(error) => tracing::debug!(%error, "the instance does not tell its addresses"),
        }
    }
}

/// The addresses that programs' sockets can have: those of the instance that are in use.
pub(crate) fn addresses(client: &Client) -> io::Result<Vec<IpAddr>> {
    let network = client.network()?;
    let all = network.interfaces.into_iter().flat_map(|interface| interface.addresses);
    let usable = all.filter(|address| !matches!(&*address.state, "tentative" | "dadfailed"));
    let link_local =
        |address: &IpAddr| matches!(address, IpAddr::V6(a) if a.is_unicast_link_local());
    let addresses = usable.map(|address| address.address);
    Ok(addresses.filter(|a| !a.is_loopback() && !link_local(a)).collect())
}

async fn serve_calls(relay: &Rc<Relay>, calls: Rc<NotificationSocket>) -> io::Result<()> {
    let copy = calls.as_ref().try_clone()?;
    #[expect(deprecated, reason = "what replaces it is unsafe; an owned descriptor stays open")]
    let ready = AsyncFd::with_interest(copy, Interest::READABLE)?;
    loop {
        let mut guard = ready.readable().await?;
        // Receiving waits when there is nothing, so ask first.
        let mut fds = [PollFd::new(&*calls, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let _ = poll(&mut fds, Some(&now));
        let events = fds[0].revents();
        if events.contains(PollFlags::IN) {
            if let Some(call) = calls.receive()? {
                calls::handle(relay, &calls, call);
            }
        } else if events.contains(PollFlags::HUP) {
            return Ok(());
        } else {
            guard.clear_ready();
        }
        drop(guard);
        tokio::task::yield_now().await;
    }
}

async fn read_packets(relay: Rc<Relay>) {
    let mut buffer = vec![0; tun::LONGEST];
    while relay.tun.readable().await.is_ok() {
        for _ in 0..PACKETS {
            match relay.tun.read(&mut buffer) {
                Ok(Some(frame)) => {
                    relay.packets.set(relay.packets.get() + 1);
                    handle_packet(&relay, frame);
                }
                Ok(None) => break,
                Err(error) => {
                    tracing::warn!(%error, "cannot read from the TUN device");
                    break;
                }
            }
        }
        tokio::task::yield_now().await;
    }
}

fn handle_packet(relay: &Rc<Relay>, frame: tun::Frame<'_>) {
    match Sent::parse(frame.packet()) {
        Sent::Syn(syn) => outgoing::begin(relay, syn, frame),
        Sent::Segment => relay.tun.bounce(frame.bytes()),
        Sent::Datagram { from, to, payload } => datagrams::send(relay, (from, to), payload, frame),
        Sent::Other => {}
    }
}

async fn tick(relay: Rc<Relay>) {
    loop {
        tokio::time::sleep(TICK).await;
        for done in [incoming::sweep(&relay), datagrams::sweep(&relay)] {
            if let Err(error) = done {
                tracing::debug!(%error, "cannot list the programs' sockets");
            }
        }
        relay.refresh_addresses();
    }
}
