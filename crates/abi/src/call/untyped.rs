//! The calls as words without types. The client runtime still uses them.

use rustix::io::Errno;
use shm::Slot;

use crate::bad_slot::BadSlot;
use crate::bits::{pack16, u16_at};

use super::op::Op;
use super::path::ReturnPath;

/// A call, validated as far as it can be without knowing the callee's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// What to do.
    pub op: Op,
    /// 0 is ordinary; higher goes first among the calls of one scan.
    pub priority: u8,
    /// [`Call::NONBLOCK`], [`Call::FAST`], [`Call::QUIET`], several of them or 0.
    pub flags: u8,
    /// Where the result goes.
    pub path: ReturnPath,
    /// The arguments, as the operation's documentation lists them; the socket id comes first.
    pub args: [u64; 6],
}

impl Call {
    /// Complete at once, with EAGAIN or EINPROGRESS where the call would wait.
    pub const NONBLOCK: u8 = 1;
    /// Connect by Fast Open (MSG_FASTOPEN).
    pub const FAST: u8 = 2;
    /// Nobody waits for the result: it is posted without ringing, if it is what such a call nearly
    /// always comes to: done; of a connect, that the attempt goes on.
    pub const QUIET: u8 = 4;

    /// As a ring slot.
    #[must_use]
    #[inline]
    pub fn encode(&self) -> Slot {
        let a = &self.args;
        let word0 =
            pack16(self.op as u16, u16::from(self.priority) | u16::from(self.flags) << 8, 0, 0);
        [word0, self.path.to_word(), a[0], a[1], a[2], a[3], a[4], a[5]]
    }

    /// Out of a ring slot.
    ///
    /// # Errors
    /// [`BadSlot`] for an unknown operation or flag.
    #[inline]
    pub fn decode(slot: &Slot) -> Result<Self, BadSlot> {
        let number = u16_at(slot[0], 0);
        let op = Op::from_number(number).ok_or(BadSlot::new("operation", number.into()))?;
        let [priority, flags] = u16_at(slot[0], 1).to_le_bytes();
        if flags & !(Self::NONBLOCK | Self::FAST | Self::QUIET) != 0 {
            return Err(BadSlot::new("call flags", flags.into()));
        }
        let args = [slot[2], slot[3], slot[4], slot[5], slot[6], slot[7]];
        Ok(Self { op, priority, flags, path: ReturnPath::from_word(slot[1]), args })
    }
}

/// A call's result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallResult {
    /// The call's return path, unchanged.
    pub path: ReturnPath,
    /// Its values, or why not.
    pub outcome: Result<[u64; 6], Errno>,
}

impl CallResult {
    /// As a ring slot; word 0 is 0 or the error number.
    #[must_use]
    #[inline]
    pub fn encode(&self) -> Slot {
        Self::encode_parts(self.path, self.outcome.as_ref().map_err(|errno| *errno))
    }

    /// [`CallResult::encode`] of a result whose values are elsewhere.
    #[must_use]
    #[inline]
    pub fn encode_parts(path: ReturnPath, outcome: Result<&[u64; 6], Errno>) -> Slot {
        let path = path.to_word();
        match outcome {
            Ok(v) => [0, path, v[0], v[1], v[2], v[3], v[4], v[5]],
            Err(errno) => [u64::from(errno.raw_os_error().unsigned_abs()), path, 0, 0, 0, 0, 0, 0],
        }
    }

    /// The return path alone.
    #[must_use]
    #[inline]
    pub fn path(slot: &Slot) -> ReturnPath {
        ReturnPath::from_word(slot[1])
    }

    /// Out of a ring slot.
    ///
    /// # Errors
    /// [`BadSlot`] for an impossible error number.
    #[inline]
    pub fn decode(slot: &Slot) -> Result<Self, BadSlot> {
        let path = ReturnPath::from_word(slot[1]);
        let outcome = match i32::try_from(slot[0]) {
            Ok(0) => Ok([slot[2], slot[3], slot[4], slot[5], slot[6], slot[7]]),
            Ok(raw) if raw < 4096 => Err(Errno::from_raw_os_error(raw)),
            _ => return Err(BadSlot::new("error number", slot[0])),
        };
        Ok(Self { path, outcome })
    }
}
