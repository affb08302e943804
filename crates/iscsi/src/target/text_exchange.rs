//! A Text Request that is under way.

use bytes::Bytes;

use crate::lun::Lun;
use crate::text::TextAssembler;

/// One exchange of text: at most one is open.
#[derive(Debug)]
pub(super) struct TextExchange {
    pub(super) tag: u32,
    pub(super) lun: Lun,
    /// The tag that the initiator's next request has.
    pub(super) transfer_tag: u32,
    pub(super) assembler: TextAssembler,
    /// The question that the shell has.
    pub(super) question: Option<u32>,
    /// Pairs that precede the shell's answer.
    pub(super) prefix: Vec<u8>,
    /// The initiator's last request had the F bit.
    pub(super) is_final: bool,
    /// Text that is still to be sent.
    pub(super) output: Bytes,
}
