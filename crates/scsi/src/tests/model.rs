//! Random commands against a model of the disk, and random bytes as commands.

use proptest::prelude::*;

use super::world::{A, B, LUN, World, config, sixteen, ten};
use crate::{BlockSize, Command, LunAddress, LunConfig, LunNumber, Start, Status, Step};
use crate::{RangeLocks, TaskAttribute};

/// Blocks of the model's disk, of 512 bytes.
const BLOCKS: u64 = 64;

/// A command on the model's disk.
#[derive(Clone, Debug)]
enum Act {
    Write(u64, u8, u8),
    Read(u64, u8),
    Unmap(Vec<(u64, u8)>),
    WriteSame(u64, u8, u8, bool),
    CompareAndWrite(u64, u8, bool, u8),
    Or(u64, u8, u8),
    Verify(u64, u8, u8),
    Copy(u64, u64, u8),
    Status(u64),
}

fn act() -> impl Strategy<Value = Act> {
    let (lba, count) = (0..BLOCKS + 2, 0..9_u8);
    let range = (lba.clone(), count.clone());
    prop_oneof![
        (lba.clone(), count.clone(), any::<u8>()).prop_map(|(a, b, c)| Act::Write(a, b, c)),
        range.clone().prop_map(|(a, b)| Act::Read(a, b)),
        proptest::collection::vec(range, 0..5).prop_map(Act::Unmap),
        (lba.clone(), count.clone(), 0..3_u8, any::<bool>())
            .prop_map(|(a, b, c, d)| Act::WriteSame(a, b, c, d)),
        (lba.clone(), count.clone(), any::<bool>(), any::<u8>())
            .prop_map(|(a, b, c, d)| Act::CompareAndWrite(a, b, c, d)),
        (lba.clone(), count.clone(), any::<u8>()).prop_map(|(a, b, c)| Act::Or(a, b, c)),
        (lba.clone(), count.clone(), any::<u8>()).prop_map(|(a, b, c)| Act::Verify(a, b, c)),
        (lba.clone(), lba.clone(), count).prop_map(|(a, b, c)| Act::Copy(a, b, c)),
        lba.prop_map(Act::Status),
    ]
}

/// A disk, told by what the standards say.
struct Model {
    bytes: Vec<u8>,
    mapped: Vec<bool>,
}

/// Bytes of a fill that differ from place to place.
fn fill(count: u8, seed: u8) -> Vec<u8> {
    (0..usize::from(count) * 512).map(|at| (at / 5) as u8 ^ seed).collect()
}

impl Model {
    /// The place of blocks, if they lie within the disk.
    fn place(lba: u64, count: u8) -> Option<std::ops::Range<usize>> {
        let end = lba + u64::from(count);
        (end <= BLOCKS).then_some(lba as usize * 512..end as usize * 512)
    }

    fn put(&mut self, place: std::ops::Range<usize>, bytes: &[u8], mapped: bool) {
        self.mapped[place.start / 512..place.end / 512].fill(mapped);
        self.bytes[place].copy_from_slice(bytes);
    }
}

fn copy_list(from: u64, to: u64, count: u8) -> Vec<u8> {
    let mut list = vec![0, 0x18, 0, 32, 0, 0, 0, 0, 0, 0, 0, 28, 0, 0, 0, 0];
    list.extend([0xe4, 0, 0, 0, 1, 3, 0, 8, 0x30, 0, 0, 0, 0, 0, 0, 100]);
    list.extend([0; 14]);
    list.extend([2, 0]);
    list.extend([2, 0, 0, 0x18, 0, 0, 0, 0, 0, 0, 0, count]);
    list.extend(from.to_be_bytes());
    list.extend(to.to_be_bytes());
    list
}

/// The sense data of a command whose blocks lie outside.
const OUT_OF_RANGE: (u8, u16) = (5, 0x2100);

/// The sense data that follows from whether the blocks lie within.
fn within<T>(place: Option<&T>) -> (u8, u16) {
    place.map_or(OUT_OF_RANGE, |_| (0, 0))
}

/// Runs one command on both.
fn both(world: &mut World, model: &mut Model, act: &Act) {
    let check = |world: &mut World, cdb: &[u8], out: &[u8], expected: (u8, u16)| {
        let outcome = world.run(A, cdb, out, 1 << 20);
        assert_eq!(outcome.sense, expected, "{act:?}");
        outcome.data
    };
    match act.clone() {
        Act::Write(lba, count, seed) => {
            let (cdb, bytes) = (ten(0x2a, 0, lba as u32, count.into()), fill(count, seed));
            let place = Model::place(lba, count);
            check(world, &cdb, &bytes, within(place.as_ref()));
            place.into_iter().for_each(|place| model.put(place, &bytes, true));
        }
        Act::Read(lba, count) => {
            let place = Model::place(lba, count);
            let expected = within(place.as_ref());
            let data = check(world, &sixteen(0x88, 0, lba, count.into()), &[], expected);
            assert_eq!(data, place.map_or(&[][..], |place| &model.bytes[place]));
        }
        Act::Or(lba, count, seed) => {
            let (place, bytes) = (Model::place(lba, count), fill(count, seed));
            let expected = within(place.as_ref());
            check(world, &sixteen(0x8b, 0, lba, count.into()), &bytes, expected);
            place.into_iter().for_each(|place| {
                let old = model.bytes[place.clone()].iter();
                let new: Vec<u8> = old.zip(&bytes).map(|(a, b)| a | b).collect();
                model.put(place, &new, true);
            });
        }
        Act::Verify(lba, count, seed) => {
            let (place, bytes) = (Model::place(lba, count), fill(count, seed));
            let expected = match place.map(|place| model.bytes[place] == bytes) {
                None => OUT_OF_RANGE,
                Some(false) => (0x0e, 0x1d00),
                Some(true) => (0, 0),
            };
            check(world, &ten(0x2f, 2, lba as u32, count.into()), &bytes, expected);
        }
        Act::Copy(from, to, count) => {
            let places = Model::place(from, count).zip(Model::place(to, count));
            let expected = match (&places, count) {
                (None, 1..) => (0x0a, 0),
                _ => (0, 0),
            };
            let list = copy_list(from, to, count);
            let cdb = [0x83, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, list.len() as u8, 0, 0];
            check(world, &cdb, &list, expected);
            if let Some((from, to)) = places {
                let bytes = model.bytes[from].to_vec();
                model.put(to, &bytes, true);
            }
        }
        Act::Unmap(ranges) => unmap(world, model, &ranges),
        Act::WriteSame(lba, count, byte, unmap) => {
            write_same(world, model, (lba, count), byte, unmap);
        }
        Act::CompareAndWrite(lba, count, same, seed) => {
            compare_and_write(world, model, (lba, count), same, seed);
        }
        Act::Status(lba) => status(world, model, lba),
    }
}

fn unmap(world: &mut World, model: &mut Model, ranges: &[(u64, u8)]) {
    let length = 16 * ranges.len() as u8;
    let mut list = vec![0, length + 6, 0, length, 0, 0, 0, 0];
    for (lba, count) in ranges {
        list.extend(lba.to_be_bytes());
        list.extend([0, 0, 0, *count, 0, 0, 0, 0]);
    }
    let places: Option<Vec<_>> =
        ranges.iter().map(|(lba, count)| Model::place(*lba, *count)).collect();
    let outcome = world.run(A, &ten(0x42, 0, 0, list.len() as u16), &list, 0);
    assert_eq!(outcome.sense, within(places.as_ref()), "{ranges:?}");
    for place in places.into_iter().flatten() {
        let zeroes = vec![0; place.len()];
        model.put(place, &zeroes, false);
    }
}

fn write_same(world: &mut World, model: &mut Model, at: (u64, u8), byte: u8, unmap: bool) {
    let (lba, count) = at;
    let place = Model::place(lba, count);
    let cdb = ten(0x41, u8::from(unmap) << 3, lba as u32, count.into());
    let outcome = world.run(A, &cdb, &[byte; 512], 0);
    let expected = match (&place, count) {
        (Some(_), 0) => (5, 0x2400),
        (place, _) => within(place.as_ref()),
    };
    assert_eq!(outcome.sense, expected, "{at:?}");
    place.into_iter().for_each(|place| {
        let bytes = vec![byte; place.len()];
        model.put(place, &bytes, !(unmap && byte == 0));
    });
}

fn compare_and_write(world: &mut World, model: &mut Model, at: (u64, u8), same: bool, seed: u8) {
    let (lba, count) = at;
    let place = Model::place(lba, count);
    let old = place.clone().filter(|_| same).map(|place| model.bytes[place].to_vec());
    let old = old.unwrap_or_else(|| fill(count, 0x5a));
    let new = fill(count, seed);
    let equal = place.clone().is_some_and(|place| model.bytes[place] == old);
    let expected = match (place.is_some(), equal) {
        (false, _) => OUT_OF_RANGE,
        (true, false) => (0x0e, 0x1d00),
        (true, true) => (0, 0),
    };
    let cdb = sixteen(0x89, 0, lba, count.into());
    let outcome = world.run(A, &cdb, &[old, new.clone()].concat(), 0);
    assert_eq!(outcome.sense, expected, "{at:?}");
    let place = place.filter(|place| equal && !place.is_empty());
    place.into_iter().for_each(|place| model.put(place, &new, true));
}

/// GET LBA STATUS describes the model.
fn status(world: &mut World, model: &Model, lba: u64) {
    let outcome = world.run(A, &sixteen(0x9e, 0x12, lba, 4096), &[], 4096);
    if lba >= BLOCKS {
        return drop(outcome.bad(5, 0x2100));
    }
    let mut next = lba;
    for run in outcome.good()[8..].chunks(16) {
        assert_eq!(u64::from_be_bytes(*run.first_chunk().unwrap()), next);
        let count = u64::from(u32::from_be_bytes(*run[8..].first_chunk().unwrap()));
        let blocks = next as usize..(next + count) as usize;
        assert!(model.mapped[blocks].iter().all(|mapped| *mapped == (run[12] == 0)));
        next += count;
    }
    assert_eq!(next, BLOCKS);
}

/// What an initiator could send next.
#[derive(Clone, Debug)]
struct Random {
    cdb: [u8; 32],
    length: usize,
    out: Vec<u8>,
    expected_in: u64,
    other: bool,
    lun: u8,
    event: u8,
}

fn random() -> impl Strategy<Value = Random> {
    let opcodes: Vec<u8> = crate::table::TABLE.iter().map(|row| row.opcode()).collect();
    let services: Vec<u8> =
        crate::table::TABLE.iter().map(|row| row.service.unwrap_or(0)).collect();
    // Often small numbers, so that many commands pass their checks.
    let length = prop::sample::select(vec![8_u8, 12, 16, 24, 76, 255]);
    let byte = prop_oneof![6 => Just(0_u8), 2 => 0..9_u8, 1 => length, 1 => any::<u8>()];
    let cdb = (any::<prop::sample::Index>(), any::<u8>(), prop::collection::vec(byte, 32))
        .prop_map(move |(row, choice, bytes)| {
            let mut cdb = [0; 32];
            cdb.copy_from_slice(&bytes);
            if choice > 10 {
                let row = row.index(opcodes.len());
                cdb[0] = opcodes[row];
                cdb[1] = cdb[1] & 0xe0 | services[row] | cdb[1] & choice & 0x1f;
            }
            cdb
        });
    let length = prop_oneof![1 => 0..32_usize, 20 => Just(16_usize)];
    let out = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..64),
        prop::collection::vec(0..2_u8, 24),
        Just(vec![0; 1024]),
    ];
    let rest = (0..2048_u64, any::<bool>(), 0..8_u8, any::<u8>());
    (cdb, length, out, rest).prop_map(|(cdb, length, out, (expected_in, other, lun, event))| {
        Random { cdb, length, out, expected_in, other, lun, event }
    })
}

/// Runs a random command to its end.
fn run_random(world: &mut World, random: &Random) {
    match random.event {
        0 => world.target.reset_lun(LUN).unwrap(),
        1 => world.target.resize_lun(LUN, 60 + u64::from(random.lun % 5)).unwrap(),
        _ => {}
    }
    let lun = match random.lun {
        0 => LunAddress::ReportLuns,
        1 => LunAddress::Unknown,
        2 => LunAddress::Unit(LunNumber::new(1).unwrap()),
        _ => LunAddress::Unit(LUN),
    };
    let (nexus, cdb) = (if random.other { B } else { A }, &random.cdb[..random.length]);
    let outcome = world.run_at(nexus, lun, cdb, &random.out, random.expected_in);
    assert!(outcome.data.len() as u64 <= random.expected_in);
    assert_eq!(outcome.status == Status::CheckCondition, !outcome.raw.is_empty());
}

fn small() -> LunConfig {
    LunConfig { blocks: BLOCKS, removable: true, ..config() }
}

proptest! {
    /// Every answer, and every byte of the medium, is the model's.
    #[test]
    fn commands_do_what_the_model_does(acts in proptest::collection::vec(act(), 1..60)) {
        let mut world = World::new(small());
        let blocks = BLOCKS as usize;
        let mut model = Model { bytes: vec![0; blocks * 512], mapped: vec![false; blocks] };
        for act in &acts {
            both(&mut world, &mut model, act);
            prop_assert_eq!(&world.disks[&LUN].bytes, &model.bytes);
            prop_assert_eq!(&world.disks[&LUN].mapped, &model.mapped);
        }
    }

    /// Any bytes as command, with any state before, end in a response.
    #[test]
    fn any_command_ends(commands in proptest::collection::vec(random(), 1..40)) {
        let mut world = World::new(small());
        for command in &commands {
            run_random(&mut world, command);
        }
    }

    /// Two COMPARE AND WRITE at the same time, in any order of their steps: one wins.
    #[test]
    fn compare_and_write_is_atomic_under_the_locks(order in any::<u32>()) {
        let mut world = World::new(LunConfig { block_size: BlockSize::B4096, ..small() });
        let mut locks = RangeLocks::new(8);
        let out = |byte| [vec![0; 4096], vec![byte; 4096]].concat();
        let cdb = sixteen(0x89, 0, 5, 1);
        let mut tasks: Vec<_> = [A, B].into_iter().enumerate().map(|(number, nexus)| {
            let task = world.target.begin(&Command {
                nexus,
                lun: LunAddress::Unit(LUN),
                cdb: &cdb,
                expected_in: 0,
                expected_out: 8192,
                attribute: TaskAttribute::Simple,
            });
            let runs = locks.start(number as u64, task.access()) == Start::Now;
            (task, runs)
        }).collect();
        let mut order = order;
        let mut good = 0;
        while tasks.iter().any(|(task, _)| task.response().is_none()) {
            let number = (order & 1) as usize;
            order = order.rotate_right(1) ^ 1;
            let (task, runs) = &mut tasks[number];
            let step = task.step().clone();
            if !*runs || matches!(step, Step::Done(_)) {
                continue;
            }
            world.answer(task, &step, &out(number as u8 + 1), &mut Vec::new());
            if let Some(response) = task.response() {
                good += u8::from(response.status == Status::Good);
                for key in locks.finish(number as u64) {
                    tasks[key as usize].1 = true;
                }
            }
        }
        prop_assert_eq!(good, 1);
    }
}
