//! VERIFY, WRITE AND VERIFY, ORWRITE, COMPARE AND WRITE.

use super::world::{A, LUN, World, config, large_blocks, sixteen, ten, twelve};
use crate::{Hold, LunConfig, MediumOperation, ReadTo, Residual};

/// Blocks that take three pieces, and bytes for them.
const LONG: u16 = 1200;

fn pattern() -> Vec<u8> {
    (0..usize::from(LONG) * 512).map(|at| (at / 3) as u8).collect()
}

fn verify_forms(flags: u8, lba: u32, count: u16) -> [Vec<u8>; 3] {
    [
        ten(0x2f, flags, lba, count).to_vec(),
        twelve(0xaf, flags, lba, count.into()).to_vec(),
        sixteen(0x8f, flags, lba.into(), count.into()).to_vec(),
    ]
}

#[test]
fn verify_compares_every_byte() {
    let mut world = World::new(config());
    let bytes = pattern();
    world.run(A, &ten(0x2a, 0, 0, LONG), &bytes, 0).good();
    for cdb in verify_forms(0x02, 0, LONG) {
        world.run(A, &cdb, &bytes, 0).good();
        for place in [0, 511, 512, 262_143, 262_144, 500_000, bytes.len() - 1] {
            let mut other = bytes.clone();
            other[place] ^= 1;
            let bad = world.run(A, &cdb, &other, 0).bad(0x0e, 0x1d00);
            assert_eq!(bad.information() as usize, place);
        }
    }
}

#[test]
fn verify_without_comparison_reads_only() {
    let mut world = World::new(config());
    for cdb in verify_forms(0x10, 8, 4) {
        world.operations.clear();
        let outcome = world.run(A, &cdb, &[1; 2048], 0);
        assert_eq!(outcome.residual, Residual::Underflow(2048));
        outcome.good();
        let expected = MediumOperation::Read { offset: 4096, len: 2048, to: ReadTo::Nowhere };
        assert_eq!(world.operations, [expected]);
    }
    for flags in [0, 2, 6] {
        for cdb in verify_forms(flags, 0, 0) {
            world.run(A, &cdb, &[], 0).good();
        }
        for cdb in verify_forms(flags, 2049, 0) {
            world.run(A, &cdb, &[], 0).bad(5, 0x2100);
        }
        for cdb in verify_forms(flags, 2047, 2) {
            world.run(A, &cdb, &[0; 1024], 0).bad(5, 0x2100);
        }
    }
    for cdb in verify_forms(4, 0, 1) {
        world.run(A, &cdb, &[0; 512], 0).bad_field(1);
    }
}

#[test]
fn verify_with_one_block_for_all() {
    let mut world = World::new(config());
    world.run(A, &ten(0x41, 0, 0, LONG), &[9; 512], 0).good();
    for cdb in verify_forms(0x06, 0, LONG) {
        world.run(A, &cdb, &[9; 512], 0).good();
        let mut other = [9; 512];
        other[77] = 8;
        let bad = world.run(A, &cdb, &other, 0).bad(0x0e, 0x1d00);
        assert_eq!(bad.information(), 77);
        world.run(A, &cdb, &[9; 511], 0).bad(5, 0x0e03);
    }
    world.run(A, &ten(0x2a, 0, 900, 1), &[1; 512], 0).good();
    world.run(A, &verify_forms(0x06, 0, LONG)[0], &[9; 512], 0).bad(0x0e, 0x1d00);
}

#[test]
fn write_and_verify_writes_through_and_reads_back() {
    let bytes = pattern();
    for flags in [0, 2] {
        for cdb in [
            ten(0x2e, flags, 0, LONG).to_vec(),
            twelve(0xae, flags, 0, LONG.into()).to_vec(),
            sixteen(0x8e, flags, 0, LONG.into()).to_vec(),
        ] {
            let mut world = World::new(config());
            world.run(A, &cdb, &bytes, 0).good();
            let disk = &world.disks[&LUN];
            assert_eq!(disk.bytes[..bytes.len()], bytes);
            assert!(!disk.dirty);
            let reads = world
                .operations
                .iter()
                .filter(|operation| matches!(operation, MediumOperation::Read { .. }));
            assert_eq!(reads.count(), if flags == 0 { 1 } else { 3 });
        }
    }
    let mut world = World::new(config());
    for flags in [4, 6] {
        world.run(A, &ten(0x2e, flags, 0, 1), &[0; 512], 0).bad_field(1);
    }
    world.run(A, &ten(0x2e, 2, 2047, 2), &[0; 1024], 0).bad(5, 0x2100);
    world.run(A, &ten(0x2e, 2, 0, 0), &[], 0).good();
}

#[test]
fn orwrite_combines() {
    let mut world = World::new(config());
    let (first, second) = (pattern(), pattern().into_iter().rev().collect::<Vec<_>>());
    world.run(A, &ten(0x2a, 0, 0, LONG), &first, 0).good();
    let task = world.begin(A, &sixteen(0x8b, 0, 0, LONG.into()), second.len() as u64, 0);
    assert_eq!(task.access().claims[0].hold, Hold::Exclusive);
    world.run(A, &sixteen(0x8b, 0x08, 0, LONG.into()), &second, 0).good();
    let combined: Vec<u8> = first.iter().zip(&second).map(|(a, b)| a | b).collect();
    assert_eq!(world.disks[&LUN].bytes[..combined.len()], combined);
    world.run(A, &sixteen(0x8b, 0, 0, 0), &[], 0).good();
    world.run(A, &sixteen(0x8b, 0, 2049, 0), &[], 0).bad(5, 0x2100);
    world.run(A, &sixteen(0x8b, 0, 2048, 1), &[0; 512], 0).bad(5, 0x2100);
    world.run(A, &sixteen(0x8b, 0, 0, 2), &[0; 1023], 0).bad(5, 0x0e03);
}

/// COMPARE AND WRITE: the count is byte 13.
fn compare_and_write(flags: u8, lba: u64, count: u8) -> [u8; 16] {
    sixteen(0x89, flags, lba, count.into())
}

#[test]
fn compare_and_write_does_both_or_nothing() {
    for unit in [config(), large_blocks()] {
        let block = unit.block_size.bytes() as usize;
        let mut world = World::new(unit);
        for count in [1, 2, 255] {
            let half = usize::from(count) * block;
            world.disks.get_mut(&LUN).unwrap().bytes.fill(b'A');
            let both = [vec![b'A'; half], vec![b'B'; half]].concat();
            for place in [0, half - 1] {
                let mut other = both.clone();
                other[place] = b'C';
                let bad = world.run(A, &compare_and_write(0, 0, count), &other, 0);
                assert_eq!(bad.bad(0x0e, 0x1d00).information() as usize, place);
                assert!(world.disks[&LUN].bytes.iter().all(|byte| *byte == b'A'));
            }
            world.run(A, &compare_and_write(0x08, 0, count), &both, 0).good();
            let disk = &world.disks[&LUN].bytes;
            assert!(disk[..half].iter().all(|byte| *byte == b'B'));
            assert!(disk[half..].iter().all(|byte| *byte == b'A'));
        }
    }
}

#[test]
fn compare_and_write_checks_its_fields() {
    let mut world = World::new(config());
    let task = world.begin(A, &compare_and_write(0, 4, 2), 2048, 0);
    let claim = &task.access().claims[0];
    assert_eq!((claim.range.offset, claim.range.len, claim.hold), (2048, 1024, Hold::Exclusive));
    for length in [0, 512, 1023, 1025, 2048] {
        world.run(A, &compare_and_write(0, 0, 1), &vec![0; length], 0).bad(5, 0x0e03);
    }
    world.run(A, &compare_and_write(0, 2047, 2), &[0; 2048], 0).bad(5, 0x2100);
    world.run(A, &compare_and_write(0, 0, 0), &[], 0).good();
    // 256 blocks, of which eight bits are left.
    world.run(A, &compare_and_write(0, 0, 0), &[0; 512 * 512], 0).bad_field(13);
    assert!(world.operations.is_empty());
    let mut world = World::new(LunConfig { most_transfer: 4, ..config() });
    world.run(A, &compare_and_write(0, 0, 5), &[0; 5120], 0).bad_field(13);
    world.run(A, &compare_and_write(0, 0, 4), &[0; 4096], 0).good();
}
