//! Rules against peers.

use iscsi::ChapSecret;
use proptest::prelude::*;

use super::*;

fn peer(address: &str, initiator: &str, user: Option<&str>) -> Peer {
    Peer {
        address: address.parse().unwrap(),
        initiator: initiator.parse().unwrap(),
        user: user.map(str::to_owned),
        identities: Vec::new(),
    }
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn rule() -> AccessRule {
    AccessRule {
        initiators: Vec::new(),
        addresses: Vec::new(),
        users: Vec::new(),
        identities: Vec::new(),
        luns: None,
        right: UnitRight::Write,
    }
}

fn account(name: &str) -> ChapAccount {
    ChapAccount { name: name.to_owned(), secret: ChapSecret::new(b"twelve bytes") }
}

fn lun(number: u16) -> LunNumber {
    LunNumber::new(number).unwrap()
}

const A: &str = "iqn.2026-01.example:a";
const B: &str = "iqn.2026-01.example:b";

#[test]
fn without_rules_everybody_may() {
    let policy = AccessPolicy::default();
    assert!(policy.is_open() && !policy.has_secrets());
    let anybody = peer("10.9.0.3", A, None);
    assert!(matches!(policy.judge(&anybody), Judgement::Welcome));
    assert_eq!(policy.rights(&anybody), UnitRights::EVERYTHING);
}

#[test]
fn without_rules_each_user_may() {
    let users = vec![account("alice"), account("bob")];
    let policy = AccessPolicy { users, ..AccessPolicy::default() };
    let Judgement::Prove(demand) = policy.judge(&peer("10.9.0.3", A, None)) else {
        panic!("no proof is asked for")
    };
    assert_eq!(demand.accounts.len(), 2);
    assert_eq!(demand.algorithms, [ChapAlgorithm::Sha256, ChapAlgorithm::Sha3_256]);
    assert_eq!(policy.rights(&peer("10.9.0.3", A, Some("bob"))), UnitRights::EVERYTHING);
    let old = AccessPolicy { md5: true, ..policy };
    let Judgement::Prove(demand) = old.judge(&peer("10.9.0.3", A, None)) else { panic!() };
    assert_eq!(demand.algorithms.last(), Some(&ChapAlgorithm::Md5));
}

#[test]
fn a_rule_fits_a_peer_that_has_all_that_it_names() {
    let rules = vec![
        AccessRule {
            initiators: vec![A.parse().unwrap()],
            addresses: vec!["10.9.0.0/24".parse().unwrap(), "fd00::/64".parse().unwrap()],
            luns: Some([lun(0)].into()),
            ..rule()
        },
        AccessRule { users: vec!["alice".to_owned()], luns: Some([lun(1)].into()), ..rule() },
        AccessRule {
            addresses: vec!["10.9.0.7".parse().unwrap()],
            right: UnitRight::Read,
            ..rule()
        },
        AccessRule { identities: vec!["key-1".to_owned()], luns: Some([lun(3)].into()), ..rule() },
    ];
    let users = vec![account("alice"), account("bob")];
    let policy = AccessPolicy { rules, users, ..AccessPolicy::default() };
    let at = |peer: &Peer| [0, 1, 2, 3].map(|number| policy.rights(peer).at(lun(number)));
    let (read, write) = (Some(UnitRight::Read), Some(UnitRight::Write));
    for (peer, rights) in [
        (peer("10.9.0.3", A, None), [write, None, None, None]),
        (peer("fd00::3", A, None), [write, None, None, None]),
        (peer("::ffff:10.9.0.3", A, None), [write, None, None, None]),
        (peer("10.9.1.3", A, None), [None; 4]),
        (peer("10.9.0.3", B, None), [None; 4]),
        (peer("10.9.0.3", B, Some("alice")), [None, write, None, None]),
        (peer("10.9.0.3", A, Some("alice")), [write, write, None, None]),
        (peer("10.9.0.3", B, Some("bob")), [None; 4]),
        (peer("10.9.0.7", A, Some("alice")), [write, write, read, read]),
        (
            Peer { identities: names(&["host", "key-1"]), ..peer("10.9.1.3", B, None) },
            [None, None, None, write],
        ),
        (Peer { identities: names(&["key-2"]), ..peer("10.9.1.3", B, None) }, [None; 4]),
    ] {
        assert_eq!(at(&peer), rights, "{peer:?}");
    }
    // bob is in no rule that could fit, so his name is as unknown as any.
    let Judgement::Prove(demand) = policy.judge(&peer("10.9.0.3", A, None)) else { panic!() };
    assert_eq!(demand.accounts.iter().map(|user| &*user.name).collect::<Vec<_>>(), ["alice"]);
}

#[test]
fn strangers_are_told_at_once() {
    let rules = vec![AccessRule { initiators: vec![A.parse().unwrap()], ..rule() }];
    let policy = AccessPolicy { rules, ..AccessPolicy::default() };
    assert!(!policy.is_open());
    assert!(matches!(policy.judge(&peer("10.9.0.3", A, None)), Judgement::Welcome));
    assert!(matches!(policy.judge(&peer("10.9.0.3", B, None)), Judgement::Stranger));
}

#[test]
fn networks_are_read_and_shown() {
    for (text, shown) in
        [("10.9.0.0/24", "10.9.0.0/24"), ("10.9.0.7", "10.9.0.7/32"), ("0.0.0.0/0", "0.0.0.0/0")]
    {
        assert_eq!(text.parse::<Network>().unwrap().to_string(), shown);
    }
    for (text, why) in [
        ("10.9.0.7/24", "say 10.9.0.0/24"),
        ("fd00::7/64", "say fd00::/64"),
        ("10.9.0.0/33", "0 to 32"),
        ("10.9.0.0/", "0 to 32"),
        ("fd00::/129", "0 to 128"),
        ("a/24", "no address"),
    ] {
        let error = text.parse::<Network>().unwrap_err().to_string();
        assert!(error.contains(why), "{text}: {error}");
    }
}

fn small_rule() -> impl Strategy<Value = AccessRule> {
    let initiators = prop::collection::vec(prop::sample::select(vec![A, B]), 0..2);
    let addresses = prop::collection::vec((0_u32..8, 29_u8..=32), 0..2);
    let users = prop::collection::vec(prop::sample::select(vec!["alice", "bob"]), 0..2);
    let luns = prop::option::of(prop::collection::btree_set(0_u16..3, 0..3));
    (initiators, addresses, users, luns, any::<bool>()).prop_map(|all| {
        let (initiators, addresses, users, luns, write) = all;
        AccessRule {
            initiators: initiators.iter().map(|name| name.parse().unwrap()).collect(),
            addresses: addresses
                .into_iter()
                .map(|(host, prefix)| {
                    let first = std::net::Ipv4Addr::from(0x0a00_0000 | host & mask_of(prefix));
                    format!("{first}/{prefix}").parse().unwrap()
                })
                .collect(),
            users: users.into_iter().map(str::to_owned).collect(),
            luns: luns.map(|luns| luns.into_iter().map(lun).collect()),
            right: if write { UnitRight::Write } else { UnitRight::Read },
            ..rule()
        }
    })
}

fn mask_of(prefix: u8) -> u32 {
    u32::MAX << (32 - prefix)
}

proptest! {
    /// What the two judgements say fits together: a stranger has no right, a peer that need not
    /// prove anything has one, and each user that may prove itself has one.
    #[test]
    fn the_judgements_agree(
        rules in prop::collection::vec(small_rule(), 1..5),
        host in 0_u32..8,
        initiator in prop::sample::select(vec![A, B]),
    ) {
        // A rule for no unit gives nothing to anybody.
        let rules: Vec<_> = rules
            .into_iter()
            .filter(|rule| rule.luns.as_ref().is_none_or(|luns| !luns.is_empty()))
            .collect();
        prop_assume!(!rules.is_empty());
        let users = vec![account("alice"), account("bob")];
        let policy = AccessPolicy { rules, users, ..AccessPolicy::default() };
        let address = IpAddr::V4((0x0a00_0000 | host).into());
        let peer = |user: Option<&str>| Peer {
            address,
            initiator: initiator.parse().unwrap(),
            user: user.map(str::to_owned),
            identities: Vec::new(),
        };
        let nothing = |user| policy.rights(&peer(user)) == UnitRights::NONE;
        match policy.judge(&peer(None)) {
            Judgement::Welcome => prop_assert!(!nothing(None)),
            Judgement::Stranger => {
                prop_assert!(nothing(None) && nothing(Some("alice")) && nothing(Some("bob")));
            }
            Judgement::Prove(demand) => {
                for user in &demand.accounts {
                    prop_assert!(!nothing(Some(&user.name)));
                }
            }
        }
    }

    /// The order of rules is nothing, and one more takes nothing away.
    #[test]
    fn rules_only_add(
        mut rules in prop::collection::vec(small_rule(), 1..5),
        more in small_rule(),
        host in 0_u32..8,
        user in prop::option::of(prop::sample::select(vec!["alice", "bob"])),
    ) {
        let users = vec![account("alice"), account("bob")];
        let rest = AccessPolicy { users, ..AccessPolicy::default() };
        let policy = |rules| AccessPolicy { rules, ..rest.clone() };
        let mut peer = peer("10.0.0.0", A, user);
        peer.address = IpAddr::V4((0x0a00_0000 | host).into());
        let at = |rules: &[AccessRule]| {
            let rights = policy(rules.to_vec()).rights(&peer);
            [0, 1, 2, 3].map(|number| rights.at(lun(number)))
        };
        let before = at(&rules);
        let turned: Vec<_> = rules.iter().rev().cloned().collect();
        prop_assert_eq!(before, at(&turned));
        rules.push(more);
        for (after, before) in at(&rules).into_iter().zip(before) {
            prop_assert!(after >= before);
        }
    }
}
