//! A raw initiator: it sends headers and payload, and reads PDUs.

use std::time::Duration;

use bytes::Bytes;

use crate::framing::{Decoder, encode};
use crate::login::LoginAnswer;
use crate::lun::Lun;
use crate::pdu::{
    DataOut, Isid, LoginRequest, LoginStatus, NO_TAG, Request, Response, ScsiCommand, Stage,
    TaskAttribute, TaskFunction, TaskRequest,
};
use crate::serial::SerialNumber;
use crate::target::{TargetCommand, TargetConfig, TargetConnection, TargetEvent};

pub(super) const NOW: Duration = Duration::from_secs(100);
pub(super) const FIRST: u32 = 0xffff_fffe;

pub(super) struct Wire {
    pub(super) target: TargetConnection,
    decoder: Decoder,
    pub(super) cmd_sn: SerialNumber,
    digests: (bool, bool),
}

/// Keys of a session without digests.
pub(super) const KEYS: &str = "InitialR2T=No\0ImmediateData=Yes\0MaxBurstLength=8192\0\
    FirstBurstLength=4096\0MaxOutstandingR2T=2\0MaxRecvDataSegmentLength=1024\0";

pub(super) fn config() -> TargetConfig {
    TargetConfig { queue_depth: 4, max_immediate: 4, ..TargetConfig::default() }
}

impl Wire {
    /// A connection before its login.
    pub(super) fn connect(config: TargetConfig) -> Self {
        let mut decoder = Decoder::new(1 << 20);
        decoder.set(1 << 20, false, false);
        let target = TargetConnection::new(config, NOW, [9; 64]);
        Self { target, decoder, cmd_sn: SerialNumber::new(FIRST), digests: (false, false) }
    }

    /// A connection in the full feature phase.
    pub(super) fn log_in_with(config: TargetConfig, keys: &str) -> Self {
        let mut wire = Self::connect(config);
        let target = if keys.contains("Discovery") { "" } else { "TargetName=iqn.2001-04.a.b:t\0" };
        wire.login(Stage::Operational, &format!("InitiatorName=iqn.2001-04.a.b:i\0{target}{keys}"));
        assert!(matches!(wire.event(), Some(TargetEvent::Login(_))));
        wire.target.answer_login(LoginAnswer::Allow { chap: None, alias: None }).expect("asked");
        assert!(matches!(wire.event(), Some(TargetEvent::SessionReady(_))));
        wire.target.accept_session(NOW, 5).expect("asked");
        let response = wire.response();
        let Response::Login(login) = response.0 else { panic!("{response:?}") };
        assert_eq!((login.status, login.tsih, login.transit), (LoginStatus::Success, 5, true));
        let Some(TargetEvent::LoggedIn(parameters)) = wire.event() else { panic!("no login") };
        wire.digests = (parameters.header_digest, parameters.data_digest);
        wire.decoder.set(1 << 20, wire.digests.0, wire.digests.1);
        wire
    }

    pub(super) fn log_in() -> Self {
        Self::log_in_with(config(), KEYS)
    }

    pub(super) fn login(&mut self, stage: Stage, text: &str) {
        let request = LoginRequest {
            transit: true,
            more: false,
            current: stage,
            next: Stage::FullFeature,
            version_max: 0,
            version_min: 0,
            isid: Isid([0x80, 0, 0, 0, 0, 1]),
            tsih: 0,
            task_tag: 1,
            cid: 3,
            cmd_sn: self.cmd_sn,
            exp_stat_sn: SerialNumber::new(0),
        };
        self.send(&Request::Login(request), text.as_bytes());
    }

    pub(super) fn send(&mut self, request: &Request, data: &[u8]) {
        self.send_with(request, &[], data);
    }

    pub(super) fn send_with(&mut self, request: &Request, ahs: &[u8], data: &[u8]) {
        let data = vec![Bytes::copy_from_slice(data)];
        let pdu = encode(request.emit(), ahs, data, self.digests);
        self.send_bytes(pdu.into_pieces().flatten().collect());
    }

    /// The bytes of a request, to be damaged.
    pub(super) fn bytes(&self, request: &Request, data: &[u8]) -> Vec<u8> {
        let data = vec![Bytes::copy_from_slice(data)];
        encode(request.emit(), &[], data, self.digests).into_pieces().flatten().collect()
    }

    pub(super) fn send_bytes(&mut self, bytes: Vec<u8>) {
        let mut input = Bytes::from(bytes);
        self.target.handle_bytes(NOW, &mut input);
        assert!(input.is_empty(), "the target left {} bytes", input.len());
    }

    pub(super) fn event(&mut self) -> Option<TargetEvent> {
        self.target.poll_event()
    }

    /// The next command of the shell.
    pub(super) fn command(&mut self) -> TargetCommand {
        match self.event() {
            Some(TargetEvent::Command(command)) => command,
            other => panic!("no command: {other:?}"),
        }
    }

    pub(super) fn try_response(&mut self) -> Option<(Response, Bytes)> {
        let pdu = self.target.poll_transmit()?;
        let mut bytes: Bytes = pdu.into_pieces().flatten().collect::<Vec<u8>>().into();
        let pdu = self.decoder.decode(&mut bytes).expect("sound").expect("complete");
        assert!(bytes.is_empty() && pdu.data_is_sound);
        Some((Response::parse(&pdu.bhs).expect("legal"), pdu.data))
    }

    pub(super) fn response(&mut self) -> (Response, Bytes) {
        self.try_response().expect("a PDU")
    }

    /// Nothing happened and nothing is sent.
    pub(super) fn is_silent(&mut self) -> bool {
        self.event().is_none() && self.try_response().is_none()
    }

    /// A command with the next CmdSN.
    pub(super) fn write(&mut self, tag: u32, length: u32, is_final: bool) -> ScsiCommand {
        let command = ScsiCommand { write: true, is_final, ..self.plain(tag, length) };
        self.cmd_sn = self.cmd_sn.next();
        command
    }

    pub(super) fn read(&mut self, tag: u32, length: u32) -> ScsiCommand {
        let command = ScsiCommand { read: true, ..self.plain(tag, length) };
        self.cmd_sn = self.cmd_sn.next();
        command
    }

    /// A command without data, with the next CmdSN, which is not used up.
    pub(super) fn plain(&self, tag: u32, length: u32) -> ScsiCommand {
        ScsiCommand {
            immediate: false,
            is_final: true,
            read: false,
            write: false,
            attribute: TaskAttribute::Simple,
            lun: Lun::default(),
            task_tag: tag,
            expected_length: length,
            cmd_sn: self.cmd_sn,
            exp_stat_sn: SerialNumber::new(0),
            cdb: [0; 16],
        }
    }

    /// An immediate request of task management.
    pub(super) fn manage(&mut self, function: TaskFunction, tag: u32, number: SerialNumber) {
        let request = TaskRequest {
            immediate: true,
            function,
            lun: Lun::default(),
            task_tag: 0x7000,
            referenced_tag: tag,
            cmd_sn: self.cmd_sn,
            exp_stat_sn: SerialNumber::new(0),
            referenced_cmd_sn: number,
        };
        self.send(&Request::Task(request), b"");
    }
}

/// Data-Out number `data_sn` of a sequence.
pub(super) fn data_out(
    tag: u32,
    transfer_tag: u32,
    data_sn: u32,
    offset: u32,
    is_final: bool,
) -> Request {
    Request::DataOut(DataOut {
        is_final,
        lun: Lun::default(),
        task_tag: tag,
        transfer_tag,
        exp_stat_sn: SerialNumber::new(0),
        data_sn: SerialNumber::new(data_sn),
        offset,
    })
}

/// Unsolicited Data-Out.
pub(super) fn unsolicited(tag: u32, data_sn: u32, offset: u32, is_final: bool) -> Request {
    data_out(tag, NO_TAG, data_sn, offset, is_final)
}
