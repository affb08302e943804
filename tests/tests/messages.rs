//! Datagrams and their control messages. The same programs print the same on the kernel and on
//! Tasuki, and each receives the other's datagrams.

use tasuki_tests::{DEVICE, HOST, HOST6, Mode, Running, STACK, World};

const NET: &str = "messages";
const STACK6: &str = "fd00:219:7::2";

/// The program on the kernel or on the stack.
fn start(world: &World, kernel: bool, words: &[&str]) -> Running {
    let words = world.script("messages.py", words);
    if kernel { world.spawn(&words) } else { Running::start(world.on_net(NET, &words)) }
}

#[test]
fn control_messages_and_errors_are_those_of_linux() {
    let Some(world) = World::with_kernel() else { return };
    world.up(NET, Mode::given(), &["--ip", &format!("{STACK6}/64")]);
    for (theirs, ours) in [(HOST, STACK), (HOST6, STACK6)] {
        let mut said = Vec::new();
        for on_kernel in [true, false] {
            let (here, there) = if on_kernel { (theirs, ours) } else { (ours, theirs) };
            let device = if on_kernel { DEVICE } else { "eth0" };
            let receiver = start(&world, on_kernel, &["receive", here, "7777", device]);
            let _ = receiver.line("ready");
            let sent = start(&world, !on_kernel, &["send", there, "7777", here]);
            let sent = sent.finish().success().stdout;
            said.push((receiver.finish().success().stdout, sent));
        }
        assert_eq!(said[0].0, said[1].0, "{theirs}: receiving on the kernel, on Tasuki");
        assert_eq!(said[1].1, said[0].1, "{theirs}: sending from the kernel, from Tasuki");
        assert!(said[0].0.lines().count() > 15, "{}", said[0].0);
    }
    world.down(NET);
}

#[test]
fn equal_datagrams_are_joined() {
    let Some(world) = World::with_kernel() else { return };
    world.up(NET, Mode::given(), &[]);
    for on_kernel in [true, false] {
        let (here, there) = if on_kernel { (HOST, STACK) } else { (STACK, HOST) };
        let receiver = start(&world, on_kernel, &["joined", here, "7777", "-"]);
        let _ = receiver.line("ready");
        let _ = start(&world, !on_kernel, &["burst", there, "7777", here]).finish().success();
        assert!(receiver.finish().success().stdout.contains("joined True"));
    }
    world.down(NET);
}

/// TCP_INQ: how much of a stream is left to be read.
#[test]
fn streams_tell_what_is_left() {
    same_on_both("unread.py", "taken over 1");
}

/// TCP_NOTSENT_LOWAT: how much of a stream may wait to leave.
#[test]
fn streams_bound_what_waits_to_leave() {
    same_on_both("unsent.py", "at half of it True\nat all of it True\nwith a larger bound True");
}

/// The program prints the same on the kernel and on the stack, `part` among it.
fn same_on_both(script: &str, part: &str) {
    let Some(world) = World::with_kernel() else { return };
    world.up(NET, Mode::given(), &[]);
    let words = world.script(script, &[]);
    let kernel = world.run(&words).success().stdout;
    let ours = Running::start(world.on_net(NET, &words)).finish().success().stdout;
    assert_eq!(kernel, ours);
    assert!(kernel.contains(part), "{kernel}");
    world.down(NET);
}
