//! See `targets::seal_handshake`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| targets::seal_handshake::run(data));
