//! Programs that end while a peer does not take their last data: their connections go on without
//! them, and they keep no other program out.

use tasuki_tests::{HOST, Mode, Running, World, eventually};

const NET: &str = "orphans";
/// Programs that the instance takes at once.
const CLIENTS: usize = 3;

fn ended_programs_are_no_clients(mode: Mode) {
    let Some(world) = World::with_kernel() else { return };
    let config = format!("[instance]\nclients = {CLIENTS}\n");
    std::fs::write(world.path("config.toml"), config).unwrap();
    std::fs::write(world.path("file"), vec![b'x'; 12_345]).unwrap();
    let server = world.http_server();
    let peer = world.spawn(&world.script("stalled_peer.py", &["0.0.0.0", "9000"]));
    let _ = peer.line("ready");
    world.up(NET, mode, &["--config", &world.file("config.toml")]);
    let before = world.ps(NET).pools;

    // Each leaves more than the peer takes.
    let code = format!(
        "import socket, urllib.request as r\n\
         print(len(r.urlopen('http://{HOST}:8000/file').read()))\n\
         s = socket.create_connection(('{HOST}', 9000))\n\
         s.settimeout(0.2)\n\
         try:\n\
         \twhile True: s.send(bytes(65536))\n\
         except TimeoutError: pass\n"
    );
    for number in 1..=2 * CLIENTS + 2 {
        let program = Running::start(world.on_net(NET, &world.python(&["-c", &code])));
        let said = program.finish().success();
        assert_eq!(said.stdout.trim(), "12345", "program {number}: {said}");
    }
    // As many as there may be clients are waited for; the peers of older ones hear a RST.
    for number in 1..=CLIENTS + 2 {
        let _ = peer.line(&format!("reset {number}"));
    }
    let orphans = || world.ss(NET).iter().filter(|s| s.state == "FIN-WAIT-1").count();
    eventually("only so many orphans are left", || orphans() == CLIENTS);
    drop((peer, server));
    world.assert_pools_return(NET, &before);
    world.down(NET);
    world.assert_nothing_left();
}

#[test]
fn in_split_mode() {
    ended_programs_are_no_clients(Mode::Split);
}

#[test]
fn in_fused_mode() {
    ended_programs_are_no_clients(Mode::Fused);
}
