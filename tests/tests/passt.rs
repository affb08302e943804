//! `--nic passt:`, and `tasuki run` for a user without any right.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::PathBuf;
use std::process::Command;

use rustix::process::{Pid, Signal};
use tasuki_tests::{Mode, Running, World, eventually, sha256, skip, tasuki_binary, write_noise};

/// An ordinary user. No account has this number.
const USER: u32 = 47_110;
/// Where the stack sees this host.
const HOST: &str = "10.219.0.1";

/// A world with a default route, as passt needs one, and a user's directory in it.
fn world() -> Option<World> {
    if !rustix::process::geteuid().is_root() {
        skip("needs root, to become an ordinary user");
        return None;
    }
    if Command::new("passt").arg("--version").output().is_err() {
        skip("needs passt");
        return None;
    }
    let world = World::new()?;
    for line in [
        "ip link add up0 type veth peer name up1",
        "ip addr add 192.0.2.1/24 dev up0",
        "ip link set up0 up",
        "ip link set up1 up",
        "ip route add default via 192.0.2.254 dev up0",
    ] {
        let _ = world.run(&line.split(' ').collect::<Vec<_>>()).success();
    }
    let home = world.outside("/run/home");
    fs::create_dir(&home).unwrap();
    let binary = tasuki_binary();
    for name in ["tasuki", "libtasuki_preload.so"] {
        let copy = home.join(name);
        fs::copy(binary.with_file_name(name), &copy).unwrap();
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).unwrap();
    }
    chown(&home, Some(USER), Some(USER)).unwrap();
    Some(world)
}

fn at_home(world: &World, name: &str) -> PathBuf {
    world.outside("/run/home").join(name)
}

/// `tasuki WORDS…` by the ordinary user.
fn as_user(world: &World, variables: &[&str], words: &[&str]) -> Command {
    let id = USER.to_string();
    let mut all = vec!["setpriv", "--reuid", &id, "--regid", &id, "--clear-groups", "env"];
    all.extend(["--chdir=/run/home", "TMPDIR=/run/home", "PATH=/usr/bin:/bin"]);
    all.extend(variables);
    all.push("/run/home/tasuki");
    all.extend(words);
    world.command(&all)
}

fn finish(world: &World) {
    let _ = world.run(&["ip", "link", "del", "up0"]).success();
    world.assert_nothing_left();
}

#[test]
fn a_user_without_rights_reaches_the_host_at_the_first_try() {
    let Some(world) = world() else { return };
    write_noise(&world.path("file"), 8 << 20, 1);
    let server = world.http_server();
    let url = format!("http://{HOST}:8000/file");
    // With a directory of the user's, and without any.
    for variables in [&["XDG_RUNTIME_DIR=/run/home"][..], &[]] {
        let words = ["run", "--host-loopback", "--", "curl", "-sS", "-o", "back", &url];
        let curl = as_user(&world, variables, &words);
        let _ = Running::start(curl).finish().success();
        assert_eq!(sha256(&at_home(&world, "back")), sha256(&world.path("file")));
        fs::remove_file(at_home(&world, "back")).unwrap();
    }
    drop(server);
    let mode = fs::metadata(at_home(&world, &format!("tasuki-{USER}"))).unwrap().permissions();
    assert_eq!(mode.mode() & 0o777, 0o700);
    finish(&world);
}

/// Where clouds give a machine its secrets.
const METADATA: &str = "169.254.169.254";

/// Without the user's word, passt leads neither to servers on the host's own loopback nor to
/// metadata.
#[test]
fn the_hosts_loopback_and_metadata_are_out_of_reach() {
    let Some(world) = world() else { return };
    let _ = world.run(&["ip", "addr", "add", &format!("{METADATA}/32"), "dev", "up0"]).success();
    std::fs::write(world.path("file"), "of the host").unwrap();
    let server = world.http_server();
    let fetch = |options: &[&str], host: &str| {
        let url = format!("http://{host}:8000/file");
        let curl = ["--", "curl", "-sS", "--connect-timeout", "10", &url];
        let words = [&["run"], options, &curl].concat();
        Running::start(as_user(&world, &[], &words)).finish()
    };
    for host in [HOST, METADATA] {
        let said = fetch(&[], host);
        assert!(!said.status.success() && said.stdout.is_empty(), "{host}: {said}");
        for options in [&["--host-loopback"][..], &["--nic", "passt:host"]] {
            let said = fetch(options, host).success();
            assert_eq!(said.stdout, "of the host", "{host} {options:?}: {said}");
        }
    }
    let refused = fetch(&[], METADATA);
    assert!(refused.stderr.contains("Failed to connect"), "at once: {refused}");
    // Other addresses of the host are those of any machine.
    let said = fetch(&[], "192.0.2.1").success();
    assert_eq!(said.stdout, "of the host", "{said}");
    drop(server);
    finish(&world);
}

#[test]
fn a_users_instance_is_shared_and_sends_too() {
    let Some(world) = world() else { return };
    write_noise(&at_home(&world, "file"), 8 << 20, 1);
    let sink = world.spawn(&world.script("sink.py", &["0.0.0.0", "8000"]));
    let _ = sink.line("ready");
    let user = |words: &[&str]| Running::start(as_user(&world, &[], words)).finish().success();
    let _ = user(&["up", "--mode", "fused", "--nic", "passt:host", "mine"]);
    let url = format!("http://{HOST}:8000/file");
    let _ = user(&["run", "--net", "mine", "--", "curl", "-sS", "-T", "file", &url]);
    let digest = sha256(&at_home(&world, "file"));
    assert_eq!(sink.line("sha256"), format!("sha256 {digest}"));
    let said = user(&["ps", "-v", "mine"]);
    assert!(said.stdout.contains("passt.writes"), "{said}");
    let _ = user(&["down", "mine"]);
    drop(sink);
    finish(&world);
}

#[test]
fn a_users_server_is_reached_at_a_published_port() {
    let Some(world) = world() else { return };
    write_noise(&at_home(&world, "file"), 8 << 20, 1);
    let words = ["run", "--publish", "127.0.0.1:8080:8000", "--", "python3", "-u"];
    let words = [&words[..], &["-m", "http.server", "8000"]].concat();
    let server = Running::start(as_user(&world, &[], &words));
    let _ = server.line("Serving HTTP");
    let url = "http://127.0.0.1:8080/file";
    let _ = world.run(&["curl", "-sS", "-o", "back", url]).success();
    assert_eq!(sha256(&world.path("back")), sha256(&at_home(&world, "file")));
    // The port is taken.
    let second = Running::start(as_user(&world, &[], &words)).finish().code(125);
    assert!(second.stderr.contains("8080"), "{second}");
    server.signal(Signal::INT);
    let _ = server.finish();
    finish(&world);
}

#[test]
fn missing_tools_and_routes_are_named() {
    let Some(world) = world() else { return };
    let words = ["run", "--", "/bin/true"];
    let without = Running::start(as_user(&world, &["PATH=/nowhere"], &words)).finish().code(119);
    assert!(without.stderr.contains("apt install passt"), "{without}");
    let _ = world.run(&["ip", "route", "del", "default"]).success();
    let without = Running::start(as_user(&world, &[], &words)).finish().code(125);
    assert!(without.stderr.contains("routable"), "{without}");
    finish(&world);
}

#[test]
fn the_instance_ends_with_passt_and_passt_with_the_instance() {
    let Some(world) = world() else { return };
    let passts = || -> Vec<u32> {
        let is_passt = |pid: &u32| {
            fs::read_to_string(format!("/proc/{pid}/comm"))
                .is_ok_and(|name| name.starts_with("passt"))
        };
        world.processes().into_iter().filter(is_passt).collect()
    };
    let run = ["run", "--mode", Mode::Split.name(), "--nic", "passt:", "--", "sleep", "600"];
    let running = Running::start(world.tasuki(&run));
    eventually("it runs", || passts().len() == 1 && world.processes().len() >= 5);
    let pid = Pid::from_raw(i32::try_from(passts()[0]).unwrap()).unwrap();
    rustix::process::kill_process(pid, Signal::KILL).unwrap();
    let said = running.finish().code(125);
    assert!(said.stderr.contains("passt has ended"), "{said}");
    let running = Running::start(world.tasuki(&run));
    eventually("it runs", || passts().len() == 1 && world.processes().len() >= 5);
    running.signal(Signal::KILL);
    let _ = running.finish();
    eventually("no passt process runs", || passts().is_empty());
    drop(world);
}

/// In a user namespace, as this user may not mount. The program is the same user in it.
#[test]
fn a_user_without_rights_sees_the_instances_name_servers() {
    let Some(world) = world() else { return };
    let server = world.spawn(&world.script("dns.py", &["0.0.0.0", "53", "far.example=10.1.2.3"]));
    let _ = server.line("ready");
    // Where users may not open TUN devices, they have no relay, and libc's resolver no network.
    let tun =
        fs::metadata("/dev/net/tun").is_ok_and(|tun| tun.permissions().mode() & 0o006 == 0o006);
    let (last, look_up) = match tun {
        true => ("10.1.2.3", "id -u; cat /etc/resolv.conf; getent ahostsv4 far"),
        false => ("search example\n", "id -u; cat /etc/resolv.conf"),
    };
    let words = ["run", "--host-loopback", "--dns", HOST, "--dns-search", "example"];
    let words = [&words[..], &["--", "sh", "-c", look_up]].concat();
    let said = Running::start(as_user(&world, &[], &words)).finish().success();
    for line in [&*format!("{USER}\n"), &format!("nameserver {HOST}\n"), last] {
        assert!(said.stdout.contains(line), "{line}: {said}");
    }
    assert_eq!(said.stderr, "", "{said}");
    drop(server);
    finish(&world);
}
