//! What the tests with real processes share.
//!
//! Each test has a [`World`]: a network namespace and a mount namespace of its own (with its own
//! `/run`, `/etc/hosts` and `/etc/resolv.conf`), so tests run side by side, nothing of the
//! machine's network is touched, and nothing stays behind even if the test is killed: the
//! namespaces end with the process that holds them, and that ends when its standard input does. In
//! it the kernel's TCP is at [`HOST`] and Tasuki's at [`STACK`], with the device [`DEVICE`]
//! between: a TAP device, or what else TASUKI_TEST_NIC says ([`Nic`]).
//!
//! Programs run under a time limit and their output is shown when something fails. Nothing sleeps
//! for a fixed time to be safe: a server is ready when it says so, everything else is asked until
//! it holds ([`eventually`]).
//!
//! Without the rights for namespaces and TAP devices a test says SKIP on standard error, even when
//! its output is captured, and passes.
//!
//! ```text layers
//! world: namespaces and instances
//! process: programs under a time limit
//! tools: addresses, files and waiting
//! ```

#![forbid(unsafe_code)]

mod process;
mod tools;
mod world;

pub use process::{Finished, Running};
pub use tools::{
    DEVICE, FAR_END, HOST, HOST6, LARGE, PATIENCE, STACK, STACK6, eventually, program, python,
    sha256, skip, tasuki_binary, write_noise,
};
pub use world::{Mode, Nic, World};
