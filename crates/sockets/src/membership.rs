//! A process's membership in one instance: everything its sockets share.
//!
//! * [`ServerHandle`]: the region, the server's bell, its liveness.
//! * [`Membership`]: that, the memory pools and the thread slots.
//! * [`RawBatch`]: packaged calls of one thread, which name no sockets.
//! * [`wait_until`]: waiting for a socket's words to change.

mod calls;
mod control;
mod deferred_bell;
mod first_look;
mod goodbye;
mod local_thread;
mod news;
mod rings;
mod server;
mod slot;
mod state;
mod threads;
mod waiting;

pub(crate) use self::calls::{MembershipRef, RawBatch};
pub use self::news::NewsListener;
pub(crate) use self::rings::{CallOutcome, FinishedCall, NewCall, SocketSpec, place_in};
pub(crate) use self::server::ServerHandle;
pub(crate) use self::slot::{SleepRole, ThreadSlot, poll};
pub(crate) use self::state::Membership;
pub(crate) use self::threads::ThreadClaim;
pub(crate) use self::waiting::wait_until;
