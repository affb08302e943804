//! Peers that break the rules, and any bytes.

use bytes::Bytes;
use proptest::prelude::*;

use super::harness::{KEYS, NOW, Wire, config};
use crate::error::ProtocolError;
use crate::lun::Lun;
use crate::pdu::{NO_TAG, NopOut, RejectReason, Request, Response, SnackRequest, Stage};
use crate::serial::SerialNumber;
use crate::target::{CloseReason, TargetEvent};

fn closed(wire: &mut Wire) -> ProtocolError {
    match wire.event() {
        Some(TargetEvent::Closed(CloseReason::Peer(error))) => error,
        other => panic!("not closed: {other:?}"),
    }
}

#[test]
fn requests_without_a_login_end_the_connection() {
    let mut wire = Wire::connect(config());
    let command = wire.read(1, 0);
    wire.send(&Request::Command(command), b"");
    assert_eq!(closed(&mut wire), ProtocolError::OutOfPlace(1));
    assert!(wire.is_silent());
}

#[test]
fn a_header_with_a_wrong_digest_ends_the_connection() {
    let keys = format!("{KEYS}HeaderDigest=CRC32C\0");
    let mut wire = Wire::log_in_with(config(), &keys);
    let command = wire.read(1, 0);
    let mut bytes = wire.bytes(&Request::Command(command), b"");
    bytes[20] ^= 1;
    wire.send_bytes(bytes);
    assert_eq!(closed(&mut wire), ProtocolError::HeaderDigest);
    assert_eq!(wire.target.counters().digest_errors, 1);
}

#[test]
fn a_payload_that_is_too_long_ends_the_connection() {
    let mut wire = Wire::connect(config());
    wire.login(Stage::Operational, &"a=b\0".repeat(3000));
    assert!(matches!(closed(&mut wire), ProtocolError::TooLong { length: 12_000, most: 8192 }));
}

#[test]
fn requests_out_of_place_are_rejected() {
    let mut wire = Wire::log_in();
    let snack = SnackRequest {
        kind: 0,
        lun: Lun::default(),
        task_tag: 1,
        transfer_tag: NO_TAG,
        exp_stat_sn: SerialNumber::new(0),
        begin: 0,
        length: 1,
    };
    wire.send(&Request::Snack(snack), b"");
    wire.login(Stage::Operational, "");
    let mut unknown = wire.bytes(&Request::Snack(snack), b"");
    unknown[0] = 0x1c;
    wire.send_bytes(unknown);
    for reason in
        [RejectReason::SnackReject, RejectReason::ProtocolError, RejectReason::CommandNotSupported]
    {
        let (Response::Reject(reject), _) = wire.response() else { panic!("no reject") };
        assert_eq!(reject.reason, reason);
    }
    assert_eq!(wire.target.counters().rejects, 3);
}

/// A peer that sends pings and reads nothing.
#[test]
fn a_flood_stops_the_input() {
    let mut wire = Wire::log_in();
    let nop = Request::NopOut(NopOut {
        immediate: true,
        lun: Lun::default(),
        task_tag: 1,
        transfer_tag: NO_TAG,
        cmd_sn: wire.cmd_sn,
        exp_stat_sn: SerialNumber::new(0),
    });
    let mut input = Bytes::from(wire.bytes(&nop, &[1; 512]).repeat(100));
    let all = input.len();
    wire.target.handle_bytes(NOW, &mut input);
    assert!(!wire.target.wants_input());
    assert_eq!(all - input.len(), 4 * (48 + 512));
    let mut answers = 0;
    while !input.is_empty() {
        while wire.try_response().is_some() {
            answers += 1;
        }
        wire.target.handle_bytes(NOW, &mut input);
    }
    while wire.try_response().is_some() {
        answers += 1;
    }
    assert_eq!(answers, 100);
}

/// The bound of [`crate::target::TargetConfig`] for the settings of these tests.
const BOUND: usize = (4 + 8) * 262_144 + (16 << 20) + 262_144 + (18 << 10);

proptest! {
    #[test]
    fn any_bytes_before_the_login(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let mut wire = Wire::connect(config());
        let mut input = Bytes::from(bytes);
        wire.target.handle_bytes(NOW, &mut input);
        prop_assert!(wire.target.held_bytes() <= BOUND);
    }

    /// Headers of the right form with random fields.
    #[test]
    fn any_requests_after_the_login(
        headers in prop::collection::vec((any::<[u8; 48]>(), 0_u8..8, 0_usize..40), 1..40),
    ) {
        let mut wire = Wire::log_in();
        for (mut header, opcode, length) in headers {
            header[0] = opcode | header[0] & 0x40;
            let words = header[4] & 1;
            header[4..8].copy_from_slice(&[words, 0, 0, length as u8]);
            // Tags, CmdSN and offsets that often mean something.
            for at in [16, 20, 24, 36, 40] {
                if header[at] & 3 != 0 {
                    let base = if at == 24 { super::harness::FIRST } else { 0 };
                    let number = base.wrapping_add(u32::from(header[at + 3] & 3));
                    header[at..at + 4].copy_from_slice(&number.to_be_bytes());
                }
            }
            let mut bytes = header.to_vec();
            bytes.resize(48 + usize::from(header[4]) * 4 + length.next_multiple_of(4), 1);
            let mut input = Bytes::from(bytes);
            wire.target.handle_bytes(NOW, &mut input);
            while let Some(event) = wire.event() {
                if let TargetEvent::Command(command) = event {
                    let rest = command.expected_out.saturating_sub(command.data_length);
                    let asked = wire.target.request_data(
                        command.task,
                        command.data_length,
                        rest,
                    );
                    prop_assert_eq!(asked.is_ok(), rest > 0);
                }
            }
            prop_assert!(wire.target.held_bytes() <= BOUND);
            if header[9] & 1 == 0 {
                while wire.target.poll_transmit().is_some() {}
            }
            prop_assert!(wire.target.open_commands() <= 8);
        }
    }
}
