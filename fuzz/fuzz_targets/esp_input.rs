//! See `targets::esp_input`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| targets::esp_input::run(data));
