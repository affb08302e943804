//! The checks that all commands share: LUNs, operation codes, reserved bits, unit attentions.

use super::world::{A, B, LUN, World, config, sixteen, ten};
use crate::table::{Direction, TABLE};
use crate::{Command, LunAddress, LunConfig, LunNumber, NexusId, Residual, Status, TaskAttribute};

fn number(lun: u16) -> LunNumber {
    LunNumber::new(lun).unwrap()
}

#[test]
fn every_bit_outside_of_a_usage_map_is_an_invalid_field() {
    let mut world = World::new(LunConfig { removable: true, ..config() });
    for row in TABLE {
        for at in 1..row.usage.len() {
            for bit in 0..8 {
                let service = if at == 1 && row.service.is_some() { 0x1f } else { 0 };
                if (row.usage[at] | service) & 1 << bit != 0 {
                    continue;
                }
                let mut cdb = vec![0; row.usage.len()];
                (cdb[0], cdb[1]) = (row.opcode(), row.service.unwrap_or(0));
                cdb[at] |= 1 << bit;
                let bad = world.run(A, &cdb, &[], 0).bad(5, 0x2400);
                assert_eq!(bad.raw[15..18], [0xc8 | bit, 0, at as u8], "{cdb:x?}");
            }
        }
    }
}

#[test]
fn unknown_operation_codes_and_service_actions() {
    let mut world = World::new(config());
    for opcode in 0..=255 {
        if TABLE.iter().all(|row| row.opcode() != opcode) {
            let mut cdb = [0; 16];
            cdb[0] = opcode;
            world.run(A, &cdb, &[], 0).bad(5, 0x2000);
        }
    }
    for opcode in [0x5e, 0x5f, 0x83, 0x84, 0x9e, 0xa3] {
        let mut cdb = [0; 16];
        (cdb[0], cdb[1]) = (opcode, 0x1f);
        world.run(A, &cdb, &[], 0).bad_field(1);
    }
    // A block that is shorter than its operation code says.
    world.run(A, &ten(0x28, 0, 0, 1)[..9], &[], 512).bad(5, 0x2000);
    world.run(A, &[], &[], 0).bad(5, 0x2000);
    // Bytes behind the block's length have no meaning.
    world.run(A, &[0, 0, 0, 0, 0, 0, 0xff, 0xff], &[], 0).good();
}

#[test]
fn numbers_without_unit() {
    let mut world = World::new(config());
    let mut at = |lun, cdb: &[u8], expected| world.run_at(A, lun, cdb, &[], expected);
    for lun in [LunAddress::Unit(number(3)), LunAddress::Unknown] {
        at(lun, &[0; 6], 0).bad(5, 0x2500);
        at(lun, &ten(0x28, 0, 0, 1), 512).bad(5, 0x2500);
        at(lun, &[0xff; 16], 0).bad(5, 0x2500);
        let inquiry = at(lun, &[0x12, 0, 0, 0, 96, 0], 96).good();
        assert_eq!((inquiry.len(), inquiry[0]), (96, 0x7f));
        assert_eq!(at(lun, &[0x12, 1, 0, 0, 96, 0], 96).good(), [0x7f, 0, 0, 2, 0, 0x83]);
        at(lun, &[0x12, 1, 0xb0, 0, 96, 0], 96).bad_field(2);
        at(lun, &[0x12, 0, 1, 0, 96, 0], 96).bad_field(2);
        let sense = at(lun, &[3, 0, 0, 0, 18, 0], 18).good();
        assert_eq!((sense[2], sense[12]), (5, 0x25));
        let luns = at(lun, &[0xa0, 0, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0], 16).good();
        assert_eq!(luns, [0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        at(lun, &[0xa0, 0, 0, 0, 0, 0, 0, 0, 0, 15, 0, 0], 16).bad_field(6);
    }
}

#[test]
fn the_well_known_unit() {
    let mut world = World::new(config());
    let mut at = |cdb: &[u8]| world.run_at(A, LunAddress::ReportLuns, cdb, &[], 96);
    assert_eq!(at(&[0x12, 0, 0, 0, 96, 0]).good()[0], 0x1e);
    at(&[0; 6]).good();
    assert_eq!(at(&[3, 0, 0, 0, 18, 0]).good()[2], 0);
    at(&ten(0x28, 0, 0, 1)).bad(5, 0x2000);
    at(&[0xff; 6]).bad(5, 0x2000);
    let luns = at(&[0xa0, 0, 2, 0, 0, 0, 0, 0, 0, 96, 0, 0]).good();
    assert_eq!(luns[..16], [0, 0, 0, 16, 0, 0, 0, 0, 0xc1, 1, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn report_luns_names_every_unit() {
    let mut world = World::new(config());
    for (lun, name) in [(255, "x"), (256, "y"), (0x3fff, "z")] {
        let unit = LunConfig::new(name, u64::from(lun), 8);
        world.add(number(lun), unit);
    }
    let report = |select| [0xa0, 0, select, 0, 0, 0, 0, 0, 1, 0, 0, 0];
    let luns = world.run(A, &report(0), &[], 256).good();
    let fields: Vec<[u8; 2]> = luns[8..].chunks(8).map(|lun| [lun[0], lun[1]]).collect();
    assert_eq!(fields, [[0, 0], [0, 255], [0x41, 0], [0x7f, 0xff]]);
    for (lun, field) in luns[8..].chunks(8).zip([0, 255, 256, 0x3fff]) {
        let expected = LunAddress::Unit(number(field));
        assert_eq!(LunAddress::parse(*lun.first_chunk().unwrap()), expected);
    }
    assert_eq!(world.run(A, &report(0x11), &[], 256).good(), [0; 8]);
    world.run(A, &report(3), &[], 256).bad_field(2);
    // The allocation length cuts without an error.
    let cut = [0xa0, 0, 0, 0, 0, 0, 0, 0, 0, 20, 0, 0];
    let outcome = world.run(A, &cut, &[], 256);
    assert_eq!((outcome.data.len(), outcome.residual), (20, Residual::Underflow(236)));
}

#[test]
fn addresses_of_other_methods_name_nothing() {
    let fields = [
        [0, 0, 0, 1, 0, 0, 0, 0],
        [1, 0, 0, 0, 0, 0, 0, 0],
        [0x80, 0, 0, 0, 0, 0, 0, 0],
        [0xc1, 2, 0, 0, 0, 0, 0, 0],
        [0x40, 0, 0, 0, 0, 0, 0, 1],
    ];
    for field in fields {
        assert_eq!(LunAddress::parse(field), LunAddress::Unknown);
    }
    let zero = LunAddress::Unit(LUN);
    assert_eq!(LunAddress::parse([0x40, 0, 0, 0, 0, 0, 0, 0]), zero);
}

#[test]
fn unit_attentions_wait_for_each_nexus() {
    let mut world = World::new(config());
    world.target.resize_lun(LUN, 1024).unwrap();
    world.target.set_read_only(LUN, true).unwrap();
    // INQUIRY and REPORT LUNS leave them, REQUEST SENSE takes one, so does an unknown command.
    world.run(A, &[0x12, 0, 0, 0, 36, 0], &[], 36).good();
    world.run(A, &[0xa0, 0, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0], &[], 16).good();
    let sense = world.run(A, &[3, 0, 0, 0, 18, 0], &[], 18).good();
    assert_eq!((sense[2], sense[12], sense[13]), (6, 0x2a, 0x09));
    world.run(A, &[0xff; 16], &[], 0).bad(6, 0x2a01);
    world.run(A, &[0; 6], &[], 0).good();
    world.run(B, &ten(0x28, 0, 0, 1), &[], 512).bad(6, 0x2a09);
    world.run(B, &ten(0x28, 0, 0, 1), &[], 512).bad(6, 0x2a01);
    world.run(B, &ten(0x28, 0, 0, 1), &[], 512).good();
    world.run(B, &ten(0x28, 0, 1024, 1), &[], 512).bad(5, 0x2100);
    // The same size and state again are no change.
    world.target.resize_lun(LUN, 1024).unwrap();
    world.target.set_read_only(LUN, true).unwrap();
    world.run(A, &[0; 6], &[], 0).good();
    // A reset replaces what waits.
    world.target.resize_lun(LUN, 2048).unwrap();
    world.target.reset_lun(LUN).unwrap();
    world.target.commands_cleared(LUN, B);
    world.run(A, &[0; 6], &[], 0).bad(6, 0x2903);
    world.run(A, &[0; 6], &[], 0).good();
    world.run(B, &[0; 6], &[], 0).bad(6, 0x2903);
    world.run(B, &[0; 6], &[], 0).bad(6, 0x2f00);
    world.run(B, &[0; 6], &[], 0).good();
}

#[test]
fn units_that_come_and_go_are_told() {
    let mut world = World::new(config());
    world.add(number(1), LunConfig::new("x", 1, 8));
    world.run(A, &[0; 6], &[], 0).bad(6, 0x3f0e);
    world.run(A, &[0; 6], &[], 0).good();
    // REPORT LUNS takes the condition away.
    world.run(B, &[0xa0, 0, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0], &[], 16).good();
    world.run(B, &[0; 6], &[], 0).good();
    let other = LunAddress::Unit(number(1));
    world.run_at(A, other, &[0; 6], &[], 0).bad(6, 0x2900);
    world.target.remove_lun(number(1)).unwrap();
    world.run(A, &[0; 6], &[], 0).bad(6, 0x3f0e);
    world.run_at(A, other, &[0; 6], &[], 0).bad(5, 0x2500);
}

#[test]
fn sense_data_follows_d_sense() {
    let mut world = World::new(config());
    let mut page = vec![0, 0, 0, 0];
    let control = world.run(A, &[0x1a, 8, 0x0a, 0, 255, 0], &[], 255).good();
    page.extend(&control[4..]);
    page[4 + 2] |= 0x04;
    world.run(A, &[0x15, 0x10, 0, 0, page.len() as u8, 0], &page, 0).good();
    let bad = world.run(A, &sixteen(0x88, 0, 1 << 40, 1), &[], 512).bad(5, 0x2100);
    assert_eq!(bad.raw[..8], [0x72, 5, 0x21, 0, 0, 0, 0, 12]);
    assert_eq!(bad.raw[8..], [0, 10, 0x80, 0, 0, 0, 1, 0, 0, 0, 0, 0]);
    world.run(B, &[0; 6], &[], 0).bad(6, 0x2a01);
}

#[test]
fn no_transfer_counts_as_residual() {
    let mut world = World::new(config());
    let bad = world.run(A, &ten(0x28, 0, 5000, 1), &[], 512).bad(5, 0x2100);
    assert_eq!((bad.residual, bad.information()), (Residual::Underflow(512), 5000));
    assert_eq!(world.run(A, &[0; 6], &[1; 7], 0).residual, Residual::Underflow(7));
}

#[test]
fn a_strange_nexus_is_the_shells_fault() {
    let mut world = World::new(config());
    let outcome = world.run(NexusId(99), &[0; 6], &[], 0);
    outcome.bad(4, 0x4400);
    for row in TABLE.iter().filter(|row| row.direction == Direction::Out) {
        // Data-out for a task that has not asked for it.
        let mut task = world.begin(A, &[0; 6], 0, 0);
        world.target.data_out(&mut task, bytes::Bytes::from_static(b"x"));
        assert_eq!(task.response().map(|response| response.status), Some(Status::Good), "{row:?}");
    }
    let mut task = world.begin(A, &ten(0x2a, 0, 0, 1), 512, 0);
    world.target.data_out(&mut task, bytes::Bytes::from_static(b"x"));
    assert_eq!(task.response().map(|response| response.status), Some(Status::CheckCondition));
}

#[test]
fn an_ordered_task_says_so() {
    let mut world = World::new(config());
    let command = |attribute| Command {
        nexus: A,
        lun: LunAddress::Unit(LUN),
        cdb: &[0x28, 0, 0, 0, 0, 0, 0, 0, 1, 0],
        expected_in: 512,
        expected_out: 0,
        attribute,
    };
    let task = world.target.begin(&command(TaskAttribute::Ordered));
    assert_eq!((task.access().barrier, task.access().lun), (Some(LUN), Some(LUN)));
    let task = world.target.begin(&command(TaskAttribute::Simple));
    assert_eq!(task.access().barrier, None);
}
