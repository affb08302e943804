//! Status codes (SAM-5 5.3).

/// The status of a finished task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Status {
    /// GOOD.
    Good = 0x00,
    /// CHECK CONDITION: the sense data says why.
    CheckCondition = 0x02,
    /// CONDITION MET: the answer of PRE-FETCH when the cache has room.
    ConditionMet = 0x04,
    /// BUSY.
    Busy = 0x08,
    /// RESERVATION CONFLICT.
    ReservationConflict = 0x18,
    /// TASK SET FULL: the shell has no room for the task.
    TaskSetFull = 0x28,
    /// TASK ABORTED.
    TaskAborted = 0x40,
}

impl Status {
    /// The code on the wire.
    pub const fn code(self) -> u8 {
        self as u8
    }
}
