//! What a handler gets and gives: [`Call`] is a command with the target's state, [`Plan`] is what
//! the command needs next, [`Work`] is the rest of a command that needs more than one thing.

use std::fmt::Debug;

use bytes::Bytes;

use crate::id::{LunNumber, NexusId};
use crate::locks::{Access, Claim, Hold};
use crate::registry::Registrant;
use crate::sense::{Sense, SenseCode, SenseKey};
use crate::state::{LogicalUnit, State};
use crate::status::Status;
use crate::step::{
    ByteRange, DataIn, Effect, MOST_DATA_OUT, MediumError, MediumOperation, MediumOutput,
    StoredState,
};
use crate::table::{Row, Under};
use crate::wire;

/// A command as it came, and what the task has gathered.
#[derive(Debug)]
pub(crate) struct Origin {
    pub(crate) nexus: NexusId,
    pub(crate) lun: LunNumber,
    pub(crate) cdb: [u8; 16],
    pub(crate) row: &'static Row,
    /// Bytes that the initiator takes.
    pub(crate) expected_in: u64,
    /// Bytes that the initiator has.
    pub(crate) expected_out: u64,
    /// Bytes that the command transfers by its own fields.
    pub(crate) length: u64,
    pub(crate) access: Access,
    pub(crate) effects: Vec<Effect>,
}

/// A command with the target's state.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    pub(crate) state: &'a mut State,
    pub(crate) origin: &'a mut Origin,
}

/// Why a command ends without being done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Failure {
    Check(Sense),
    Conflict,
}

impl From<Sense> for Failure {
    fn from(sense: Sense) -> Self {
        Self::Check(sense)
    }
}

/// The good end of a command.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: Status,
    pub(crate) data: DataIn,
}

impl Reply {
    /// GOOD, without data-in.
    pub(crate) const fn good() -> Self {
        Self { status: Status::Good, data: DataIn::None }
    }
}

/// What a command needs next.
#[derive(Debug)]
pub(crate) enum Plan {
    Reply(Reply),
    DataOut { offset: u64, len: u32, work: Box<dyn Work> },
    Medium { lun: LunNumber, operation: MediumOperation, then: Then },
    Store { lun: LunNumber, state: StoredState, then: Then },
}

/// What comes after a medium operation, or after state was stored.
#[derive(Debug)]
pub(crate) enum Then {
    Reply(Reply),
    Work(Box<dyn Work>),
}

/// What a handler gives.
pub(crate) type Planned = Result<Plan, Failure>;

/// The rest of a command. Each method is called only for what the command has asked for. The answer
/// to something else is the shell's fault: an internal failure.
pub(crate) trait Work: Debug + Send {
    /// The bytes that [`Plan::DataOut`] asked for, exactly as many.
    fn data_out(self: Box<Self>, _: &mut Call<'_>, _: Bytes) -> Planned {
        Err(Sense::internal().into())
    }

    /// What [`Plan::Medium`] gave.
    fn medium(self: Box<Self>, _: &mut Call<'_>, _: MediumOutput) -> Planned {
        Err(Sense::internal().into())
    }

    /// The operation of [`Plan::Medium`] failed.
    fn medium_failed(self: Box<Self>, call: &mut Call<'_>, error: MediumError) -> Planned {
        Err(call.medium_failure(error))
    }
}

impl Call<'_> {
    /// A byte of the command descriptor block.
    pub(crate) fn byte(&self, at: usize) -> u8 {
        self.origin.cdb.get(at).copied().unwrap_or(0)
    }

    /// Whether a bit of a byte is set.
    pub(crate) fn bit(&self, at: usize, bit: u8) -> bool {
        self.byte(at) >> bit & 1 != 0
    }

    /// Two bytes of the command descriptor block.
    pub(crate) fn be16(&self, at: usize) -> u16 {
        wire::be16(&self.origin.cdb, at).unwrap_or(0)
    }

    /// Four bytes of the command descriptor block.
    pub(crate) fn be32(&self, at: usize) -> u32 {
        wire::be32(&self.origin.cdb, at).unwrap_or(0)
    }

    /// Eight bytes of the command descriptor block.
    pub(crate) fn be64(&self, at: usize) -> u64 {
        wire::be64(&self.origin.cdb, at).unwrap_or(0)
    }

    /// The command's unit. It can have gone since the command began.
    pub(crate) fn unit(&self) -> Result<&LogicalUnit, Failure> {
        self.state.units.get(&self.origin.lun).ok_or(no_such_lun())
    }

    /// The command's unit, to change it.
    pub(crate) fn unit_mut(&mut self) -> Result<&mut LogicalUnit, Failure> {
        self.state.units.get_mut(&self.origin.lun).ok_or(no_such_lun())
    }

    /// The names of the nexus. It can have gone since the command began.
    pub(crate) fn registrant(&self) -> Result<Registrant, Failure> {
        self.state.nexuses.get(&self.origin.nexus).cloned().ok_or(Sense::internal().into())
    }

    /// Whether reservations of other nexuses let the command be one of that kind.
    pub(crate) fn admitted(&self, under: Under) -> Result<(), Failure> {
        let unit = self.unit()?;
        let free = matches!(under, Under::Anything | Under::Itself);
        if !free && unit.reserved_by.is_some_and(|holder| holder != self.origin.nexus) {
            return Err(Failure::Conflict);
        }
        let reads = match under {
            Under::Anything | Under::Itself | Under::Persistent => return Ok(()),
            Under::Reader => true,
            Under::Writer => false,
        };
        let who = self.state.nexuses.get(&self.origin.nexus).ok_or(Sense::internal())?;
        match unit.registry.admits(who, reads) {
            true => Ok(()),
            false => Err(Failure::Conflict),
        }
    }

    /// Ends with data-in. SPC-4 4.3.5.6: the allocation length cuts it without an error.
    pub(crate) fn data(&mut self, bytes: impl Into<Bytes>, allocation: u64) -> Planned {
        let mut bytes = bytes.into();
        bytes.truncate(usize::try_from(allocation).unwrap_or(usize::MAX));
        self.origin.length = bytes.len() as u64;
        bytes.truncate(usize::try_from(self.origin.expected_in).unwrap_or(usize::MAX));
        Ok(Plan::Reply(Reply { status: Status::Good, data: DataIn::Bytes(bytes) }))
    }

    /// Asks for a parameter list of `length` bytes, which is not 0.
    pub(crate) fn parameters(&mut self, length: u32, work: Box<dyn Work>) -> Planned {
        self.origin.length = u64::from(length);
        if length > MOST_DATA_OUT {
            return Err(Sense::list_length().into());
        }
        self.needs_data_out(u64::from(length))?;
        Ok(Plan::DataOut { offset: 0, len: length, work })
    }

    /// Refuses a command that has more data-out than the initiator has (SAM-5 5.4.3: the answer of
    /// this crate is to transfer nothing).
    pub(crate) fn needs_data_out(&self, length: u64) -> Result<(), Failure> {
        match length > self.origin.expected_out {
            true => Err(Sense::illegal(SenseCode::INVALID_INFORMATION_UNIT).into()),
            false => Ok(()),
        }
    }

    /// An operation on the command's own unit.
    pub(crate) fn on_medium(&self, operation: MediumOperation, then: Then) -> Planned {
        Ok(Plan::Medium { lun: self.origin.lun, operation, then })
    }

    /// Claims a range of the command's own unit.
    pub(crate) fn claim(&mut self, range: ByteRange, hold: Hold) {
        let lun = Some(self.origin.lun);
        self.origin.access.claims.push(Claim { lun, range, hold });
    }

    /// Why an operation on the command's own medium failed.
    pub(crate) fn medium_failure(&self, error: MediumError) -> Failure {
        let shift = self.unit().map_or(0, LogicalUnit::shift);
        medium_sense(error, shift).into()
    }
}

/// The sense data of a failed operation on a medium with blocks of `1 << shift` bytes.
pub(crate) fn medium_sense(error: MediumError, shift: u32) -> Sense {
    let medium = |code, offset: u64| {
        let sense = Sense::new(SenseKey::MediumError, code);
        sense.with_information(offset.checked_shr(shift).unwrap_or(0))
    };
    match error {
        MediumError::Read(offset) => medium(SenseCode::READ_ERROR, offset),
        MediumError::Write(offset) => medium(SenseCode::WRITE_ERROR, offset),
        MediumError::Flush => Sense::new(SenseKey::MediumError, SenseCode::WRITE_ERROR),
        // SBC-3 4.7.3.6.
        MediumError::NoSpace => {
            Sense::new(SenseKey::DataProtect, SenseCode::SPACE_ALLOCATION_FAILED)
        }
        MediumError::Gone => Sense::new(SenseKey::NotReady, SenseCode::MANUAL_INTERVENTION),
        MediumError::ReadOnly => Sense::new(SenseKey::DataProtect, SenseCode::WRITE_PROTECTED),
    }
}

/// SAM-5 5.11.
pub(crate) fn no_such_lun() -> Failure {
    Sense::illegal(SenseCode::NO_SUCH_LUN).into()
}
