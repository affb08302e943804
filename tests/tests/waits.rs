//! Waits on all kinds of descriptors, and calls by their numbers: as on the kernel's stack.

use tasuki_tests::{Mode, Running, World, program};

/// Runs `words` on the kernel's stack and on an instance's: they say the same.
fn says_the_same(world: &World, words: &[String]) {
    let kernel = Running::start(world.command(words)).finish().success();
    let tasuki = Running::start(world.on_stack(Mode::given(), words)).finish().success();
    assert_eq!((tasuki.stdout, tasuki.stderr), (kernel.stdout, kernel.stderr));
    world.assert_nothing_left();
}

/// select, poll and epoll, of sockets, sets and the kernel's descriptors in pairs; errors of
/// epoll_ctl; no descriptor is free.
#[test]
fn all_kinds_of_descriptors_wait_together() {
    let Some(world) = World::with_kernel() else { return };
    says_the_same(&world, &world.script("waits.py", &[]));
}

#[test]
fn calls_through_syscall_are_as_the_kernels() {
    let Some(world) = World::with_kernel() else { return };
    let (path, source) = (world.file("by_number"), program("by_number.c"));
    let _ = world.run(&["gcc", "-Wall", "-Wextra", "-Werror", &source, "-o", &path]).success();
    says_the_same(&world, &[path]);
}
