//! ICMP (RFC 792, RFC 1122 3.2.2) and ICMPv6 (RFC 4443): echoes answered, errors sent and read.
//!
//! Errors are sent about well-formed packets to us alone, at a bounded rate (RFC 1812 4.3.2.8) that
//! both families share. Never are they sent about ICMP errors (RFC 1122 3.2.2, RFC 4443 2.4 (e)),
//! nor about packets to groups, but for IPv6 options that ask for it. An error that was received
//! is given to the layer of the protocol that it quotes. That layer says whether it believes it.

pub(crate) mod echo;
mod error;
mod layer;
mod v4;
mod v6;

pub(crate) use error::{IcmpError, IcmpReport, ReportedError};
pub(crate) use layer::IcmpLayer;
pub(crate) use v4::Icmpv4Input;
pub(crate) use v6::Icmpv6Input;
