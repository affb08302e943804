//! The process's own client, found through the environment and shared by all its users.
//!
//! There is one cell per fork generation. A lock that another thread held at the moment of a fork
//! stays locked in the child for ever, so the child goes on to the next cell.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, TryLockError};

use crate::client::Client;
use crate::error::ConnectError;
use crate::fork::renew_pid;
use crate::lock::lock;

const GENERATIONS: usize = 16;

static CELLS: [Mutex<Option<Arc<Client>>>; GENERATIONS] = [const { Mutex::new(None) }; GENERATIONS];
static GENERATION: AtomicUsize = AtomicUsize::new(0);

fn cell() -> &'static Mutex<Option<Arc<Client>>> {
    &CELLS[GENERATION.load(Ordering::Acquire) % GENERATIONS]
}

/// This process's client. The first use admits the process; a forked child's first use admits the
/// child.
///
/// A client stays after its instance has ended. Its calls then give ENETDOWN, as on a machine
/// without a network.
///
/// # Errors
/// As [`Client::from_env`]; the next use tries again.
pub fn instance() -> Result<Arc<Client>, ConnectError> {
    let mut cell = lock(cell());
    if let Some(client) = cell.as_ref().filter(|client| !client.membership().server.is_forked()) {
        return Ok(Arc::clone(client));
    }
    // The old client belongs to the parent: let go of it before the child gets its own.
    if let Some(parents) = cell.take() {
        parents.membership().server.let_go();
    }
    let client = Client::from_env()?;
    *cell = Some(Arc::clone(&client));
    Ok(client)
}

/// In a forked child: forget the parent's client.
///
/// Closes this process's copies of the parent's control descriptors. The next use of [`instance()`]
/// admits the child afresh. This function touches no shared memory and waits for no lock, so it may
/// run in a fork handler. Sockets inherited as values answer ENOTCONN from now on.
pub fn forked() {
    renew_pid();
    let old = cell();
    GENERATION.fetch_add(1, Ordering::AcqRel);
    let parents = match old.try_lock() {
        Ok(mut cell) => cell.take(),
        Err(TryLockError::Poisoned(cell)) => cell.into_inner().take(),
        Err(TryLockError::WouldBlock) => None,
    };
    if let Some(parents) = parents {
        parents.membership().server.let_go();
    }
}
