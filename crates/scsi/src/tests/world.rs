//! A target with units in memory, and a shell that does what its tasks ask.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::{
    BlockSize, ByteRange, Command, DataIn, Effect, Extent, ExtentState, InitiatorPort, LunAddress,
    LunConfig, LunNumber, MediumError, MediumOperation, MediumOutput, NexusId, ReadTo, Residual,
    Response, Status, Step, StoredState, Target, TargetConfig, Task, TaskAttribute, WriteFrom,
};

/// The first unit, and the two nexuses that a new world has.
pub(super) const LUN: LunNumber = LunNumber::new(0).unwrap();
pub(super) const A: NexusId = NexusId(1);
pub(super) const B: NexusId = NexusId(2);

/// A medium.
#[derive(Debug)]
pub(super) struct Disk {
    pub(super) bytes: Vec<u8>,
    /// Of each 512 bytes, whether they have storage.
    pub(super) mapped: Vec<bool>,
    /// Bytes that were written since the last flush are there.
    pub(super) dirty: bool,
}

impl Disk {
    fn new(len: usize) -> Self {
        Self { bytes: vec![0; len], mapped: vec![false; len / 512], dirty: false }
    }

    fn place(range: ByteRange) -> std::ops::Range<usize> {
        range.offset as usize..range.end() as usize
    }

    fn fill(&mut self, range: ByteRange, pattern: &[u8], mapped: bool) {
        let part = &mut self.bytes[Self::place(range)];
        part.chunks_mut(pattern.len()).for_each(|chunk| chunk.copy_from_slice(pattern));
        self.mapped[range.offset as usize / 512..range.end() as usize / 512].fill(mapped);
    }

    /// Does an operation. Bytes for [`ReadTo::DataIn`] are the second part of the result.
    fn operate(&mut self, operation: &MediumOperation, data_out: &[u8]) -> (MediumOutput, Vec<u8>) {
        let range = |offset, len| ByteRange { offset, len };
        let zeroes = [0; 512];
        match operation {
            MediumOperation::Read { offset, len, to } => {
                let bytes = self.bytes[Self::place(range(*offset, *len))].to_vec();
                match to {
                    ReadTo::Task => return (MediumOutput::Bytes(bytes.into()), Vec::new()),
                    ReadTo::DataIn { len } => {
                        return (MediumOutput::Done, bytes[..*len as usize].to_vec());
                    }
                    ReadTo::Nowhere => {}
                }
            }
            MediumOperation::Write { offset, len, fua, from } => {
                let bytes = match from {
                    WriteFrom::DataOut => &data_out[..*len as usize],
                    WriteFrom::Bytes(bytes) => bytes,
                };
                assert_eq!(bytes.len() as u64, *len);
                self.fill(range(*offset, *len), bytes, true);
                self.dirty |= !fua;
            }
            MediumOperation::Flush => self.dirty = false,
            MediumOperation::Prefetch { .. } => {}
            MediumOperation::Unmap { ranges, .. } => {
                ranges.iter().for_each(|range| self.fill(*range, &zeroes, false));
            }
            MediumOperation::Zero { range, allocation } => {
                self.fill(*range, &zeroes, *allocation == crate::Allocation::Write);
            }
            MediumOperation::WriteSame { range, block } => self.fill(*range, block, true),
            MediumOperation::Map { range, most } => {
                let places = range.offset as usize / 512..range.end() as usize / 512;
                let runs = self.mapped[places].chunk_by(|a, b| a == b);
                let extent = |run: &[bool]| Extent {
                    len: 512 * run.len() as u64,
                    state: if run[0] { ExtentState::Mapped } else { ExtentState::Deallocated },
                };
                let extents = runs.take(*most as usize).map(extent).collect();
                return (MediumOutput::Extents(extents), Vec::new());
            }
        }
        (MediumOutput::Done, Vec::new())
    }
}

/// The end of a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Outcome {
    pub(super) status: Status,
    /// Sense key and additional sense code with qualifier; zeroes without sense data.
    pub(super) sense: (u8, u16),
    /// The bytes of sense data.
    pub(super) raw: Vec<u8>,
    pub(super) data: Vec<u8>,
    pub(super) residual: Residual,
    pub(super) effects: Vec<Effect>,
}

impl Outcome {
    /// Asserts a good end, and gives the data-in.
    #[track_caller]
    pub(super) fn good(self) -> Vec<u8> {
        assert_eq!((self.status, self.sense), (Status::Good, (0, 0)), "{self:?}");
        self.data
    }

    /// Asserts that sense data says so.
    #[track_caller]
    pub(super) fn bad(self, key: u8, code: u16) -> Self {
        assert_eq!((self.status, self.sense), (Status::CheckCondition, (key, code)), "{self:?}");
        assert!(self.data.is_empty());
        self
    }

    /// Asserts an invalid field in the command descriptor block at a byte.
    #[track_caller]
    pub(super) fn bad_field(self, byte: u8) {
        let bad = self.bad(5, 0x2400);
        assert_eq!((bad.raw[15] & 0xc0, bad.raw[17]), (0xc0, byte), "{bad:?}");
    }

    /// Asserts an invalid field in the parameter list at a byte.
    #[track_caller]
    pub(super) fn bad_list(self, byte: u8) {
        let bad = self.bad(5, 0x2600);
        assert_eq!((bad.raw[15] & 0xc0, bad.raw[17]), (0x80, byte), "{bad:?}");
    }

    #[track_caller]
    pub(super) fn conflict(self) {
        assert_eq!(self.status, Status::ReservationConflict, "{self:?}");
    }

    /// INFORMATION of sense data in fixed format.
    pub(super) fn information(&self) -> u32 {
        assert_eq!(self.raw[0], 0xf0);
        u32::from_be_bytes(*self.raw[3..].first_chunk().unwrap())
    }
}

/// A target, its media, and what happened to them.
pub(super) struct World {
    pub(super) target: Target,
    pub(super) disks: BTreeMap<LunNumber, Disk>,
    pub(super) operations: Vec<MediumOperation>,
    pub(super) stored: Vec<StoredState>,
    /// The next operation fails so.
    pub(super) fail: Option<MediumError>,
}

pub(super) fn config() -> LunConfig {
    LunConfig::new("serial-0", 100, 2048)
}

pub(super) fn port(name: &str) -> InitiatorPort {
    InitiatorPort::new(name, [0x40, 0, 0, 0, 0, 1]).unwrap()
}

impl World {
    /// A world with one unit, and two nexuses that have seen their power on.
    pub(super) fn new(config: LunConfig) -> Self {
        let target = Target::new(TargetConfig {
            name: "iqn.2026-01.example:disks".to_owned(),
            vendor: "EXAMPLE".to_owned(),
            revision: "1".to_owned(),
            port_group: 1,
            ports: vec![1, 2],
            most_nexuses: 4,
            most_luns: 4,
        });
        let (operations, stored, disks) = Default::default();
        let mut world = Self { target: target.unwrap(), disks, operations, stored, fail: None };
        world.add(LUN, config);
        for (nexus, name) in [(A, "iqn.a"), (B, "iqn.b")] {
            world.target.add_nexus(nexus, port(name), 1).unwrap();
            world.run(nexus, &[0; 6], &[], 0).bad(6, 0x2900);
        }
        world
    }

    pub(super) fn add(&mut self, lun: LunNumber, config: LunConfig) {
        let len = config.blocks << config.block_size.shift();
        self.target.add_lun(lun, config).unwrap();
        self.disks.insert(lun, Disk::new(len as usize));
    }

    /// Runs a command of 512-byte blocks' first unit to its end.
    pub(super) fn run(
        &mut self,
        nexus: NexusId,
        cdb: &[u8],
        out: &[u8],
        expected_in: u64,
    ) -> Outcome {
        self.run_at(nexus, LunAddress::Unit(LUN), cdb, out, expected_in)
    }

    pub(super) fn begin(&mut self, nexus: NexusId, cdb: &[u8], out: u64, expected_in: u64) -> Task {
        self.target.begin(&Command {
            nexus,
            lun: LunAddress::Unit(LUN),
            cdb,
            expected_in,
            expected_out: out,
            attribute: TaskAttribute::Simple,
        })
    }

    pub(super) fn run_at(
        &mut self,
        nexus: NexusId,
        lun: LunAddress,
        cdb: &[u8],
        out: &[u8],
        expected_in: u64,
    ) -> Outcome {
        let mut task = self.target.begin(&Command {
            nexus,
            lun,
            cdb,
            expected_in,
            expected_out: out.len() as u64,
            attribute: TaskAttribute::Simple,
        });
        let mut medium = Vec::new();
        for _ in 0..10_000 {
            match task.step().clone() {
                Step::Done(response) => return outcome(response, medium),
                step => self.answer(&mut task, &step, out, &mut medium),
            }
        }
        panic!("the command does not end: {task:?}");
    }

    /// Answers one step.
    pub(super) fn answer(
        &mut self,
        task: &mut Task,
        step: &Step,
        out: &[u8],
        medium: &mut Vec<u8>,
    ) {
        match step {
            Step::DataOut { offset, len } => {
                let bytes = &out[*offset as usize..][..*len as usize];
                self.target.data_out(task, Bytes::copy_from_slice(bytes));
            }
            Step::Medium { lun, operation } => {
                self.operations.push(operation.clone());
                let result = match self.fail.take() {
                    Some(error) => Err(error),
                    None => {
                        let disk = self.disks.get_mut(lun).expect("a disk");
                        let (output, bytes) = disk.operate(operation, out);
                        medium.extend(bytes);
                        Ok(output)
                    }
                };
                self.target.medium_done(task, result);
            }
            Step::Store { state, .. } => {
                self.stored.push(state.clone());
                self.target.stored(task, true);
            }
            Step::Done(_) => panic!("the task is over"),
        }
    }
}

fn outcome(response: Response, medium: Vec<u8>) -> Outcome {
    let raw = response.sense.to_vec();
    let sense = match raw.first().map(|code| code & 0x7f) {
        Some(0x70) => (raw[2], u16::from_be_bytes([raw[12], raw[13]])),
        Some(0x72) => (raw[1], u16::from_be_bytes([raw[2], raw[3]])),
        _ => (0, 0),
    };
    let data = match response.data_in {
        DataIn::None => Vec::new(),
        DataIn::Bytes(bytes) => bytes.to_vec(),
        DataIn::Medium { len } => {
            assert_eq!(medium.len() as u64, len);
            medium
        }
    };
    let (status, residual, effects) = (response.status, response.residual, response.effects);
    Outcome { status, sense, raw, data, residual, effects }
}

/// A command descriptor block of 10 bytes: flags, block, count.
pub(super) fn ten(opcode: u8, flags: u8, lba: u32, count: u16) -> [u8; 10] {
    let mut cdb = [opcode, flags, 0, 0, 0, 0, 0, 0, 0, 0];
    cdb[2..6].copy_from_slice(&lba.to_be_bytes());
    cdb[7..9].copy_from_slice(&count.to_be_bytes());
    cdb
}

/// A command descriptor block of 12 bytes: flags, block, count.
pub(super) fn twelve(opcode: u8, flags: u8, lba: u32, count: u32) -> [u8; 12] {
    let mut cdb = [opcode, flags, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    cdb[2..6].copy_from_slice(&lba.to_be_bytes());
    cdb[6..10].copy_from_slice(&count.to_be_bytes());
    cdb
}

/// A command descriptor block of 16 bytes: flags, block, count.
pub(super) fn sixteen(opcode: u8, flags: u8, lba: u64, count: u32) -> [u8; 16] {
    let mut cdb = [opcode, flags, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    cdb[2..10].copy_from_slice(&lba.to_be_bytes());
    cdb[10..14].copy_from_slice(&count.to_be_bytes());
    cdb
}

/// A unit with blocks of 4,096 bytes.
pub(super) fn large_blocks() -> LunConfig {
    LunConfig { block_size: BlockSize::B4096, blocks: 256, ..config() }
}
