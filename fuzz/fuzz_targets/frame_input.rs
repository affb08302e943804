//! See `targets::frame_input`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| targets::frame_input::run(data));
