//! Scripts in packetdrill's language, without packetdrill.
//!
//! [`Script::parse`] reads one ([`lexer`], [`parser`]), [`Script::run`] plays it against a
//! [`Host`](crate::Host) ([`run`], [`calls`]). What this understands is a part of the language of
//! packetdrill, with the same meaning, so a script that passes here can be given to packetdrill:
//! the events, TCP segments with their options, ICMP errors, UDP, socket calls also such that
//! wait, `sysctl` commands, and code that consists of assertions about TCP_INFO ([`code`]).
//!
//! Two things are stricter than in packetdrill: checksums of what leaves are checked, and the
//! timestamps that it echoes.

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
