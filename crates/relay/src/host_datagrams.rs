//! Datagrams of programs for servers of the host (`tasuki run --host-loopback`).
//!
//! Each end of a program has a socket of the host's namespace for each server, which is connected
//! to it. So the server's answers, and the error of a port without one, belong to that end. They go
//! back as packets from the address that stands for the host.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::packet;
use crate::state::{Carrier, QUEUE, QueuedDatagram, Relay};
use crate::system::errno;

/// Sockets of the host's namespace at a time.
const MOST: usize = 1024;
/// A socket is closed if neither end has sent anything for so long.
const IDLE: Duration = Duration::from_secs(60);
/// Longest datagram.
const LONGEST: usize = 65_535;

/// A program has sent a datagram to the host.
pub(crate) fn send(relay: &Rc<Relay>, one: QueuedDatagram) {
    let ends = (one.from, one.to);
    if relay.host_carriers.borrow().len() >= MOST {
        let _ = sweep(relay);
    }
    let mut carriers = relay.host_carriers.borrow_mut();
    carriers.retain(|_, carrier| !carrier.task.is_finished());
    if carriers.len() >= MOST && !carriers.contains_key(&ends) {
        return;
    }
    let carrier = carriers.entry(ends).or_insert_with(|| {
        let (queue, outgoing) = mpsc::channel(QUEUE);
        let task = tokio::task::spawn_local(open(Rc::clone(relay), ends, outgoing));
        Carrier { queue, task }
    });
    let _ = carrier.queue.try_send(one);
}

/// Forgets ends whose programs have closed their sockets.
///
/// # Errors
/// The system's.
pub(crate) fn sweep(relay: &Relay) -> io::Result<()> {
    if relay.host_carriers.borrow().is_empty() {
        return Ok(());
    }
    let there = relay.sweep.datagram_sockets()?;
    relay.host_carriers.borrow_mut().retain(|(from, _), carrier| {
        // What it has sent last is still to leave.
        let stays = !carrier.is_idle() || there.has_port(from.port());
        if !stays {
            carrier.task.abort();
        }
        stays
    });
    Ok(())
}

async fn open(
    relay: Rc<Relay>,
    ends: (SocketAddr, SocketAddr),
    mut outgoing: mpsc::Receiver<QueuedDatagram>,
) {
    let Some(host) = &relay.host_loopback else { return };
    match host.datagrams(ends.1) {
        Ok(socket) => carry(&relay, &socket, ends, &mut outgoing).await,
        Err(error) => tracing::warn!(%error, "datagrams for the host are lost"),
    }
}

async fn carry(
    relay: &Relay,
    socket: &UdpSocket,
    (from, to): (SocketAddr, SocketAddr),
    outgoing: &mut mpsc::Receiver<QueuedDatagram>,
) {
    let mut buffer = vec![0; LONGEST];
    // The begin of the packet that an error is about.
    let mut last = Vec::new();
    let report = |error: &io::Error, last: &[u8]| {
        packet::unreachable(errno(error), last, (from, to)).inspect(|error| relay.tun.write(error));
    };
    loop {
        tokio::select! {
            next = timeout(IDLE, outgoing.recv()) => {
                let Ok(Some(one)) = next else { return };
                let mut sent = socket.send(&one.payload).await;
                if let Err(error) = &sent {
                    // The error of an earlier datagram.
                    report(error, &last);
                    sent = socket.send(&one.payload).await;
                }
                if let Err(error) = &sent {
                    report(error, &one.packet);
                }
                last = one.packet;
            }
            received = socket.recv(&mut buffer) => match received {
                Ok(len) => {
                    let packet = packet::datagram(to, from, &buffer[..len]);
                    packet.inspect(|packet| relay.tun.write(packet));
                }
                Err(error) => report(&error, &last),
            },
        }
    }
}
