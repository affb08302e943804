//! Names of logical units, nexuses and initiator ports.

use core::fmt;

/// The number of a logical unit: 0 to [`LunNumber::MAX`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LunNumber(u16);

impl LunNumber {
    /// The highest number that flat space addressing can name (SAM-5 4.7.7.4).
    pub const MAX: u16 = 0x3fff;

    /// The unit of that number; `None` above [`LunNumber::MAX`].
    pub const fn new(number: u16) -> Option<Self> {
        if number <= Self::MAX { Some(Self(number)) } else { None }
    }

    /// The number.
    pub const fn get(self) -> u16 {
        self.0
    }

    /// The eight bytes by which REPORT LUNS names the unit: peripheral device addressing below
    /// 256, flat space addressing above.
    pub const fn to_wire(self) -> [u8; 8] {
        let [high, low] = self.0.to_be_bytes();
        let method = if self.0 < 256 { 0 } else { 0x40 };
        [method | high, low, 0, 0, 0, 0, 0, 0]
    }
}

impl fmt::Display for LunNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What the eight bytes of a LUN field name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LunAddress {
    /// A logical unit of the first level. It need not exist.
    Unit(LunNumber),
    /// The REPORT LUNS well known logical unit (SPC-4 8.2).
    ReportLuns,
    /// An address of another method, or of a deeper level.
    Unknown,
}

impl LunAddress {
    /// Reads a LUN field (SAM-5 4.7).
    pub fn parse(field: [u8; 8]) -> Self {
        let [first, second, rest @ ..] = field;
        if field == [0xc1, 1, 0, 0, 0, 0, 0, 0] {
            return Self::ReportLuns;
        }
        let number = match first >> 6 {
            // SAM-5 4.7.7.2: bus 0 is the target itself.
            0 if first == 0 => u16::from(second),
            // SAM-5 4.7.7.4.
            1 => u16::from_be_bytes([first & 0x3f, second]),
            _ => return Self::Unknown,
        };
        match rest == [0; 6] {
            true => Self::Unit(LunNumber(number)),
            false => Self::Unknown,
        }
    }
}

/// A shell's name for one I_T nexus, which for iSCSI is a session. It means nothing to this crate.
/// A shell does not use a number again before it has removed the nexus.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NexusId(pub u64);

/// An iSCSI initiator port: the name that persistent reservations know it by.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct InitiatorPort {
    name: String,
    isid: [u8; 6],
}

impl InitiatorPort {
    /// Most bytes of an iSCSI name (RFC 7143 4.2.7.1).
    pub const MOST_NAME: usize = 223;

    /// The port of that iSCSI name and initiator session identifier.
    ///
    /// `None` if the name is empty, is longer than [`InitiatorPort::MOST_NAME`] bytes, or has a NUL
    /// or a comma, which a TransportID cannot carry.
    pub fn new(name: &str, isid: [u8; 6]) -> Option<Self> {
        let sound = (1..=Self::MOST_NAME).contains(&name.len()) && !name.contains(['\0', ',']);
        sound.then(|| Self { name: name.to_owned(), isid })
    }

    /// The iSCSI name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The initiator session identifier.
    pub const fn isid(&self) -> [u8; 6] {
        self.isid
    }
}
