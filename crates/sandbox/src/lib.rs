//! The sandbox of an instance's processes.
//!
//! A server receives from other processes and from the network. So it gives up all that it does not
//! need, before it reads the first byte from its control connection ([`enter()`]). The layers do
//! not depend on each other: each one holds where another one is missing or broken.
//!
//! ```text
//!  user          an own one, of no other process; or a user namespace     [`UserLease`]
//!  capabilities  none in any set, and none to be had again
//!  namespaces    an empty, read-only root; no process, interface or name of the host
//!  landlock      no right to any file, port or foreign process
//!  seccomp       the system calls of its role and no others               [`Role`]
//!  limits        no new process, no core dump, no file grows
//! ```
//!
//! A kernel without one of them is no reason not to start: [`Restriction::missing`] names it. With
//! [`Demand::Require`] it is one.
//!
//! The supervisor keeps the capabilities that its devices need and that later servers begin with
//! ([`supervisor`]). Anybody can measure the result ([`measure()`]).
//!
//! ```text layers
//! enter probe: all of it in its order; tries of what is left
//! supervisor user_lease measure: the supervisor's part; what a process may do, out of /proc
//! namespaces: a layer that needs the user's own files in /proc
//! privilege filter landlocked: the other layers
//! trap: the sentence about a refused system call
//! role demand error: what is asked for, and what goes wrong
//! ffi: the system calls that no safe library has
//! ```

pub mod demand;
mod enter;
mod error;
mod ffi;
mod filter;
mod landlocked;
mod measure;
mod namespaces;
mod privilege;
pub mod probe;
mod role;
pub mod supervisor;
mod trap;
mod user_lease;

pub use demand::Demand;
pub use enter::{Plan, Restriction, enter};
pub use error::SandboxError;
pub use ffi::close_inherited;
pub use filter::forbid_reaching_out;
pub use measure::{Measurement, capability_names, measure};
pub use namespaces::begin_user;
pub use privilege::forbid_inspection;
pub use role::{DeviceKind, Role};
pub use trap::EXIT_CODE;
pub use user_lease::UserLease;
