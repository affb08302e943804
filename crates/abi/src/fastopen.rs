//! The keys of Fast Open cookies, in the form of Linux's `net.ipv4.tcp_fastopen_key`.

use core::fmt::{self, Display, Formatter};
use core::str::FromStr;

use serde::{Deserialize, Serialize};

/// One key, or two with a comma between them. A key is four hexadecimal numbers of 32 bits with
/// hyphens between them. Its bytes are the numbers' bytes, little-endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct FastopenKeys {
    /// The key of new cookies.
    pub current: [u8; 16],
    /// A second key whose cookies are valid too.
    pub other: Option<[u8; 16]>,
}

/// A text that is no key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadKeys(String);

impl Display for BadKeys {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self(text) = self;
        let form = "four hexadecimal numbers with hyphens, or two such keys with a comma";
        write!(f, "{text:?} is no key of Fast Open cookies: {form}")
    }
}

impl std::error::Error for BadKeys {}

fn key(text: &str) -> Option<[u8; 16]> {
    let mut key = [0; 16];
    let mut words = text.trim().split('-');
    for place in key.chunks_exact_mut(4) {
        let word = words.next().filter(|word| (1..=8).contains(&word.len()))?;
        place.copy_from_slice(&u32::from_str_radix(word, 16).ok()?.to_le_bytes());
    }
    words.next().is_none().then_some(key)
}

impl FromStr for FastopenKeys {
    type Err = BadKeys;

    fn from_str(text: &str) -> Result<Self, BadKeys> {
        let mut keys = text.split(',').map(key);
        match (keys.next(), keys.next(), keys.next()) {
            (Some(Some(current)), None, None) => Ok(Self { current, other: None }),
            (Some(Some(current)), Some(Some(other)), None) => {
                Ok(Self { current, other: Some(other) })
            }
            _ => Err(BadKeys(text.to_owned())),
        }
    }
}

impl TryFrom<String> for FastopenKeys {
    type Error = BadKeys;

    fn try_from(text: String) -> Result<Self, BadKeys> {
        text.parse()
    }
}

impl Display for FastopenKeys {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let keys = [Some(self.current), self.other];
        for (at, key) in keys.into_iter().flatten().enumerate() {
            for (word, bytes) in key.as_chunks::<4>().0.iter().enumerate() {
                let before = if word > 0 {
                    "-"
                } else if at > 0 {
                    ","
                } else {
                    ""
                };
                write!(f, "{before}{:08x}", u32::from_le_bytes(*bytes))?;
            }
        }
        Ok(())
    }
}

impl From<FastopenKeys> for String {
    fn from(keys: FastopenKeys) -> Self {
        keys.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_written_as_linux_writes_them() {
        let one = "a0bf63f7-ed803d81-cd641d30-cebc4a90";
        let keys: FastopenKeys = one.parse().unwrap();
        assert_eq!(keys.current[..4], [0xf7, 0x63, 0xbf, 0xa0]);
        assert_eq!((keys.other, keys.to_string()), (None, one.to_owned()));
        let two = format!("{one},1-2-3-4").parse::<FastopenKeys>().unwrap();
        assert_eq!(two.other.unwrap()[12..], [4, 0, 0, 0]);
        assert_eq!(two.to_string(), format!("{one},00000001-00000002-00000003-00000004"));
        for bad in ["", "1-2-3", "1-2-3-4-5", "1-2-3-g", "1-2-3-4,", "1-2-3-4,1-2-3-4,1-2-3-4"] {
            assert!(bad.parse::<FastopenKeys>().is_err(), "{bad}");
        }
    }
}
