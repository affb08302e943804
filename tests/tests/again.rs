//! Connections one after the other. Each finds the remains of the one before: kept descriptors,
//! sockets made ahead, ports in TIME-WAIT.

use tasuki_tests::{HOST, Mode, Running, World};

fn again(mode: Mode) {
    let Some(world) = World::new() else { return };
    let echo = world.spawn(&world.script("echo.py", &["0.0.0.0", "8000"]));
    let _ = echo.line("ready");
    let again = world.script("again.py", &[HOST, "8000"]);
    let said = Running::start(world.on_stack(mode, &again)).finish().success();
    assert!(said.stdout.contains("again and again"), "{said}");
    drop(echo);
    world.assert_nothing_left();
}

#[test]
fn connections_one_after_the_other_in_split_mode() {
    again(Mode::Split);
}

#[test]
fn connections_one_after_the_other_in_fused_mode() {
    again(Mode::Fused);
}
