//! The kernel pings the stack.

use tasuki_tests::{Mode, STACK, World};

fn ping(mode: Mode) {
    let Some(world) = World::with_kernel() else { return };
    world.up("ping", mode, &[]);
    for size in ["0", "56", "500", "1472"] {
        // Without -w it waits for the last answer for two round trips only.
        let said = world.run(&["ping", "-c", "5", "-i", "0.05", "-w", "20", "-s", size, STACK]);
        let said = said.answered(5);
        assert!(!said.stdout.contains("wrong data byte"), "{said}");
    }
    world.down("ping");
    world.assert_nothing_left();
}

#[test]
fn every_size_is_answered_in_split_mode() {
    ping(Mode::Split);
}

#[test]
fn every_size_is_answered_in_fused_mode() {
    ping(Mode::Fused);
}
