//! The key `instance.busy_poll`.

use std::fmt;

use abi::control::BusyPoll;
use serde::de::{self, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

/// The most microseconds.
const MOST: u32 = 1000;

/// `"auto"`, or microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct BusyPollKey(pub(crate) BusyPoll);

impl<'de> Deserialize<'de> for BusyPollKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(KeyVisitor)
    }
}

struct KeyVisitor;

impl Visitor<'_> for KeyVisitor {
    type Value = BusyPollKey;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"auto\" or microseconds, 0 to {MOST}")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<BusyPollKey, E> {
        match text {
            "auto" => Ok(BusyPollKey(BusyPoll::Auto)),
            other => Err(E::invalid_value(Unexpected::Str(other), &self)),
        }
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<BusyPollKey, E> {
        let micros = u32::try_from(value).ok().filter(|micros| *micros <= MOST);
        let micros = micros.ok_or_else(|| E::invalid_value(Unexpected::Signed(value), &self))?;
        Ok(BusyPollKey(BusyPoll::Micros(micros)))
    }
}
