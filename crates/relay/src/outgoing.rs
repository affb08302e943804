//! Connections that programs make.
//!
//! The SYN of a program's connect(2) comes out of the TUN device. The relay keeps it until its own
//! connection through the instance stands, or is refused. So the program's call returns what the
//! world outside has said, and when it has said so.
//!
//! ```text
//!   SYN  L:p → P:q   kept ──▶ the instance connects to P:q ──▶ our socket P:q connects to L:p
//!                                                   └─ refused ──▶ reset, or an ICMP error
//!   both have sent a SYN: the kernel connects them ──▶ carry bytes
//! ```
//!
//! Our socket does not listen for the program: that would keep other programs from listening at
//! port q themselves. Instead both ends open the connection (RFC 9293 3.5, figure 7).

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use rustix::io::Errno;
use tasuki_tokio::TcpStream as TasukiStream;
use tokio::net::TcpStream as KernelStream;
use tokio::time::timeout;

use crate::address::unspecified;
use crate::carry::{carry, carry_to_host, reset};
use crate::packet::{self, Syn};
use crate::state::Relay;
use crate::system::errno;
use crate::withdrawn::withdraw;
use crate::{incoming, kernel, tun};

/// Connections that may be under way at a time.
const MOST_PENDING: usize = 4096;
/// How long the kernel may take for its own handshake, which is in memory only.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// A program connects.
pub(crate) fn begin(relay: &Rc<Relay>, syn: Syn, frame: tun::Frame<'_>) {
    if incoming::listens(relay, syn.to) {
        // From one program of this relay to another: the kernel connects the two.
        return relay.tun.bounce(frame.bytes());
    }
    let ends = (syn.from, syn.to);
    let mut connecting = relay.connecting.borrow_mut();
    // Otherwise the kernel sends it once more because we take our time.
    if connecting.len() >= MOST_PENDING || !connecting.insert(ends) {
        return;
    }
    drop(connecting);
    let (relay, frame) = (Rc::clone(relay), frame.to_vec());
    tokio::task::spawn_local(async move {
        connect(&relay, syn, &frame).await;
        relay.connecting.borrow_mut().remove(&ends);
        relay.decided.notify_waiters();
    });
}

async fn connect(relay: &Rc<Relay>, syn: Syn, frame: &[u8]) {
    if let Some(host) = relay.host_loopback.as_ref().filter(|host| host.is(syn.to)) {
        return match host.connect(syn.to).await {
            Ok(server) => match meet(syn).await {
                Some(program) => {
                    let carry = carry_to_host(Rc::clone(relay), program, server);
                    drop(tokio::task::spawn_local(carry));
                }
                None => reset(server),
            },
            Err(error) => refuse(relay, &syn, frame, &error),
        };
    }
    // The kernel connects programs of this relay, or refuses: the instance listens for a program a
    // moment before the program does.
    if incoming::is_listening(relay, syn.to).await {
        return relay.tun.bounce(frame);
    }
    let tasuki = match connect_outside(syn).await {
        Ok(stream) => stream,
        Err(error) => return refuse(relay, &syn, frame, &error),
    };
    if incoming::is_listening(relay, syn.to).await {
        // One has begun to meanwhile.
        withdraw(relay, tasuki);
        return relay.tun.bounce(frame);
    }
    let Some(kernel) = meet(syn).await else {
        // The program has given up, or ended.
        return tasuki.abort();
    };
    let _ = tasuki.set_nodelay(true).await;
    tokio::task::spawn_local(carry(Rc::clone(relay), kernel, tasuki));
}

/// Connects through the instance, from the program's own port if nobody else has it, and no
/// connection of a moment ago from there to the same end is still remembered (TIME-WAIT).
async fn connect_outside(syn: Syn) -> io::Result<TasukiStream> {
    let local = SocketAddr::new(unspecified(syn.to.is_ipv6()), syn.from.port());
    match TasukiStream::connect_from(local, syn.to).await {
        Err(error)
            if matches!(errno(&error), Errno::ADDRINUSE | Errno::ADDRNOTAVAIL | Errno::ACCESS) =>
        {
            TasukiStream::connect(syn.to).await
        }
        other => other,
    }
}

/// The program's connect(2) fails. After a timeout the kernel's own SYN will have timed out too.
fn refuse(relay: &Relay, syn: &Syn, frame: &[u8], error: &io::Error) {
    let errno = errno(error);
    tracing::debug!(to = %syn.to, %error, "a program's connection is not made");
    if errno == Errno::TIMEDOUT {
        return;
    }
    let refusal = match errno {
        Errno::NETUNREACH | Errno::HOSTUNREACH | Errno::ACCESS | Errno::PERM => {
            packet::unreachable(errno, tun::Frame::of(frame).packet(), (syn.from, syn.to))
        }
        _ => None,
    };
    if let Some(refusal) = refusal.or_else(|| packet::reset(syn)) {
        relay.tun.write(&refusal);
    }
}

/// Lets the kernel connect the program's socket to one of ours. `None`: the program has given up.
async fn meet(syn: Syn) -> Option<KernelStream> {
    timeout(HANDSHAKE, kernel::connect_as(syn.to, syn.from)).await.ok()?.ok()
}
