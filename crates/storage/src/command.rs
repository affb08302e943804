//! A SCSI command from its coming to its response.
//!
//! The device server says step by step what the command needs ([`scsi::Step`]); this module does
//! it: it asks the initiator for data-out, calls the volume, sends data-in. Data-in is sent as it
//! is read, and its last part leaves together with the status.

use std::rc::Rc;

use bytes::{Bytes, BytesMut};
use iscsi::TaskId;
use iscsi::pdu::TaskAttribute;
use iscsi::target::{Completion, TargetCommand};
use scsi::{
    DataIn, Effect, LunAddress, LunNumber, MediumError, MediumOperation, MediumOutput, NexusId,
    ReadTo, Residual, Response, Status, Step, Task, WriteFrom,
};
use sockets::TraceStage;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::counters::CountedCommand;
use crate::device::RangeGuard;
use crate::session::{ROOM, Session};
use crate::volume::Volume;

/// Bytes of data-in that are read at a time.
const CHUNK: u64 = 512 << 10;
/// Bytes of data-out that are gathered before they are written, unless they are the last.
const GATHERED: usize = 1 << 20;

/// Begins a command. `None`: it is over already.
pub(crate) fn begin(
    session: &Rc<Session>,
    received: TargetCommand,
    parts: UnboundedReceiver<(u32, Vec<Bytes>)>,
) -> Option<impl Future<Output = ()> + 'static> {
    let nexus = session.nexus.get()?;
    let command = scsi::Command {
        nexus,
        lun: LunAddress::parse(received.lun.bytes()),
        cdb: &received.cdb,
        expected_in: received.expected_in.into(),
        expected_out: received.expected_out.into(),
        attribute: match received.attribute {
            TaskAttribute::Ordered => scsi::TaskAttribute::Ordered,
            TaskAttribute::HeadOfQueue => scsi::TaskAttribute::HeadOfQueue,
            _ => scsi::TaskAttribute::Simple,
        },
    };
    let counted = count(session, nexus, &command);
    let task = session.device.scsi.borrow_mut().begin(&command);
    let guard = session.device.lock(session.device.next_key(), task.access());
    let data_out = DataOut { pieces: received.data, len: received.data_length, parts };
    let mut running = Running {
        session: Rc::clone(session),
        id: received.task,
        counted,
        expected: received.expected_in.max(received.expected_out).into(),
        task,
        data_out,
        data_in: Vec::new(),
        sent: 0,
        room: None,
    };
    let Some(guard) = guard else {
        let full = Status::TaskSetFull;
        running.counted.end(&session.counters, full, &[], 0);
        running.complete(Completion { status: full.code(), ..Completion::default() });
        return None;
    };
    if running.task.response().is_some() {
        running.respond();
        return None;
    }
    Some(running.run(guard))
}

/// Counts a command at a unit that its nexus sees.
fn count(session: &Session, nexus: NexusId, command: &scsi::Command<'_>) -> CountedCommand {
    let unit = match command.lun {
        LunAddress::Unit(lun) => session.device.scsi.borrow().right(nexus, lun).map(|_| lun),
        _ => None,
    };
    let counters = unit.and_then(|lun| session.device.counters(lun));
    CountedCommand::begin(counters, command.cdb.first().copied().unwrap_or(0))
}

struct Running {
    session: Rc<Session>,
    id: TaskId,
    counted: CountedCommand,
    /// Bytes that the initiator expects to be moved.
    expected: u64,
    task: Task,
    data_out: DataOut,
    /// The last part of the data-in.
    data_in: Vec<Bytes>,
    /// Bytes of data-in that have been sent before.
    sent: u64,
    /// Of the data-out, as long as the command lasts.
    room: Option<OwnedSemaphorePermit>,
}

/// Data-out from its beginning, as far as it has come.
struct DataOut {
    pieces: Vec<Bytes>,
    len: u32,
    parts: UnboundedReceiver<(u32, Vec<Bytes>)>,
}

/// The initiator's data-out does not come: the command was aborted.
struct Aborted;

impl Running {
    async fn run(mut self, mut guard: RangeGuard) {
        guard.wait().await;
        let guard = Rc::new(guard);
        loop {
            match self.task.step().clone() {
                Step::DataOut { offset, len } => {
                    let Ok(bytes) = self.take_data_out(offset, len).await else { return };
                    self.session.device.scsi.borrow_mut().data_out(&mut self.task, bytes);
                    guard.narrow(self.task.access());
                }
                Step::Medium { lun, operation } => {
                    let Ok(result) = self.operate(&guard, lun, operation).await else { return };
                    self.session.device.scsi.borrow_mut().medium_done(&mut self.task, result);
                }
                Step::Store { lun, state } => {
                    let done = self.session.device.store(lun, &state);
                    self.session.device.scsi.borrow_mut().stored(&mut self.task, done);
                }
                Step::Done(_) => {
                    drop(guard);
                    return self.respond();
                }
            }
        }
    }

    async fn operate(
        &mut self,
        guard: &Rc<RangeGuard>,
        lun: LunNumber,
        operation: MediumOperation,
    ) -> Result<Result<MediumOutput, MediumError>, Aborted> {
        let device = &self.session.device;
        let Some(volume) = device.volume(lun) else { return Ok(Err(MediumError::Gone)) };
        let done = |result: Result<(), MediumError>| result.map(|()| MediumOutput::Done);
        match operation {
            MediumOperation::Read { offset, len, to: ReadTo::DataIn { len: wanted } } => {
                Ok(done(self.read(&volume, offset, len, wanted).await))
            }
            MediumOperation::Write { offset, len, fua, from: WriteFrom::DataOut } => {
                self.write(guard, &volume, (offset, len), fua).await.map(done)
            }
            other => to_its_end(guard, async move { volume.operate(&other).await }).await,
        }
    }

    /// Reads the first `wanted` bytes of a range for the initiator.
    async fn read(
        &mut self,
        volume: &Volume,
        offset: u64,
        len: u64,
        wanted: u64,
    ) -> Result<(), MediumError> {
        let mut done = 0;
        while done < wanted {
            let now = (wanted - done).next_multiple_of(4096).min(len - done).min(CHUNK);
            let kib = u32::try_from(now.div_ceil(1024)).unwrap_or(u32::MAX).min(ROOM);
            let room = self.session.room_in.clone().acquire_many_owned(kib).await;
            self.session.client.mark(TraceStage::Disk);
            let read = volume.read(offset + done, usize::try_from(now).unwrap_or(0)).await;
            self.session.client.mark(TraceStage::DiskDone);
            let bytes = read?;
            let bytes = bytes.slice(..usize::try_from(now.min(wanted - done)).unwrap_or(0));
            // The room is free again when the last PDU with these bytes has been written.
            let held = Bytes::from_owner(HeldDataIn { bytes, _room: room.ok() });
            done += now;
            if done < wanted {
                self.sent += now;
                let _ = self.session.connection.borrow_mut().send_data(self.id, vec![held]);
                self.session.signals.output.notify_one();
            } else {
                self.data_in = vec![held];
            }
        }
        Ok(())
    }

    /// Writes the first `len` bytes of the data-out, whole blocks as they come.
    async fn write(
        &mut self,
        guard: &Rc<RangeGuard>,
        volume: &Rc<Volume>,
        (offset, len): (u64, u64),
        durable: bool,
    ) -> Result<Result<(), MediumError>, Aborted> {
        self.request(len).await?;
        let mut pieces = std::mem::take(&mut self.data_out.pieces);
        let mut held: usize = pieces.iter().map(Bytes::len).sum();
        let mut written = 0;
        loop {
            let left = usize::try_from(len - written).unwrap_or(usize::MAX);
            let ready = if held >= left { left } else { held - held % 4096 };
            if ready >= GATHERED.min(left) {
                let now = take(&mut pieces, ready);
                held -= ready;
                let (volume, at) = (Rc::clone(volume), offset + written);
                let write = async move { volume.write(at, &now, durable).await };
                self.session.client.mark(TraceStage::Disk);
                let outcome = to_its_end(guard, write).await?;
                self.session.client.mark(TraceStage::DiskDone);
                if let Err(error) = outcome {
                    return Ok(Err(error));
                }
                written += ready as u64;
            }
            if written == len {
                return Ok(Ok(()));
            }
            let (_, part) = self.data_out.parts.recv().await.ok_or(Aborted)?;
            held += part.iter().map(Bytes::len).sum::<usize>();
            pieces.extend(part);
        }
    }

    /// Asks the initiator for the data-out up to `end` that has not come.
    async fn request(&mut self, end: u64) -> Result<(), Aborted> {
        let end = u32::try_from(end).map_err(|_| Aborted)?;
        let have = self.data_out.len;
        if end > have {
            if self.room.is_none() {
                // All that the command will ever have: a second part never waits for the first.
                let kib = u32::try_from(self.expected.div_ceil(1024)).unwrap_or(u32::MAX);
                let room = self.session.room_out.clone().acquire_many_owned(kib.min(ROOM)).await;
                self.room = Some(room.map_err(|_| Aborted)?);
            }
            let mut connection = self.session.connection.borrow_mut();
            connection.request_data(self.id, have, end - have).map_err(|_| Aborted)?;
            self.data_out.len = end;
            self.session.signals.output.notify_one();
        }
        Ok(())
    }

    /// A part of the data-out in one piece.
    async fn take_data_out(&mut self, offset: u64, len: u32) -> Result<Bytes, Aborted> {
        let end = offset + u64::from(len);
        let mut have: u64 = self.data_out.pieces.iter().map(|piece| piece.len() as u64).sum();
        self.request(end).await?;
        while have < end {
            let (_, part) = self.data_out.parts.recv().await.ok_or(Aborted)?;
            have += part.iter().map(|piece| piece.len() as u64).sum::<u64>();
            self.data_out.pieces.extend(part);
        }
        let mut all = BytesMut::with_capacity(usize::try_from(end).unwrap_or(0));
        for piece in &self.data_out.pieces {
            all.extend_from_slice(piece);
        }
        let (start, end) = (usize::try_from(offset), usize::try_from(end));
        Ok(all.freeze().slice(start.map_err(|_| Aborted)?..end.map_err(|_| Aborted)?))
    }

    fn respond(mut self) {
        let Step::Done(response) = self.task.step().clone() else { return };
        let Response { status, sense, data_in, residual, effects } = response;
        // It is none of the tasks that it aborts.
        self.session.tasks.borrow_mut().remove(&self.id);
        for effect in effects {
            if let Effect::AbortTasks { nexus, lun } = effect {
                self.abort_tasks(nexus, lun);
            }
        }
        let data = match data_in {
            DataIn::Bytes(bytes) => vec![bytes],
            DataIn::Medium { .. } => std::mem::take(&mut self.data_in),
            DataIn::None => Vec::new(),
        };
        let moved = match residual {
            _ if status != Status::Good && self.sent > 0 => self.sent,
            Residual::None => self.expected,
            Residual::Underflow(less) => self.expected.saturating_sub(less),
            Residual::Overflow(more) => self.expected.saturating_add(more),
        };
        self.counted.end(&self.session.counters, status, &sense, moved.min(self.expected));
        let transfer_length = Some(moved);
        self.complete(Completion { status: status.code(), sense, data, transfer_length });
    }

    fn abort_tasks(&self, nexus: NexusId, lun: LunNumber) {
        let sessions: Vec<_> = self.session.table.borrow().values().cloned().collect();
        let lun = iscsi::Lun::from_bytes(lun.to_wire());
        for session in sessions.iter().filter(|session| session.nexus.get() == Some(nexus)) {
            session.abort_all(Some(lun));
        }
    }

    fn complete(&self, completion: Completion) {
        self.session.tasks.borrow_mut().remove(&self.id);
        let _ = self.session.connection.borrow_mut().complete(self.id, completion);
        self.session.signals.output.notify_one();
    }
}

/// Changes a medium. If the command is aborted meanwhile, its ranges stay held until the medium is
/// done: no later command finds the bytes before they change.
async fn to_its_end<T: 'static>(
    guard: &Rc<RangeGuard>,
    work: impl Future<Output = T> + 'static,
) -> Result<T, Aborted> {
    let held = Rc::clone(guard);
    let done = tokio::task::spawn_local(async move {
        let done = work.await;
        drop(held);
        done
    });
    let aborted = AloneOnDrop(Some(guard));
    let done = done.await;
    aborted.forget();
    done.map_err(|_| Aborted)
}

/// Holds the ranges alone, if the command is aborted before its medium is done.
struct AloneOnDrop<'a>(Option<&'a RangeGuard>);

impl AloneOnDrop<'_> {
    fn forget(mut self) {
        self.0 = None;
    }
}

impl Drop for AloneOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(guard) = self.0 {
            guard.hold_alone();
        }
    }
}

/// Data-in until it has been written to the stream.
struct HeldDataIn {
    bytes: Bytes,
    _room: Option<OwnedSemaphorePermit>,
}

impl AsRef<[u8]> for HeldDataIn {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Takes `len` bytes from the front.
fn take(pieces: &mut Vec<Bytes>, len: usize) -> Vec<Bytes> {
    let mut left = len;
    let mut taken = Vec::new();
    let mut whole = 0;
    for piece in pieces.iter_mut() {
        if piece.len() > left {
            if left > 0 {
                taken.push(piece.split_to(left));
            }
            break;
        }
        left -= piece.len();
        taken.push(std::mem::take(piece));
        whole += 1;
    }
    pieces.drain(..whole);
    taken
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::BTreeMap;

    use scsi::{Access, ByteRange, Claim, Hold};
    use tokio::sync::oneshot;
    use tokio::task::{LocalSet, spawn_local, yield_now};

    use super::*;
    use crate::access::AccessPolicy;
    use crate::definition::TargetDefinition;
    use crate::device::Device;

    fn device() -> Rc<Device> {
        let luns = BTreeMap::from([(LunNumber::new(0).unwrap(), "memory:1M".parse().unwrap())]);
        let name = "iqn.2026-11.tasuki:disks".parse().unwrap();
        let portal = "127.0.0.1:3260".parse().unwrap();
        Device::new(&TargetDefinition {
            name,
            luns,
            portal,
            transport: crate::PortalTransport::Plain,
            digest: crate::DigestPreference::default(),
            state: None,
            register: crate::IdentityRegister::default(),
            access: AccessPolicy::default(),
        })
        .unwrap()
    }

    async fn let_others_run() {
        for _ in 0..8 {
            yield_now().await;
        }
    }

    #[test]
    fn ranges_of_an_aborted_command_stay_held_until_the_medium_is_done() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        LocalSet::new().block_on(&runtime, async {
            let device = device();
            let range = ByteRange { offset: 0, len: 512 };
            // A plain write shares its range with others, until it is aborted.
            let claims = vec![Claim { lun: LunNumber::new(0), range, hold: Hold::Shared }];
            let access = Access { claims, ..Access::default() };
            let guard = Rc::new(device.lock(1, &access).unwrap());
            let (medium, done) = oneshot::channel();
            let command = spawn_local(async move {
                let _ = to_its_end(&guard, done).await;
            });
            let_others_run().await;
            command.abort();
            let_others_run().await;
            let mut later = device.lock(2, &access).unwrap();
            let runs = Rc::new(Cell::new(false));
            let told = Rc::clone(&runs);
            spawn_local(async move {
                later.wait().await;
                told.set(true);
            });
            let_others_run().await;
            assert!(!runs.get(), "the medium is not done");
            medium.send(()).unwrap();
            let_others_run().await;
            assert!(runs.get());
        });
    }

    #[test]
    fn bytes_are_taken_from_the_front() {
        let mut pieces = vec![Bytes::from_static(b"abc"), Bytes::from_static(b"defg")];
        assert_eq!(take(&mut pieces, 5).concat(), b"abcde");
        assert_eq!(pieces.concat(), b"fg");
        assert_eq!(take(&mut pieces, 2).concat(), b"fg");
        assert!(pieces.is_empty());
    }
}
