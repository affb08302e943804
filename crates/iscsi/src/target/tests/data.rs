//! Data-out, data-in, residuals, status.

use bytes::Bytes;

use super::harness::{KEYS, Wire, config, data_out, unsolicited};
use crate::error::UsageError;
use crate::pdu::{Ahs, RejectReason, Request, Response, ScsiCommand};
use crate::residual::Residual;
use crate::serial::SerialNumber;
use crate::target::{Completion, TargetConfig, TargetEvent, TaskId};

fn joined(data: &[Bytes]) -> Vec<u8> {
    data.concat()
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 7 % 251) as u8).collect()
}

/// The next R2T: transfer tag, offset, length, R2TSN.
fn r2t(wire: &mut Wire) -> (u32, u32, u32, u32) {
    let (Response::R2t(r2t), _) = wire.response() else { panic!("no R2T") };
    (r2t.transfer_tag, r2t.offset, r2t.length, r2t.r2t_sn.get())
}

/// ASC and ASCQ of the next status, which is CHECK CONDITION.
fn sense(wire: &mut Wire) -> [u8; 2] {
    let (Response::Scsi(response), data) = wire.response() else { panic!("no status") };
    assert_eq!((response.status, data.len(), data[2], data[4]), (2, 20, 0x70, 0x0b));
    [data[14], data[15]]
}

#[test]
fn immediate_and_unsolicited_data_come_with_the_command() {
    let mut wire = Wire::log_in();
    let data = pattern(6000);
    let command = wire.write(1, 6000, false);
    wire.send(&Request::Command(command), &data[..1000]);
    let later = wire.read(2, 0);
    wire.send(&Request::Command(later), b"");
    assert!(wire.is_silent(), "both wait for the unsolicited data");
    wire.send(&unsolicited(1, 0, 1000, false), &data[1000..3000]);
    wire.send(&unsolicited(1, 1, 3000, true), &data[3000..4096]);
    let command = wire.command();
    assert_eq!((command.expected_out, command.data_length), (6000, 4096));
    assert_eq!(joined(&command.data), data[..4096]);
    assert_eq!(wire.command().expected_out, 0);
    wire.target.request_data(command.task, 4096, 1904).expect("in range");
    let (transfer_tag, offset, length, number) = r2t(&mut wire);
    assert_eq!((offset, length, number), (4096, 1904, 0));
    wire.send(&data_out(1, transfer_tag, 0, 4096, true), &data[4096..]);
    let Some(TargetEvent::DataOut { task, offset: 4096, data: rest }) = wire.event() else {
        panic!("no data");
    };
    assert_eq!((task, joined(&rest)), (command.task, data[4096..].to_vec()));
    wire.target.complete(task, Completion::default()).expect("open");
    let (Response::Scsi(response), _) = wire.response() else { panic!("no status") };
    assert_eq!((response.status, response.residual), (0, Residual::None));
    assert_eq!(response.exp_data_sn, SerialNumber::new(1));
}

#[test]
fn r2ts_are_bursts_and_as_many_as_agreed() {
    let mut wire = Wire::log_in();
    let command = wire.write(1, 30_000, true);
    wire.send(&Request::Command(command), b"");
    let task = wire.command().task;
    wire.target.request_data(task, 0, 30_000).expect("in range");
    let (first, second) = (r2t(&mut wire), r2t(&mut wire));
    assert_eq!((first.1, first.2, second.1, second.2), (0, 8192, 8192, 8192));
    assert!(wire.try_response().is_none());
    wire.send(&data_out(1, first.0, 0, 0, true), &[1; 8192]);
    let third = r2t(&mut wire);
    assert_eq!((third.1, third.2, third.3), (16_384, 8192, 2));
    for (burst, length) in [(second, 8192), (third, 8192)] {
        wire.send(&data_out(1, burst.0, 0, burst.1, true), &vec![1; length]);
    }
    let last = r2t(&mut wire);
    assert_eq!((last.1, last.2), (24_576, 5424));
    assert_eq!(wire.target.counters().r2ts, 4);
    assert_eq!(wire.target.request_data(task, 29_999, 2), Err(UsageError::Range));
    assert_eq!(wire.target.request_data(task, 0, 0), Err(UsageError::Range));
    assert_eq!(wire.target.request_data(TaskId(99), 0, 1), Err(UsageError::UnknownRequest));
}

#[test]
fn the_budget_bounds_open_r2ts() {
    let config = TargetConfig { data_out_budget: 10_000, ..config() };
    let mut wire = Wire::log_in_with(config, KEYS);
    for tag in 0..3 {
        let command = wire.write(tag, 8192, true);
        wire.send(&Request::Command(command), b"");
        let task = wire.command().task;
        wire.target.request_data(task, 0, 8192).expect("in range");
    }
    for tag in 0..3 {
        let (transfer_tag, ..) = r2t(&mut wire);
        assert!(wire.try_response().is_none());
        assert!(wire.target.held_bytes() < 10_000);
        wire.send(&data_out(tag, transfer_tag, 0, 0, true), &[0; 8192]);
        assert!(matches!(wire.event(), Some(TargetEvent::DataOut { .. })));
    }
}

/// An initiator that does not offer MaxBurstLength has the default of 262,144.
#[test]
fn a_burst_is_not_longer_than_the_target_wishes() {
    let mut config = TargetConfig { data_out_budget: 2048, ..config() };
    config.keys.max_burst = 2048;
    let mut wire = Wire::log_in_with(config, "InitialR2T=Yes\0");
    assert_eq!(wire.target.parameters().max_burst, 262_144);
    let command = wire.write(1, 5000, true);
    wire.send(&Request::Command(command), b"");
    let task = wire.command().task;
    wire.target.request_data(task, 0, 5000).expect("in range");
    let (_, offset, length, _) = r2t(&mut wire);
    assert_eq!((offset, length), (0, 2048));
    assert!(wire.try_response().is_none());
}

#[test]
fn data_pdus_come_in_any_order_if_agreed() {
    let mut settings = config();
    settings.keys.data_pdu_in_order = false;
    settings.keys.data_sequence_in_order = false;
    let keys = format!("{KEYS}DataPDUInOrder=No\0DataSequenceInOrder=No\0");
    let mut wire = Wire::log_in_with(settings, &keys);
    let data = pattern(16_384);
    let command = wire.write(1, 16_384, true);
    wire.send(&Request::Command(command), b"");
    let task = wire.command().task;
    wire.target.request_data(task, 0, 16_384).expect("in range");
    let (first, second) = (r2t(&mut wire), r2t(&mut wire));
    let part = |at: usize| &data[at..at + 4096];
    wire.send(&data_out(1, second.0, 0, 12_288, false), part(12_288));
    wire.send(&data_out(1, first.0, 0, 4096, false), part(4096));
    wire.send(&data_out(1, second.0, 1, 8192, true), part(8192));
    wire.send(&data_out(1, first.0, 1, 0, true), part(0));
    for expected in [8192_u32, 0] {
        let Some(TargetEvent::DataOut { offset, data: got, .. }) = wire.event() else {
            panic!("no data");
        };
        let at = offset as usize;
        assert_eq!((offset, joined(&got)), (expected, data[at..at + 8192].to_vec()));
    }
}

/// test_iscsi_datasn_invalid.c of libiscsi, and other breaches: the command fails, the session
/// lives.
#[test]
fn wrong_data_out_fails_its_command_only() {
    let step = |data_sn: u32, offset: u32, length: usize, is_final: bool| {
        (data_sn, offset, length, is_final)
    };
    for (steps, code) in [
        (vec![step(0, 0, 512, false), step(0, 512, 512, true)], [0x47, 5]),
        (vec![step(27, 0, 1024, true)], [0x47, 5]),
        (vec![step(u32::MAX, 0, 1024, true)], [0x47, 5]),
        (vec![step(1, 0, 512, false), step(0, 512, 512, true)], [0x47, 5]),
        (vec![step(0, 0, 1000, true)], [0x0c, 0x0d]),
        (vec![step(0, 0, 1000, false), step(1, 1000, 100, true)], [0x0c, 0x0d]),
        (vec![step(0, 100, 100, true)], [0x0c, 0x0d]),
    ] {
        let mut wire = Wire::log_in();
        let command = wire.write(1, 1024, true);
        wire.send(&Request::Command(command), b"");
        let task = wire.command().task;
        wire.target.request_data(task, 0, 1024).expect("in range");
        let (transfer_tag, ..) = r2t(&mut wire);
        for (data_sn, offset, length, is_final) in &steps {
            assert!(wire.is_silent(), "the status waits for the F bit");
            let pdu = data_out(1, transfer_tag, *data_sn, *offset, *is_final);
            wire.send(&pdu, &vec![0; *length]);
        }
        assert!(matches!(wire.event(), Some(TargetEvent::TaskFailed(failed)) if failed == task));
        assert_eq!(sense(&mut wire), code, "{steps:?}");
        let next = wire.read(2, 0);
        wire.send(&Request::Command(next), b"");
        wire.command();
    }
}

#[test]
fn unsolicited_data_that_was_not_agreed_fails_its_command() {
    let keys = KEYS.replace("ImmediateData=Yes", "ImmediateData=No");
    for (keys, is_final, immediate, code) in [
        (&keys[..], true, 512, [0x0c, 0x0c]),
        (&KEYS.replace("InitialR2T=No", "InitialR2T=Yes"), false, 0, [0x0c, 0x0c]),
        (KEYS, true, 5000, [0x0c, 0x0d]),
        // Less than a first burst, of a longer command.
        (KEYS, false, 100, [0x0c, 0x0d]),
    ] {
        let mut wire = Wire::log_in_with(config(), keys);
        let command = wire.write(1, 10_000, is_final);
        wire.send(&Request::Command(command), &vec![0; immediate]);
        if !is_final {
            wire.send(&unsolicited(1, 0, immediate as u32, true), &[0; 512]);
        }
        assert_eq!(sense(&mut wire), code);
        assert!(wire.is_silent());
    }
    let mut wire = Wire::log_in();
    let command = wire.write(1, 10_000, true);
    wire.send(&Request::Command(command), b"");
    wire.command();
    wire.send(&unsolicited(1, 0, 0, true), &[0; 512]);
    let (Response::Reject(reject), _) = wire.response() else { panic!("no reject") };
    assert_eq!(reject.reason, RejectReason::ProtocolError);
}

#[test]
fn data_in_is_cut_and_ends_with_the_status() {
    let mut wire = Wire::log_in();
    let data = pattern(10_000);
    let command = wire.read(1, 10_000);
    wire.send(&Request::Command(command), b"");
    let task = wire.command().task;
    let pieces = vec![Bytes::copy_from_slice(&data[..3000]), Bytes::copy_from_slice(&data[3000..])];
    wire.target.complete(task, Completion { data: pieces, ..Completion::default() }).expect("open");
    let mut seen = Vec::new();
    for number in 0..10 {
        let (Response::DataIn(pdu), part) = wire.response() else { panic!("no data") };
        assert_eq!((pdu.data_sn.get(), pdu.offset as usize), (number, seen.len()));
        seen.extend_from_slice(&part);
        assert_eq!(pdu.is_final, [8192, 10_000].contains(&seen.len()));
        assert_eq!(pdu.status, (number == 9).then_some((0, Residual::None)));
    }
    assert_eq!(seen, data);
    assert!(wire.is_silent() && wire.target.open_commands() == 0);
}

#[test]
fn payload_is_not_copied_on_its_way_out() {
    let mut wire = Wire::log_in();
    let command = wire.read(1, 2048);
    wire.send(&Request::Command(command), b"");
    let task = wire.command().task;
    let data = Bytes::from(pattern(2048));
    let completion = Completion { data: vec![data.clone()], ..Completion::default() };
    wire.target.complete(task, completion).expect("open");
    for at in [0, 1024] {
        let pdu = wire.target.poll_transmit().expect("a PDU");
        assert!(pdu.pieces().any(|piece| piece.as_ptr() == data[at..].as_ptr()));
    }
}

#[test]
fn data_in_in_parts_and_sense_after_it() {
    let mut wire = Wire::log_in();
    let command = wire.read(1, 4096);
    wire.send(&Request::Command(command), b"");
    let task = wire.command().task;
    wire.target.send_data(task, vec![Bytes::from(vec![1; 600])]).expect("open");
    let (Response::DataIn(first), part) = wire.response() else { panic!("no data") };
    assert_eq!((first.status, first.is_final, part.len()), (None, true, 600));
    let sense = Bytes::from_static(&[0x70, 0, 3]);
    let data = vec![Bytes::from(vec![2; 100])];
    let completion = Completion { status: 2, sense, data, transfer_length: None };
    wire.target.complete(task, completion).expect("open");
    let (Response::DataIn(second), part) = wire.response() else { panic!("no data") };
    assert_eq!((second.status, second.offset, part.len()), (None, 600, 100));
    let (Response::Scsi(status), sense) = wire.response() else { panic!("no status") };
    assert_eq!((status.status, &sense[..]), (2, &[0, 3, 0x70, 0, 3][..]));
    assert_eq!(status.residual, Residual::Underflow(3396));
    assert_eq!(status.exp_data_sn.get(), 2);
}

/// test_read10_residuals.c and test_write10_residuals.c of libiscsi, with blocks of 512 bytes.
#[test]
fn residuals_are_those_of_the_command_block() {
    for (expected, has, residual) in [
        (0, 512, Residual::Overflow(512)),
        (10_000, 512, Residual::Underflow(9488)),
        (200, 512, Residual::Overflow(312)),
        (512, 1024, Residual::Overflow(512)),
        (1024, 512, Residual::Underflow(512)),
        (512, 512, Residual::None),
    ] {
        let mut wire = Wire::log_in();
        let command = wire.read(1, expected);
        wire.send(&Request::Command(command), b"");
        let task = wire.command().task;
        let data = vec![Bytes::from(pattern(has))];
        wire.target.complete(task, Completion { data, ..Completion::default() }).expect("open");
        let (response, data) = wire.response();
        assert_eq!(data, pattern(has)[..has.min(expected as usize)]);
        match response {
            Response::DataIn(pdu) => assert_eq!(pdu.status, Some((0, residual))),
            Response::Scsi(status) => assert_eq!(status.residual, residual),
            other => panic!("{other:?}"),
        }
        let command = wire.write(2, expected, true);
        wire.send(&Request::Command(command), b"");
        let task = wire.command().task;
        let transfer_length = Some(has as u64);
        let completion = Completion { transfer_length, ..Completion::default() };
        wire.target.complete(task, completion).expect("open");
        let (Response::Scsi(status), _) = wire.response() else { panic!("no status") };
        assert_eq!((status.status, status.residual), (0, residual));
    }
}

#[test]
fn bidirectional_commands_and_long_command_blocks() {
    let mut wire = Wire::log_in();
    let command = ScsiCommand { read: true, ..wire.write(1, 1000, true) };
    let extended_cdb = Bytes::from_static(&[9; 16]);
    let ahs = Ahs { extended_cdb, read_length: Some(600) }.emit();
    wire.send_with(&Request::Command(command), &ahs, &[1; 1000]);
    let command = wire.command();
    assert_eq!((command.cdb.len(), command.expected_out, command.expected_in), (32, 1000, 600));
    let data = vec![Bytes::from(vec![1; 500])];
    let completion = Completion { data, ..Completion::default() };
    wire.target.complete(command.task, completion).expect("open");
    assert!(matches!(wire.response().0, Response::DataIn(pdu) if pdu.status.is_none()));
    let (Response::Scsi(status), _) = wire.response() else { panic!("no status") };
    let expected = (Residual::None, Residual::Underflow(100));
    assert_eq!((status.residual, status.read_residual), expected);
    let command = wire.read(2, 0);
    wire.send_with(&Request::Command(command), &[0, 1, 9, 0], b"");
    assert!(matches!(wire.response().0, Response::Reject(_)));
}

#[test]
fn damaged_payloads_are_handled_by_the_rules() {
    let keys = format!("{KEYS}DataDigest=CRC32C\0");
    let mut wire = Wire::log_in_with(config(), &keys);
    let damage = |mut bytes: Vec<u8>| {
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        bytes
    };
    // Immediate data: the command is discarded, and may come again with its CmdSN.
    let command = Request::Command(wire.write(1, 1024, true));
    wire.send_bytes(damage(wire.bytes(&command, &[1; 1024])));
    let (Response::Reject(reject), _) = wire.response() else { panic!("no reject") };
    assert_eq!(reject.reason, RejectReason::DataDigestError);
    wire.event();
    wire.send(&command, &[1; 1024]);
    assert_eq!(wire.command().data_length, 1024);
    // Data-Out: a Reject, and after the last PDU a CHECK CONDITION.
    let command = Request::Command(wire.write(2, 1024, true));
    wire.send(&command, b"");
    let task = wire.command().task;
    wire.target.request_data(task, 0, 1024).expect("in range");
    let (transfer_tag, ..) = r2t(&mut wire);
    let first = data_out(2, transfer_tag, 0, 0, false);
    wire.send_bytes(damage(wire.bytes(&first, &[1; 512])));
    assert!(matches!(wire.response().0, Response::Reject(_)));
    assert!(matches!(wire.event(), Some(TargetEvent::Rejected { opcode: 5, .. })));
    assert!(wire.is_silent());
    wire.send(&data_out(2, transfer_tag, 1, 512, true), &[1; 512]);
    assert!(matches!(wire.event(), Some(TargetEvent::TaskFailed(_))));
    assert_eq!(sense(&mut wire), [0x47, 5]);
}
