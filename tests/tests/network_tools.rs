//! Tools that ask and measure: dig, sockperf, iperf3.

use rustix::process::Signal;
use tasuki_tests::{HOST, ProgramWorld, STACK, program};

/// Both hosts ask a server of the far host and one on Tasuki, by UDP and by TCP.
#[test]
fn dig_asks_over_udp_and_tcp() {
    let Some(world) = ProgramWorld::new(&["dig"]) else { return };
    let server = world.python(&[&program("network_tools/dns.py"), "5300"]);
    let servers = [world.spawn(&server), world.start(&server)];
    for server in &servers {
        let _ = server.line("ready");
    }
    for at in [HOST, STACK] {
        let at = format!("@{at}");
        let ask = ["dig", &at, "-p", "5300", "+short", "+noedns", "+time=30"];
        for (more, count) in [(&["small.example"][..], 1), (&["+tcp", "small.example"], 1)]
            .into_iter()
            // Its answer by UDP is cut off, so dig asks again by TCP.
            .chain([(&["big.example"][..], 200)])
        {
            world.run_on_both(&[&ask[..], more].concat(), |said| {
                let said = said.success();
                let rows = said.stdout.lines().filter(|row| row.starts_with("10.1.2."));
                assert_eq!(rows.count(), count, "{said}");
            });
        }
    }
    for server in servers {
        server.signal(Signal::KILL);
        let _ = server.finish();
    }
    world.end();
}

/// Round trips and a stream of messages, of which none is lost, doubled or out of order.
#[test]
fn sockperf_measures_over_udp_and_tcp() {
    let Some(world) = ProgramWorld::new(&["sockperf"]) else { return };
    for tcp in [&[][..], &["--tcp"]] {
        let at = ["-i", STACK, "-p", "9000"];
        let server = world.start(&[&["sockperf", "server"], &at[..], tcp].concat());
        let _ = server.line("using recvfrom");
        let ping = [&["sockperf", "ping-pong", "-t", "1"], &at[..], tcp].concat();
        world.run_on_both(&ping, |said| {
            let said = said.success();
            let right =
                "dropped messages = 0; # duplicated messages = 0; # out-of-order messages = 0";
            assert!(said.stdout.contains(right), "{said}");
        });
        server.signal(Signal::KILL);
        let _ = server.finish();
    }
    world.end();
}

/// Several streams, both directions, datagrams.
fn iperf3(ways: &[&[&str]]) {
    let Some(world) = ProgramWorld::new(&["iperf3"]) else { return };
    let mut server = world.start(&["iperf3", "-s", "-p", "5201"]);
    world.listens(&mut server, 5201);
    for way in ways {
        let words = [&["iperf3", "-c", STACK, "-p", "5201", "-n", "4M"], *way].concat();
        for inside in [false, true] {
            // The server makes a new listener after each client.
            world.listens(&mut server, 5201);
            let said = if inside { world.run_inside(&words) } else { world.run(&words) };
            assert!(said.success().stdout.contains("iperf Done"));
        }
    }
    server.signal(Signal::TERM);
    let _ = server.finish();
    world.end();
}

#[test]
fn iperf3_sends_and_receives() {
    iperf3(&[&[], &["-R", "-P", "4"]]);
}

#[test]
#[ignore = "long: `make test-programs` runs it"]
fn iperf3_in_all_ways() {
    iperf3(&[
        &["-P", "8"],
        &["-R", "-P", "8"],
        &["--bidir"],
        &["-u", "-b", "100M"],
        &["-u", "-R", "-b", "100M"],
    ]);
}
