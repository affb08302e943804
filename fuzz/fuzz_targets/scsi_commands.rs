//! See `targets::scsi_commands`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| targets::scsi_commands::run(data));
