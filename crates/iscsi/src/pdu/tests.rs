use super::*;
use crate::lun::Lun;
use crate::pdu_error::PduError;
use crate::residual::Residual;
use crate::serial::SerialNumber;
use bytes::Bytes;
use proptest::prelude::*;

fn sn(number: u32) -> SerialNumber {
    SerialNumber::new(number)
}

fn lun() -> Lun {
    Lun::from_number(3).expect("a small number")
}

/// A PDU with the bytes that differ from 0, as (offset, bytes).
type Layout<T> = (T, Vec<(usize, Vec<u8>)>);

const TAG: u32 = 0x1122_3344;

/// The bytes of [`TAG`], and of numbers that the PDUs of one end have in common.
fn layout<T>(pdu: T, numbers: &[u8], bytes: &[(usize, &[u8])]) -> Layout<T> {
    let tag: &[u8] = &[0x11, 0x22, 0x33, 0x44];
    let common = [(16, tag), (24, numbers)];
    let all = common.iter().chain(bytes).map(|(at, bytes)| (*at, bytes.to_vec()));
    (pdu, all.collect())
}

fn request(pdu: Request, bytes: &[(usize, &[u8])]) -> Layout<Request> {
    layout(pdu, &[0, 0, 0, 9, 0, 0, 0, 8], bytes)
}

fn scsi_requests() -> [Layout<Request>; 3] {
    let (cmd_sn, exp_stat_sn, task_tag, lun) = (sn(9), sn(8), TAG, lun());
    let command = ScsiCommand {
        immediate: false,
        is_final: false,
        read: true,
        write: true,
        attribute: TaskAttribute::Ordered,
        lun,
        task_tag,
        expected_length: 0x0102_0304,
        cmd_sn,
        exp_stat_sn,
        cdb: [7; 16],
    };
    let task = TaskRequest {
        immediate: true,
        function: TaskFunction::LogicalUnitReset,
        lun,
        task_tag,
        referenced_tag: 5,
        cmd_sn,
        exp_stat_sn,
        referenced_cmd_sn: sn(6),
    };
    let nop = NopOut { immediate: true, lun, task_tag, transfer_tag: NO_TAG, cmd_sn, exp_stat_sn };
    let third: (usize, &[u8]) = (9, &[3]);
    [
        request(
            Request::Command(command),
            &[(0, &[1, 0x62]), third, (20, &[1, 2, 3, 4]), (32, &[7; 16])],
        ),
        request(
            Request::Task(task),
            &[(0, &[0x42, 0x85]), third, (20, &[0, 0, 0, 5]), (32, &[0, 0, 0, 6])],
        ),
        request(Request::NopOut(nop), &[(0, &[0x40, 0x80]), third, (20, &[0xff; 4])]),
    ]
}

fn session_requests() -> [Layout<Request>; 3] {
    let (cmd_sn, exp_stat_sn, task_tag, lun) = (sn(9), sn(8), TAG, lun());
    let text = TextRequest {
        immediate: true,
        is_final: false,
        more: true,
        lun,
        task_tag,
        transfer_tag: 2,
        cmd_sn,
        exp_stat_sn,
    };
    let login = LoginRequest {
        transit: true,
        more: false,
        current: Stage::Operational,
        next: Stage::FullFeature,
        version_max: 0,
        version_min: 0,
        isid: Isid([0x80, 1, 2, 3, 4, 5]),
        tsih: 0x0607,
        task_tag,
        cid: 0x0809,
        cmd_sn,
        exp_stat_sn,
    };
    let reason = LogoutReason::CloseConnection;
    let logout =
        LogoutRequest { immediate: true, reason, task_tag, cid: 0x0809, cmd_sn, exp_stat_sn };
    [
        request(Request::Text(text), &[(0, &[0x44, 0x40]), (9, &[3]), (20, &[0, 0, 0, 2])]),
        request(
            Request::Login(login),
            &[(0, &[0x43, 0x87]), (8, &[0x80, 1, 2, 3, 4, 5, 6, 7]), (20, &[8, 9])],
        ),
        request(Request::Logout(logout), &[(0, &[0x46, 0x81]), (20, &[8, 9])]),
    ]
}

#[test]
fn requests_lie_where_the_rfc_puts_them() {
    for (request, bytes) in scsi_requests().into_iter().chain(session_requests()) {
        let mut expected = Bhs([0; BHS]);
        for (at, bytes) in bytes {
            expected = expected.with(at, &bytes);
        }
        assert_eq!(request.emit(), expected, "{request:?}");
        assert_eq!(Request::parse(&expected), Ok(request));
    }
}

#[test]
fn data_out_and_snack_have_no_cmd_sn() {
    let data = DataOut {
        is_final: true,
        lun: lun(),
        task_tag: 1,
        transfer_tag: 2,
        exp_stat_sn: sn(3),
        data_sn: sn(4),
        offset: 5,
    };
    let bhs = Request::DataOut(data).emit();
    assert_eq!((&bhs.0[..2], &bhs.0[36..44]), (&[5, 0x80][..], &[0, 0, 0, 4, 0, 0, 0, 5][..]));
    assert_eq!(Request::parse(&bhs), Ok(Request::DataOut(data)));
    assert_eq!(Request::DataOut(data).command_number(), None);
    let snack = SnackRequest {
        kind: 1,
        lun: lun(),
        task_tag: 1,
        transfer_tag: 2,
        exp_stat_sn: sn(3),
        begin: 4,
        length: 5,
    };
    let bhs = Request::Snack(snack).emit();
    assert_eq!((&bhs.0[..2], &bhs.0[40..]), (&[0x10, 0x81][..], &[0, 0, 0, 4, 0, 0, 0, 5][..]));
    assert_eq!(Request::parse(&bhs), Ok(Request::Snack(snack)));
}

fn response(pdu: Response, bytes: &[(usize, &[u8])]) -> Layout<Response> {
    layout(pdu, &[0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3], bytes)
}

fn scsi_responses() -> [Layout<Response>; 3] {
    let (stat_sn, exp_cmd_sn, max_cmd_sn) = (sn(1), sn(2), sn(3));
    let (task_tag, lun) = (TAG, lun());
    let scsi = ScsiResponse {
        response: ServiceResponse::Completed,
        status: 2,
        read_residual: Residual::Overflow(5),
        residual: Residual::Underflow(6),
        task_tag,
        stat_sn,
        exp_cmd_sn,
        max_cmd_sn,
        exp_data_sn: sn(4),
    };
    let data = DataIn {
        is_final: true,
        acknowledge: false,
        status: Some((0, Residual::Overflow(7))),
        lun,
        task_tag,
        transfer_tag: NO_TAG,
        stat_sn,
        exp_cmd_sn,
        max_cmd_sn,
        data_sn: sn(4),
        offset: 5,
    };
    let r2t = R2t {
        lun,
        task_tag,
        transfer_tag: 9,
        stat_sn,
        exp_cmd_sn,
        max_cmd_sn,
        r2t_sn: sn(4),
        offset: 5,
        length: 6,
    };
    let numbers = |last: u8| [0, 0, 0, 4, 0, 0, 0, 5, 0, 0, 0, last];
    let third: (usize, &[u8]) = (9, &[3]);
    let none: (usize, &[u8]) = (20, &[0xff; 4]);
    [
        response(Response::Scsi(scsi), &[(0, &[0x21, 0x92, 0, 2]), (36, &numbers(6))]),
        response(Response::DataIn(data), &[(0, &[0x25, 0x85]), third, none, (36, &numbers(7))]),
        response(
            Response::R2t(r2t),
            &[(0, &[0x31, 0x80]), third, (20, &[0, 0, 0, 9]), (36, &numbers(6))],
        ),
    ]
}

fn session_responses() -> [Layout<Response>; 6] {
    let (stat_sn, exp_cmd_sn, max_cmd_sn) = (sn(1), sn(2), sn(3));
    let (task_tag, lun, transfer_tag) = (TAG, lun(), 9);
    let logout = LogoutResponse {
        response: LogoutResponseCode::RecoveryNotSupported,
        task_tag,
        stat_sn,
        exp_cmd_sn,
        max_cmd_sn,
        wait: 2,
        retain: 20,
    };
    let text = TextResponse {
        is_final: false,
        more: true,
        lun,
        task_tag,
        transfer_tag,
        stat_sn,
        exp_cmd_sn,
        max_cmd_sn,
    };
    let task = TaskManagementResponse {
        response: TaskResponse::TaskDoesNotExist,
        task_tag,
        stat_sn,
        exp_cmd_sn,
        max_cmd_sn,
    };
    let nop = NopIn { lun, task_tag, transfer_tag, stat_sn, exp_cmd_sn, max_cmd_sn };
    let reason = RejectReason::ProtocolError;
    let reject = Reject { reason, stat_sn, exp_cmd_sn, max_cmd_sn, data_sn: sn(4) };
    let event = AsyncEvent::ConnectionDrop { cid: 1, wait: 2, retain: 3 };
    let message = AsyncMessage { event, stat_sn, exp_cmd_sn, max_cmd_sn };
    let third: (usize, &[u8]) = (9, &[3]);
    let nine: (usize, &[u8]) = (20, &[0, 0, 0, 9]);
    let no_tag: (usize, &[u8]) = (16, &[0xff; 4]);
    [
        response(Response::Logout(logout), &[(0, &[0x26, 0x80, 2]), (40, &[0, 2, 0, 20])]),
        response(Response::Text(text), &[(0, &[0x24, 0x40]), third, nine]),
        response(Response::Task(task), &[(0, &[0x22, 0x80, 1])]),
        response(Response::NopIn(nop), &[(0, &[0x20, 0x80]), third, nine]),
        response(Response::Reject(reject), &[(0, &[0x3f, 0x80, 4]), no_tag, (36, &[0, 0, 0, 4])]),
        response(
            Response::Async(message),
            &[(0, &[0x32, 0x80]), no_tag, (36, &[2, 0, 0, 1, 0, 2, 0, 3])],
        ),
    ]
}

#[test]
fn responses_lie_where_the_rfc_puts_them() {
    for (response, bytes) in scsi_responses().into_iter().chain(session_responses()) {
        let mut expected = Bhs([0; BHS]);
        for (at, bytes) in bytes {
            expected = expected.with(at, &bytes);
        }
        assert_eq!(response.emit(), expected, "{response:?}");
        assert_eq!(Response::parse(&expected), Ok(response));
    }
}

#[test]
fn fields_that_cannot_be_are_refused() {
    let bhs = |opcode: u8, flags: u8| Bhs([0; BHS]).with(0, &[opcode, flags]);
    let wrong = |opcode, field| PduError::Field { opcode, field };
    let field = |opcode, field| Err(wrong(opcode, field));
    assert_eq!(Request::parse(&bhs(0x07, 0)), Err(PduError::Opcode(7)));
    assert_eq!(Request::parse(&bhs(0x21, 0)), Err(PduError::Opcode(0x21)));
    assert_eq!(Request::parse(&bhs(0x01, 0x40)), field(1, "F"));
    assert_eq!(Request::parse(&bhs(0x03, 0xc0)), field(3, "C"));
    assert_eq!(Request::parse(&bhs(0x03, 0x08)), field(3, "CSG"));
    assert_eq!(Request::parse(&bhs(0x03, 0x86)), field(3, "NSG"));
    assert_eq!(Request::parse(&bhs(0x04, 0xc0)), field(4, "C"));
    let no_tag = bhs(0x01, 0x80).with_u32(16, NO_TAG);
    assert_eq!(Request::parse(&no_tag), field(1, "Initiator Task Tag"));
    assert_eq!(Request::parse(&bhs(0, 0x80).with_u32(16, NO_TAG)), field(0, "I"));
    assert_eq!(Response::parse(&bhs(0x25, 0x01)).err(), Some(wrong(0x25, "S")));
    assert_eq!(Response::parse(&bhs(0x21, 0x86)).err(), Some(wrong(0x21, "flags")));
    let r2t = "Desired Data Transfer Length";
    assert_eq!(Response::parse(&bhs(0x31, 0x80)).err(), Some(wrong(0x31, r2t)));
}

#[test]
fn additional_headers_are_read_and_written() {
    let ahs = Ahs { extended_cdb: Bytes::from_static(&[1, 2, 3, 4, 5]), read_length: Some(512) };
    let bytes = ahs.emit();
    assert_eq!(bytes, [0, 6, 1, 0, 1, 2, 3, 4, 5, 0, 0, 0, 0, 5, 2, 0, 0, 0, 2, 0]);
    assert_eq!(Ahs::parse(&bytes.into()), Ok(ahs));
    for (bytes, error) in [
        (vec![0, 9, 1, 0], AhsError::Length(9)),
        (vec![0, 0, 1, 0], AhsError::Length(0)),
        (vec![0, 1, 1, 0], AhsError::Length(1)),
        (vec![0, 4, 2, 0, 0, 0, 0, 0], AhsError::Length(4)),
        (vec![0, 1, 9, 0], AhsError::Type(9)),
        ([[0, 5, 2, 0, 0, 0, 0, 1]; 2].concat(), AhsError::Doubled(2)),
    ] {
        assert_eq!(Ahs::parse(&bytes.into()), Err(error));
    }
}

proptest! {
    #[test]
    fn any_header_that_is_read_is_written_back(bytes: [u8; BHS]) {
        let bhs = Bhs(bytes);
        if let Ok(request) = Request::parse(&bhs) {
            prop_assert_eq!(Request::parse(&request.emit()), Ok(request));
        }
        if let Ok(response) = Response::parse(&bhs) {
            prop_assert_eq!(Response::parse(&response.emit()), Ok(response));
        }
    }

    #[test]
    fn any_additional_headers_are_read_or_refused(bytes: Vec<u8>) {
        if let Ok(ahs) = Ahs::parse(&Bytes::from(bytes)) {
            prop_assert_eq!(Ahs::parse(&ahs.emit().into()), Ok(ahs));
        }
    }
}
