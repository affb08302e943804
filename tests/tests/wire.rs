//! `--nic wire:PATH`: two instances, and nothing of the kernel's network between them.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use tasuki_tests::{
    HOST, Mode, Nic, Running, World, eventually, sha256, skip, tasuki_binary, write_noise,
};

const A: &str = "10.55.0.1";
const B: &str = "10.55.0.2";

fn up(world: &World, net: &str, mode: Mode, address: &str) {
    let (nic, cidr) = (format!("wire:{}", world.file("wire")), format!("{address}/24"));
    let words = ["up", "--mode", mode.name(), "--nic", &nic, "--ip", &cidr, net];
    let _ = Running::start(world.tasuki(&words)).finish().success();
}

/// A world with a file of noise, its SHA-256, and two instances on a wire.
fn joined(modes: [Mode; 2], len: usize) -> Option<(World, String)> {
    let world = World::over(Nic::Tap)?;
    write_noise(&world.path("file"), len, 1);
    let digest = sha256(&world.path("file"));
    up(&world, "a", modes[0], A);
    up(&world, "b", modes[1], B);
    for net in ["a", "b"] {
        eventually("the link is up", || world.counter(net, "wire.carrier") == 1);
    }
    Some((world, digest))
}

/// A server on `net` that the other instance can reach.
fn serve(world: &World, net: &str, address: &str) -> Running {
    let server = world.script("serve.py", &[address, "8000"]);
    let server = Running::start(world.on_net(net, &server));
    let _ = server.line("ready");
    server
}

/// The file goes from the server at `address` to a program on `net`.
fn fetch(world: &World, net: &str, address: &str, digest: &str) {
    let url = format!("http://{address}:8000/file");
    let curl = world.on_net(net, &["curl", "-sS", "-o", "back", &url]);
    let _ = Running::start(curl).finish().success();
    assert_eq!(sha256(&world.path("back")), digest);
    std::fs::remove_file(world.path("back")).unwrap();
}

fn both_ways(modes: [Mode; 2]) {
    let Some((world, digest)) = joined(modes, 64 << 20) else { return };
    let servers = [serve(&world, "a", A), serve(&world, "b", B)];
    fetch(&world, "b", A, &digest);
    fetch(&world, "a", B, &digest);
    for server in servers {
        server.signal(Signal::INT);
        let _ = server.finish();
    }
    assert_eq!(world.counter("a", "wire.peer-faults") + world.counter("b", "wire.peer-faults"), 0);
    world.down("a");
    world.down("b");
    assert!(!world.path("wire").exists(), "the socket is left");
    world.assert_nothing_left();
}

/// The other end of a wire may belong to anybody, and may take no frames. Programs that use other
/// interfaces go on. What is meant for the wire is dropped after a while, so that no program's
/// memory stays in use.
#[test]
fn an_end_that_takes_no_frames_holds_up_nobody() {
    let Some(world) = World::over(Nic::Tap) else { return };
    write_noise(&world.path("file"), 64 << 20, 1);
    let digest = sha256(&world.path("file"));
    let config = format!(
        "[[interface]]\ndevice = \"wire:{}\"\naddress = [\"{A}/24\"]\n",
        world.file("wire")
    );
    fs::write(world.path("both.toml"), config).unwrap();
    world.up("a", Mode::Split, &["--config", &world.file("both.toml")]);
    up(&world, "b", Mode::Split, B);
    eventually("the link is up", || world.counter("b", "wire.carrier") == 1);
    let far = serve(&world, "b", B);
    fetch(&world, "a", B, &digest);
    let driver = world.ps("b").processes.iter().find(|one| one.role == "nic").unwrap().pid;
    let driver = Pid::from_raw(driver.cast_signed()).unwrap();
    kill_process(driver, Signal::STOP).unwrap();
    let flood = Running::start(world.on_net("a", &world.script("fill.py", &[B])));
    let _ = flood.line("full");
    // Both directions, and more than any buffer holds.
    let server = world.http_server();
    let url = format!("http://{HOST}:8000/file");
    let _ =
        Running::start(world.on_net("a", &["curl", "-sS", "-o", "back", &url])).finish().success();
    assert_eq!(sha256(&world.path("back")), digest);
    drop(server);
    let sink = world.spawn(&world.script("sink.py", &[HOST, "8000"]));
    let _ = sink.line("ready");
    let upload = world.on_net("a", &["curl", "-sS", "-T", &world.file("file"), &url]);
    let _ = Running::start(upload).finish().success();
    drop(sink);
    eventually("frames are dropped", || world.counter("a", "wire.stalled") > 0);
    drop(flood);
    kill_process(driver, Signal::CONT).unwrap();
    fetch(&world, "a", B, &digest);
    drop(far);
    world.down("a");
    world.down("b");
    world.assert_nothing_left();
}

#[test]
fn files_go_both_ways_between_split_instances() {
    both_ways([Mode::Split, Mode::Split]);
}

#[test]
fn files_go_both_ways_between_fused_instances() {
    both_ways([Mode::Fused, Mode::Fused]);
}

#[test]
fn the_ends_need_not_be_alike() {
    both_ways([Mode::Split, Mode::Fused]);
}

/// Each end in turn is killed in mid-transfer and started anew; the other one lives on.
#[test]
fn a_killed_end_is_replaced() {
    // More than the receive buffer holds: what has arrived is read after the instance's end, too.
    let Some((world, digest)) = joined([Mode::Split, Mode::Fused], 32 << 20) else { return };
    for (victim, mode, address, other, others) in
        [("a", Mode::Split, A, "b", B), ("b", Mode::Fused, B, "a", A)]
    {
        let ups = world.counter(other, "wire.ups");
        let server = serve(&world, other, others);
        let url = format!("http://{others}:8000/file");
        let slow = ["curl", "-sS", "--limit-rate", "1M", "-o", "part", &url];
        let slow = Running::start(world.on_net(victim, &slow));
        eventually("the transfer is under way", || {
            std::fs::metadata(world.path("part")).is_ok_and(|part| part.len() > 0)
        });
        let all = world.ps(victim).processes;
        let supervisor = all.iter().find(|process| process.role == "supervisor").unwrap();
        let pid = Pid::from_raw(i32::try_from(supervisor.pid).unwrap()).unwrap();
        rustix::process::kill_process(pid, Signal::KILL).unwrap();
        assert!(!slow.finish().status.success());
        eventually("the other end sees the link down", || {
            world.counter(other, "wire.carrier") == 0
        });
        up(&world, victim, mode, address);
        eventually("the link is up again", || world.counter(other, "wire.ups") > ups);
        fetch(&world, victim, others, &digest);
        std::fs::remove_file(world.path("part")).unwrap();
        server.signal(Signal::INT);
        let _ = server.finish();
    }
    world.down("a");
    world.down("b");
    world.assert_nothing_left();
}

/// `--fault` takes the offloads off, and both ends of a wire need the same.
#[test]
fn faults_at_one_end_alone_keep_the_link_down_and_both_logs_say_what_to_do() {
    let Some(world) = World::over(Nic::Tap) else { return };
    let nic = format!("wire:{}", world.file("wire"));
    let start = |address: &str, more: &[&str]| {
        let cidr = format!("{address}/24");
        let words = [&["run", "--nic", &nic, "--ip", &cidr], more, &["--", "sleep", "2"]].concat();
        Running::start(world.tasuki(&words))
    };
    let ends = [start(A, &[]), start(B, &["--fault", "loss=0.01"])];
    let [with, without] = ends.map(|end| end.finish().success().stderr);
    assert!(with.contains("give this end --offload off, too"), "{with}");
    assert!(without.contains("give the other end --offload off, too"), "{without}");
    for said in [with, without] {
        assert!(said.contains("--fault without super_segments=on"), "{said}");
    }
}

#[test]
fn a_wire_needs_an_address() {
    let Some(world) = World::over(Nic::Tap) else { return };
    let said = Running::start(world.tasuki(&["run", "--nic", "wire:w", "--", "true"]));
    let said = said.finish().code(118);
    assert!(said.stderr.contains("--address"), "{said}");
}

/// Ordinary users, and a group that only the first two are in.
const USERS: [u32; 3] = [47_121, 47_122, 47_123];
const GROUP: u32 = 47_120;

/// `tasuki WORDS…` by that user of [`USERS`]. The user's files are open to others of the group.
fn by(world: &World, user: usize, words: &[&str]) -> Command {
    let (id, group) = (USERS[user].to_string(), GROUP.to_string());
    let groups = if user < 2 { ["--groups", &group] } else { ["--groups", &id] };
    let home = format!("/run/home{user}");
    let mut all = vec!["setpriv", "--reuid", &id, "--regid", &id];
    let (folder, runtime) = (format!("--chdir={home}"), format!("XDG_RUNTIME_DIR={home}"));
    all.extend(groups);
    all.extend(["env", &folder, &runtime, "PATH=/usr/bin:/bin"]);
    all.extend(["sh", "-c", "umask 007; exec /run/bin/tasuki \"$@\"", "sh"]);
    all.extend(words);
    world.command(&all)
}

/// Makes a folder for the socket, which all users may read and the group may write to. Also makes a
/// copy of the tested programs, and a home for each user.
fn users() -> Option<World> {
    if !rustix::process::geteuid().is_root() {
        skip("needs root, to become other users");
        return None;
    }
    let world = World::over(Nic::Tap)?;
    let folder = |name: &str, user: u32, group: u32, mode: u32| {
        let folder = world.outside(name);
        fs::create_dir(&folder).unwrap();
        chown(&folder, Some(user), Some(group)).unwrap();
        // Set group id: new files in the folder belong to the group.
        fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
        folder
    };
    let _ = folder("/run/shared", USERS[0], GROUP, 0o2775);
    let bin = folder("/run/bin", 0, 0, 0o755);
    for name in ["tasuki", "libtasuki_preload.so"] {
        let copy = bin.join(name);
        fs::copy(tasuki_binary().with_file_name(name), &copy).unwrap();
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).unwrap();
    }
    for (at, &user) in USERS.iter().enumerate() {
        let home = folder(&format!("/run/home{at}"), user, user, 0o700);
        write_noise(&home.join("file"), 8 << 20, at as u64);
        chown(home.join("file"), Some(user), Some(user)).unwrap();
    }
    Some(world)
}

/// A user with write access to the socket meets its owner's instance. Other users do not.
#[test]
fn instances_of_two_users_meet_and_a_stranger_is_refused() {
    let Some(world) = users() else { return };
    let up = |user: usize, address: &str| {
        let cidr = format!("{address}/24");
        let words = ["up", "--nic", "wire:/run/shared/wire", "--ip", &cidr, "mine"];
        let _ = Running::start(by(&world, user, &words)).finish().success();
    };
    let counter = |user: usize, name: &str| {
        let words = ["stats", "--json", "mine"];
        let said = Running::start(by(&world, user, &words)).finish().success();
        let told: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
        told["counters"][name].as_u64().unwrap_or_else(|| panic!("{name}: {said}"))
    };
    up(0, A);
    let socket = world.outside("/run/shared/wire");
    eventually("the first instance listens", || socket.exists());
    assert_eq!(fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o770);
    // Without the right the user gets an error, and the other end notices nothing.
    let words =
        ["run", "--nic", "wire:/run/shared/wire", "--ip", "10.55.0.3/24", "--", "sleep", "600"];
    let stranger = Running::start(by(&world, 2, &words));
    let said = stranger.line("cannot meet the other end");
    assert!(said.contains("Permission denied"), "{said}");
    assert_eq!((counter(0, "wire.carrier"), counter(0, "wire.ups")), (0, 0));
    up(1, B);
    for user in [0, 1] {
        eventually("the link is up", || counter(user, "wire.carrier") == 1);
    }
    let ends = [(0, A, 1), (1, B, 0)];
    for (server, address, client) in ends {
        let serve = ["run", "--net", "mine", "--", "python3", "-u", "-m", "http.server", "8000"];
        let serve = Running::start(by(&world, server, &serve));
        let _ = serve.line("Serving HTTP");
        let url = format!("http://{address}:8000/file");
        let get = ["run", "--net", "mine", "--", "curl", "-sS", "-o", "back", &url];
        let _ = Running::start(by(&world, client, &get)).finish().success();
        let file =
            |user: usize, name: &str| sha256(&world.outside(&format!("/run/home{user}/{name}")));
        assert_eq!(file(client, "back"), file(server, "file"));
        serve.signal(Signal::INT);
        let _ = serve.finish();
    }
    for user in [0, 1] {
        assert_eq!(counter(user, "wire.peer-faults"), 0);
        let _ = Running::start(by(&world, user, &["down", "mine"])).finish().success();
    }
    stranger.signal(Signal::TERM);
    let _ = stranger.finish();
    world.assert_nothing_left();
}
