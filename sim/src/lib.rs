//! A seeded world around the real protocol core.
//!
//! Two hosts, a clock and a link between them: everything that happens is drawn from one seed, so a
//! failure is repeated by its number (`cargo run -p tasuki-sim -- --seed N`). The hosts are bare
//! TCP connections or whole stacks ([`host`]), the link loses, repeats, delays, reorders and
//! damages what it carries ([`link`]), the applications write, read, pause, shut and abort as they
//! like ([`app`]), and a router may tell that packets are too long ([`router`]). [`check`] looks at
//! every segment on the wire, which [`wire`] decodes, and at what must happen between them;
//! [`pace`] sees to it that nobody is busy with nothing.
//! [`scenario`] draws what kind of world a seed means, [`world`] runs it, and [`record`] keeps it
//! for Wireshark.

#![forbid(unsafe_code)]

pub mod app;
pub mod bytes;
pub mod check;
pub mod differential;
pub mod golden;
pub mod host;
pub mod kernel;
pub mod link;
pub mod pace;
pub mod random;
pub mod ranges;
pub mod record;
pub mod router;
pub mod scenario;
pub mod wire;
pub mod world;

pub use scenario::{Kind, Scenario};
pub use world::{Report, World, run};
