//! Scripts in packetdrill's language, without packetdrill.
//!
//! [`Script::parse`] reads a script ([`lexer`], [`parser`]). [`Script::run`] plays it against a
//! [`Host`](crate::Host) ([`run`], [`calls`]). The runner understands a part of packetdrill's
//! language, with the same meaning. So packetdrill can play a script that passes here. That part
//! is: the events, TCP segments with their options, ICMP errors, UDP, socket calls, also waiting
//! ones, `sysctl` commands, and code that consists of assertions about TCP_INFO ([`code`]).
//!
//! Two things are stricter than in packetdrill. The runner checks the checksums of packets that
//! leave, and the timestamps that they echo.

mod calls;
mod code;
mod lexer;
mod notation;
mod parser;
mod run;
mod state;
mod symbols;
mod syntax;
mod wire;

pub use parser::Script;
pub use syntax::Fault;
