//! What is wrong with a header.

/// A header that cannot be read. The peer is at fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PduError {
    /// An operation code that this end does not receive.
    #[error("operation {0:#04x} is not known")]
    Opcode(u8),
    /// A field has a value that it cannot have.
    #[error("field {field} of operation {opcode:#04x} has a value that it cannot have")]
    Field {
        /// The operation code.
        opcode: u8,
        /// Its name in the RFC.
        field: &'static str,
    },
}

impl PduError {
    pub(crate) const fn field(opcode: u8, field: &'static str) -> Self {
        Self::Field { opcode, field }
    }
}
