//! See `targets::iscsi_target`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| targets::iscsi_target::run(data));
