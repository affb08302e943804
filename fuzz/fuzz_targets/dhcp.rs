//! See `targets::dhcp`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| targets::dhcp::run(data));
