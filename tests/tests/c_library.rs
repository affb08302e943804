//! The C library's calls, in the ways in which programs make them.

use std::process::Command;

use tasuki_tests::{Mode, Running, World, program};

/// Compiles a program of `tests/programs`, with `more` options.
fn compile(world: &World, source: &str, more: &[&str]) -> String {
    let executable = world.file("program");
    let mut gcc = Command::new("gcc");
    gcc.args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-o", &executable]);
    let compiled = gcc.args(more).arg(program(source)).output().expect("gcc runs");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    executable
}

/// The program's expectations hold on the kernel's stack and on ours.
fn agrees(source: &str) {
    let Some(world) = World::new() else { return };
    let executable = compile(&world, source, &[]);
    let kernel = Running::start(world.command(&[&executable])).finish().success();
    assert!(kernel.stdout.ends_with("all\n"), "{kernel}");
    for mode in [Mode::Split, Mode::Fused] {
        let said = Running::start(world.on_stack(mode, &[&executable])).finish().success();
        assert!(said.stdout.ends_with("all\n"), "{said}");
    }
    world.assert_nothing_left();
}

#[test]
fn threads_with_the_smallest_stack_use_sockets() {
    agrees("small_stack.c");
}
