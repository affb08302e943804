//! How packets are written: names of flags, ICMP types and codes, and whole segments for messages.

use std::fmt;

use super::syntax::{ACK, Segment, TcpOption, URG};

const LETTERS: [char; 9] = ['F', 'S', 'R', 'P', '.', 'U', 'E', 'W', 'A'];

/// The flags that `letters` name; the digit that accurate ECN has stands for the last three.
pub(super) fn flags(letters: &str) -> Option<u16> {
    letters.chars().try_fold(0, |flags, letter| {
        let bit = LETTERS.iter().position(|known| *known == letter);
        let named = bit.map(|bit| 1 << bit);
        let ace = letter.to_digit(8).map(|ace| {
            let ace = u16::try_from(ace).unwrap_or(0);
            // AE, CWR, ECE from the most significant bit on.
            (ace & 1) << 6 | (ace & 2) << 6 | (ace & 4) << 6
        });
        Some(flags | named.or(ace)?)
    })
}

/// Type and code of an ICMP message. Where both versions have it they are of ICMPv4: the addresses
/// decide later.
pub(super) fn icmp(kind: &str, code: &str) -> Option<(u8, u8)> {
    let code = match (kind, code) {
        ("unreachable" | "time_exceeded" | "source_quench" | "packet_too_big", "") => 0,
        ("unreachable", name) => {
            let names = [
                "net_unreachable",
                "host_unreachable",
                "protocol_unreachable",
                "port_unreachable",
                "frag_needed",
                "source_route_failed",
            ];
            let v6_names = ["no_route", "admin_prohibited", "not_neighbour", "address_unreachable"];
            if let Some(code) = v6_names.iter().position(|known| *known == name) {
                return Some((1, u8::try_from(code).ok()?));
            }
            let named = names.iter().position(|known| *known == name)?;
            u8::try_from(named).ok()?
        }
        ("time_exceeded", "exceeded_hop_limit") => 0,
        ("time_exceeded", "exceeded_frag_time") => 1,
        ("parameter_problem", "header_field") => 0,
        ("parameter_problem", "unknown_next_header") => 1,
        ("parameter_problem", "unknown_option") => 2,
        ("time_exceeded", "exceeded_in_transit") => 0,
        ("time_exceeded", "exceeded_frag_reass") => 1,
        _ => return None,
    };
    let kind = match kind {
        "unreachable" => 3,
        "source_quench" => 4,
        "time_exceeded" => 11,
        "packet_too_big" => 2,
        "parameter_problem" => 12,
        _ => return None,
    };
    Some((kind, code))
}

impl fmt::Display for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let set = |bit: usize| self.flags & 1 << bit != 0;
        let order = [1, 0, 2, 3, 6, 7, 8, 5, 4];
        let letters: String =
            order.into_iter().filter(|bit| set(*bit)).map(|bit| LETTERS[bit]).collect();
        f.write_str(if letters.is_empty() { "-" } else { &letters })?;
        let end = self.seq.wrapping_add(u32::try_from(self.len).unwrap_or(u32::MAX));
        write!(f, " {}:{}({})", self.seq, end, self.len)?;
        if self.flags & ACK != 0 {
            write!(f, " ack {}", self.ack)?;
        }
        if let Some(window) = self.window {
            write!(f, " win {window}")?;
        }
        if self.flags & URG != 0 {
            write!(f, " urg {}", self.urgent)?;
        }
        match self.options.as_deref() {
            None => f.write_str(" <...>"),
            Some([]) => Ok(()),
            Some(options) => {
                let all: Vec<String> = options.iter().map(ToString::to_string).collect();
                write!(f, " <{}>", all.join(","))
            }
        }
    }
}

impl fmt::Display for TcpOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
        match self {
            Self::Nop => f.write_str("nop"),
            Self::Eol => f.write_str("eol"),
            Self::Mss(mss) => write!(f, "mss {mss}"),
            Self::WindowScale(shift) => write!(f, "wscale {shift}"),
            Self::SackPermitted => f.write_str("sackOK"),
            Self::Sack(blocks) => {
                f.write_str("sack")?;
                blocks.iter().try_for_each(|(first, last)| write!(f, " {first}:{last}"))
            }
            Self::Timestamps { val, ecr } => write!(f, "TS val {val} ecr {ecr}"),
            Self::FastOpen(cookie) => write!(f, "FO {}", hex(cookie)),
            Self::FastOpenExp(cookie) => write!(f, "FOEXP {}", hex(cookie)),
            Self::Other(kind, value) => write!(f, "option {kind} {}", hex(value)),
        }
    }
}
