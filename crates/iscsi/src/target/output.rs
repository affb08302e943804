//! PDUs out of the queues. Sequence numbers are filled in when a PDU leaves.

use bytes::{BufMut, Bytes, BytesMut};

use super::connection::{TargetConnection, TargetPhase};
use super::event::{CloseReason, TargetEvent};
use super::output_item::{
    AnswerOutput, DataInQueue, Finish, OrderedOutput, R2tOutput, StatusOutput,
};
use crate::framing::encode;
use crate::lun::Lun;
use crate::pdu::{
    AsyncMessage, DataIn, LogoutResponse, NO_TAG, NopIn, R2t, Reject, Response, ScsiResponse,
    ServiceResponse, TaskManagementResponse, TextResponse,
};
use crate::serial::SerialNumber;
use crate::transmit::Transmit;

/// StatSN, ExpCmdSN and MaxCmdSN of a PDU.
struct Numbers {
    stat_sn: SerialNumber,
    exp_cmd_sn: SerialNumber,
    max_cmd_sn: SerialNumber,
}

impl TargetConnection {
    /// The next PDU to send. R2Ts and answers to pings overtake statuses and data.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        if let Some(r2t) = self.r2ts.pop_front() {
            return Some(self.emit_r2t(&r2t));
        }
        if let Some(answer) = self.answers.pop_front() {
            return Some(self.emit_answer(answer));
        }
        loop {
            match self.ordered.pop_front()? {
                OrderedOutput::Data(queue) => {
                    if let Some(pdu) = self.emit_data(queue) {
                        return Some(pdu);
                    }
                }
                OrderedOutput::Other(other) => return Some(self.emit_ordered(other)),
            }
        }
    }

    /// Numbers of a PDU; `counts` if it uses up a StatSN (RFC 7143 4.2.2.2).
    fn numbers(&mut self, counts: bool) -> Numbers {
        let stat_sn = self.stat_sn;
        if counts {
            self.stat_sn = stat_sn.next();
        }
        let (exp_cmd_sn, max_cmd_sn) = self.window.numbers();
        Numbers { stat_sn, exp_cmd_sn, max_cmd_sn }
    }

    fn encode(&self, response: &Response, data: Vec<Bytes>) -> Transmit {
        let digests = match response {
            // RFC 7143 13.1: the login has no digests.
            Response::Login(_) => (false, false),
            _ => (self.parameters.header_digest, self.parameters.data_digest),
        };
        encode(response.emit(), &[], data, digests)
    }

    fn emit_r2t(&mut self, r2t: &R2tOutput) -> Transmit {
        self.counters.r2ts += 1;
        let Numbers { stat_sn, exp_cmd_sn, max_cmd_sn } = self.numbers(false);
        let response = Response::R2t(R2t {
            lun: r2t.lun,
            task_tag: r2t.task_tag,
            transfer_tag: r2t.transfer_tag,
            stat_sn,
            exp_cmd_sn,
            max_cmd_sn,
            r2t_sn: SerialNumber::new(r2t.r2t_sn),
            offset: r2t.offset,
            length: r2t.length,
        });
        self.encode(&response, Vec::new())
    }

    fn emit_answer(&mut self, answer: AnswerOutput) -> Transmit {
        // RFC 7143 11.19.2: a ping uses up no StatSN.
        let counts = !matches!(answer, AnswerOutput::Ping(_));
        let Numbers { stat_sn, exp_cmd_sn, max_cmd_sn } = self.numbers(counts);
        let (response, data) = match answer {
            AnswerOutput::Nop(nop, data) => {
                let (lun, task_tag, transfer_tag) = (nop.lun, nop.task_tag, NO_TAG);
                (NopIn { lun, task_tag, transfer_tag, stat_sn, exp_cmd_sn, max_cmd_sn }, data)
            }
            AnswerOutput::Ping(transfer_tag) => {
                let (lun, task_tag) = (Lun::default(), NO_TAG);
                let nop = NopIn { lun, task_tag, transfer_tag, stat_sn, exp_cmd_sn, max_cmd_sn };
                (nop, Bytes::new())
            }
            AnswerOutput::Reject(reason, bhs) => {
                let data_sn = SerialNumber::new(0);
                let reject = Reject { reason, stat_sn, exp_cmd_sn, max_cmd_sn, data_sn };
                let header = Bytes::copy_from_slice(&bhs.0);
                return self.encode(&Response::Reject(reject), vec![header]);
            }
        };
        self.encode(&Response::NopIn(response), vec![data])
    }

    fn emit_ordered(&mut self, item: StatusOutput) -> Transmit {
        let Numbers { stat_sn, exp_cmd_sn, max_cmd_sn } = self.numbers(true);
        let (response, data) = match item {
            StatusOutput::Login(mut login, text) => {
                (login.stat_sn, login.exp_cmd_sn, login.max_cmd_sn) =
                    (stat_sn, exp_cmd_sn, max_cmd_sn);
                (Response::Login(login), text.into())
            }
            StatusOutput::Task(task_tag, response) => {
                let response =
                    TaskManagementResponse { response, task_tag, stat_sn, exp_cmd_sn, max_cmd_sn };
                (Response::Task(response), Bytes::new())
            }
            StatusOutput::Text { tag, lun, transfer_tag, is_final, more, text } => {
                let response = TextResponse {
                    is_final,
                    more,
                    lun,
                    task_tag: tag,
                    transfer_tag,
                    stat_sn,
                    exp_cmd_sn,
                    max_cmd_sn,
                };
                (Response::Text(response), text)
            }
            StatusOutput::Logout(task_tag, response) => {
                let (wait, retain) = (self.parameters.time_to_wait, self.parameters.time_to_retain);
                self.end_logout();
                let response = LogoutResponse {
                    response,
                    task_tag,
                    stat_sn,
                    exp_cmd_sn,
                    max_cmd_sn,
                    wait,
                    retain,
                };
                (Response::Logout(response), Bytes::new())
            }
            StatusOutput::Async(event, sense) => {
                let message = AsyncMessage { event, stat_sn, exp_cmd_sn, max_cmd_sn };
                (Response::Async(message), sense_segment(&sense))
            }
        };
        self.encode(&response, vec![data])
    }

    /// After the answer to the logout the connection is over.
    fn end_logout(&mut self) {
        if matches!(self.phase, TargetPhase::LoggingOut) {
            self.phase = TargetPhase::Closed;
            self.events.push_back(TargetEvent::Closed(CloseReason::Logout));
        }
    }

    /// The next PDU of a command's data, or its status; `None` if the entry is used up.
    fn emit_data(&mut self, mut queue: DataInQueue) -> Option<Transmit> {
        if queue.left == 0 {
            return queue.finish.map(|finish| self.emit_status(queue.tag, finish));
        }
        let tag = queue.tag;
        let step = queue.left.min(self.parameters.send_limit).min(queue.burst_left);
        let data = take_pieces(&mut queue, step);
        let offset = queue.offset;
        queue.offset = offset.wrapping_add(step);
        queue.left -= step;
        queue.burst_left -= step;
        // RFC 7143 11.7.1: a sequence ends with a burst, and with what the shell gave at once.
        let is_final = queue.burst_left == 0 || queue.left == 0;
        if queue.burst_left == 0 {
            queue.burst_left = self.parameters.max_burst;
        }
        let task = self.tasks.get_mut(&tag)?;
        let data_sn = SerialNumber::new(task.data_in_sn);
        task.data_in_sn = task.data_in_sn.wrapping_add(1);
        let bidirectional = task.expected_out > 0;
        let mut status = None;
        if queue.left > 0 {
            self.ordered.push_front(OrderedOutput::Data(queue));
        } else if let Some(finish) = queue.finish.take() {
            // RFC 7143 11.7.3: GOOD travels with the last data; sense data needs a PDU of its own.
            if finish.is_plain() && !bidirectional {
                status = Some((finish.status, finish.residual));
            } else {
                queue.finish = Some(finish);
                self.ordered.push_front(OrderedOutput::Data(queue));
            }
        }
        if status.is_some() {
            self.drop_task(tag);
            self.ask_for_data();
        }
        let numbers = self.numbers(status.is_some());
        let response = Response::DataIn(DataIn {
            is_final,
            acknowledge: false,
            status,
            lun: Lun::default(),
            task_tag: tag,
            transfer_tag: NO_TAG,
            stat_sn: if status.is_some() { numbers.stat_sn } else { SerialNumber::new(0) },
            exp_cmd_sn: numbers.exp_cmd_sn,
            max_cmd_sn: numbers.max_cmd_sn,
            data_sn,
            offset,
        });
        Some(self.encode(&response, data))
    }

    /// RFC 7143 11.4.
    fn emit_status(&mut self, tag: u32, finish: Finish) -> Transmit {
        let Finish { status, sense, residual, read_residual } = finish;
        let sent = self.tasks.get(&tag).map_or(0, |task| task.data_in_sn.wrapping_add(task.r2t_sn));
        self.drop_task(tag);
        self.ask_for_data();
        let Numbers { stat_sn, exp_cmd_sn, max_cmd_sn } = self.numbers(true);
        let response = Response::Scsi(ScsiResponse {
            response: ServiceResponse::Completed,
            status,
            read_residual,
            residual,
            task_tag: tag,
            stat_sn,
            exp_cmd_sn,
            max_cmd_sn,
            exp_data_sn: SerialNumber::new(sent),
        });
        self.encode(&response, vec![sense_segment(&sense)])
    }
}

impl Finish {
    /// Whether it fits into a Data-In.
    fn is_plain(&self) -> bool {
        self.status == 0 && self.sense.is_empty()
    }
}

/// RFC 7143 11.4.7: SenseLength and sense data.
fn sense_segment(sense: &Bytes) -> Bytes {
    if sense.is_empty() {
        return Bytes::new();
    }
    let mut segment = BytesMut::with_capacity(2 + sense.len());
    segment.put_u16(u16::try_from(sense.len()).unwrap_or(0));
    segment.extend_from_slice(sense);
    segment.freeze()
}

/// Takes that many bytes from the front.
fn take_pieces(queue: &mut DataInQueue, length: u32) -> Vec<Bytes> {
    let mut left = length as usize;
    let mut pieces = Vec::new();
    while left > 0 {
        let Some(front) = queue.pieces.front_mut() else { break };
        let step = front.len().min(left);
        pieces.push(front.split_to(step));
        left -= step;
        if front.is_empty() {
            queue.pieces.pop_front();
        }
    }
    pieces
}
