//! The process's own client, found through the environment and shared by all who do not name one.
//!
//! There is one cell per fork generation, not one in all: a lock that some other thread held at the
//! moment of a fork stays locked in the child for ever, so the child goes on to the next cell.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

use crate::{Client, ConnectError};

/// The environment variable that holds the path of the instance's control socket.
pub const ENV: &str = "TASUKI_SOCKET";

const GENERATIONS: usize = 16;

static CELLS: [Mutex<Option<Arc<Client>>>; GENERATIONS] = [const { Mutex::new(None) }; GENERATIONS];
static GENERATION: AtomicUsize = AtomicUsize::new(0);

fn cell() -> &'static Mutex<Option<Arc<Client>>> {
    &CELLS[GENERATION.load(Ordering::Acquire) % GENERATIONS]
}

/// This process's client; the first use admits it, and a forked child's first use admits the child.
///
/// A client whose instance has ended stays: its calls give ENETDOWN, as sockets of a machine whose
/// network is gone.
///
/// # Errors
/// As [`Client::from_env`]; the next use tries again.
pub fn instance() -> Result<Arc<Client>, ConnectError> {
    let mut cell = cell().lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(client) = cell.as_ref().filter(|client| !client.is_stranger()) {
        return Ok(Arc::clone(client));
    }
    // Whatever was here belongs to the parent: let go of it before the child gets its own.
    if let Some(parents) = cell.take() {
        parents.let_go();
    }
    let client = Client::from_env()?;
    *cell = Some(Arc::clone(&client));
    Ok(client)
}

/// After a fork: drop the parent's client, if no thread of the parent was busy with it.
pub(crate) fn forget() {
    let old = cell();
    GENERATION.fetch_add(1, Ordering::AcqRel);
    let parents = match old.try_lock() {
        Ok(mut cell) => cell.take(),
        Err(TryLockError::Poisoned(cell)) => cell.into_inner().take(),
        Err(TryLockError::WouldBlock) => None,
    };
    if let Some(parents) = parents {
        parents.let_go();
    }
}
