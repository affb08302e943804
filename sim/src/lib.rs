//! A seeded world around the real protocol core.
//!
//! A world is two hosts, a clock and the links between them. One seed decides everything that
//! happens, so its number repeats a failure (`cargo run -p tasuki-sim -- --seed N`).
//!
//! The hosts are bare TCP connections, whole stacks, or the Linux kernel. The links lose,
//! duplicate, delay, reorder and damage frames. The applications write, read, pause, shut down and
//! abort. A router may report packets that are too long. The checkers look at every segment on the
//! link and at the time between segments.
//!
//! ```text layers
//! differential golden: many worlds, beside the kernel and as a table
//! world: runs one world
//! app kernel record: applications; the kernel's TCP as a host; pcapng files
//! host: the hosts around the core
//! scenario: the world of a seed
//! check plan link esp: the checkers, an application's plan, links, protected packets
//! router ranges: messages of the router, sets of sequence numbers
//! wire livelock bytes random: an independent decoder, a bound on idle frames, payload, numbers
//! ```

#![forbid(unsafe_code)]

pub mod app;
pub mod bytes;
pub mod check;
pub mod differential;
pub mod esp;
pub mod golden;
pub mod host;
pub mod kernel;
pub mod link;
pub mod livelock;
pub mod plan;
pub mod random;
pub mod ranges;
pub mod record;
pub mod router;
pub mod scenario;
pub mod wire;
pub mod world;

pub use scenario::{Kind, Scenario};
pub use world::{Report, World, run};
