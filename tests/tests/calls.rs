//! Programs that make packaged calls themselves: in C, and with tasks.

use std::path::PathBuf;
use std::process::Command;

use tasuki_tests::{HOST, Mode, Running, STACK, World, skip, tasuki_binary};

/// A file that cargo put beside the `tasuki` binary, or beside this test.
fn built(name: &str) -> Option<PathBuf> {
    let test = std::env::current_exe().expect("this test's own path");
    let beside = test.ancestors().nth(2).map(|folder| folder.join(name));
    let all = [Some(tasuki_binary().with_file_name(name)), beside];
    let found = all.into_iter().flatten().find(|path| path.exists());
    if found.is_none() {
        skip(&format!("{name} is not built: `cargo test --workspace` builds it"));
    }
    found
}

fn source(path: &str) -> String {
    format!("{}/../{path}", env!("CARGO_MANIFEST_DIR"))
}

/// The example in C checks what its header promises; linked with the static library, as by users.
#[test]
fn a_program_in_c_makes_packaged_calls() {
    let Some(library) = built("libtasuki.a") else { return };
    let Some(world) = World::new() else { return };
    let program = world.file("calls");
    let mut gcc = Command::new("gcc");
    gcc.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-o", &program]);
    gcc.arg(format!("-I{}", source("crates/c/include"))).arg(source("examples/calls.c"));
    gcc.arg(library).args(["-lpthread", "-ldl", "-lm", "-lgcc_s"]);
    let compiled = gcc.output().expect("gcc runs");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let echo = world.spawn(&world.script("echo.py", &["0.0.0.0", "7"]));
    let _ = echo.line("ready");
    for mode in [Mode::Split, Mode::Fused] {
        let said = Running::start(world.on_stack(mode, &[&program, HOST, "7"])).finish().success();
        assert!(said.stdout.contains("all well"), "{said}");
    }
}

/// Many connections of one thread, in tasks: as client of a kernel's server, and as its server.
fn tasks_carry_many_connections(name: &str) {
    let Some(program) = built(&format!("examples/{name}")) else { return };
    let program = program.to_str().expect("a plain path");
    let Some(world) = World::new() else { return };
    let echo = world.spawn(&world.script("echo.py", &["0.0.0.0", "7"]));
    let _ = echo.line("ready");
    for mode in [Mode::Split, Mode::Fused] {
        let words = [program, "client", &format!("{HOST}:7"), "500"];
        let said = Running::start(world.on_stack(mode, &words)).finish().success();
        assert!(said.stdout.contains("500 connections answered"), "{said}");
        let server = Running::start(world.on_stack(mode, &[program, "server", "0.0.0.0:7007"]));
        let _ = server.line("listening");
        let said = world.run(&world.python(&["-c", ASK, STACK, "7007"])).success();
        assert!(said.stdout.contains("200 answers"), "{said}");
        server.signal(rustix::process::Signal::TERM);
        let _ = server.finish();
    }
    drop(echo);
}

#[test]
fn our_tasks_carry_many_connections() {
    tasks_carry_many_connections("tasks");
}

#[test]
fn tokio_s_tasks_carry_many_connections() {
    tasks_carry_many_connections("tokio_tasks");
}

/// A hundred connections at once of the kernel's side, each asked twice.
const ASK: &str = r#"
import socket, sys
to = (sys.argv[1], int(sys.argv[2]))
crowd = [socket.create_connection(to) for _ in range(100)]
answers = 0
for round in range(2):
    for n, one in enumerate(crowd):
        one.sendall(b"%06d" % n * 500)
    for n, one in enumerate(crowd):
        got = b""
        while len(got) < 3000:
            got += one.recv(3000) or sys.exit("the end")
        assert got == b"%06d" % n * 500
        answers += 1
print(answers, "answers")
"#;
