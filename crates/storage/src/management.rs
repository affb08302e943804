//! Task management (RFC 7143 11.5): ends tasks of a session, of a unit, of the target.

use std::rc::Rc;

use iscsi::pdu::{TaskFunction, TaskResponse};
use iscsi::target::RequestId;
use iscsi::{Lun, TaskId};
use scsi::{LunAddress, LunNumber, UnitRight};

use crate::session::Session;

/// Carries out a function, and answers.
pub(crate) fn manage(
    session: &Rc<Session>,
    request: RequestId,
    function: TaskFunction,
    lun: Lun,
    task: Option<TaskId>,
) {
    let response = carry_out(session, function, lun, task);
    let _ = session.connection.borrow_mut().finish_task_management(request, response);
    if function == TaskFunction::TargetColdReset && response == TaskResponse::Complete {
        for session in session.others() {
            session.finish();
        }
        session.finish();
    }
}

fn carry_out(
    session: &Session,
    function: TaskFunction,
    lun: Lun,
    task: Option<TaskId>,
) -> TaskResponse {
    let whole = matches!(function, TaskFunction::TargetWarmReset | TaskFunction::TargetColdReset);
    let right = |number| {
        let scsi = session.device.scsi.borrow();
        session.nexus.get().and_then(|nexus| scsi.right(nexus, number))
    };
    let (number, right) = match LunAddress::parse(lun.bytes()) {
        _ if whole => (None, None),
        LunAddress::Unit(number) if right(number).is_some() => (Some(number), right(number)),
        _ => return TaskResponse::LunDoesNotExist,
    };
    // What reaches other sessions' tasks is for those that may write (RFC 7143 11.6.1).
    let is_forbidden = match function {
        TaskFunction::ClearTaskSet | TaskFunction::LogicalUnitReset => {
            right < Some(UnitRight::Write)
        }
        _ if whole => !may_write_all(session),
        _ => false,
    };
    if is_forbidden {
        return TaskResponse::AuthorizationFailed;
    }
    match (function, number, task) {
        (TaskFunction::AbortTask, _, None) => return TaskResponse::TaskDoesNotExist,
        (TaskFunction::AbortTask, _, Some(task)) => session.abort(task),
        (TaskFunction::AbortTaskSet, ..) => drop(session.abort_all(Some(lun))),
        (TaskFunction::ClearTaskSet, Some(number), _) => clear(session, lun, number),
        (TaskFunction::LogicalUnitReset, Some(number), _) => {
            abort_everywhere(session, Some(lun));
            let _ = session.device.scsi.borrow_mut().reset_lun(number);
        }
        (TaskFunction::TargetWarmReset | TaskFunction::TargetColdReset, ..) => {
            abort_everywhere(session, None);
            session.device.scsi.borrow_mut().reset_target();
        }
        _ => return TaskResponse::NotSupported,
    }
    TaskResponse::Complete
}

fn may_write_all(session: &Session) -> bool {
    let scsi = session.device.scsi.borrow();
    session.nexus.get().is_some_and(|nexus| scsi.may_write_all(nexus))
}

/// CLEAR TASK SET: other initiators whose tasks are gone learn it.
fn clear(session: &Session, lun: Lun, number: LunNumber) {
    session.abort_all(Some(lun));
    for other in session.others() {
        if other.abort_all(Some(lun)) > 0
            && let Some(nexus) = other.nexus.get()
        {
            session.device.scsi.borrow_mut().commands_cleared(number, nexus);
        }
    }
}

fn abort_everywhere(session: &Session, lun: Option<Lun>) {
    session.abort_all(lun);
    for other in session.others() {
        other.abort_all(lun);
    }
}
