//! Connections that the relay has made through the instance and taken back.
//!
//! A connection between two programs of this relay is the kernel's. A program may begin to listen
//! while the relay still asks the instance for another program's connect(2). Then the instance
//! connects the relay to itself. The relay aborts this connection and leaves the SYN to the kernel.
//! The listening end may have been accepted already, and must not reach the program.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use tasuki_tokio::TcpStream as TasukiStream;
use tokio::time::{sleep, timeout};

use crate::address::canonical;
use crate::state::Relay;

/// How long the accepting end of a connection may take to ask.
const ASKED_WITHIN: Duration = Duration::from_secs(10);

/// Aborts a connection to a listener of this relay.
pub(crate) fn withdraw(relay: &Rc<Relay>, stream: TasukiStream) {
    let socket = stream.as_aio().as_socket();
    if let (Ok(local), Ok(peer)) = (socket.local_addr(), socket.peer_addr()) {
        let ends = (canonical(local), canonical(peer));
        relay.withdrawn.borrow_mut().insert(ends);
        let relay = Rc::clone(relay);
        tokio::task::spawn_local(async move {
            sleep(ASKED_WITHIN).await;
            relay.withdrawn.borrow_mut().remove(&ends);
        });
    }
    stream.abort();
}

/// Has the relay taken back the connection with these ends, the peer's first? Waits until the relay
/// has decided about the connections that it is making to the second.
pub(crate) async fn is_withdrawn(relay: &Relay, ends: (SocketAddr, SocketAddr)) -> bool {
    let all_decided = async {
        loop {
            let decided = relay.decided.notified();
            if !relay.connecting.borrow().iter().any(|(_, to)| *to == ends.1) {
                return;
            }
            decided.await;
        }
    };
    let _ = timeout(ASKED_WITHIN, all_decided).await;
    relay.withdrawn.borrow_mut().remove(&ends)
}
