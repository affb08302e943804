//! Programs that send echo requests, and programs that want raw sockets: ping and traceroute.

use tasuki_tests::{Finished, HOST, HOST6, Mode, Running, STACK, World, installed, skip};

const NET: &str = "raw";
/// Two hosts behind the kernel, one behind the other.
const BEHIND: [&str; 14] = [
    "sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1",
    "sysctl -qw net.ipv4.icmp_ratelimit=0 net.ipv6.icmp.ratelimit=0",
    "ip netns add behind",
    "ip link add r0 type veth peer name r1 netns behind",
    "ip addr add 10.219.9.1/24 dev r0",
    "ip addr add fd00:219:9::1/64 dev r0 nodad",
    "ip link set r0 up",
    "ip -n behind link set lo up",
    "ip -n behind addr add 10.219.9.2/24 dev r1",
    "ip -n behind addr add fd00:219:9::2/64 dev r1 nodad",
    "ip -n behind link set r1 up",
    "ip -n behind route add default via 10.219.9.1",
    "ip -n behind route add default via fd00:219:9::1",
    "ip netns exec behind sysctl -qw net.ipv4.icmp_ratelimit=0 net.ipv6.icmp.ratelimit=0",
];
const FAR: &str = "10.219.9.2";
const FAR6: &str = "fd00:219:9::2";
/// An address of the far network that no host has.
const NOBODY: &str = "10.219.9.77";

struct RawWorld(World);

impl RawWorld {
    /// A world with an instance that has these options, and a router.
    fn new(programs: &[&str], with: &[&str]) -> Option<Self> {
        let mode = Mode::shared()?;
        if let Some(missing) = programs.iter().find(|name| !installed(name)) {
            skip(&format!("{missing} is not installed: `scripts/deps.sh test` installs it"));
            return None;
        }
        let world = World::with_kernel()?;
        for line in BEHIND {
            let _ = world.run(&line.split(' ').collect::<Vec<_>>()).success();
        }
        let usual = ["--address", "fd00:219:7::2/64"];
        let gateways = ["--gateway", "10.219.7.1,fd00:219:7::1"];
        world.up(NET, mode, &[&usual[..], &gateways, with].concat());
        Some(Self(world))
    }

    /// A program on the instance, by the library or by the relay.
    fn run(&self, intercept: &str, words: &[&str]) -> Finished {
        let run = ["run", "--net", NET, "--intercept", intercept, "--"];
        Running::start(self.0.tasuki(&[&run[..], words].concat())).finish()
    }

    fn end(self) {
        // With its namespace the cable would go some time later.
        let _ = self.0.run(&["ip", "link", "del", "r0"]).success();
        let _ = self.0.run(&["ip", "netns", "del", "behind"]).success();
        self.0.down(NET);
        self.0.assert_nothing_left();
    }
}

const WAYS: [&str; 2] = ["auto", "seccomp"];

#[test]
fn ping_pings_without_raw_sockets() {
    let Some(world) = RawWorld::new(&["ping"], &[]) else { return };
    for way in WAYS {
        for (to, hops) in [(HOST, 64), (HOST6, 64), (FAR, 63), (FAR6, 63), ("127.0.0.1", 64)] {
            for size in ["0", "56", "1400", "4000"] {
                let words = ["ping", "-n", "-c", "3", "-i", "0.05", "-w", "30", "-s", size, to];
                let said = world.run(way, &words).answered(3);
                assert!(!said.stdout.contains("wrong data byte"), "{said}");
                assert!(said.stdout.contains(&format!("ttl={hops}")), "{way}: {said}");
            }
        }
        // Nobody answers, and a router says so.
        let said = world.run(way, &["ping", "-n", "-c", "1", "-W", "20", NOBODY]).code(1);
        assert!(said.stdout.contains("From 10.219.7.1 icmp_seq=1"), "{said}");
        let said = world.run(way, &["ping", "-n", "-c", "1", "-t", "1", "-W", "20", FAR]).code(1);
        assert!(said.stdout.contains("Time to live exceeded"), "{said}");
        let said = world.run(way, &["ping", "-n", "-c", "1", "-t", "1", "-W", "20", FAR6]).code(1);
        assert!(said.stdout.contains("Time exceeded: Hop limit"), "{said}");
    }
    world.end();
}

/// The hosts on the way, one in each line.
fn assert_path(said: &Finished, path: [&str; 2]) {
    let hops: Vec<_> = said.stdout.lines().skip(1).collect();
    assert_eq!(hops.len(), 2, "{said}");
    for (hop, at) in hops.iter().zip(path) {
        assert!(hop.contains(&format!("  {at}  ")) && !hop.contains('!'), "{said}");
    }
}

/// traceroute by datagrams or by echo requests, on sockets of IPPROTO_ICMP or raw ones.
fn traces(with: &[&str], manner: &[&str]) {
    let Some(world) = RawWorld::new(&["traceroute"], with) else { return };
    for way in WAYS {
        for (to, first) in [(FAR, HOST), (FAR6, HOST6)] {
            let words = [&["traceroute", "-n", "-q", "2", "-w", "20"][..], manner, &[to]].concat();
            let said = world.run(way, &words).success();
            assert_path(&said, [first, to]);
        }
    }
    world.end();
}

#[test]
fn traceroute_by_datagrams() {
    traces(&[], &[]);
}

#[test]
fn traceroute_by_echo_requests() {
    traces(&[], &["-I"]);
}

#[test]
fn traceroute_by_echo_requests_of_raw_sockets() {
    traces(&["--raw-sockets"], &["-I"]);
}

#[test]
fn raw_sockets_are_refused_unless_the_instance_allows_them() {
    let script = |world: &World| world.script("raw_socket.py", &[HOST, STACK, "10.219.7.99"]);
    for allowed in [false, true] {
        let with = if allowed { &["--raw-sockets"][..] } else { &[] };
        let Some(world) = RawWorld::new(&[], with) else { return };
        let words = script(&world.0);
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        for way in WAYS {
            let said = world.run(way, &words);
            if allowed {
                let said = said.success();
                let rows: Vec<_> = said.stdout.lines().collect();
                let reply = format!("reply {HOST} type 0 code 0 ident 0x1234 seq 1 payload!");
                let own = format!("reply {HOST} seq 3");
                let within = ["loopback here", "loopback types 8 0"];
                let all = [&*reply, &own, "other seq 4", "filtered", within[0], within[1]];
                assert_eq!(rows, all, "{said}");
            } else {
                let said = said.code(1);
                assert!(said.stderr.contains("[Errno 1] Operation not permitted"), "{said}");
                assert!(said.stderr.contains("--raw-sockets"), "names the option: {said}");
            }
        }
        world.end();
    }
}

/// Without a relay nobody makes such a socket, so the host's network has none either.
#[test]
fn without_a_relay_there_are_none() {
    let Some(world) = RawWorld::new(&["ping"], &["--raw-sockets"]) else { return };
    let said = world.run("preload", &["ping", "-n", "-c", "1", "-W", "2", HOST]).code(2);
    assert!(said.stderr.contains("Operation not permitted"), "{said}");
    world.end();
}
