//! What the fuzz targets do with their input.
//!
//! A target is a function of bytes that must not panic: its own assertions say what must hold
//! whatever the bytes are. `fuzz/fuzz_targets/` gives each one to libFuzzer (`cargo +nightly fuzz
//! run NAME`), and this crate's test replays the corpora of `fuzz/corpus/` with the ordinary
//! compiler. To add a target: a module here, a line in [`TARGETS`], a file in `fuzz_targets/` and a
//! `[[bin]]` in `fuzz/Cargo.toml`, some seeds in `fuzz/corpus/NAME/`.

#![forbid(unsafe_code)]

pub mod call_slots;
pub mod dhcp;
pub mod fragments;
pub mod frame_input;
pub mod ipv6_link;
mod memory;
mod packet;
pub mod tcp_sequence;

/// A target: its name, and what it does.
pub type Target = (&'static str, fn(&[u8]));

/// Every target.
pub const TARGETS: &[Target] = &[
    ("call_slots", call_slots::run),
    ("dhcp", dhcp::run),
    ("fragments", fragments::run),
    ("frame_input", frame_input::run),
    ("ipv6_link", ipv6_link::run),
    ("tcp_sequence", tcp_sequence::run),
];
