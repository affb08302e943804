//! Echo requests of programs, from sockets of IPPROTO_ICMP and from raw ones.
//!
//! A program's socket is a kernel socket of the relay's namespace, and so its options, filters and
//! error queue are the kernel's. Its echo requests come out of the TUN device. They leave through
//! an echo socket of the instance with the same identifier, so the core builds each packet that
//! leaves. Replies, and ICMP errors about the requests, go back as packets.
//!
//! ```text
//!   program  ──request id 7──▶ tun0 ──▶ relay ──▶ echo socket 7 ──▶ the network
//!            ◀──reply, error── tun0 ◀── relay ◀── the message as it came
//! ```

use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use abi::ancillary::SendAncillary;
use tasuki_tokio::UdpSocket;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::address::unspecified;
use crate::header::Manner;
use crate::icmp::{self, EchoEnds, EchoRequest};
use crate::state::{EchoCarrier, Port, QUEUE, QueuedEcho, Relay};

/// Identifiers that are carried at a time.
const MOST: usize = 1024;
/// An identifier is forgotten if its program has sent nothing for so long.
const IDLE: Duration = Duration::from_secs(60);
/// Longest message.
const LONGEST: usize = 65_535;

/// IPPROTO_IP and IPPROTO_IPV6, with IP_RECVTTL, IP_RECVTOS, IPV6_RECVHOPLIMIT and
/// IPV6_RECVTCLASS.
const RECEIVE: [[(i32, i32); 2]; 2] = [
    [(libc::IPPROTO_IP, libc::IP_RECVTTL), (libc::IPPROTO_IP, libc::IP_RECVTOS)],
    [(libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT), (libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS)],
];

/// A program has sent an echo request.
pub(crate) fn send(relay: &Rc<Relay>, request: &EchoRequest<'_>) {
    let port = (request.to.is_ipv6(), request.ident);
    let mut carriers = relay.raw.echoes.borrow_mut();
    carriers.retain(|_, carrier| !carrier.task.is_finished());
    if carriers.len() >= MOST && !carriers.contains_key(&port) {
        return;
    }
    let carrier = carriers.entry(port).or_insert_with(|| {
        let (queue, outgoing) = mpsc::channel(QUEUE);
        let task = tokio::task::spawn_local(carry(Rc::clone(relay), port, outgoing));
        EchoCarrier { queue, task }
    });
    let EchoRequest { from, to, seq, manner, data, .. } = *request;
    let _ = carrier.queue.try_send(QueuedEcho { from, to, seq, manner, data: data.to_vec() });
}

/// Carries the messages of one identifier.
async fn carry(relay: Rc<Relay>, (v6, ident): Port, mut outgoing: mpsc::Receiver<QueuedEcho>) {
    let socket = match open(v6, ident).await {
        Ok(socket) => socket,
        Err(error) => {
            tracing::warn!(%error, "echo requests of a program are lost");
            return;
        }
    };
    let mut buffer = vec![0; LONGEST];
    let mut end = None;
    loop {
        tokio::select! {
            next = timeout(IDLE, outgoing.recv()) => {
                let Ok(Some(one)) = next else { return };
                end = Some(one.from);
                let to = SocketAddr::new(one.to, one.seq);
                let (ttl, tos) = (Some(one.manner.hops), Some(one.manner.class));
                let how = SendAncillary { ttl, tos, ..SendAncillary::default() };
                // As on a link: a request that cannot leave gets no reply.
                if let Err(error) = socket.send_message(&one.data, Some(to), &how).await {
                    tracing::debug!(%error, %to, "an echo request is lost");
                }
            }
            received = socket.recv_message(&mut buffer) => {
                let Ok(received) = received else { return };
                let (Some(from), Some(how)) = (received.from, received.ancillary) else { continue };
                let Some(message) = buffer.get_mut(..received.len) else { continue };
                let Some(to) = end else { continue };
                let manner = Manner { hops: how.ttl, class: how.tos };
                let ends = EchoEnds { from: from.ip(), to, ident };
                icmp::answer(message, ends, manner).inspect(|packet| relay.tun.write(packet));
            }
        }
    }
}

/// An echo socket of the instance, with this identifier or, if another program has it, any.
async fn open(v6: bool, ident: u16) -> std::io::Result<UdpSocket> {
    let any: IpAddr = unspecified(v6);
    let socket = match UdpSocket::bind_echo((any, ident).into()).await {
        Ok(socket) => socket,
        Err(_) => UdpSocket::bind_echo((any, 0).into()).await?,
    };
    for (level, name) in RECEIVE[usize::from(v6)] {
        socket.set_int(level, name, 1).await?;
    }
    Ok(socket)
}
