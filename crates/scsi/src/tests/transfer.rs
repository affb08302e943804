//! READ, WRITE, PRE-FETCH, SYNCHRONIZE CACHE.

use super::world::{A, LUN, World, config, large_blocks, sixteen, ten, twelve};
use crate::{Hold, LunConfig, MediumError, MediumOperation, ReadTo, Residual, Step, WriteFrom};

/// READ or WRITE of every length, by the opcode of its 6-byte form.
fn forms(six: u8, lba: u32, count: u16) -> [Vec<u8>; 4] {
    let [_, high, middle, low] = lba.to_be_bytes();
    [
        vec![six, high, middle, low, count as u8, 0],
        ten(six | 0x20, 0, lba, count).to_vec(),
        twelve(six | 0xa0, 0, lba, count.into()).to_vec(),
        sixteen(six | 0x80, 0, lba.into(), count.into()).to_vec(),
    ]
}

#[test]
fn every_form_reads_what_every_form_has_written() {
    for unit in [config(), large_blocks()] {
        let block = unit.block_size.bytes() as usize;
        let mut world = World::new(unit);
        for (number, write) in forms(0x0a, 0, 3).into_iter().enumerate() {
            let bytes: Vec<u8> = (0..3 * block).map(|at| (at * 7 + number) as u8).collect();
            world.run(A, &write, &bytes, 0).good();
            for read in forms(0x08, 0, 3) {
                assert_eq!(world.run(A, &read, &[], 3 * block as u64).good(), bytes);
            }
            assert_eq!(world.disks[&LUN].bytes[..3 * block], bytes);
        }
    }
}

#[test]
fn a_length_of_zero_is_256_blocks_in_six_bytes_only() {
    let mut world = World::new(config());
    let read = forms(0x08, 0, 0);
    assert_eq!(world.run(A, &read[0], &[], 1 << 20).good().len(), 256 * 512);
    for cdb in &read[1..] {
        assert_eq!(world.run(A, cdb, &[], 0).good(), [0; 0]);
    }
    // The three highest bits of byte 1 were a LUN once.
    world.run(A, &[0x08, 0x20, 0, 0, 1, 0], &[], 512).bad_field(1);
}

#[test]
fn blocks_beyond_the_end() {
    let mut world = World::new(config());
    let buffer = vec![0; 2 * 512];
    for opcode in [0x08, 0x0a] {
        for (lba, count, first) in [(2048, 1, 2048), (2047, 2, 2048), (100_000, 1, 100_000)] {
            for cdb in forms(opcode, lba, count) {
                let bad = world.run(A, &cdb, &buffer, 1024).bad(5, 0x2100);
                assert_eq!(bad.information(), first, "{cdb:x?}");
            }
        }
        // No blocks may begin at the end, not behind it.
        for cdb in &forms(opcode, 2048, 0)[1..] {
            world.run(A, cdb, &[], 0).good();
        }
        for cdb in &forms(opcode, 2049, 0)[1..] {
            world.run(A, cdb, &[], 0).bad(5, 0x2100);
        }
    }
    world.run(A, &sixteen(0x88, 0, u64::MAX, 1), &[], 512).bad(5, 0x2100);
    world.run(A, &sixteen(0x88, 0, u64::MAX, u32::MAX), &[], 512).bad(5, 0x2100);
    assert!(world.operations.is_empty());
}

#[test]
fn the_most_blocks_of_a_transfer() {
    let mut world = World::new(LunConfig { most_transfer: 8, ..config() });
    for (opcode, six) in [(0x08, 4), (0x0a, 4)] {
        for (cdb, byte) in forms(opcode, 0, 9).iter().zip([six, 7, 6, 10]) {
            world.run(A, cdb, &[0; 9 * 512], 9 * 512).bad_field(byte);
        }
        for cdb in forms(opcode, 0, 8) {
            world.run(A, &cdb, &[0; 8 * 512], 8 * 512).good();
        }
    }
}

#[test]
fn a_read_sends_no_more_than_is_expected() {
    let mut world = World::new(config());
    world.run(A, &ten(0x2a, 0, 0, 2), &[7; 1024], 0).good();
    let cases = [
        (1, 0, 0, Residual::Overflow(512)),
        (1, 10_000, 512, Residual::Underflow(9488)),
        (1, 200, 200, Residual::Overflow(312)),
        (2, 512, 512, Residual::Overflow(512)),
        (2, 1024, 1024, Residual::None),
    ];
    for (count, expected, sent, residual) in cases {
        for cdb in forms(0x08, 0, count) {
            let outcome = world.run(A, &cdb, &[], expected);
            assert_eq!((outcome.data.len(), outcome.residual), (sent, residual));
            outcome.good();
        }
    }
    // A read that the initiator takes for a write.
    let outcome = world.run(A, &ten(0x28, 0, 0, 1), &[0; 512], 0);
    assert_eq!(outcome.residual, Residual::Overflow(512));
    outcome.good();
}

#[test]
fn a_write_takes_no_more_than_there_is() {
    let cases: [(u16, usize, Option<usize>, Residual); 5] = [
        (1, 0, Some(0), Residual::Overflow(512)),
        (1, 1024, Some(512), Residual::Underflow(512)),
        (2, 512, Some(512), Residual::Overflow(512)),
        (1, 10_000, Some(512), Residual::Underflow(9488)),
        // Half a block cannot be written.
        (1, 200, None, Residual::Overflow(312)),
    ];
    for (count, length, written, residual) in cases {
        for opcode in [0x2a, 0x2e] {
            let mut world = World::new(config());
            let flags = if opcode == 0x2e { 2 } else { 0 };
            let outcome = world.run(A, &ten(opcode, flags, 0, count), &vec![b'b'; length], 0);
            assert_eq!(outcome.residual, residual);
            match written {
                Some(_) => drop(outcome.good()),
                None => drop(outcome.bad(5, 0x0e03)),
            }
            let disk = &world.disks[&LUN].bytes;
            let changed = disk.iter().filter(|byte| **byte == b'b').count();
            assert_eq!(changed, written.unwrap_or(0), "{opcode:#x} {count} {length}");
        }
    }
}

#[test]
fn payload_does_not_pass_through() {
    let mut world = World::new(config());
    let task = world.begin(A, &ten(0x28, 0, 8, 4), 0, 700);
    let Step::Medium { lun, operation } = task.step() else { panic!("{task:?}") };
    let to = ReadTo::DataIn { len: 700 };
    assert_eq!((*lun, operation), (LUN, &MediumOperation::Read { offset: 4096, len: 1024, to }));
    let claim = &task.access().claims[0];
    assert_eq!((claim.range.offset, claim.range.len, claim.hold), (4096, 2048, Hold::Shared));
    let task = world.begin(A, &ten(0x2a, 0, 8, 4), 2048, 0);
    let Step::Medium { operation, .. } = task.step() else { panic!("{task:?}") };
    let from = WriteFrom::DataOut;
    let expected = MediumOperation::Write { offset: 4096, len: 2048, fua: false, from };
    assert_eq!(operation, &expected);
}

#[test]
fn fua_and_a_write_cache_that_is_off() {
    for (write_cache, flags, dirty) in
        [(true, 0, true), (true, 8, false), (true, 2, true), (false, 0, false)]
    {
        let mut world = World::new(LunConfig { write_cache, ..config() });
        world.run(A, &ten(0x2a, flags, 0, 1), &[1; 512], 0).good();
        assert_eq!(world.disks[&LUN].dirty, dirty);
    }
    // DPO, FUA and the group number are allowed everywhere.
    let mut world = World::new(config());
    for flags in [0x10, 0x08, 0x02, 0x1a] {
        let mut cdb = ten(0x2a, flags, 0, 1);
        cdb[6] = 3;
        world.run(A, &cdb, &[0; 512], 0).good();
        (cdb[0], cdb[6]) = (0x28, 31);
        world.run(A, &cdb, &[], 512).good();
    }
}

#[test]
fn synchronize_cache_flushes() {
    let mut world = World::new(config());
    for cdb in [
        ten(0x35, 0, 0, 0).to_vec(),
        ten(0x35, 6, 2047, 1).to_vec(),
        ten(0x35, 0, 2048, 0).to_vec(),
        sixteen(0x91, 2, 0, 2048).to_vec(),
    ] {
        world.run(A, &ten(0x2a, 0, 0, 1), &[1; 512], 0).good();
        assert!(world.disks[&LUN].dirty);
        world.run(A, &cdb, &[], 0).good();
        assert!(!world.disks[&LUN].dirty);
    }
    world.run(A, &ten(0x35, 0, 2049, 0), &[], 0).bad(5, 0x2100);
    world.run(A, &sixteen(0x91, 0, 2047, 2), &[], 0).bad(5, 0x2100);
    world.fail = Some(MediumError::Flush);
    world.run(A, &ten(0x35, 0, 0, 0), &[], 0).bad(3, 0x0c00);
}

#[test]
fn prefetch_names_its_blocks() {
    let mut world = World::new(config());
    world.run(A, &ten(0x34, 2, 8, 2), &[], 0).good();
    world.run(A, &sixteen(0x90, 0, 2040, 0), &[], 0).good();
    world.run(A, &ten(0x34, 0, 2048, 0), &[], 0).good();
    let expected = [(4096, 1024), (2040 * 512, 8 * 512)];
    let expected = expected.map(|(offset, len)| MediumOperation::Prefetch { offset, len });
    assert_eq!(world.operations, expected);
    world.run(A, &ten(0x34, 0, 2047, 2), &[], 0).bad(5, 0x2100);
    world.run(A, &ten(0x34, 0, 2049, 0), &[], 0).bad(5, 0x2100);
}

#[test]
fn a_protected_unit_takes_no_writes() {
    let mut world = World::new(LunConfig { read_only: true, ..config() });
    for cdb in forms(0x0a, 0, 1) {
        world.run(A, &cdb, &[0; 512], 0).bad(7, 0x2700);
    }
    for opcode in [0x2e, 0x41, 0x42] {
        world.run(A, &ten(opcode, 0, 0, 1), &[], 0).bad(7, 0x2700);
    }
    for opcode in [0x89, 0x8b, 0x93, 0x8e] {
        world.run(A, &sixteen(opcode, 0, 0, 1), &[], 0).bad(7, 0x2700);
    }
    world.run(A, &ten(0x28, 0, 0, 1), &[], 512).good();
    assert_eq!(world.operations.len(), 1);
}
