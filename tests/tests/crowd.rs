//! A process that crowds the control socket keeps neither operators nor programs out.

use abi::control::VERSION;
use tasuki_tests::{HOST, Mode, World, write_noise};

const NET: &str = "crowd";

#[test]
fn a_crowd_keeps_no_program_out() {
    let Some(world) = World::new() else { return };
    let Some(mode) = Mode::shared() else { return };
    write_noise(&world.path("file"), 1 << 20, 7);
    let server = world.http_server();
    world.up(NET, mode, &[]);
    let before = world.ps(NET);
    let (socket, version) = (format!("/run/tasuki/{NET}.sock"), VERSION.to_string());
    for kind in ["held", "flood", "unread", "clients"] {
        let crowd = world.spawn(&world.script("crowd.py", &[&socket, kind, &version]));
        let _ = crowd.line("crowding");
        if kind == "clients" {
            let _ = crowd.line("refused");
        }
        let status = world.ps(NET);
        let clients = status.processes.iter().filter(|process| process.role == "client");
        assert!(clients.count() <= 16, "{kind}");
        let url = format!("http://{HOST}:8000/file");
        let curl = ["curl", "-sS", "-m", "10", "-o", "back", &url];
        let _ = tasuki_tests::Running::start(world.on_net(NET, &curl)).finish().success();
        crowd.signal(rustix::process::Signal::KILL);
        let _ = crowd.finish();
    }
    world.assert_pools_return(NET, &before.pools);
    drop(server);
    world.down(NET);
    world.assert_nothing_left();
}
