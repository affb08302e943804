//! libtasuki: packaged calls for programs in C; `include/tasuki.h` says what each function does.
//!
//! This crate is the edge only. Module `edge` turns pointers of the caller into slices and values;
//! they go no further. Module `ring` makes the calls, and the `sockets` crate does the rest. No
//! panic crosses the edge: none is expected, and one would end the program (`extern "C"`).
//!
//! ```text layers
//! edge: the functions of `tasuki.h`
//! ring address: submissions and completions; socket addresses
//! ```

mod address;
mod edge;
mod ring;
