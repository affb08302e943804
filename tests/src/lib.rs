//! The common part of the tests with real processes.
//!
//! Each test has a [`World`]: a network namespace and a mount namespace of its own, with its own
//! `/run`, `/etc/hosts` and `/etc/resolv.conf`. So tests run side by side and never touch the
//! machine's network. Nothing stays behind, even if a test is killed: the namespaces end with the
//! process that holds them. That process ends when its standard input ends.
//!
//! In a world the kernel's TCP is at [`HOST`] and Tasuki's at [`STACK`]. The device [`DEVICE`]
//! joins them: a TAP device, or the device that TASUKI_TEST_NIC names ([`Nic`]).
//!
//! Programs run under a time limit. A failed test shows their output. No test sleeps for a fixed
//! time to be safe. A server is ready when it prints so; [`eventually`] repeats any other check
//! until it holds.
//!
//! A test needs the rights for namespaces and TAP devices. Without them it prints SKIP and passes.
//! The line goes to the real standard error, even when the test runner captures the output.
//!
//! ```text layers
//! lab_run: runs of the lab
//! judged: measured values, for a reader
//! postgres: a database for programs
//! program_world: an instance for programs, and a watch over the host's network
//! world: namespaces and instances
//! process: programs under a time limit
//! tools: addresses, files and waiting
//! ```

#![forbid(unsafe_code)]

mod judged;
mod lab_run;
mod postgres;
mod process;
mod program_world;
mod tools;
mod world;

pub use judged::judge;
pub use lab_run::{Effect, LONG_RUN, Lab, bench_binary, figure, left_of_run, mode, points, series};
pub use postgres::PostgresFiles;
pub use process::{Finished, Running};
pub use program_world::{ProgramWorld, installed, qemu_has_iscsi};
pub use tools::{
    DEVICE, FAR_END, HOST, HOST6, LARGE, PATIENCE, STACK, STACK6, build_for_musl, eventually,
    program, python, sha256, skip, tasuki_binary, write_noise,
};
pub use world::{Mode, Nic, World};
