//! The table alone; the service actions are tested with their commands.

use super::*;

fn who(name: &str, target_port: u16) -> Registrant {
    let port = InitiatorPort::new(name, [1, 2, 3, 4, 5, 6]).unwrap();
    Registrant { port, target_port }
}

fn sample(kind: ReservationType) -> Registry {
    let mut registry = Registry { generation: 7, kept: true, ..Registry::default() };
    assert!(registry.enter(&who("iqn.a", 1), 10));
    assert!(registry.enter(&who("iqn.b", 2), 20));
    let holder = (!kind.is_all()).then(|| who("iqn.b", 2));
    registry.reservation = Some(Reservation { kind, holder });
    registry
}

const KINDS: [ReservationType; 6] = [
    ReservationType::WriteExclusive,
    ReservationType::ExclusiveAccess,
    ReservationType::WriteExclusiveRegistrants,
    ReservationType::ExclusiveAccessRegistrants,
    ReservationType::WriteExclusiveAll,
    ReservationType::ExclusiveAccessAll,
];

#[test]
fn the_stored_form_comes_back_and_damage_is_seen() {
    for kind in KINDS {
        let registry = sample(kind);
        let stored = registry.save().unwrap();
        assert_eq!(Registry::load(&stored), Some(registry));
        for end in 0..stored.len() {
            assert_eq!(Registry::load(&stored[..end]), None, "{end}");
        }
        let longer = [&stored[..], &[0]].concat();
        assert_eq!(Registry::load(&longer), None);
    }
    assert_eq!(Registry { kept: false, ..sample(KINDS[0]) }.save(), None);
}

#[test]
fn who_may_read_and_write() {
    let (a, b, c) = (who("iqn.a", 1), who("iqn.b", 2), who("iqn.c", 1));
    // For the registered a, the holder b, the stranger c: may read, may write.
    let expected = [
        [(true, false), (true, true), (true, false)],
        [(false, false), (true, true), (false, false)],
        [(true, true), (true, true), (true, false)],
        [(true, true), (true, true), (false, false)],
        [(true, true), (true, true), (true, false)],
        [(true, true), (true, true), (false, false)],
    ];
    for (kind, row) in KINDS.into_iter().zip(expected) {
        let registry = sample(kind);
        for (nexus, (reads, writes)) in [&a, &b, &c].into_iter().zip(row) {
            assert_eq!(registry.admits(nexus, true), reads, "{kind:?} {nexus:?}");
            assert_eq!(registry.admits(nexus, false), writes, "{kind:?} {nexus:?}");
        }
        let free = Registry { reservation: None, ..registry };
        assert!(free.admits(&c, false));
    }
}

#[test]
fn a_reservation_ends_with_its_last_holder() {
    let mut registry = sample(ReservationType::ExclusiveAccess);
    assert_eq!(registry.remove(&who("iqn.a", 1)), None);
    assert_eq!(registry.remove(&who("iqn.b", 2)), Some(ReservationType::ExclusiveAccess));
    let mut registry = sample(ReservationType::WriteExclusiveAll);
    assert_eq!(registry.remove(&who("iqn.b", 2)), None);
    assert_eq!(registry.remove(&who("iqn.a", 1)), Some(ReservationType::WriteExclusiveAll));
    assert_eq!(registry.reservation, None);
}

#[test]
fn the_table_is_bounded() {
    let mut registry = Registry::default();
    for number in 0..MOST {
        assert!(registry.enter(&who(&format!("iqn.{number}"), 1), 1));
    }
    assert!(!registry.enter(&who("iqn.more", 1), 1));
    assert!(registry.enter(&who("iqn.0", 1), 2));
}
