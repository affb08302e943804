//! Datagrams of programs.
//!
//! A program's datagram socket is a kernel socket of the relay's namespace. Its datagrams come out
//! of the TUN device, and leave through a socket of the instance with the same port. What that
//! one receives goes back as a packet with the sender's address.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

use abi::ancillary::SendAncillary;
use tasuki_tokio::UdpSocket;
use tokio::sync::mpsc;

use crate::address::{canonical, unspecified};
use crate::header::Manner;
use crate::state::{Carrier, Port, QUEUE, QueuedDatagram, Relay};
use crate::system::errno;
use crate::tun::Frame;
use crate::{host_datagrams, packet};

/// Sockets of the instance that carry datagrams at a time.
const MOST: usize = 1024;
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
        open(relay, port, Some(from));
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
            open(relay, port, None);
        }
    }
    Ok(found)
}

/// A program has bound a datagram socket: what arrives at its port is its.
pub(crate) fn open(relay: &Rc<Relay>, port: Port, end: Option<SocketAddr>) {
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
    end: Option<SocketAddr>,
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
    ask_for_errors(&socket, v6).await;
    let mut buffer = vec![0; LONGEST];
    let mut end = end;
    loop {
        tokio::select! {
            next = outgoing.recv() => {
                let Some(one) = next else { return };
                end = Some(one.from);
                let how = how_to_send(one.manner);
                let send = || socket.send_message(&one.payload, Some(one.to), &how);
                let mut sent = send().await;
                // The error may be that of an earlier datagram.
                if sent.is_err() && pass_on_errors(&relay, &socket, end) {
                    sent = send().await;
                }
                if let Err(error) = sent {
                    report(&relay, &error, &one);
                }
            }
            received = socket.recv_from(&mut buffer) => {
                let Ok((len, peer)) = received else {
                    pass_on_errors(&relay, &socket, end);
                    continue;
                };
                let peer = canonical(peer);
                let to = end.filter(|end| end.is_ipv6() == peer.is_ipv6());
                let to = to.or_else(|| {
                    if peer.ip().is_loopback() {
                        return Some((peer.ip(), port).into());
                    }
                    let address = relay.namespace.borrow().address(peer.is_ipv6())?;
                    Some(SocketAddr::from((address, port)))
                });
                let packet = to.and_then(|to| packet::datagram(peer, to, &buffer[..len]));
                packet.inspect(|packet| relay.tun.write(packet));
            }
        }
    }
}

/// Asks for the ICMP errors of all datagrams: a program's socket judges them itself.
async fn ask_for_errors(socket: &UdpSocket, v6: bool) {
    // A socket without them still carries datagrams.
    let _ = socket.set_int(libc::IPPROTO_IP, libc::IP_RECVERR, 1).await;
    if v6 {
        let _ = socket.set_int(libc::IPPROTO_IPV6, libc::IPV6_RECVERR, 1).await;
    }
}

/// Passes ICMP errors on to the program's socket. Were there any?
fn pass_on_errors(relay: &Relay, socket: &UdpSocket, end: Option<SocketAddr>) -> bool {
    let mut any = false;
    while let Ok(entry) = socket.take_queued_error() {
        any = true;
        if let Some(message) = end.and_then(|end| packet::icmp_error(&entry, end)) {
            relay.tun.write(&message);
        }
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
