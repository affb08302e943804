//! Units that a nexus does not see, or may only read.

use proptest::prelude::*;

use super::copy::{copy, list, pair, segment, target};
use super::reserve_rules::{KEY_A, register};
use super::world::{A, B, LUN, World, config, ten};
use crate::{LunAddress, LunConfig, LunNumber, NexusId, UnitRight, UnitRights};

const OTHER: LunNumber = LunNumber::new(1).unwrap();
const REPORT_LUNS: [u8; 12] = [0xa0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0];
const READ_CAPACITY: [u8; 10] = [0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0];

fn only(lun: LunNumber, right: UnitRight) -> UnitRights {
    let mut rights = UnitRights::NONE;
    rights.grant(lun, right);
    rights
}

#[test]
fn a_hidden_unit_is_not_there() {
    let mut world = pair(config());
    world.target.set_rights(B, only(OTHER, UnitRight::Write));
    let hidden = LunAddress::Unit(LUN);
    let luns = |world: &mut World, nexus, at| {
        let list = world.run_at(nexus, at, &REPORT_LUNS, &[], 256).good();
        list[8..].as_chunks::<8>().0.iter().map(|lun| lun[1]).collect::<Vec<_>>()
    };
    for at in [hidden, LunAddress::Unit(OTHER), LunAddress::ReportLuns] {
        assert_eq!(luns(&mut world, B, at), [1]);
        assert_eq!(luns(&mut world, A, at), [0, 1]);
    }
    // As at a number that no unit has.
    let nowhere = LunAddress::Unit(LunNumber::new(9).unwrap());
    let inquiry = [0x12, 0, 0, 0, 96, 0];
    for cdb in [&inquiry[..], &READ_CAPACITY, &[0x12, 1, 0x80, 0, 96, 0], &[0; 6]] {
        let missing = world.run_at(B, nowhere, cdb, &[], 96);
        assert_eq!(world.run_at(B, hidden, cdb, &[], 96), missing, "{cdb:02x?}");
    }
    assert_eq!((world.target.right(B, LUN), world.target.right(A, LUN).is_some()), (None, true));
    let before = world.operations.len();
    world.run(B, &ten(0x28, 0, 0, 1), &[], 512).bad(5, 0x2500);
    world.run(B, &ten(0x2a, 0, 0, 1), &[7; 512], 0).bad(5, 0x2500);
    assert_eq!(world.operations.len(), before, "no medium was touched");
}

#[test]
fn units_that_a_nexus_does_not_see_come_and_go_in_silence() {
    let mut world = World::new(config());
    world.target.set_rights(B, only(LUN, UnitRight::Read));
    let other = LunConfig { serial: "serial-1".to_owned(), identifier: 101, ..config() };
    world.add(OTHER, other);
    world.run(A, &[0; 6], &[], 0).bad(6, 0x3f0e);
    world.run(B, &[0; 6], &[], 0).good();
    world.target.remove_lun(OTHER).unwrap();
    world.run(A, &[0; 6], &[], 0).bad(6, 0x3f0e);
    world.run(B, &[0; 6], &[], 0).good();
}

#[test]
fn a_nexus_that_reads_does_not_write() {
    let mut world = World::new(config());
    world.target.set_rights(B, only(LUN, UnitRight::Read));
    world.run(A, &ten(0x2a, 0, 3, 1), &[7; 512], 0).good();
    assert_eq!(world.run(B, &ten(0x28, 0, 3, 1), &[], 512).good(), [7; 512]);
    // The mode parameter header says so to the one, not to the other.
    for (nexus, protected) in [(A, 0), (B, 0x80)] {
        let mode = world.run(nexus, &[0x1a, 0, 0x3f, 0, 255, 0], &[], 255).good();
        assert_eq!(mode[2] & 0x80, protected);
    }
    for opcode in [0x0a, 0x2a, 0x2e, 0x41, 0x8a, 0x93] {
        let cdb = [opcode, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0];
        let _ = world.run(B, &cdb, &[1; 512], 0).bad(7, 0x2700);
    }
    // What others find: reservations, mode pages, the medium.
    let out = |action| [0x5f, action, 0, 0, 0, 0, 0, 0, 24, 0];
    for action in [0, 1, 4, 5, 6] {
        world.run(B, &out(action), &[0; 24], 0).bad(5, 0x2002);
    }
    world.run(B, &[0x16, 0, 0, 0, 0, 0], &[], 0).bad(5, 0x2002);
    world.run(B, &[0x15, 0x10, 0, 0, 4, 0], &[0; 4], 0).bad(5, 0x2002);
    world.run(B, &[0x1b, 0, 0, 0, 2, 0], &[], 0).bad(5, 0x2002);
    world.run(B, &[0x1b, 0, 0, 0, 1, 0], &[], 0).good();
    register(&mut world, A, 0, KEY_A).good();
    // A new session of that name begins with every right.
    world.target.remove_nexus(B);
    world.target.add_nexus(B, super::world::port("iqn.b"), 1).unwrap();
    world.run(B, &[0; 6], &[], 0).bad(6, 0x2900);
    world.run(B, &ten(0x2a, 0, 3, 1), &[8; 512], 0).good();
}

#[test]
fn copies_reach_what_their_nexus_may_reach() {
    let mut world = pair(config());
    let targets = [target(&mut world, LUN, 512), target(&mut world, OTHER, 512)];
    let across = list([0, 0x18], &targets, &[segment(0, 1, 4, 0, 0)]);
    copy(&mut world, &across).good();
    let mut rights = only(LUN, UnitRight::Write);
    world.target.set_rights(A, rights.clone());
    copy(&mut world, &across).bad(0xa, 0x0d02);
    rights.grant(OTHER, UnitRight::Read);
    world.target.set_rights(A, rights.clone());
    copy(&mut world, &across).bad(0xa, 0);
    rights.grant(OTHER, UnitRight::Write);
    world.target.set_rights(A, rights);
    copy(&mut world, &across).good();
}

proptest! {
    /// A grant never takes a right away, and the order of grants is nothing.
    #[test]
    fn grants_only_add(
        grants in prop::collection::vec((0_u16..4, any::<bool>()), 0..8),
        all: bool,
    ) {
        let right = |write| if write { UnitRight::Write } else { UnitRight::Read };
        let add = |rights: &mut UnitRights, (lun, write): (u16, bool)| {
            rights.grant(LunNumber::new(lun).unwrap(), right(write));
        };
        let (mut forth, mut back) = (UnitRights::NONE, UnitRights::NONE);
        for grant in &grants {
            let before = forth.clone();
            add(&mut forth, *grant);
            for lun in (0..4).filter_map(LunNumber::new) {
                prop_assert!(forth.at(lun) >= before.at(lun));
            }
        }
        if all {
            forth.grant_all(UnitRight::Read);
            back.grant_all(UnitRight::Read);
        }
        grants.iter().rev().for_each(|grant| add(&mut back, *grant));
        prop_assert_eq!(&forth, &back);
        for lun in (0..5).filter_map(LunNumber::new) {
            let granted = grants.iter().filter(|(number, _)| *number == lun.get());
            let granted = granted.map(|(_, write)| right(*write)).max();
            prop_assert_eq!(forth.at(lun), granted.max(all.then_some(UnitRight::Read)));
        }
    }
}

#[test]
fn rights_can_grow_while_the_session_stands() {
    let mut world = World::new(config());
    let next = LunNumber::new(1).unwrap();
    world.add(next, LunConfig { identifier: 7, serial: "one".to_owned(), ..config() });
    world.run(A, &[0; 6], &[], 0).bad(6, 0x3f0e);
    let mut rights = UnitRights::NONE;
    rights.grant(LUN, UnitRight::Read);
    assert!(world.target.would_lose(A, &rights));
    world.target.set_rights(A, rights.clone());
    assert!(!world.target.would_lose(A, &rights));
    rights.grant(LUN, UnitRight::Write);
    world.target.extend_rights(A, rights.clone());
    world.run(A, &[0; 6], &[], 0).good();
    assert!(!world.target.would_lose(A, &UnitRights::EVERYTHING));
    world.target.extend_rights(A, UnitRights::EVERYTHING);
    world.run(A, &[0; 6], &[], 0).bad(6, 0x3f0e);
    assert!(world.target.would_lose(A, &rights), "a unit would be gone");
    world.target.extend_rights(NexusId(99), rights);
}
