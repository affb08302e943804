//! Deferred bells: an executor rings the server once for all that its tasks have called and sent.
//!
//! The state belongs to the thread, so other threads of the client ring as always. A thread rings
//! its deferred bell before it sleeps ([`take_due`]): no thread waits for work of which the server
//! has not heard.

use std::cell::Cell;

/// Tells servers apart while they live: the address of a client's handle. 0 is none.
pub(super) type ServerKey = usize;

#[derive(Clone, Copy)]
struct DeferredBell {
    /// The server whose bell this thread defers.
    server: ServerKey,
    /// The bell should have been rung.
    due: bool,
}

const NO_BELL: DeferredBell = DeferredBell { server: 0, due: false };

thread_local! {
    static DEFERRED: Cell<DeferredBell> = const { Cell::new(NO_BELL) };
}

/// Defers `server`'s bell in this thread; another server's bell is deferred no longer.
pub(super) fn begin(server: ServerKey) {
    let _ = DEFERRED.try_with(|deferred| {
        if deferred.get().server != server {
            deferred.set(DeferredBell { server, due: false });
        }
    });
}

/// Does this thread defer the bell of `server`? Then the bell is due.
pub(super) fn defer(server: ServerKey) -> bool {
    let defer = |deferred: &Cell<DeferredBell>| {
        let now = deferred.get();
        // Nearly always: no bell is deferred.
        if now.server == 0 || now.server != server {
            return false;
        }
        deferred.set(DeferredBell { due: true, ..now });
        true
    };
    DEFERRED.try_with(defer).unwrap_or(false)
}

/// Is a bell due? The caller rings it now. The bell stays deferred.
pub(super) fn take_due(server: ServerKey) -> bool {
    let taken = DEFERRED.try_with(|deferred| {
        let now = deferred.get();
        let due = now.due && now.server == server;
        if due {
            deferred.set(DeferredBell { due: false, ..now });
        }
        due
    });
    taken.unwrap_or(false)
}

/// Defers `server`'s bell no longer.
pub(super) fn end(server: ServerKey) {
    let _ = DEFERRED.try_with(|deferred| {
        if deferred.get().server == server {
            deferred.set(NO_BELL);
        }
    });
}
