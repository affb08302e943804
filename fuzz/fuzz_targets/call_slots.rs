//! See `targets::call_slots`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| targets::call_slots::run(data));
