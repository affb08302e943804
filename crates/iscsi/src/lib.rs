//! Sans-IO iSCSI (RFC 7143): PDUs, text, login, and the full feature phase of both ends.
//!
//! The crate does no I/O and has no clock. Bytes and time go in, PDUs and events come out. A shell
//! owns the sockets and the SCSI device server. Time is a [`std::time::Duration`] since any start
//! that the shell chooses; it never goes back.
//!
//! # How a shell drives a connection
//!
//! Both ends, [`target`] and [`initiator`], have the same loop:
//!
//! * `handle_bytes(now, &mut Bytes)` takes received bytes from the front of its argument. It leaves
//!   the rest there when the output or the events pile up; the shell calls it again after it has
//!   drained them. While `wants_input()` is false, the shell need not read its socket.
//! * `poll_event()` gives what happened, one event at a time. The shell answers by calls.
//! * `poll_transmit()` gives one PDU at a time as pieces for a vectored write ([`Transmit`]). Each
//!   PDU is made when it is polled: a shell polls as fast as its socket takes bytes.
//! * `next_timeout()` says when to call `handle_timeout(now)` at the latest.
//! * After `Closed` the shell sends what `poll_transmit` still has, and closes the socket.
//!
//! # A target's shell
//!
//! * [`TargetEvent::Login`]: decide by names and address; `answer_login(LoginAnswer)`.
//! * [`TargetEvent::SessionReady`]: end the session that this one replaces;
//!   `accept_session(tsih)` or `refuse_session(status)`.
//! * [`TargetEvent::Command`]: `request_data(task, offset, length)` for data-out that did not come
//!   with the command, as often as wanted; each part comes as [`TargetEvent::DataOut`].
//!   `send_data(task, pieces)` for data-in as soon as a part is read. `complete(task, Completion)`
//!   ends the command; it may carry the last data-in.
//! * [`TargetEvent::TaskManagement`]: `abort(task)` each task that is meant, then
//!   `finish_task_management(request, response)`. `tasks_of(Some(lun))` lists the tasks of the
//!   connection on a logical unit.
//! * [`TargetEvent::SendTargets`]: `answer_send_targets(request, &records)`.
//! * At any time: `ping(now)`, `send_async(event, &sense)`.
//!
//! # An initiator's shell
//!
//! * `submit(InitiatorCommand)` gives a [`CommandId`]. Data comes as [`InitiatorEvent::DataIn`],
//!   the end as [`InitiatorEvent::Response`].
//! * `task_management`, `send_targets`, `ping`, `logout` likewise.
//! * After [`InitiatorEvent::Closed`] the shell connects again with the same ISID and submits again
//!   what is open.
//!
//! A connection may end while the shell still has its events and commands. Then calls give
//! [`UsageError::UnknownRequest`] or [`UsageError::WrongPhase`], and change nothing.
//!
//! # Both ends in one program
//!
//! ```
//! use std::time::Duration;
//! use bytes::Bytes;
//! use iscsi::initiator::{InitiatorCommand, InitiatorConfig, InitiatorConnection, InitiatorEvent};
//! use iscsi::pdu::Isid;
//! use iscsi::target::{Completion, LoginAnswer, TargetConfig, TargetConnection, TargetEvent};
//!
//! let now = Duration::ZERO;
//! let (own, disks) = ("iqn.2001-04.com.example:me", "iqn.2001-04.com.example:disks");
//! let isid = Isid::random([1, 2, 3, 4, 5]);
//! let config = InitiatorConfig::new(own.parse().unwrap(), Some(disks.parse().unwrap()), isid);
//! // A program takes random bytes from the system.
//! let mut initiator = InitiatorConnection::new(config, now, [1; 64]).unwrap();
//! let mut target = TargetConnection::new(TargetConfig::default(), now, [2; 64]);
//! let mut found = Vec::new();
//! let mut done = false;
//! while !done {
//!     while let Some(pdu) = initiator.poll_transmit() {
//!         let mut bytes: Bytes = pdu.into_pieces().flatten().collect();
//!         target.handle_bytes(now, &mut bytes);
//!     }
//!     while let Some(event) = target.poll_event() {
//!         match event {
//!             TargetEvent::Login(_) => {
//!                 let answer = LoginAnswer::Allow { chap: None, alias: None };
//!                 target.answer_login(answer).unwrap();
//!             }
//!             TargetEvent::SessionReady(_) => target.accept_session(now, 1).unwrap(),
//!             TargetEvent::Command(command) => {
//!                 let data = vec![Bytes::from_static(b"what the disk has")];
//!                 let completion = Completion { data, ..Completion::default() };
//!                 target.complete(command.task, completion).unwrap();
//!             }
//!             _ => {}
//!         }
//!     }
//!     while let Some(pdu) = target.poll_transmit() {
//!         let mut bytes: Bytes = pdu.into_pieces().flatten().collect();
//!         initiator.handle_bytes(now, &mut bytes);
//!     }
//!     while let Some(event) = initiator.poll_event() {
//!         match event {
//!             InitiatorEvent::LoggedIn { .. } => {
//!                 let cdb = Bytes::from_static(&[0x28, 0, 0, 0, 0, 0, 0, 0, 1, 0]);
//!                 let command = InitiatorCommand { cdb, expected_in: 17, ..Default::default() };
//!                 initiator.submit(command).unwrap();
//!             }
//!             InitiatorEvent::DataIn { data, .. } => found.extend_from_slice(&data),
//!             InitiatorEvent::Response { status, .. } => done = status == 0,
//!             _ => {}
//!         }
//!     }
//! }
//! assert_eq!(found, b"what the disk has");
//! ```
//!
//! # Modules
//!
//! ```text layers
//! target initiator: the full feature phase of each end
//! login: the login of both ends
//! keys chap: negotiation of operational keys; authentication
//! framing text: PDUs out of a stream and back; key=value pairs
//! error: whose fault it was
//! transmit: a PDU on its way out
//! pdu: the PDUs
//! settings: what an end wants, what both agreed on
//! lun name pdu_error residual secret serial: vocabulary
//! ```
#![forbid(unsafe_code)]

mod chap;
pub mod error;
pub mod framing;
pub mod initiator;
mod keys;
mod login;
pub mod lun;
pub mod name;
pub mod pdu;
mod pdu_error;
mod residual;
mod secret;
mod serial;
pub mod settings;
pub mod target;
mod text;
mod transmit;

pub use error::{ProtocolError, UsageError};
pub use initiator::{
    CommandId, InitiatorCommand, InitiatorConfig, InitiatorConnection, InitiatorEvent,
};
pub use lun::Lun;
pub use name::IscsiName;
pub use pdu_error::PduError;
pub use residual::Residual;
pub use secret::ChapSecret;
pub use serial::SerialNumber;
pub use settings::{KeySettings, SessionParameters};
pub use target::{TargetConfig, TargetConnection, TargetEvent, TaskId};
pub use transmit::Transmit;
