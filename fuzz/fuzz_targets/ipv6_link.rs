//! See `targets::ipv6_link`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| targets::ipv6_link::run(data));
