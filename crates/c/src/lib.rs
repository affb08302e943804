//! libtasuki: packaged calls for programs in C; `include/tasuki.h` documents each function.
//!
//! This crate is the FFI only: pointers of the caller become slices and values in `ffi`, and go no
//! further. `ring` has the calls and completions of a thread; the `sockets` crate does the rest. No
//! panic crosses into C: none is expected, and one would end the program (`extern "C"`).
//!
//! ```text layers
//! ffi: the exported functions, and the caller's pointers
//! ring: a thread's submissions and completions
//! address: socket addresses as bytes
//! ```

mod address;
mod ffi;
mod ring;
