//! Errors. Programs get those of Linux, users get one sentence.

use std::os::unix::fs::PermissionsExt as _;

use tasuki_tests::{DEVICE, Finished, HOST, Mode, Nic, Running, STACK, World, tasuki_binary};

/// The result of `connect` on the stack.
fn connect(world: &World, words: &[&str]) -> String {
    let program = world.script("try_connect.py", words);
    let said = Running::start(world.on_stack(Mode::given(), &program)).finish().success();
    said.stdout.trim().to_owned()
}

#[test]
fn a_closed_port_refuses() {
    let Some(world) = World::new() else { return };
    assert_eq!(connect(&world, &[HOST, "9"]), "ECONNREFUSED");
}

#[test]
fn the_stacks_closed_port_refuses() {
    let Some(world) = World::new() else { return };
    let Some(mode) = Mode::shared() else { return };
    world.up("closed", mode, &[]);
    let said = world.run(&world.script("try_connect.py", &[STACK, "9"])).success();
    assert_eq!(said.stdout.trim(), "ECONNREFUSED", "{said}");
}

#[test]
fn a_host_that_is_not_there_is_unreachable() {
    let Some(world) = World::new() else { return };
    assert_eq!(connect(&world, &["10.219.7.77", "80"]), "EHOSTUNREACH");
}

#[test]
fn a_silent_host_times_out() {
    let Some(world) = World::with_kernel() else { return };
    world.up("silent", Mode::given(), &[]);
    // The kernel answers ARP, but every packet it would send to the stack falls into a hole.
    let hole = ["ip", "route", "add", "blackhole", &format!("{STACK}/32")];
    let _ = world.run(&hole).success();
    let program = world.script("try_connect.py", &[HOST, "9", "1500"]);
    let said = Running::start(world.on_net("silent", &program)).finish().success();
    assert_eq!(said.stdout.trim(), "ETIMEDOUT", "{said}");
}

/// Asserts that standard error has exactly one sentence.
fn one_sentence(said: &Finished, contains: &str) {
    assert!(said.stderr.contains(contains), "{contains:?} is not in: {said}");
    assert_eq!(said.stderr.trim_end().lines().count(), 1, "more than one line: {said}");
}

fn run(world: &World, words: &[&str]) -> Finished {
    Running::start(world.on_stack(Mode::given(), words)).finish()
}

#[test]
fn programs_that_cannot_be_run() {
    let Some(world) = World::new() else { return };
    one_sentence(&run(&world, &["no-such-program"]).code(127), "no-such-program");
    std::fs::write(world.path("plain"), "text\n").unwrap();
    one_sentence(&run(&world, &["./plain"]).code(126), "plain");
    std::fs::write(world.path("main.c"), "int main(void) { return 0; }\n").unwrap();
    let _ = world.run(&["gcc", "-static", "-o", "static", "main.c"]).success();
    let alone = world.on_stack_with(Mode::given(), &["--intercept", "preload"], &["./static"]);
    one_sentence(&Running::start(alone).finish().code(121), "static");
    world.assert_nothing_left();
}

#[test]
fn the_exit_code_is_the_programs() {
    let Some(world) = World::new() else { return };
    let _ = run(&world, &["sh", "-c", "exit 42"]).code(42);
    let _ = run(&world, &["sh", "-c", "kill -9 $$"]).code(128 + 9);
    let _ = run(&world, &["true"]).code(0);
    world.assert_nothing_left();
}

#[test]
fn unread_messages_end_no_program() {
    let Some(world) = World::new() else { return };
    let words = world.python(&["-c", "import socket\nsocket.socket()\nraise SystemExit(7)"]);
    for mode in [Mode::Split, Mode::Fused, Mode::Library] {
        let (_, unheard) = std::io::pipe().unwrap();
        let mut command = world.on_stack(mode, &words);
        let status = command.env("TASUKI_LOG", "trace").stderr(unheard).status().unwrap();
        assert_eq!(status.code(), Some(7), "{mode:?}");
    }
    world.assert_nothing_left();
}

#[test]
fn signals_are_passed_on() {
    let Some(world) = World::new() else { return };
    let program =
        ["sh", "-c", "trap 'echo trapped; exit 3' TERM; echo ready; while :; do sleep 0.02; done"];
    let running = Running::start(world.on_stack(Mode::given(), &program));
    let _ = running.line("ready");
    running.signal(rustix::process::Signal::TERM);
    let said = running.finish().code(3);
    assert!(said.stdout.contains("trapped"), "{said}");
    world.assert_nothing_left();
}

#[test]
fn a_wrong_configuration_is_explained() {
    let Some(world) = World::new() else { return };
    std::fs::write(world.path("bad.toml"), "[inet]\nadress = \"10.219.7.2/24\"\n").unwrap();
    let words = ["run", "--config", "bad.toml", "--", "true"];
    let said = Running::start(world.tasuki(&words)).finish().code(118);
    one_sentence(&said, "did you mean `address`?");
    assert!(said.stderr.contains("bad.toml:2"), "the line is named: {said}");
    let words = ["up", "--config", "missing.toml", "net"];
    let said = Running::start(world.tasuki(&words)).finish().code(118);
    one_sentence(&said, "missing.toml");
    std::fs::write(world.path("bad.toml"), "[memory.client]\ntx_pages = 12\n").unwrap();
    let words = ["up", "--config", "bad.toml", "net"];
    let said = Running::start(world.tasuki(&words)).finish().code(118);
    one_sentence(&said, "bad.toml: ");
    one_sentence(&said, "use fewer sockets, smaller areas or more pages");
    world.assert_nothing_left();
}

#[test]
fn a_name_or_address_in_use_is_named() {
    let Some(world) = World::over(Nic::Tap) else { return };
    world.up("first", Mode::given(), &[]);
    let said = Running::start(world.tasuki(&["up", "first"])).finish().code(123);
    one_sentence(&said, "first");
    let nic = format!("tap:{DEVICE}");
    let words = ["run", "--nic", &nic, "--address", "10.219.8.2/24", "--", "true"];
    let said = Running::start(world.tasuki(&words)).finish().code(120);
    one_sentence(&said, DEVICE);
    let address = format!("{STACK}/24");
    let words = ["run", "--nic", "tap:other0", "--address", &address, "--", "true"];
    let said = Running::start(world.tasuki(&words)).finish().code(120);
    one_sentence(&said, "10.219.7.");
    world.down("first");
    let said = Running::start(world.tasuki(&["down", "first"])).finish().code(122);
    one_sentence(&said, "first");
    let said = Running::start(world.on_net("nobody", &["true"])).finish().code(122);
    one_sentence(&said, "nobody");
    world.assert_nothing_left();
}

#[test]
fn a_device_that_tasuki_did_not_make_is_left_alone() {
    let Some(world) = World::new() else { return };
    let _ = world.run(&["ip", "tuntap", "add", "dev", "theirs0", "mode", "tap"]).success();
    let words = ["run", "--nic", "tap:theirs0", "--", "true"];
    let said = Running::start(world.tasuki(&words)).finish().code(120);
    one_sentence(&said, "theirs0");
    let addresses = world.run(&["ip", "-o", "-4", "address", "show", "dev", "theirs0"]).success();
    assert_eq!(addresses.stdout, "", "{addresses}");
}

#[test]
fn missing_rights_are_named() {
    let Some(world) = World::new() else { return };
    let binary = tasuki_binary();
    let binary = binary.to_str().unwrap();
    let without = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--ambient-caps=-all"];
    // Without --nic it would be passt, which needs no right.
    let words = [&without[..], &[binary, "run", "--nic", "tap:mine", "--", "true"]].concat();
    one_sentence(&world.run(&words).code(119), "CAP_NET_ADMIN");
    world.assert_nothing_left();
}

#[test]
fn a_file_that_cannot_be_executed_is_not_run_by_a_shell() {
    let Some(world) = World::new() else { return };
    let path = world.path("garbage");
    std::fs::write(&path, [0x7f, b'E', b'L', b'F', 0, 0, 0, 0]).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    one_sentence(&run(&world, &["./garbage"]).code(126), "garbage");
    world.assert_nothing_left();
}

#[test]
fn check_says_what_the_system_allows_and_how_programs_will_run() {
    let Some(world) = World::new() else { return };
    let said = Running::start(world.tasuki(&["check"])).finish().success();
    for line in
        ["kernel ", "user namespaces ", "tap: ", "static programs, Go  yes      by the relay"]
    {
        assert!(said.stdout.contains(line), "{line}: {said}");
    }
    assert!(said.stderr.is_empty(), "{said}");
    let said = Running::start(world.tasuki(&["check", "sh"])).finish().success();
    assert!(said.stdout.contains("sh (dynamic)"), "{said}");
    let said = Running::start(world.tasuki(&["check", "--json", "sh"])).finish().success();
    let answer: serde_json::Value = serde_json::from_str(&said.stdout).expect("JSON");
    assert_eq!(answer["programs"][0]["allowed"], true, "{said}");
    let _ = Running::start(world.tasuki(&["check", "no-such-program"])).finish().code(127);
    // Nothing of it is left on the host.
    world.assert_nothing_left();
}
