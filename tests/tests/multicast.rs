//! Multicast with unmodified programs. Each program runs on the kernel and on Tasuki: their output
//! must be the same, and one receives the other's datagrams.

use tasuki_tests::{DEVICE, HOST, Mode, Running, STACK, World};

const NET: &str = "groups";
const HOST6: &str = "fd00:219:7::1";
const STACK6: &str = "fd00:219:7::2";

/// A program on the kernel or on the stack.
fn start(world: &World, kernel: bool, words: &[&str]) -> Running {
    let device = if kernel { DEVICE } else { "eth0" };
    let words = [&words[..3], &[device], &words[3..]].concat();
    let words = world.script("groups.py", &words);
    if kernel { world.spawn(&words) } else { Running::start(world.on_net(NET, &words)) }
}

#[test]
fn groups_are_heard_and_spoken_to_as_on_linux() {
    let Some(world) = World::with_kernel() else { return };
    world.up(NET, Mode::given(), &["--ip", &format!("{STACK6}/64")]);
    for (group, kernel, ours) in [("239.7.7.7", HOST, STACK), ("ff15::77", HOST6, STACK6)] {
        let mut said = Vec::new();
        for on_kernel in [true, false] {
            let listener = start(&world, on_kernel, &["listen", group, "7777"]);
            let _ = listener.line("ready");
            let speaker = start(&world, !on_kernel, &["say", group, "7777", "3"]);
            let spoken = speaker.finish().success().stdout;
            let heard = listener.finish().success().stdout;
            // The speaker was the other one.
            let from = if on_kernel { ours } else { kernel };
            assert!(heard.contains(&format!("got hello from {from}")), "{group}: {heard}");
            let heard = heard.replace(from, "the other");
            said.push((heard, spoken));
        }
        assert_eq!(said[0].0, said[1].0, "{group}: listening on the kernel, on Tasuki");
        assert_eq!(said[1].1, said[0].1, "{group}: speaking from the kernel, from Tasuki");
    }
    world.down(NET);
}
