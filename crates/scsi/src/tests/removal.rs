//! START STOP UNIT, PREVENT ALLOW MEDIUM REMOVAL.

use super::world::{A, B, LUN, World, config, ten};
use crate::{Effect, LunConfig, MediumError, MediumOperation, TargetError};

const EJECT: [u8; 6] = [0x1b, 0, 0, 0, 2, 0];
const LOAD: [u8; 6] = [0x1b, 1, 0, 0, 3, 0];
const PREVENT: [u8; 6] = [0x1e, 0, 0, 0, 1, 0];
const ALLOW: [u8; 6] = [0x1e, 0, 0, 0, 0, 0];

fn removable() -> World {
    World::new(LunConfig { removable: true, ..config() })
}

#[test]
fn a_medium_is_ejected_and_loaded() {
    let mut world = removable();
    let outcome = world.run(A, &EJECT, &[], 0);
    assert_eq!(outcome.effects, [Effect::Ejected(LUN)]);
    outcome.good();
    assert_eq!(world.operations, [MediumOperation::Flush]);
    // Ejecting again changes nothing.
    assert_eq!(world.run(A, &EJECT, &[], 0).effects, []);
    for cdb in [
        [0; 10],
        ten(0x28, 0, 0, 1),
        ten(0x2a, 0, 0, 1),
        ten(0x25, 0, 0, 0),
        ten(0x2f, 0, 0, 1),
        ten(0x34, 0, 0, 1),
        ten(0x35, 0, 0, 1),
        ten(0x41, 0, 0, 1),
        ten(0x42, 0, 0, 24),
    ] {
        world.run(A, &cdb, &[0; 512], 512).bad(2, 0x3a00);
    }
    let sense = world.run(A, &[3, 0, 0, 0, 18, 0], &[], 18).good();
    assert_eq!((sense[2], sense[12]), (2, 0x3a));
    let outcome = world.run(A, &LOAD, &[], 0);
    assert_eq!(outcome.effects, [Effect::Loaded(LUN)]);
    outcome.good();
    world.run(A, &[0; 6], &[], 0).good();
    world.run(B, &[0; 6], &[], 0).bad(6, 0x2800);
}

#[test]
fn stopping_and_power_conditions_change_nothing() {
    let mut world = removable();
    for byte in [0, 1, 4, 5, 0x10, 0x22, 0xf0, 0xf3] {
        let outcome = world.run(A, &[0x1b, 0, 0, 0, byte, 0], &[], 0);
        assert_eq!(outcome.effects, []);
        outcome.good();
        world.run(A, &[0; 6], &[], 0).good();
    }
    // Only stopping without NO_FLUSH flushes.
    assert_eq!(world.operations, [MediumOperation::Flush]);
    world.fail = Some(MediumError::Flush);
    world.run(A, &EJECT, &[], 0).bad(3, 0x0c00);
    world.run(A, &[0; 6], &[], 0).good();
    let mut world = World::new(config());
    world.run(A, &EJECT, &[], 0).bad_field(4);
    world.run(A, &LOAD, &[], 0).bad_field(4);
}

#[test]
fn any_nexus_can_prevent_removal() {
    let mut world = removable();
    world.run(A, &PREVENT, &[], 0).good();
    world.run(A, &EJECT, &[], 0).bad(5, 0x5302);
    world.run(B, &EJECT, &[], 0).bad(5, 0x5302);
    world.run(B, &ALLOW, &[], 0).good();
    world.run(B, &EJECT, &[], 0).bad(5, 0x5302);
    world.run(A, &ALLOW, &[], 0).good();
    world.run(B, &EJECT, &[], 0).good();
    // Loading is removal's other half.
    world.run(A, &PREVENT, &[], 0).good();
    world.run(A, &LOAD, &[], 0).bad(5, 0x5302);
    world.run(A, &[0x1e, 0, 0, 0, 2, 0], &[], 0).bad_field(4);
    world.run(A, &ALLOW, &[], 0).good();
    world.run(A, &LOAD, &[], 0).good();
}

#[test]
fn prevention_ends_with_its_nexus_and_with_a_reset() {
    let mut world = removable();
    world.run(A, &PREVENT, &[], 0).good();
    world.target.remove_nexus(A);
    world.run(B, &EJECT, &[], 0).good();
    let mut world = removable();
    world.run(A, &PREVENT, &[], 0).good();
    world.target.reset_target();
    world.run(A, &[0; 6], &[], 0).bad(6, 0x2903);
    world.run(A, &EJECT, &[], 0).good();
}

#[test]
fn prevention_during_the_flush_keeps_the_medium() {
    let mut world = removable();
    let mut task = world.begin(A, &EJECT, 0, 0);
    world.run(B, &PREVENT, &[], 0).good();
    let step = task.step().clone();
    world.answer(&mut task, &step, &[], &mut Vec::new());
    assert_eq!(task.response().unwrap().sense[12], 0x53);
    world.run(A, &[0; 6], &[], 0).good();
}

#[test]
fn the_operator_asks_nobody() {
    let mut world = removable();
    world.run(A, &PREVENT, &[], 0).good();
    world.target.set_medium(LUN, false).unwrap();
    world.run(A, &[0; 6], &[], 0).bad(2, 0x3a00);
    world.target.set_medium(LUN, true).unwrap();
    world.run(A, &[0; 6], &[], 0).bad(6, 0x2800);
    world.run(A, &[0; 6], &[], 0).good();
    let mut world = World::new(config());
    assert_eq!(world.target.set_medium(LUN, false), Err(TargetError::NotRemovable));
}
