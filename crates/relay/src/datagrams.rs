//! Datagrams of programs.
//!
//! A program's datagram socket is a kernel socket of the relay's namespace. Its datagrams come out
//! of the TUN device, and leave through a socket of the instance with the same port. What that
//! one receives goes back as a packet with the sender's address.

use std::collections::HashSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;

use abi::ancillary::SendAncillary;
use rustix::io::Errno;
use tasuki_tokio::UdpSocket;
use tokio::sync::mpsc;

use crate::address::{canonical, unspecified};
use crate::header::Manner;
use crate::namespace::Namespace;
use crate::state::{Carrier, Port, QUEUE, QueuedDatagram, Relay};
use crate::system::errno;
use crate::tun::Frame;
use crate::{host_datagrams, packet};

/// Sockets of the instance that carry datagrams at a time.
const MOST: usize = 1024;
/// Addresses of programs that share a port.
const MOST_ADDRESSES: usize = 64;
/// Longest datagram.
const LONGEST: usize = 65_535;

/// A program has sent a datagram.
pub(crate) fn send(
    relay: &Rc<Relay>,
    (from, to, manner): (SocketAddr, SocketAddr, Manner),
    payload: &[u8],
    frame: Frame<'_>,
) {
    if relay.host_loopback.as_ref().is_some_and(|host| host.is(to)) {
        let packet = packet::quote(frame.packet()).to_vec();
        let payload = payload.to_vec();
        let one = QueuedDatagram { from, to, payload, manner, packet };
        return host_datagrams::send(relay, one);
    }
    let own = relay.namespace.borrow().is_own(to.ip());
    let is_known = || relay.carriers.borrow().contains_key(&(to.is_ipv6(), to.port()));
    if own && !is_known() && relay.binding.get() > 0 {
        // The destination may be bound since a moment only.
        let _ = find(relay);
    }
    if own && is_known() {
        // From one program of this relay to another: the kernel hands it over.
        return relay.tun.bounce(frame.bytes());
    }
    let port = (from.is_ipv6(), from.port());
    if !relay.carriers.borrow().contains_key(&port) {
        open(relay, port, from);
    }
    if let Some(carrier) = relay.carriers.borrow().get(&port) {
        let packet = packet::quote(frame.packet()).to_vec();
        let payload = payload.to_vec();
        let _ = carrier.queue.try_send(QueuedDatagram { from, to, payload, manner, packet });
    }
}

/// Opens the ports of programs' datagram sockets that nobody has opened yet. Are there any?
pub(crate) fn find(relay: &Rc<Relay>) -> io::Result<bool> {
    let mut found = false;
    for local in relay.sweep.datagram_sockets()?.all() {
        let port = (local.is_ipv6(), local.port());
        if local.port() != 0 && !relay.carriers.borrow().contains_key(&port) {
            found = true;
            open(relay, port, local);
        }
    }
    Ok(found)
}

/// A program has bound a datagram socket to this end: what arrives at its port is its.
pub(crate) fn open(relay: &Rc<Relay>, port: Port, end: SocketAddr) {
    let mut carriers = relay.carriers.borrow_mut();
    if carriers.len() >= MOST || carriers.contains_key(&port) {
        return;
    }
    let (queue, outgoing) = mpsc::channel(QUEUE);
    let task = tokio::task::spawn_local(carry(Rc::clone(relay), port, end, outgoing));
    carriers.insert(port, Carrier { queue, task });
}

/// Forgets ports whose programs have closed their sockets.
pub(crate) fn sweep(relay: &Relay) -> io::Result<()> {
    if relay.carriers.borrow().is_empty() {
        return Ok(());
    }
    let there = relay.sweep.datagram_sockets()?;
    relay.carriers.borrow_mut().retain(|(_, port), carrier| {
        let stays = there.has_port(*port);
        if !stays {
            carrier.task.abort();
        }
        stays
    });
    Ok(())
}

async fn carry(
    relay: Rc<Relay>,
    (v6, port): Port,
    end: SocketAddr,
    mut outgoing: mpsc::Receiver<QueuedDatagram>,
) {
    let any = unspecified(v6);
    let socket = match UdpSocket::bind((any, port).into()).await {
        Ok(socket) => socket,
        Err(_) => match UdpSocket::bind((any, 0).into()).await {
            Ok(socket) => socket,
            Err(error) => {
                tracing::warn!(%error, port, "datagrams of this port are lost");
                return;
            }
        },
    };
    ask_for_more(&socket, v6).await;
    let mut own = OwnAddresses::default();
    own.insert(end.ip());
    let mut buffer = vec![0; LONGEST];
    loop {
        tokio::select! {
            next = outgoing.recv() => {
                let Some(one) = next else { return };
                own.insert(one.from.ip());
                transmit(&relay, (&socket, port), &own, &one).await;
            }
            received = socket.recv_message(&mut buffer) => {
                let Ok(received) = received else {
                    pass_on_errors(&relay, (&socket, port), &own);
                    continue;
                };
                let packet = received.from.map(canonical).and_then(|peer| {
                    let at = received.ancillary.map(|how| how.to.to_canonical());
                    let to = own.choose(&relay.namespace.borrow(), at, peer)?;
                    packet::datagram(peer, (to, port).into(), &buffer[..received.len])
                });
                packet.inspect(|packet| relay.tun.write(packet));
            }
        }
    }
}

/// The addresses of the programs' sockets that share a port.
#[derive(Debug, Default)]
struct OwnAddresses(HashSet<IpAddr>);

impl OwnAddresses {
    fn insert(&mut self, address: IpAddr) {
        if self.0.len() < MOST_ADDRESSES && !address.is_unspecified() {
            self.0.insert(address);
        }
    }

    /// The address of the program's end, for what came from `peer` or is about it. `at` is the
    /// instance's address that it came to: one of a socket, or one that the instance has chosen for
    /// a socket that has the usual one.
    fn choose(
        &self,
        namespace: &Namespace,
        at: Option<IpAddr>,
        peer: SocketAddr,
    ) -> Option<IpAddr> {
        at.filter(|at| self.0.contains(at)).or_else(|| usual(namespace, peer))
    }
}

/// The address from which a socket without one sends to this peer.
fn usual(namespace: &Namespace, peer: SocketAddr) -> Option<IpAddr> {
    match peer.ip() {
        IpAddr::V4(to) if to.is_loopback() => Some(Ipv4Addr::LOCALHOST.into()),
        to if to.is_loopback() => Some(to),
        to => namespace.address(to.is_ipv6()),
    }
}

/// Asks for the ICMP errors of all datagrams, since a program's socket judges them itself; and for
/// the addresses that datagrams came to.
async fn ask_for_more(socket: &UdpSocket, v6: bool) {
    // A socket without them still carries datagrams.
    let _ = socket.set_int(libc::IPPROTO_IP, libc::IP_RECVERR, 1).await;
    let _ = socket.set_int(libc::IPPROTO_IP, libc::IP_PKTINFO, 1).await;
    if v6 {
        let _ = socket.set_int(libc::IPPROTO_IPV6, libc::IPV6_RECVERR, 1).await;
        let _ = socket.set_int(libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1).await;
    }
}

/// Sends a program's datagram from the address that its socket has.
async fn transmit(
    relay: &Relay,
    (socket, port): (&UdpSocket, u16),
    own: &OwnAddresses,
    one: &QueuedDatagram,
) {
    let mut how = how_to_send(one.manner);
    // The instance may know a better address than the usual one.
    let usual = usual(&relay.namespace.borrow(), one.to);
    how.source = Some(one.from.ip()).filter(|from| Some(*from) != usual);
    let send = async |how| socket.send_message(&one.payload, Some(one.to), &how).await;
    let mut sent = send(how).await;
    // The error may be that of an earlier datagram.
    if sent.is_err() && pass_on_errors(relay, (socket, port), own) {
        sent = send(how).await;
    }
    if sent.as_ref().is_err_and(|error| errno(error) == Errno::ADDRNOTAVAIL) {
        // An address that the instance does not have any more.
        how.source = None;
        sent = send(how).await;
    }
    if let Err(error) = sent {
        report(relay, &error, one);
    }
}

/// Passes ICMP errors on to the programs' sockets that have sent the datagrams. Were there any?
fn pass_on_errors(relay: &Relay, (socket, port): (&UdpSocket, u16), own: &OwnAddresses) -> bool {
    let mut any = false;
    while let Ok(entry) = socket.take_queued_error() {
        any = true;
        let at = entry.message.as_ref().map(|(_, how)| how.to.to_canonical());
        let from = own.choose(&relay.namespace.borrow(), at, canonical(entry.destination));
        let message = from.and_then(|from| packet::icmp_error(&entry, (from, port).into()));
        message.inspect(|message| relay.tun.write(message));
    }
    any
}

/// Fields of the header that the program's socket has chosen go along.
fn how_to_send(manner: Manner) -> SendAncillary {
    let Manner { hops, class } = manner;
    let usual = Manner::USUAL;
    let (ttl, tos) =
        ((hops != usual.hops).then_some(hops), (class != usual.class).then_some(class));
    SendAncillary { ttl, tos, ..SendAncillary::default() }
}

/// The program's socket learns of it by an ICMP error.
fn report(relay: &Relay, error: &io::Error, one: &QueuedDatagram) {
    let ends = (one.from, one.to);
    if let Some(message) = packet::unreachable(errno(error), &one.packet, ends) {
        relay.tun.write(&message);
    }
}
