//! The C library's streams on Tasuki sockets, also as standard input and output after exec.

use tasuki_tests::{Mode, Running, World, program};

#[test]
fn a_server_that_inetd_starts_talks_by_stdio() {
    let Some(world) = World::with_kernel() else { return };
    // Fortified, so the `__*_chk` variants are called.
    let words = ["gcc", "-O2", "-D_FORTIFY_SOURCE=2", "-Wall", "-Wextra", "-Werror", "-o", "stdio"];
    let source = program("stdio.c");
    let words: Vec<_> = words.into_iter().chain([&*source]).collect();
    let _ = world.run(&words).success();
    let kernel = Running::start(world.command(&["./stdio"])).finish().success();
    assert!(kernel.stdout.ends_with("lines 1000 status 0\n"), "{kernel}");
    let Some(mode) = Mode::shared() else { return };
    let tasuki = Running::start(world.on_stack(mode, &["./stdio"])).finish().success();
    assert_eq!((tasuki.stdout, tasuki.stderr), (kernel.stdout, kernel.stderr));
    world.assert_nothing_left();
}
