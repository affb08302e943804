//! See `targets::tcp_sequence`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| targets::tcp_sequence::run(data));
