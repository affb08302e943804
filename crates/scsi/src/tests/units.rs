//! Units, nexuses, and the configuration.

use super::world::{A, B, LUN, World, config, port};
use crate::{
    BlockSize, InitiatorPort, LunConfig, LunNumber, NexusId, Provisioning, Target, TargetConfig,
    TargetError,
};

fn target(change: impl FnOnce(&mut TargetConfig)) -> Result<Target, TargetError> {
    let mut config = TargetConfig {
        name: "iqn.t".to_owned(),
        vendor: "V".to_owned(),
        revision: "1".to_owned(),
        port_group: 1,
        ports: vec![1],
        most_nexuses: 1,
        most_luns: 1,
    };
    change(&mut config);
    Target::new(config)
}

#[test]
fn a_targets_configuration_is_checked() {
    assert!(target(|_| ()).is_ok());
    let bad: [fn(&mut TargetConfig); 6] = [
        |config| config.name.clear(),
        |config| config.name = "n".repeat(224),
        |config| config.ports.clear(),
        |config| config.ports = vec![0],
        |config| config.ports = vec![1, 2, 1],
        |config| config.ports = (1..=33).collect(),
    ];
    for change in bad {
        assert!(matches!(target(change), Err(TargetError::OutOfRange(_))));
    }
}

#[test]
fn a_units_configuration_is_checked() {
    let mut target = target(|_| ()).unwrap();
    let bad: [fn(&mut LunConfig); 9] = [
        |config| config.serial.clear(),
        |config| config.serial = "s".repeat(33),
        |config| config.serial = "a b".to_owned(),
        |config| config.blocks = 0,
        |config| config.blocks = LunConfig::MOST_BLOCKS + 1,
        |config| config.physical_exponent = 16,
        |config| config.most_transfer = 0,
        |config| config.provisioning = Provisioning::Thin { granularity: 3, anchor: false },
        |config| config.reservations = Some(bytes::Bytes::from_static(b"x")),
    ];
    for change in bad {
        let mut config = config();
        change(&mut config);
        assert!(target.add_lun(LUN, config).is_err());
    }
    let most =
        LunConfig { blocks: LunConfig::MOST_BLOCKS, block_size: BlockSize::B4096, ..config() };
    target.add_lun(LUN, most).unwrap();
    assert_eq!(target.add_lun(LUN, config()), Err(TargetError::LunInUse));
    let next = LunNumber::new(1).unwrap();
    assert_eq!(target.add_lun(next, config()), Err(TargetError::NoRoomForLun));
    assert_eq!(target.remove_lun(next), Err(TargetError::NoSuchLun));
    assert_eq!(target.reset_lun(next), Err(TargetError::NoSuchLun));
    assert_eq!(target.resize_lun(next, 1), Err(TargetError::NoSuchLun));
    let zero = target.resize_lun(LUN, 0);
    assert!(matches!(zero, Err(TargetError::OutOfRange(_))));
    assert_eq!(LunNumber::new(0x4000), None);
}

#[test]
fn identifiers_are_unique() {
    let mut world = World::new(config());
    let next = LunNumber::new(1).unwrap();
    // The four highest bits do not count.
    let same = LunConfig { identifier: config().identifier | 5 << 60, ..config() };
    assert_eq!(world.target.add_lun(next, same), Err(TargetError::IdentifierInUse));
    assert_eq!(world.target.luns().collect::<Vec<_>>(), [LUN]);
}

#[test]
fn another_product_is_told() {
    let mut world = World::new(config());
    world.target.set_product(LUN, "other").unwrap();
    world.run(A, &[0; 6], &[], 0).bad(6, 0x3f03);
    let data = world.run(A, &[0x12, 0, 0, 0, 36, 0], &[], 36).good();
    assert_eq!(&data[16..32], b"other           ");
    world.target.set_product(LUN, "other").unwrap();
    world.run(A, &[0; 6], &[], 0).good();
    let none = LunNumber::new(9).unwrap();
    assert_eq!(world.target.set_product(none, "x"), Err(TargetError::NoSuchLun));
}

#[test]
fn nexuses_are_bounded_and_checked() {
    let mut target = target(|_| ()).unwrap();
    assert_eq!(target.add_nexus(A, port("iqn.a"), 2), Err(TargetError::NoSuchPort));
    target.add_nexus(A, port("iqn.a"), 1).unwrap();
    assert_eq!(target.add_nexus(A, port("iqn.a"), 1), Err(TargetError::NexusInUse));
    let next = target.add_nexus(NexusId(2), port("iqn.b"), 1);
    assert_eq!(next, Err(TargetError::NoRoomForNexus));
    target.remove_nexus(A);
    target.add_nexus(NexusId(2), port("iqn.b"), 1).unwrap();
    for name in ["", "a,b", "a\0b", &"n".repeat(224)] {
        assert_eq!(InitiatorPort::new(name, [0; 6]), None);
    }
}

#[test]
fn a_unit_that_goes_ends_its_tasks() {
    let mut world = World::new(config());
    let mut task = world.begin(A, &[0x41, 0, 0, 0, 0, 0, 0, 0, 1, 0], 512, 0);
    world.target.remove_lun(LUN).unwrap();
    world.target.data_out(&mut task, vec![1; 512].into());
    let response = task.response().unwrap();
    assert_eq!(response.sense[12], 0x25);
}

/// What was meant for a unit is not done at another one that has its number now.
#[test]
fn another_unit_under_the_same_number_has_to_be_asked_for() {
    for page in [0x83, 0x80] {
        let mut world = World::new(config());
        let write = |world: &mut World, nexus| {
            world.run(nexus, &[0x2a, 0, 0, 0, 0, 0, 0, 0, 1, 0], &[7; 512], 0)
        };
        write(&mut world, A).good();
        world.target.remove_lun(LUN).unwrap();
        write(&mut world, A).bad(5, 0x2500);
        let other = LunConfig { identifier: 99, serial: "other".to_owned(), ..config() };
        world.add(LUN, other);
        for nexus in [A, B] {
            // Commands that were on their way together.
            write(&mut world, nexus).bad(6, 0x2900);
            write(&mut world, nexus).bad(6, 0x3f0e);
            for _ in 0..3 {
                write(&mut world, nexus).bad(5, 0x2500);
            }
            world.run(nexus, &[0x28, 0, 0, 0, 0, 0, 0, 0, 1, 0], &[], 512).bad(5, 0x2500);
            world.run(nexus, &[0x12, 0, 0, 0, 36, 0], &[], 36).good();
            write(&mut world, nexus).bad(5, 0x2500);
        }
        assert_eq!(world.disks[&LUN].bytes[..512], [0; 512], "nothing is written");
        world.run(A, &[0x12, 1, page, 0, 255, 0], &[], 255).good();
        write(&mut world, A).good();
        write(&mut world, B).bad(5, 0x2500);
    }
}

#[test]
fn the_same_unit_may_come_back() {
    let mut world = World::new(config());
    world.target.remove_lun(LUN).unwrap();
    world.add(LUN, config());
    world.run(A, &[0; 6], &[], 0).bad(6, 0x2900);
    world.run(A, &[0; 6], &[], 0).good();
}

#[test]
fn a_nexus_that_knew_no_other_unit_need_not_ask() {
    let mut world = World::new(config());
    world.target.remove_lun(LUN).unwrap();
    let other = LunConfig { identifier: 99, serial: "other".to_owned(), ..config() };
    world.target.remove_nexus(A);
    world.target.add_nexus(A, port("iqn.a"), 1).unwrap();
    world.add(LUN, other);
    world.run(A, &[0; 6], &[], 0).bad(6, 0x2900);
    world.run(A, &[0; 6], &[], 0).good();
    world.run(B, &[0; 6], &[], 0).bad(6, 0x2900);
    world.run(B, &[0; 6], &[], 0).bad(6, 0x3f0e);
    world.run(B, &[0; 6], &[], 0).bad(5, 0x2500);
}
