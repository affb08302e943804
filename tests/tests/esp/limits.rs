//! Replayed packets, numbers beyond 32 bits, lifetimes, and a router that shortens packets.

use rustix::process::Signal;
use tasuki_tests::{Mode, Nic, Running, World, eventually, sha256, write_noise};

use crate::pair::{
    A, A6, B, B6, CBC, GCM, Plan, SPI_BA, add_policies, add_states, cannot_fetch, end, fetch,
    joined, log, protect, serve, store, url_of, xfrm_done,
};

/// Packets that come twice or late are dropped or used once, and the file arrives.
#[test]
fn replayed_and_late_packets_are_told_from_new_ones() {
    let faults = ["--fault", "duplicate=0.05,reorder=0.05,loss=0.01,seed=5"];
    let Some((world, digest)) = joined(4 << 20, &faults) else { return };
    protect(&world, &Plan::between([A, B], "transport", GCM));
    let server = serve(&world, "b", B);
    fetch(&world, B, &digest);
    store(&world, B, &digest);
    for net in ["a", "b"] {
        let replayed = world.counter(net, "xfrm.in-state-seq-error");
        assert!(replayed > 20, "{replayed} packets were replayed to {net}");
        assert_eq!(world.counter(net, "xfrm.in-state-proto-error"), 0);
    }
    let counted = xfrm_done(&world, "a", "-s state list");
    let replays = counted.lines().filter_map(|line| {
        line.trim().strip_prefix("stats: replay ")?.split(',').next()?.parse::<u64>().ok()
    });
    let total = world.counter("a", "xfrm.in-state-seq-error");
    assert_eq!(replays.sum::<u64>(), total, "{counted}");
    end(&world, server);
}

/// Changed packets never reach TCP, whose checksum would not see every change.
#[test]
fn damaged_packets_fail_their_check_value() {
    let Some((world, digest)) = joined(4 << 20, &["--fault", "corrupt=0.01,seed=6"]) else {
        return;
    };
    protect(&world, &Plan::between([A6, B6], "tunnel", CBC));
    let server = serve(&world, "b", B6);
    fetch(&world, B6, &digest);
    let failed = world.counter("a", "xfrm.in-state-proto-error");
    assert!(failed > 5, "{failed} packets of ESP failed");
    assert_eq!(world.counter("a", "tcp.bad-checksum"), 0);
    end(&world, server);
}

/// Just below 2^32 an extended association goes on, and a short one ends.
#[test]
fn extended_numbers_go_beyond_32_bits_and_short_ones_end() {
    let Some((world, digest)) = joined(1 << 20, &[]) else { return };
    let near = "replay-oseq 0xffffff00 replay-seq 0xffffff00 replay-window 256";
    let plan = Plan::between([A, B], "transport", GCM);
    let extended = format!("{near} flag esn");
    protect(&world, &Plan { more: &extended, ..plan });
    let server = serve(&world, "b", B);
    fetch(&world, B, &digest);
    let counted = xfrm_done(&world, "b", "-s state list");
    // Both halves of the sender's number.
    assert!(counted.contains("oseq 0x1000"), "{counted}");
    for net in ["a", "b"] {
        let _ = xfrm_done(&world, net, "state flush");
        add_states(&world, net, &Plan { more: near, ..plan });
    }
    cannot_fetch(&world, B);
    assert!(world.counter("b", "xfrm.out-state-seq-error") > 0);
    eventually("the log says so", || log(&world, "b").contains("there is no sequence number left"));
    end(&world, server);
}

/// A soft limit warns; a hard one ends the association, and another one goes on.
#[test]
fn lifetimes_warn_and_end() {
    let Some((world, digest)) = joined(1 << 20, &[]) else { return };
    let plan = Plan::between([A, B], "transport", GCM);
    let limited = "replay-window 64 limit packet-soft 100 limit packet-hard 300";
    protect(&world, &Plan { more: limited, ..plan });
    let server = serve(&world, "b", B);
    cannot_fetch(&world, B);
    eventually("the log says so", || {
        let log = log(&world, "b");
        log.contains("a soft limit is passed") && log.contains("a hard limit is passed")
    });
    assert!(world.counter("b", "xfrm.out-state-expired") > 0);
    let listed = xfrm_done(&world, "b", "state list");
    assert!(listed.contains("(expired)"), "{listed}");
    // A lifetime in seconds ends without traffic.
    for net in ["a", "b"] {
        let _ = xfrm_done(&world, net, "state flush");
        let timed = "replay-window 64 limit time-soft 1 limit time-hard 2";
        add_states(&world, net, &Plan { more: timed, ..plan });
    }
    eventually("both are expired", || {
        xfrm_done(&world, "b", "state list").matches("(expired)").count() == 2
    });
    cannot_fetch(&world, B);
    // New associations, and everything goes on.
    for net in ["a", "b"] {
        let _ = xfrm_done(&world, net, "state flush");
        add_states(&world, net, &plan);
    }
    fetch(&world, B, &digest);
    end(&world, server);
}

/// A newer association with the same identifier takes over without a loss.
#[test]
fn keys_are_changed_while_a_connection_lasts() {
    let Some((world, digest)) = joined(8 << 20, &[]) else { return };
    protect(&world, &Plan::between([A, B], "transport", GCM));
    let server = serve(&world, "b", B);
    let slow = ["curl", "-sS", "--limit-rate", "4M", "-o", "slow", &url_of(B)];
    let slow = Running::start(world.on_net("a", &slow));
    eventually("it began", || world.counter("a", "xfrm.packets-in") > 500);
    let key = GCM.replace("{}", "5");
    let newer = format!(
        "state add src {B} dst {A} proto esp spi 0x2002 reqid 1 replay-window 128 flag esn {key}"
    );
    // The receiver first.
    for net in ["a", "b"] {
        let _ = xfrm_done(&world, net, &newer);
    }
    let served = |line: &str| {
        let at = line.find("spi 0x00002002")?;
        let (_, packets) = line[at..].split_once("current: ")?;
        packets.split_once(" bytes, ")?.1.split(' ').next()?.parse::<u64>().ok()
    };
    eventually("the new one serves", || {
        served(&xfrm_done(&world, "a", "-s state list")).unwrap_or(0) > 100
    });
    let _ = xfrm_done(&world, "b", &format!("state delete src {B} dst {A} proto esp spi {SPI_BA}"));
    let _ = slow.finish().success();
    assert_eq!(sha256(&world.path("slow")), digest);
    assert_eq!(world.counter("b", "xfrm.out-no-states"), 0);
    end(&world, server);
}

/// What the kernel needs to forward between two devices, of which one takes 1,300 bytes.
const ROUTER: [&str; 2] =
    ["sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1", "ip link set pa mtu 1300"];

/// Both instances behind a router, which reports that packets of ESP are too long.
fn behind_a_router(ends: [&str; 2], mode: &str, algorithms: &str, fails: &str) {
    let Some(world) = Mode::shared().and_then(|_| World::over(Nic::Tap)) else { return };
    write_noise(&world.path("file"), 2 << 20, 1);
    let digest = sha256(&world.path("file"));
    for (net, number) in [("a", 1), ("b", 2)] {
        let (nic, mode) = (format!("tap:p{net}"), Mode::given().name());
        let [four, six] = [format!("10.56.{number}.2/24"), format!("fd56:{number}::2/64")];
        let words = ["up", "--mode", mode, "--nic", &nic, "--ip", &four, "--ip", &six];
        let gates = [format!("10.56.{number}.1"), format!("fd56:{number}::1")];
        let gates = ["--gateway", &gates[0], "--gateway", &gates[1], net];
        let _ = Running::start(world.tasuki(&[&words[..], &gates].concat())).finish().success();
    }
    for line in ROUTER {
        let _ = world.run(&line.split(' ').collect::<Vec<_>>()).success();
    }
    let plan = Plan::between(ends, mode, algorithms);
    for net in ["a", "b"] {
        add_states(&world, net, &plan);
        add_policies(&world, net, &plan);
    }
    let server = serve(&world, "b", ends[1]);
    fetch(&world, ends[1], &digest);
    let said = world.run(&["nstat", "-asz", fails]).success().stdout;
    let refused = said.lines().find_map(|line| line.strip_prefix(fails)?.split_whitespace().next());
    assert_ne!(refused.unwrap_or("0"), "0", "the router has refused no packet: {said}");
    assert_eq!(world.counter("a", "xfrm.in-state-proto-error"), 0);
    // From now on they fit.
    let before = world.run(&["nstat", "-asz", fails]).success().stdout;
    fetch(&world, ends[1], &digest);
    let after = world.run(&["nstat", "-asz", fails]).success().stdout;
    assert_eq!(before, after);
    server.signal(Signal::INT);
    let _ = server.finish();
    world.down("a");
    world.down("b");
    world.assert_nothing_left();
}

#[test]
fn segments_become_shorter_for_a_router() {
    behind_a_router(["10.56.1.2", "10.56.2.2"], "transport", GCM, "IpFragFails");
}

#[test]
fn segments_in_a_tunnel_become_shorter_for_a_router() {
    behind_a_router(["10.56.1.2", "10.56.2.2"], "tunnel", CBC, "IpFragFails");
}

#[test]
fn segments_become_shorter_for_an_ipv6_router() {
    behind_a_router(["fd56:1::2", "fd56:2::2"], "transport", GCM, "Ip6InTooBigErrors");
}

#[test]
fn segments_in_an_ipv6_tunnel_become_shorter_for_a_router() {
    behind_a_router(["fd56:1::2", "fd56:2::2"], "tunnel", CBC, "Ip6InTooBigErrors");
}
