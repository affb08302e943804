//! The parts of scripts, and the errors in one.

use std::fmt;

/// An error in a script, or in the stack that it tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// On which line, counted from 1.
    pub line: usize,
    /// The error in words.
    pub message: String,
}

impl Fault {
    pub(super) fn new(line: usize, message: impl Into<String>) -> Self {
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
pub(super) enum EventTime {
    /// `*`
    Any,
    At {
        from: i64,
        to: i64,
        relative: bool,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Event {
    pub(super) line: usize,
    pub(super) when: EventTime,
    pub(super) what: Action,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Action {
    Inbound(Packet),
    Outbound(Packet),
    Call(Call),
    Command(String),
    Code(String),
}

/// A packet as scripts write it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Packet {
    /// The bits of ECN to be found or sent.
    pub(super) ecn: Option<Ecn>,
    /// The whole type-of-service byte.
    pub(super) tos: Option<u8>,
    pub(super) carries: PacketBody,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ecn {
    Exactly(u8),
    /// ECT(0) or ECT(1).
    Capable,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PacketBody {
    Tcp(Segment),
    Udp { len: usize },
    Icmp { kind: u8, code: u8, mtu: u32, echoed: QuotedPacket },
}

/// The packet that an ICMP error quotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum QuotedPacket {
    /// A segment that begins here.
    Tcp {
        seq: u32,
    },
    Udp,
}

/// A TCP segment; sequence numbers are those of the script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Segment {
    /// FIN is bit 0, CWR bit 7, AE bit 8.
    pub(super) flags: u16,
    pub(super) seq: u32,
    pub(super) len: usize,
    pub(super) ack: u32,
    pub(super) window: Option<u16>,
    pub(super) urgent: u16,
    /// `None`: whatever they are.
    pub(super) options: Option<Vec<TcpOption>>,
}

pub(super) const SYN: u16 = 2;
pub(super) const ACK: u16 = 16;
pub(super) const CWR: u16 = 0x80;
pub(super) const URG: u16 = 32;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TcpOption {
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
pub(super) struct Call {
    pub(super) name: String,
    pub(super) arguments: Vec<Value>,
    pub(super) result: Value,
    /// The name of the `errno` expected.
    pub(super) errno: Option<String>,
    /// When it returns, if it waits: microseconds, to be read as the event's time.
    pub(super) end: Option<i64>,
}

/// Arguments and results of calls.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
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
