//! Command window, pings, text, logout, time.

use std::time::Duration;

use bytes::Bytes;

use super::harness::{FIRST, KEYS, NOW, Wire, config};
use crate::error::UsageError;
use crate::login::LoginAnswer;
use crate::lun::Lun;
use crate::pdu::{
    AsyncEvent, LoginStatus, LogoutReason, LogoutRequest, LogoutResponseCode, NO_TAG, NopOut,
    RejectReason, Request, Response, ScsiCommand, Stage, TextRequest,
};
use crate::serial::SerialNumber;
use crate::target::{CloseReason, Completion, SendTargetsScope, TargetEvent, TargetRecord, TaskId};

fn good() -> Completion {
    Completion::default()
}

fn sn(number: u32) -> SerialNumber {
    SerialNumber::new(number)
}

#[test]
fn commands_outside_of_the_window_are_ignored() {
    let mut wire = Wire::log_in();
    let plain = wire.plain(1, 0);
    // test_iscsi_cmdsn_toohigh.c and test_iscsi_cmdsn_toolow.c of libiscsi.
    wire.send(&Request::Command(ScsiCommand { cmd_sn: plain.cmd_sn + 4, ..plain }), b"");
    wire.send(&Request::Command(ScsiCommand { cmd_sn: plain.cmd_sn - 1, ..plain }), b"");
    assert!(wire.is_silent());
    wire.send(&Request::Command(plain), b"");
    let task = wire.command().task;
    wire.target.complete(task, good()).expect("open");
    let (Response::Scsi(response), _) = wire.response() else { panic!("no status") };
    assert_eq!((response.exp_cmd_sn, response.max_cmd_sn), (sn(FIRST) + 1, sn(FIRST) + 4));
}

#[test]
fn commands_are_delivered_in_the_order_of_cmd_sn() {
    let mut wire = Wire::log_in();
    let numbered =
        |wire: &Wire, tag: u32| ScsiCommand { cmd_sn: sn(FIRST) + tag, ..wire.plain(tag, 0) };
    for tag in [2, 1, 3] {
        wire.send(&Request::Command(numbered(&wire, tag)), b"");
    }
    assert!(wire.is_silent());
    wire.send(&Request::Command(numbered(&wire, 0)), b"");
    let tasks: Vec<_> = (0..4).map(|_| wire.command().task).collect();
    assert_eq!(wire.target.command_window(), (sn(FIRST) + 4, sn(FIRST) + 3));
    // The tags were 2, 1, 3 and 0; identifiers are given on arrival.
    assert_eq!(tasks, [4, 2, 1, 3].map(TaskId));
    // An immediate command is delivered beyond the window.
    let immediate = ScsiCommand { immediate: true, cmd_sn: sn(FIRST) + 4, ..wire.plain(9, 0) };
    wire.send(&Request::Command(immediate), b"");
    assert_eq!(wire.command().expected_in, 0);
}

#[test]
fn the_window_opens_with_the_status() {
    let mut wire = Wire::log_in();
    let mut tasks = Vec::new();
    for tag in 0..4 {
        let command = wire.read(tag, 0);
        wire.send(&Request::Command(command), b"");
        tasks.push(wire.command().task);
    }
    let extra = wire.read(4, 0);
    wire.send(&Request::Command(extra), b"");
    assert!(wire.is_silent());
    wire.target.complete(tasks[2], good()).expect("open");
    let (Response::Scsi(response), _) = wire.response() else { panic!("no status") };
    assert_eq!(response.max_cmd_sn, sn(FIRST) + 4);
    assert_eq!(wire.target.complete(tasks[2], good()), Err(UsageError::UnknownRequest));
    wire.send(&Request::Command(extra), b"");
    wire.command();
}

#[test]
fn too_many_immediate_commands_and_doubled_tags_are_rejected() {
    let mut wire = Wire::log_in();
    for tag in 0..4 {
        let command = ScsiCommand { immediate: true, ..wire.plain(tag, 0) };
        wire.send(&Request::Command(command), b"");
        wire.command();
    }
    let command = ScsiCommand { immediate: true, ..wire.plain(4, 0) };
    wire.send(&Request::Command(command), b"");
    let doubled = wire.read(0, 0);
    wire.send(&Request::Command(doubled), b"");
    for expected in [RejectReason::ImmediateCommandReject, RejectReason::TaskInProgress] {
        let (Response::Reject(reject), header) = wire.response() else { panic!("no reject") };
        assert_eq!((reject.reason, header.len()), (expected, 48));
        assert!(matches!(wire.event(), Some(TargetEvent::Rejected { opcode: 1, .. })));
    }
    // The CmdSN of the rejected one is used up.
    assert_eq!(wire.target.command_window().0, sn(FIRST) + 1);
}

fn nop(wire: &Wire, immediate: bool, task_tag: u32, transfer_tag: u32) -> Request {
    Request::NopOut(NopOut {
        immediate,
        lun: Lun::default(),
        task_tag,
        transfer_tag,
        cmd_sn: wire.cmd_sn,
        exp_stat_sn: sn(0),
    })
}

#[test]
fn pings_are_answered_with_their_data() {
    let mut wire = Wire::log_in();
    wire.send(&nop(&wire, false, 7, NO_TAG), b"nopping\0");
    let (Response::NopIn(first), data) = wire.response() else { panic!("no answer") };
    assert_eq!((first.task_tag, first.transfer_tag, &data[..]), (7, NO_TAG, &b"nopping\0"[..]));
    assert_eq!((first.exp_cmd_sn, first.max_cmd_sn), (sn(FIRST) + 1, sn(FIRST) + 4));
    wire.send(&nop(&wire, true, 8, NO_TAG), &[1; 2000]);
    let (Response::NopIn(second), data) = wire.response() else { panic!("no answer") };
    assert_eq!((second.stat_sn, data.len()), (first.stat_sn + 1, 1024));
    wire.send(&nop(&wire, true, NO_TAG, NO_TAG), b"");
    assert!(wire.is_silent());
}

#[test]
fn silence_is_followed_by_a_ping_and_then_by_the_end() {
    let mut wire = Wire::log_in();
    let due = NOW + Duration::from_secs(15);
    assert_eq!(wire.target.next_timeout(), Some(due));
    wire.target.handle_timeout(due - Duration::from_millis(1));
    assert!(wire.is_silent());
    wire.target.handle_timeout(due);
    let (Response::NopIn(ping), _) = wire.response() else { panic!("no ping") };
    assert!(ping.task_tag == NO_TAG && ping.transfer_tag != NO_TAG);
    wire.send(&nop(&wire, true, NO_TAG, ping.transfer_tag), b"");
    assert!(matches!(wire.event(), Some(TargetEvent::Pong)));
    wire.target.handle_timeout(due);
    let (Response::NopIn(again), _) = wire.response() else { panic!("no ping") };
    assert_eq!(again.stat_sn, ping.stat_sn, "a ping uses up no StatSN");
    let end = due + Duration::from_secs(10);
    assert_eq!(wire.target.next_timeout(), Some(end));
    wire.target.handle_timeout(end);
    let closed = wire.event();
    assert!(matches!(closed, Some(TargetEvent::Closed(CloseReason::PingTimeout))), "{closed:?}");
    assert_eq!(wire.target.next_timeout(), None);
}

#[test]
fn a_login_that_does_not_end_is_ended() {
    let mut wire = Wire::connect(config());
    let due = NOW + Duration::from_secs(15);
    assert_eq!(wire.target.next_timeout(), Some(due));
    wire.target.handle_timeout(due);
    assert!(matches!(wire.event(), Some(TargetEvent::Closed(CloseReason::LoginTimeout))));
    assert!(!wire.target.wants_input());
}

#[test]
fn refused_logins_get_a_response_and_end() {
    let names = "InitiatorName=iqn.2001-04.a.b:i\0TargetName=iqn.2001-04.a.b:t\0";
    for (text, answer, status) in [
        ("InitialR2T=No\0", None, LoginStatus::MissingParameter),
        (names, Some(LoginAnswer::Refuse(LoginStatus::NotFound)), LoginStatus::NotFound),
        (
            names,
            Some(LoginAnswer::Redirect { address: "b:1".to_owned(), permanent: true }),
            LoginStatus::TargetMovedPermanently,
        ),
    ] {
        let mut wire = Wire::connect(config());
        wire.login(Stage::Operational, text);
        if let Some(answer) = answer {
            assert!(matches!(wire.event(), Some(TargetEvent::Login(_))));
            wire.target.answer_login(answer).expect("asked");
        }
        let (Response::Login(response), text) = wire.response() else { panic!("no response") };
        assert_eq!((response.status, response.transit), (status, false));
        assert_eq!(!text.is_empty(), status.is_redirection());
        assert!(matches!(wire.event(), Some(TargetEvent::Closed(_))));
    }
}

#[test]
fn the_shell_refuses_a_session_after_the_authentication() {
    let mut wire = Wire::connect(config());
    let names = "InitiatorName=iqn.2001-04.a.b:i\0TargetName=iqn.2001-04.a.b:t\0";
    wire.login(Stage::Operational, names);
    wire.event();
    wire.target.answer_login(LoginAnswer::Allow { chap: None, alias: None }).expect("asked");
    assert_eq!(wire.target.accept_session(NOW, 0), Err(UsageError::Invalid("TSIH is 0")));
    wire.target.refuse_session(LoginStatus::OutOfResources).expect("asked");
    let (Response::Login(response), _) = wire.response() else { panic!("no response") };
    assert_eq!(response.status, LoginStatus::OutOfResources);
}

fn text(wire: &Wire, transfer_tag: u32, is_final: bool, more: bool) -> Request {
    Request::Text(TextRequest {
        immediate: true,
        is_final,
        more,
        lun: Lun::default(),
        task_tag: 9,
        transfer_tag,
        cmd_sn: wire.cmd_sn,
        exp_stat_sn: sn(0),
    })
}

fn record(name: &str) -> TargetRecord {
    let addresses = vec!["10.0.0.1:3260,1".to_owned()];
    TargetRecord { name: name.parse().expect("a name"), addresses }
}

/// test_iscsi_sendtargets.c of libiscsi.
#[test]
fn send_targets_is_answered_and_other_texts_are_rejected() {
    let mut wire = Wire::log_in();
    for bad in
        ["SendTargetsPlease=All\0", "SendTargets=Alle\0", "SendTargets=A\0", "sENDtARGETS=aLL\0"]
    {
        wire.send(&text(&wire, NO_TAG, true, false), bad.as_bytes());
        let (Response::Reject(reject), _) = wire.response() else { panic!("{bad}") };
        assert_eq!(reject.reason, RejectReason::ProtocolError);
        assert!(matches!(wire.event(), Some(TargetEvent::Rejected { opcode: 4, .. })));
    }
    wire.send(&text(&wire, NO_TAG, true, false), b"SendTargets=All\0");
    let Some(TargetEvent::SendTargets { request, scope }) = wire.event() else { panic!() };
    assert_eq!(scope, SendTargetsScope::Current);
    wire.target.answer_send_targets(request, &[record("iqn.2001-04.a.b:t")]).expect("open");
    let (Response::Text(response), data) = wire.response() else { panic!("no text") };
    assert!(response.is_final && response.transfer_tag == NO_TAG);
    assert_eq!(&data[..], b"TargetName=iqn.2001-04.a.b:t\0TargetAddress=10.0.0.1:3260,1\0");
    assert_eq!(wire.target.answer_send_targets(request, &[]), Err(UsageError::UnknownRequest));
}

/// RFC 7143 13.7: may be declared in any phase.
#[test]
fn an_alias_of_the_initiator_is_understood() {
    let mut wire = Wire::log_in();
    wire.send(&text(&wire, NO_TAG, true, false), b"InitiatorAlias=host\0");
    let (Response::Text(response), data) = wire.response() else { panic!("no text") };
    assert!(response.is_final && data.is_empty());
}

/// RFC 7143 7.12: a negotiation that fails changes nothing.
#[test]
fn a_rejected_text_changes_no_limit() {
    let mut wire =
        Wire::log_in_with(config(), "SessionType=Discovery\0MaxRecvDataSegmentLength=4096\0");
    let bad = b"MaxRecvDataSegmentLength=512\0SendTargets=Alle\0";
    wire.send(&text(&wire, NO_TAG, true, false), bad);
    assert!(matches!(wire.response().0, Response::Reject(_)));
    wire.event();
    wire.send(&text(&wire, NO_TAG, true, false), b"SendTargets=All\0");
    let Some(TargetEvent::SendTargets { request, .. }) = wire.event() else { panic!() };
    let records: Vec<_> = (0..20).map(|n| record(&format!("iqn.2001-04.a.b:t{n}"))).collect();
    wire.target.answer_send_targets(request, &records).expect("open");
    let (Response::Text(response), data) = wire.response() else { panic!("no text") };
    assert!(response.is_final && data.len() > 512);
}

#[test]
fn long_texts_take_several_pdus_both_ways() {
    let mut wire =
        Wire::log_in_with(config(), "SessionType=Discovery\0MaxRecvDataSegmentLength=512\0");
    wire.send(&text(&wire, NO_TAG, false, true), b"Send");
    let (Response::Text(response), data) = wire.response() else { panic!("no text") };
    assert!(!response.is_final && !response.more && data.is_empty());
    wire.send(&text(&wire, response.transfer_tag, true, false), b"Targets=All\0");
    let Some(TargetEvent::SendTargets { request, scope }) = wire.event() else { panic!() };
    assert_eq!(scope, SendTargetsScope::All);
    let records: Vec<_> = (0..20).map(|n| record(&format!("iqn.2001-04.a.b:t{n}"))).collect();
    wire.target.answer_send_targets(request, &records).expect("open");
    let mut all = Vec::new();
    loop {
        let (Response::Text(response), data) = wire.response() else { panic!("no text") };
        assert!(data.len() <= 512);
        all.extend_from_slice(&data);
        if response.is_final {
            break;
        }
        assert!(response.more && wire.try_response().is_none());
        wire.send(&text(&wire, response.transfer_tag, true, false), b"");
    }
    assert_eq!(String::from_utf8(all).expect("text").matches("TargetName=").count(), 20);
    // A tag that is over.
    wire.send(&text(&wire, 12, true, false), b"");
    assert!(matches!(wire.response().0, Response::Reject(_)));
}

#[test]
fn a_discovery_session_has_no_commands() {
    let mut wire = Wire::log_in_with(config(), "SessionType=Discovery\0");
    let command = wire.read(1, 512);
    wire.send(&Request::Command(command), b"");
    let (Response::Reject(reject), _) = wire.response() else { panic!("no reject") };
    assert_eq!(reject.reason, RejectReason::CommandNotSupported);
    assert_eq!(wire.target.command_window().0, sn(FIRST) + 1);
}

fn logout(wire: &Wire, reason: LogoutReason, cid: u16) -> Request {
    Request::Logout(LogoutRequest {
        immediate: true,
        reason,
        task_tag: 4,
        cid,
        cmd_sn: wire.cmd_sn,
        exp_stat_sn: sn(0),
    })
}

#[test]
fn a_logout_ends_the_commands_and_the_connection() {
    let mut wire = Wire::log_in();
    let command = wire.read(1, 512);
    wire.send(&Request::Command(command), b"");
    let task = wire.command().task;
    for (reason, cid, code) in [
        (LogoutReason::RemoveForRecovery, 3, LogoutResponseCode::RecoveryNotSupported),
        (LogoutReason::CloseConnection, 9, LogoutResponseCode::CidNotFound),
    ] {
        wire.send(&logout(&wire, reason, cid), b"");
        let (Response::Logout(response), _) = wire.response() else { panic!("no response") };
        assert_eq!(response.response, code);
    }
    assert_eq!(wire.target.open_commands(), 1);
    wire.send(&logout(&wire, LogoutReason::CloseConnection, 3), b"");
    assert!(matches!(wire.event(), Some(TargetEvent::Logout(LogoutReason::CloseConnection))));
    assert_eq!(wire.target.complete(task, good()), Err(UsageError::UnknownRequest));
    wire.send(&nop(&wire, true, 8, NO_TAG), b"");
    let (Response::Logout(response), _) = wire.response() else { panic!("no response") };
    assert_eq!((response.response, response.wait), (LogoutResponseCode::Success, 2));
    assert!(matches!(wire.event(), Some(TargetEvent::Closed(CloseReason::Logout))));
    assert!(wire.is_silent());
}

#[test]
fn asynchronous_messages_use_up_a_stat_sn() {
    let mut wire = Wire::log_in();
    let event = AsyncEvent::LogoutRequested { within: 7 };
    wire.target.send_async(event, &Bytes::new()).expect("in the phase");
    let scsi = AsyncEvent::Scsi { lun: Lun::default() };
    wire.target.send_async(scsi, &Bytes::from_static(&[0x70, 0, 6])).expect("in the phase");
    let (Response::Async(first), _) = wire.response() else { panic!("no message") };
    let (Response::Async(second), sense) = wire.response() else { panic!("no message") };
    assert_eq!((first.event, second.event), (event, scsi));
    assert_eq!((second.stat_sn, &sense[..]), (first.stat_sn + 1, &[0, 3, 0x70, 0, 6][..]));
}

#[test]
fn keys_decide_about_digests() {
    let keys = format!("{KEYS}HeaderDigest=CRC32C\0DataDigest=CRC32C\0");
    let mut wire = Wire::log_in_with(config(), &keys);
    wire.send(&nop(&wire, true, 8, NO_TAG), b"with digests");
    let (Response::NopIn(_), data) = wire.response() else { panic!("no answer") };
    assert_eq!(&data[..], b"with digests");
}
