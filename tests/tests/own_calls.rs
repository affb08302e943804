//! Programs that get sockets from the C library, and wait by system calls of their own.

use std::process::Command;

use tasuki_tests::{Mode, Running, World, program, python, tasuki_binary};

/// Builds `own_calls.c` with `options`; the path of the result.
fn build(world: &World, name: &str, options: &[&str]) -> String {
    let path = world.file(name);
    let source = program("own_calls.c");
    let words = ["gcc", "-Wall", "-Wextra", "-Werror", &source, "-o", &path];
    let words: Vec<&str> = words.into_iter().chain(options.iter().copied()).collect();
    let _ = world.run(&words).success();
    path
}

/// Runs it on the kernel's stack and on an instance's: it says the same, and all is right.
fn is_right_on_both(world: &World, words: &[String], mut command: Command) {
    let kernel = Running::start(world.command(words)).finish().success();
    assert!(!kernel.stdout.contains("WRONG"), "{kernel}");
    command.env("NO_COLOR", "1");
    let tasuki = Running::start(command).finish().success();
    assert_eq!((tasuki.stdout, tasuki.stderr), (kernel.stdout, kernel.stderr));
}

/// Numbers of calls are in the code, or come out of memory.
#[test]
fn the_relay_serves_programs_that_wait_past_the_c_library() {
    let Some(mode) = Mode::shared() else { return };
    let Some(world) = World::with_kernel() else { return };
    for (name, options) in [
        ("constants", &["-O2", "-DCONSTANT"][..]),
        ("registers", &["-O0"]),
        ("function", &["-O1", "-fno-inline"]),
    ] {
        let words = [build(&world, name, options)];
        is_right_on_both(&world, &words, world.on_stack(mode, &words));
    }
    world.assert_nothing_left();
}

/// The program had a socket of the library before it loaded the code.
#[test]
fn the_relay_serves_libraries_that_are_loaded_later() {
    let Some(mode) = Mode::shared() else { return };
    let Some(world) = World::with_kernel() else { return };
    let library = build(&world, "later.so", &["-O2", "-DCONSTANT", "-shared", "-fPIC"]);
    let text = "import ctypes, socket, sys\n\
                first = socket.socket()\n\
                code = ctypes.CDLL(sys.argv[1]).all()\n\
                first.bind(('127.0.0.1', 0)); first.listen()\n\
                socket.create_connection(first.getsockname()).send(b'x')\n\
                sys.exit(code or first.accept()[0].recv(1) != b'x')";
    let words = [python(), "-c".to_owned(), text.to_owned(), library];
    is_right_on_both(&world, &words, world.on_stack(mode, &words));
    world.assert_nothing_left();
}

/// Without a relay the program is told.
#[test]
fn without_a_relay_such_programs_are_told() {
    let Some(world) = World::new() else { return };
    let path = build(&world, "told", &["-O2", "-DCONSTANT"]);
    let ways = [(Mode::given(), &["--intercept", "preload"][..]), (Mode::Library, &[])];
    for (mode, options) in ways {
        let said = Running::start(world.on_stack_with(mode, options, &[&path])).finish();
        let sentence = "tasuki: this program makes system calls of its own";
        assert_eq!(said.stderr.matches(sentence).count(), 1, "{said}");
    }
    world.assert_nothing_left();
}

/// The system has no namespace left for a relay. The program's calls of the C library work.
#[test]
fn the_library_serves_such_programs_where_no_relay_can_be_had() {
    let Some(world) = World::new() else { return };
    let library = build(&world, "beside.so", &["-O2", "-DCONSTANT", "-shared", "-fPIC"]);
    let text = "import ctypes, socket, sys\n\
                ctypes.CDLL(sys.argv[1])\n\
                first = socket.create_server(('127.0.0.1', 0))\n\
                socket.create_connection(first.getsockname()).send(b'x')\n\
                print(first.accept()[0].recv(1))";
    let script = "echo 0 > /proc/sys/user/max_net_namespaces && exec \"$@\"";
    let tasuki = tasuki_binary();
    let (tasuki, python) = (tasuki.to_str().expect("a plain path"), python());
    let place = ["--nic", "tap:own0", "--address", "192.0.2.2/24", "--"];
    let words = [
        &["unshare", "--user", "--map-root-user", "--net", "--mount", "sh", "-c", script, "sh"][..],
        &[tasuki, "run"],
        &place[..],
        &[&python, "-c", text, &library],
    ]
    .concat();
    let said = Running::start(world.command(&words)).finish().success();
    assert_eq!(said.stdout, "b'x'\n", "{said}");
    let sentence = "tasuki: this program makes system calls of its own";
    assert_eq!(said.stderr.matches(sentence).count(), 1, "{said}");
    world.assert_nothing_left();
}
