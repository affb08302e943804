//! See `targets::iscsi_initiator`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| targets::iscsi_initiator::run(data));
