//! What a unit says of itself: which one it is, its size, what it can do.

use bytes::Bytes;

use super::unit_session::UnitSession;
use crate::initiator::{Capacity, InitiatorError};

/// Bytes of one transfer where the unit names no bound, or a larger one.
const MOST_TRANSFER: u32 = 1 << 20;
/// Bytes of one WRITE SAME.
const MOST_SAME: u64 = 32 << 20;

/// What a unit says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UnitFacts {
    pub(super) capacity: Capacity,
    /// The page of the unit serial number (SPC-4 7.8.15).
    serial: Bytes,
    /// Designators of the unit itself (SPC-4 7.8.6), without those of its port and target.
    names: Vec<Bytes>,
    /// It takes no writes.
    pub(super) read_only: bool,
    /// A write can be asked to be durable.
    pub(super) fua: bool,
    /// Blocks of one READ or WRITE.
    pub(super) most_transfer: u32,
    /// Blocks of one WRITE SAME.
    pub(super) most_same: u32,
    /// WRITE SAME can give storage back.
    pub(super) unmaps: bool,
    /// The unit may have blocks without storage, and these read as zeroes.
    pub(super) holes_are_zero: bool,
}

impl UnitFacts {
    /// Asks the unit. Unit attentions of a new session come with the first command.
    ///
    /// # Errors
    /// The unit is not ready, or the connection's.
    pub(super) async fn ask(session: &dyn UnitSession, lun: u16) -> Result<Self, InitiatorError> {
        let _ = session.probe(lun, &[0; 6], 0).await?;
        let mut cdb = [0; 16];
        (cdb[0], cdb[1], cdb[13]) = (0x9e, 0x10, 32);
        let capacity = session.probe(lun, &cdb, 32).await?;
        // LBPME, LBPRZ (SBC-3 5.16.2).
        let holes_are_zero = capacity.get(14).is_some_and(|bits| bits & 0xc0 == 0xc0);
        let capacity = Capacity::parse(&capacity).ok_or(InitiatorError::Answer(cdb[0]))?;
        let serial = page(session, lun, 0x80).await?;
        let names = designators(&page(session, lun, 0x83).await?);
        let limits = page(session, lun, 0xb0).await?;
        let provisioning = page(session, lun, 0xb2).await?;
        // MODE SENSE (6), SPC-4 6.11: the header tells WP and DPOFUA (SBC-3 6.5.1).
        let mode = optional(session.probe(lun, &[0x1a, 8, 0x3f, 0, 4, 0], 4).await)?;
        let mode = mode.get(2).copied().unwrap_or(0);
        let block = capacity.block_size;
        Ok(Self {
            capacity,
            serial,
            names,
            read_only: mode & 0x80 != 0,
            fua: mode & 0x10 != 0,
            most_transfer: bounded(field(&limits, 8), u64::from(MOST_TRANSFER / block)),
            most_same: bounded(wide_field(&limits, 36), MOST_SAME / u64::from(block)),
            // LBPWS (SBC-3 6.6.5).
            unmaps: provisioning.get(5).is_some_and(|bits| bits & 0x40 != 0),
            holes_are_zero,
        })
    }

    /// Is this the unit that was so before? If not, what is different.
    pub(super) fn difference(&self, before: &Self) -> Option<String> {
        let (size, was) = (self.capacity.bytes(), before.capacity.bytes());
        let (block, block_was) = (self.capacity.block_size, before.capacity.block_size);
        if block != block_was {
            Some(format!("its blocks have {block} bytes, and had {block_was}"))
        } else if self.serial != before.serial {
            Some("its serial number is another one".to_owned())
        } else if self.names != before.names {
            Some("its identification is another one".to_owned())
        } else if size < was {
            Some(format!("it has {size} bytes, and had {was}"))
        } else {
            None
        }
    }
}

/// A page of vital product data. None: empty.
async fn page(session: &dyn UnitSession, lun: u16, page: u8) -> Result<Bytes, InitiatorError> {
    optional(session.probe(lun, &[0x12, 1, page, 4, 0, 0], 1024).await)
}

/// What a unit need not have.
fn optional(answer: Result<Bytes, InitiatorError>) -> Result<Bytes, InitiatorError> {
    match answer {
        Err(InitiatorError::Command { .. }) => Ok(Bytes::new()),
        other => other,
    }
}

/// The designators with association 0, the logical unit.
fn designators(page: &Bytes) -> Vec<Bytes> {
    let mut rest = page.slice(page.len().min(4)..);
    let mut found = Vec::new();
    while rest.len() >= 4 {
        let end = (4 + usize::from(rest[3])).min(rest.len());
        let designator = rest.split_to(end);
        if designator[1] & 0x30 == 0 {
            found.push(designator);
        }
    }
    found
}

fn field(page: &[u8], at: usize) -> u64 {
    let bytes = page.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, u32::from_be_bytes).into()
}

fn wide_field(page: &[u8], at: usize) -> u64 {
    let bytes = page.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, u64::from_be_bytes)
}

/// The unit's bound, where 0 is none, and ours.
fn bounded(told: u64, own: u64) -> u32 {
    let most = if told == 0 { own } else { told.min(own) };
    u32::try_from(most.max(1)).unwrap_or(u32::MAX)
}
