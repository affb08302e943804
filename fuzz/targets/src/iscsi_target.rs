//! A hostile iSCSI initiator.
//!
//! The first byte has flags. The rest is a stream of bytes to a target's connection. With bit 0 an
//! honest login comes first, and bits 1 to 3 choose its keys. The upper four bits are the length of
//! the pieces in which the stream comes, in steps of 12 bytes. With bit 4 the target asks for CHAP,
//! if there is no honest login.
//!
//! For any stream there is no panic, and the connection holds no more bytes than the sum in the
//! documentation of `TargetConfig`.

use core::time::Duration;

use bytes::Bytes;
use iscsi::framing::encode;
use iscsi::pdu::{Isid, LoginRequest, Request, Stage, TaskFunction, TaskResponse};
use iscsi::settings::{ChapAccount, ChapAlgorithm, ChapPolicy};
use iscsi::target::{Completion, LoginAnswer, TargetCommand};
use iscsi::{ChapSecret, KeySettings, SerialNumber, TargetConfig, TargetConnection, TargetEvent};

const NOW: Duration = Duration::from_secs(1);
/// `(queue_depth + 2 × max_immediate)` first bursts of the default length, the budget, a payload,
/// headers and text.
const BOUND: usize = (8 + 8) * 65_536 + 16_384 + 4096 + (18 << 10);

/// Settings that a short stream can exhaust.
pub(crate) fn config(flags: u8) -> TargetConfig {
    let keys = KeySettings {
        max_recv_data_segment: 4096,
        first_burst: 4096,
        max_burst: 8192,
        max_outstanding_r2t: 2,
        data_pdu_in_order: flags & 4 == 0,
        data_sequence_in_order: flags & 4 == 0,
        ..KeySettings::default()
    };
    TargetConfig {
        keys,
        queue_depth: 8,
        max_immediate: 4,
        data_out_budget: 16_384,
        ..TargetConfig::default()
    }
}

/// The keys that the honest login offers.
fn login_text(flags: u8) -> String {
    let session = match flags & 2 {
        0 => "TargetName=iqn.2001-04.a.b:t\0",
        _ => "SessionType=Discovery\0",
    };
    let order = if flags & 4 == 0 { "Yes" } else { "No" };
    let digest = if flags & 8 == 0 { "None" } else { "CRC32C" };
    format!(
        "InitiatorName=iqn.2001-04.a.b:i\0{session}InitialR2T=No\0DataPDUInOrder={order}\0\
         DataSequenceInOrder={order}\0DataDigest={digest}\0MaxRecvDataSegmentLength=1024\0"
    )
}

fn log_in(target: &mut TargetConnection, flags: u8) {
    let zero = SerialNumber::new(0);
    let request = Request::Login(LoginRequest {
        transit: true,
        more: false,
        current: Stage::Operational,
        next: Stage::FullFeature,
        version_max: 0,
        version_min: 0,
        isid: Isid([0x80, 0, 0, 0, 0, 1]),
        tsih: 0,
        task_tag: 0,
        cid: 0,
        cmd_sn: zero,
        exp_stat_sn: zero,
    });
    let pdu = encode(request.emit(), &[], vec![login_text(flags).into()], (false, false));
    let mut bytes: Bytes = pdu.into_pieces().flatten().collect();
    target.handle_bytes(NOW, &mut bytes);
    while let Some(event) = target.poll_event() {
        answer(target, event, 0);
    }
    assert!(target.is_full_feature());
}

/// The shell: it answers all questions, and ends most commands. Its calls may fail: a later PDU of
/// the same piece may have ended the connection or the command.
fn answer(target: &mut TargetConnection, event: TargetEvent, flags: u8) {
    match event {
        TargetEvent::Login(_) => {
            let account = ChapAccount { name: "a".to_owned(), secret: ChapSecret::new(b"b") };
            let chap = (flags & 16 != 0).then(|| ChapPolicy {
                initiator: account,
                target: None,
                algorithms: vec![ChapAlgorithm::Sha256],
            });
            let _ =
                target.answer_login(LoginAnswer::Allow { chap: chap.map(Into::into), alias: None });
        }
        TargetEvent::SessionReady(_) => {
            let _ = target.accept_session(NOW, 1);
        }
        TargetEvent::Command(command) => perform(target, &command),
        TargetEvent::DataOut { task, data, .. } => {
            let first = data.first().and_then(|piece| piece.first());
            if first.is_some_and(|byte| byte & 1 == 0) {
                let _ = target.complete(task, Completion::default());
            }
        }
        TargetEvent::TaskManagement { request, function, task, lun } => {
            let meant = match function {
                TaskFunction::AbortTask => task.into_iter().collect(),
                _ => target.tasks_of(Some(lun)),
            };
            for task in meant {
                let _ = target.abort(task);
            }
            let complete = TaskResponse::Complete;
            let _ = target.finish_task_management(request, complete);
        }
        TargetEvent::SendTargets { request, .. } => {
            let _ = target.answer_send_targets(request, &[]);
        }
        _ => {}
    }
}

fn perform(target: &mut TargetConnection, command: &TargetCommand) {
    let rest = command.expected_out - command.data_length;
    match command.cdb[0] & 3 {
        0 if rest > 0 => {
            let _ = target.request_data(command.task, command.data_length, rest);
        }
        1 => {
            let data = vec![Bytes::from_static(&[7; 3000]); 3];
            let completion = Completion { data, ..Completion::default() };
            let _ = target.complete(command.task, completion);
        }
        // It stays open.
        2 => {}
        _ => {
            let sense = Bytes::from_static(&[0x70, 0, 5]);
            let completion = Completion { status: 2, sense, ..Completion::default() };
            let _ = target.complete(command.task, completion);
        }
    }
}

/// Runs the target.
pub fn run(data: &[u8]) {
    let Some((flags, stream)) = data.split_first() else { return };
    let mut target = TargetConnection::new(config(*flags), NOW, [0; 64]);
    if flags & 1 != 0 {
        log_in(&mut target, *flags);
    }
    let length = 12 * (1 + usize::from(flags >> 4));
    for (number, piece) in stream.chunks(length).enumerate() {
        let mut input = Bytes::copy_from_slice(piece);
        // The input stops until events and output are taken.
        while !input.is_empty() {
            let before = input.len();
            target.handle_bytes(NOW, &mut input);
            while let Some(event) = target.poll_event() {
                answer(&mut target, event, *flags);
            }
            assert!(target.held_bytes() <= BOUND, "{} bytes", target.held_bytes());
            assert!(target.open_commands() <= 12);
            if input.len() == before || number % 4 == 0 {
                while target.poll_transmit().is_some() {}
            }
        }
    }
    while let Some(due) = target.next_timeout() {
        target.handle_timeout(due);
    }
}
