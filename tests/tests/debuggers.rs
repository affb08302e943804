//! Programs around a program of `tasuki run`, or within it: strace, gdb, valgrind, libraries.

use tasuki_tests::{HOST, ProgramWorld, Running, program};

/// A world with a server of the far host that answers with what it gets.
fn world(programs: &[&str]) -> Option<(ProgramWorld, Running)> {
    let world = ProgramWorld::new(&[programs, &["nc"]].concat())?;
    let echo = world.spawn(&world.script("echo.py", &["0.0.0.0", "8000"]));
    let _ = echo.line("ready");
    std::fs::write(world.path("sent"), "hello over Tasuki\n").expect("a file");
    Some((world, echo))
}

/// nc, which sends a line and prints the answer.
fn nc() -> [String; 5] {
    ["nc", "-N", "-w60", HOST, "8000"].map(str::to_owned)
}

/// Runs the words on the instance, with the line as standard input.
fn exchange(world: &ProgramWorld, how: &str, tool: &[&str]) -> tasuki_tests::Finished {
    let words = [&tool.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>()[..], &nc()];
    let line = format!("exec {} < sent", words.concat().join(" "));
    let said = world.start_with(&["--intercept", how], &["sh", "-c", &line]).finish().success();
    assert!(said.stdout.contains("hello over Tasuki"), "{said}");
    said
}

fn end(world: &ProgramWorld, echo: Running) {
    drop(echo);
    world.end();
}

#[test]
fn strace_follows_a_program() {
    let Some((world, echo)) = world(&["strace"]) else { return };
    let _ = exchange(&world, "auto", &["strace", "-f", "-o", "trace"]);
    let trace = std::fs::read_to_string(world.path("trace")).expect("a trace");
    assert!(trace.contains("execve(") && trace.contains("exited with 0"), "{trace}");
    assert!(!trace.contains("sin_addr"), "its socket calls are the library's: {trace}");
    end(&world, echo);
}

#[test]
fn gdb_runs_a_program() {
    let Some((world, echo)) = world(&["gdb"]) else { return };
    let gdb = ["gdb", "-q", "-batch", "-nx", "-ex", "run", "--args"];
    let said = exchange(&world, "auto", &gdb);
    assert!(said.stdout.contains("exited normally"), "{said}");
    end(&world, echo);
}

/// The kernel's auxiliary vector names a vDSO that valgrind unmaps; libc's copy does not.
#[test]
fn valgrind_checks_a_program() {
    let Some((world, echo)) = world(&["valgrind"]) else { return };
    let said = exchange(&world, "auto", &["valgrind"]);
    assert!(said.stderr.contains("ERROR SUMMARY: 0 errors"), "{said}");
    end(&world, echo);
}

/// A library that the user has named for the command is loaded beside Tasuki's.
#[test]
fn another_library_is_loaded_too() {
    let Some((world, echo)) = world(&["gcc"]) else { return };
    let source = program("debuggers/other.c");
    let words = ["gcc", "-shared", "-fPIC", "-Wall", "-Werror", "-o", "other.so", &source];
    let _ = world.run(&words).success();
    let preload = format!("LD_PRELOAD={}", world.file("other.so"));
    let line = format!("exec {} < sent", nc().join(" "));
    let tasuki = tasuki_tests::tasuki_binary();
    let tasuki = tasuki.to_str().expect("a plain path");
    let around = ["env", &preload, tasuki, "run", "--net", "programs", "--", "sh", "-c", &line];
    let said = Running::start(world.command(&around)).finish().success();
    assert!(said.stdout.contains("hello over Tasuki"), "{said}");
    assert!(said.stderr.contains("other library"), "{said}");
    end(&world, echo);
}
