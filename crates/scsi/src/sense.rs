//! Sense data: why a command failed (SPC-4 4.5), in fixed and in descriptor format.

use bytes::Bytes;

/// Sense keys (SPC-4 table 53).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum SenseKey {
    /// Nothing is wrong.
    NoSense = 0x0,
    /// The unit cannot be accessed.
    NotReady = 0x2,
    /// The medium has an error.
    MediumError = 0x3,
    /// The target has an error that is not the medium's.
    HardwareError = 0x4,
    /// The initiator's command has an error.
    IllegalRequest = 0x5,
    /// Something happened that the initiator has to know before its next command.
    UnitAttention = 0x6,
    /// The medium must not be written.
    DataProtect = 0x7,
    /// A copy failed.
    CopyAborted = 0xa,
    /// The target has ended the command.
    AbortedCommand = 0xb,
    /// Bytes on the medium differ from the initiator's.
    Miscompare = 0xe,
}

/// Additional sense code and its qualifier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SenseCode(pub u8, pub u8);

impl SenseCode {
    pub(crate) const NONE: Self = Self(0x00, 0x00);
    pub(crate) const MANUAL_INTERVENTION: Self = Self(0x04, 0x03);
    pub(crate) const WRITE_ERROR: Self = Self(0x0c, 0x00);
    pub(crate) const THIRD_PARTY_FAILURE: Self = Self(0x0d, 0x01);
    pub(crate) const TARGET_UNREACHABLE: Self = Self(0x0d, 0x02);
    pub(crate) const INVALID_INFORMATION_UNIT: Self = Self(0x0e, 0x03);
    pub(crate) const READ_ERROR: Self = Self(0x11, 0x00);
    pub(crate) const PARAMETER_LIST_LENGTH: Self = Self(0x1a, 0x00);
    pub(crate) const MISCOMPARE: Self = Self(0x1d, 0x00);
    pub(crate) const INVALID_OPCODE: Self = Self(0x20, 0x00);
    pub(crate) const NO_ACCESS_RIGHTS: Self = Self(0x20, 0x02);
    pub(crate) const LBA_OUT_OF_RANGE: Self = Self(0x21, 0x00);
    pub(crate) const INVALID_FIELD_IN_CDB: Self = Self(0x24, 0x00);
    pub(crate) const NO_SUCH_LUN: Self = Self(0x25, 0x00);
    pub(crate) const INVALID_FIELD_IN_LIST: Self = Self(0x26, 0x00);
    pub(crate) const INVALID_RELEASE: Self = Self(0x26, 0x04);
    pub(crate) const TOO_MANY_TARGETS: Self = Self(0x26, 0x06);
    pub(crate) const UNSUPPORTED_TARGET_DESCRIPTOR: Self = Self(0x26, 0x07);
    pub(crate) const TOO_MANY_SEGMENTS: Self = Self(0x26, 0x08);
    pub(crate) const UNSUPPORTED_SEGMENT_DESCRIPTOR: Self = Self(0x26, 0x09);
    pub(crate) const INLINE_DATA_LENGTH: Self = Self(0x26, 0x0b);
    pub(crate) const WRITE_PROTECTED: Self = Self(0x27, 0x00);
    pub(crate) const SOFTWARE_WRITE_PROTECTED: Self = Self(0x27, 0x02);
    pub(crate) const SPACE_ALLOCATION_FAILED: Self = Self(0x27, 0x07);
    pub(crate) const NO_MEDIUM: Self = Self(0x3a, 0x00);
    pub(crate) const SAVING_UNSUPPORTED: Self = Self(0x39, 0x00);
    pub(crate) const INTERNAL_FAILURE: Self = Self(0x44, 0x00);
    pub(crate) const REMOVAL_PREVENTED: Self = Self(0x53, 0x02);
    pub(crate) const NO_REGISTRATION_ROOM: Self = Self(0x55, 0x04);
}

/// Where a field with an error is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FieldPointer {
    /// In the command descriptor block, or in the parameter list.
    pub(crate) in_cdb: bool,
    pub(crate) byte: u16,
    /// The leftmost bit of the field, if the field is no whole byte.
    pub(crate) bit: Option<u8>,
}

impl FieldPointer {
    /// The three bytes of SENSE KEY SPECIFIC (SPC-4 4.5.2.4.2).
    fn to_wire(self) -> [u8; 3] {
        let [high, low] = self.byte.to_be_bytes();
        let in_cdb = if self.in_cdb { 0x40 } else { 0 };
        let bit = self.bit.map_or(0, |bit| 0x08 | bit & 0x07);
        [0x80 | in_cdb | bit, high, low]
    }
}

/// Sense data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Sense {
    pub(crate) key: SenseKey,
    pub(crate) code: SenseCode,
    pub(crate) information: Option<u64>,
    pub(crate) pointer: Option<FieldPointer>,
}

impl Sense {
    pub(crate) const fn new(key: SenseKey, code: SenseCode) -> Self {
        Self { key, code, information: None, pointer: None }
    }

    pub(crate) const fn illegal(code: SenseCode) -> Self {
        Self::new(SenseKey::IllegalRequest, code)
    }

    /// A field of the command descriptor block is wrong.
    pub(crate) const fn cdb_field(byte: u16, bit: Option<u8>) -> Self {
        let pointer = Some(FieldPointer { in_cdb: true, byte, bit });
        Self { pointer, ..Self::illegal(SenseCode::INVALID_FIELD_IN_CDB) }
    }

    /// A field of the parameter list is wrong.
    pub(crate) const fn list_field(byte: u16, bit: Option<u8>) -> Self {
        let pointer = Some(FieldPointer { in_cdb: false, byte, bit });
        Self { pointer, ..Self::illegal(SenseCode::INVALID_FIELD_IN_LIST) }
    }

    /// The parameter list is too short for what is in it.
    pub(crate) const fn list_length() -> Self {
        Self::illegal(SenseCode::PARAMETER_LIST_LENGTH)
    }

    /// The target contradicts itself, or the shell did.
    pub(crate) const fn internal() -> Self {
        Self::new(SenseKey::HardwareError, SenseCode::INTERNAL_FAILURE)
    }

    pub(crate) const fn with_information(self, information: u64) -> Self {
        Self { information: Some(information), ..self }
    }

    /// The bytes, in descriptor or in fixed format.
    pub(crate) fn to_bytes(self, descriptor: bool) -> Bytes {
        if descriptor { self.in_descriptors() } else { self.fixed() }
    }

    /// SPC-4 4.5.3. The format has 32 bits for INFORMATION; what does not fit is left out.
    fn fixed(self) -> Bytes {
        let mut bytes = [0; 18];
        bytes[0] = 0x70;
        bytes[2] = self.key as u8;
        if let Some(information) = self.information.and_then(|value| u32::try_from(value).ok()) {
            bytes[0] |= 0x80;
            bytes[3..7].copy_from_slice(&information.to_be_bytes());
        }
        bytes[7] = 10;
        bytes[12] = self.code.0;
        bytes[13] = self.code.1;
        if let Some(pointer) = self.pointer {
            bytes[15..18].copy_from_slice(&pointer.to_wire());
        }
        Bytes::copy_from_slice(&bytes)
    }

    /// SPC-4 4.5.2.
    fn in_descriptors(self) -> Bytes {
        let mut bytes = vec![0x72, self.key as u8, self.code.0, self.code.1, 0, 0, 0, 0];
        if let Some(information) = self.information {
            bytes.extend([0x00, 0x0a, 0x80, 0x00]);
            bytes.extend(information.to_be_bytes());
        }
        if let Some(pointer) = self.pointer {
            bytes.extend([0x02, 0x06, 0, 0]);
            bytes.extend(pointer.to_wire());
            bytes.push(0);
        }
        bytes[7] = u8::try_from(bytes.len() - 8).unwrap_or(0);
        bytes.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixed_format() {
        let sense = Sense::cdb_field(6, Some(4)).with_information(0x1234);
        let expected = [0xf0, 0, 5, 0, 0, 0x12, 0x34, 10, 0, 0, 0, 0, 0x24, 0, 0, 0xcc, 0, 6];
        assert_eq!(sense.to_bytes(false)[..], expected);
    }

    #[test]
    fn fixed_format_leaves_out_what_does_not_fit() {
        let sense = Sense::illegal(SenseCode::LBA_OUT_OF_RANGE).with_information(1 << 32);
        let bytes = sense.to_bytes(false);
        assert_eq!((bytes[0], &bytes[3..7]), (0x70, &[0; 4][..]));
    }

    #[test]
    fn descriptor_format() {
        let sense = Sense::list_field(0x102, None).with_information(1 << 32);
        let expected = [
            0x72, 5, 0x26, 0, 0, 0, 0, 20, 0, 10, 0x80, 0, 0, 0, 0, 1, 0, 0, 0, 0, 2, 6, 0, 0,
            0x80, 1, 2, 0,
        ];
        assert_eq!(sense.to_bytes(true)[..], expected);
        assert_eq!(Sense::internal().to_bytes(true)[..], [0x72, 4, 0x44, 0, 0, 0, 0, 0]);
    }
}
