//! The fuzz targets.
//!
//! A target is a function of bytes that must not panic. Its own assertions state the invariants
//! that hold for all bytes. `fuzz/fuzz_targets/` gives each target to libFuzzer (`cargo +nightly
//! fuzz run NAME`). This crate's test replays the corpora of `fuzz/corpus/` with the ordinary
//! compiler.
//!
//! A new target is a module here, a line in [`TARGETS`], a file in `fuzz_targets/`, a `[[bin]]` in
//! `fuzz/Cargo.toml`, and some seeds in `fuzz/corpus/NAME/`.
//!
//! ```text layers
//! call_slots dhcp esp_input fragments frame_input ipv6_link tcp_sequence: the network's targets
//! iscsi_initiator iscsi_target scsi_commands seal_handshake seal_records: those of storage
//! memory: buffers of a stack in private memory
//! packet: packets and their checksums
//! ```

#![forbid(unsafe_code)]

pub mod call_slots;
pub mod dhcp;
pub mod esp_input;
pub mod fragments;
pub mod frame_input;
pub mod ipv6_link;
pub mod iscsi_initiator;
pub mod iscsi_target;
mod memory;
mod packet;
pub mod scsi_commands;
pub mod seal_handshake;
pub mod seal_records;
pub mod tcp_sequence;

/// A target: its name, and its function.
pub type Target = (&'static str, fn(&[u8]));

/// Every target.
pub const TARGETS: &[Target] = &[
    ("call_slots", call_slots::run),
    ("dhcp", dhcp::run),
    ("esp_input", esp_input::run),
    ("fragments", fragments::run),
    ("frame_input", frame_input::run),
    ("ipv6_link", ipv6_link::run),
    ("iscsi_initiator", iscsi_initiator::run),
    ("iscsi_target", iscsi_target::run),
    ("scsi_commands", scsi_commands::run),
    ("seal_handshake", seal_handshake::run),
    ("seal_records", seal_records::run),
    ("tcp_sequence", tcp_sequence::run),
];
