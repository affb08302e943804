//! A client that writes garbage into its region is dropped alone.

use tasuki_tests::{
    HOST, Mode, Running, World, eventually, sha256, skip, tasuki_binary, write_noise,
};

const NET: &str = "hostile";
const KINDS: [&str; 7] =
    ["indices", "slots", "bell", "paths", "descriptors", "words", "everything"];

fn dropped_alone(mode: Mode) {
    let Some(world) = World::new() else { return };
    write_noise(&world.path("file"), 128 << 20, 7);
    let server = world.http_server();
    world.up(NET, mode, &[]);
    let before = world.ps(NET);

    let other = world.script("slowly.py", &[&format!("http://{HOST}:8000/file"), "back", "go"]);
    let mut other = Running::start(world.on_net(NET, &other));
    let _ = other.line("begun");
    let roles = |role: &str| world.ps(NET).processes.iter().filter(|p| p.role == role).count();
    eventually("the honest client is admitted", || roles("client") == 1);

    let socket = format!("/run/tasuki/{NET}.sock");
    for kind in KINDS {
        let hostile = world.spawn(&[env!("CARGO_BIN_EXE_hostile"), &socket, kind]);
        let said = hostile.finish().success();
        assert_eq!(said.stdout.trim(), "dropped", "{kind}: {said}");
    }
    assert!(!other.has_ended(), "the other transfer ended too early to show anything");
    eventually("only the honest client is left", || roles("client") == 1);
    std::fs::write(world.path("go"), "").unwrap();
    let _ = other.finish().success();
    assert_eq!(sha256(&world.path("back")), sha256(&world.path("file")));

    let servers = |status: &abi::control::InstanceStatus| {
        let all = status.processes.iter().filter(|process| process.role != "client");
        all.map(|process| process.pid).collect::<Vec<_>>()
    };
    assert_eq!(servers(&before), servers(&world.ps(NET)), "a server died");
    world.assert_pools_return(NET, &before.pools);
    drop(server);
    world.down(NET);
    world.assert_nothing_left();
}

#[test]
fn in_split_mode() {
    dropped_alone(Mode::Split);
}

#[test]
fn in_fused_mode() {
    dropped_alone(Mode::Fused);
}

/// A program may use the stack, and nothing else: operators have a socket of their own.
#[test]
fn a_program_has_no_operators_rights() {
    let Some(world) = World::new() else { return };
    world.up(NET, Mode::Split, &[]);
    let socket = format!("/run/tasuki/{NET}.sock");
    let operators = format!("/run/tasuki/{NET}.operator.sock");
    let hostile = world.spawn(&[env!("CARGO_BIN_EXE_hostile"), &socket, "rights"]);
    let said = hostile.finish().success();
    let refused = format!("refused {operators}\n").repeat(5);
    assert_eq!(said.stdout, format!("{refused}interfaces\n"), "{said}");
    let hostile = world.spawn(&[env!("CARGO_BIN_EXE_hostile"), &operators, "slots"]);
    let said = hostile.finish();
    assert!(said.stderr.contains(&format!("WrongSocket {{ socket: {socket:?} }}")), "{said}");
    let modes = world.run(&["stat", "-c", "%a", &socket, &operators]).success();
    assert_eq!(modes.stdout, "600\n600\n");
    world.down(NET);
    world.assert_nothing_left();
}

/// A process whose end the supervisor cannot see is told so, and is no client.
#[test]
fn a_process_of_a_hidden_pid_namespace_is_refused() {
    let Some(world) = World::new() else { return };
    let tasuki = tasuki_binary();
    let tasuki = tasuki.to_str().unwrap();
    let shell = ["sh", "-c", "\"$@\" && echo up && sleep 600", "sh", tasuki, "up", NET];
    let inside = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"];
    let instance = world.spawn(&[&inside[..], &shell].concat());
    let _ = instance.line("up");
    for words in [vec!["run", "--net", NET, "--", "curl", "http://10.0.0.1/"], vec!["ps", NET]] {
        let said = Running::start(world.tasuki(&words)).finish();
        assert!(said.stderr.contains("is in a PID namespace that the instance does not"), "{said}");
    }
}

/// Programs of another user, whom the configuration lets in, are clients and nothing else.
#[test]
fn a_user_of_the_group_has_clients_and_nothing_else() {
    let Some(world) = World::with_kernel() else { return };
    if !rustix::process::geteuid().is_root() {
        return skip("needs root: programs of other users");
    }
    let server = world.http_server();
    std::fs::write(world.path("file"), vec![b'x'; 12_345]).unwrap();
    std::fs::write(world.path("config.toml"), "[instance]\ngroup = \"4711\"\n").unwrap();
    world.up(NET, Mode::Split, &["--config", &world.file("config.toml")]);
    let tasuki = tasuki_tests::tasuki_binary();
    let tasuki = tasuki.to_str().expect("a plain path");
    let other = |group: &str, words: &[&str]| {
        let (user, group) = ("--reuid=65534", format!("--groups={group}"));
        let words = [&["setpriv", user, "--regid=65534", &group, tasuki], words].concat();
        Running::start(world.command(&words)).finish()
    };
    let url = format!("http://{HOST}:8000/file");
    let get = [
        "run",
        "--net",
        NET,
        "--",
        "curl",
        "-sS",
        "-o",
        "/dev/null",
        "-w",
        "%{size_download}",
        &url,
    ];
    let said = other("65534", &get).code(119);
    assert!(said.stderr.contains("belongs to another user"), "{said}");
    let said = other("4711", &get).success();
    assert_eq!(said.stdout, "12345", "{said}");
    for words in [&["ps", NET][..], &["down", NET], &["ss", "--net", NET]] {
        let said = other("4711", words).code(119);
        assert!(said.stderr.contains("belongs to another user"), "{said}");
    }
    let socket = format!("/run/tasuki/{NET}.sock");
    let words = ["setpriv", "--reuid=65534", "--regid=65534", "--groups=4711"];
    let words = [&words[..], &[env!("CARGO_BIN_EXE_hostile"), &socket, "rights"]].concat();
    let _ = Running::start(world.command(&words)).finish().success();
    drop(server);
    world.down(NET);
    world.assert_nothing_left();
}

/// A program in a loop of faults is slowed down. Another one gets in meanwhile.
#[test]
fn a_loop_of_faults_is_slow_and_alone() {
    let Some(world) = World::new() else { return };
    let server = world.http_server();
    std::fs::write(world.path("file"), vec![b'x'; 12_345]).unwrap();
    world.up(NET, Mode::Split, &[]);
    let socket = format!("/run/tasuki/{NET}.sock");
    let fault = || {
        let hostile = world.spawn(&[env!("CARGO_BIN_EXE_hostile"), &socket, "slots"]);
        let said = hostile.finish().success();
        assert_eq!(said.stdout.trim(), "dropped", "{said}");
    };
    let begun = std::time::Instant::now();
    (0..10).for_each(|_| fault());
    let url = format!("http://{HOST}:8000/file");
    for _ in 0..4 {
        fault();
        let get = ["curl", "-sS", "-o", "/dev/null", "-w", "%{size_download}", &url];
        let said = Running::start(world.on_net(NET, &get)).finish().success();
        assert_eq!(said.stdout, "12345", "{said}");
    }
    // Ten faults are free, and one a second is given back.
    let took = begun.elapsed();
    assert!(took > std::time::Duration::from_secs(3), "readmitted at once: {took:?}");
    drop(server);
    world.down(NET);
    world.assert_nothing_left();
}

/// A program that connects and sends this, in a loop, gets a pace of its own, not a processor's.
/// Others are served meanwhile.
fn is_slow_and_alone(kind: &str) {
    let Some(world) = World::new() else { return };
    let server = world.http_server();
    std::fs::write(world.path("file"), vec![b'x'; 12_345]).unwrap();
    world.up(NET, Mode::Split, &[]);
    let socket = format!("/run/tasuki/{NET}.sock");
    let hostile = world.spawn(&[env!("CARGO_BIN_EXE_hostile"), &socket, kind]);
    let _ = hostile.line("many");
    let url = format!("http://{HOST}:8000/file");
    for _ in 0..3 {
        let get = ["curl", "-sS", "-o", "/dev/null", "-w", "%{size_download}", &url];
        let said = Running::start(world.on_net(NET, &get)).finish().success();
        assert_eq!(said.stdout, "12345", "{said}");
        let _ = world.ps(NET);
    }
    let said = hostile.finish().success();
    let numbers = said.stdout.lines().last().expect("a line").split(' ');
    let numbers: Vec<u32> = numbers.map(|number| number.parse().expect("a number")).collect();
    let [sent, millis] = numbers[..] else { panic!("{said}") };
    // A pause of two milliseconds each; and what is free at first, and the socket's queue.
    assert!(sent < 1000 + millis / 2, "{sent} connections were served in {millis} ms");
    drop(server);
    world.down(NET);
    world.assert_nothing_left();
}

#[test]
fn a_loop_of_garbage_is_slow_and_alone() {
    is_slow_and_alone("garbage");
}

#[test]
fn a_loop_of_refused_requests_is_slow_and_alone() {
    is_slow_and_alone("refused");
}

#[test]
fn a_loop_of_brief_clients_is_slow_and_alone() {
    is_slow_and_alone("brief");
}
