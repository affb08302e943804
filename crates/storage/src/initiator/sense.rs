//! How a command failed, in words: by its status and its sense data (SPC-4 4.5, SAM-5 5.3).

use std::fmt;

/// Sense keys (SPC-4 4.5.6).
pub(crate) const NOT_READY: u8 = 0x2;
pub(crate) const UNIT_ATTENTION: u8 = 0x6;

/// Does the code of a unit attention say that the unit was reset, or that another one may have its
/// number now? POWER ON, RESET and the like; INQUIRY DATA HAS CHANGED, DEVICE IDENTIFIER CHANGED,
/// REPORTED LUNS DATA HAS CHANGED.
pub(crate) fn may_be_another(code: u16) -> bool {
    matches!(code, 0x2900..=0x29ff | 0x3f03 | 0x3f05 | 0x3f0e)
}

/// The commands that an initiator of this crate sends (SPC-4 6.1, SBC-3 5.1).
const COMMANDS: [(u8, &str); 9] = [
    (0x00, "TEST UNIT READY"),
    (0x12, "INQUIRY"),
    (0x1a, "MODE SENSE"),
    (0x88, "a read (READ 16)"),
    (0x8a, "a write (WRITE 16)"),
    (0x91, "a flush (SYNCHRONIZE CACHE 16)"),
    (0x93, "WRITE SAME"),
    (0x9e, "READ CAPACITY or GET LBA STATUS"),
    (0xa0, "REPORT LUNS"),
];

/// Statuses other than CHECK CONDITION (SAM-5 5.3.1).
const STATUSES: [(u8, &str); 5] = [
    (0x08, "the unit is busy (BUSY)"),
    (0x18, "another initiator has reserved the unit (RESERVATION CONFLICT)"),
    (0x28, "the unit has too many commands (TASK SET FULL)"),
    (0x30, "the unit waits for CLEAR ACA (ACA ACTIVE)"),
    (0x40, "another initiator has ended the command (TASK ABORTED)"),
];

/// Sense keys (SPC-4 4.5.6).
const KEYS: [(u8, &str); 12] = [
    (0x0, "NO SENSE"),
    (0x1, "RECOVERED ERROR"),
    (NOT_READY, "NOT READY"),
    (0x3, "MEDIUM ERROR"),
    (0x4, "HARDWARE ERROR"),
    (0x5, "ILLEGAL REQUEST"),
    (UNIT_ATTENTION, "UNIT ATTENTION"),
    (0x7, "DATA PROTECT"),
    (0x8, "BLANK CHECK"),
    (0xa, "COPY ABORTED"),
    (0xb, "ABORTED COMMAND"),
    (0xe, "MISCOMPARE"),
];

/// Additional sense codes with their qualifiers (SPC-4 annex F.2).
const CODES: [(u16, &str); 32] = [
    (0x0401, "the unit is becoming ready"),
    (0x0402, "the unit waits for a start"),
    (0x0403, "the unit needs its operator: its medium is gone"),
    (0x0404, "the unit is being formatted"),
    (0x0c00, "a write error of the medium"),
    (0x1100, "a read error of the medium"),
    (0x1101, "a read error of the medium"),
    (0x1a00, "the parameter list has a wrong length"),
    (0x2000, "the unit has no such command"),
    (0x2002, "this initiator has no right to it"),
    (0x2100, "it is behind the end of the unit"),
    (0x2400, "the unit does not take a field of the command"),
    (0x2500, "the target has no such logical unit"),
    (0x2600, "the unit does not take a field of the parameters"),
    (0x2700, "the unit is write-protected"),
    (0x2701, "the unit is write-protected by hardware"),
    (0x2702, "the unit is write-protected by software"),
    (0x2707, "no space is left where the unit's bytes are"),
    (0x2800, "the unit has another medium"),
    (0x2900, "the unit was reset"),
    (0x2a09, "the unit has another size"),
    (0x2f00, "another initiator has ended the command"),
    (0x3a00, "the unit has no medium"),
    (0x3a01, "the unit has no medium"),
    (0x3a02, "the unit has no medium"),
    (0x3f03, "the unit may be another one"),
    (0x3f05, "the unit is another one"),
    (0x3f0e, "the target has other units"),
    (0x4400, "the target has an internal fault"),
    (0x4705, "data came damaged at the target: its digest is wrong"),
    (0x4b00, "data came damaged or incomplete at the target"),
    (0x5302, "an initiator prevents the medium's removal"),
];

/// Sense key and additional code of sense data in either format (SPC-4 4.5).
pub(crate) fn sense_of(sense: &[u8]) -> (u8, u16) {
    let at = |index: usize| sense.get(index).copied().unwrap_or(0);
    match at(0) & 0x7f {
        0x70 | 0x71 => (at(2) & 0xf, u16::from_be_bytes([at(12), at(13)])),
        0x72 | 0x73 => (at(1) & 0xf, u16::from_be_bytes([at(2), at(3)])),
        _ => (0, 0),
    }
}

/// A command that failed, as a sentence with the numbers behind it.
pub(super) struct CommandFailure {
    pub(super) operation: u8,
    pub(super) status: u8,
    pub(super) key: u8,
    pub(super) code: u16,
}

fn word<T: PartialEq + Copy>(table: &[(T, &'static str)], value: T) -> Option<&'static str> {
    table.iter().find(|(known, _)| *known == value).map(|(_, word)| *word)
}

impl fmt::Display for CommandFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { operation, status, key, code } = self;
        match word(&COMMANDS, *operation) {
            Some(command) => write!(f, "the target refuses {command}: ")?,
            None => write!(f, "the target refuses command {operation:02x}h: ")?,
        }
        if (*key, *code) == (0, 0) {
            return match word(&STATUSES, *status) {
                Some(what) => write!(f, "{what}; status {status:02x}h"),
                None => write!(f, "it gives no reason; status {status:02x}h"),
            };
        }
        // Of a code that is not known, the first byte may tell enough.
        let what = word(&CODES, *code).or_else(|| word(&CODES, code & 0xff00));
        write!(f, "{} (", what.unwrap_or("see its sense code"))?;
        if let Some(key) = word(&KEYS, *key) {
            write!(f, "{key}, ")?;
        }
        write!(f, "sense key {key:x}h, code {code:04x}h)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sense_data_has_two_formats() {
        let fixed = [0x70, 0, 6, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x29, 1];
        assert_eq!(sense_of(&fixed), (6, 0x2901));
        assert_eq!(sense_of(&[0x72, 5, 0x24, 0]), (5, 0x2400));
        assert_eq!(sense_of(&[]), (0, 0));
    }

    #[test]
    fn failures_are_told_in_words() {
        let said = |operation, status, key, code| {
            CommandFailure { operation, status, key, code }.to_string()
        };
        assert_eq!(
            said(0x8a, 2, 7, 0x2707),
            "the target refuses a write (WRITE 16): no space is left where the unit's bytes are \
             (DATA PROTECT, sense key 7h, code 2707h)"
        );
        assert_eq!(
            said(0x88, 0x18, 0, 0),
            "the target refuses a read (READ 16): another initiator has reserved the unit \
             (RESERVATION CONFLICT); status 18h"
        );
        assert!(said(0x12, 2, 6, 0x2903).contains("the unit was reset (UNIT ATTENTION"));
        assert!(
            said(0x55, 2, 9, 0x8001)
                .ends_with("command 55h: see its sense code (sense key 9h, code 8001h)")
        );
        assert!(said(0, 0x77, 0, 0).ends_with("it gives no reason; status 77h"));
    }
}
