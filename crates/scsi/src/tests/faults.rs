//! Media that fail, shells that contradict, and the locks.

use std::collections::BTreeSet;

use bytes::Bytes;
use proptest::prelude::*;

use super::world::{A, LUN, World, config, sixteen, ten};
use crate::{
    Access, ByteRange, Claim, Hold, LunNumber, MediumError, MediumOutput, RangeLocks, Residual,
    Start, Status, Step,
};

#[test]
fn each_error_of_a_medium_has_its_sense_data() {
    let cases = [
        (MediumError::Read(1025), 3, 0x1100, Some(2)),
        (MediumError::Write(1 << 40), 3, 0x0c00, Some(1 << 31)),
        (MediumError::Flush, 3, 0x0c00, None),
        (MediumError::NoSpace, 7, 0x2707, None),
        (MediumError::Gone, 2, 0x0403, None),
        (MediumError::ReadOnly, 7, 0x2700, None),
    ];
    for (error, key, code, information) in cases {
        for cdb in [
            ten(0x28, 0, 0, 8).to_vec(),
            ten(0x2a, 0, 0, 8).to_vec(),
            ten(0x2f, 2, 0, 8).to_vec(),
            ten(0x41, 0, 0, 8).to_vec(),
            sixteen(0x8b, 0, 0, 8).to_vec(),
            sixteen(0x89, 0, 0, 4).to_vec(),
            ten(0x35, 0, 0, 8).to_vec(),
        ] {
            let mut world = World::new(config());
            world.fail = Some(error);
            let length = if cdb[0] == 0x41 { 512 } else { 4096 };
            let bad = world.run(A, &cdb, &vec![0; length], 4096).bad(key, code);
            assert!(matches!(bad.residual, Residual::Underflow(_)));
            let found = (bad.raw[0] & 0x80 != 0).then(|| bad.information());
            assert_eq!(found, information, "{error}");
        }
    }
}

#[test]
fn answers_that_nobody_asked_for_end_the_task() {
    let outputs = [
        MediumOutput::Done,
        MediumOutput::Bytes(Bytes::from_static(b"x")),
        MediumOutput::Bytes(Bytes::from(vec![0; 512])),
        MediumOutput::Extents(Vec::new()),
    ];
    // READ wants 0, VERIFY and COMPARE AND WRITE want 2, GET LBA STATUS wants 3.
    let cases = [
        (ten(0x28, 0, 0, 1).to_vec(), 0, 0),
        (ten(0x2f, 2, 0, 1).to_vec(), 512, 2),
        (sixteen(0x89, 0, 0, 1).to_vec(), 1024, 2),
        (sixteen(0x9e, 0x12, 0, 24).to_vec(), 0, 3),
    ];
    for (cdb, length, wanted) in cases {
        for (number, output) in outputs.iter().enumerate() {
            let mut world = World::new(config());
            let mut task = world.begin(A, &cdb, length, 512);
            if let Step::DataOut { len, .. } = task.step() {
                let bytes = vec![0; *len as usize];
                world.target.data_out(&mut task, bytes.into());
            }
            world.target.medium_done(&mut task, Ok(output.clone()));
            let failed = task.response().is_some_and(|response| response.sense.get(2) == Some(&4));
            assert_eq!(failed, number != wanted, "{cdb:x?} {number}");
        }
        let mut world = World::new(config());
        let mut task = world.begin(A, &cdb, length, 512);
        world.target.stored(&mut task, true);
        assert_eq!(task.response().unwrap().status, Status::CheckCondition);
        let end = task.response().cloned();
        world.target.medium_done(&mut task, Ok(MediumOutput::Done));
        world.target.stored(&mut task, true);
        world.target.data_out(&mut task, Bytes::new());
        assert_eq!(task.response().cloned(), end);
    }
}

fn access(offset: u64, len: u64, hold: Hold) -> Access {
    let claim = Claim { lun: Some(LUN), range: ByteRange { offset, len }, hold };
    Access { claims: vec![claim], barrier: None, lun: Some(LUN) }
}

#[test]
fn exclusive_ranges_exclude_what_overlaps() {
    let mut locks = RangeLocks::new(8);
    assert_eq!(locks.start(1, &access(0, 10, Hold::Shared)), Start::Now);
    assert_eq!(locks.start(2, &access(5, 10, Hold::Shared)), Start::Now);
    assert_eq!(locks.start(3, &access(14, 2, Hold::Exclusive)), Start::Later);
    assert_eq!(locks.start(4, &access(15, 1, Hold::Shared)), Start::Later);
    assert_eq!(locks.start(5, &access(16, 1, Hold::Shared)), Start::Now);
    assert_eq!(locks.start(5, &access(16, 1, Hold::Shared)), Start::Known);
    assert_eq!(locks.finish(1), []);
    assert_eq!(locks.finish(2), [3]);
    assert_eq!(locks.finish(3), [4]);
    assert_eq!(locks.finish(3), []);
    // Another unit's bytes are others.
    let mut other = access(0, 100, Hold::Exclusive);
    other.claims[0].lun = LunNumber::new(1);
    assert_eq!(locks.start(6, &other), Start::Now);
    // A claim of all units waits for all.
    other.claims[0].lun = None;
    assert_eq!(locks.start(7, &other), Start::Later);
    locks.finish(6);
    locks.finish(4);
    assert_eq!(locks.finish(5), [7]);
    assert_eq!(locks.start(8, &access(0, 1, Hold::Shared)), Start::Later);
    // It knows now that it needs less.
    assert_eq!(locks.narrow(7, &access(50, 1, Hold::Exclusive)), [8]);
    assert_eq!(locks.narrow(99, &Access::default()), []);
}

#[test]
fn an_ordered_task_is_a_barrier() {
    let mut locks = RangeLocks::new(4);
    let ordered = Access { claims: Vec::new(), barrier: Some(LUN), lun: Some(LUN) };
    assert_eq!(locks.start(1, &access(0, 1, Hold::Shared)), Start::Now);
    assert_eq!(locks.start(2, &ordered), Start::Later);
    assert_eq!(locks.start(3, &access(9, 1, Hold::Shared)), Start::Later);
    let other = Access { lun: LunNumber::new(1), ..Access::default() };
    assert_eq!(locks.start(4, &other), Start::Now);
    assert_eq!(locks.start(5, &other), Start::Full);
    assert_eq!(locks.len(), 4);
    // A task that waits can be aborted.
    assert_eq!(locks.finish(2), [3]);
    assert_eq!(locks.finish(1), []);
    locks.finish(3);
    locks.finish(4);
    assert!(locks.is_empty());
}

#[derive(Clone, Debug)]
enum LockAction {
    Start(u8, u8, bool, bool),
    Finish(usize),
}

fn lock_actions() -> impl Strategy<Value = Vec<LockAction>> {
    let start = (0..20_u8, 1..6_u8, any::<bool>(), proptest::bool::weighted(0.1));
    let start = start.prop_map(|(a, b, c, d)| LockAction::Start(a, b, c, d));
    let finish = any::<usize>().prop_map(LockAction::Finish);
    proptest::collection::vec(prop_oneof![start, finish], 1..80)
}

proptest! {
    /// No two tasks that exclude each other run together, a task that waits has an earlier one to
    /// wait for, and all come to run.
    #[test]
    fn locks_exclude_and_let_go(actions in lock_actions()) {
        let mut locks = RangeLocks::new(16);
        let mut tasks: Vec<(u64, Access, bool)> = Vec::new();
        let conflict = |a: &Access, b: &Access| {
            let (x, y) = (&a.claims[0], &b.claims[0]);
            a.barrier.is_some() || b.barrier.is_some() || ((x.hold == Hold::Exclusive
                || y.hold == Hold::Exclusive) && x.range.overlaps(y.range))
        };
        let finish = |tasks: &mut Vec<(u64, Access, bool)>, locks: &mut RangeLocks, at: usize| {
            let (key, _, _) = tasks.remove(at);
            let woken: BTreeSet<u64> = locks.finish(key).into_iter().collect();
            for (key, _, runs) in tasks.iter_mut() {
                assert!(!(*runs && woken.contains(key)));
                *runs |= woken.contains(key);
            }
        };
        let mut next = 0;
        for action in actions {
            match action {
                LockAction::Start(offset, len, exclusive, ordered) => {
                    let hold = if exclusive { Hold::Exclusive } else { Hold::Shared };
                    let mut access = access(offset.into(), len.into(), hold);
                    access.barrier = ordered.then_some(LUN);
                    next += 1;
                    match locks.start(next, &access) {
                        Start::Full => prop_assert_eq!(tasks.len(), 16),
                        start => tasks.push((next, access, start == Start::Now)),
                    }
                }
                LockAction::Finish(at) if !tasks.is_empty() => {
                    let at = at % tasks.len();
                    finish(&mut tasks, &mut locks, at);
                }
                LockAction::Finish(_) => {}
            }
            for (at, (_, access, runs)) in tasks.iter().enumerate() {
                let blocked = tasks[..at].iter().any(|(_, earlier, _)| conflict(access, earlier));
                prop_assert_eq!(*runs, !blocked);
            }
        }
        while !tasks.is_empty() {
            prop_assert!(tasks[0].2);
            finish(&mut tasks, &mut locks, 0);
        }
        prop_assert!(locks.is_empty());
    }
}
