//! Bells that are held back: while a thread gathers what its tasks call and send, the server is
//! rung once, at the end, instead of each time.
//!
//! The state is the thread's own, so other threads of the client ring as always. Whoever sleeps
//! rings first what is owed ([`pay`]): nothing is ever waited for that the server was not told of.

use std::cell::Cell;

use crate::client::Client;

#[derive(Clone, Copy)]
struct Held {
    /// The client whose bell is held back, as [`name`]; 0 for none.
    client: usize,
    /// It should have been rung.
    owed: bool,
}

thread_local! {
    static HELD: Cell<Held> = const { Cell::new(Held { client: 0, owed: false }) };
}

/// Tells clients apart while they live.
fn name(client: &Client) -> usize {
    std::ptr::from_ref(client).addr()
}

/// Holds `client`'s bell back in this thread. Another's that was held is not any more.
pub(crate) fn hold(client: &Client) {
    let _ = HELD.try_with(|held| {
        let name = name(client);
        if held.get().client != name {
            held.set(Held { client: name, owed: false });
        }
    });
}

/// Is the bell of `client` held back? Then it is owed.
pub(crate) fn owe(client: &Client) -> bool {
    let owe = |held: &Cell<Held>| {
        let now = held.get();
        // Nearly always: nothing is held.
        if now.client == 0 || now.client != name(client) {
            return false;
        }
        held.set(Held { owed: true, ..now });
        true
    };
    HELD.try_with(owe).unwrap_or(false)
}

/// Rings what is owed; the bell is held back further on.
pub(crate) fn pay(client: &Client) {
    let paid = HELD.try_with(|held| {
        let now = held.get();
        let due = now.owed && now.client == name(client);
        if due {
            held.set(Held { owed: false, ..now });
        }
        due
    });
    if paid.unwrap_or(false) {
        client.ring_now();
    }
}

/// Rings what is owed and holds nothing back any more.
pub(crate) fn release(client: &Client) {
    pay(client);
    let _ = HELD.try_with(|held| {
        if held.get().client == name(client) {
            held.set(Held { client: 0, owed: false });
        }
    });
}
