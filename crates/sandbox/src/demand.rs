//! How much of the sandbox the user wants.

use std::ffi::OsStr;
use std::fmt;
use std::str::FromStr;

/// The environment variable that says so.
pub const VARIABLE: &str = "TASUKI_SANDBOX";

/// How much of the sandbox is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Demand {
    /// None, for debugging.
    Off,
    /// As much as kernel and rights allow.
    #[default]
    On,
    /// All of it, or the instance does not start.
    Require,
}

impl Demand {
    /// Out of the variable's value, `None` if it is not set.
    ///
    /// # Errors
    /// One sentence about a value that means nothing.
    pub fn from_variable(value: Option<&OsStr>) -> Result<Self, String> {
        match value.filter(|value| !value.is_empty()) {
            None => Ok(Self::default()),
            Some(value) => value.to_string_lossy().parse(),
        }
    }
}

impl FromStr for Demand {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "off" => Ok(Self::Off),
            "on" => Ok(Self::On),
            "require" => Ok(Self::Require),
            _ => Err(format!("{VARIABLE} is {text:?}: use on, off or require")),
        }
    }
}

impl fmt::Display for Demand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Off => "off",
            Self::On => "on",
            Self::Require => "require",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable() {
        let read = |text: &str| Demand::from_variable(Some(OsStr::new(text)));
        assert_eq!(Demand::from_variable(None), Ok(Demand::On));
        assert_eq!(read(""), Ok(Demand::On));
        for demand in [Demand::Off, Demand::On, Demand::Require] {
            assert_eq!(read(&demand.to_string()), Ok(demand));
        }
        assert!(read("no").is_err());
    }
}
