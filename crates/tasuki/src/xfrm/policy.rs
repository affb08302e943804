//! Policies and selectors out of words.

use std::net::IpAddr;
use std::str::FromStr;

use abi::network::Prefixed;
use abi::xfrm::{XfrmAction, XfrmDirection, XfrmMode, XfrmPolicy, XfrmSelector, XfrmTemplate};
use serde::Deserialize;

use super::words::{XfrmWords, unexpected};

const KNOWN: &str = "src, dst, proto, sport, dport, type, code, dir, priority, action and tmpl";
const KNOWN_OF_TEMPLATES: &str = "src, dst, proto, spi, reqid, mode and level";

/// An address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Address(pub(crate) IpAddr);

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text.parse().map(Self);
        parsed.map_err(|_| format!("`{text}` is not an IP address such as 10.219.0.1 or fd00::1"))
    }
}

/// A network, or the one of an address alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Network(pub(crate) Prefixed);

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.contains('/') {
            return text.parse().map(Self);
        }
        let Address(address) = text.parse()?;
        let prefix = if address.is_ipv4() { 32 } else { 128 };
        Ok(Self(Prefixed { address, prefix }))
    }
}

/// A transport protocol by name or number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Protocol(pub(crate) u8);

impl FromStr for Protocol {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = match text {
            "icmp" => Some(1),
            "tcp" => Some(6),
            "udp" => Some(17),
            "icmpv6" | "ipv6-icmp" => Some(58),
            "udplite" => Some(136),
            other => other.parse().ok(),
        };
        let wrong = || format!("`{text}` is neither tcp, udp, icmp, icmpv6, udplite nor a number");
        number.map(Self).ok_or_else(wrong)
    }
}

impl TryFrom<String> for Address {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl TryFrom<String> for Network {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl TryFrom<String> for Protocol {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

/// The parts of a selector, as far as they were given.
#[derive(Debug, Default)]
pub(super) struct SelectorParts {
    src: Option<Network>,
    dst: Option<Network>,
    proto: Option<Protocol>,
    sport: Option<u16>,
    dport: Option<u16>,
}

impl SelectorParts {
    /// Takes a word and its value; false if the word is none of a selector.
    pub(super) fn take(&mut self, word: &str, words: &mut XfrmWords<'_>) -> Result<bool, String> {
        match word {
            "src" => self.src = Some(words.parsed(word)?),
            "dst" => self.dst = Some(words.parsed(word)?),
            "proto" => self.proto = Some(words.parsed(word)?),
            "sport" | "type" => self.sport = Some(words.number(word)?),
            "dport" | "code" => self.dport = Some(words.number(word)?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    pub(super) fn selector(self) -> Result<XfrmSelector, String> {
        let Self { src, dst, proto, sport, dport } = self;
        new_selector((src, dst), proto, sport, dport)
    }
}

/// The selector of the parts that were given.
///
/// # Errors
/// A sentence if neither network was given.
pub(crate) fn new_selector(
    (src, dst): (Option<Network>, Option<Network>),
    proto: Option<Protocol>,
    sport: Option<u16>,
    dport: Option<u16>,
) -> Result<XfrmSelector, String> {
    let (src, dst) = (src.map(|Network(src)| src), dst.map(|Network(dst)| dst));
    let known = src.or(dst).ok_or("src or dst is needed; 0.0.0.0/0 and ::/0 are all addresses")?;
    let all = if known.address.is_ipv4() { Prefixed::ALL_V4 } else { Prefixed::ALL_V6 };
    Ok(XfrmSelector {
        src: src.unwrap_or(all),
        dst: dst.unwrap_or(all),
        proto: proto.map(|Protocol(number)| number),
        sport,
        dport,
    })
}

/// A policy out of its words.
///
/// # Errors
/// A sentence.
pub(crate) fn parse_policy(all: &[String]) -> Result<XfrmPolicy, String> {
    let mut words = XfrmWords::new(all);
    let (mut parts, mut dir, mut priority) = (SelectorParts::default(), None, 0);
    let (mut block, mut template) = (false, None);
    while let Some(word) = words.next() {
        match word {
            "dir" => dir = Some(direction(words.value(word)?)?),
            "priority" => priority = words.number(word)?,
            "action" => {
                block = match words.value(word)? {
                    "allow" => false,
                    "block" => true,
                    other => return Err(unexpected(other, "allow and block")),
                }
            }
            "tmpl" => template = Some(parse_template(&mut words)?),
            word if parts.take(word, &mut words)? => {}
            word => return Err(unexpected(word, KNOWN)),
        }
    }
    let action = match (block, template) {
        (true, None) => XfrmAction::Block,
        (true, Some(_)) => return Err("a policy that blocks has no tmpl".to_owned()),
        (false, None) => XfrmAction::Allow,
        (false, Some(template)) => XfrmAction::Protect(template),
    };
    let dir = dir.ok_or("dir in or dir out is needed")?;
    Ok(XfrmPolicy { dir, sel: parts.selector()?, priority, action })
}

/// Direction and selector of a policy that is to be removed.
///
/// # Errors
/// A sentence.
pub(crate) fn parse_policy_name(all: &[String]) -> Result<(XfrmDirection, XfrmSelector), String> {
    let mut words = XfrmWords::new(all);
    let (mut parts, mut dir) = (SelectorParts::default(), None);
    while let Some(word) = words.next() {
        match word {
            "dir" => dir = Some(direction(words.value(word)?)?),
            word if parts.take(word, &mut words)? => {}
            word => return Err(unexpected(word, "src, dst, proto, sport, dport, type, code, dir")),
        }
    }
    Ok((dir.ok_or("dir in or dir out is needed")?, parts.selector()?))
}

fn direction(word: &str) -> Result<XfrmDirection, String> {
    match word {
        "in" => Ok(XfrmDirection::In),
        "out" => Ok(XfrmDirection::Out),
        "fwd" => Err("dir fwd: nothing is forwarded here".to_owned()),
        other => Err(unexpected(other, "in and out")),
    }
}

/// The mode of a word.
pub(super) fn mode(word: &str) -> Result<XfrmMode, String> {
    match word {
        "transport" => Ok(XfrmMode::Transport),
        "tunnel" => Ok(XfrmMode::Tunnel),
        other => Err(unexpected(other, "transport and tunnel")),
    }
}

/// `proto esp`, which is all that there is.
pub(super) fn protocol(word: &str) -> Result<(), String> {
    match word {
        "esp" => Ok(()),
        other => Err(unexpected(other, "esp")),
    }
}

fn parse_template(words: &mut XfrmWords<'_>) -> Result<XfrmTemplate, String> {
    let (mut src, mut dst) = (None, None);
    let mode = XfrmMode::default();
    let mut template = XfrmTemplate { ends: None, spi: None, reqid: 0, mode, optional: false };
    while let Some(word) = words.peek() {
        words.next();
        match word {
            "src" => src = Some(words.parsed::<Address>(word)?.0),
            "dst" => dst = Some(words.parsed::<Address>(word)?.0),
            "proto" => protocol(words.value(word)?)?,
            "spi" => template.spi = Some(words.number(word)?),
            "reqid" => template.reqid = words.number(word)?,
            "mode" => template.mode = self::mode(words.value(word)?)?,
            "level" => {
                template.optional = match words.value(word)? {
                    "required" => false,
                    "use" => true,
                    other => return Err(unexpected(other, "required and use")),
                }
            }
            "tmpl" => return Err("a policy has one tmpl here".to_owned()),
            word => return Err(unexpected(word, KNOWN_OF_TEMPLATES)),
        }
    }
    template.ends = match (src, dst) {
        (Some(src), Some(dst)) => Some((src, dst)),
        (None, None) => None,
        _ => return Err("tmpl has both src and dst, or neither".to_owned()),
    };
    Ok(template)
}
