//! MODE SENSE and MODE SELECT.

use super::world::{A, B, LUN, Outcome, World, config, large_blocks, ten};
use crate::{LunConfig, StoredState, Target};

/// The control page, changed.
fn control(world: &mut World, bits: &[(usize, u8)]) -> Vec<u8> {
    let mut page = world.run(A, &[0x1a, 8, 0x0a, 0, 255, 0], &[], 255).good()[4..].to_vec();
    for (at, mask) in bits {
        page[*at] ^= mask;
    }
    page
}

fn select(world: &mut World, flags: u8, pages: &[u8]) -> Outcome {
    let list = [&[0; 4], pages].concat();
    world.run(A, &[0x15, flags, 0, 0, list.len() as u8, 0], &list, 0)
}

#[test]
fn all_pages_and_each_page() {
    let mut world = World::new(config());
    let all = world.run(A, &[0x1a, 0, 0x3f, 0, 255, 0], &[], 255).good();
    assert_eq!(all[..12], [55, 0, 0x10, 8, 0, 0, 8, 0, 0, 0, 2, 0]);
    assert_eq!(usize::from(all[0]) + 1, all.len());
    let mut at = 12;
    for code in [0x08, 0x0a, 0x1c] {
        let one = world.run(A, &[0x1a, 8, code, 0, 255, 0], &[], 255).good();
        assert_eq!((one[3], one[4], usize::from(one[5]) + 6), (0, code, one.len()));
        assert_eq!(one[4..], all[at..at + one.len() - 4]);
        at += one.len() - 4;
    }
    assert_eq!(at, all.len());
    assert_eq!(world.run(A, &[0x1a, 0, 0x3f, 0xff, 255, 0], &[], 255).good(), all);
    // Ten bytes, with a long block descriptor.
    let mut cdb = ten(0x5a, 0x10, 0, 255);
    cdb[2] = 0x3f;
    let long = world.run(A, &cdb, &[], 255).good();
    assert_eq!(long[..8], [0, 66, 0, 0x10, 1, 0, 0, 16]);
    assert_eq!(long[8..24], [0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 2, 0]);
    assert_eq!(long[24..], all[12..]);
    // What there is not.
    world.run(A, &[0x1a, 0, 0x3e, 0, 255, 0], &[], 255).bad_field(2);
    world.run(A, &[0x1a, 0, 0x08, 1, 255, 0], &[], 255).bad_field(3);
    world.run(A, &[0x1a, 0, 0x3f, 1, 255, 0], &[], 255).bad_field(3);
    world.run(A, &[0x1a, 0, 0xff, 0, 255, 0], &[], 255).bad(5, 0x3900);
    assert_eq!(world.run(A, &[0x1a, 0, 0x3f, 0, 4, 0], &[], 4).good(), all[..4]);
}

#[test]
fn changeable_and_default_values() {
    let mut world = World::new(config());
    let changeable = world.run(A, &[0x1a, 8, 0x7f, 0, 255, 0], &[], 255).good();
    let bits: Vec<(usize, u8)> = changeable[4..]
        .iter()
        .enumerate()
        .filter(|(at, byte)| **byte != 0 && ![0, 1, 20, 21, 32, 33].contains(at))
        .map(|(at, byte)| (at, *byte))
        .collect();
    assert_eq!(bits, [(2, 0x04), (22, 0x04), (24, 0x08)]);
    let page = control(&mut world, &[(4, 0x08)]);
    select(&mut world, 0x10, &page).good();
    let value = |world: &mut World, control: u8| {
        world.run(A, &[0x1a, 8, control << 6 | 0x0a, 0, 255, 0], &[], 255).good()[8]
    };
    assert_eq!((value(&mut world, 0), value(&mut world, 2)), (8, 0));
}

#[test]
fn software_write_protect() {
    let mut world = World::new(config());
    let page = control(&mut world, &[(4, 0x08)]);
    select(&mut world, 0x10, &page).good();
    world.run(A, &ten(0x2a, 0, 0, 1), &[0; 512], 0).bad(7, 0x2702);
    world.run(A, &ten(0x28, 0, 0, 1), &[], 512).good();
    assert_eq!(world.run(A, &[0x1a, 8, 0x0a, 0, 255, 0], &[], 255).good()[2], 0x90);
    // The others are told, and a reset brings the first state back.
    world.run(B, &[0; 6], &[], 0).bad(6, 0x2a01);
    select(&mut world, 0x10, &page).good();
    world.run(B, &[0; 6], &[], 0).good();
    world.target.reset_lun(LUN).unwrap();
    world.run(A, &[0; 6], &[], 0).bad(6, 0x2903);
    world.run(A, &ten(0x2a, 0, 0, 1), &[0; 512], 0).good();
}

#[test]
fn the_write_cache_can_be_turned_off() {
    let mut world = World::new(config());
    let mut page = world.run(A, &[0x1a, 8, 0x08, 0, 255, 0], &[], 255).good()[4..].to_vec();
    assert_eq!((page[2], world.target.write_cache(LUN)), (4, true));
    page[2] = 0;
    // With ten bytes, a block descriptor, and PS as it came.
    page[0] |= 0x80;
    let list = [&[0, 0, 0, 0, 0, 0, 0, 8], &[0, 0, 8, 0, 0, 0, 2, 0], &page[..]].concat();
    world.run(A, &ten(0x55, 0x10, 0, list.len() as u16), &list, 0).good();
    assert!(!world.target.write_cache(LUN));
    world.run(A, &ten(0x2a, 0, 0, 1), &[0; 512], 0).good();
    assert!(!world.disks[&LUN].dirty);
}

#[test]
fn lists_with_errors_change_nothing() {
    let mut world = World::new(config());
    let good = control(&mut world, &[(2, 4)]);
    let fixed = control(&mut world, &[(3, 0x10)]);
    select(&mut world, 0x10, &fixed).bad_list(4 + 3);
    select(&mut world, 0x10, &[&good[..], &fixed].concat()).bad_list(4 + 12 + 3);
    select(&mut world, 0x10, &[&[0x3e], &good[1..]].concat()).bad_list(4);
    select(&mut world, 0x10, &[&[0x4a], &good[1..]].concat()).bad_list(4);
    select(&mut world, 0x10, &[&[0x0a, 9], &good[2..]].concat()).bad_list(5);
    for length in 1..good.len() {
        select(&mut world, 0x10, &good[..length]).bad(5, 0x1a00);
    }
    for (length, place) in [(1, None), (3, None), (4, Some(1))] {
        let list = [0, 1, 0, 0];
        let outcome = world.run(A, &[0x15, 0x10, 0, 0, length, 0], &list[..length as usize], 0);
        match place {
            Some(place) => outcome.bad_list(place),
            None => drop(outcome.bad(5, 0x1a00)),
        }
    }
    select(&mut world, 0x00, &good).bad_field(1);
    select(&mut world, 0x11, &good).bad_field(1);
    let blocks = |descriptor: [u8; 8]| [&[0, 0, 0, 8], &descriptor[..]].concat();
    for (descriptor, place) in [
        ([0, 0, 8, 1, 0, 0, 2, 0], Some(4)),
        ([0, 0, 8, 0, 0, 0, 4, 0], Some(9)),
        ([0, 0, 8, 0, 0, 0, 2, 0], None),
        ([0, 0, 0, 0, 0, 0, 2, 0], None),
        ([255, 255, 255, 255, 0, 0, 2, 0], None),
    ] {
        let list = blocks(descriptor);
        let outcome = world.run(A, &[0x15, 0x10, 0, 0, 12, 0], &list, 0);
        match place {
            Some(place) => outcome.bad_list(place),
            None => drop(outcome.good()),
        }
    }
    world.run(A, &[0x15, 0x10, 0, 0, 4, 0], &[0, 0, 0, 7], 0).bad(5, 0x1a00);
    world.run(A, &[0x15, 0x10, 0, 0, 11, 0], &[0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0], 0).bad_list(3);
    assert_eq!(control(&mut world, &[]), control(&mut world, &[]));
    assert_eq!(control(&mut world, &[(2, 4)]), good);
}

#[test]
fn saved_pages_come_back() {
    let saves = LunConfig { keeps_state: true, ..large_blocks() };
    let mut world = World::new(saves.clone());
    let page = control(&mut world, &[(2, 4)]);
    assert_eq!(page[0], 0x8a);
    let shown =
        |world: &mut World| world.run(A, &[0x1a, 8, 0xca, 0, 255, 0], &[], 255).good()[4 + 2];
    assert_eq!(shown(&mut world), 0);
    select(&mut world, 0x11, &page).good();
    assert_eq!(shown(&mut world), 4);
    let [StoredState::ModePages(stored)] = &world.stored[..] else {
        panic!("{:?}", world.stored);
    };
    let mode_pages = Some(stored.clone());
    world.target.reset_lun(LUN).unwrap();
    world.run(A, &[0; 6], &[], 0).bad(6, 0x2903);
    assert_eq!(control(&mut world, &[])[2], 4);
    let mut later = World::new(LunConfig { mode_pages, ..saves });
    assert_eq!(control(&mut later, &[])[2], 4);
}

#[test]
fn damaged_pages_are_refused() {
    let mut world = World::new(config());
    world.target.remove_lun(LUN).unwrap();
    let damaged = LunConfig { mode_pages: Some(bytes::Bytes::from_static(b"xx")), ..config() };
    let error = Target::add_lun(&mut world.target, LUN, damaged).unwrap_err();
    assert_eq!(error, crate::TargetError::Stored("mode pages"));
}
