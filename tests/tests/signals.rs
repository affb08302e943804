//! Signals and waits of unmodified programs, on the kernel's stack and ours.

use std::process::Command;

use tasuki_tests::{HOST, Mode, Running, World, program};

/// The outcome of each send on Linux. SIGUSR1 has a handler with SA_RESTART, SIGUSR2 one without.
const LINES: [&str; 5] = [
    "some bytes taken, SIGUSR2: part",
    "some bytes taken, SIGUSR1: part",
    "nothing taken, SIGUSR2: EINTR",
    "nothing taken, SIGUSR1, time limit: EINTR",
    "nothing taken, SIGUSR1: goes on",
];

/// Compiles a program of `tests/programs`.
fn compile(executable: &str, source: &str) {
    let mut gcc = Command::new("gcc");
    gcc.args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-o", executable]);
    let compiled = gcc.arg(program(source)).arg("-pthread").output().expect("gcc runs");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
}

/// Runs the program by `command`, with `more` arguments. Compares its lines with those of Linux.
/// Compares the sum of its counts with the number of bytes that the peer reads.
fn assert_outcomes(
    world: &World,
    to: [&str; 2],
    more: &[&str],
    command: impl Fn(&[&str]) -> Command,
) {
    let [address, port] = to;
    let peer = world.command(&world.script("interrupted_peer.py", &["0.0.0.0", port]));
    let peer = Running::start(peer);
    let _ = peer.line("ready");
    let executable = world.file("send");
    let words = [&[&executable, address, port], more].concat();
    let sender = Running::start(command(&words)).finish().success();
    let lines: Vec<_> = sender.stdout.lines().collect();
    let (sent, outcomes) = lines.split_last().expect("the program prints lines");
    assert_eq!(outcomes, LINES, "{sender}");
    let read = peer.finish().success();
    let count = sent.strip_prefix("sent ").expect("the last line has the sum of all counts");
    assert!(read.stdout.ends_with(&format!("read {count}\n")), "{sender}{read}");
}

#[test]
fn an_interrupted_send_returns_its_count_or_eintr() {
    let Some(world) = World::with_kernel() else { return };
    compile(&world.file("send"), "interrupted_send.c");
    assert_outcomes(&world, ["127.0.0.1", "9000"], &[], |words| world.command(words));
    // In mode library SA_RESTART counts only if all handlers have it: see
    // docs/reference/limits-programs.md.
    for (mode, port, more) in [
        (Mode::Split, "9001", &[][..]),
        (Mode::Fused, "9002", &[]),
        (Mode::Library, "9003", &["restart-only"]),
    ] {
        assert_outcomes(&world, [HOST, port], more, |words| world.on_stack(mode, words));
    }
}

/// The kernel's stack as well: the program expects what Linux does.
#[test]
fn owners_of_sockets_get_sigio_and_sigurg() {
    let Some(world) = World::with_kernel() else { return };
    let run = |to: &str, port: &str, command: &dyn Fn(&[String]) -> Command| {
        let peer = Running::start(
            world.command(&world.script("signalled.py", &["peer", "0.0.0.0", port])),
        );
        let _ = peer.line("ready");
        let words = world.script("signalled.py", &["owner", to, port]);
        let said = Running::start(command(&words)).finish().success();
        let lines: Vec<_> = said.stdout.lines().collect();
        let all = ["urgent", "input", "details", "process", "datagram", "over"];
        assert_eq!(lines, all, "{said}");
        let _ = peer.finish().success();
    };
    run("127.0.0.1", "9001", &|words| world.command(words));
    run(HOST, "9002", &|words| world.on_stack(Mode::Split, words));
    run(HOST, "9003", &|words| world.on_stack(Mode::Fused, words));
}

/// The kernel's stack as well: the program expects what Linux does. In mode `library` the masks are
/// not atomic: see docs/reference/limits-programs.md.
#[test]
fn no_signal_is_missed_that_a_mask_lets_in() {
    let Some(world) = World::with_kernel() else { return };
    let executable = world.file("masked");
    compile(&executable, "masked_waits.c");
    let kernel = Running::start(world.command(&[&executable])).finish().success();
    let Some(mode) = Mode::shared() else { return };
    let tasuki = Running::start(world.on_stack(mode, &[&executable])).finish().success();
    assert_eq!((tasuki.stdout, tasuki.stderr), (kernel.stdout, kernel.stderr));
    world.assert_nothing_left();
}

/// The kernel's stack as well: the program expects what Linux and its C library do.
#[test]
fn threads_are_cancelled_in_socket_calls() {
    let Some(world) = World::with_kernel() else { return };
    let executable = world.file("cancelled");
    compile(&executable, "cancelled.c");
    let kernel = Running::start(world.command(&[&executable])).finish().success();
    let tasuki = world.on_stack(Mode::given(), &[&executable]);
    let tasuki = Running::start(tasuki).finish().success();
    assert_eq!((tasuki.stdout, tasuki.stderr), (kernel.stdout, kernel.stderr));
    world.assert_nothing_left();
}

/// The kernel's stack as well. A handler that interrupts a call of the library waits for its end.
#[test]
fn signal_handlers_make_socket_calls() {
    let Some(world) = World::with_kernel() else { return };
    let executable = world.file("calls");
    compile(&executable, "handler_calls.c");
    let run = |address: &str, port: &str, command: &dyn Fn(&[&str]) -> Command| {
        let peer = world.command(&world.script("echo.py", &["0.0.0.0", port]));
        let peer = Running::start(peer);
        let _ = peer.line("ready");
        let said = Running::start(command(&[&executable, address, port])).finish().success();
        assert_eq!(said.stdout, "all bytes came back\n", "{said}");
    };
    run("127.0.0.1", "9001", &|words| world.command(words));
    let Some(mode) = Mode::shared() else { return };
    run(HOST, "9002", &|words| world.on_stack(mode, words));
}

/// What sigaction(2), signal(2) and their relatives say and do, on the kernel's stack and ours.
#[test]
fn handlers_are_installed_as_on_linux() {
    let Some(world) = World::with_kernel() else { return };
    let executable = world.file("actions");
    compile(&executable, "handler_calls.c");
    for part in ["actions", "interrupted"] {
        let kernel = Running::start(world.command(&[&executable, part])).finish().success();
        let Some(mode) = Mode::shared() else { return };
        let tasuki = world.on_stack(mode, &[&executable, part]);
        let tasuki = Running::start(tasuki).finish().success();
        assert_eq!((tasuki.stdout, tasuki.stderr), (kernel.stdout, kernel.stderr));
    }
    world.assert_nothing_left();
}
