//! The exported calls on one descriptor, by theme.

mod actions;
mod aio;
mod control;
mod exec;
mod host_loopback;
mod identity;
mod inside;
mod interfaces;
mod io;
mod last_received;
mod lifecycle;
mod loading;
mod mounts;
mod msg;
mod names;
mod namespaces;
mod options;
mod print;
mod proc_net;
mod scopes;
mod source_filters;
mod splice;
mod stdio;
mod syscall;
