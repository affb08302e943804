//! `tasuki stats`: its page and the counters are the same list, and it shows the effect of a
//! transfer.

use std::collections::BTreeSet;

use tasuki_tests::{HOST, Mode, Nic, Running, World};

const NET: &str = "stats";

/// The prefixes of the counters of devices other than a TAP with offloads.
const DEVICES: [&str; 6] = ["packet.", "passt.", "pcap.", "tap.", "wire.", "xdp."];

/// Names in the tables of docs/reference/counters.md.
fn page() -> BTreeSet<String> {
    include_str!("../../docs/reference/counters.md")
        .lines()
        .filter_map(|line| Some(line.strip_prefix("| `")?.split_once('`')?.0.to_owned()))
        .collect()
}

#[test]
fn the_page_lists_every_counter_and_no_other() {
    for mode in [Mode::Split, Mode::Fused] {
        let Some(world) = World::over(Nic::Tap) else { return };
        // Only a driver that makes faults counts them.
        world.up(NET, mode, &["--fault", "loss=0.0001,seed=1"]);
        let status = world.ps(NET);
        let counters = status.counters.into_iter().map(|(name, _)| name);
        let names = counters.chain(status.histograms.into_iter().map(|h| h.name)).collect();
        let (mut page, mut names): (_, BTreeSet<String>) = (page(), names);
        // Only such a device counts these.
        for all in [&mut page, &mut names] {
            all.retain(|name| !DEVICES.iter().any(|device| name.starts_with(device)));
        }
        let missing: Vec<&String> = page.symmetric_difference(&names).collect();
        assert!(
            missing.is_empty(),
            "not both in docs/reference/counters.md and in the program: {missing:?}"
        );
        world.down(NET);
    }
}

#[test]
fn stats_tell_what_a_transfer_did() {
    let Some(world) = World::over(Nic::Tap) else { return };
    world.up(NET, Mode::Split, &[]);
    let stats = |words: &[&str]| {
        let words: Vec<&str> = ["stats"].iter().chain(words).copied().collect();
        Running::start(world.tasuki(&words)).finish()
    };
    std::fs::write(world.path("file"), vec![7; 1 << 20]).unwrap();
    let server = world.http_server();
    let url = format!("http://{HOST}:8000/file");
    let fetch = Running::start(world.on_net(NET, &["curl", "-sS", "-o", "got", &url]));
    let _ = fetch.finish().success();
    // On a busy machine curl may find everything there without ever sleeping: this one must sleep.
    let code = format!(
        "import socket; s = socket.create_connection((\"{HOST}\", 8000)); s.settimeout(0.2)\n\
         try: s.recv(1)\n\
         except TimeoutError: pass"
    );
    let _ = Running::start(world.on_net(NET, &world.python(&["-c", &code]))).finish().success();
    drop(server);

    let said = stats(&[NET]).success().stdout;
    for title in ["Programs", "Calls and sockets", "Link", "TCP", "NIC driver and device"] {
        assert!(said.lines().any(|line| line == title), "{title}: {said}");
    }
    let json = stats(&["--json", NET]).success().stdout;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let count = |name: &str| json["counters"][name].as_u64().unwrap_or_else(|| panic!("{name}"));
    assert!(count("copy.program-rx-bytes") >= 1 << 20, "{json}");
    assert_eq!(count("copy.program-rx-bytes"), count("payload.rx-bytes"), "{json}");
    assert!(count("program.sleeps") > 0 && count("program.bells-rung") > 0, "{json}");
    let histograms = json["histograms"].as_array().unwrap();
    for histogram in histograms {
        // Every layer has had something to do.
        assert!(histogram["sum"].as_u64() > Some(0), "{histogram}");
    }
    let received = histograms.iter().find(|h| h["name"] == "nic.rx-per-step").unwrap();
    assert_eq!(received["sum"].as_u64(), Some(count("nic.rx-packets") + count("nic.rx-runts")));

    let said = stats(&[NET, "tcp.*", "-z"]).success().stdout;
    assert!(said.contains("tcp.retransmits") && !said.contains("nic."), "{said}");
    // Nothing is fetched meanwhile.
    let said = stats(&[NET, "-i", "0.05", "-c", "2", "payload.*"]).success().stdout;
    assert_eq!(said.matches("in 0.05 s").count(), 2, "{said}");
    assert!(!said.contains("payload"), "{said}");
    let said = stats(&[NET, "--prometheus"]).success().stdout;
    assert!(said.contains("# TYPE tasuki_payload_rx_bytes_total counter\n"), "{said}");
    assert!(said.contains(&format!("tasuki_link_frames_in_total{{stack=\"{NET}\"}} ")), "{said}");
    assert!(said.contains("tasuki_nic_rx_per_step_bucket{stack="), "{said}");

    let refused = stats(&[NET, "nothing.*"]).code(2);
    assert!(refused.stderr.contains("no counter"), "{refused}");
    let _ = stats(&["elsewhere"]).code(122);
    world.down(NET);
    world.assert_nothing_left();
}

#[test]
fn stages_of_a_send_are_told_apart() {
    for mode in [Mode::Split, Mode::Fused] {
        let Some(world) = World::over(Nic::Tap) else { return };
        world.up(NET, mode, &[]);
        let witness = world.spawn(&world.script("witness.py", &["0.0.0.0", "9000"]));
        let _ = witness.line("ready");
        let code = format!(
            "import socket, time; s = socket.create_connection((\"{HOST}\", 9000))\n\
             s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)\n\
             while True: s.send(b\"x\" * 4096); time.sleep(0.005)"
        );
        let program = Running::start(world.on_net(NET, &world.python(&["-c", &code])));
        tasuki_tests::eventually("it sends", || world.counter(NET, "payload.tx-bytes") > 0);
        let said = Running::start(world.tasuki(&["stages", "-s", "1", "--json", NET]));
        let said = said.finish().success().stdout;
        let report: serde_json::Value = serde_json::from_str(&said).unwrap();
        assert!(report["sends"].as_u64() > Some(0), "{report}");
        for row in report["stages"].as_array().unwrap() {
            // Each send passes each stage: three segments of 1,448 bytes at most, and their frames.
            assert!(row["seen"].as_u64() > Some(0), "{mode:?}: {row} in {report}");
            assert!(row["times"].as_u64() >= row["seen"].as_u64(), "{row}");
        }
        // Nothing is marked any more: a second report begins anew.
        let said = Running::start(world.tasuki(&["stages", "-s", "0.3", NET])).finish().success();
        assert!(said.stdout.contains("TCP layer"), "{said}");
        drop((witness, program));
        world.down(NET);
    }
}

#[test]
fn stages_of_a_receive_are_told_apart() {
    for mode in [Mode::Split, Mode::Fused] {
        let Some(world) = World::over(Nic::Tap) else { return };
        world.up(NET, mode, &[]);
        let code = format!(
            "import socket, time; s = socket.create_server((\"{HOST}\", 9000))\n\
             print(\"ready\", flush=True); c, _ = s.accept()\n\
             while True: c.send(b\"x\" * 4096); time.sleep(0.005)"
        );
        let peer = world.spawn(&world.python(&["-c", &code]));
        let _ = peer.line("ready");
        let code = format!(
            "import socket; s = socket.create_connection((\"{HOST}\", 9000))\n\
             while s.recv(65536): pass"
        );
        let program = Running::start(world.on_net(NET, &world.python(&["-c", &code])));
        tasuki_tests::eventually("it receives", || world.counter(NET, "payload.rx-bytes") > 0);
        let words = ["stages", "-s", "1", "--receive"];
        let said = Running::start(world.tasuki(&[&words[..], &["--json", NET]].concat()));
        let said = said.finish().success().stdout;
        let report: serde_json::Value = serde_json::from_str(&said).unwrap();
        assert!(report["receives"].as_u64() > Some(0), "{report}");
        for row in report["receive_stages"].as_array().unwrap() {
            assert!(row["seen"].as_u64() > Some(0), "{mode:?}: {row} in {report}");
            assert!(row["times"].as_u64() >= row["seen"].as_u64(), "{row}");
        }
        let said = Running::start(world.tasuki(&[&words[..], &[NET]].concat())).finish().success();
        assert!(said.stdout.contains("recv returns to program"), "{said}");
        drop((peer, program));
        world.down(NET);
    }
}

/// Every thread that spins measures its wake-ups, unless the configuration says how long it spins.
#[test]
fn the_longest_spin_follows_the_cost_of_a_wake_up() {
    let Some(world) = World::over(Nic::Tap) else { return };
    for (mode, server, driver) in
        [(Mode::Split, 50_000..=400_000, 50_000..=400_000), (Mode::Fused, 50_000..=400_000, 0..=0)]
    {
        world.up(NET, mode, &[]);
        let measured = |role: &str| world.counter(NET, &format!("{role}.wake-up-cost-ns")) > 0;
        tasuki_tests::eventually("the server has measured wake-ups", || measured("server"));
        if mode == Mode::Split {
            tasuki_tests::eventually("the driver has measured wake-ups", || measured("nic"));
        }
        for (role, bounds) in [("server", server), ("nic", driver)] {
            let cost = world.counter(NET, &format!("{role}.wake-up-cost-ns"));
            let bound = world.counter(NET, &format!("{role}.spin-bound-ns"));
            assert!(bounds.contains(&bound), "{mode:?} {role}: {cost} {bound}");
        }
        world.down(NET);
    }
    // The thread of a program that has the stack inside measures its own.
    world.up(NET, Mode::Library, &[]);
    let code = "import socket; s = socket.socket(); s.bind((\"0.0.0.0\", 1)); s.listen(); \
                print(\"waits\"); s.accept()";
    let program = Running::start(world.on_net(NET, &world.python(&["-c", code])));
    let _ = program.line("waits");
    let measured = || world.counter(NET, "server.wake-up-cost-ns") > 0;
    tasuki_tests::eventually("the program has measured wake-ups", measured);
    drop(program);
    world.down(NET);
    for micros in [0, 70] {
        let config = format!("[instance]\nbusy_poll = {micros}\n");
        std::fs::write(world.path("fixed.toml"), config).unwrap();
        world.up(NET, Mode::Split, &["--config", &world.file("fixed.toml")]);
        for role in ["server", "nic"] {
            assert_eq!(world.counter(NET, &format!("{role}.wake-up-cost-ns")), 0);
            assert_eq!(world.counter(NET, &format!("{role}.spin-bound-ns")), micros * 1000);
        }
        world.down(NET);
    }
}

/// The driver need not wake the inet server when a datagram has left. It does so only if a program
/// waits for the datagram's memory.
#[test]
fn sent_datagrams_wake_no_process() {
    let Some(world) = World::over(Nic::Tap) else { return };
    // It sleeps as soon as it has passed the datagram on.
    std::fs::write(world.path("at-once.toml"), "[instance]\nbusy_poll = 0\n").unwrap();
    world.up(NET, Mode::Split, &["--config", &world.file("at-once.toml"), "--ipv6", "off"]);
    let sink = format!(
        "import socket; s = socket.socket(type=socket.SOCK_DGRAM); s.bind(('{HOST}', 9))\n\
         print('ready')\n\
         while True: s.recv(2000)"
    );
    let sink = world.spawn(&world.python(&["-c", &sink]));
    let _ = sink.line("ready");
    let program = format!(
        "import os, socket, time\n\
         def until(name):\n    while not os.path.exists(name): time.sleep(0.01)\n\
         s = socket.socket(type=socket.SOCK_DGRAM); s.connect(('{HOST}', 9))\n\
         s.send(b'first')\n\
         print('first'); until('second')\n\
         for i in range(300): s.send(b'x' * 100); time.sleep(0.002)\n\
         print('paused'); until('third')\n\
         for i in range(20000): s.send(b'x' * 1000)\n\
         print('all'); until('end')"
    );
    let go_on = |to: &str| std::fs::write(world.path(to), "").unwrap();
    let program = Running::start(world.on_net(NET, &world.python(&["-c", &program])));
    let _ = program.line("first");
    let before = world.counter(NET, "nic.bells-rung");
    go_on("second");
    let _ = program.line("paused");
    let bells = world.counter(NET, "nic.bells-rung") - before;
    assert!(bells < 30, "{bells} bells for 300 datagrams that no program waited for");
    // More than the socket holds. A program that waits for room is woken, or this does not end.
    let before = world.counter(NET, "program.sleeps");
    go_on("third");
    let _ = program.line("all");
    assert_ne!(world.counter(NET, "program.sleeps"), before, "it had to wait");
    go_on("end");
    let _ = program.finish().success();
    drop(sink);
    world.down(NET);
}
