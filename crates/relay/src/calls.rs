//! Calls of programs that the filter tells the relay of.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use rustix::io::Errno;

use crate::call::{Notification, is_introduction, netlink_protocol, plain_kind};
use crate::notification::NotificationSocket;
use crate::state::Relay;
use crate::system::errno;
use crate::{at_once, datagrams, incoming, introduction, kernel};

/// Said once.
const RAW_REFUSED: &str = "a program asks for a raw socket, which this instance does not allow: \
                           start it with --raw-sockets, or raw_sockets = true";
/// The last kind of socket that Linux has.
const SOCK_PACKET: libc::c_int = 10;
/// After these pauses a call that was let through is looked for in the kernel's lists.
const LOOKS: [Duration; 7] = [
    Duration::ZERO,
    Duration::from_micros(50),
    Duration::from_micros(200),
    Duration::from_millis(1),
    Duration::from_millis(5),
    Duration::from_millis(50),
    Duration::from_millis(200),
];

/// Answers a call, now or when the instance has.
pub(crate) fn handle(relay: &Rc<Relay>, calls: &Rc<NotificationSocket>, call: Notification) {
    if at_once::answer(calls, &call) {
        return;
    }
    match call.call {
        libc::SYS_socket => socket(relay, calls, &call),
        libc::SYS_listen => {
            let (relay, calls) = (Rc::clone(relay), Rc::clone(calls));
            tokio::task::spawn_local(async move { listen(&relay, &calls, call).await });
        }
        libc::SYS_bind => {
            calls.let_through(&call);
            let relay = Rc::clone(relay);
            relay.binding.set(relay.binding.get() + 1);
            tokio::task::spawn_local(async move {
                look(&relay, async |relay| datagrams::find(relay)).await;
                relay.binding.set(relay.binding.get() - 1);
            });
        }
        _ => calls.let_through(&call),
    }
}

/// A socket of our namespace in place of one of the host's.
fn socket(relay: &Relay, calls: &NotificationSocket, call: &Notification) {
    let [family, kind, protocol, ..] = call.arguments;
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    let close_on_exec = kind & u64::from(libc::SOCK_CLOEXEC.cast_unsigned()) != 0;
    let kind = plain_kind(kind);
    let plain = kind as libc::c_int & !flags;
    if netlink_protocol(call).is_some() {
        return netlink(calls, call);
    }
    if is_introduction(call) {
        return introduction::answer(&mut relay.introductions.borrow_mut(), calls, call);
    }
    let refused = match plain {
        libc::SOCK_STREAM | libc::SOCK_DGRAM => None,
        libc::SOCK_RAW if relay.raw.allowed.get() => None,
        // As for a user who may not make one.
        libc::SOCK_RAW => {
            if !relay.raw.refused.replace(true) {
                tracing::warn!("{RAW_REFUSED}");
            }
            Some(Errno::PERM)
        }
        SOCK_PACKET => Some(Errno::PERM),
        0..SOCK_PACKET => Some(Errno::SOCKTNOSUPPORT),
        _ => Some(Errno::INVAL),
    };
    if let Some(errno) = refused {
        return calls.answer(call, Err(errno));
    }
    let made = kernel::socket(family, kind, protocol).and_then(|socket| {
        if plain == libc::SOCK_RAW {
            kernel::mark_raw(&socket)?;
        }
        Ok(socket)
    });
    match made {
        Ok(socket) => calls.answer_with(call, socket, close_on_exec),
        Err(error) => calls.answer(call, Err(errno(&error))),
    }
}

/// Netlink about networks is that of our namespace, which has the instance's interfaces.
fn netlink(calls: &NotificationSocket, call: &Notification) {
    let [family, kind, protocol, ..] = call.arguments;
    let close_on_exec = kind & u64::from(libc::SOCK_CLOEXEC.cast_unsigned()) != 0;
    at_once::tell_of_lists(call);
    match kernel::socket(family, kind, protocol) {
        Ok(socket) => calls.answer_with(call, socket, close_on_exec),
        Err(error) => calls.answer(call, Err(errno(&error))),
    }
}

/// The instance listens first, so that it does when the program's call returns, and refuses a port
/// that another program has. Which of the bound sockets the call is about is not known, so it is
/// refused if none of them can listen. Nearly always there is one.
async fn listen(relay: &Rc<Relay>, calls: &NotificationSocket, call: Notification) {
    let bound: Vec<_> = relay.sweep.bound().map_or_else(|_| Vec::new(), |all| all.all().collect());
    let (mut listens, mut refused) = (false, None);
    for local in &bound {
        match listen_at(relay, *local).await {
            Ok(()) => listens = true,
            Err(error) => refused = Some(error),
        }
    }
    match refused {
        Some(error) if !listens => {
            tracing::debug!(%error, ?bound, "the instance refuses a listen");
            calls.answer(&call, Err(errno(&error)));
        }
        _ => {
            calls.let_through(&call);
            look(relay, find_listeners).await;
        }
    }
}

async fn listen_at(relay: &Rc<Relay>, local: SocketAddr) -> io::Result<()> {
    match incoming::listen(relay, local).await {
        Err(error) if errno(&error) == Errno::ADDRINUSE => {
            // Perhaps for a program that has closed its socket meanwhile.
            incoming::sweep(relay).await?;
            incoming::listen(relay, local).await
        }
        other => other,
    }
}

/// Looks for what a call that was let through has done, until it is found.
async fn look(relay: &Rc<Relay>, find: impl AsyncFn(&Rc<Relay>) -> io::Result<bool>) {
    for pause in LOOKS {
        tokio::time::sleep(pause).await;
        match find(relay).await {
            Ok(true) => return,
            Ok(false) => {}
            Err(error) => tracing::debug!(%error, "cannot list the programs' sockets"),
        }
    }
}

/// Listens for programs' sockets that nobody listens for yet.
async fn find_listeners(relay: &Rc<Relay>) -> io::Result<bool> {
    let mut found = false;
    for local in relay.sweep.listeners()?.all() {
        if relay.listeners.borrow().contains_key(&local) {
            continue;
        }
        found = true;
        if let Err(error) = listen_at(relay, local).await {
            tracing::warn!(%error, %local, "a program listens, and nobody can reach it");
        }
    }
    Ok(found)
}
