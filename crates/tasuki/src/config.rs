//! The configuration file: TOML, every key documented in `examples/instance.toml`.
//!
//! An unknown key is refused, with its line and the known key that is nearest to it: a typing error
//! never silently means "default". Values are checked where they are read, so the message can name
//! the line. Checks that depend on several values are in [`crate::settings`], after the command
//! line.

use std::fmt;
use std::fs::{File, Metadata};
use std::io::Read;
use std::marker::PhantomData;
use std::net::IpAddr;
use std::path::Path;
use std::str::FromStr;

use abi::client::{ClientParams, MOST_PAGES};
use abi::control::{FaultConfig, TcpDefaults};
use abi::network::{Ipv6Mode, MOST_DAD_TRANSMITS, Prefixed};
use rustix::process::Gid;
use serde::de::{self, DeserializeOwned, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use storage::check_private;
use zeroize::Zeroizing;

use crate::cidr::Cidr;
use crate::device::Device;
use crate::exit::{Code, Failure};
use crate::publish::Publish;

mod busy_poll;
mod resolver;
mod xfrm;

pub(crate) use self::busy_poll::BusyPollKey;
pub(crate) use self::resolver::{NameServer, SearchDomain};
pub(crate) use self::xfrm::XfrmSection;

/// A whole file. Everything may be left out.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Config {
    pub(crate) instance: InstanceSection,
    pub(crate) inet: InetSection,
    pub(crate) tcp: TcpDefaults,
    pub(crate) nic: NicSection,
    /// More interfaces: the second, the third, …
    #[serde(rename = "interface")]
    pub(crate) interfaces: Vec<InterfaceSection>,
    pub(crate) xfrm: XfrmSection,
    pub(crate) memory: MemorySection,
}

/// `[instance]`
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct InstanceSection {
    pub(crate) mode: Mode,
    pub(crate) clients: Ranged<1, 4000>,
    pub(crate) busy_poll: BusyPollKey,
    pub(crate) keep_awake: bool,
    pub(crate) group: Option<Group>,
    pub(crate) faults_per_second: Ranged<0, 1000>,
    pub(crate) dns: List<NameServer>,
    pub(crate) search: List<SearchDomain>,
    pub(crate) raw_sockets: bool,
}

impl Default for InstanceSection {
    fn default() -> Self {
        Self {
            mode: Mode::default(),
            clients: Ranged(1000),
            busy_poll: BusyPollKey::default(),
            keep_awake: true,
            group: None,
            faults_per_second: Ranged(1),
            dns: List::default(),
            search: List::default(),
            raw_sockets: false,
        }
    }
}

/// A group of users, by name or number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Group(pub(crate) Gid);

impl TryFrom<String> for Group {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let number = name.parse().ok().or_else(|| {
            let all = std::fs::read_to_string("/etc/group").unwrap_or_default();
            group_number(&all, &name)
        });
        // The last number means "no group" to the system.
        let number = number.filter(|number| *number != u32::MAX);
        number.map(|number| Self(Gid::from_raw(number))).ok_or_else(|| {
            format!("there is no group {name:?} in /etc/group: give one of it, or a number")
        })
    }
}

/// The number of a group in the text of group(5).
fn group_number(all: &str, name: &str) -> Option<u32> {
    all.lines().find_map(|line| {
        let mut fields = line.split(':');
        let number = (fields.next() == Some(name)).then(|| fields.nth(1))??;
        number.parse().ok()
    })
}

/// `[inet]`
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct InetSection {
    pub(crate) address: List<Cidr>,
    pub(crate) gateway: List<Router>,
    pub(crate) ipv6: Ipv6Mode,
    pub(crate) rp_filter: u8,
    pub(crate) dad_transmits: Option<DadTransmits>,
    pub(crate) dhcp: bool,
    pub(crate) routes: Vec<RouteSection>,
}

/// One of `[[inet.routes]]`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RouteSection {
    pub(crate) to: Prefixed,
    pub(crate) via: Option<Router>,
    #[serde(default)]
    pub(crate) metric: u32,
}

/// A router's address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Router(pub(crate) IpAddr);

impl FromStr for Router {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text.parse().map(Self);
        parsed.map_err(|_| format!("`{text}` is not an IP address such as 10.219.0.1 or fd00::1"))
    }
}

impl TryFrom<String> for Router {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

/// One value or an array of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct List<T>(pub(crate) Vec<T>);

impl<T> Default for List<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: FromStr<Err = String>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ListVisitor(PhantomData))
    }
}

struct ListVisitor<T>(PhantomData<T>);

impl<'de, T: FromStr<Err = String>> Visitor<'de> for ListVisitor<T> {
    type Value = List<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string or an array of strings")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<List<T>, E> {
        text.parse().map(|one| List(vec![one])).map_err(E::custom)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<List<T>, A::Error> {
        let mut all = Vec::new();
        while let Some(text) = seq.next_element::<String>()? {
            all.push(text.parse().map_err(de::Error::custom)?);
        }
        Ok(List(all))
    }
}

/// `[nic]`
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct NicSection {
    pub(crate) device: Option<Device>,
    pub(crate) mtu: Mtu,
    pub(crate) offload: Option<bool>,
    pub(crate) publish: List<Publish>,
    pub(crate) fault: Fault,
}

/// One of `[[interface]]`, with the keys that `[inet]` and `[nic]` have for the first interface.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct InterfaceSection {
    pub(crate) device: Option<Device>,
    pub(crate) mtu: Mtu,
    pub(crate) offload: Option<bool>,
    pub(crate) publish: List<Publish>,
    pub(crate) address: List<Cidr>,
    pub(crate) gateway: List<Router>,
    pub(crate) dad_transmits: Option<DadTransmits>,
    pub(crate) dhcp: bool,
    pub(crate) routes: Vec<RouteSection>,
    pub(crate) fault: Fault,
}

/// Probes for an IPv6 address.
pub(crate) type DadTransmits = Ranged<0, { MOST_DAD_TRANSMITS as u32 }>;

/// IP bytes per frame.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
pub(crate) struct Mtu(pub(crate) Ranged<576, { abi::frame::MAX_MTU as u32 }>);

impl Default for Mtu {
    fn default() -> Self {
        Self(Ranged(1500))
    }
}

/// `[memory]`
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct MemorySection {
    pub(crate) huge_pages: bool,
    pub(crate) strict: bool,
    pub(crate) share_frames: bool,
    pub(crate) client: ClientSection,
}

/// Sockets of a client whose region is of huge pages.
const HUGE_PAGES_SOCKETS: u16 = 1024;

/// `[memory.client]`: the measures of each client's region.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ClientSection {
    pub(crate) huge_pages: bool,
    threads: Ranged<1, 64>,
    sockets: Option<Ranged<1, 65_535>>,
    area_pages: Ranged<1, 256>,
    tx_pages: Option<Ranged<1, MOST_PAGES>>,
    rx_pages: Option<Ranged<1, MOST_PAGES>>,
}

impl Default for ClientSection {
    fn default() -> Self {
        let params = ClientParams::default();
        Self {
            huge_pages: false,
            threads: Ranged(params.threads.into()),
            sockets: None,
            area_pages: Ranged(params.area_pages.into()),
            tx_pages: None,
            rx_pages: None,
        }
    }
}

impl ClientSection {
    /// The measures. Pools that are not given get the usual size for so many sockets. With huge
    /// pages, which are taken at once for the whole region, the default is a small region.
    ///
    /// # Errors
    /// A sentence, when the pools cannot give every socket an area or are too large.
    pub(crate) fn params(&self) -> Result<ClientParams, String> {
        let sockets = match self.sockets {
            Some(sockets) => sockets.narrow(),
            None if self.huge_pages => HUGE_PAGES_SOCKETS,
            None => ClientParams::default().sockets,
        };
        let (threads, area_pages) = (self.threads.narrow(), self.area_pages.narrow());
        let mut params = ClientParams::with_pools(threads, sockets, area_pages);
        params.tx_pages = self.tx_pages.map_or(params.tx_pages, |pages| pages.0);
        params.rx_pages = self.rx_pages.map_or(params.rx_pages, |pages| pages.0);
        let least = params.least_pages();
        for (key, pages) in [("tx_pages", params.tx_pages), ("rx_pages", params.rx_pages)] {
            if pages < least {
                return Err(format!(
                    "{sockets} sockets with areas of {area_pages} pages need memory.client.{key} \
                     of at least {least} (at most {MOST_PAGES}), not {pages}: use fewer sockets, \
                     smaller areas or more pages",
                ));
            }
        }
        params.layout().map_err(|error| error.to_string())?;
        Ok(params)
    }
}

/// An integer in a range, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "i64")]
pub(crate) struct Ranged<const LEAST: u32, const MOST: u32>(pub(crate) u32);

impl<const LEAST: u32, const MOST: u32> Ranged<LEAST, MOST> {
    /// As 16 bits, which every range but that of pools fits.
    pub(crate) fn narrow(self) -> u16 {
        u16::try_from(self.0).unwrap_or(u16::MAX)
    }
}

impl<const LEAST: u32, const MOST: u32> TryFrom<i64> for Ranged<LEAST, MOST> {
    type Error = String;

    fn try_from(value: i64) -> Result<Self, String> {
        u32::try_from(value)
            .ok()
            .filter(|value| (LEAST..=MOST).contains(value))
            .map(Self)
            .ok_or_else(|| format!("{value} is not in {LEAST} to {MOST}"))
    }
}

/// Which processes an instance is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Mode {
    /// Inet server and NIC driver are processes of their own
    #[default]
    Split,
    /// Inet server and NIC driver share one process
    Fused,
    /// Both are inside the program that uses them, one at a time
    Library,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Split => "split",
            Self::Fused => "fused",
            Self::Library => "library",
        })
    }
}

/// The longest delay of a wire, microseconds.
const MOST_DELAY_US: u32 = 1_000_000;

/// Faults to make on the wire, each probability in 0 to 1; `loss=0.01,seed=7` on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Default, Deserialize)]
#[serde(try_from = "FaultConfig")]
pub(crate) struct Fault(pub(crate) FaultConfig);

impl TryFrom<FaultConfig> for Fault {
    type Error = String;

    fn try_from(fault: FaultConfig) -> Result<Self, String> {
        let FaultConfig { loss, duplicate, reorder, corrupt, super_segments, .. } = fault;
        let all =
            [("loss", loss), ("duplicate", duplicate), ("reorder", reorder), ("corrupt", corrupt)];
        match all.iter().find(|(_, value)| !(0.0..=1.0).contains(value)) {
            Some((key, value)) => Err(format!("{key} = {value} is not a probability (0 to 1)")),
            None if fault.delay_us > MOST_DELAY_US => Err(format!(
                "delay_us = {} is more than a second ({MOST_DELAY_US})",
                fault.delay_us
            )),
            None if super_segments && corrupt > 0.0 => Err(format!(
                "corrupt = {corrupt} cannot be with super_segments: their checksums are left to \
                 the device, so nobody could find out; leave one of both away"
            )),
            None => Ok(Self(fault)),
        }
    }
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const KNOWN: [&str; 7] =
            ["loss", "duplicate", "reorder", "corrupt", "delay_us", "seed", "super_segments"];
        let mut fault = FaultConfig::default();
        for item in text.split(',') {
            let (key, value) = item
                .split_once('=')
                .ok_or_else(|| format!("`{item}` is not KEY=VALUE, as in loss=0.01"))?;
            let probability =
                || value.parse().map_err(|_| format!("{key}: `{value}` is not a number"));
            match key {
                "loss" => fault.loss = probability()?,
                "duplicate" => fault.duplicate = probability()?,
                "reorder" => fault.reorder = probability()?,
                "corrupt" => fault.corrupt = probability()?,
                "delay_us" => {
                    fault.delay_us = value
                        .parse()
                        .map_err(|_| format!("{key}: `{value}` is no number of microseconds"))?;
                }
                "seed" => {
                    fault.seed = value
                        .parse()
                        .map_err(|_| format!("seed: `{value}` is not a whole number"))?;
                }
                "super_segments" => {
                    fault.super_segments = match value {
                        "on" => true,
                        "off" => false,
                        _ => return Err(format!("{key}: `{value}` is neither on nor off")),
                    };
                }
                _ => return Err(unknown("fault", key, &KNOWN)),
            }
        }
        fault.try_into()
    }
}

/// "unknown KIND `x`; did you mean `y`?"
fn unknown(kind: &str, given: &str, known: &[&str]) -> String {
    let nearest = known
        .iter()
        .map(|known| (strsim::damerau_levenshtein(given, known), known))
        .filter(|(distance, known)| *distance <= (known.len() / 2).max(2))
        .min();
    match nearest {
        Some((_, nearest)) => format!("unknown {kind} `{given}`; did you mean `{nearest}`?"),
        None => format!("unknown {kind} `{given}`; known are {}", known.join(", ")),
    }
}

impl Config {
    /// Reads a file.
    ///
    /// # Errors
    /// [`Code::Configuration`]; the sentence names file, line and remedy.
    pub(crate) fn load(path: &Path) -> Result<Self, Failure> {
        load(path, |text, metadata| {
            let config = Self::parse(text)?;
            if config.xfrm.has_keys()
                && let Err(what) = check_private(path, metadata)
            {
                return Err((None, format!("it has keys, and {what}, or use key_file")));
            }
            Ok(config)
        })
    }

    /// Out of a file's text.
    fn parse(text: &str) -> Result<Self, Misplaced> {
        parse(text)
    }
}

/// What is wrong in a file: a line, counted from 1, and a sentence.
pub(crate) type Misplaced = (Option<usize>, String);

/// Reads a file and takes its text, which may have keys in it.
///
/// # Errors
/// [`Code::Configuration`]; the sentence names file, line and remedy.
pub(crate) fn load<T>(
    path: &Path,
    take: impl FnOnce(&str, &Metadata) -> Result<T, Misplaced>,
) -> Result<T, Failure> {
    let wrong = |sentence| Failure::new(Code::Configuration, sentence);
    let read = || {
        let mut file = File::open(path)?;
        let mut text = Zeroizing::new(String::new());
        file.read_to_string(&mut text)?;
        Ok::<_, std::io::Error>((file.metadata()?, text))
    };
    let (metadata, text) = read().map_err(|error| {
        wrong(format!("cannot read the configuration file {}: {error}", path.display()))
    })?;
    take(&text, &metadata).map_err(|(line, what)| {
        let line = line.map_or_else(String::new, |line| format!(":{line}"));
        wrong(format!("{}{line}: {what}", path.display()))
    })
}

/// The value of a file's text.
pub(crate) fn parse<T: DeserializeOwned>(text: &str) -> Result<T, Misplaced> {
    toml::from_str(text).map_err(|error| {
        let line = error.span().map(|span| line_at(text, span.start));
        (line, explain(text, line, error.message()))
    })
}

/// The line of a byte, counted from 1.
pub(crate) fn line_at(text: &str, byte: usize) -> usize {
    text.bytes().take(byte).filter(|byte| *byte == b'\n').count() + 1
}

/// The parser's message after the key that it is about. Unknown keys and values get the nearest
/// known one, and unknown keys their section. Text without quotes is reported as such. serde writes
/// "unknown field `x`, expected one of `a`, `b`" (or "expected `a`" when there is one).
fn explain(text: &str, line: Option<usize>, message: &str) -> String {
    let lines: Vec<&str> = text.lines().take(line.unwrap_or(0)).collect();
    let mut quoted = message.split('`').skip(1).step_by(2);
    let Some(given) = quoted.next().filter(|_| message.starts_with("unknown field")) else {
        let Some((key, value)) = lines.last().and_then(|line| line.split_once('=')) else {
            return message.trim_end().replace('\n', "; ");
        };
        let (key, value) = (key.trim(), value.split('#').next().unwrap_or_default().trim());
        let known: Vec<&str> = message.split('`').skip(1).step_by(2).skip(1).collect();
        return if message.starts_with("unknown variant") {
            format!("{key}: {}", unknown("value", value.trim_matches('"'), &known))
        } else if lacks_quotes(value) {
            format!("{key}: text needs quotes: {key} = \"{value}\"")
        } else {
            format!("{key}: {}", message.trim_end().replace('\n', "; "))
        };
    };
    let known: Vec<&str> = quoted.collect();
    let head = |line: &&str| line.trim_start().starts_with('[');
    match lines.iter().rev().find(|line| head(line)) {
        // The unknown name may be the section itself.
        Some(section) if !section.contains(given) => {
            unknown(&format!("key in {}", section.trim()), given, &known)
        }
        Some(_) => unknown("section", given, &known),
        None => unknown("key", given, &known),
    }
}

/// Is it neither quoted nor anything else that TOML knows?
fn lacks_quotes(value: &str) -> bool {
    !value.is_empty()
        && !value.starts_with(['"', '\'', '[', '{'])
        && !["true", "false"].contains(&value)
        && value.replace('_', "").parse::<f64>().is_err()
}

#[cfg(test)]
mod tests;
