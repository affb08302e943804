//! Task management.

use super::harness::{Wire, data_out, unsolicited};
use crate::lun::Lun;
use crate::pdu::{NO_TAG, Request, Response, TaskFunction, TaskResponse};
use crate::serial::SerialNumber;
use crate::target::{Completion, TargetEvent};

fn answer(wire: &mut Wire) -> TaskResponse {
    match wire.response() {
        (Response::Task(response), _) => response.response,
        other => panic!("no answer: {other:?}"),
    }
}

/// test_async_abort_simple.c of libiscsi: either the status and "does not exist", or no status.
#[test]
fn an_aborted_command_has_no_status() {
    let mut wire = Wire::log_in();
    let command = wire.write(1, 4096, true);
    wire.send(&Request::Command(command), &[1; 1024]);
    let task = wire.command().task;
    wire.target.request_data(task, 1024, 3072).expect("in range");
    let (Response::R2t(r2t), _) = wire.response() else { panic!("no R2T") };
    wire.manage(TaskFunction::AbortTask, 1, command.cmd_sn);
    let Some(TargetEvent::TaskManagement { request, function, task: meant, .. }) = wire.event()
    else {
        panic!("no request");
    };
    assert_eq!((function, meant), (TaskFunction::AbortTask, Some(task)));
    assert_eq!(wire.target.open_management(request), Some(TaskFunction::AbortTask));
    wire.target.abort(task).expect("open");
    wire.target.finish_task_management(request, TaskResponse::Complete).expect("open");
    assert_eq!(answer(&mut wire), TaskResponse::Complete);
    // Its data is discarded.
    wire.send(&data_out(1, r2t.transfer_tag, 0, 1024, true), &[1; 3072]);
    assert!(wire.is_silent() && wire.target.open_commands() == 0);
    assert!(wire.target.finish_task_management(request, TaskResponse::Complete).is_err());
}

#[test]
fn a_command_that_is_done_is_told_before_the_answer() {
    let mut wire = Wire::log_in();
    let command = wire.read(1, 0);
    wire.send(&Request::Command(command), b"");
    let task = wire.command().task;
    wire.target.complete(task, Completion::default()).expect("open");
    wire.manage(TaskFunction::AbortTask, 1, command.cmd_sn);
    assert!(matches!(wire.response().0, Response::Scsi(_)));
    assert_eq!(answer(&mut wire), TaskResponse::TaskDoesNotExist);
    assert!(wire.is_silent());
}

#[test]
fn a_command_that_waits_is_aborted_without_the_shell() {
    let mut wire = Wire::log_in();
    let command = wire.write(1, 4096, false);
    wire.send(&Request::Command(command), b"");
    let next = wire.read(2, 0);
    wire.send(&Request::Command(next), b"");
    wire.manage(TaskFunction::AbortTask, 1, command.cmd_sn);
    assert_eq!(answer(&mut wire), TaskResponse::Complete);
    wire.send(&unsolicited(1, 0, 0, true), &[0; 4096]);
    assert_eq!(wire.command().expected_out, 0);
    assert_eq!(wire.target.command_window().1, SerialNumber::new(super::harness::FIRST) + 4);
}

/// RFC 7143 11.6.1: a lost command counts as received.
#[test]
fn a_lost_command_is_skipped() {
    let mut wire = Wire::log_in();
    let lost = wire.read(1, 0);
    let next = wire.read(2, 0);
    wire.send(&Request::Command(next), b"");
    assert!(wire.is_silent());
    wire.manage(TaskFunction::AbortTask, 1, lost.cmd_sn);
    assert_eq!(answer(&mut wire), TaskResponse::Complete);
    wire.command();
    wire.manage(TaskFunction::AbortTask, 1, lost.cmd_sn);
    assert_eq!(answer(&mut wire), TaskResponse::TaskDoesNotExist);
}

#[test]
fn resets_name_the_commands_of_the_unit() {
    let mut wire = Wire::log_in();
    let command = wire.read(1, 0);
    wire.send(&Request::Command(command), b"");
    let task = wire.command().task;
    for function in [
        TaskFunction::AbortTaskSet,
        TaskFunction::ClearTaskSet,
        TaskFunction::LogicalUnitReset,
        TaskFunction::TargetWarmReset,
        TaskFunction::TargetColdReset,
    ] {
        wire.manage(function, NO_TAG, SerialNumber::new(0));
        let Some(TargetEvent::TaskManagement { request, task: None, .. }) = wire.event() else {
            panic!("no request");
        };
        assert_eq!(wire.target.tasks_of(Some(Lun::default())), [task]);
        assert_eq!(wire.target.tasks_of(Lun::from_number(1)), []);
        wire.target.finish_task_management(request, TaskResponse::Complete).expect("open");
        assert_eq!(answer(&mut wire), TaskResponse::Complete);
    }
    wire.target.abort(task).expect("open");
    assert_eq!(wire.target.tasks_of(None), []);
}

#[test]
fn functions_that_are_not_there_are_refused() {
    let mut wire = Wire::log_in();
    for (function, response) in [
        (TaskFunction::TaskReassign, TaskResponse::ReassignNotSupported),
        (TaskFunction::ClearAca, TaskResponse::NotSupported),
        (TaskFunction::Other(0x50), TaskResponse::NotSupported),
    ] {
        wire.manage(function, NO_TAG, SerialNumber::new(0));
        assert_eq!(answer(&mut wire), response);
    }
    assert!(wire.event().is_none());
}
