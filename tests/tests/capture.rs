//! `tasuki capture` shows the packets that tcpdump would show. tshark reads them.

use std::collections::BTreeSet;

use tasuki_tests::{HOST, Mode, Running, World, eventually, write_noise};

const NET: &str = "capture";
const BYTES: usize = 1 << 20;

fn tshark(world: &World, filter: &str, field: &str) -> Vec<String> {
    let words = ["tshark", "-r", "f.pcapng", "-Y", filter, "-T", "fields", "-e", field];
    let said = world.run(&words).success();
    said.stdout.lines().map(str::to_owned).collect()
}

#[test]
fn a_download_is_captured() {
    let Some(world) = World::new() else { return };
    write_noise(&world.path("file"), BYTES, 6);
    let server = world.http_server();
    world.up(NET, Mode::Split, &[]);
    let words = ["capture", "-w", "f.pcapng", "--net", NET];
    let capture = Running::start(world.tasuki(&words));
    let _ = capture.line("capturing on capture");
    let get = ["curl", "-sS", "-o", "back", &format!("http://{HOST}:8000/file")];
    let _ = Running::start(world.on_net(NET, &get)).finish().success();
    capture.signal(rustix::process::Signal::INT);
    let said = capture.finish().success();
    assert!(said.stderr.contains(" packets captured\n0 packets missed\n"), "{said}");

    let syns = tshark(&world, "tcp.flags.syn == 1", "tcp.flags.ack");
    assert_eq!(syns.len(), 2, "SYN and SYN-ACK: {syns:?}");
    assert_ne!(syns[0], syns[1]);
    let len = |filter: &str| -> usize {
        tshark(&world, filter, "tcp.len").iter().map(|len| len.parse::<usize>().unwrap()).sum()
    };
    let received = len("tcp.srcport == 8000");
    assert!(received >= BYTES, "{received} bytes of payload");
    assert!(len("tcp.dstport == 8000") > 0);
    // Nothing is malformed, no checksum is wrong, and our own packets are marked as ours.
    let wrong = "_ws.malformed || ip.checksum.status == 0 || tcp.checksum.status == 0";
    assert_eq!(tshark(&world, wrong, "frame.number"), Vec::<String>::new());
    let checked: BTreeSet<String> =
        tshark(&world, "tcp.dstport == 8000", "ip.src").into_iter().collect();
    assert_eq!(checked, BTreeSet::from([tasuki_tests::STACK.to_owned()]));
    drop(server);
    world.down(NET);
    world.assert_nothing_left();
}

#[test]
fn a_capture_ends_after_its_count_or_with_the_instance() {
    let Some(world) = World::new() else { return };
    world.up(NET, Mode::Fused, &[]);
    let counted =
        Running::start(world.tasuki(&["capture", "-w", "f.pcapng", "-c", "3", "--net", NET]));
    let mut counted = Some(counted);
    eventually("the capture ends after three frames", || {
        let _ = world.run(&["ping", "-c", "1", tasuki_tests::STACK]).success();
        counted.as_mut().unwrap().has_ended()
    });
    let _ = counted.take().unwrap().finish().success();
    assert_eq!(tshark(&world, "frame", "frame.number").len(), 3);
    let other = Running::start(world.tasuki(&["capture", "-w", "g.pcapng", "--net", NET]));
    let _ = other.line("capturing on");
    let into = |file: &str| Running::start(world.tasuki(&["capture", "-w", file, "-i", NET]));
    let said = into("/none/x.pcapng").finish().code(1);
    assert!(said.stderr.contains("/none/x.pcapng"), "{said}");
    let said = into("/dev/full").finish().code(1);
    assert!(said.stderr.contains("/dev/full"), "{said}");
    world.down(NET);
    let _ = other.finish().success();
    world.assert_nothing_left();
}

#[test]
fn a_capture_that_is_killed_can_be_read() {
    let Some(world) = World::new() else { return };
    world.up(NET, Mode::Split, &[]);
    let words = ["capture", "-w", "f.pcapng", "-i", NET];
    let capture = Running::start(world.tasuki(&words));
    let _ = capture.line("capturing on");
    let _ = world.run(&["ping", "-c", "3", "-i", "0.01", tasuki_tests::STACK]).success();
    eventually("both ways of three pings are written", || {
        // A file that is being written may end in the middle of a frame.
        let words = ["tshark", "-r", "f.pcapng", "-Y", "icmp", "-T", "fields", "-e", "icmp.type"];
        world.run(&words).stdout.lines().count() == 6
    });
    capture.signal(rustix::process::Signal::KILL);
    assert_eq!(capture.finish().status.code(), None);
    assert_eq!(tshark(&world, "icmp", "frame.number").len(), 6);
    // The driver lets go of it, and the instance goes on.
    let _ = world.run(&["ping", "-c", "1", tasuki_tests::STACK]).success();
    world.down(NET);
    world.assert_nothing_left();
}

#[test]
fn an_interface_has_eight_captures() {
    let Some(world) = World::new() else { return };
    world.up(NET, Mode::Split, &[]);
    let begin = |file: &str| {
        Running::start(world.tasuki(&["capture", "-w", file, "-s", "64", "--net", NET]))
    };
    let mut captures = Vec::new();
    for number in 0..8 {
        let capture = begin(&format!("{number}.pcapng"));
        let _ = capture.line("capturing on");
        captures.push(capture);
    }
    let said = begin("more.pcapng").finish().code(125);
    assert!(said.stderr.contains("8 captures run on this interface already"), "{said}");
    drop(captures.pop());
    let _ = begin("more.pcapng").line("capturing on");
    drop(captures);
    world.down(NET);
    world.assert_nothing_left();
}

/// Root writes no capture, trace or replay where another user wants it.
#[test]
fn no_output_goes_through_another_users_link() {
    let Some(world) = World::new() else { return };
    world.up(NET, Mode::Split, &[]);
    std::fs::write(world.path("victim"), "precious").unwrap();
    let link = world.path("link");
    std::os::unix::fs::symlink(world.path("victim"), &link).unwrap();
    std::os::unix::fs::lchown(&link, Some(65_533), Some(65_533)).unwrap();
    let replay = "pcap:empty,link";
    let head = b"\xd4\xc3\xb2\xa1\x02\0\x04\0\0\0\0\0\0\0\0\0\xff\xff\0\0\x01\0\0\0";
    std::fs::write(world.path("empty"), head).unwrap();
    for words in [
        &["capture", "-w", "link", "--net", NET][..],
        &["run", "--net", NET, "-o", "link", "--", "true"],
        &["run", "--nic", replay, "--address", "10.219.9.2/24", "--", "true"],
    ] {
        let said = Running::start(world.tasuki(words)).finish().code(119);
        assert!(said.stderr.contains("link is a link of user 65533"), "{words:?}: {said}");
    }
    assert_eq!(std::fs::read_to_string(world.path("victim")).unwrap(), "precious");
    world.down(NET);
    world.assert_nothing_left();
}
