//! Task management (RFC 7143 11.5, 11.6) and logout (11.14, 11.15).

use super::connection::{OpenManagement, TargetConnection, TargetPhase};
use super::event::{RequestId, TargetEvent, TaskId};
use super::output_item::StatusOutput;
use super::task::TaskStage;
use super::window::Pending;
use crate::error::UsageError;
use crate::lun::Lun;
use crate::pdu::{
    LogoutReason, LogoutRequest, LogoutResponseCode, TaskFunction, TaskRequest, TaskResponse,
};

impl TargetConnection {
    pub(super) fn handle_management(&mut self, request: &TaskRequest) {
        let refused = match request.function {
            // RFC 7143 7.2.2: tasks are not moved at ErrorRecoveryLevel 0.
            TaskFunction::TaskReassign => Some(TaskResponse::ReassignNotSupported),
            TaskFunction::ClearAca | TaskFunction::Other(_) => Some(TaskResponse::NotSupported),
            _ if self.managements.len() >= usize::from(self.config.queue_depth) => {
                Some(TaskResponse::Rejected)
            }
            _ => None,
        };
        if let Some(response) = refused {
            return self.answer_management(request.task_tag, response);
        }
        let task = match request.function {
            TaskFunction::AbortTask => match self.find_referenced(request) {
                Ok(task) => Some(task),
                Err(response) => return self.answer_management(request.task_tag, response),
            },
            TaskFunction::AbortTaskSet
            | TaskFunction::ClearTaskSet
            | TaskFunction::LogicalUnitReset => {
                self.drop_waiting(request, Some(request.lun));
                None
            }
            _ => {
                self.drop_waiting(request, None);
                None
            }
        };
        let id = self.fresh_request();
        let open = OpenManagement { tag: request.task_tag, function: request.function };
        self.managements.insert(id, open);
        self.events.push_back(TargetEvent::TaskManagement {
            request: RequestId(id),
            function: request.function,
            lun: request.lun,
            task,
        });
    }

    fn answer_management(&mut self, tag: u32, response: TaskResponse) {
        self.queue_status(StatusOutput::Task(tag, response));
    }

    /// The task of ABORT TASK that the shell has, or the answer without it.
    fn find_referenced(&mut self, request: &TaskRequest) -> Result<TaskId, TaskResponse> {
        let tag = request.referenced_tag;
        match self.tasks.get(&tag).map(|task| (task.stage, task.id, task.lun == request.lun)) {
            Some((TaskStage::Delivered, id, true)) => Ok(id),
            Some((TaskStage::Waiting, _, true)) => {
                self.drop_task(tag);
                Err(TaskResponse::Complete)
            }
            // Its status is on the way, and leaves before this answer.
            Some(_) => Err(TaskResponse::TaskDoesNotExist),
            // RFC 7143 11.6.1: a command that was lost counts as received.
            None => match self.window.place(request.referenced_cmd_sn) {
                Some(place) if request.referenced_cmd_sn.before(request.cmd_sn) => {
                    self.window.put(place, Pending::Skip);
                    Err(TaskResponse::Complete)
                }
                _ => Err(TaskResponse::TaskDoesNotExist),
            },
        }
    }

    /// Forgets commands before the request that the shell has not seen (RFC 7143 4.2.3.3).
    fn drop_waiting(&mut self, request: &TaskRequest, lun: Option<Lun>) {
        let meant = self.tasks.iter().filter(|(_, task)| {
            task.stage == TaskStage::Waiting
                && lun.is_none_or(|lun| lun == task.lun)
                && !task.cmd_sn.after(request.cmd_sn)
        });
        let tags: Vec<u32> = meant.map(|(tag, _)| *tag).collect();
        tags.into_iter().for_each(|tag| self.drop_task(tag));
    }

    /// Answers [`TargetEvent::TaskManagement`]. The tasks that are meant are aborted before.
    ///
    /// # Errors
    ///
    /// The request is not open.
    pub fn finish_task_management(
        &mut self,
        request: RequestId,
        response: TaskResponse,
    ) -> Result<(), UsageError> {
        let open = self.managements.remove(&request.0).ok_or(UsageError::UnknownRequest)?;
        self.answer_management(open.tag, response);
        Ok(())
    }

    /// The function of an open request of task management.
    pub fn open_management(&self, request: RequestId) -> Option<TaskFunction> {
        self.managements.get(&request.0).map(|open| open.function)
    }

    /// RFC 7143 11.14, 11.15.
    pub(super) fn handle_logout(&mut self, request: &LogoutRequest) {
        let response = match request.reason {
            LogoutReason::CloseSession => LogoutResponseCode::Success,
            LogoutReason::CloseConnection if request.cid == self.cid => LogoutResponseCode::Success,
            LogoutReason::CloseConnection => LogoutResponseCode::CidNotFound,
            LogoutReason::RemoveForRecovery => LogoutResponseCode::RecoveryNotSupported,
            LogoutReason::Other(_) => LogoutResponseCode::CleanupFailed,
        };
        if response == LogoutResponseCode::Success {
            self.drop_all();
            self.phase = TargetPhase::LoggingOut;
            self.events.push_back(TargetEvent::Logout(request.reason));
        }
        self.queue_status(StatusOutput::Logout(request.task_tag, response));
    }
}
