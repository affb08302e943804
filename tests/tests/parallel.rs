//! Two hundred connections at once.

use tasuki_tests::{HOST, Mode, Running, STACK, World, sha256, write_noise};

const COUNT: &str = "200";
const BYTES: &str = "262144";

#[test]
fn from_one_program_on_the_stack() {
    let Some(world) = World::new() else { return };
    let echo = world.spawn(&world.script("echo.py", &["0.0.0.0", "8000"]));
    let _ = echo.line("ready");
    let many = world.script("many.py", &[HOST, "8000", COUNT, BYTES]);
    let said = Running::start(world.on_stack(Mode::given(), &many)).finish().success();
    assert!(said.stdout.contains("connected 200\nechoed 52428800"), "{said}");
}

#[test]
fn to_one_program_on_the_stack() {
    let Some(world) = World::new() else { return };
    let echo = world.script("echo.py", &["0.0.0.0", "8000"]);
    let echo = Running::start(world.on_stack(Mode::given(), &echo));
    let _ = echo.line("ready");
    let said = world.run(&world.script("many.py", &[STACK, "8000", COUNT, BYTES])).success();
    assert!(said.stdout.contains("connected 200\nechoed 52428800"), "{said}");
}

/// A thread of the server for each connection: more threads than a client's region has slots at
/// first.
#[test]
fn to_a_thread_each() {
    let Some(world) = World::new() else { return };
    write_noise(&world.path("file"), 256 << 10, 2);
    let server = world.script("serve.py", &["0.0.0.0", "8000"]);
    let server = Running::start(world.on_stack(Mode::given(), &server));
    let _ = server.line("ready");
    let url = format!("http://{STACK}:8000/file");
    let said = world.run(&world.script("fetch_many.py", &[&url, COUNT])).success();
    assert_eq!(said.stdout.trim(), format!("200 {}", sha256(&world.path("file"))), "{said}");
}
