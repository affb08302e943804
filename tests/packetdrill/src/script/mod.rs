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
mod symbols;
mod wire;

use std::fmt;

pub use parser::Script;

/// What is wrong with a script, or with what it tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// On which line, counted from 1.
    pub line: usize,
    /// What.
    pub message: String,
}

impl Fault {
    pub(crate) fn new(line: usize, message: impl Into<String>) -> Self {
        Self { line, message: message.into() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.line, self.message)
    }
}

impl std::error::Error for Fault {}

/// When an event is to happen, microseconds from the start of the script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    /// `*`
    Any,
    At {
        from: i64,
        to: i64,
        relative: bool,
    },
}

#[derive(Debug, Clone, PartialEq)]
struct Event {
    line: usize,
    when: When,
    what: What,
}

#[derive(Debug, Clone, PartialEq)]
enum What {
    Inbound(Packet),
    Outbound(Packet),
    Call(Call),
    Command(String),
    Code(String),
}

/// A packet as scripts write it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Packet {
    /// The bits of ECN to be found or sent.
    ecn: Option<Ecn>,
    /// The whole type-of-service byte.
    tos: Option<u8>,
    carries: Carries,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ecn {
    Exactly(u8),
    /// ECT(0) or ECT(1).
    Capable,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Carries {
    Tcp(Segment),
    Udp { len: usize },
    Icmp { kind: u8, code: u8, mtu: u32, echoed: Echoed },
}

/// What an ICMP error quotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Echoed {
    /// A segment that begins here.
    Tcp {
        seq: u32,
    },
    Udp,
}

/// A TCP segment; sequence numbers are those of the script.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Segment {
    /// FIN is bit 0, CWR bit 7, AE bit 8.
    flags: u16,
    seq: u32,
    len: usize,
    ack: u32,
    window: Option<u16>,
    urgent: u16,
    /// `None`: whatever they are.
    options: Option<Vec<TcpOption>>,
}

const SYN: u16 = 2;
const ACK: u16 = 16;
const CWR: u16 = 0x80;
const URG: u16 = 32;

#[derive(Debug, Clone, PartialEq, Eq)]
enum TcpOption {
    Nop,
    Eol,
    Mss(u16),
    WindowScale(u8),
    SackPermitted,
    Sack(Vec<(u32, u32)>),
    Timestamps {
        val: u32,
        ecr: u32,
    },
    FastOpen(Vec<u8>),
    FastOpenExp(Vec<u8>),
    /// One that the notation has no name for.
    Other(u8, Vec<u8>),
}

/// A socket call.
#[derive(Debug, Clone, PartialEq)]
struct Call {
    name: String,
    arguments: Vec<Value>,
    result: Value,
    /// The name of the `errno` expected.
    errno: Option<String>,
    /// When it returns, if it waits: microseconds, to be read as the event's time.
    end: Option<i64>,
}

/// What calls are given, and give.
#[derive(Debug, Clone, PartialEq)]
enum Value {
    /// `...`
    Any,
    Int(i64),
    Word(String),
    Bytes(Vec<u8>),
    Or(Box<Value>, Box<Value>),
    List(Vec<Value>),
    /// `{a=1, 2}`; the name is empty where there is none.
    Fields(Vec<(String, Value)>),
}
