//! The watch over the host's network, on which the tests of programs rely, sees what it has to.

use tasuki_tests::{HOST, ProgramWorld, Running, STACK};

/// One datagram to each kind of address, by a program that is not the far host's.
#[test]
fn the_watch_counts_programs_that_use_the_hosts_network() {
    let Some(world) = ProgramWorld::new(&[]) else { return };
    for (count, to) in ["192.0.2.1", "127.0.0.1", HOST, STACK, "2001:db8::1"].iter().enumerate() {
        let code = format!(
            "import socket\n\
             s = socket.socket(socket.AF_INET6 if ':' in '{to}' else socket.AF_INET, 2)\n\
             try: s.sendto(b'x', ('{to}', 9))\n\
             except OSError: pass\n"
        );
        let words = world.python(&["-c", &code]);
        let _ = world.run(&words).success();
        let _ = world.run_inside(&words).success();
        assert_eq!(world.leaked(), count as u64, "the far host and Tasuki are not counted");
        let _ = Running::start(world.command(&words)).finish().success();
        assert_eq!(world.leaked(), count as u64 + 1, "a packet to {to} is counted");
    }
}
