//! The relay's event loop: calls of programs, packets of their sockets, and the instance.

use std::io;
use std::rc::Rc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::call::Notification;
use crate::notification::NotificationSocket;
use crate::packet::Sent;
use crate::route_watch::RouteWatch;
use crate::state::Relay;
use crate::{calls, datagrams, echo, host_datagrams, incoming, outgoing, tun};

/// How often the relay looks whether programs have closed their sockets.
const TICK: Duration = Duration::from_secs(1);
/// Packets that are read before other work has its turn.
const PACKETS: usize = 64;
/// The device is empty if it gives nothing for so long.
const PAUSE: Duration = Duration::from_millis(5);
/// How long the last bytes of programs that have ended may take.
const LAST_BYTES: Duration = Duration::from_secs(60);

/// Serves programs until the last one has ended, and their last bytes are delivered. `first` is the
/// call that waits.
pub(crate) async fn serve(
    relay: Rc<Relay>,
    calls: NotificationSocket,
    first: Notification,
    watch: RouteWatch,
) -> io::Result<()> {
    let own = relay.namespace.borrow().routes_number();
    tokio::task::spawn_local(watch.tell(own));
    let packets = tokio::task::spawn_local(read_packets(Rc::clone(&relay)));
    let ticks = tokio::task::spawn_local(tick(Rc::clone(&relay)));
    let done = serve_calls(&relay, Rc::new(calls), first).await;
    ticks.abort();
    let until = tokio::time::Instant::now() + LAST_BYTES;
    let mut seen = None;
    while tokio::time::Instant::now() < until {
        let now = relay.packets.get();
        if relay.is_idle() && seen == Some(now) {
            break;
        }
        seen = Some(now);
        tokio::time::sleep(PAUSE).await;
    }
    packets.abort();
    done
}

async fn serve_calls(
    relay: &Rc<Relay>,
    calls: Rc<NotificationSocket>,
    first: Notification,
) -> io::Result<()> {
    calls::handle(relay, &calls, first);
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
    let sent = Sent::parse(frame.packet());
    // A raw socket may write any source address.
    let foreign = |source| !relay.namespace.borrow().is_own(source);
    if relay.raw.allowed.get() && sent.source().is_some_and(foreign) {
        return;
    }
    match sent {
        Sent::Syn(syn) => outgoing::begin(relay, syn, frame),
        Sent::Segment => relay.tun.bounce(frame.bytes()),
        Sent::Datagram { from, to, manner, payload } => {
            datagrams::send(relay, (from, to, manner), payload, frame);
        }
        Sent::Echo(request) => echo::send(relay, &request),
        Sent::Other => {}
    }
}

async fn tick(relay: Rc<Relay>) {
    loop {
        tokio::time::sleep(TICK).await;
        let all = [
            incoming::sweep(&relay).await,
            datagrams::sweep(&relay),
            host_datagrams::sweep(&relay),
        ];
        for done in all {
            if let Err(error) = done {
                tracing::debug!(%error, "cannot list the programs' sockets");
            }
        }
        relay.refresh_addresses();
    }
}
