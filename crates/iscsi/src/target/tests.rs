//! A raw initiator against the connection: what goes in and out as PDUs.

mod data;
mod harness;
mod hostile;
mod management;
mod session;
