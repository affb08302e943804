//! A raw target against the connection.

use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;

use super::{Ending, InitiatorCommand, InitiatorConfig, InitiatorConnection, InitiatorEvent};
use crate::error::{ProtocolError, UsageError};
use crate::framing::{Decoder, encode};
use crate::initiator::{CommandId, LoginStages};
use crate::lun::Lun;
use crate::pdu::{
    DataIn, DataOut, Isid, LoginResponse, LoginStatus, NO_TAG, NopIn, R2t, Reject, RejectReason,
    Request, Response, ScsiResponse, ServiceResponse, Stage, TaskFunction, TaskManagementResponse,
    TaskResponse,
};
use crate::residual::Residual;
use crate::serial::SerialNumber;
use crate::settings::KeySettings;

const NOW: Duration = Duration::from_secs(1);

struct RawTarget {
    initiator: InitiatorConnection,
    decoder: Decoder,
    stat_sn: SerialNumber,
    window: (SerialNumber, SerialNumber),
    header_digest: bool,
    data_digest: bool,
}

fn sn(number: u32) -> SerialNumber {
    SerialNumber::new(number)
}

impl RawTarget {
    /// A session with bursts of 4,096 bytes and payloads of 1,024, whose window has `room`.
    fn log_in(room: u32, text: &str) -> Self {
        let name = |text: &str| text.parse().expect("a name");
        let target = Some(name("iqn.2001-04.a.b:t"));
        let config = InitiatorConfig::new(name("iqn.2001-04.a.b:i"), target, Isid([1; 6]));
        let keys = KeySettings { max_recv_data_segment: 2048, ..KeySettings::default() };
        let config = InitiatorConfig { keys, stages: LoginStages::Operational, ..config };
        let initiator = InitiatorConnection::new(config, NOW, [0; 64]).expect("sound settings");
        let (stat_sn, window) = (sn(5), (sn(0), sn(0)));
        let decoder = Decoder::new(1 << 20);
        let (header_digest, data_digest) = (false, false);
        let mut raw = Self { initiator, decoder, stat_sn, window, header_digest, data_digest };
        let (Request::Login(login), _) = raw.request() else { panic!("no login") };
        raw.window = (login.cmd_sn, login.cmd_sn + room - 1);
        let response = Response::Login(LoginResponse {
            transit: true,
            more: false,
            current: Stage::Operational,
            next: Stage::FullFeature,
            version_max: 0,
            version_active: 0,
            isid: login.isid,
            tsih: 1,
            task_tag: login.task_tag,
            stat_sn: sn(4),
            exp_cmd_sn: raw.window.0,
            max_cmd_sn: raw.window.1,
            status: LoginStatus::Success,
        });
        raw.send(&response, text.as_bytes());
        raw.header_digest = text.contains("HeaderDigest=CRC32C");
        raw.data_digest = text.contains("DataDigest=CRC32C");
        raw.decoder.set(1 << 20, raw.header_digest, raw.data_digest);
        assert!(matches!(raw.event(), Some(InitiatorEvent::LoggedIn { tsih: 1, .. })));
        raw
    }

    fn usual() -> Self {
        let text = "InitialR2T=No\0MaxBurstLength=4096\0FirstBurstLength=2048\0\
                    MaxOutstandingR2T=2\0MaxRecvDataSegmentLength=1024\0";
        Self::log_in(8, text)
    }

    fn send(&mut self, response: &Response, data: &[u8]) {
        let mut input = self.bytes(response, data).into();
        self.initiator.handle_bytes(NOW, &mut input);
    }

    fn bytes(&self, response: &Response, data: &[u8]) -> Vec<u8> {
        let data = vec![Bytes::copy_from_slice(data)];
        let pdu = encode(response.emit(), &[], data, (self.header_digest, self.data_digest));
        pdu.into_pieces().flatten().collect()
    }

    fn event(&mut self) -> Option<InitiatorEvent> {
        self.initiator.poll_event()
    }

    fn try_request(&mut self) -> Option<(Request, Bytes)> {
        let pdu = self.initiator.poll_transmit()?;
        let mut bytes: Bytes = pdu.into_pieces().flatten().collect();
        let pdu = self.decoder.decode(&mut bytes).expect("sound").expect("complete");
        Some((Request::parse(&pdu.bhs).expect("legal"), pdu.data))
    }

    fn request(&mut self) -> (Request, Bytes) {
        self.try_request().expect("a PDU")
    }

    fn submit(&mut self, out: usize, expected_in: u32) -> CommandId {
        let data_out = vec![Bytes::from(vec![7; out])];
        let cdb = Bytes::from_static(&[1, 2, 3]);
        let command = InitiatorCommand { cdb, data_out, expected_in, ..Default::default() };
        self.initiator.submit(command).expect("room")
    }

    /// Sends a command; its tag.
    fn start(&mut self, out: usize, expected_in: u32) -> (CommandId, u32) {
        let id = self.submit(out, expected_in);
        match self.request() {
            (Request::Command(command), _) => (id, command.task_tag),
            other => panic!("no command: {other:?}"),
        }
    }

    fn data_in(&self, task_tag: u32, data_sn: u32, offset: u32) -> DataIn {
        DataIn {
            is_final: true,
            acknowledge: false,
            status: None,
            lun: Lun::default(),
            task_tag,
            transfer_tag: NO_TAG,
            stat_sn: self.stat_sn,
            exp_cmd_sn: self.window.0,
            max_cmd_sn: self.window.1,
            data_sn: sn(data_sn),
            offset,
        }
    }

    fn r2t(&self, task_tag: u32, r2t_sn: u32, offset: u32, length: u32) -> Response {
        Response::R2t(R2t {
            lun: Lun::default(),
            task_tag,
            transfer_tag: 100 + r2t_sn,
            stat_sn: self.stat_sn,
            exp_cmd_sn: self.window.0,
            max_cmd_sn: self.window.1,
            r2t_sn: sn(r2t_sn),
            offset,
            length,
        })
    }

    fn status(&mut self, task_tag: u32, exp_data_sn: u32) -> Response {
        let stat_sn = self.stat_sn;
        self.stat_sn = stat_sn.next();
        Response::Scsi(ScsiResponse {
            response: ServiceResponse::Completed,
            status: 2,
            read_residual: Residual::None,
            residual: Residual::Underflow(3),
            task_tag,
            stat_sn,
            exp_cmd_sn: self.window.0,
            max_cmd_sn: self.window.1,
            exp_data_sn: sn(exp_data_sn),
        })
    }

    fn error(&mut self) -> ProtocolError {
        match self.event() {
            Some(InitiatorEvent::Closed(Ending::Peer(error))) => error,
            other => panic!("not closed: {other:?}"),
        }
    }
}

#[test]
fn immediate_and_unsolicited_data_are_a_first_burst() {
    let mut raw = RawTarget::usual();
    raw.submit(6000, 0);
    let (Request::Command(command), data) = raw.request() else { panic!("no command") };
    assert_eq!((command.is_final, command.write, command.read), (false, true, false));
    assert_eq!(
        (command.expected_length, data.len(), command.cdb[..4].to_vec()),
        (6000, 1024, vec![1, 2, 3, 0])
    );
    let (Request::DataOut(out), data) = raw.request() else { panic!("no data") };
    assert_eq!(
        (out.offset, data.len(), out.is_final, out.transfer_tag),
        (1024, 1024, true, NO_TAG)
    );
    assert!(raw.try_request().is_none());
    let tag = command.task_tag;
    for response in [raw.r2t(tag, 0, 2048, 2048), raw.r2t(tag, 1, 4096, 1904)] {
        raw.send(&response, b"");
    }
    let mut seen = Vec::new();
    while let Some((Request::DataOut(out), data)) = raw.try_request() {
        let DataOut { transfer_tag, data_sn, offset, is_final, .. } = out;
        seen.push((transfer_tag, data_sn.get(), offset, data.len(), is_final));
    }
    assert_eq!(
        seen,
        [
            (100, 0, 2048, 1024, false),
            (100, 1, 3072, 1024, true),
            (101, 0, 4096, 1024, false),
            (101, 1, 5120, 880, true),
        ]
    );
    let status = raw.status(tag, 2);
    raw.send(&status, &[0, 3, 0x70, 0, 5, 9]);
    let Some(InitiatorEvent::Response { status: 2, sense, residual, .. }) = raw.event() else {
        panic!("no response");
    };
    assert_eq!((&sense[..], residual), (&[0x70, 0, 5][..], Residual::Underflow(3)));
}

#[test]
fn commands_wait_for_the_window() {
    let mut raw = RawTarget::log_in(2, "");
    for _ in 0..3 {
        raw.submit(0, 0);
    }
    let (Request::Command(first), _) = raw.request() else { panic!("no command") };
    let (Request::Command(second), _) = raw.request() else { panic!("no command") };
    assert_eq!(second.cmd_sn, first.cmd_sn + 1);
    assert!(raw.try_request().is_none());
    // A ping overtakes.
    raw.initiator.ping(Bytes::new()).expect("room");
    assert!(matches!(raw.request().0, Request::NopOut(nop) if nop.immediate));
    raw.window = (first.cmd_sn + 2, first.cmd_sn + 2);
    let status = raw.status(first.task_tag, 0);
    raw.send(&status, b"");
    let (Request::Command(third), _) = raw.request() else { panic!("no command") };
    assert_eq!((third.cmd_sn, third.exp_stat_sn), (first.cmd_sn + 2, sn(6)));
    // A window that falls back is ignored.
    raw.window = (first.cmd_sn, first.cmd_sn - 5);
    let status = raw.status(second.task_tag, 0);
    raw.send(&status, b"");
    raw.submit(0, 0);
    assert!(raw.try_request().is_none());
}

#[test]
fn data_in_out_of_place_ends_the_connection() {
    let in_place = |raw: &RawTarget, tag| raw.data_in(tag, 0, 0);
    type Change = fn(DataIn) -> DataIn;
    let changes: [(Change, usize); 5] = [
        (|pdu| DataIn { data_sn: SerialNumber::new(1), ..pdu }, 100),
        (|pdu| DataIn { acknowledge: true, ..pdu }, 100),
        (|pdu| DataIn { offset: 100, ..pdu }, 100),
        (|pdu| pdu, 1001),
        (|pdu| DataIn { offset: u32::MAX, ..pdu }, 100),
    ];
    for (change, length) in changes {
        let mut raw = RawTarget::usual();
        let (_, tag) = raw.start(0, 1000);
        let pdu = change(in_place(&raw, tag));
        raw.send(&Response::DataIn(pdu), &vec![0; length]);
        assert!(matches!(raw.error(), ProtocolError::Data(_)), "{pdu:?}");
        let command = InitiatorCommand { cdb: Bytes::from_static(&[0]), ..Default::default() };
        assert_eq!(raw.initiator.submit(command), Err(UsageError::WrongPhase));
    }
    let mut raw = RawTarget::usual();
    let (id, tag) = raw.start(0, 1000);
    let first = Response::DataIn(raw.data_in(tag, 0, 0));
    raw.send(&first, &[1; 600]);
    let status = Some((0, Residual::None));
    let last = Response::DataIn(DataIn { status, ..raw.data_in(tag, 1, 600) });
    raw.send(&last, &[2; 400]);
    for expected in [0, 600] {
        let Some(InitiatorEvent::DataIn { command, offset, .. }) = raw.event() else {
            panic!("no data");
        };
        assert_eq!((command, offset), (id, expected));
    }
    assert!(matches!(raw.event(), Some(InitiatorEvent::Response { status: 0, .. })));
    // The tag is over.
    raw.send(&first, &[1; 600]);
    assert_eq!(raw.error(), ProtocolError::UnknownTag(tag));
}

/// RFC 7143 7.8 at ErrorRecoveryLevel 0: the session is recovered.
#[test]
fn a_damaged_payload_ends_the_connection() {
    let mut raw = RawTarget::log_in(8, "DataDigest=CRC32C\0");
    let (_, tag) = raw.start(0, 1000);
    let pdu = Response::DataIn(raw.data_in(tag, 0, 0));
    raw.send(&pdu, &[1; 100]);
    assert!(matches!(raw.event(), Some(InitiatorEvent::DataIn { .. })));
    // With GOOD, which must not be told.
    let status = Some((0, Residual::None));
    let pdu = Response::DataIn(DataIn { status, ..raw.data_in(tag, 1, 100) });
    let mut bytes = raw.bytes(&pdu, &[1; 100]);
    bytes[60] ^= 1;
    raw.initiator.handle_bytes(NOW, &mut bytes.into());
    // The bytes were handed on before their digest came.
    assert!(matches!(raw.event(), Some(InitiatorEvent::DataIn { offset: 100, .. })));
    assert_eq!(raw.error(), ProtocolError::DataDigest(0x25));
    assert!(raw.event().is_none());
}

/// RFC 7143 7.8: where the header has a digest of its own, the command fails alone.
#[test]
fn a_damaged_payload_fails_its_command() {
    let mut raw = RawTarget::log_in(8, "HeaderDigest=CRC32C\0DataDigest=CRC32C\0");
    let (_, tag) = raw.start(0, 1000);
    let pdu = Response::DataIn(raw.data_in(tag, 0, 0));
    let mut bytes = raw.bytes(&pdu, &[1; 100]);
    bytes[60] ^= 1;
    raw.initiator.handle_bytes(NOW, &mut bytes.into());
    assert!(matches!(raw.event(), Some(InitiatorEvent::DataIn { .. })));
    assert!(matches!(raw.event(), Some(InitiatorEvent::Damaged { .. })));
    let status = Some((0, Residual::None));
    let pdu = Response::DataIn(DataIn { status, ..raw.data_in(tag, 1, 100) });
    raw.send(&pdu, &[1; 100]);
    assert!(matches!(raw.event(), Some(InitiatorEvent::DataIn { offset: 100, .. })));
    let Some(InitiatorEvent::Response { response, .. }) = raw.event() else { panic!("no end") };
    assert_eq!(response, ServiceResponse::TargetFailure);
    assert!(raw.event().is_none(), "the session goes on");
}

/// The shell may reuse the memory of its input when it has put the data-in where it belongs.
#[test]
fn data_in_is_handed_on_as_it_comes_and_nothing_else_stays_in_the_input() {
    for text in ["", "DataDigest=CRC32C\0"] {
        let mut raw = RawTarget::log_in(8, text);
        let (id, tag) = raw.start(0, 301);
        let status = Some((0, Residual::None));
        let data: Vec<u8> = (0..=255).cycle().take(301).collect();
        let pdu = Response::DataIn(DataIn { status, ..raw.data_in(tag, 0, 0) });
        let stream = raw.bytes(&pdu, &data);
        let mut seen = vec![0; 301];
        let mut parts = 0;
        for (number, piece) in stream.chunks(50).enumerate() {
            let input = Bytes::copy_from_slice(piece);
            let memory = input.as_ptr_range();
            raw.initiator.handle_bytes(NOW, &mut input.clone());
            let last = 50 * number + piece.len() == stream.len();
            while let Some(event) = raw.event() {
                match event {
                    InitiatorEvent::DataIn { command, offset, data } => {
                        assert!(command == id && memory.contains(&data.as_ptr()));
                        seen[offset as usize..][..data.len()].copy_from_slice(&data);
                        parts += 1;
                    }
                    InitiatorEvent::Response { status: 0, .. } => assert!(last),
                    other => panic!("{other:?}"),
                }
            }
            assert!(input.is_unique(), "piece {number} is kept");
        }
        assert!(seen == data && parts >= 6);
        assert_eq!(raw.initiator.open_requests().count(), 0);

        // Sense data lies elsewhere.
        let (_, tag) = raw.start(0, 100);
        let response = raw.status(tag, 0);
        let input = Bytes::from(raw.bytes(&response, &[0, 2, 0x70, 0]));
        raw.initiator.handle_bytes(NOW, &mut input.clone());
        assert!(input.is_unique());
        let sense = raw.event();
        assert!(
            matches!(sense, Some(InitiatorEvent::Response { sense, .. }) if sense[..] == [0x70, 0])
        );
    }
}

#[test]
fn r2ts_beyond_what_was_agreed_end_the_connection() {
    for (r2ts, why) in [
        (vec![(0, 0, 4097)], "longer than a burst"),
        (vec![(0, 9000, 1001)], "beyond the data"),
        (vec![(0, u32::MAX, 2)], "beyond all numbers"),
        (vec![(1, 0, 512)], "R2TSN"),
        (vec![(0, 0, 512), (1, 512, 512), (2, 1024, 512)], "more than two"),
    ] {
        let mut raw = RawTarget::usual();
        let (_, tag) = raw.start(10_000, 0);
        for (number, offset, length) in r2ts {
            let r2t = raw.r2t(tag, number, offset, length);
            raw.send(&r2t, b"");
        }
        assert!(matches!(raw.error(), ProtocolError::Data(_)), "{why}");
    }
}

#[test]
fn a_status_before_its_data_ends_the_connection() {
    let mut raw = RawTarget::usual();
    let (_, tag) = raw.start(0, 1000);
    let status = raw.status(tag, 1);
    raw.send(&status, b"");
    assert!(matches!(raw.error(), ProtocolError::Data(_)));
}

#[test]
fn answers_to_nothing_end_the_connection() {
    let mut raw = RawTarget::usual();
    let status = raw.status(77, 0);
    raw.send(&status, b"");
    assert_eq!(raw.error(), ProtocolError::UnknownTag(77));
    // A command that is not sent yet has no answer either.
    let mut raw = RawTarget::log_in(1, "");
    let (_, tag) = raw.start(0, 0);
    raw.submit(0, 0);
    let status = raw.status(tag + 1, 0);
    raw.send(&status, b"");
    assert_eq!(raw.error(), ProtocolError::UnknownTag(tag + 1));
}

#[test]
fn pings_of_the_target_are_answered() {
    let mut raw = RawTarget::usual();
    let nop = |transfer_tag, raw: &RawTarget| {
        Response::NopIn(NopIn {
            lun: Lun::default(),
            task_tag: NO_TAG,
            transfer_tag,
            stat_sn: raw.stat_sn,
            exp_cmd_sn: raw.window.0,
            max_cmd_sn: raw.window.1,
        })
    };
    let ping = nop(9, &raw);
    raw.send(&ping, b"");
    let (Request::NopOut(answer), _) = raw.request() else { panic!("no answer") };
    assert_eq!((answer.task_tag, answer.transfer_tag, answer.immediate), (NO_TAG, 9, true));
    let news = nop(NO_TAG, &raw);
    raw.send(&news, b"");
    assert!(raw.try_request().is_none() && raw.event().is_none());
}

#[test]
fn rejects_end_their_request() {
    let reject = |raw: &RawTarget, reason| {
        Response::Reject(Reject {
            reason,
            stat_sn: raw.stat_sn,
            exp_cmd_sn: raw.window.0,
            max_cmd_sn: raw.window.1,
            data_sn: sn(0),
        })
    };
    let mut raw = RawTarget::usual();
    let ping = raw.initiator.ping(Bytes::new()).expect("room");
    let (header, _) = raw.request();
    let response = reject(&raw, RejectReason::ProtocolError);
    raw.send(&response, &header.emit().0);
    let rejected = raw.event();
    let Some(InitiatorEvent::Rejected { command, .. }) = rejected else { panic!("no reject") };
    assert_eq!(command, Some(ping));
    // Data-Out: the status is still to come.
    raw.submit(2048, 0);
    raw.request();
    let (data, _) = raw.request();
    assert!(matches!(data, Request::DataOut(_)));
    let response = reject(&raw, RejectReason::DataDigestError);
    raw.send(&response, &data.emit().0);
    assert!(matches!(raw.event(), Some(InitiatorEvent::Rejected { command: None, .. })));
    // A command whose immediate data was damaged: the session is recovered.
    raw.submit(100, 0);
    let (command, _) = raw.request();
    let response = reject(&raw, RejectReason::DataDigestError);
    raw.send(&response, &command.emit().0);
    assert_eq!(raw.error(), ProtocolError::DataDigest(1));
}

/// RFC 7143 7.3: a target that has not counted a command waits for its CmdSN.
#[test]
fn the_gap_of_a_rejected_command_is_closed() {
    for counted in [false, true] {
        let mut raw = RawTarget::usual();
        let id = raw.submit(0, 0);
        let (header, _) = raw.request();
        let Request::Command(command) = header else { panic!("no command") };
        let reject = Response::Reject(Reject {
            reason: RejectReason::CommandNotSupported,
            stat_sn: raw.stat_sn,
            exp_cmd_sn: raw.window.0 + u32::from(counted),
            max_cmd_sn: raw.window.1,
            data_sn: sn(0),
        });
        raw.send(&reject, &header.emit().0);
        let rejected = raw.event();
        let Some(InitiatorEvent::Rejected { command: ended, .. }) = rejected else { panic!() };
        assert_eq!(ended, Some(id));
        // The same once more ends nothing more, and asks for nothing.
        raw.send(&reject, &header.emit().0);
        assert!(matches!(raw.event(), Some(InitiatorEvent::Rejected { command: None, .. })));
        if counted {
            assert!(raw.try_request().is_none());
            continue;
        }
        let (Request::Task(abort), _) = raw.request() else { panic!("no abort") };
        assert_eq!((abort.function, abort.immediate), (TaskFunction::AbortTask, true));
        assert_eq!(abort.referenced_tag, command.task_tag);
        assert_eq!(abort.referenced_cmd_sn, command.cmd_sn);
        assert!(raw.try_request().is_none());
        let answer = Response::Task(TaskManagementResponse {
            response: TaskResponse::Complete,
            task_tag: abort.task_tag,
            stat_sn: raw.stat_sn,
            exp_cmd_sn: raw.window.0 + 1,
            max_cmd_sn: raw.window.1,
        });
        raw.send(&answer, b"");
        assert!(raw.event().is_none(), "nobody has asked for it");
        raw.start(0, 0);
    }
}

#[test]
fn resets_end_the_commands_before_them() {
    let mut raw = RawTarget::usual();
    let (first, _) = raw.start(0, 0);
    let reset = raw
        .initiator
        .task_management(TaskFunction::LogicalUnitReset, Lun::default(), None)
        .expect("room");
    let (Request::Task(request), _) = raw.request() else { panic!("no request") };
    let (_, later) = raw.start(0, 0);
    let response = Response::Task(TaskManagementResponse {
        response: TaskResponse::Complete,
        task_tag: request.task_tag,
        stat_sn: raw.stat_sn,
        exp_cmd_sn: raw.window.0,
        max_cmd_sn: raw.window.1,
    });
    raw.send(&response, b"");
    let Some(InitiatorEvent::TaskManagement { command, ended, .. }) = raw.event() else {
        panic!("no answer");
    };
    assert_eq!((command, ended), (reset, vec![first]));
    let status = raw.status(later, 0);
    raw.send(&status, b"");
    assert!(matches!(raw.event(), Some(InitiatorEvent::Response { .. })));
}

#[test]
fn a_command_that_is_not_sent_is_aborted_at_once() {
    let mut raw = RawTarget::log_in(1, "");
    raw.start(0, 0);
    let waiting = raw.submit(0, 0);
    let function = TaskFunction::AbortTask;
    let abort = raw.initiator.task_management(function, Lun::default(), Some(waiting));
    let Some(InitiatorEvent::TaskManagement { command, ended, .. }) = raw.event() else {
        panic!("no answer");
    };
    assert_eq!((Ok(command), ended), (abort, vec![waiting]));
    assert!(raw.try_request().is_none());
    let again = raw.initiator.task_management(function, Lun::default(), Some(waiting));
    assert_eq!(again, Err(UsageError::UnknownRequest));
}

proptest! {
    /// Headers of the right form with random fields.
    #[test]
    fn any_responses_after_the_login(
        headers in prop::collection::vec((any::<[u8; 48]>(), 0_u8..8, 0_usize..40), 1..40),
        first in any::<u8>(),
    ) {
        let mut raw = RawTarget::usual();
        let (_, tag) = raw.start(usize::from(first) * 40, u32::from(first) * 20);
        raw.initiator.send_targets(None).expect("room");
        for (mut header, opcode, length) in headers {
            header[0] = [0x20, 0x21, 0x22, 0x24, 0x25, 0x26, 0x31, 0x32][usize::from(opcode)];
            header[4..8].copy_from_slice(&[0, 0, 0, length as u8]);
            let near = tag + u32::from(header[19] & 1);
            header[16..20].copy_from_slice(&near.to_be_bytes());
            for at in [36, 40] {
                let number = u32::from(header[at + 3] & 3);
                header[at..at + 4].copy_from_slice(&number.to_be_bytes());
            }
            let mut bytes = header.to_vec();
            bytes.resize(48 + length.next_multiple_of(4), 0);
            let mut input = Bytes::from(bytes);
            raw.initiator.handle_bytes(NOW, &mut input);
            prop_assert!(input.is_empty());
            while raw.event().is_some() {}
            while raw.try_request().is_some() {}
            prop_assert!(raw.initiator.held_bytes() < 2048 + (2 << 10) + (64 << 10));
        }
    }

    #[test]
    fn any_bytes_instead_of_a_login(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let name = "iqn.2001-04.a.b:i".parse().expect("a name");
        let config = InitiatorConfig::new(name, None, Isid([1; 6]));
        let mut initiator = InitiatorConnection::new(config, NOW, [0; 64]).expect("sound settings");
        let mut input = Bytes::from(bytes);
        initiator.handle_bytes(NOW, &mut input);
        prop_assert!(initiator.held_bytes() < 16_384 && !initiator.is_full_feature());
    }
}
