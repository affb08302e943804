//! Urgent data between a program on Tasuki and one on the kernel's TCP, both ways.

use tasuki_tests::{HOST, Mode, Running, STACK, World};

const NET: &str = "urgent";

/// Asserts that both ends print the same. The kernel's output is the measure.
fn same(kernel: &str, ours: &str) {
    assert!(kernel.lines().count() > 20, "too little: {kernel}");
    assert_eq!(ours, kernel, "Tasuki's output is on the left");
}

#[test]
fn urgent_bytes_go_both_ways_as_on_linux() {
    let Some(world) = World::new() else { return };
    world.up(NET, Mode::given(), &[]);
    // We connect.
    let kernel = world.spawn(&world.script("urgent.py", &["listen", "0.0.0.0", "7000"]));
    let _ = kernel.line("ready");
    let connect = world.script("urgent.py", &["connect", HOST, "7000"]);
    let ours = Running::start(world.on_net(NET, &connect)).finish().success();
    same(&kernel.finish().success().stdout, &ours.stdout);
    // We listen.
    let listen = world.script("urgent.py", &["listen", "0.0.0.0", "7001"]);
    let ours = Running::start(world.on_net(NET, &listen));
    let _ = ours.line("ready");
    let connect = world.script("urgent.py", &["connect", STACK, "7001"]);
    let kernel = world.run(&connect).success();
    same(&kernel.stdout, &ours.finish().success().stdout);
}
