//! The exported calls on one descriptor, by theme.

mod control;
mod io;
mod lifecycle;
mod msg;
mod names;
mod options;
