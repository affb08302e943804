//! What a target is: its name, its units, its portal.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::str::FromStr;

use iscsi::IscsiName;
use iscsi::settings::DigestPreference;
use scsi::{BlockSize, LunNumber};

use crate::access::AccessPolicy;
use crate::identity::IdentityRegister;
use crate::state_file::StateStore;
use crate::transport::PortalTransport;
use crate::volume::{OpenError, OpenedVolume, SpecificationError, VolumeSpecification};

/// Sessions of a target at a time.
pub const MOST_SESSIONS: usize = 64;
/// Units of a target.
pub const MOST_LUNS: usize = 256;
/// The begin of names that nobody has chosen.
pub const AUTHORITY: &str = "iqn.2026-11.tasuki";
/// The port of iSCSI (RFC 7143 15).
pub const PORT: u16 = 3260;

/// A target.
#[derive(Debug)]
pub struct TargetDefinition {
    /// Its name.
    pub name: IscsiName,
    /// Its units.
    pub luns: BTreeMap<LunNumber, LunDefinition>,
    /// Where it listens.
    pub portal: SocketAddr,
    /// How its portal is protected.
    pub transport: PortalTransport,
    /// Digests of headers and data.
    pub digest: DigestPreference,
    /// Where reservations and mode pages are kept that outlive the process; `None`: they do not.
    pub state: Option<Rc<dyn StateStore>>,
    /// Where identities of volumes are kept that cannot keep their own.
    pub register: IdentityRegister,
    /// Who may use it.
    pub access: AccessPolicy,
}

/// A unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LunDefinition {
    /// Its bytes.
    pub volume: VolumeSpecification,
    /// Bytes of a block.
    pub block_size: BlockSize,
    /// Writes are refused.
    pub read_only: bool,
    /// The medium can be ejected.
    pub removable: bool,
    /// Writes without FUA are acknowledged before they are on stable storage, until a flush.
    pub write_cache: bool,
    /// Unit serial number; `None`: the volume's identity.
    pub serial: Option<String>,
}

/// A word that names no unit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LunError {
    /// Its volume.
    #[error(transparent)]
    Volume(#[from] SpecificationError),
    /// An option of it.
    #[error("`{0}` is no option: ro, removable, writethrough, block=512, block=4096, serial=TEXT")]
    Option(String),
}

/// `file:PATH[,ro][,removable][,writethrough][,block=4096][,serial=TEXT]`, and the other volumes.
impl FromStr for LunDefinition {
    type Err = LunError;

    fn from_str(word: &str) -> Result<Self, LunError> {
        let mut words = word.split(',');
        let mut lun = Self {
            volume: words.next().unwrap_or_default().parse()?,
            block_size: BlockSize::B512,
            read_only: false,
            removable: false,
            write_cache: true,
            serial: None,
        };
        for option in words {
            match (option, option.split_once('=')) {
                ("ro", _) => lun.read_only = true,
                ("removable", _) => lun.removable = true,
                ("writethrough", _) => lun.write_cache = false,
                ("block=512", _) => lun.block_size = BlockSize::B512,
                ("block=4096", _) => lun.block_size = BlockSize::B4096,
                (_, Some(("serial", serial))) => lun.serial = Some(serial.to_owned()),
                _ => return Err(LunError::Option(option.to_owned())),
            }
        }
        Ok(lun)
    }
}

/// As it is parsed.
impl fmt::Display for LunDefinition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},block={}", self.volume, self.block_size.bytes())?;
        for (set, word) in [
            (self.read_only, ",ro"),
            (self.removable, ",removable"),
            (!self.write_cache, ",writethrough"),
        ] {
            if set {
                f.write_str(word)?;
            }
        }
        self.serial.as_ref().map_or(Ok(()), |serial| write!(f, ",serial={serial}"))
    }
}

impl LunDefinition {
    /// The same unit for a process with another working directory.
    ///
    /// # Errors
    /// There is no working directory.
    pub fn absolute(mut self) -> io::Result<Self> {
        if let VolumeSpecification::File(path) = &mut self.volume {
            *path = std::path::absolute(&*path)?;
        }
        Ok(self)
    }

    /// What is to be said of bytes of its file that are behind the last whole block, which the
    /// unit does not have.
    #[must_use]
    pub fn tail(&self) -> Option<String> {
        self.volume.tail(self.block_size.bytes())
    }

    /// Opens the unit's volume, which no other target has then: with the rights of this process,
    /// whichever serves it.
    ///
    /// # Errors
    /// Why it cannot be opened, and what to do.
    pub fn open(&self, register: &IdentityRegister) -> Result<OpenedVolume, OpenError> {
        self.volume.open(self.block_size.bytes(), self.read_only, register)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_has_options() {
        let lun: LunDefinition = "memory:1M,ro,block=4096,serial=a".parse().unwrap();
        assert_eq!(lun.volume, VolumeSpecification::Memory(1 << 20));
        assert!(lun.read_only && lun.write_cache && !lun.removable);
        assert_eq!(lun.block_size, BlockSize::B4096);
        assert_eq!(lun.serial.as_deref(), Some("a"));
        assert_eq!(lun.to_string().parse(), Ok(lun));
    }

    #[test]
    fn unknown_options_are_named() {
        for (word, option) in [("memory:1M,rw", "rw"), ("memory:1M,block=1024", "block=1024")] {
            let error = word.parse::<LunDefinition>().unwrap_err();
            assert_eq!(error, LunError::Option(option.to_owned()));
        }
    }
}
