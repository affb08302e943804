//! Values of an option that is an axis: `0,1,2`, `0..8`, `4..8192`, or for one end `sender=0..8`.

use std::fmt;

/// Places on an axis: in order, each once, one at least.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places(Vec<u32>);

/// The places of an axis: those that were given, else the usual ones. Whoever names the `other`
/// axis of an experiment alone gets none of this one.
#[must_use]
pub fn chosen_places(own: Option<&Places>, other: Option<&Places>, usual: &[u32]) -> Vec<u32> {
    match own {
        Some(given) => given.all().to_vec(),
        None if other.is_some() => Vec::new(),
        None => usual.to_vec(),
    }
}

/// Places as an option takes them: `1,2,4`.
#[must_use]
pub fn listed(places: &[u32]) -> String {
    places.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

/// How a range `a..b` goes from `a` to `b`.
#[derive(Debug, Clone, Copy)]
enum Stride {
    /// By this much.
    By(u32),
    /// To twice the last; from 0 to 1.
    Doubling,
}

/// The bounds of an option's values, and how its ranges go on.
#[derive(Debug, Clone, Copy)]
pub(super) struct PlacesRule {
    least: u32,
    most: u32,
    stride: Stride,
    /// Such as `bytes`.
    what: &'static str,
}

pub(super) const LENGTHS: PlacesRule =
    PlacesRule { least: 4, most: 8192, stride: Stride::Doubling, what: "bytes" };
pub(super) const SIZES: PlacesRule =
    PlacesRule { least: 256, most: 4 << 20, stride: Stride::Doubling, what: "bytes" };
pub(super) const BATCHES: PlacesRule =
    PlacesRule { least: 1, most: 1000, stride: Stride::Doubling, what: "calls" };
pub(super) const UNITS: PlacesRule =
    PlacesRule { least: 1024, most: 64 << 10, stride: Stride::Doubling, what: "bytes" };
pub(super) const AREAS: PlacesRule =
    PlacesRule { least: 1, most: 64, stride: Stride::Doubling, what: "areas" };
pub(super) const RELAYS: PlacesRule =
    PlacesRule { least: 0, most: 8, stride: Stride::By(1), what: "relays" };
pub(super) const CONNECTIONS: PlacesRule =
    PlacesRule { least: 1, most: 10_000, stride: Stride::Doubling, what: "connections" };
pub(super) const PROGRAMS: PlacesRule =
    PlacesRule { least: 1, most: 8, stride: Stride::Doubling, what: "programs" };
pub(super) const STEPS: PlacesRule =
    PlacesRule { least: 1, most: 4096, stride: Stride::Doubling, what: "steps" };
pub(super) const GATEWAYS: PlacesRule =
    PlacesRule { least: 0, most: 4, stride: Stride::By(1), what: "gateways" };
pub(super) const LOADS: PlacesRule =
    PlacesRule { least: 0, most: 8, stride: Stride::By(1), what: "processes" };
pub(super) const POWERS: PlacesRule =
    PlacesRule { least: 10, most: 100, stride: Stride::By(10), what: "percent" };
pub(super) const NETWORK_LOADS: PlacesRule =
    PlacesRule { least: 0, most: 100, stride: Stride::By(10), what: "percent" };
pub(super) const DELAYS: PlacesRule =
    PlacesRule { least: 0, most: 100, stride: Stride::Doubling, what: "milliseconds" };
pub(super) const QUEUES: PlacesRule =
    PlacesRule { least: 16, most: 4096, stride: Stride::Doubling, what: "KiB" };

impl Places {
    /// These, put in order; `None` without any.
    #[must_use]
    pub fn new(mut all: Vec<u32>) -> Option<Self> {
        all.sort_unstable();
        all.dedup();
        (!all.is_empty()).then_some(Self(all))
    }

    /// All, in order.
    #[must_use]
    pub fn all(&self) -> &[u32] {
        &self.0
    }

    /// The least.
    #[must_use]
    pub fn first(&self) -> u32 {
        self.0.first().copied().unwrap_or_default()
    }

    /// Is it an axis?
    #[must_use]
    pub fn are_several(&self) -> bool {
        self.0.len() > 1
    }
}

/// As the command line has it.
impl fmt::Display for Places {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, place) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str(",")?;
            }
            write!(f, "{place}")?;
        }
        Ok(())
    }
}

impl PlacesRule {
    /// Reads what the command line says.
    pub(super) fn parse(self, word: &str) -> Result<Places, String> {
        let mut all = Vec::new();
        for part in word.split(',') {
            match part.split_once("..") {
                None => all.push(self.one(part)?),
                Some((from, to)) => all.extend(self.range(self.one(from)?, self.one(to)?)?),
            }
        }
        Places::new(all).ok_or_else(|| self.rule())
    }

    fn one(self, word: &str) -> Result<u32, String> {
        let value = word.parse().ok().filter(|value| (self.least..=self.most).contains(value));
        value.ok_or_else(|| self.rule())
    }

    fn rule(self) -> String {
        let Self { least, most, what, .. } = self;
        format!("say {what} from {least} to {most}: one, a list such as A,B, or a range A..B")
    }

    fn range(self, from: u32, to: u32) -> Result<Vec<u32>, String> {
        if from > to {
            return Err(format!("{from}..{to} goes down: say {to}..{from}"));
        }
        let next = |last: &u32| match self.stride {
            Stride::By(step) => last.checked_add(step),
            Stride::Doubling => last.checked_mul(2).map(|next| next.max(1)),
        };
        let inside = std::iter::successors(Some(from), next).take_while(|place| *place < to);
        Ok(inside.chain([to]).collect())
    }
}

/// Which of the two hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum HostEnd {
    /// The one that asks.
    Sender,
    /// The one that answers.
    Receiver,
    /// Both alike.
    Both,
}

impl HostEnd {
    /// As the command line has it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Sender => "sender",
            Self::Receiver => "receiver",
            Self::Both => "both",
        }
    }
}

/// Places for one of the two hosts, or for both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPlaces {
    /// Whose.
    pub end: HostEnd,
    /// Which.
    pub places: Places,
}

impl HostPlaces {
    /// `0..8` for both, `sender=0..8`, `receiver=0..8`.
    pub(super) fn parse(rule: PlacesRule, word: &str) -> Result<Self, String> {
        let (end, places) = match word.split_once('=') {
            None => (HostEnd::Both, word),
            Some(("sender", places)) => (HostEnd::Sender, places),
            Some(("receiver", places)) => (HostEnd::Receiver, places),
            Some((other, _)) => {
                return Err(format!("`{other}` is no end: say sender=… or receiver=…"));
            }
        };
        Ok(Self { end, places: rule.parse(places)? })
    }
}

/// As the command line has it.
impl fmt::Display for HostPlaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.end {
            HostEnd::Both => write!(f, "{}", self.places),
            end => write!(f, "{}={}", end.word(), self.places),
        }
    }
}
