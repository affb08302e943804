//! Hostile initiators of a SCSI target.
//!
//! The first byte of the input chooses the units' kinds. The rest is a sequence of records: a byte
//! that chooses nexus, LUN, attribute and abort; a byte for events and failures; two bytes of the
//! expected data-in; the lengths of command and data-out, and both. Bit 7 of the second byte makes
//! the data-out longer by zeroes.
//!
//! For any input there is no panic, and every command ends after a bounded number of steps. Each
//! operation lies within its unit and within what the task has claimed, and takes and gives no more
//! bytes than the initiator has. A write-protected unit is never written.

use scsi::{
    BlockSize, ByteRange, Command, Extent, ExtentState, InitiatorPort, LunAddress, LunConfig,
    LunNumber, MediumError, MediumOperation, MediumOutput, NexusId, Provisioning, RangeLocks,
    ReadTo, Start, Status, Step, StoredState, Target, TargetConfig, Task, TaskAttribute, WriteFrom,
};

/// Bytes of each unit.
const SIZE: u64 = 1 << 20;
/// Bytes that a record's data-out can be longer by.
const MORE: usize = 1 << 16;
/// More steps than a command of this size can take.
const MOST_STEPS: usize = 5000;

/// What a record says beside its command.
#[derive(Clone, Copy)]
struct Record<'a> {
    who: u8,
    event: u8,
    expected_in: u64,
    cdb: &'a [u8],
    out: &'a [u8],
}

/// Takes a record from the beginning.
fn record<'a>(data: &mut &'a [u8]) -> Option<Record<'a>> {
    let [who, event, high, low, cdb, out, rest @ ..] = *data else { return None };
    let (cdb, rest) = rest.split_at(usize::from(*cdb & 0x1f).min(rest.len()));
    let (out, rest) = rest.split_at(usize::from(*out).min(rest.len()));
    *data = rest;
    let expected_in = u64::from(u16::from_be_bytes([*high, *low]));
    Some(Record { who: *who, event: *event, expected_in, cdb, out })
}

/// A target whose units read as zero, and forget what is written.
struct Shell {
    target: Target,
    locks: RangeLocks,
    /// Bytes that are changed, if any: the next read sees them.
    written: Vec<u8>,
    stored: Option<StoredState>,
}

fn lun(number: u16) -> LunNumber {
    LunNumber::new(number).expect("a small number")
}

/// The second unit has large blocks and is read-only or not thin, as the bits say.
fn unit(number: u16, kind: u8) -> LunConfig {
    let mut config = LunConfig::new(&format!("unit-{number}"), number.into(), SIZE >> 9);
    config.removable = kind & 1 != 0;
    config.keeps_state = kind & 2 != 0;
    config.write_cache = kind & 4 != 0;
    if number > 0 {
        (config.block_size, config.blocks) = (BlockSize::B4096, SIZE >> 12);
        config.read_only = kind & 8 != 0;
        config.most_transfer = 16;
        config.provisioning = match kind & 16 {
            0 => Provisioning::Full,
            _ => Provisioning::Thin { granularity: 1, anchor: true },
        };
    }
    config
}

impl Shell {
    fn new(kind: u8) -> Self {
        let target = Target::new(TargetConfig {
            name: "iqn.2026-01.example:fuzz".to_owned(),
            vendor: "FUZZ".to_owned(),
            revision: "1".to_owned(),
            port_group: 1,
            ports: vec![1, 2],
            most_nexuses: 3,
            most_luns: 2,
        });
        let target = target.expect("a sound configuration");
        let mut shell =
            Self { target, locks: RangeLocks::new(4), written: Vec::new(), stored: None };
        for number in 0..2 {
            shell.target.add_lun(lun(number), unit(number, kind)).expect("a sound unit");
        }
        for number in 0..3 {
            shell.join(number);
        }
        shell
    }

    fn join(&mut self, number: u64) {
        let port = InitiatorPort::new(&format!("iqn.{number}"), [0; 6]).expect("a name");
        let portal = 1 + u16::from(number == 2);
        self.target.add_nexus(NexusId(number), port, portal).expect("room");
    }

    /// What happens before a command.
    fn event(&mut self, event: u8) {
        match event & 0x0f {
            1 => self.target.reset_target(),
            2 => self.target.reset_lun(lun(1)).expect("a unit"),
            3 => {
                self.target.remove_nexus(NexusId(1));
                self.join(1);
            }
            4 => self.target.resize_lun(lun(0), SIZE >> 10).expect("a unit"),
            5 => self.target.resize_lun(lun(0), SIZE >> 9).expect("a unit"),
            6 => self.restore(),
            _ => {}
        }
    }

    /// The first unit comes back with what it stored last.
    fn restore(&mut self) {
        let mut config = unit(0, 2);
        match self.stored.take() {
            Some(StoredState::Reservations(state)) => config.reservations = state,
            Some(StoredState::ModePages(state)) => config.mode_pages = Some(state),
            None => return,
        }
        self.target.remove_lun(lun(0)).expect("a unit");
        self.target.add_lun(lun(0), config).expect("what the target stored can be read");
    }

    fn run(&mut self, record: &Record<'_>) {
        let mut out = record.out.to_vec();
        if record.event & 0x80 != 0 {
            out.resize(out.len() + MORE, 0);
        }
        let command = Command {
            nexus: NexusId(u64::from(record.who & 3)),
            lun: match record.who >> 2 & 3 {
                0 | 1 => LunAddress::Unit(lun(u16::from(record.who >> 2 & 1))),
                2 => LunAddress::ReportLuns,
                _ => LunAddress::Unknown,
            },
            cdb: record.cdb,
            expected_in: record.expected_in,
            expected_out: out.len() as u64,
            attribute: if record.who & 16 != 0 {
                TaskAttribute::Ordered
            } else {
                TaskAttribute::Simple
            },
        };
        let mut task = self.target.begin(&command);
        assert_eq!(self.locks.start(1, task.access()), Start::Now);
        for number in 0..MOST_STEPS {
            if number == 3 && record.who & 64 != 0 {
                // The shell aborts the task.
                break;
            }
            let step = task.step().clone();
            if let Step::Done(response) = step {
                assert!(response.data_in.len() <= record.expected_in);
                let has_sense = response.status == Status::CheckCondition;
                assert_eq!(has_sense, !response.sense.is_empty());
                break;
            }
            assert!(number + 1 < MOST_STEPS, "{:x?} does not end", record.cdb);
            self.answer(&mut task, step, &out, record);
            self.locks.narrow(1, task.access());
        }
        self.locks.finish(1);
        assert!(self.locks.is_empty());
    }

    fn answer(&mut self, task: &mut Task, step: Step, out: &[u8], record: &Record<'_>) {
        match step {
            Step::DataOut { offset, len } => {
                assert!(len <= scsi::MOST_DATA_OUT);
                let bytes = out[offset as usize..][..len as usize].to_vec();
                self.target.data_out(task, bytes.into());
            }
            Step::Medium { lun, operation } => {
                let output = self.operate(task, lun, &operation, out.len() as u64, record);
                let result = match record.event >> 4 & 7 {
                    7 => Err(MediumError::NoSpace),
                    5 => Err(MediumError::Read(u64::MAX)),
                    _ => Ok(output),
                };
                self.target.medium_done(task, result);
            }
            Step::Store { lun, state } => {
                if lun.get() == 0 {
                    self.stored = Some(state);
                }
                self.target.stored(task, record.event & 0x10 == 0);
            }
            Step::Done(_) => {}
        }
    }

    /// Checks an operation and gives its output.
    fn operate(
        &mut self,
        task: &Task,
        lun: LunNumber,
        operation: &MediumOperation,
        out: u64,
        record: &Record<'_>,
    ) -> MediumOutput {
        let claimed = |range: ByteRange| {
            assert!(range.len > 0 && range.end() <= SIZE, "{range:?}");
            assert_eq!((range.offset | range.len) % 512, 0);
            let covers = |claim: &scsi::Claim| {
                claim.lun == Some(lun)
                    && claim.range.offset <= range.offset
                    && range.end() <= claim.range.end()
            };
            assert!(task.access().claims.iter().any(covers), "{operation:?} {task:?}");
        };
        match operation {
            MediumOperation::Read { offset, len, to } => {
                claimed(ByteRange { offset: *offset, len: *len });
                match to {
                    ReadTo::Task => {
                        assert!(*len <= u64::from(scsi::MOST_DATA_OUT));
                        let mut bytes = vec![0; *len as usize];
                        bytes.iter_mut().zip(&self.written).for_each(|(to, from)| *to = *from);
                        return MediumOutput::Bytes(bytes.into());
                    }
                    ReadTo::DataIn { len: sent } => {
                        assert!(*sent <= *len && *sent <= record.expected_in);
                    }
                    ReadTo::Nowhere => {}
                }
            }
            MediumOperation::Write { offset, len, from, .. } => {
                claimed(ByteRange { offset: *offset, len: *len });
                match from {
                    WriteFrom::DataOut => assert!(*len <= out),
                    WriteFrom::Bytes(bytes) => {
                        assert_eq!(bytes.len() as u64, *len);
                        self.written = bytes.to_vec();
                    }
                }
            }
            MediumOperation::Unmap { ranges, .. } => {
                ranges.iter().for_each(|range| claimed(*range));
            }
            MediumOperation::Zero { range, .. } | MediumOperation::WriteSame { range, .. } => {
                claimed(*range);
            }
            MediumOperation::Map { range, most } => {
                claimed(*range);
                let extent = Extent { len: 4096, state: ExtentState::Deallocated };
                return MediumOutput::Extents(vec![extent; *most as usize % 3]);
            }
            MediumOperation::Flush | MediumOperation::Prefetch { .. } => {}
        }
        MediumOutput::Done
    }
}

/// Runs the target.
pub fn run(data: &[u8]) {
    let Some((kind, mut rest)) = data.split_first() else { return };
    let mut shell = Shell::new(*kind);
    while let Some(record) = record(&mut rest) {
        shell.event(record.event);
        shell.run(&record);
    }
}
