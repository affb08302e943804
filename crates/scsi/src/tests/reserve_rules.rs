//! PERSISTENT RESERVE IN and OUT.

use super::world::{A, B, LUN, Outcome, World, config, port, ten};
use crate::registry::MOST;
use crate::reserve::transport_id;
use crate::{Effect, LunConfig, NexusId, Step, StoredState};

pub(super) const KEY_A: u64 = 0xaaaa;
pub(super) const KEY_B: u64 = 0xbbbb;
/// A third nexus.
const C: NexusId = NexusId(3);

/// PERSISTENT RESERVE OUT with its own list.
pub(super) fn out(
    world: &mut World,
    nexus: NexusId,
    action: u8,
    kind: u8,
    key: u64,
    service_key: u64,
    flags: u8,
) -> Outcome {
    let mut list = [key.to_be_bytes(), service_key.to_be_bytes(), [0; 8]].concat();
    list[20] = flags;
    world.run(nexus, &[0x5f, action, kind, 0, 0, 0, 0, 0, 24, 0], &list, 0)
}

pub(super) fn register(world: &mut World, nexus: NexusId, old: u64, new: u64) -> Outcome {
    out(world, nexus, 0, 0, old, new, 0)
}

fn keys(world: &mut World) -> (u32, Vec<u64>) {
    let data = world.run(A, &ten(0x5e, 0, 0, 8192), &[], 8192).good();
    let keys = data[8..].chunks(8).map(|key| u64::from_be_bytes(*key.first_chunk().unwrap()));
    (u32::from_be_bytes(*data.first_chunk().unwrap()), keys.collect())
}

/// Key and type of the reservation.
fn reservation(world: &mut World) -> Option<(u64, u8)> {
    let data = world.run(A, &ten(0x5e, 1, 0, 255), &[], 255).good();
    match data.len() {
        8 => None,
        24 => Some((u64::from_be_bytes(*data[8..].first_chunk().unwrap()), data[21])),
        _ => panic!("{data:?}"),
    }
}

/// A world with both nexuses registered, that holds a reservation of a type for `A`.
fn reserved(kind: u8) -> World {
    let mut world = World::new(config());
    register(&mut world, A, 0, KEY_A).good();
    register(&mut world, B, 0, KEY_B).good();
    out(&mut world, A, 1, kind, KEY_A, 0, 0).good();
    world
}

const KINDS: [u8; 6] = [1, 3, 5, 6, 7, 8];

#[test]
fn registration() {
    let mut world = World::new(config());
    assert_eq!(keys(&mut world), (0, vec![]));
    register(&mut world, A, 1, KEY_A).conflict();
    // Nothing to unregister.
    register(&mut world, A, 0, 0).good();
    assert_eq!(keys(&mut world), (0, vec![]));
    register(&mut world, A, 0, KEY_A).good();
    register(&mut world, A, KEY_A + 1, 7).conflict();
    register(&mut world, A, 0, 7).conflict();
    assert_eq!(keys(&mut world), (1, vec![KEY_A]));
    register(&mut world, A, KEY_A, 7).good();
    // REGISTER AND IGNORE EXISTING KEY.
    out(&mut world, A, 6, 0, 99, KEY_A, 0).good();
    out(&mut world, B, 6, 0, 0, KEY_B, 0).good();
    assert_eq!(keys(&mut world), (4, vec![KEY_A, KEY_B]));
    register(&mut world, A, KEY_A, 0).good();
    out(&mut world, B, 6, 0, 0, 0, 0).good();
    assert_eq!(keys(&mut world), (6, vec![]));
}

#[test]
fn registration_at_all_ports() {
    let mut world = World::new(config());
    out(&mut world, A, 0, 0, 0, KEY_A, 0x04).good();
    assert_eq!(keys(&mut world).1, [KEY_A; 2]);
    world.target.add_nexus(C, port("iqn.a"), 2).unwrap();
    world.run(C, &[0; 6], &[], 0).bad(6, 0x2900);
    register(&mut world, C, 0, 5).conflict();
    register(&mut world, C, KEY_A, 5).good();
    assert_eq!(keys(&mut world).1, [KEY_A, 5]);
}

#[test]
fn reservations_of_every_type() {
    for kind in KINDS {
        let mut world = reserved(kind);
        let all = kind >= 7;
        assert_eq!(reservation(&mut world), Some((if all { 0 } else { KEY_A }, kind)));
        assert_eq!(keys(&mut world).0, 2, "RESERVE does not count");
        // The holder may say it again; another type or another nexus conflicts.
        out(&mut world, A, 1, kind, KEY_A, 0, 0).good();
        out(&mut world, A, 1, if kind == 1 { 3 } else { 1 }, KEY_A, 0, 0).conflict();
        let again = out(&mut world, B, 1, kind, KEY_B, 0, 0);
        if all {
            drop(again.good());
        } else {
            again.conflict();
        }
        out(&mut world, A, 1, kind, KEY_B, 0, 0).conflict();
        // RELEASE by a registrant that holds nothing changes nothing.
        if !all {
            out(&mut world, B, 2, kind, KEY_B, 0, 0).good();
            assert!(reservation(&mut world).is_some());
        }
        out(&mut world, A, 2, kind, KEY_B, 0, 0).conflict();
        out(&mut world, A, 2, if kind == 1 { 3 } else { 1 }, KEY_A, 0, 0).bad(5, 0x2604);
        out(&mut world, A, 2, kind, KEY_A, 0, 0).good();
        assert_eq!(reservation(&mut world), None);
        out(&mut world, A, 2, kind, KEY_A, 0, 0).good();
        let told = world.run(B, &[0; 6], &[], 0);
        if kind >= 5 {
            drop(told.bad(6, 0x2a04));
        } else {
            drop(told.good());
        }
        world.run(A, &[0; 6], &[], 0).good();
    }
}

#[test]
fn the_holder_that_unregisters_ends_the_reservation() {
    for kind in KINDS {
        let mut world = reserved(kind);
        register(&mut world, A, KEY_A, 0).good();
        let left = reservation(&mut world);
        let told = world.run(B, &[0; 6], &[], 0);
        match kind {
            // Another registrant still holds it.
            7 | 8 => {
                assert_eq!(left, Some((0, kind)));
                told.good();
                register(&mut world, B, KEY_B, 0).good();
                assert_eq!(reservation(&mut world), None);
            }
            5 | 6 => drop(told.bad(6, 0x2a04)),
            _ => drop(told.good()),
        }
        assert!(left.is_none() || kind >= 7);
    }
}

#[test]
fn clear_removes_all() {
    let mut world = reserved(3);
    out(&mut world, B, 3, 0, KEY_A, 0, 0).conflict();
    out(&mut world, B, 3, 0, KEY_B, 0, 0).good();
    world.run(A, &[0; 6], &[], 0).bad(6, 0x2a03);
    assert_eq!((keys(&mut world), reservation(&mut world)), ((3, vec![]), None));
}

#[test]
fn clear_is_told_to_the_others() {
    let mut world = reserved(3);
    out(&mut world, A, 3, 0, KEY_A, 0, 0).good();
    world.run(B, &[0; 6], &[], 0).bad(6, 0x2a03);
    world.run(A, &[0; 6], &[], 0).good();
}

#[test]
fn preempt_takes_the_holders_reservation() {
    for kind in [1, 3, 5, 6] {
        let mut world = reserved(kind);
        world.target.add_nexus(C, port("iqn.c"), 1).unwrap();
        world.run(C, &[0; 6], &[], 0).bad(6, 0x2900);
        register(&mut world, C, 0, 0xcc).good();
        out(&mut world, B, 4, 8, KEY_A, KEY_A, 0).conflict();
        out(&mut world, B, 4, 1, KEY_B, KEY_A, 0).good();
        world.run(A, &[0; 6], &[], 0).bad(6, 0x2a05);
        assert_eq!(keys(&mut world), (4, vec![KEY_B, 0xcc]));
        assert_eq!(reservation(&mut world), Some((KEY_B, 1)));
        // The type changed: the other registrants are told.
        let told = world.run(C, &[0; 6], &[], 0);
        if kind == 1 { drop(told.good()) } else { drop(told.bad(6, 0x2a04)) }
    }
}

#[test]
fn preempt_removes_registrations() {
    let mut world = reserved(1);
    out(&mut world, A, 4, 3, KEY_A, KEY_B, 0).good();
    assert_eq!(reservation(&mut world), Some((KEY_A, 1)));
    assert_eq!(keys(&mut world), (3, vec![KEY_A]));
    world.run(B, &[0; 6], &[], 0).bad(6, 0x2a05);
    out(&mut world, A, 4, 3, KEY_A, KEY_B, 0).conflict();
    out(&mut world, A, 4, 3, KEY_A, 0, 0).bad_list(8);
}

#[test]
fn preempt_of_all_registrants() {
    for kind in [7, 8] {
        let mut world = reserved(kind);
        // A key removes a registration; key 0 takes the reservation.
        out(&mut world, A, 4, 1, KEY_A, KEY_B, 0).good();
        assert_eq!(reservation(&mut world), Some((0, kind)));
        world.run(B, &[0; 6], &[], 0).bad(6, 0x2a05);
        register(&mut world, B, 0, KEY_B).good();
        out(&mut world, A, 4, 1, KEY_A, 0, 0).good();
        assert_eq!(reservation(&mut world), Some((KEY_A, 1)));
        assert_eq!(keys(&mut world).1, [KEY_A]);
    }
}

#[test]
fn preempt_and_abort_names_the_tasks() {
    let mut world = reserved(1);
    let outcome = out(&mut world, B, 5, 1, KEY_B, KEY_A, 0);
    assert_eq!(outcome.effects, [Effect::AbortTasks { nexus: A, lun: LUN }]);
    outcome.good();
    world.run(A, &[0; 6], &[], 0).bad(6, 0x2a05);
    register(&mut world, A, 0, KEY_A).good();
    // PREEMPT alone aborts nothing, and a nexus that has gone has no tasks.
    assert_eq!(out(&mut world, B, 4, 1, KEY_B, KEY_A, 0).effects, []);
    world.run(A, &[0; 6], &[], 0).bad(6, 0x2a05);
    register(&mut world, A, 0, KEY_A).good();
    world.target.remove_nexus(A);
    assert_eq!(out(&mut world, B, 5, 1, KEY_B, KEY_A, 0).effects, []);
}

/// REGISTER AND MOVE to a port.
fn move_to(world: &mut World, service_key: u64, flags: u8, target_port: u8, id: &[u8]) -> Outcome {
    let mut list = [KEY_A.to_be_bytes(), service_key.to_be_bytes()].concat();
    list.extend([0, flags, 0, target_port, 0, 0, 0, id.len() as u8]);
    list.extend(id);
    world.run(A, &[0x5f, 7, 0, 0, 0, 0, 0, 0, list.len() as u8, 0], &list, 0)
}

#[test]
fn register_and_move() {
    let id = transport_id::encode(&port("iqn.c"));
    let mut world = reserved(3);
    move_to(&mut world, 0, 0, 1, &id).bad_list(8);
    move_to(&mut world, 9, 0x80, 1, &id).bad_list(17);
    move_to(&mut world, 9, 0, 3, &id).bad_list(18);
    move_to(&mut world, 9, 0, 1, &id[..20]).bad_list(24);
    move_to(&mut world, 9, 0, 1, &transport_id::encode(&port("iqn.a"))).bad_list(24);
    move_to(&mut world, 9, 0, 2, &id).good();
    assert_eq!(keys(&mut world), (3, vec![KEY_A, KEY_B, 9]));
    assert_eq!(reservation(&mut world), Some((9, 3)));
    // The nexus holds nothing any more.
    move_to(&mut world, 9, 0, 2, &id).conflict();
    let mut world = reserved(3);
    move_to(&mut world, 9, 2, 1, &transport_id::encode(&port("iqn.b"))).good();
    assert_eq!(keys(&mut world).1, [9]);
    // The list says that there is more of it.
    let mut world = reserved(3);
    let mut list = [KEY_A.to_be_bytes(), KEY_B.to_be_bytes()].concat();
    list.extend([0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff]);
    world.run(A, &[0x5f, 7, 0, 0, 0, 0, 0, 0, 24, 0], &list, 0).bad(5, 0x1a00);
    move_to(&mut reserved(7), 9, 0, 1, &id).conflict();
}

#[test]
fn fields_of_the_command_and_the_list() {
    let mut world = reserved(1);
    for action in [1, 2, 4, 5] {
        for (scope_and_type, bit) in [(0x11, 7), (0x00, 3), (0x02, 3), (0x04, 3), (0x09, 3)] {
            let bad = out(&mut world, A, action, scope_and_type, KEY_A, 0, 0).bad(5, 0x2400);
            assert_eq!(bad.raw[15..18], [0xc8 | bit, 0, 2]);
        }
    }
    for flags in [0x08, 0x02, 0x80] {
        out(&mut world, A, 0, 0, KEY_A, KEY_A, flags).bad_list(20);
    }
    for length in [0_u8, 23, 25] {
        let list = vec![0; length.into()];
        let cdb = [0x5f, 0, 0, 0, 0, 0, 0, 0, length, 0];
        world.run(A, &cdb, &list, 0).bad(5, 0x1a00);
    }
    let large = [0x5f, 7, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0];
    world.run(A, &large, &[], 0).bad(5, 0x1a00);
    assert_eq!(keys(&mut world).0, 2);
}

#[test]
fn persistent_in_reports() {
    let mut world = reserved(6);
    let capabilities = world.run(A, &ten(0x5e, 2, 0, 255), &[], 255).good();
    assert_eq!(capabilities, [0, 8, 0x04, 0x80, 0xea, 0x01, 0, 0]);
    let status = world.run(A, &ten(0x5e, 3, 0, 8192), &[], 8192).good();
    let id = transport_id::encode(&port("iqn.a"));
    let first = [
        &KEY_A.to_be_bytes()[..],
        &[0, 0, 0, 0, 1, 6, 0, 0, 0, 0, 0, 1, 0, 0, 0, id.len() as u8],
        &id,
    ];
    let first = first.concat();
    assert_eq!(status[8..8 + first.len()], first);
    let second = &status[8 + first.len()..];
    assert_eq!((&second[..8], second[12]), (&KEY_B.to_be_bytes()[..], 0));
    // The length says how much there is, whatever fits.
    let cut = world.run(A, &ten(0x5e, 0, 0, 8), &[], 8).good();
    assert_eq!(cut, [0, 0, 0, 2, 0, 0, 0, 16]);
}

#[test]
fn registrations_are_bounded() {
    let mut world = World::new(config());
    for number in 0..MOST as u64 {
        world.target.add_nexus(C, port(&format!("iqn.{number}")), 1).unwrap();
        world.run(C, &[0; 6], &[], 0).bad(6, 0x2900);
        register(&mut world, C, 0, number + 1).good();
        world.target.remove_nexus(C);
    }
    register(&mut world, A, 0, KEY_A).bad(5, 0x5504);
    assert_eq!(keys(&mut world).1.len(), MOST);
}

/// A unit whose shell keeps its state.
fn keeps_state() -> LunConfig {
    LunConfig { keeps_state: true, ..config() }
}

/// Where nobody keeps the unit's state, nothing can survive a loss of power: the unit says so, and
/// registers nobody who asks for it (SPC-4 6.15.4, 6.16.3, 6.16.4).
#[test]
fn aptpl_needs_a_place_for_state() {
    let mut world = World::new(config());
    assert_eq!(world.run(A, &ten(0x5e, 2, 0, 8), &[], 8).good()[2] & 1, 0);
    for action in [0, 6] {
        out(&mut world, A, action, 0, 0, KEY_A, 1).bad_list(20);
    }
    assert_eq!(keys(&mut world), (0, vec![]));
    register(&mut world, A, 0, KEY_A).good();
    // Other service actions ignore the bit.
    out(&mut world, A, 1, 3, KEY_A, 0, 1).good();
    move_to(&mut world, 9, 1, 2, &transport_id::encode(&port("iqn.c"))).bad_list(17);
    assert_eq!(reservation(&mut world), Some((KEY_A, 3)));
    out(&mut world, A, 3, 0, KEY_A, 0, 1).good();
    assert_eq!(world.stored, []);
    let mut world = World::new(keeps_state());
    assert_eq!(world.run(A, &ten(0x5e, 2, 0, 8), &[], 8).good()[2] & 1, 1);
}

#[test]
fn aptpl_is_stored_before_the_answer_and_comes_back() {
    let mut world = World::new(keeps_state());
    out(&mut world, A, 0, 0, 0, KEY_A, 1).good();
    out(&mut world, A, 1, 3, KEY_A, 0, 0).good();
    let Some(StoredState::Reservations(Some(stored))) = world.stored.last().cloned() else {
        panic!("{:?}", world.stored);
    };
    assert_eq!(world.stored.len(), 2);
    let later = LunConfig { reservations: Some(stored), ..keeps_state() };
    let mut world = World::new(later);
    assert_eq!(reservation(&mut world), Some((KEY_A, 3)));
    world.run(B, &ten(0x28, 0, 0, 1), &[], 512).conflict();
    world.run(A, &ten(0x28, 0, 0, 1), &[], 512).good();
    assert_eq!(world.run(A, &ten(0x5e, 2, 0, 8), &[], 8).good()[3], 0x81);
    // Without APTPL nothing survives any more, and that is stored too.
    register(&mut world, A, KEY_A, 5).good();
    assert_eq!(world.stored, [StoredState::Reservations(None)]);
    register(&mut world, A, 5, 6).good();
    assert_eq!(world.stored.len(), 1);
}

#[test]
fn state_that_cannot_be_stored_is_no_good_end() {
    let mut world = World::new(keeps_state());
    let list = [[0; 8], KEY_A.to_be_bytes(), [0, 0, 0, 0, 1, 0, 0, 0]].concat();
    let mut task = world.begin(A, &[0x5f, 0, 0, 0, 0, 0, 0, 0, 24, 0], 24, 0);
    world.target.data_out(&mut task, list.into());
    assert!(matches!(task.step(), Step::Store { .. }));
    world.target.stored(&mut task, false);
    assert_eq!(task.response().unwrap().sense[2], 4);
}
