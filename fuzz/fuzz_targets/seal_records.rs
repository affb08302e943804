//! See `targets::seal_records`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| targets::seal_records::run(data));
