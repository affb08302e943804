use std::cell::Cell;
use std::rc::Rc;

use super::*;

const IN: u32 = libc::EPOLLIN.cast_unsigned();
const OUT: u32 = libc::EPOLLOUT.cast_unsigned();
const HUP: u32 = libc::EPOLLHUP.cast_unsigned();

#[derive(Clone)]
struct Fake(Rc<Cell<Readiness>>);

impl Fake {
    fn new(events: u32) -> Self {
        Self(Rc::new(Cell::new(Readiness { events, version: 1 })))
    }

    fn becomes(&self, events: u32) {
        let version = self.0.get().version + 1;
        self.0.set(Readiness { events, version });
    }
}

impl Source for Fake {
    fn readiness(&self) -> Readiness {
        self.0.get()
    }

    fn is(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }
}

fn interest(events: u32, data: u64) -> Interest {
    Interest { events, data }
}

fn collect(set: &mut Registrations<Fake>, room: usize) -> Vec<(u32, u64)> {
    let mut reports = Vec::new();
    let count = set.collect(room, |events, data| reports.push((events, data)));
    assert_eq!(count, reports.len());
    reports
}

#[test]
fn control_errors_are_linuxs() {
    let (mut set, a, b) = (Registrations::default(), Fake::new(0), Fake::new(0));
    assert_eq!(set.modify(3, &a, interest(IN, 0)), Err(Errno::NOENT));
    assert_eq!(set.delete(3, &a), Err(Errno::NOENT));
    assert_eq!(set.add(3, &a, interest(IN, 0)), Ok(()));
    assert_eq!(set.add(3, &a, interest(IN, 0)), Err(Errno::EXIST));
    // A duplicate of the descriptor, and another file under the same number, are other
    // registrations.
    assert_eq!(set.add(4, &a, interest(IN, 0)), Ok(()));
    assert_eq!(set.add(3, &b, interest(IN, 0)), Ok(()));
    assert_eq!(set.len(), 3);
    set.forget(&a);
    assert_eq!(set.len(), 1);
    assert_eq!(set.delete(3, &b), Ok(()));
}

#[test]
fn level_is_reported_as_long_as_it_lasts() {
    let (mut set, a) = (Registrations::default(), Fake::new(IN | OUT));
    set.add(3, &a, interest(IN, u64::MAX)).unwrap();
    assert_eq!(collect(&mut set, 8), [(IN, u64::MAX)]);
    assert_eq!(collect(&mut set, 8), [(IN, u64::MAX)]);
    assert_eq!(collect(&mut set, 0), []);
    a.becomes(OUT);
    assert_eq!(collect(&mut set, 8), []);
    a.becomes(OUT | HUP);
    assert_eq!(collect(&mut set, 8), [(HUP, u64::MAX)]);
}

#[test]
fn an_edge_is_reported_once() {
    let (mut set, a) = (Registrations::default(), Fake::new(OUT));
    set.add(3, &a, interest(IN | OUT | EDGE, 7)).unwrap();
    assert_eq!(collect(&mut set, 8), [(OUT, 7)]);
    assert_eq!(collect(&mut set, 8), []);
    a.becomes(IN | OUT);
    assert_eq!(collect(&mut set, 8), [(IN | OUT, 7)]);
    assert_eq!(collect(&mut set, 8), []);
    a.becomes(IN | OUT);
    assert_eq!(collect(&mut set, 8), [(IN | OUT, 7)], "more data is a new edge");
    set.modify(3, &a, interest(IN | EDGE, 8)).unwrap();
    assert_eq!(collect(&mut set, 8), [(IN, 8)], "a change of interest reports what is ready");
}

#[test]
fn one_shot_waits_to_be_armed() {
    let (mut set, a) = (Registrations::default(), Fake::new(IN));
    set.add(3, &a, interest(IN | ONE_SHOT, 1)).unwrap();
    assert_eq!(collect(&mut set, 8), [(IN, 1)]);
    a.becomes(IN | HUP);
    assert_eq!(collect(&mut set, 8), []);
    assert!(set.watched().is_empty());
    set.modify(3, &a, interest(IN | ONE_SHOT, 2)).unwrap();
    assert_eq!(set.watched().len(), 1);
    assert_eq!(collect(&mut set, 8), [(IN | HUP, 2)]);
}

#[test]
fn little_room_is_shared_in_turn() {
    let mut set = Registrations::default();
    for data in 0..5 {
        set.add(3, &Fake::new(IN), interest(IN, data)).unwrap();
    }
    let mut order = Vec::new();
    for _ in 0..5 {
        order.extend(collect(&mut set, 2).into_iter().map(|(_, data)| data));
    }
    assert_eq!(order, [0, 1, 2, 3, 4, 0, 1, 2, 3, 4]);
}

#[test]
fn looking_takes_nothing_away_and_remembers_versions() {
    let (mut set, a) = (Registrations::default(), Fake::new(IN));
    set.add(3, &a, interest(IN | EDGE, 0)).unwrap();
    assert!(set.is_ready());
    assert!(set.is_ready());
    assert_eq!(set.watched()[0].1, 1);
    assert_eq!(collect(&mut set, 1).len(), 1);
    a.becomes(0);
    assert!(!set.is_ready());
    assert_eq!(set.watched()[0].1, 2);
}
