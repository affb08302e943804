//! Configuration of targets and logical units.

use bytes::Bytes;

/// A target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TargetConfig {
    /// iSCSI name: the SCSI target device's name. At most 223 bytes.
    pub name: String,
    /// T10 vendor identification: up to eight graphic ASCII characters.
    pub vendor: String,
    /// Product revision level: up to four graphic ASCII characters.
    pub revision: String,
    /// Number of the target's one port group, from 1.
    pub port_group: u16,
    /// The target's ports, each by the number that iSCSI calls the portal group tag. At most
    /// [`TargetConfig::MOST_PORTS`], none twice, none 0.
    pub ports: Vec<u16>,
    /// Most I_T nexuses at a time.
    pub most_nexuses: usize,
    /// Most logical units.
    pub most_luns: usize,
}

impl TargetConfig {
    /// Most ports of a target.
    pub const MOST_PORTS: usize = 32;
}

/// Bytes of a logical block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BlockSize {
    /// 512 bytes.
    B512,
    /// 4,096 bytes.
    B4096,
}

impl BlockSize {
    /// Bytes.
    pub const fn bytes(self) -> u32 {
        1 << self.shift()
    }

    /// The power of two.
    pub const fn shift(self) -> u32 {
        match self {
            Self::B512 => 9,
            Self::B4096 => 12,
        }
    }
}

/// How a unit's storage is provisioned (SBC-3 4.7).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Provisioning {
    /// Every block has storage. There is no UNMAP.
    Full,
    /// Blocks without storage read as zero.
    Thin {
        /// Blocks that a good UNMAP is a multiple of, a power of two.
        granularity: u32,
        /// The medium can reserve storage for a range ([`crate::Allocation::Anchor`]).
        anchor: bool,
    },
}

/// A logical unit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LunConfig {
    /// Product identification: up to 16 graphic ASCII characters.
    pub product: String,
    /// Unit serial number: 1 to [`LunConfig::MOST_SERIAL`] graphic ASCII characters.
    pub serial: String,
    /// Identifier, by which EXTENDED COPY finds the unit: it differs from that of every other unit
    /// of all targets that an initiator sees. The highest four bits are not used.
    pub identifier: u64,
    /// Size of a block.
    pub block_size: BlockSize,
    /// Blocks, from 1 to [`LunConfig::MOST_BLOCKS`].
    pub blocks: u64,
    /// log2 of the logical blocks in a physical block; at most 15.
    pub physical_exponent: u8,
    /// How storage is provisioned.
    pub provisioning: Provisioning,
    /// The unit refuses writes.
    pub read_only: bool,
    /// The medium can be ejected and loaded.
    pub removable: bool,
    /// The unit says that it does not rotate.
    pub solid_state: bool,
    /// Most blocks that one command may transfer, from 1 (MAXIMUM TRANSFER LENGTH).
    pub most_transfer: u32,
    /// The write cache is on at power on (WCE): writes without FUA need not be on stable storage
    /// when they are acknowledged.
    pub write_cache: bool,
    /// The shell keeps state of this unit: it answers [`crate::Step::Store`]. So MODE SELECT can
    /// save pages, and persistent reservations can survive a loss of power.
    pub keeps_state: bool,
    /// Mode pages that were stored last.
    pub mode_pages: Option<Bytes>,
    /// Persistent reservations that were stored last.
    pub reservations: Option<Bytes>,
}

impl LunConfig {
    /// Most characters of a serial number.
    pub const MOST_SERIAL: usize = 32;
    /// Most blocks: a unit's bytes fit 63 bits.
    pub const MOST_BLOCKS: u64 = 1 << 50;

    /// A thin, writable unit with blocks of 512 bytes.
    pub fn new(serial: &str, identifier: u64, blocks: u64) -> Self {
        Self {
            product: "disk".to_owned(),
            serial: serial.to_owned(),
            identifier,
            block_size: BlockSize::B512,
            blocks,
            physical_exponent: 0,
            provisioning: Provisioning::Thin { granularity: 8, anchor: false },
            read_only: false,
            removable: false,
            solid_state: true,
            most_transfer: 16384,
            write_cache: true,
            keeps_state: false,
            mode_pages: None,
            reservations: None,
        }
    }
}

/// Why the shell's call was refused. The fault is the configuration's or the shell's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TargetError {
    /// The target has all the units that it may have.
    #[error("the target has no room for another logical unit: raise the number of units")]
    NoRoomForLun,
    /// The unit is there already.
    #[error("the logical unit is there already: choose another number")]
    LunInUse,
    /// Another unit has the identifier.
    #[error("another logical unit has this identifier: choose another one")]
    IdentifierInUse,
    /// There is no such unit.
    #[error("there is no such logical unit")]
    NoSuchLun,
    /// The target has all the nexuses that it may have.
    #[error("the target has no room for another initiator: raise the number of nexuses")]
    NoRoomForNexus,
    /// The nexus is there already.
    #[error("the nexus is there already")]
    NexusInUse,
    /// The target has no such port.
    #[error("the target has no such port")]
    NoSuchPort,
    /// A value of the configuration is out of its range.
    #[error("{0} is out of range")]
    OutOfRange(&'static str),
    /// Stored state cannot be read: it is damaged, or a later version wrote it.
    #[error("stored {0} cannot be read: restore the file, or remove it to start without")]
    Stored(&'static str),
    /// The unit's medium cannot be ejected or loaded.
    #[error("the logical unit is not removable")]
    NotRemovable,
}
