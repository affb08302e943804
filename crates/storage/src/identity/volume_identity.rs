//! The number that tells one volume from all others.

use std::fmt;
use std::io;
use std::str::FromStr;

use rustix::rand::{GetRandomFlags, getrandom};

/// The identity of a volume: a number that no other volume has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct VolumeIdentity(pub(super) u128);

/// Text that is no identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an identity of a volume has 32 hexadecimal digits")]
pub struct NoIdentity;

impl VolumeIdentity {
    /// One that nobody has.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn random() -> io::Result<Self> {
        let mut bytes = [0; 16];
        getrandom(&mut bytes, GetRandomFlags::empty())?;
        Ok(Self(u128::from_be_bytes(bytes)))
    }

    /// Its bytes.
    pub(crate) fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    /// The number of 60 bits by which the unit's NAA designator names it.
    pub(crate) fn identifier(self) -> u64 {
        u64::try_from(self.0 >> 68).unwrap_or(0)
    }
}

/// 32 hexadecimal digits: the unit's serial number.
impl fmt::Display for VolumeIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl FromStr for VolumeIdentity {
    type Err = NoIdentity;

    fn from_str(text: &str) -> Result<Self, NoIdentity> {
        let digits = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = digits.then(|| u128::from_str_radix(text, 16).ok()).flatten();
        number.map(Self).ok_or(NoIdentity)
    }
}
