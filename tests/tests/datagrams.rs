//! Calls on datagram sockets and their options, row by row: each program prints the same on the
//! kernel and on Tasuki.

use tasuki_tests::{DEVICE, HOST, HOST6, Mode, Running, STACK, World};

const NET: &str = "datagrams";
const STACK6: &str = "fd00:219:7::2";

/// Runs the program on the kernel and on the stack, with the addresses and the interface of each.
/// `parts` are further arguments.
fn same_on_both(script: &str, parts: &[&str]) {
    let Some(world) = World::with_kernel() else { return };
    world.up(NET, Mode::given(), &["--ip", &format!("{STACK6}/64")]);
    let words = |here: [&str; 3]| world.script(script, &[&here[..], parts].concat());
    let kernel = world.run(&words([HOST, HOST6, DEVICE])).success().stdout;
    let on_stack = world.on_net(NET, &words([STACK, STACK6, "eth0"]));
    let ours = Running::start(on_stack).finish().success().stdout;
    for (kernel, ours) in kernel.lines().zip(ours.lines()) {
        assert_eq!(kernel, ours, "{script}: the kernel's row, and ours");
    }
    assert_eq!(kernel, ours, "{script}: rows");
    assert!(kernel.lines().count() > 5, "{script}: {kernel}");
    world.down(NET);
}

/// shutdown(2) wakes whoever waits, with and without a peer.
#[test]
fn shutdown_is_as_on_linux() {
    same_on_both("datagram_shutdown.py", &[]);
}
