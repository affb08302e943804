//! Sans-IO SCSI device server: a [`Target`] with logical units, without I/O, clock or thread.
//!
//! It has the commands of SPC-4 and SBC-3 that block devices need. Commands go in, and values come
//! out that say what each command needs: data-out, an operation on a medium, or its response. The
//! owner of the target, the shell, does these and says so. Payload of plain reads and writes does
//! not pass through this crate.
//!
//! # How a shell drives it
//!
//! The target knows units ([`Target::add_lun`]) and nexuses ([`Target::add_nexus`]). For iSCSI a
//! nexus is a session: the initiator's name with its ISID, and a portal group tag. For each command
//! the shell does this:
//!
//! 1. [`Target::begin`] gives a [`Task`].
//! 2. [`RangeLocks::start`] with [`Task::access`] says whether the task may go on now.
//! 3. [`Task::step`] says what the task needs. The shell answers, until the step is [`Step::Done`]:
//!    * [`Step::DataOut`]: it takes the bytes from the initiator (immediate data, or R2T) and calls
//!      [`Target::data_out`].
//!    * [`Step::Medium`]: it does the operation and calls [`Target::medium_done`]. A read for
//!      [`ReadTo::DataIn`] goes to the initiator, in pieces of the shell's choice. A write
//!      [`WriteFrom::DataOut`] takes the command's data-out from its beginning.
//!    * [`Step::Store`]: it stores the state and calls [`Target::stored`].
//! 4. [`Step::Done`]: it does the [`Response`]'s effects, sends the response, and gives the lock
//!    back with [`RangeLocks::finish`].
//!
//! A task that the shell aborts is dropped, and its lock given back. The target keeps nothing of
//! it. Data-out that no step asks for is thrown away; the response's residual counts it.
//!
//! After a task's first [`Target::data_out`] the shell may call [`RangeLocks::narrow`] with the
//! task's access: UNMAP and EXTENDED COPY then hold less.
//!
//! ```
//! use bytes::Bytes;
//! use scsi::{Command, DataIn, InitiatorPort, LunAddress, LunConfig, LunNumber, MediumOperation};
//! use scsi::{MediumOutput, NexusId, Status, Step, Target, TargetConfig, TaskAttribute};
//!
//! let mut target = Target::new(TargetConfig {
//!     name: "iqn.2026-01.example:disks".to_owned(),
//!     vendor: "EXAMPLE".to_owned(),
//!     revision: "1".to_owned(),
//!     port_group: 1,
//!     ports: vec![1],
//!     most_nexuses: 16,
//!     most_luns: 8,
//! })?;
//! let lun = LunNumber::new(0).unwrap();
//! target.add_lun(lun, LunConfig::new("serial-1", 1, 2048))?;
//! let initiator = InitiatorPort::new("iqn.2026-01.example:host", [0; 6]).unwrap();
//! target.add_nexus(NexusId(1), initiator, 1)?;
//!
//! // TEST UNIT READY: the first one ends with the unit attention of the power on.
//! let test = Command {
//!     nexus: NexusId(1),
//!     lun: LunAddress::Unit(lun),
//!     cdb: &[0; 6],
//!     expected_in: 0,
//!     expected_out: 0,
//!     attribute: TaskAttribute::Simple,
//! };
//! for expected in [Status::CheckCondition, Status::Good] {
//!     let task = target.begin(&test);
//!     assert_eq!(task.response().map(|response| response.status), Some(expected));
//! }
//! # Ok::<(), scsi::TargetError>(())
//! ```
//!
//! # Who may do what
//!
//! A nexus may write every unit until [`Target::set_rights`] says otherwise. Units can be hidden
//! from a nexus, or be read-only for it alone ([`UnitRights`]).
//!
//! # Who is at fault
//!
//! An initiator's bad command ends with ILLEGAL REQUEST and, in the sense data, the place of the
//! field. A medium's failure is the shell's [`MediumError`]. A shell that answers what no task has
//! asked gets HARDWARE ERROR for that task, never a panic.
//!
//! # Bounds
//!
//! A task holds at most [`MOST_DATA_OUT`] bytes of an initiator's and as many of a medium's.
//! Nexuses and units are bounded by [`TargetConfig`]; registrations, results of copies, ranges of
//! an UNMAP and descriptors of a copy by constants.
//!
//! ```text layers
//! target: what a shell drives
//! foreign: commands to no unit, and to the REPORT LUNS well known unit
//! task: a command from its begin to its response
//! dispatch: the checks that commands share, and the choice of the handler
//! block mode removal report reserve copy: handlers by family
//! inquiry: what the unit is
//! third_party limits: what commands are limited to
//! call: what a handler gets and gives
//! state: units, nexuses, conditions
//! attention pages registry results config: what a unit and a target keep
//! table: the table of commands
//! sense: sense data
//! locks: which tasks may run at the same time
//! step: what a task asks and the shell answers
//! rights: what a nexus may do with units
//! id status wire: names, codes, fields
//! ```

#![forbid(unsafe_code)]

mod attention;
mod block;
mod call;
mod config;
mod copy;
mod dispatch;
mod foreign;
mod id;
mod inquiry;
mod limits;
mod locks;
mod mode;
mod pages;
mod registry;
mod removal;
mod report;
mod reserve;
mod results;
mod rights;
mod sense;
mod state;
mod status;
mod step;
mod table;
mod target;
mod task;
#[cfg(test)]
mod tests;
mod third_party;
mod wire;

pub use config::{BlockSize, LunConfig, Provisioning, TargetConfig, TargetError};
pub use id::{InitiatorPort, LunAddress, LunNumber, NexusId};
pub use locks::{Access, Claim, Hold, RangeLocks, Start};
pub use rights::{UnitRight, UnitRights};
pub use sense::{SenseCode, SenseKey};
pub use status::Status;
pub use step::{
    Allocation, ByteRange, DataIn, Effect, Extent, ExtentState, MOST_DATA_OUT, MOST_UNMAP_RANGES,
    MediumError, MediumOperation, MediumOutput, ReadTo, Residual, Response, Step, StoredState,
    WriteFrom,
};
pub use target::Target;
pub use task::{Command, Task, TaskAttribute};
