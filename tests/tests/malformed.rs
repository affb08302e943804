//! Malformed frames of every kind from the host's side: counted, dropped, survived.

use tasuki_tests::{DEVICE, HOST, Mode, Running, STACK, World, sha256, write_noise};

const NET: &str = "malformed";

fn garbage(mode: Mode) {
    let Some(world) = World::with_kernel() else { return };
    world.up(NET, mode, &[]);
    let _ = world.run(&["ping", "-c", "1", STACK]).success();
    let neighbour = world.run(&["ip", "-o", "neigh", "show", STACK]).success();
    let mac = neighbour.stdout.split_whitespace().skip_while(|word| *word != "lladdr").nth(1);
    let mac = mac.unwrap_or_else(|| panic!("no hardware address: {neighbour}"));
    let before = world.ps(NET);

    // A listener and a connected socket, so that every layer is reached.
    let echo = world.script("echo.py", &["0.0.0.0", "8000"]);
    let echo = Running::start(world.on_net(NET, &echo));
    let _ = echo.line("ready");
    for seed in ["1", "2"] {
        let sent = world.run(&world.script("garbage.py", &[DEVICE, mac, STACK, seed])).success();
        assert_eq!(sent.stdout.trim(), "sent 5000", "{sent}");
    }
    // Frames arrive in order: once this is answered, all before it were judged. Behind so many
    // frames a device may lose one, so there is a request each second.
    let _ = world.run(&["ping", "-c", "1", "-w", "30", STACK]).success();

    let after = world.ps(NET);
    let servers = |status: &abi::control::InstanceStatus| {
        let all = status.processes.iter().filter(|process| process.role != "client");
        all.map(|process| process.pid).collect::<Vec<_>>()
    };
    assert_eq!(servers(&before), servers(&after), "a server died");
    let bad = |counters: &[(String, u64)]| -> u64 {
        let named = |name: &str| {
            ["bad", "malformed", "unknown", "fragments", "stray"]
                .iter()
                .any(|word| name.contains(word))
        };
        counters.iter().filter(|(name, _)| named(name)).map(|(_, value)| value).sum()
    };
    let counted = bad(&after.counters) - bad(&before.counters);
    assert!(counted > 3000, "only {counted} of 10,000 were counted: {:?}", after.counters);

    let many = world.run(&world.script("many.py", &[STACK, "8000", "4", "65536"])).success();
    assert!(many.stdout.contains("echoed"), "{many}");
    write_noise(&world.path("file"), 16 << 20, 5);
    let server = world.http_server();
    let get = ["curl", "-sS", "-o", "back", &format!("http://{HOST}:8000/file")];
    let _ = Running::start(world.on_net(NET, &get)).finish().success();
    assert_eq!(sha256(&world.path("back")), sha256(&world.path("file")));
    drop((server, echo));
    world.down(NET);
    world.assert_nothing_left();
}

#[test]
fn in_split_mode() {
    garbage(Mode::Split);
}

#[test]
fn in_fused_mode() {
    garbage(Mode::Fused);
}
