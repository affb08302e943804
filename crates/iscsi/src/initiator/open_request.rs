//! Requests that are open, and data on its way out.

use bytes::Bytes;

use super::event::{CommandId, InitiatorCommand};
use crate::lun::Lun;
use crate::pdu::{DataIn, ServiceResponse, TaskFunction};
use crate::serial::SerialNumber;
use crate::text::TextAssembler;

/// Longest text of SendTargets in bytes.
pub(super) const MAX_DISCOVERY: usize = 1 << 20;

/// A SCSI command that is open.
#[derive(Debug)]
pub(super) struct OpenCommand {
    pub(super) command: InitiatorCommand,
    /// Bytes of data-out.
    pub(super) out_length: u32,
    /// CmdSN, once it is sent.
    pub(super) cmd_sn: Option<SerialNumber>,
    /// Data-In PDUs and R2Ts that came.
    pub(super) data_sn: u32,
    pub(super) r2t_sn: u32,
    /// R2Ts whose data is not sent yet.
    pub(super) open_r2ts: u16,
    /// Bytes of data-in that came, and where the last of them ended.
    pub(super) received: u32,
    pub(super) next_offset: u32,
    /// A part of its data-in had a wrong digest: it has failed when it ends.
    pub(super) is_damaged: bool,
}

/// What a request is.
#[derive(Debug)]
pub(super) enum RequestKind {
    Command(Box<OpenCommand>),
    Task {
        function: TaskFunction,
        lun: Lun,
        referenced: Option<u32>,
        cmd_sn: SerialNumber,
    },
    /// The abort of a command that was rejected; the shell has not asked for it.
    Gap,
    /// Text so far, and how often the target said that more comes.
    Text(TextAssembler, u32),
    /// `told`: the shell asked for it.
    Ping {
        told: bool,
    },
    Logout,
}

impl RequestKind {
    /// How the request has ended for the shell, which the target has answered so.
    pub(super) fn response(&self, told: ServiceResponse) -> ServiceResponse {
        match self {
            Self::Command(command) if command.is_damaged => ServiceResponse::TargetFailure,
            _ => told,
        }
    }
}

/// A request that is open.
#[derive(Debug)]
pub(super) struct OpenRequest {
    pub(super) id: CommandId,
    pub(super) kind: RequestKind,
}

/// Data-out on its way: unsolicited data, or the answer to an R2T.
#[derive(Debug)]
pub(super) struct DataRun {
    pub(super) tag: u32,
    pub(super) transfer_tag: u32,
    pub(super) lun: Lun,
    pub(super) offset: u32,
    pub(super) left: u32,
    pub(super) data_sn: u32,
}

/// A Data-In whose payload has not come to its end.
#[derive(Debug)]
pub(super) struct IncomingData {
    pub(super) id: CommandId,
    pub(super) pdu: DataIn,
    /// Where its next byte belongs.
    pub(super) offset: u32,
}

/// A part of data that lies in pieces. The range is inside of the data.
pub(super) fn part_of(pieces: &[Bytes], offset: u32, length: u32) -> Vec<Bytes> {
    let (mut skip, mut left) = (offset as usize, length as usize);
    let mut part = Vec::new();
    for piece in pieces {
        if left == 0 {
            break;
        }
        if skip >= piece.len() {
            skip -= piece.len();
            continue;
        }
        let step = (piece.len() - skip).min(left);
        part.push(piece.slice(skip..skip + step));
        left -= step;
        skip = 0;
    }
    part
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_part_has_the_bytes_of_its_range(
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..8),
            from: prop::sample::Index,
            to: prop::sample::Index,
        ) {
            let all = pieces.concat();
            let (a, b) = (from.index(all.len() + 1), to.index(all.len() + 1));
            let (start, end) = (a.min(b), a.max(b));
            let pieces: Vec<Bytes> = pieces.into_iter().map(Bytes::from).collect();
            let part = part_of(&pieces, start as u32, (end - start) as u32);
            prop_assert_eq!(part.concat(), &all[start..end]);
        }
    }
}
