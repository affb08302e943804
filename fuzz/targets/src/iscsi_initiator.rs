//! A hostile iSCSI target.
//!
//! The first byte has flags. The rest is a stream of bytes to an initiator's connection. With bit 0
//! an honest login comes first, and then the initiator has commands, task management, a ping and a
//! text open. Bit 1 makes a discovery session, and bit 2 asks for CHAP. The upper four bits are the
//! length of the pieces in which the stream comes, in steps of 12 bytes.
//!
//! For any stream there is no panic, and the connection holds no more than a payload and a text.

use core::time::Duration;

use bytes::Bytes;
use iscsi::framing::{Decoder, encode};
use iscsi::pdu::{Isid, LoginResponse, LoginStatus, Request, Response, Stage, TaskFunction};
use iscsi::settings::{ChapAccount, ChapAlgorithm, ChapPolicy};
use iscsi::{
    ChapSecret, InitiatorCommand, InitiatorConfig, InitiatorEvent, KeySettings, Lun, SerialNumber,
    initiator::{InitiatorConnection, LoginStages},
};

const NOW: Duration = Duration::from_secs(1);
/// A payload and its headers, and twice the longest text (a vector may have grown to that).
const BOUND: usize = 4096 + (2 << 10) + (2 << 20);

fn config(flags: u8) -> InitiatorConfig {
    let name = |text: &str| text.parse().expect("a name");
    let target = (flags & 2 == 0).then(|| name("iqn.2001-04.a.b:t"));
    let isid = Isid([0x80, 0, 0, 0, 0, 1]);
    let config = InitiatorConfig::new(name("iqn.2001-04.a.b:i"), target, isid);
    let keys = KeySettings {
        max_recv_data_segment: 4096,
        first_burst: 4096,
        max_burst: 8192,
        ..KeySettings::default()
    };
    let account =
        |secret: &[u8]| ChapAccount { name: "a".to_owned(), secret: ChapSecret::new(secret) };
    let chap = (flags & 5 == 4).then(|| ChapPolicy {
        initiator: account(b"b"),
        target: Some(account(b"c")),
        algorithms: vec![ChapAlgorithm::Sha256, ChapAlgorithm::Md5],
    });
    let stages = if flags & 1 == 0 { LoginStages::Both } else { LoginStages::Operational };
    InitiatorConfig { keys, chap, stages, queue_depth: 8, ..config }
}

fn log_in(initiator: &mut InitiatorConnection) {
    let pdu = initiator.poll_transmit().expect("a login");
    let mut bytes: Bytes = pdu.into_pieces().flatten().collect();
    let pdu = Decoder::new(8192).decode(&mut bytes).expect("sound").expect("complete");
    let Ok(Request::Login(request)) = Request::parse(&pdu.bhs) else { panic!("no login") };
    let number = SerialNumber::new(1);
    let response = Response::Login(LoginResponse {
        transit: true,
        more: false,
        current: Stage::Operational,
        next: Stage::FullFeature,
        version_max: 0,
        version_active: 0,
        isid: request.isid,
        tsih: 1,
        task_tag: request.task_tag,
        stat_sn: number,
        exp_cmd_sn: request.cmd_sn,
        max_cmd_sn: request.cmd_sn + 5,
        status: LoginStatus::Success,
    });
    let text = "InitialR2T=No\0MaxOutstandingR2T=2\0MaxBurstLength=8192\0\
                MaxRecvDataSegmentLength=1024\0";
    let pdu = encode(response.emit(), &[], vec![text.into()], (false, false));
    let mut bytes: Bytes = pdu.into_pieces().flatten().collect();
    initiator.handle_bytes(NOW, &mut bytes);
    assert!(initiator.is_full_feature());
}

/// Opens requests. In a discovery session there are no commands.
fn ask(initiator: &mut InitiatorConnection) {
    let mut last = None;
    for number in 0..6_u8 {
        let data = vec![Bytes::from(vec![number; 6000]); usize::from(number & 1)];
        let command = InitiatorCommand {
            cdb: vec![number; 16].into(),
            data_out: data,
            expected_in: if number % 3 == 0 { 5000 } else { 0 },
            ..InitiatorCommand::default()
        };
        last = initiator.submit(command).ok().or(last);
    }
    while initiator.poll_transmit().is_some() {}
    let lun = Lun::default();
    // An abort of nothing is refused in a discovery session.
    let _ = initiator.task_management(TaskFunction::AbortTask, lun, last);
    initiator.task_management(TaskFunction::LogicalUnitReset, lun, None).expect("room");
    initiator.ping(Bytes::from_static(b"ping")).expect("room");
    initiator.send_targets(None).expect("room");
}

/// Runs the target.
pub fn run(data: &[u8]) {
    let Some((flags, stream)) = data.split_first() else { return };
    let made = InitiatorConnection::new(config(*flags), NOW, [0; 64]);
    let mut initiator = made.expect("sound settings");
    if flags & 1 != 0 {
        log_in(&mut initiator);
        ask(&mut initiator);
    }
    let length = 12 * (1 + usize::from(flags >> 4));
    for piece in stream.chunks(length) {
        let mut input = Bytes::copy_from_slice(piece);
        while !input.is_empty() {
            initiator.handle_bytes(NOW, &mut input);
            while let Some(event) = initiator.poll_event() {
                if let InitiatorEvent::DataIn { offset, data, .. } = event {
                    assert!(offset as usize + data.len() <= 5000);
                }
            }
            assert!(initiator.held_bytes() <= BOUND, "{} bytes", initiator.held_bytes());
            // An R2T makes at most 8 PDUs, and a status none.
            let sent = std::iter::from_fn(|| initiator.poll_transmit()).take(200).count();
            assert!(sent < 200);
        }
    }
    while let Some(due) = initiator.next_timeout() {
        initiator.handle_timeout(due);
    }
}
