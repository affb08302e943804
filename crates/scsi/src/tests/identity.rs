//! INQUIRY, REPORT SUPPORTED OPERATION CODES, REPORT SUPPORTED TASK MANAGEMENT FUNCTIONS, REPORT
//! TARGET PORT GROUPS.

use super::world::{A, World, config};
use crate::table::TABLE;
use crate::{LunConfig, Provisioning, Residual};

fn inquiry(flags: u8, page: u8, length: u16) -> [u8; 6] {
    let [high, low] = length.to_be_bytes();
    [0x12, flags, page, high, low, 0]
}

#[test]
fn inquiry_is_cut_at_every_length() {
    let mut world = World::new(config());
    let whole = world.run(A, &inquiry(0, 0, 512), &[], 512).good();
    assert_eq!(whole.len(), 96);
    for length in 0..=260 {
        let outcome = world.run(A, &inquiry(0, 0, length), &[], length.into());
        let expected = usize::from(length).min(96);
        assert_eq!(outcome.residual, Residual::of(expected as u64, length.into()));
        assert_eq!(outcome.good(), whole[..expected]);
    }
    // The initiator takes less than it has asked for.
    let outcome = world.run(A, &inquiry(0, 0, 96), &[], 36);
    assert_eq!((outcome.data.len(), outcome.residual), (36, Residual::Overflow(60)));
}

#[test]
fn vital_pages_are_those_of_the_list() {
    let mut world = World::new(config());
    let pages = world.run(A, &inquiry(1, 0, 255), &[], 255).good();
    assert_eq!(pages, [0, 0, 0, 7, 0, 0x80, 0x83, 0x8f, 0xb0, 0xb1, 0xb2]);
    for page in &pages[4..] {
        assert_eq!(world.run(A, &inquiry(1, *page, 255), &[], 255).good()[1], *page);
    }
    world.run(A, &inquiry(1, 1, 255), &[], 255).bad_field(2);
    world.run(A, &inquiry(0, 1, 255), &[], 255).bad_field(2);
    let serial = world.run(A, &inquiry(1, 0x80, 255), &[], 255).good();
    assert_eq!(&serial[4..], b"serial-0");
}

fn opcodes(option: u8, opcode: u8, service: u16, length: u32) -> [u8; 12] {
    let [high, low] = service.to_be_bytes();
    let mut cdb = [0xa3, 0x0c, option, opcode, high, low, 0, 0, 0, 0, 0, 0];
    cdb[6..10].copy_from_slice(&length.to_be_bytes());
    cdb
}

#[test]
fn all_commands_are_reported() {
    let full = LunConfig { provisioning: Provisioning::Full, ..config() };
    for (unit, hidden) in [(config(), 0), (full, 1)] {
        let mut world = World::new(unit);
        for (timeouts, size) in [(0, 8), (0x80, 20)] {
            let data = world.run(A, &opcodes(timeouts, 0, 0, 65535), &[], 65535).good();
            let length = u32::from_be_bytes(*data.first_chunk().unwrap()) as usize;
            assert_eq!((length + 4, data.len()), (data.len(), 4 + size * (TABLE.len() - hidden)));
            for command in data[4..].chunks(size) {
                let (service, flags) = (command[3], command[5]);
                assert!(flags & 1 != 0 || service == 0);
                assert_eq!(flags & 2 != 0, timeouts != 0);
                if timeouts != 0 {
                    assert_eq!(command[8..10], [0, 10]);
                }
            }
        }
    }
}

#[test]
fn one_command_is_reported_as_the_table_says() {
    let mut world = World::new(config());
    for row in TABLE {
        let service = row.service.unwrap_or(0);
        let option = if row.service.is_some() { 2 } else { 1 };
        for option in [option, 3, option | 0x80] {
            let cdb = opcodes(option, row.opcode(), service.into(), 255);
            let data = world.run(A, &cdb, &[], 255).good();
            let timeouts = option & 0x80;
            assert_eq!(data[..4], [0, 3 | timeouts, 0, row.usage.len() as u8]);
            assert_eq!(data[4..4 + row.usage.len()], *row.usage);
            assert_eq!(data.len(), 4 + row.usage.len() + if timeouts == 0 { 0 } else { 12 });
        }
        world
            .run(A, &opcodes(3 - option, row.opcode(), service.into(), 255), &[], 255)
            .bad_field(2);
    }
    for (option, opcode, service) in [(1, 0xff, 0), (2, 0xff, 0), (2, 0x5e, 9), (3, 0x5e, 0x102)] {
        let data = world.run(A, &opcodes(option, opcode, service, 255), &[], 255).good();
        assert_eq!(data, [0, 1, 0, 0]);
    }
    world.run(A, &opcodes(4, 0, 0, 255), &[], 255).bad_field(2);
}

#[test]
fn a_command_that_a_unit_lacks_is_not_reported() {
    let mut world = World::new(LunConfig { provisioning: Provisioning::Full, ..config() });
    assert_eq!(world.run(A, &opcodes(1, 0x42, 0, 255), &[], 255).good(), [0, 1, 0, 0]);
}

#[test]
fn task_management_is_reported() {
    let mut world = World::new(config());
    let cdb = |flags, length| [0xa3, 0x0d, flags, 0, 0, 0, 0, 0, 0, length, 0, 0];
    assert_eq!(world.run(A, &cdb(0, 4), &[], 4).good(), [0xda, 0, 0, 0]);
    let extended = world.run(A, &cdb(0x80, 16), &[], 16).good();
    assert_eq!((extended.len(), &extended[..4]), (16, &[0xda, 0, 0, 12][..]));
    world.run(A, &cdb(0, 3), &[], 3).bad_field(6);
}

#[test]
fn the_port_group_has_all_ports() {
    let mut world = World::new(config());
    let cdb = |flags: u8, length: u8| [0xa3, 0x0a | flags, 0, 0, 0, 0, 0, 0, 0, length, 0, 0];
    let group = [0, 1, 0, 1, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2];
    let data = world.run(A, &cdb(0, 255), &[], 255).good();
    assert_eq!((&data[..4], &data[4..]), (&[0, 0, 0, 16][..], &group[..]));
    let data = world.run(A, &cdb(0x20, 255), &[], 255).good();
    assert_eq!((&data[..8], &data[8..]), (&[0, 0, 0, 20, 0x10, 0, 0, 0][..], &group[..]));
    world.run(A, &cdb(0x40, 255), &[], 255).bad(5, 0x2400);
}
