//! nbdkit-tasuki-plugin: a unit of an iSCSI target for clients of NBD.
//!
//! ```text
//!   client ── NBD ──▶ nbdkit's threads ── request ──▶ the disk's thread ── iSCSI ──▶ target
//!                           ▲                              │
//!                           └──────────── answer ──────────┘
//! ```
//!
//! nbdkit loads this library, and its process is the client of the instance. It was decided so
//! because then there is nothing between a request and its session but a channel; what goes wrong
//! is in nbdkit's own log; and the session ends with nbdkit. The other arrangement is a helper
//! process behind a socket pair. It would move all bytes twice more, and need a protocol.
//!
//! * **One disk.** All connections of clients share one [`storage::Disk`]: a write that was
//!   acknowledged on one of them is seen on all, and a flush on one is a flush for all. So clients
//!   may use several (`can_multi_conn`). It lives in a thread of its own, since Tasuki's sockets
//!   belong to a thread ([`disk_thread`]).
//! * **The fork.** nbdkit goes to the background after it has said that it is ready. A thread and a
//!   membership in an instance do not survive that. So the disk is opened twice. The first time is
//!   before the fork, to say at once what is wrong, and the session is ended. The second time is in
//!   the process that serves. Keys and passphrases are read before the fork.
//! * **Waiting.** While the target is away, requests wait in nbdkit's threads. They look every
//!   second whether their client has gone or nbdkit is to end.
//! * **Secrets.** The process writes no core dumps as soon as it has read a key or a passphrase.
//! * **The edge to C.** The crate `nbdkit` on crates.io has no `block_size`, and a panic in one of
//!   its callbacks ends nbdkit. So the table of functions is written here ([`plugin`]), after
//!   nbdkit-plugin.h, and nbdkit's own functions are called in [`nbdkit`].
//!
//! ```text layers
//! plugin: the table of functions that nbdkit calls
//! state: what is known of the unit, from the first parameter to the last request
//! connection: a connection of a client
//! disk_thread: the thread that has the disk
//! unit: the unit that is served
//! parameters log: nbdkit's words as options; messages
//! failure: why a request or a start fails
//! nbdkit: the functions of nbdkit
//! ```

mod connection;
mod disk_thread;
mod failure;
mod log;
mod nbdkit;
mod parameters;
mod plugin;
mod state;
mod unit;
