//! Logins with proofs, discovery, pings, time, and targets that refuse.

use std::time::Duration;

use bytes::Bytes;
use iscsi::initiator::{Ending, InitiatorConnection, LoginStages};
use iscsi::pdu::{AsyncEvent, Isid, LoginStatus};
use iscsi::settings::{ChapAccount, ChapAlgorithm, ChapPolicy};
use iscsi::target::LoginAnswer;
use iscsi::{
    ChapSecret, InitiatorCommand, InitiatorConfig, InitiatorEvent, KeySettings, ProtocolError,
    UsageError,
};

use crate::name;
use crate::world::{World, initiator_config, target_config};

fn policy(algorithm: ChapAlgorithm, mutual: bool) -> ChapPolicy {
    let account = |name: &str, secret: &[u8]| ChapAccount {
        name: name.to_owned(),
        secret: ChapSecret::new(secret),
    };
    ChapPolicy {
        initiator: account("alice", b"correct horse battery"),
        target: mutual.then(|| account("disks", b"staple of another kind")),
        algorithms: vec![algorithm],
    }
}

/// A login of both ends with these proofs.
fn log_in(ours: Option<ChapPolicy>, theirs: Option<ChapPolicy>) -> World {
    let keys = KeySettings::default();
    let config = initiator_config(&keys, LoginStages::Both);
    let config = InitiatorConfig { chap: ours, ..config };
    let mut world = World::new(5, config, target_config(&keys));
    let (chap, alias) = (theirs.map(Into::into), Some("the disks".to_owned()));
    world.disk.answer = LoginAnswer::Allow { chap, alias };
    world.settle();
    world
}

#[test]
fn proofs_of_every_algorithm_are_taken() {
    for algorithm in [ChapAlgorithm::Md5, ChapAlgorithm::Sha256, ChapAlgorithm::Sha3_256] {
        for mutual in [false, true] {
            let chap = Some(policy(algorithm, mutual));
            let mut world = log_in(chap.clone(), chap);
            assert!(world.initiator.is_full_feature());
            world.run_commands(5);
            let told = world.events.iter().any(|event| {
                matches!(event, InitiatorEvent::LoggedIn { tsih: 77, portal_group: Some(1),
                    alias: Some(alias), .. } if alias == "the disks")
            });
            assert!(told, "{:?}", world.events);
        }
    }
}

#[test]
fn wrong_proofs_are_refused() {
    let right = policy(ChapAlgorithm::Sha256, true);
    let mut wrong = right.clone();
    wrong.initiator.secret = ChapSecret::new(b"guessed");
    let world = log_in(Some(wrong), Some(right.clone()));
    assert_eq!(world.ending, Some(Ending::LoginRefused(LoginStatus::AuthenticationFailure)));
    assert!(world.disk.is_closed);
    let mut impostor = right.clone();
    impostor.target =
        Some(ChapAccount { name: "disks".to_owned(), secret: ChapSecret::new(b"guessed") });
    let world = log_in(Some(right), Some(impostor));
    let ending = world.ending;
    assert!(matches!(ending, Some(Ending::Peer(ProtocolError::Authentication(_)))), "{ending:?}");
}

#[test]
fn settings_that_are_not_safe_are_refused() {
    let keys = KeySettings::default();
    let refused = |stages, chap| {
        let config = InitiatorConfig { chap: Some(chap), ..initiator_config(&keys, stages) };
        let made = InitiatorConnection::new(config, Duration::ZERO, [0; 64]);
        matches!(made, Err(UsageError::Invalid(_)))
    };
    let sound = policy(ChapAlgorithm::Sha256, true);
    assert!(!refused(LoginStages::Both, sound.clone()));
    assert!(refused(LoginStages::Operational, sound.clone()));
    let mut same = sound.clone();
    same.initiator.secret = ChapSecret::new(b"staple of another kind");
    assert!(refused(LoginStages::Both, same));
    assert!(refused(LoginStages::Both, ChapPolicy { algorithms: vec![], ..sound }));
}

#[test]
fn refusals_and_redirections_are_told() {
    let address = "10.0.0.9:3260,1".to_owned();
    for (answer, ending) in [
        (LoginAnswer::Refuse(LoginStatus::NotFound), Ending::LoginRefused(LoginStatus::NotFound)),
        (
            LoginAnswer::Redirect { address: address.clone(), permanent: false },
            Ending::Redirected { address, permanent: false },
        ),
    ] {
        let keys = KeySettings::default();
        let config = initiator_config(&keys, LoginStages::Both);
        let mut world = World::new(5, config, target_config(&keys));
        world.disk.answer = answer;
        world.settle();
        assert_eq!(world.ending, Some(ending));
    }
}

#[test]
fn targets_are_discovered() {
    let mut keys = KeySettings { max_recv_data_segment: 512, ..KeySettings::default() };
    for stages in [LoginStages::Both, LoginStages::Operational] {
        let own = name("iqn.2001-04.com.example:i");
        let config = InitiatorConfig::new(own, None, Isid::random([1; 5]));
        let config = InitiatorConfig { keys: keys.clone(), stages, ..config };
        let mut world = World::new(5, config, target_config(&KeySettings::default()));
        world.settle();
        let asked = world.initiator.send_targets(None).expect("logged in");
        let command = InitiatorCommand { cdb: Bytes::from_static(&[0]), ..Default::default() };
        assert_eq!(world.initiator.submit(command), Err(UsageError::WrongPhase));
        world.settle();
        let Some(InitiatorEvent::Targets { command, targets }) = world.events.pop() else {
            panic!("no targets: {:?}", world.ending);
        };
        assert_eq!((command, targets.len()), (asked, 40));
        assert!(targets.iter().all(|target| target.addresses == ["10.0.0.1:3260,1"]));
        keys.max_recv_data_segment = 262_144;
    }
}

#[test]
fn pings_come_back() {
    let mut world = World::connect(1, &KeySettings::default(), LoginStages::Both);
    let sent = world.initiator.ping(Bytes::from_static(b"hello")).expect("logged in");
    world.settle();
    let pong = world.events.pop();
    assert!(
        matches!(&pong, Some(InitiatorEvent::Pong { command, data })
            if *command == sent && data == "hello"),
        "{pong:?}"
    );
    // The pings of time are not told.
    let due = world.initiator.next_timeout().expect("a ping");
    world.initiator.handle_timeout(due);
    world.settle();
    assert_eq!(world.initiator.next_timeout(), Some(Duration::from_secs(15)));
    assert!(world.ending.is_none() && world.events.len() == 1, "{:?}", world.events);
}

#[test]
fn a_target_that_says_nothing_is_given_up() {
    let keys = KeySettings::default();
    let config = initiator_config(&keys, LoginStages::Both);
    let mut world = World::new(5, config, target_config(&keys));
    let due = world.initiator.next_timeout().expect("a login");
    world.initiator.handle_timeout(due);
    let event = world.initiator.poll_event();
    assert!(matches!(event, Some(InitiatorEvent::Closed(Ending::Timeout))));
    let mut world = World::connect(1, &keys, LoginStages::Both);
    let ping = world.initiator.next_timeout().expect("a ping");
    world.initiator.handle_timeout(ping);
    let due = world.initiator.next_timeout().expect("an answer");
    assert_eq!(due, ping + Duration::from_secs(10));
    world.initiator.handle_timeout(due);
    let event = world.initiator.poll_event();
    assert!(matches!(event, Some(InitiatorEvent::Closed(Ending::PingTimeout))));
}

#[test]
fn asynchronous_messages_reach_the_initiator() {
    let mut world = World::connect(1, &KeySettings::default(), LoginStages::Both);
    let event = AsyncEvent::LogoutRequested { within: 3 };
    world.tell(event, &Bytes::from_static(&[0x70]));
    world.settle();
    let told = world.events.pop();
    assert!(
        matches!(&told, Some(InitiatorEvent::Async { event: seen, sense })
            if *seen == event && sense[..] == [0x70]),
        "{told:?}"
    );
}

#[test]
fn the_queue_has_a_bound() {
    let keys = KeySettings::default();
    let config = InitiatorConfig { queue_depth: 2, ..initiator_config(&keys, LoginStages::Both) };
    let mut world = World::new(5, config, target_config(&keys));
    world.settle();
    let command = || InitiatorCommand { cdb: Bytes::from_static(&[0]), ..Default::default() };
    assert!(world.initiator.submit(command()).is_ok());
    assert!(world.initiator.submit(command()).is_ok());
    assert_eq!(world.initiator.submit(command()), Err(UsageError::Full));
    assert_eq!(world.initiator.open_requests().count(), 2);
    let empty = InitiatorCommand::default();
    assert!(world.initiator.submit(empty).is_err());
}
