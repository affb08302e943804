use super::*;
use crate::secret::Secret;
use core::net::Ipv6Addr;

const MAC: Mac = smoltcp::wire::EthernetAddress([2, 0, 0, 0, 0, 1]);
const OTHER: Mac = smoltcp::wire::EthernetAddress([2, 0, 0, 0, 0, 9]);
const KEY: NeighbourKey = NeighbourKey {
    interface: InterfaceId(0),
    address: IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1)),
};
const NOW: Instant = Instant::ZERO;

fn cache() -> Neighbours {
    Neighbours::new(Secret::new(&[7; 16]).tables(), 8, 2)
}

/// What the cache says of the neighbour, without using it.
fn state(cache: &Neighbours) -> &'static str {
    match cache.map.get(&KEY).map(|neighbour| neighbour.state) {
        None => "none",
        Some(NeighbourState::Incomplete { .. }) => "incomplete",
        Some(NeighbourState::Reachable { .. }) => "reachable",
        Some(NeighbourState::Stale { .. }) => "stale",
        Some(NeighbourState::Delay { .. }) => "delay",
        Some(NeighbourState::Probe { .. }) => "probe",
    }
}

fn mac(cache: &Neighbours) -> Option<Mac> {
    cache.map.get(&KEY).and_then(|neighbour| neighbour.state.mac())
}

/// A cache in which the neighbour is in the state of that name, with [`MAC`].
fn in_state(name: &str) -> Neighbours {
    let mut cache = cache();
    let times = NeighbourTimes::default();
    match name {
        "none" => {}
        "incomplete" => {
            assert_eq!(cache.ask(KEY, OwnerId::default()), Some(None));
        }
        "reachable" => {
            cache.ask(KEY, OwnerId::default());
            let advert = Advert { mac: Some(MAC), solicited: true, overrides: false };
            cache.advertised(NOW, KEY, &advert, &times).unwrap();
        }
        "stale" => {
            cache.observe(NOW, KEY, MAC, true).unwrap();
        }
        "delay" | "probe" => {
            cache.observe(NOW, KEY, MAC, true).unwrap();
            cache.look_up(NOW, KEY, false, &times);
            if name == "probe" {
                assert!(matches!(cache.due(NOW, KEY), NeighbourDue::Ask(Some(MAC))));
            }
        }
        _ => unreachable!(),
    }
    assert_eq!(state(&cache), name);
    cache
}

/// RFC 4861 appendix C, as far as it is about advertisements: state, solicited, override, address
/// (none, the same, another), state afterwards, address afterwards.
#[test]
fn advertisements() {
    let (none, same, other) = (None, Some(MAC), Some(OTHER));
    let table = [
        ("none", true, true, same, "none", None),
        ("incomplete", true, true, none, "incomplete", None),
        ("incomplete", false, false, same, "stale", same),
        ("incomplete", true, false, same, "reachable", same),
        ("reachable", true, false, other, "stale", same),
        ("reachable", false, false, other, "stale", same),
        ("reachable", true, true, other, "reachable", other),
        ("reachable", false, true, other, "stale", other),
        ("reachable", true, false, none, "reachable", same),
        ("reachable", false, true, same, "reachable", same),
        ("stale", true, false, other, "stale", same),
        ("stale", true, false, same, "reachable", same),
        ("stale", true, true, other, "reachable", other),
        ("stale", false, true, other, "stale", other),
        ("stale", false, false, same, "stale", same),
        ("delay", false, false, other, "delay", same),
        ("delay", false, true, same, "delay", same),
        ("probe", true, false, none, "reachable", same),
        ("probe", false, true, other, "stale", other),
        ("probe", false, true, same, "probe", same),
    ];
    for (before, solicited, overrides, heard, after, known) in table {
        let mut cache = in_state(before);
        let advert = Advert { mac: heard, solicited, overrides };
        let learnt = cache.advertised(NOW, KEY, &advert, &NeighbourTimes::default());
        let context = std::format!("{before} {advert:?}");
        assert_eq!((state(&cache), mac(&cache)), (after, known), "{context}");
        assert!(learnt.is_none_or(|learnt| Some(learnt.mac) == known), "{context}");
    }
}

#[test]
fn what_is_seen_and_not_proven_is_stale() {
    for before in ["none", "incomplete", "reachable", "stale", "delay", "probe"] {
        let mut cache = in_state(before);
        let learnt = cache.observe(NOW, KEY, OTHER, false);
        if before == "none" {
            assert!(learnt.is_none() && cache.len() == 0);
            continue;
        }
        assert_eq!((state(&cache), mac(&cache)), ("stale", Some(OTHER)), "{before}");
        assert!(cache.observe(NOW, KEY, OTHER, true).is_none(), "nothing new");
    }
    let mut cache = in_state("reachable");
    assert!(cache.observe(NOW, KEY, MAC, true).is_none());
    assert_eq!(state(&cache), "reachable");
}

#[test]
fn use_and_silence() {
    let times = NeighbourTimes::default();
    let mut cache = in_state("stale");
    let used = cache.look_up(NOW, KEY, false, &times);
    assert_eq!(used, Lookup::Known { mac: MAC, timer: Some(DELAY_FIRST_PROBE_TIME) });
    assert_eq!(
        cache.look_up(NOW, KEY, false, &times),
        Lookup::Known { mac: MAC, timer: None },
        "the delay goes on"
    );
    for _ in 0..TRIES {
        assert!(matches!(cache.due(NOW, KEY), NeighbourDue::Ask(Some(MAC))));
    }
    assert!(matches!(cache.due(NOW, KEY), NeighbourDue::Failed(_)));
    assert_eq!(state(&cache), "none");
    assert!(matches!(cache.due(NOW, KEY), NeighbourDue::Forgotten));
    // Reachable, stale, forgotten.
    let mut cache = in_state("reachable");
    assert!(matches!(cache.due(NOW, KEY), NeighbourDue::Wait(AGE)));
    assert!(matches!(cache.due(NOW, KEY), NeighbourDue::Forgotten));
    assert_eq!(cache.len(), 0);
}

#[test]
fn progress_of_a_connection_is_proof() {
    let times = NeighbourTimes { reachable: Duration::from_secs(17), ..NeighbourTimes::default() };
    for before in ["stale", "delay", "probe"] {
        let mut cache = in_state(before);
        let found = cache.look_up(NOW, KEY, true, &times);
        assert_eq!(found, Lookup::Known { mac: MAC, timer: Some(times.reachable) });
        assert_eq!(state(&cache), "reachable");
    }
    let mut cache = in_state("incomplete");
    assert_eq!(cache.look_up(NOW, KEY, true, &times), Lookup::Asking);
}

#[test]
fn who_answers_stays_when_names_flood_in() {
    let mut cache = in_state("reachable");
    for n in 0..1000u16 {
        let address = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 1, n).into();
        let key = NeighbourKey { address, ..KEY };
        let later = NOW + Duration::from_secs(1);
        assert!(cache.observe(later, key, OTHER, true).is_some());
        assert!(cache.len() <= 8);
    }
    assert_eq!(state(&cache), "reachable");
}
