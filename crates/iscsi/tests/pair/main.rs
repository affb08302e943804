//! Both ends over a pipe that is cut at random places, against a model of the disk.

mod disk;
mod random;
mod sessions;
mod world;

use std::time::Duration;

use iscsi::initiator::{Ending, LoginStages};
use iscsi::pdu::{LogoutReason, LogoutResponseCode};
use iscsi::settings::DigestPreference;
use iscsi::{IscsiName, KeySettings};

use world::World;

fn name(text: &str) -> IscsiName {
    text.parse().expect("a name")
}

fn digest(on: bool) -> DigestPreference {
    if on { DigestPreference::Require } else { DigestPreference::Never }
}

/// Settings of both ends; the bits of `choice` are the boolean keys.
fn settings(choice: u32, burst: (u32, u32, u32)) -> KeySettings {
    let bit = |bit: u32| choice >> bit & 1 != 0;
    KeySettings {
        header_digest: digest(bit(0)),
        data_digest: digest(bit(1)),
        initial_r2t: bit(2),
        immediate_data: bit(3),
        data_pdu_in_order: bit(4),
        data_sequence_in_order: bit(5),
        max_outstanding_r2t: if bit(6) { 4 } else { 1 },
        max_recv_data_segment: burst.0,
        first_burst: burst.1,
        max_burst: burst.2,
        ..KeySettings::default()
    }
}

/// Payload, first burst, burst.
const BURSTS: [(u32, u32, u32); 3] = [(512, 512, 512), (1024, 1536, 4096), (65_536, 4096, 65_536)];

#[test]
fn every_combination_of_keys_moves_the_right_bytes() {
    for choice in 0..128 {
        for (kind, burst) in BURSTS.into_iter().enumerate() {
            let seed = u64::from(choice) * 8 + kind as u64;
            let mut world = World::connect(seed, &settings(choice, burst), LoginStages::Both);
            world.run_commands(24);
            world.log_out();
        }
    }
}

#[test]
fn many_commands_over_a_small_window() {
    for seed in 0..10 {
        let mut world = World::connect(seed, &settings(0b111_1000, BURSTS[1]), LoginStages::Both);
        world.run_commands(400);
        world.log_out();
    }
}

/// Runs commands over connections that are lost; how many were lost.
fn lose_connections(seeds: std::ops::Range<u64>) -> usize {
    let mut reconnections = 0;
    for seed in seeds {
        let choice = seed as u32 & 0x7f;
        let burst = BURSTS[(seed >> 7) as usize % 3];
        let mut world = World::connect(seed, &settings(choice, burst), LoginStages::Both);
        world.cuts = 150;
        world.run_commands(60);
        reconnections += world.reconnections;
        world.log_out();
    }
    reconnections
}

#[test]
fn commands_survive_lost_connections() {
    let reconnections = lose_connections(0..150);
    assert!(reconnections > 150, "{reconnections} connections were lost");
}

/// Ten seconds: `cargo test -p tasuki-iscsi --test pair -- --ignored`.
#[test]
#[ignore = "it takes ten seconds"]
fn commands_survive_lost_connections_in_many_worlds() {
    let reconnections = lose_connections(0..10_000);
    assert!(reconnections > 10_000, "{reconnections} connections were lost");
}

#[test]
fn sessions_with_default_keys_work() {
    for stages in [LoginStages::Operational, LoginStages::Security] {
        let mut world = World::connect(7, &KeySettings::default(), stages);
        world.run_commands(60);
        world.log_out();
    }
}

#[test]
fn a_logout_is_answered() {
    let mut world = World::connect(3, &KeySettings::default(), LoginStages::Both);
    world.initiator.logout(Duration::ZERO, LogoutReason::CloseSession).expect("logged in");
    world.settle();
    assert_eq!(world.ending, Some(Ending::LoggedOut(LogoutResponseCode::Success)));
    assert!(world.disk.is_closed);
}
