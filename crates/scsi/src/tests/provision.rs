//! UNMAP, WRITE SAME, GET LBA STATUS, and the capacity.

use super::world::{A, LUN, World, config, large_blocks, sixteen, ten};
use crate::{Allocation, Hold, LunConfig, MediumError, MediumOperation, Provisioning, Residual};

fn unmap_list(ranges: &[(u64, u32)]) -> Vec<u8> {
    let length = 16 * ranges.len() as u16;
    let mut list = [(length + 6).to_be_bytes(), length.to_be_bytes(), [0; 2], [0; 2]].concat();
    for (lba, count) in ranges {
        list.extend(lba.to_be_bytes());
        list.extend(count.to_be_bytes());
        list.extend([0; 4]);
    }
    list
}

fn unmap(world: &mut World, flags: u8, list: &[u8]) -> super::world::Outcome {
    world.run(A, &ten(0x42, flags, 0, list.len() as u16), list, 0)
}

fn full() -> LunConfig {
    LunConfig { provisioning: Provisioning::Full, ..config() }
}

fn anchoring() -> LunConfig {
    LunConfig { provisioning: Provisioning::Thin { granularity: 8, anchor: true }, ..config() }
}

#[test]
fn unmapped_blocks_read_as_zero() {
    let mut world = World::new(config());
    world.disks.get_mut(&LUN).unwrap().bytes.fill(1);
    unmap(&mut world, 0, &unmap_list(&[(1, 2), (2047, 1), (5, 0), (2048, 0)])).good();
    let zero: Vec<usize> = (0..2048)
        .filter(|block| world.disks[&LUN].bytes[block * 512..][..512] == [0; 512])
        .collect();
    assert_eq!(zero, [1, 2, 2047]);
}

#[test]
fn unmap_does_all_or_nothing() {
    let mut world = World::new(config());
    for bad in [(2047, 2), (2049, 0), (u64::MAX, 1)] {
        unmap(&mut world, 0, &unmap_list(&[(0, 1), bad])).bad(5, 0x2100);
    }
    let many = [(0, 0); 257];
    unmap(&mut world, 0, &unmap_list(&many)).bad_list(2);
    unmap(&mut world, 0, &unmap_list(&many[1..])).good();
    unmap(&mut world, 0, &unmap_list(&[])).good();
    unmap(&mut world, 0, &[]).good();
    for length in 1..8 {
        unmap(&mut world, 0, &unmap_list(&[])[..length]).bad(5, 0x1a00);
    }
    // The descriptors' length leads behind the list; or it ends within a descriptor.
    unmap(&mut world, 0, &unmap_list(&[(0, 1)])[..23]).bad(5, 0x1a00);
    let mut list = unmap_list(&[(0, 1), (1, 1)]);
    list[3] = 31;
    assert!(world.operations.is_empty());
    unmap(&mut world, 0, &list).good();
    let [MediumOperation::Unmap { ranges, anchor: false }] = &world.operations[..] else {
        panic!("{:?}", world.operations);
    };
    assert_eq!(ranges.len(), 1);
    // More list than the initiator has.
    world.run(A, &ten(0x42, 0, 0, 24), &[0; 23], 0).bad(5, 0x0e03);
}

#[test]
fn unmap_claims_less_when_it_knows_more() {
    let mut world = World::new(config());
    let list = unmap_list(&[(8, 8), (32, 1)]);
    let mut task = world.begin(A, &ten(0x42, 0, 0, list.len() as u16), list.len() as u64, 0);
    assert_eq!(task.access().claims[0].range.len, 2048 * 512);
    world.target.data_out(&mut task, list.into());
    let ranges: Vec<_> =
        task.access().claims.iter().map(|claim| (claim.range.offset, claim.range.len)).collect();
    assert_eq!(ranges, [(8 * 512, 8 * 512), (32 * 512, 512)]);
    assert!(task.access().claims.iter().all(|claim| claim.hold == Hold::Shared));
}

#[test]
fn a_unit_that_is_not_thin() {
    let mut world = World::new(full());
    unmap(&mut world, 0, &unmap_list(&[(0, 1)])).bad(5, 0x2000);
    world.run(A, &ten(0x41, 0x08, 0, 1), &[0; 512], 0).bad_field(1);
    world.run(A, &sixteen(0x93, 0x08, 0, 1), &[0; 512], 0).bad_field(1);
    world.run(A, &ten(0x41, 0, 0, 1), &[1; 512], 0).good();
    let status = world.run(A, &sixteen(0x9e, 0x12, 5, 24), &[], 24).good();
    assert_eq!(status[..8], [0, 0, 0, 20, 0, 0, 0, 0]);
    assert_eq!(status[8..], [0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 7, 0xfb, 0, 0, 0, 0]);
}

#[test]
fn anchors() {
    let mut world = World::new(config());
    unmap(&mut world, 1, &unmap_list(&[(0, 1)])).bad_field(1);
    world.run(A, &ten(0x41, 0x18, 0, 1), &[0; 512], 0).bad_field(1);
    let mut world = World::new(anchoring());
    unmap(&mut world, 1, &unmap_list(&[(0, 1)])).good();
    world.run(A, &ten(0x41, 0x10, 0, 1), &[0; 512], 0).bad_field(1);
    world.run(A, &ten(0x41, 0x18, 0, 1), &[0; 512], 0).good();
    let [MediumOperation::Unmap { anchor: true, .. }, MediumOperation::Zero { allocation, .. }] =
        &world.operations[..]
    else {
        panic!("{:?}", world.operations);
    };
    assert_eq!(*allocation, Allocation::Anchor);
}

#[test]
fn write_same_writes_one_block_everywhere() {
    for unit in [config(), large_blocks()] {
        let (block, blocks) = (unit.block_size.bytes() as usize, unit.blocks);
        let mut world = World::new(unit);
        let bytes: Vec<u8> = (0..block).map(|at| at as u8 | 1).collect();
        world.run(A, &ten(0x41, 0, 2, 3), &bytes, 0).good();
        let disk = &world.disks[&LUN].bytes;
        assert!(disk[2 * block..5 * block].chunks(block).all(|chunk| chunk == bytes));
        assert!(disk[5 * block..].iter().all(|byte| *byte == 0));
        // A count of 0, or more than the maximum, is none.
        world.run(A, &ten(0x41, 0, 0, 0), &bytes, 0).bad_field(7);
        world.run(A, &sixteen(0x93, 0, 0, 0), &bytes, 0).bad_field(10);
        world.run(A, &sixteen(0x93, 0, blocks, 0), &bytes, 0).bad_field(10);
        world.run(A, &sixteen(0x93, 0, blocks, 1), &bytes, 0).bad(5, 0x2100);
        world.run(A, &sixteen(0x93, 0, blocks - 1, 2), &bytes, 0).bad(5, 0x2100);
        for wrong in [block / 2, block - 1, block + 1, 2 * block, 0] {
            world.run(A, &ten(0x41, 0, 0, 1), &vec![0; wrong], 0).bad(5, 0x0e03);
        }
    }
}

#[test]
fn the_most_blocks_of_write_same() {
    let mut world = World::new(LunConfig { blocks: 1 << 17, ..config() });
    world.run(A, &sixteen(0x93, 1, 0, 65535), &[], 0).good();
    world.run(A, &sixteen(0x93, 1, 0, 65536), &[], 0).bad_field(10);
}

#[test]
fn write_same_unmaps_what_reads_as_zero() {
    let mut world = World::new(config());
    let cases: [(u8, u8, Allocation); 2] =
        [(0x08, 0, Allocation::Deallocate), (0x00, 0, Allocation::Write)];
    for (flags, byte, allocation) in cases {
        for cdb in [ten(0x41, flags, 0, 4).to_vec(), sixteen(0x93, flags, 0, 4).to_vec()] {
            world.operations.clear();
            world.run(A, &cdb, &[byte; 512], 0).good();
            let [MediumOperation::Zero { allocation: found, range }] = &world.operations[..] else {
                panic!("{:?}", world.operations);
            };
            assert_eq!((*found, range.len), (allocation, 2048));
        }
    }
    // Another block is written, whatever UNMAP says.
    world.operations.clear();
    world.run(A, &ten(0x41, 0x08, 0, 4), &[6; 512], 0).good();
    assert!(matches!(world.operations[..], [MediumOperation::WriteSame { .. }]));
    // NDOB: no block is needed.
    world.operations.clear();
    let outcome = world.run(A, &sixteen(0x93, 0x09, 0, 4), &[], 0);
    assert_eq!(outcome.residual, Residual::None);
    outcome.good();
    world.run(A, &sixteen(0x93, 0x01, 0, 4), &[], 0).good();
    assert!(world.disks[&LUN].bytes.iter().all(|byte| *byte == 0));
    assert_eq!(world.operations.len(), 2);
}

#[test]
fn without_write_cache_all_is_flushed() {
    let mut world = World::new(LunConfig { write_cache: false, ..config() });
    unmap(&mut world, 0, &unmap_list(&[(0, 1)])).good();
    world.run(A, &ten(0x41, 0, 0, 1), &[1; 512], 0).good();
    world.run(A, &sixteen(0x93, 0x01, 0, 1), &[], 0).good();
    let flushes =
        world.operations.chunks(2).filter(|pair| pair[1] == MediumOperation::Flush).count();
    assert_eq!(flushes, 3);
}

#[test]
fn lba_status_follows_the_medium() {
    let mut world = World::new(config());
    world.run(A, &ten(0x2a, 0, 4, 4), &[1; 2048], 0).good();
    let status = |lba, allocation| sixteen(0x9e, 0x12, lba, allocation);
    let data = world.run(A, &status(2, 8 + 3 * 16), &[], 56).good();
    let runs: Vec<(u8, u8, u8)> =
        data[8..].chunks(16).map(|run| (run[7], run[11], run[12])).collect();
    assert_eq!(runs, [(2, 2, 1), (4, 4, 0), (8, 0xf8, 1)]);
    assert_eq!(data[..4], [0, 0, 0, 52]);
    let data = world.run(A, &status(5, 24), &[], 24).good();
    assert_eq!(data[8..21], [0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 3, 0]);
    for lba in [2048, 2049, 1 << 63, u64::MAX] {
        world.run(A, &status(lba, 24), &[], 24).bad(5, 0x2100);
    }
    // An allocation length below one descriptor cuts.
    assert_eq!(world.run(A, &status(0, 4), &[], 4).good(), [0, 0, 0, 20]);
    assert_eq!(world.run(A, &status(0, 0), &[], 0).good(), [0; 0]);
}

#[test]
fn a_full_medium_is_told() {
    let mut world = World::new(config());
    world.fail = Some(MediumError::NoSpace);
    world.run(A, &ten(0x2a, 0, 0, 1), &[1; 512], 0).bad(7, 0x2707);
}

#[test]
fn capacities() {
    let mut world = World::new(config());
    let ten_data = world.run(A, &ten(0x25, 0, 0, 0), &[], 8).good();
    assert_eq!(ten_data, [0, 0, 7, 0xff, 0, 0, 2, 0]);
    let sixteen_data = world.run(A, &sixteen(0x9e, 0x10, 0, 32), &[], 32).good();
    assert_eq!(sixteen_data[..15], [0, 0, 0, 0, 0, 0, 7, 0xff, 0, 0, 2, 0, 0, 0, 0xc0]);
    assert_eq!(sixteen_data[15..], [0; 17]);
    for length in 0..32 {
        let cut = world.run(A, &sixteen(0x9e, 0x10, 0, length), &[], length.into()).good();
        assert_eq!(cut, sixteen_data[..length as usize]);
    }
    world.run(A, &ten(0x25, 0, 1, 0), &[], 8).bad_field(5);
    world.run(A, &ten(0x25, 0, 0, 1), &[], 8).bad_field(8);
    let mut world = World::new(LunConfig { physical_exponent: 3, ..full() });
    let data = world.run(A, &sixteen(0x9e, 0x10, 0, 32), &[], 32).good();
    assert_eq!(data[13..15], [3, 0]);
    // More blocks than READ CAPACITY (10) can say.
    world.target.resize_lun(LUN, (1 << 32) + 1).unwrap();
    world.run(A, &[0; 6], &[], 0).bad(6, 0x2a09);
    assert_eq!(world.run(A, &ten(0x25, 0, 0, 0), &[], 8).good()[..4], [0xff; 4]);
}

#[test]
fn defect_lists_are_empty() {
    let mut world = World::new(config());
    let mut cdb = ten(0x37, 0, 0, 32);
    cdb[2] = 0x18;
    assert_eq!(world.run(A, &cdb, &[], 32).good(), [0, 0x18, 0, 0]);
    cdb[2] = 6;
    world.run(A, &cdb, &[], 32).bad_field(2);
    let mut cdb = [0xb7, 0x08, 0, 0, 0, 0, 0, 0, 0, 32, 0, 0];
    assert_eq!(world.run(A, &cdb, &[], 32).good(), [0, 8, 0, 0, 0, 0, 0, 0]);
    cdb[1] = 7;
    world.run(A, &cdb, &[], 32).bad_field(1);
}
