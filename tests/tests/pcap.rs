//! `--nic pcap:FILE` replays a capture to a program, and writes the stack's answers.

use std::fs;

use rustix::process::Signal;
use tasuki_tests::{HOST, Mode, Running, STACK, World};

const NET: &str = "pcap";

/// Captures three datagrams from the kernel, and the ARP before them.
fn captured(world: &World) {
    // Of offloads, a capture would show datagrams before their checksums.
    world.up(NET, Mode::Split, &["--offload", "off"]);
    let capture = Running::start(world.tasuki(&["capture", "-w", "f.pcapng", "--net", NET]));
    let _ = capture.line("capturing on pcap");
    let send = format!(
        "import socket\nudp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
         for word in (b'one', b'two', b'three'): udp.sendto(word, ('{STACK}', 9000))"
    );
    let _ = world.run(&world.python(&["-c", &send])).success();
    let _ = world.run(&["ping", "-c", "1", STACK]).success();
    capture.signal(Signal::INT);
    let _ = capture.finish().success();
    world.down(NET);
}

#[test]
fn a_capture_is_replayed_and_answered() {
    for (mode, how) in [(Mode::Split, "delay=4"), (Mode::Fused, "fast,delay=4")] {
        let Some(world) = World::with_kernel() else { return };
        captured(&world);
        let receive = "import socket\n\
             udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
             udp.bind(('0.0.0.0', 9000))\n\
             for _ in range(3): print(*udp.recvfrom(100)[0:1], flush=True)\n";
        let nic = format!("pcap:f.pcapng,out.pcap,{how}");
        let mut run = world.tasuki(&["run", "--mode", mode.name(), "--nic", &nic]);
        run.args(["--ip", &format!("{STACK}/24"), "--"]).args(world.python(&["-c", receive]));
        let said = Running::start(run).finish().success();
        assert_eq!(said.stdout, "b'one'\nb'two'\nb'three'\n");
        // The stack answered the kernel's question of then.
        let words = ["tshark", "-r", "out.pcap", "-Y", "arp.opcode == 2", "-T", "fields"];
        let words =
            [&words[..], &["-e", "arp.src.proto_ipv4", "-e", "arp.dst.proto_ipv4"]].concat();
        let answers = world.run(&words).success();
        assert!(answers.stdout.contains(&format!("{STACK}\t{HOST}")), "{answers}");
        world.assert_nothing_left();
    }
}

#[test]
fn bad_files_are_refused_with_the_place() {
    let Some(world) = World::with_kernel() else { return };
    captured(&world);
    let mut bytes = fs::read(world.path("f.pcapng")).unwrap();
    bytes.pop();
    let cut = bytes.len();
    fs::write(world.path("cut.pcapng"), bytes).unwrap();
    fs::write(world.path("text"), "this is no capture").unwrap();
    for (nic, said) in [
        ("pcap:none", "cannot read".to_owned()),
        ("pcap:text", "neither like a pcap nor like a pcapng file".to_owned()),
        ("pcap:cut.pcapng", format!("ends at byte {cut}")),
        ("pcap:f.pcapng,out,more", "`more` is none of".to_owned()),
    ] {
        let ip = format!("{STACK}/24");
        let words = ["run", "--nic", nic, "--ip", &ip, "--", "true"];
        let finished = Running::start(world.tasuki(&words)).finish();
        assert!(matches!(finished.status.code(), Some(2 | 118)), "{finished}");
        assert!(finished.stderr.contains(&said), "{said}: {finished}");
    }
}
