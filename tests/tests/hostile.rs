//! A client that writes garbage into its region is dropped alone.

use tasuki_tests::{HOST, Mode, Running, World, eventually, sha256, write_noise};

const NET: &str = "hostile";
const KINDS: [&str; 7] =
    ["indices", "slots", "bell", "paths", "descriptors", "words", "everything"];

fn dropped_alone(mode: Mode) {
    let Some(world) = World::new() else { return };
    write_noise(&world.path("file"), 128 << 20, 7);
    let server = world.http_server();
    world.up(NET, mode, &[]);
    let before = world.ps(NET);

    let other = world.script("slowly.py", &[&format!("http://{HOST}:8000/file"), "back", "go"]);
    let mut other = Running::start(world.on_net(NET, &other));
    let _ = other.line("begun");
    let roles = |role: &str| world.ps(NET).processes.iter().filter(|p| p.role == role).count();
    eventually("the honest client is admitted", || roles("client") == 1);

    let socket = format!("/run/tasuki/{NET}.sock");
    for kind in KINDS {
        let hostile = world.spawn(&[env!("CARGO_BIN_EXE_hostile"), &socket, kind]);
        let said = hostile.finish().success();
        assert_eq!(said.stdout.trim(), "dropped", "{kind}: {said}");
    }
    assert!(!other.has_ended(), "the other transfer ended too early to show anything");
    eventually("only the honest client is left", || roles("client") == 1);
    std::fs::write(world.path("go"), "").unwrap();
    let _ = other.finish().success();
    assert_eq!(sha256(&world.path("back")), sha256(&world.path("file")));

    let servers = |status: &abi::control::InstanceStatus| {
        let all = status.processes.iter().filter(|process| process.role != "client");
        all.map(|process| process.pid).collect::<Vec<_>>()
    };
    assert_eq!(servers(&before), servers(&world.ps(NET)), "a server died");
    world.assert_pools_return(NET, &before.pools);
    drop(server);
    world.down(NET);
    world.assert_nothing_left();
}

#[test]
fn in_split_mode() {
    dropped_alone(Mode::Split);
}

#[test]
fn in_fused_mode() {
    dropped_alone(Mode::Fused);
}
