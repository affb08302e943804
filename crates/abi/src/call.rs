//! Packaged calls: control operations as 64-byte slots (P3's request and result tables, P1's
//! calls).
//!
//! | word | content, low bits first |
//! |---|---|
//! | 0 | operation `u16`, priority `u8` and flags `u8` in one `u16`, 0, 0 |
//! | 1 | return path: client `u16`, ring `u16`, tag `u32` |
//! | 2..8 | six arguments; a result carries an error number or six values |
//!
//! The **return path** names the client, the result ring of one of its threads, and the caller's
//! tag. A process that relays a call copies the path unchanged. So the process that finishes the
//! call posts the result straight to the caller's ring (P1's direct return).
//!
//! Calls complete in any order. A call that has to wait completes later.

mod flags;
mod op;
mod path;
mod reply;
mod request;

pub use flags::CallFlags;
pub use op::Op;
pub use path::ReturnPath;
pub use reply::{PackagedResult, Reply, ReplyWords};
pub use request::{PackagedCall, Request, RequestError, RequestWords};
