use std::vec;
use std::vec::Vec;

use super::wire::{GroupMessage, parse_igmp, parse_mld};
use super::*;

const START: Instant = Instant::from_nanos(1_000_000_000_000);
const GROUP: IpAddr = IpAddr::V4(Ipv4Addr::new(239, 1, 2, 3));
const OTHER: IpAddr = IpAddr::V4(Ipv4Addr::new(239, 1, 2, 4));
const A: GroupListener = GroupListener::Stack;
const B: GroupListener = GroupListener::Address(Ipv6Addr::LOCALHOST);

fn source(n: u8) -> IpAddr {
    Ipv4Addr::new(192, 0, 2, n).into()
}

fn filter(mode: FilterMode, sources: &[u8]) -> Filter {
    Filter { mode, sources: sources.iter().map(|n| source(*n)).collect() }
}

fn member(filter: Filter) -> GroupMember {
    GroupMember { owner: OwnerId::default(), filter }
}

fn include(sources: &[u8]) -> Filter {
    filter(FilterMode::Include, sources)
}

fn exclude(sources: &[u8]) -> Filter {
    filter(FilterMode::Exclude, sources)
}

struct World {
    groups: Groups,
    random: Secret,
    now: Instant,
}

impl World {
    fn new() -> Self {
        Self { groups: Groups::new(false, 8), random: Secret::new(&[3; 16]), now: START }
    }

    fn listen(&mut self, group: IpAddr, listener: GroupListener, filter: Filter) {
        self.groups.listen(self.now, group, listener, member(filter), &mut self.random).unwrap();
    }

    fn leave(&mut self, group: IpAddr, listener: GroupListener) {
        self.groups.leave(self.now, group, listener, &mut self.random);
    }

    fn query(&mut self, bytes: &[u8]) {
        let mut bytes = bytes.to_vec();
        let sum = !smoltcp::wire::checksum::data(&bytes);
        bytes[2..4].copy_from_slice(&sum.to_be_bytes());
        let Some(GroupMessage::Query(query)) = parse_igmp(&bytes) else { panic!("a query") };
        self.groups.handle_query(self.now, &query, &mut self.random);
    }

    /// What is reported until `time` from now has passed: when, and what.
    fn reports(&mut self, time: Duration) -> Vec<(Duration, GroupReport)> {
        let (start, end) = (self.now, self.now + time);
        let mut reports = Vec::new();
        while let Some(at) = self.groups.poll_at().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            if let Some(report) = self.groups.poll(self.now, &mut self.random) {
                reports.push((self.now.since(start), report));
            }
        }
        self.now = end;
        reports
    }

    /// The records of all reports within two seconds.
    fn records(&mut self) -> Vec<(RecordKind, IpAddr, Vec<IpAddr>)> {
        let reports = self.reports(Duration::from_secs(2)).into_iter();
        let records = reports.flat_map(|(_, report)| match report {
            GroupReport::Full { records, .. } => records,
            other => panic!("{other:?}"),
        });
        records.map(|record| (record.kind, record.group, record.sources)).collect()
    }
}

fn sources(all: &[u8]) -> Vec<IpAddr> {
    all.iter().map(|n| source(*n)).collect()
}

#[test]
fn filters_are_merged() {
    // RFC 3376 3.2, its examples among them.
    let table = [
        (vec![], include(&[])),
        (
            vec![exclude(&[1, 2, 3, 4]), exclude(&[2, 3, 4, 5]), include(&[4, 5, 6])],
            exclude(&[2, 3]),
        ),
        (vec![include(&[1, 2]), include(&[2, 3])], include(&[1, 2, 3])),
        (vec![exclude(&[1]), exclude(&[])], exclude(&[])),
        (vec![include(&[1]), exclude(&[1])], exclude(&[])),
    ];
    for (all, merged) in table {
        assert_eq!(Filter::merged(&all.iter()), merged, "{all:?}");
    }
    let many: Vec<u8> = (0..=64).collect();
    assert_eq!(Filter::merged(&[include(&many)].iter()), Filter::all());
}

#[test]
fn a_join_and_a_leave_are_told_twice() {
    let mut world = World::new();
    assert!(!world.groups.admits(GROUP, source(1)));
    assert!(world.groups.admits(ALL_V4.into(), source(1)));
    world.listen(GROUP, A, Filter::all());
    assert!(world.groups.admits(GROUP, source(1)) && !world.groups.admits(OTHER, source(1)));
    let reports = world.reports(Duration::from_secs(60));
    let joined = Record { kind: RecordKind::ToExclude, group: GROUP, sources: vec![] };
    let joined = GroupReport::full(false, vec![joined]);
    assert_eq!(reports.len(), 2);
    assert_eq!(reports[0], (Duration::ZERO, joined.clone()));
    assert!(reports[1].0 <= UNSOLICITED_INTERVAL && reports[1].1 == joined);
    // A second listener changes nothing, neither coming nor going.
    world.listen(GROUP, B, Filter::all());
    world.leave(GROUP, A);
    assert_eq!(world.records(), []);
    world.leave(GROUP, B);
    assert!(!world.groups.admits(GROUP, source(1)));
    let left = (RecordKind::ToInclude, GROUP, vec![]);
    assert_eq!(world.records(), [left.clone(), left]);
    assert!(world.groups.groups.is_empty() && world.groups.poll_at().is_none());
    assert!(!world.groups.leave(START, GROUP, A, &mut world.random));
}

#[test]
fn changes_of_sources_are_told_as_such() {
    let mut world = World::new();
    world.listen(GROUP, A, include(&[1, 2]));
    let allow = (RecordKind::Allow, GROUP, sources(&[1, 2]));
    assert_eq!(world.records(), [allow.clone(), allow]);
    world.listen(GROUP, A, include(&[2, 3]));
    let (allow, block) =
        ((RecordKind::Allow, GROUP, sources(&[3])), (RecordKind::Block, GROUP, sources(&[1])));
    assert_eq!(world.records(), [allow.clone(), block.clone(), allow, block]);
    assert!(world.groups.admits(GROUP, source(3)) && !world.groups.admits(GROUP, source(1)));
    world.listen(GROUP, A, exclude(&[9]));
    let to = (RecordKind::ToExclude, GROUP, sources(&[9]));
    assert_eq!(world.records(), [to.clone(), to]);
    world.listen(GROUP, A, exclude(&[9, 8]));
    let block = (RecordKind::Block, GROUP, sources(&[8]));
    assert_eq!(world.records(), [block.clone(), block]);
    // A change of mind while the first is still being told: what holds is told.
    world.listen(GROUP, A, exclude(&[9]));
    let Some(GroupReport::Full { records, .. }) = world.groups.poll(world.now, &mut world.random)
    else {
        panic!("a report")
    };
    assert_eq!(records[0].kind, RecordKind::Allow);
    world.listen(GROUP, A, include(&[7]));
    let to = (RecordKind::ToInclude, GROUP, sources(&[7]));
    assert_eq!(world.records(), [to.clone(), to]);
    world.listen(GROUP, A, include(&[]));
    let block = (RecordKind::Block, GROUP, sources(&[7]));
    assert_eq!(world.records(), [block.clone(), block]);
    assert!(world.groups.groups.is_empty());
}

/// A query of IGMPv3 with a response time of 5 s.
fn query(group: [u8; 4], of: &[u8]) -> Vec<u8> {
    let mut bytes = [&[0x11, 50, 0, 0][..], &group, &[3, 125, 0, of.len() as u8]].concat();
    of.iter().for_each(|n| bytes.extend_from_slice(&[192, 0, 2, *n]));
    bytes
}

#[test]
fn queries_are_answered_once_and_in_time() {
    let mut world = World::new();
    world.listen(GROUP, A, exclude(&[1]));
    world.listen(OTHER, A, include(&[5, 6]));
    world.listen(ALL_V4.into(), A, Filter::all());
    world.records();
    let five = Duration::from_secs(5);
    let of = |reports: &[(Duration, GroupReport)]| match reports {
        [(at, GroupReport::Full { records, .. })] if *at <= five => records.clone(),
        other => panic!("{other:?}"),
    };
    for _ in 0..3 {
        world.query(&query([0; 4], &[]));
    }
    let records = of(&world.reports(five));
    assert_eq!(records.len(), 2, "never about all systems");
    assert_eq!((records[0].kind, records[0].group), (RecordKind::IsExclude, GROUP));
    assert_eq!(
        (records[1].kind, records[1].sources.clone()),
        (RecordKind::IsInclude, sources(&[5, 6]))
    );
    assert_eq!(world.groups.robustness, 3);
    // One group, then one group and sources.
    let group = [239, 1, 2, 3];
    world.query(&query(group, &[]));
    world.query(&query(group, &[1]));
    assert_eq!(of(&world.reports(five))[0].kind, RecordKind::IsExclude);
    world.query(&query(group, &[1, 2]));
    world.query(&query(group, &[3]));
    let records = of(&world.reports(five));
    assert_eq!(
        (records[0].kind, records[0].sources.clone()),
        (RecordKind::IsInclude, sources(&[2, 3]))
    );
    world.query(&query([239, 1, 2, 4], &[1, 2, 5]));
    let records = of(&world.reports(five));
    assert_eq!(
        (records[0].kind, records[0].sources.clone()),
        (RecordKind::IsInclude, sources(&[5]))
    );
    // Nothing to say.
    world.query(&query(group, &[1]));
    world.query(&query([239, 9, 9, 9], &[]));
    world.query(&query([224, 0, 0, 1], &[]));
    assert_eq!(world.reports(five), []);
    // The response time is spread.
    let mut times = BTreeSet::new();
    for _ in 0..20 {
        world.query(&query([0; 4], &[]));
        times.insert(world.reports(five)[0].0);
    }
    assert!(times.len() > 15, "{times:?}");
}

#[test]
fn older_routers_are_spoken_to_in_their_words() {
    let mut world = World::new();
    // IGMPv2, 10 s.
    world.query(&[0x11, 100, 0, 0, 0, 0, 0, 0]);
    world.listen(GROUP, A, exclude(&[1]));
    let join = GroupReport::old(Version::Second, GROUP);
    let reports = world.reports(Duration::from_secs(30));
    assert_eq!(reports.len(), 2);
    assert_eq!(reports[0], (Duration::ZERO, join.clone()));
    assert_eq!((reports[1].1.clone(), join.destination()), (join.clone(), GROUP));
    // Answered in time, unless somebody else does.
    world.query(&[0x11, 100, 0, 0, 0, 0, 0, 0]);
    let reports = world.reports(Duration::from_secs(10));
    assert_eq!(reports.iter().map(|(_, report)| report).collect::<Vec<_>>(), [&join]);
    world.query(&[0x11, 100, 0, 0, 239, 1, 2, 3]);
    world.groups.handle_report(world.now, GROUP);
    assert_eq!(world.reports(Duration::from_secs(10)), []);
    // Somebody else is the reporter: leaving is not told. Else it is.
    world.leave(GROUP, A);
    assert_eq!(world.reports(Duration::from_secs(30)), []);
    world.listen(GROUP, A, Filter::all());
    world.reports(Duration::from_secs(30));
    world.leave(GROUP, A);
    let reports = world.reports(Duration::from_secs(30));
    assert_eq!(reports, [(Duration::ZERO, GroupReport::leave(GROUP))]);
    assert_eq!(reports[0].1.destination(), IpAddr::V4(Ipv4Addr::new(224, 0, 0, 2)));
    // IGMPv1.
    world.query(&[0x11, 0, 0, 0, 0, 0, 0, 0]);
    world.listen(GROUP, A, Filter::all());
    assert_eq!(world.reports(Duration::ZERO)[0].1, GroupReport::old(Version::First, GROUP));
    world.leave(GROUP, A);
    assert_eq!(world.reports(Duration::from_secs(30)), []);
    // They have gone.
    world.now += Duration::from_secs(300);
    world.listen(GROUP, A, Filter::all());
    assert_eq!(world.records().len(), 2);
}

#[test]
fn the_link_comes_back() {
    let mut world = World::new();
    world.listen(GROUP, A, Filter::all());
    world.records();
    world.groups.report_all(world.now);
    assert_eq!(world.records().len(), 2);
}

#[test]
fn bounds() {
    let mut world = World::new();
    for n in 0..8 {
        world.listen(Ipv4Addr::new(239, 0, 0, n).into(), A, Filter::all());
    }
    let more = |world: &mut World, group: &str| {
        let group = group.parse().unwrap();
        world.groups.listen(world.now, group, A, member(Filter::all()), &mut world.random)
    };
    assert_eq!(more(&mut world, "239.0.1.1"), Err(Error::NoBuffers));
    assert_eq!(more(&mut world, "239.0.0.1"), Ok(()));
    assert_eq!(more(&mut world, "10.0.0.1"), Err(Error::Invalid));
    assert_eq!(more(&mut world, "ff02::1"), Err(Error::Invalid));
    let reports = world.reports(Duration::ZERO);
    let messages = reports[0].1.emit(40);
    assert_eq!(messages.len(), 2);
    for message in &messages {
        assert_eq!((message.len(), &message[..2], message[7]), (40, &[0x22, 0][..], 4));
        assert_eq!(smoltcp::wire::checksum::data(message), !0);
    }
}

#[test]
fn formats() {
    // RFC 3376 4.1.1.
    let delay = |code: u8| {
        let mut bytes = query([0; 4], &[]);
        bytes[1] = code;
        let sum = !smoltcp::wire::checksum::data(&bytes);
        bytes[2..4].copy_from_slice(&sum.to_be_bytes());
        match parse_igmp(&bytes) {
            Some(GroupMessage::Query(query)) => query.most_delay.as_millis() / 100,
            other => panic!("{other:?}"),
        }
    };
    let seen = [0, 127, 128, 0x9f, 255].map(delay);
    assert_eq!(seen, [0, 127, 128, 496, 31_744]);
    assert_eq!(parse_igmp(&query([0; 4], &[])), None, "its checksum is wrong");
    for len in [1, 7, 9, 11] {
        assert_eq!(parse_igmp(&vec![0; len]), None);
    }
    // RFC 3810 5.1: with sources; its code counts milliseconds.
    let group = Ipv6Addr::new(0xff05, 0, 0, 0, 0, 0, 0, 9);
    let from = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
    let mut bytes = vec![130, 0, 0, 0, 0x80, 1, 0, 0];
    bytes.extend_from_slice(&group.octets());
    assert_eq!(parse_mld(&bytes[..23]), None);
    let Some(GroupMessage::Query(old)) = parse_mld(&bytes) else { panic!("a query") };
    assert_eq!((old.version, old.most_delay.as_millis()), (Version::Second, 32_769));
    bytes.extend_from_slice(&[2, 125, 0, 1]);
    assert_eq!(parse_mld(&bytes), None, "the source is missing");
    bytes.extend_from_slice(&from.octets());
    let Some(GroupMessage::Query(full)) = parse_mld(&bytes) else { panic!("a query") };
    assert_eq!((full.version, full.most_delay.as_millis()), (Version::Full, 4097 << 3));
    assert_eq!((full.group, full.sources), (Some(group.into()), [from.into()].into()));
    let record =
        Record { kind: RecordKind::Allow, group: group.into(), sources: vec![from.into()] };
    let report = GroupReport::full(true, vec![record]).emit(1200).remove(0);
    assert_eq!(report[..12], [143, 0, 0, 0, 0, 0, 0, 1, 5, 0, 0, 1]);
    assert_eq!((&report[12..28], &report[28..]), (&group.octets()[..], &from.octets()[..]));
    let done = GroupReport::leave(group.into()).emit(1200).remove(0);
    assert_eq!((done[0], done.len()), (132, 24));
    // Scopes that no router has business with.
    let mut groups = Groups::new(true, 8);
    let mut random = Secret::new(&[3; 16]);
    for group in ["ff01::5", "ff02::1"] {
        groups
            .listen(START, group.parse().unwrap(), A, member(Filter::all()), &mut random)
            .unwrap();
    }
    assert_eq!(groups.poll_at(), None);
}

/// The filters of many listeners are not looked at one by one: their number is a program's choice.
#[test]
fn very_many_filters_are_not_merged() {
    let mut world = World::new();
    let listener = |n: u16| GroupListener::Address(Ipv6Addr::from_bits(n.into()));
    let admits = |world: &World, n| world.groups.admits(GROUP, source(n));
    for n in 1..=256 {
        world.listen(GROUP, listener(n), include(&[1, 2]));
    }
    assert!(admits(&world, 2) && !admits(&world, 3));
    world.listen(GROUP, listener(257), include(&[1]));
    assert!(admits(&world, 3), "everything, for want of a look");
    world.leave(GROUP, listener(257));
    assert!(!admits(&world, 3));
    world.leave(GROUP, listener(256));
    world.listen(GROUP, A, Filter::all());
    assert!(admits(&world, 3));
    world.listen(GROUP, A, include(&[9]));
    assert!(admits(&world, 9) && !admits(&world, 3));
}
