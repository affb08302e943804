use std::cell::Cell;
use std::rc::Rc;

use super::*;

const IN: u32 = libc::EPOLLIN.cast_unsigned();
const HUP: u32 = libc::EPOLLHUP.cast_unsigned();

/// A socket and the server's side of it.
struct FakeSocket {
    now: Cell<Readiness>,
    place: u16,
    /// Bits of threads that get news of the next change.
    waiters: Cell<u64>,
    looks: Cell<usize>,
    lacks_memory: Cell<bool>,
}

#[derive(Clone)]
struct Fake(Rc<FakeSocket>);

impl Fake {
    fn new(events: u32) -> Self {
        Self::at(0, events)
    }

    fn at(place: u16, events: u32) -> Self {
        Self(Rc::new(FakeSocket {
            now: Cell::new(Readiness { events, version: 1 }),
            place,
            waiters: Cell::new(0),
            looks: Cell::new(0),
            lacks_memory: Cell::new(false),
        }))
    }

    /// Changes; returns the threads that have news.
    fn becomes(&self, events: u32) -> u64 {
        let version = self.0.now.get().version + 1;
        self.0.now.set(Readiness { events, version });
        self.0.waiters.take()
    }
}

impl Source for Fake {
    fn readiness(&self) -> Readiness {
        self.0.looks.set(self.0.looks.get() + 1);
        self.0.now.get()
    }

    fn is(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }

    fn place(&self) -> u16 {
        self.0.place
    }

    fn notify(&self, threads: u64) {
        self.0.waiters.set(self.0.waiters.get() | threads);
    }

    fn lacks_memory(&self) -> bool {
        self.0.lacks_memory.get()
    }
}

/// A thread's wait, with room for all.
fn wait(set: &mut Registrations<Fake>, thread: u64) -> Vec<(u32, u64)> {
    let mut reports = Vec::new();
    set.collect_news(thread, usize::MAX, |events, data| reports.push((events, data)));
    reports
}

#[test]
fn idle_sources_are_not_looked_at() {
    let mut set = Registrations::default();
    let sources: Vec<_> = (0..5010).map(|place| Fake::at(place, 0)).collect();
    for (data, source) in sources.iter().enumerate() {
        let edge = if data % 2 == 0 { EDGE } else { 0 };
        set.add(3, source, interest(IN | edge, data as u64)).unwrap();
    }
    let looks = || sources.iter().map(|source| source.0.looks.take()).sum::<usize>();
    assert_eq!((wait(&mut set, 1), looks()), (vec![], 5010), "a thread's first wait");
    for round in 0..100 {
        let busy: Vec<_> = (0..10).map(|n| (n * 501 + round) % 5010).collect();
        for at in &busy {
            assert_eq!(sources[*at].becomes(IN), 1);
            set.on_news(sources[*at].place(), 1);
        }
        let expected: Vec<_> = busy.iter().map(|at| (IN, *at as u64)).collect();
        assert_eq!((wait(&mut set, 1), looks()), (expected, 10));
        for at in &busy {
            assert_eq!(sources[*at].becomes(0), 1);
            set.on_news(sources[*at].place(), 1);
        }
        assert_eq!((wait(&mut set, 1), looks()), (vec![], 10));
        assert_eq!((wait(&mut set, 1), looks()), (vec![], 0));
    }
    // Without a change there is no look.
    assert_eq!(set.collect(1, |_, _| ()), 0);
    assert_eq!(looks(), 5010, "a look at all");
}

#[test]
fn news_wake_every_thread_that_has_waited() {
    let (mut set, a) = (Registrations::default(), Fake::at(9, 0));
    set.add(3, &a, interest(IN, 5)).unwrap();
    assert_eq!(wait(&mut set, 1), []);
    assert_eq!(wait(&mut set, 2), []);
    // What one thread adds, both hear of.
    let b = Fake::at(2, 0);
    set.add(4, &b, interest(IN, 6)).unwrap();
    assert_eq!(wait(&mut set, 1), []);
    assert_eq!((a.becomes(IN), b.becomes(IN)), (0b11, 0b11));
    set.on_news(9, 1);
    set.on_news(2, 1);
    assert_eq!(wait(&mut set, 1), [(IN, 5), (IN, 6)]);
    // It is still ready; only the first thread hears of the next change, until the second has taken
    // its news.
    assert_eq!(wait(&mut set, 2), [(IN, 5), (IN, 6)]);
    assert_eq!(a.becomes(0), 0b01);
    set.on_news(9, 0b11);
    assert_eq!(wait(&mut set, 2), [(IN, 6)]);
    assert_eq!(a.becomes(IN), 0b11);
}

#[test]
fn news_of_one_shots_edges_and_levels() {
    let mut set = Registrations::default();
    let (once, edge, level) = (Fake::at(1, IN), Fake::at(2, IN), Fake::at(3, IN));
    set.add(3, &once, interest(IN | ONE_SHOT, 1)).unwrap();
    set.add(4, &edge, interest(IN | EDGE, 2)).unwrap();
    set.add(5, &level, interest(IN, 3)).unwrap();
    assert_eq!(wait(&mut set, 4), [(IN, 1), (IN, 2), (IN, 3)]);
    assert_eq!(wait(&mut set, 4), [(IN, 3)]);
    for source in [&once, &edge, &level] {
        assert_eq!(source.becomes(IN), 4);
        set.on_news(source.place(), 4);
    }
    assert_eq!(wait(&mut set, 4), [(IN, 3), (IN, 2)]);
    assert_eq!(once.becomes(IN), 0, "it was reported, and wakes nobody until it is modified");
    set.modify(3, &once, interest(IN | ONE_SHOT, 7)).unwrap();
    set.delete(5, &level).unwrap();
    assert_eq!(wait(&mut set, 4), [(IN, 7)]);
    // No room: the rest comes next.
    set.modify(3, &once, interest(IN, 7)).unwrap();
    set.modify(4, &edge, interest(IN | EDGE, 2)).unwrap();
    let mut data = Vec::new();
    for _ in 0..3 {
        set.collect_news(4, 1, |_, it| data.push(it));
    }
    assert_eq!(data, [7, 2, 7]);
}

#[test]
fn a_source_without_memory_stays_a_candidate() {
    let (mut set, a) = (Registrations::default(), Fake::at(0, 0));
    set.add(3, &a, interest(OUT, 1)).unwrap();
    a.0.lacks_memory.set(true);
    assert_eq!(wait(&mut set, 1), []);
    // Another socket gave memory back: no news of this one.
    a.0.now.set(Readiness { events: OUT, version: 1 });
    assert_eq!(wait(&mut set, 1), [(OUT, 1)]);
}

#[test]
fn added_and_removed_in_turn_the_candidates_stay_few() {
    let (mut set, all) = (Registrations::default(), [0, 1, 1, 0].map(|place| Fake::at(place, IN)));
    for _ in 0..1000 {
        for source in &all {
            set.add(3, source, interest(IN, 0)).unwrap();
        }
        set.forget(&all[0]);
        for source in &all[1..] {
            set.delete(3, source).unwrap();
        }
    }
    assert_eq!((set.len(), set.list.len()), (0, 4));
    assert!(set.candidates.len() <= 2 * 4 + MOST_STALE + 1, "{}", set.candidates.len());
    set.add(3, &all[1], interest(IN, 8)).unwrap();
    assert_eq!(wait(&mut set, 1), [(IN, 8)]);
    // Many that are gone lie before one that is ready and stays so: it is reported once.
    let many: Vec<_> = (2..400).map(|place| Fake::at(place, IN)).collect();
    for source in &many {
        set.add(3, source, interest(IN, 0)).unwrap();
    }
    set.add(4, &all[1], interest(IN, 9)).unwrap();
    many.iter().for_each(|source| set.forget(source));
    assert_eq!(wait(&mut set, 1), [(IN, 8), (IN, 9)]);
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

#[test]
fn a_set_in_a_set_looks_at_what_may_be_ready() {
    let mut set = Registrations::default();
    let sources: Vec<_> = (0..5010).map(|place| Fake::at(place, 0)).collect();
    for (data, source) in sources.iter().enumerate() {
        let edge = if data % 2 == 0 { EDGE } else { 0 };
        let interest = Interest { events: IN | edge, data: data as u64 };
        set.add(3, source, interest).unwrap();
    }
    let looks = || sources.iter().map(|source| source.0.looks.take()).sum::<usize>();
    assert!(!set.is_ready_by_news(1), "a thread that comes looks at all");
    assert_eq!(looks(), 5010);
    assert!(!set.is_ready_by_news(1));
    assert_eq!(looks(), 0);
    let before = set.edges();
    for source in &sources[..10] {
        let threads = source.becomes(IN);
        assert_eq!(threads, 1, "the thread has news");
        set.on_news(source.place(), threads);
    }
    for _ in 0..3 {
        assert!(set.is_ready_by_news(1));
        assert_eq!(looks(), 10);
    }
    assert_eq!(set.edges(), before + 10, "each event counts once");
    // Nothing was taken away: a wait in the set itself still has all, edges once.
    assert_eq!(wait(&mut set, 1).len(), 10);
    assert_eq!(wait(&mut set, 1).len(), 5);
    assert!(set.is_ready_by_news(1), "five are ready by level");
    for source in &sources[..10] {
        set.on_news(source.place(), source.becomes(0));
    }
    assert!(!set.is_ready_by_news(1));
    assert_eq!(set.edges(), before + 10);
}
