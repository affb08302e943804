//! Asynchronous Message (RFC 7143 11.9).

use super::bhs::{Bhs, NO_TAG, Opcode};
use crate::lun::Lun;
use crate::serial::SerialNumber;

/// What a target tells unasked. Times are in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AsyncEvent {
    /// A SCSI event; the data has sense bytes.
    Scsi {
        /// The logical unit that reports it.
        lun: Lun,
    },
    /// The target asks for a logout within that time.
    LogoutRequested {
        /// Parameter3.
        within: u16,
    },
    /// The target will end that connection.
    ConnectionDrop {
        /// Parameter1.
        cid: u16,
        /// Time2Wait.
        wait: u16,
        /// Time2Retain.
        retain: u16,
    },
    /// The target will end all connections of the session.
    SessionDrop {
        /// Time2Wait.
        wait: u16,
        /// Time2Retain.
        retain: u16,
    },
    /// The target asks for a negotiation of parameters.
    NegotiationRequested {
        /// Parameter3.
        within: u16,
    },
    /// All tasks of that logical unit are terminated.
    TasksTerminated {
        /// The logical unit.
        lun: Lun,
    },
    /// Another code, a vendor's (255) or a reserved one.
    Other {
        /// AsyncEvent.
        code: u8,
        /// AsyncVCode.
        vendor_code: u8,
        /// The three parameters.
        parameters: [u16; 3],
    },
}

/// An Asynchronous Message. Its data is sense data, of a SCSI event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AsyncMessage {
    /// The event.
    pub event: AsyncEvent,
    /// StatSN.
    pub stat_sn: SerialNumber,
    /// ExpCmdSN.
    pub exp_cmd_sn: SerialNumber,
    /// MaxCmdSN.
    pub max_cmd_sn: SerialNumber,
}

impl AsyncMessage {
    pub(super) fn parse(bhs: &Bhs) -> Self {
        let lun = Lun::from_bytes(bhs.bytes_at(8));
        let parameters @ [first, second, third] = [38, 40, 42].map(|at| bhs.u16_at(at));
        let event = match bhs.0[36] {
            0 => AsyncEvent::Scsi { lun },
            1 => AsyncEvent::LogoutRequested { within: third },
            2 => AsyncEvent::ConnectionDrop { cid: first, wait: second, retain: third },
            3 => AsyncEvent::SessionDrop { wait: second, retain: third },
            4 => AsyncEvent::NegotiationRequested { within: third },
            5 => AsyncEvent::TasksTerminated { lun },
            code => AsyncEvent::Other { code, vendor_code: bhs.0[37], parameters },
        };
        Self {
            event,
            stat_sn: SerialNumber::new(bhs.u32_at(24)),
            exp_cmd_sn: SerialNumber::new(bhs.u32_at(28)),
            max_cmd_sn: SerialNumber::new(bhs.u32_at(32)),
        }
    }

    pub(super) fn emit(&self) -> Bhs {
        let (code, vendor, lun, parameters) = match self.event {
            AsyncEvent::Scsi { lun } => (0, 0, lun, [0; 3]),
            AsyncEvent::LogoutRequested { within } => (1, 0, Lun::default(), [0, 0, within]),
            AsyncEvent::ConnectionDrop { cid, wait, retain } => {
                (2, 0, Lun::default(), [cid, wait, retain])
            }
            AsyncEvent::SessionDrop { wait, retain } => (3, 0, Lun::default(), [0, wait, retain]),
            AsyncEvent::NegotiationRequested { within } => (4, 0, Lun::default(), [0, 0, within]),
            AsyncEvent::TasksTerminated { lun } => (5, 0, lun, [0; 3]),
            AsyncEvent::Other { code, vendor_code, parameters } => {
                (code, vendor_code, Lun::default(), parameters)
            }
        };
        let mut bhs = Bhs::new(Opcode::AsyncMessage)
            .with_bits(1, 0x80, true)
            .with(8, &lun.bytes())
            .with_u32(16, NO_TAG)
            .with_u32(24, self.stat_sn.get())
            .with_u32(28, self.exp_cmd_sn.get())
            .with_u32(32, self.max_cmd_sn.get())
            .with(36, &[code, vendor]);
        for (at, parameter) in [38, 40, 42].into_iter().zip(parameters) {
            bhs = bhs.with(at, &parameter.to_be_bytes());
        }
        bhs
    }
}
