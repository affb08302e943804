//! Connections to programs.
//!
//! A program's listening socket is a kernel socket of the relay's namespace. For each the relay
//! listens at the same address of the instance. It gives each connection on to the program from an
//! own socket that has the peer's address.

use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use tasuki_tokio::{TcpListener, TcpStream as TasukiStream};
use tokio::net::TcpStream as KernelStream;
use tokio::time::{sleep, timeout};

use crate::address::{canonical, unspecified};
use crate::carry::carry;
use crate::state::Relay;
use crate::{kernel, withdrawn};

/// How long a program's full queue may hold a connection up.
const HANDSHAKE: Duration = Duration::from_secs(60);
/// How often, and after which pauses, a refused connection is tried again.
const LISTEN_TRIES: u32 = 20;
const LISTEN_PAUSE: Duration = Duration::from_millis(5);
/// Connections that may be waiting for a place in the programs' queues.
const MOST_WAITING: u32 = 4096;

/// Listens at the instance for a program's socket, which has this local end.
///
/// # Errors
/// EADDRINUSE when another program of the instance has the port; as bind(2) and listen(2).
pub(crate) async fn listen(relay: &Rc<Relay>, local: SocketAddr) -> io::Result<()> {
    let _alone = relay.listening.lock().await;
    if relay.listeners.borrow().contains_key(&local) {
        return Ok(());
    }
    let listener = TcpListener::bind_only(local).await?;
    let task = tokio::task::spawn_local(accept(Rc::clone(relay), listener));
    relay.listeners.borrow_mut().insert(local, task);
    Ok(())
}

/// Connects to the program, whose listen(2) goes on after the instance listens already.
async fn connect_to_program(peer: SocketAddr, local: SocketAddr) -> io::Result<KernelStream> {
    for _ in 0..LISTEN_TRIES {
        match kernel::connect_as(peer, local).await {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                sleep(LISTEN_PAUSE).await;
            }
            other => return other,
        }
    }
    kernel::connect_as(peer, local).await
}

/// Does a program of this relay listen at this address, or is it about to?
pub(crate) async fn is_listening(relay: &Relay, at: SocketAddr) -> bool {
    // A listen(2) under way has its outcome first.
    let _listening = relay.listening.lock().await;
    listens(relay, at)
}

/// Does the relay listen at this address for a program?
pub(crate) fn listens(relay: &Relay, at: SocketAddr) -> bool {
    let listeners = relay.listeners.borrow();
    let own = relay.namespace.borrow().is_own(at.ip());
    let any = SocketAddr::new(unspecified(at.is_ipv6()), at.port());
    listeners.contains_key(&at) || (own && listeners.contains_key(&any))
}

/// Forgets listeners whose programs have closed them. Their addresses are free when it returns.
pub(crate) async fn sweep(relay: &Relay) -> io::Result<()> {
    // What another sweep has forgotten may still have its address.
    let _alone = relay.listening.lock().await;
    if relay.listeners.borrow().is_empty() {
        return Ok(());
    }
    // A program may have bound a socket to the address of one that is gone, and be about to listen.
    // In this order a socket that begins to listen meanwhile is seen.
    let bound = relay.sweep.bound()?;
    let there = relay.sweep.listeners()?;
    let gone = |local: &SocketAddr| !there.contains(*local) && !bound.contains(*local);
    let forgotten: Vec<_> =
        relay.listeners.borrow_mut().extract_if(|local, _| gone(local)).collect();
    for (_, task) in forgotten {
        task.abort();
        // It ends with the error of the abort, and has dropped its listener then.
        let _ = task.await;
    }
    Ok(())
}

async fn accept(relay: Rc<Relay>, listener: TcpListener) {
    let waiting = Rc::new(Cell::new(0));
    loop {
        let Ok((stream, peer)) = listener.accept().await else { return };
        if waiting.get() >= MOST_WAITING {
            stream.abort();
            continue;
        }
        waiting.set(waiting.get() + 1);
        let (waiting, relay) = (Rc::clone(&waiting), Rc::clone(&relay));
        tokio::task::spawn_local(async move {
            give(&relay, stream, peer).await;
            waiting.set(waiting.get() - 1);
        });
    }
}

/// Gives a connection to the program, unless the relay itself has made it and taken it back.
async fn give(relay: &Rc<Relay>, stream: TasukiStream, peer: SocketAddr) {
    let Ok(local) = stream.as_aio().as_socket().local_addr() else { return stream.abort() };
    let (peer, local) = (canonical(peer), canonical(local));
    if relay.namespace.borrow().is_own(peer.ip())
        && withdrawn::is_withdrawn(relay, (peer, local)).await
    {
        return stream.abort();
    }
    match timeout(HANDSHAKE, connect_to_program(peer, local)).await {
        Ok(Ok(kernel)) => {
            let _ = stream.set_nodelay(true).await;
            tokio::task::spawn_local(carry(Rc::clone(relay), kernel, stream));
        }
        _ => {
            stream.abort();
            // It may have closed its socket: then nobody listens from now on.
            let _ = sweep(relay).await;
        }
    }
}
