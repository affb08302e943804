//! RESERVE and RELEASE, and what reservations forbid.

use super::reserve_rules::{KEY_A, KEY_B, out, register};
use super::world::{A, B, LUN, World, config, sixteen, ten};
use crate::table::{Operation, TABLE, Under};
use crate::{LunConfig, Status};

const RESERVE: [u8; 6] = [0x16, 0, 0, 0, 0, 0];
const RELEASE: [u8; 6] = [0x17, 0, 0, 0, 0, 0];

#[test]
fn reserve_keeps_others_out() {
    let mut world = World::new(config());
    world.run(A, &RESERVE, &[], 0).good();
    world.run(A, &RESERVE, &[], 0).good();
    world.run(B, &RESERVE, &[], 0).conflict();
    world.run(B, &[0x56, 0, 0, 0, 0, 0, 0, 0, 0, 0], &[], 0).conflict();
    // RELEASE by another nexus changes nothing.
    world.run(B, &RELEASE, &[], 0).good();
    world.run(A, &[0x1a, 0, 0x3f, 0, 255, 0], &[], 255).good();
    world.run(B, &[0x1a, 0, 0x3f, 0, 255, 0], &[], 255).conflict();
    world.run(B, &[0; 6], &[], 0).conflict();
    world.run(B, &ten(0x28, 0, 0, 1), &[], 512).conflict();
    world.run(B, &[0x12, 0, 0, 0, 36, 0], &[], 36).good();
    world.run(B, &[0xa0, 0, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0], &[], 16).good();
    world.run(B, &[3, 0, 0, 0, 18, 0], &[], 18).good();
    world.run(A, &[0x57, 0, 0, 0, 0, 0, 0, 0, 0, 0], &[], 0).good();
    world.run(B, &RESERVE, &[], 0).good();
    world.run(A, &RESERVE, &[], 0).conflict();
}

#[test]
fn reserve_ends_with_its_nexus_and_with_a_reset() {
    let mut world = World::new(config());
    world.run(A, &RESERVE, &[], 0).good();
    world.target.remove_nexus(A);
    world.run(B, &RESERVE, &[], 0).good();
    world.target.reset_lun(LUN).unwrap();
    world.target.add_nexus(A, super::world::port("iqn.a"), 1).unwrap();
    world.run(A, &RESERVE, &[], 0).bad(6, 0x2900);
    world.run(A, &RESERVE, &[], 0).good();
}

#[test]
fn the_two_kinds_exclude_each_other() {
    let mut world = World::new(config());
    world.run(A, &RESERVE, &[], 0).good();
    register(&mut world, A, 0, KEY_A).conflict();
    world.run(A, &ten(0x5e, 0, 0, 255), &[], 255).conflict();
    world.run(A, &RELEASE, &[], 0).good();
    register(&mut world, A, 0, KEY_A).good();
    world.run(A, &RESERVE, &[], 0).conflict();
    world.run(B, &RELEASE, &[], 0).conflict();
}

/// The status of every command of the table, sent as far as its checks go, from a nexus.
fn conflicts(kind: u8, registered: bool) -> Vec<(u8, Option<u8>)> {
    let unit = LunConfig { removable: true, ..config() };
    let mut found = Vec::new();
    for row in TABLE.iter().filter(|row| row.under != Under::Itself) {
        let mut world = World::new(unit.clone());
        register(&mut world, A, 0, KEY_A).good();
        if registered {
            register(&mut world, B, 0, KEY_B).good();
        }
        out(&mut world, A, 1, kind, KEY_A, 0, 0).good();
        let mut cdb = vec![0; row.usage.len()];
        (cdb[0], cdb[1]) = (row.opcode(), row.service.unwrap_or(0));
        let task = world.begin(B, &cdb, 0, 0);
        if task.response().is_some_and(|end| end.status == Status::ReservationConflict) {
            found.push((row.opcode(), row.service));
        }
    }
    found
}

#[test]
fn a_strangers_commands_under_each_type() {
    let of = |under: &[Under]| -> Vec<(u8, Option<u8>)> {
        let rows = TABLE.iter().filter(|row| under.contains(&row.under));
        rows.map(|row| (row.opcode(), row.service)).collect()
    };
    for kind in [1, 5, 7] {
        assert_eq!(conflicts(kind, false), of(&[Under::Writer]), "{kind}");
    }
    for kind in [3, 6, 8] {
        assert_eq!(conflicts(kind, false), of(&[Under::Reader, Under::Writer]), "{kind}");
    }
    // Another registrant.
    assert_eq!(conflicts(1, true), of(&[Under::Writer]));
    assert_eq!(conflicts(3, true), of(&[Under::Reader, Under::Writer]));
    for kind in [5, 6, 7, 8] {
        assert_eq!(conflicts(kind, true), [], "{kind}");
    }
}

#[test]
fn the_table_sorts_commands_as_the_standards_do() {
    let under = |operation| {
        let row = TABLE.iter().find(|row| row.operation == operation);
        row.map(|row| row.under)
    };
    for (operation, expected) in [
        (Operation::Inquiry, Under::Anything),
        (Operation::ReportLuns, Under::Anything),
        (Operation::TestUnitReady, Under::Persistent),
        (Operation::ReadCapacity16, Under::Persistent),
        (Operation::ModeSense, Under::Reader),
        (Operation::Verify, Under::Reader),
        (Operation::GetLbaStatus, Under::Reader),
        (Operation::ModeSelect, Under::Writer),
        (Operation::SynchronizeCache, Under::Writer),
        (Operation::CompareAndWrite, Under::Writer),
    ] {
        assert_eq!(under(operation), Some(expected));
    }
}

#[test]
fn commands_that_look_at_their_own_fields() {
    let mut world = World::new(LunConfig { removable: true, ..config() });
    register(&mut world, A, 0, KEY_A).good();
    out(&mut world, A, 1, 1, KEY_A, 0, 0).good();
    world.run(B, &[0x1b, 0, 0, 0, 1, 0], &[], 0).good();
    world.run(B, &[0x1b, 0, 0, 0, 0, 0], &[], 0).conflict();
    world.run(B, &[0x1b, 0, 0, 0, 2, 0], &[], 0).conflict();
    world.run(B, &[0x1e, 0, 0, 0, 0, 0], &[], 0).good();
    world.run(B, &[0x1e, 0, 0, 0, 1, 0], &[], 0).conflict();
    world.run(B, &sixteen(0x88, 0, 0, 1), &[], 512).good();
}
