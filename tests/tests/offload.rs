//! Offloads. With them, frames of many segments go both ways; without them, none does. All data
//! arrive in both cases, also over links with a smaller MTU.

use tasuki_tests::{DEVICE, HOST, Mode, Nic, Running, STACK, World, sha256, write_noise};

const NET: &str = "offload";
const HOST6: &str = "fd00:219:7::1";
const STACK6: &str = "fd00:219:7::2";
/// A frame without offloads at most: the MTU and the Ethernet header.
const FRAME: usize = 1_500 + 14;
const BYTES: usize = 8 << 20;

/// A world with a file of noise, its SHA-256, and an instance of both families.
fn world(with: &[&str]) -> Option<(World, String)> {
    let world = World::over(Nic::Tap)?;
    write_noise(&world.path("file"), BYTES, 8);
    let digest = sha256(&world.path("file"));
    let six = format!("{STACK6}/64");
    world.up(NET, Mode::given(), &[&["--ip", &six], with].concat());
    Some((world, digest))
}

/// Python's HTTP server for both families, of the kernel's side or on the stack.
fn serve(world: &World, on_stack: bool) -> Running {
    let words = world.python(&["-m", "http.server", "--bind", "::", "8000"]);
    let server =
        if on_stack { Running::start(world.on_net(NET, &words)) } else { world.spawn(&words) };
    let _ = server.line("Serving HTTP");
    server
}

/// The program that has the stack in mode `library`. It serves the file, and fetches it on request.
const SERVES_AND_FETCHES: &str = "\
import http.server, os, signal, socket, threading, time, urllib.request
class Server(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET6
    def server_bind(self):
        self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()
server = Server(('::', 8000), http.server.SimpleHTTPRequestHandler)
threading.Thread(target=server.serve_forever, daemon=True).start()
print('Serving HTTP')
while not os.path.exists('fetch'): time.sleep(0.01)
for number, at in enumerate(open('fetch').read().split()):
    urllib.request.urlretrieve('http://' + at + ':8000/file', 'back' + str(number))
print('fetched')
signal.pause()";

/// Sends the file from the kernel's side to the stack and back, over both families. Calls `begin`
/// before, once there is a stack. Returns the result of `begin` and both servers.
fn both_ways<T>(world: &World, digest: &str, begin: impl FnOnce() -> T) -> (T, [Running; 2]) {
    let alone = Mode::given() == Mode::Library;
    let on_stack = if alone {
        let words = world.python(&["-c", SERVES_AND_FETCHES]);
        Running::start(world.on_net(NET, &words))
    } else {
        serve(world, true)
    };
    let servers = [serve(world, false), on_stack];
    let _ = servers[1].line("Serving HTTP");
    let begun = begin();
    let hosts = [HOST.to_owned(), format!("[{HOST6}]")];
    if alone {
        std::fs::write(world.path("told"), hosts.join(" ")).unwrap();
        std::fs::rename(world.path("told"), world.path("fetch")).unwrap();
        let _ = servers[1].line("fetched");
        for (number, at) in hosts.iter().enumerate() {
            assert_eq!(sha256(&world.path(&format!("back{number}"))), digest, "{at}");
        }
        std::fs::remove_file(world.path("fetch")).unwrap();
    } else {
        for at in hosts {
            let get = ["curl", "-sS", "-o", "back", &format!("http://{at}:8000/file")];
            let _ = Running::start(world.on_net(NET, &get)).finish().success();
            assert_eq!(sha256(&world.path("back")), digest, "{at}");
        }
    }
    for at in [STACK.to_owned(), format!("[{STACK6}]")] {
        let get = ["curl", "-sS", "-o", "back", &format!("http://{at}:8000/file")];
        let _ = world.run(&get).success();
        assert_eq!(sha256(&world.path("back")), digest, "{at}");
    }
    (begun, servers)
}

/// The lengths of the frames of a capture that `filter` takes.
fn lengths(world: &World, filter: &str) -> Vec<usize> {
    let sums = ["-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE"];
    let read = ["tshark", "-r", "f.pcapng", "-Y", filter, "-T", "fields", "-e", "frame.len"];
    let said = world.run(&[&read[..], &sums].concat()).success();
    said.stdout.lines().map(|len| len.parse().unwrap()).collect()
}

/// The longest frame of a capture that `filter` takes.
fn longest(world: &World, filter: &str) -> usize {
    lengths(world, filter).into_iter().max().unwrap_or_default()
}

/// The longest frames from the stack and from the kernel, of each family.
fn longest_frames(with: &[&str]) -> Option<[usize; 4]> {
    let (world, digest) = world(with)?;
    let (capture, servers) = both_ways(&world, &digest, || {
        let capture = Running::start(world.tasuki(&["capture", "-w", "f.pcapng", "--net", NET]));
        let _ = capture.line("capturing on");
        capture
    });
    capture.signal(rustix::process::Signal::INT);
    let _ = capture.finish().success();
    if with.contains(&"off") {
        // The driver divides each super-segment of the stack and computes the checksums of its
        // segments. (Where a sum is 0 the kernel writes ffff. Both mean the same, but tshark calls
        // ffff bad.)
        let ours = format!("(ip.src == {STACK} || ipv6.src == {STACK6})");
        let bad = "(tcp.checksum.status == 0 || ip.checksum.status == 0)";
        let bad = lengths(&world, &format!("{ours} && {bad}"));
        assert!(bad.is_empty(), "frames with a bad checksum: {bad:?}");
        assert_ne!(world.counter(NET, "nic.tx-cut"), 0);
        // Where the kernel has a thread for it, most of them were its.
        let counters = world.ps(NET).counters;
        let by_thread = counters.iter().find(|(name, _)| name == "tap.tx-by-thread");
        let (whole, sent) = (BYTES / FRAME, world.counter(NET, "nic.tx-packets"));
        assert!(by_thread.is_none_or(|(_, count)| *count as usize > whole), "{counters:?}");
        assert!(sent as usize > 2 * whole, "{sent}");
    }
    drop(servers);
    let from = [("ip", STACK), ("ip", HOST), ("ipv6", STACK6), ("ipv6", HOST6)];
    let longest = from.map(|(family, from)| {
        longest(&world, &format!("tcp.port == 8000 && {family}.src == {from}"))
    });
    world.down(NET);
    world.assert_nothing_left();
    Some(longest)
}

#[test]
fn super_segments_go_both_ways_of_both_families() {
    let Some(longest) = longest_frames(&[]) else { return };
    assert!(longest.iter().all(|&longest| longest > 4 * FRAME), "{longest:?}");
}

#[test]
fn without_offloads_every_frame_fits_the_link() {
    let Some(longest) = longest_frames(&["--offload", "off"]) else { return };
    assert_eq!(longest, [FRAME; 4]);
}

/// The other end of the device takes less than the stack: the kernel says so in its SYN.
#[test]
fn a_peer_whose_device_is_smaller_gets_everything() {
    for with in [&[][..], &["--offload", "off"]] {
        let Some((world, digest)) = world(with) else { return };
        let _ = world.run(&["ip", "link", "set", DEVICE, "mtu", "1280"]).success();
        drop(both_ways(&world, &digest, || ()));
        world.down(NET);
        world.assert_nothing_left();
    }
}

/// A host behind the kernel, by a link that takes less than either end knows.
const BEHIND: [&str; 12] = [
    "sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1",
    "ip netns add behind",
    "ip link add r0 mtu 1280 type veth peer name r1 netns behind",
    "ip addr add 10.219.9.1/24 dev r0",
    "ip addr add fd00:219:9::1/64 dev r0 nodad",
    "ip link set r0 up",
    "ip -n behind link set lo up",
    "ip -n behind addr add 10.219.9.2/24 dev r1",
    "ip -n behind addr add fd00:219:9::2/64 dev r1 nodad",
    "ip -n behind link set r1 up",
    "ip -n behind route add default via 10.219.9.1",
    "ip -n behind route add default via fd00:219:9::1",
];

/// The stack learns the path's MTU from the router's ICMP errors, and divides its unacknowledged
/// bytes anew.
#[test]
fn a_smaller_link_on_the_path_gets_everything() {
    for with in [&[][..], &["--offload", "off"]] {
        let Some((world, digest)) =
            world(&[with, &["--gateway", HOST, "--gateway", HOST6]].concat())
        else {
            return;
        };
        for line in BEHIND {
            let _ = world.run(&line.split(' ').collect::<Vec<_>>()).success();
        }
        for (at, port) in [("10.219.9.2", "8001"), ("[fd00:219:9::2]", "8002")] {
            let inside = ["ip", "netns", "exec", "behind"].map(str::to_owned);
            let sink = [&inside[..], &world.script("sink.py", &["::", port])].concat();
            let sink = world.spawn(&sink);
            let _ = sink.line("ready");
            let put = ["curl", "-sS", "-T", "file", &format!("http://{at}:{port}/file")];
            let _ = Running::start(world.on_net(NET, &put)).finish().success();
            assert_eq!(sink.line("sha256"), format!("sha256 {digest}"), "{at}");
        }
        // With its namespace the cable would go some time later.
        let _ = world.run(&["ip", "link", "del", "r0"]).success();
        let _ = world.run(&["ip", "netns", "del", "behind"]).success();
        world.down(NET);
        world.assert_nothing_left();
    }
}
