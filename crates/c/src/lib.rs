//! libtasuki: packaged calls for programs in C; `include/tasuki.h` says what each function does.
//!
//! This crate is the edge only: pointers of the caller become slices and values here (module
//! `edge`), and go no further. What the calls are is in `ring`; all else is the `sockets` crate's.
//! No panic crosses the edge: none is expected, and one would end the program (`extern "C"`).

mod address;
mod edge;
mod ring;
