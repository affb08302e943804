//! EXTENDED COPY and RECEIVE COPY RESULTS.

use super::reserve_rules::{KEY_A, out, register};
use super::world::{A, B, LUN, Outcome, World, config, large_blocks, ten};
use crate::{Hold, LunAddress, LunConfig, LunNumber, MediumError, NexusId};

const OTHER: LunNumber = LunNumber::new(1).unwrap();

/// A descriptor that names a unit as INQUIRY does.
pub(super) fn target(world: &mut World, lun: LunNumber, block: u16) -> Vec<u8> {
    let page = [0x12, 1, 0x83, 0, 255, 0];
    let page = world.run_at(A, LunAddress::Unit(lun), &page, &[], 255).good();
    let skipped = 4 + 4 + usize::from(page[7]);
    let mut descriptor = vec![0xe4, 0, 0, 0];
    descriptor.extend(&page[skipped..skipped + 12]);
    descriptor.resize(30, 0);
    descriptor.extend(block.to_be_bytes());
    descriptor
}

/// A segment of blocks.
pub(super) fn segment(from: u8, to: u8, count: u16, from_lba: u64, to_lba: u64) -> Vec<u8> {
    let mut descriptor = vec![2, 0, 0, 0x18, 0, from, 0, to, 0, 0];
    descriptor.extend(count.to_be_bytes());
    descriptor.extend(from_lba.to_be_bytes());
    descriptor.extend(to_lba.to_be_bytes());
    descriptor
}

/// A segment of bytes.
fn long_segment(bytes: u32, from_lba: u64, to_lba: u64, offset: u8) -> Vec<u8> {
    let mut descriptor = vec![0x0a, 0, 0, 0x1c, 0, 0, 0, 0];
    descriptor.extend(bytes.to_be_bytes());
    descriptor.extend(from_lba.to_be_bytes());
    descriptor.extend(to_lba.to_be_bytes());
    descriptor.extend([0, offset, 0, 0]);
    descriptor
}

pub(super) fn list(head: [u8; 2], targets: &[Vec<u8>], segments: &[Vec<u8>]) -> Vec<u8> {
    let (targets, segments) = (targets.concat(), segments.concat());
    let mut list = head.to_vec();
    list.extend((targets.len() as u16).to_be_bytes());
    list.extend([0; 4]);
    list.extend((segments.len() as u32).to_be_bytes());
    list.extend([0; 4]);
    [list, targets, segments].concat()
}

pub(super) fn copy(world: &mut World, list: &[u8]) -> Outcome {
    let mut cdb = [0; 16];
    cdb[0] = 0x83;
    cdb[10..14].copy_from_slice(&(list.len() as u32).to_be_bytes());
    world.run(A, &cdb, list, 0)
}

fn results(world: &mut World, nexus: NexusId, action: u8, id: u8) -> Outcome {
    let cdb = [0x84, action, id, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0];
    world.run(nexus, &cdb, &[], 1024)
}

/// A world with a second unit, of the same block size or a larger one.
pub(super) fn pair(other: LunConfig) -> World {
    let mut world = World::new(config());
    world.add(OTHER, LunConfig { serial: "serial-1".to_owned(), identifier: 101, ..other });
    world.run(A, &[0; 6], &[], 0).bad(6, 0x3f0e);
    let bytes: Vec<u8> = (0..2048 * 512).map(|at| (at / 100) as u8).collect();
    world.disks.get_mut(&LUN).unwrap().bytes = bytes;
    world
}

#[test]
fn blocks_are_copied_within_a_unit() {
    let mut world = pair(config());
    let targets = [target(&mut world, LUN, 512)];
    let before = world.disks[&LUN].bytes.clone();
    let segments =
        [segment(0, 0, 700, 0, 1300), segment(0, 0, 0, 5, 6), long_segment(1024, 10, 2046, 0)];
    copy(&mut world, &list([1, 0], &targets, &segments)).good();
    let disk = &world.disks[&LUN].bytes;
    assert_eq!(disk[1300 * 512..2000 * 512], before[..700 * 512]);
    assert_eq!(disk[2046 * 512..], before[10 * 512..12 * 512]);
    assert_eq!(disk[..1300 * 512], before[..1300 * 512]);
    let status = results(&mut world, A, 0, 1).good();
    let bytes = (702_u32 * 512).to_be_bytes();
    assert_eq!(status, [&[0, 0, 0, 8, 1, 0, 2, 0], &bytes[..]].concat());
    assert_eq!(results(&mut world, A, 1, 1).good(), [0; 4]);
    assert_eq!(results(&mut world, A, 4, 1).good(), [0; 4]);
    results(&mut world, A, 0, 1).bad_field(2);
}

#[test]
fn units_with_other_blocks_take_part() {
    let mut world = pair(large_blocks());
    let targets = [target(&mut world, LUN, 512), target(&mut world, OTHER, 4096)];
    let mut by_destination = segment(0, 1, 2, 8, 4);
    by_destination[1] = 2;
    copy(&mut world, &list([1, 0], &targets, &[segment(0, 1, 16, 8, 0), by_destination])).good();
    let (from, to) = (&world.disks[&LUN].bytes, &world.disks[&OTHER].bytes);
    assert_eq!(to[..16 * 512], from[8 * 512..24 * 512]);
    assert_eq!(to[4 * 4096..6 * 4096], from[8 * 512..24 * 512]);
    // No whole block of the destination.
    let odd = list([1, 0], &targets, &[segment(0, 1, 7, 0, 0)]);
    copy(&mut world, &odd).bad(0x0a, 0);
}

#[test]
fn the_result_is_kept_as_the_list_says() {
    let mut world = pair(config());
    let targets = [target(&mut world, LUN, 512)];
    let segments = [segment(0, 0, 8, 0, 100)];
    for (head, kept) in [([1, 0x00], true), ([2, 0x10], false), ([0, 0x18], false)] {
        copy(&mut world, &list(head, &targets, &segments)).good();
        let outcome = results(&mut world, A, 0, head[0]);
        if kept { drop(outcome.good()) } else { outcome.bad_field(2) }
    }
    // Each nexus has results of its own, and they go with it.
    results(&mut world, B, 0, 1).bad(6, 0x3f0e);
    results(&mut world, B, 0, 1).bad_field(2);
    copy(&mut world, &list([1, 0x18], &targets, &segments)).bad_list(0);
    copy(&mut world, &list([1, 0x08], &targets, &segments)).bad_list(1);
}

#[test]
fn a_medium_that_fails_ends_the_copy() {
    let mut world = pair(config());
    let targets = [target(&mut world, LUN, 512), target(&mut world, OTHER, 512)];
    let segments = list([9, 0x10], &targets, &[segment(0, 1, 8, 0, 100)]);
    world.fail = Some(MediumError::Read(3 * 512));
    let bad = copy(&mut world, &segments).bad(0x0a, 0x0d01);
    assert_eq!(bad.information(), 0);
    let status = results(&mut world, A, 0, 9).good();
    assert_eq!(status, [0, 0, 0, 8, 2, 0, 0, 0, 0, 0, 0, 0]);
    let details = results(&mut world, A, 4, 9).good();
    assert_eq!((details.len(), details[3], details[56], details[59]), (78, 74, 2, 18));
    assert_eq!((details[62], details[66], details[72]), (3, 3, 0x11));
    results(&mut world, A, 0, 9).bad_field(2);
}

#[test]
fn lists_with_errors_copy_nothing() {
    let mut world = pair(config());
    let own = target(&mut world, LUN, 512);
    let targets = [own.clone()];
    let good = [segment(0, 0, 8, 0, 100)];
    let whole = list([1, 0], &targets, &good);
    for length in 1..whole.len() {
        copy(&mut world, &whole[..length]).bad(5, 0x1a00);
    }
    copy(&mut world, &[]).good();
    copy(&mut world, &vec![0; 16 + 2560 + 1]).bad(5, 0x1a00);
    let with = |target: Vec<u8>| list([1, 0], &[target], &good);
    let changed = |at: usize, byte: u8| {
        let mut target = own.clone();
        target[at] = byte;
        target
    };
    copy(&mut world, &with(changed(0, 0xe0))).bad(5, 0x2607);
    copy(&mut world, &with(changed(1, 0x01))).bad_list(17);
    copy(&mut world, &with(changed(1, 0xc0))).good();
    for (at, byte) in [(15, 0xff), (4, 2), (5, 2), (7, 21), (7, 7)] {
        copy(&mut world, &with(changed(at, byte))).bad(0x0a, 0x0d02);
    }
    copy(&mut world, &with(changed(30, 0x10))).bad(0x0a, 0);
    let with = |segment: Vec<u8>| list([1, 0], &targets, &[segment]);
    copy(&mut world, &with(segment(0, 1, 8, 0, 100))).bad(0x0a, 0x0d02);
    copy(&mut world, &with(segment(0, 0, 8, 0, 2041))).bad(0x0a, 0);
    copy(&mut world, &with(segment(0, 0, 8, u64::MAX, 0))).bad(0x0a, 0);
    copy(&mut world, &with(long_segment(513, 0, 100, 0))).bad(0x0a, 0);
    copy(&mut world, &with(long_segment(u32::MAX - 511, 0, 100, 0))).bad(0x0a, 0);
    copy(&mut world, &with(long_segment(512, 0, 100, 1))).bad_list(48 + 28);
    copy(&mut world, &with([&[3], &good[0][1..]].concat())).bad(5, 0x2609);
    copy(&mut world, &with([&[2, 0, 0, 0x17], &good[0][4..]].concat())).bad(5, 0x2600);
    copy(&mut world, &list([1, 0], &vec![own.clone(); 17], &good)).bad(5, 0x2606);
    copy(&mut world, &list([1, 0], &targets, &vec![good[0].clone(); 65])).bad(5, 0x2608);
    let mut inline = whole.clone();
    inline[15] = 1;
    copy(&mut world, &inline).bad(5, 0x260b);
    let mut odd = list([1, 0], &targets, &good);
    odd[3] = 31;
    copy(&mut world, &odd).bad_list(2);
    // Only the list with the obsolete bits was right.
    assert_eq!(world.operations.len(), 2);
}

#[test]
fn reservations_and_protection_of_the_other_unit_hold() {
    let mut world = pair(LunConfig { read_only: true, ..config() });
    let targets = [target(&mut world, LUN, 512), target(&mut world, OTHER, 512)];
    let to_other = list([1, 0], &targets, &[segment(0, 1, 8, 0, 0)]);
    let from_other = list([1, 0], &targets, &[segment(1, 0, 8, 0, 0)]);
    copy(&mut world, &to_other).bad(0x0a, 0);
    copy(&mut world, &from_other).good();
    // The command's own unit, reserved by another nexus.
    world.run(B, &[0; 6], &[], 0).bad(6, 0x3f0e);
    register(&mut world, B, 0, KEY_A).good();
    out(&mut world, B, 1, 1, KEY_A, 0, 0).good();
    copy(&mut world, &from_other).conflict();
}

#[test]
fn a_copy_claims_less_when_it_knows_more() {
    let mut world = pair(config());
    let targets = [target(&mut world, LUN, 512), target(&mut world, OTHER, 512)];
    let bytes = list([1, 0], &targets, &[segment(0, 1, 8, 16, 32)]);
    let mut cdb = [0; 16];
    (cdb[0], cdb[13]) = (0x83, bytes.len() as u8);
    let mut task = world.begin(A, &cdb, bytes.len() as u64, 0);
    let claims = &task.access().claims;
    assert_eq!((claims[0].lun, claims[0].hold), (None, Hold::Exclusive));
    world.target.data_out(&mut task, bytes.into());
    let claims: Vec<_> = task
        .access()
        .claims
        .iter()
        .map(|claim| (claim.lun, claim.range.offset, claim.range.len, claim.hold))
        .collect();
    let expected = [
        (Some(LUN), 16 * 512, 8 * 512, Hold::Shared),
        (Some(OTHER), 32 * 512, 8 * 512, Hold::Exclusive),
    ];
    assert_eq!(claims, expected);
}

#[test]
fn parameters_are_those_of_the_limits() {
    let mut world = World::new(config());
    let data = results(&mut world, A, 3, 0).good();
    assert_eq!(data.len(), 47);
    assert_eq!((data[3], data[4], data[9], data[11]), (43, 1, 16, 64));
    assert_eq!(data[12..20], [0, 0, 10, 0, 0x10, 0, 0, 0]);
    assert_eq!(data[43..], [3, 0x02, 0x0a, 0xe4]);
    results(&mut world, A, 3, 1).good();
    world.run(A, &ten(0x83, 1, 0, 0), &[], 0).bad(5, 0x2400);
}
