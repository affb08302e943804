//! The exported calls on one descriptor, by theme.

mod control;
mod interfaces;
mod io;
mod lifecycle;
mod msg;
mod names;
mod options;
