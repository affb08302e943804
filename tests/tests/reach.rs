//! What a program of an ordinary user can reach: no process of Tasuki that has the same user, in
//! any mode, from its first instruction on; and no network of the host, whatever is refused or
//! ends.

use std::fs;
use std::os::unix::fs::chown;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::Signal;
use tasuki_tests::{HOST, Mode, Running, STACK, World, eventually, program, skip, tasuki_binary};

/// Ordinary users so far: each test has its own, since it sees the processes of all.
static USERS: AtomicU32 = AtomicU32::new(0);
/// Users of one run of these tests.
const MOST_USERS: u32 = 20;
/// A group of them.
const GROUP: &str = "4711";
const NET: &str = "reach";
/// The exit code of a `tasuki run` that does not start its program.
const UNFILTERED: i32 = 114;

/// A world with an ordinary user and the programs `reach` and `reach-static`. Everybody may open
/// TUN devices in it.
struct UserWorld {
    world: World,
    user: u32,
}

impl std::ops::Deref for UserWorld {
    type Target = World;

    fn deref(&self) -> &World {
        &self.world
    }
}

fn world() -> Option<UserWorld> {
    let world = World::with_kernel()?;
    if !rustix::process::geteuid().is_root() {
        skip("needs root: programs of an ordinary user");
        return None;
    }
    let script = "set -e; mkdir /run/home; mknod /run/tun c 10 200; chmod 666 /run/tun\n\
                  mount --bind /run/tun /dev/net/tun\n\
                  for kind in '' -static; do gcc $kind -O1 -Wall -Wextra -Werror \
                  -o /run/home/reach$kind \"$0\"; done";
    let _ = world.run(&["sh", "-c", script, &program("reach.c")]).success();
    let home = world.outside("/run/home");
    // A capture without frames.
    let mut pcap = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0];
    pcap.extend([0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 1, 0, 0, 0]);
    fs::write(home.join("none.pcap"), pcap).unwrap();
    let user = USERS.fetch_add(1, Ordering::Relaxed);
    assert!(user < MOST_USERS);
    let user = 20_000 + std::process::id() % 2000 * MOST_USERS + user;
    chown(&home, Some(user), Some(user)).unwrap();
    Some(UserWorld { world, user })
}

/// `tasuki WORDS…` by the ordinary user.
fn as_user(world: &UserWorld, words: &[&str]) -> Command {
    let id = world.user.to_string();
    let (user, group) = (format!("--reuid={id}"), format!("--regid={id}"));
    let groups = format!("--groups={GROUP}");
    let tasuki = tasuki_binary();
    let mut all = vec!["setpriv", &user, &group, &groups, "env", "--chdir=/run/home"];
    all.extend(["TMPDIR=/run/home", "PATH=/usr/bin:/bin", tasuki.to_str().expect("a plain path")]);
    all.extend(words);
    world.command(&all)
}

/// The options of an instance without a network.
const NOWHERE: [&str; 4] = ["--nic", "pcap:/run/home/none.pcap", "--address", "10.219.9.2/24"];

/// Runs `reach` on these processes of Tasuki, which have the program's user.
fn nothing_is_reached(world: &UserWorld, options: &[&str], program: &str, expected: &[&str]) {
    let words = [&["run"], options, &["--", program, "processes"]].concat();
    let said = Running::start(as_user(world, &words)).finish().success();
    let mut tried: Vec<&str> =
        said.stdout.lines().filter_map(|line| line.strip_prefix("tried ")).collect();
    tried.sort_unstable();
    assert_eq!(tried, expected, "{options:?} {program}: {said}");
    let others: Vec<&str> =
        said.stdout.lines().filter(|line| !line.starts_with("tried ")).collect();
    let others = others.join("\n");
    assert_eq!(others, "ways to a process that permits it: many", "{options:?} {program}: {said}");
}

#[test]
fn no_process_of_the_programs_user_is_reached() {
    let Some(world) = world() else { return };
    let (split, fused) = (["--mode", "split"], ["--mode", "fused"]);
    let seccomp = ["--mode", "split", "--intercept", "seccomp"];
    let host = ["--mode", "split", "--host-loopback"];
    let all = ["tasuki", "tasuki-inet", "tasuki-nic", "tasuki-relay"];
    let all_with_host = ["tasuki", "tasuki-host", "tasuki-inet", "tasuki-nic", "tasuki-relay"];
    let in_one = ["tasuki", "tasuki-fused", "tasuki-relay"];
    for program in ["./reach", "./reach-static"] {
        for (mode, expected) in
            [(&split[..], &all[..]), (&fused, &in_one), (&seccomp, &all), (&host, &all_with_host)]
        {
            let options = [mode, &NOWHERE].concat();
            nothing_is_reached(&world, &options, program, expected);
        }
    }
    let library = [&["--mode", "library"][..], &NOWHERE].concat();
    nothing_is_reached(&world, &library, "./reach", &["tasuki"]);
    world.assert_nothing_left();
}

#[test]
fn no_process_of_a_users_instance_is_reached() {
    let Some(world) = world() else { return };
    let up = [&["up", "--mode", "split"][..], &NOWHERE, &[NET]].concat();
    let _ = Running::start(as_user(&world, &up)).finish().success();
    for program in ["./reach", "./reach-static"] {
        for (options, host) in
            [(&["--net", NET][..], None), (&["--net", NET, "--host-loopback"], Some("tasuki-host"))]
        {
            let mut expected = vec!["exe", "tasuki-inet", "tasuki-nic", "tasuki-relay"];
            expected.extend(host);
            expected.sort_unstable();
            nothing_is_reached(&world, options, program, &expected);
        }
    }
    let _ = Running::start(as_user(&world, &["down", NET])).finish().success();
    world.assert_nothing_left();
}

/// Its users have passt, which is no process of ours but has the host's network.
#[test]
fn passt_is_not_reached() {
    let Some(world) = world() else { return };
    if Command::new("passt").arg("--version").output().is_err() {
        return skip("passt is not installed: `apt install passt`");
    }
    for line in [
        "ip link add up0 type veth peer name up1",
        "ip addr add 192.0.2.1/24 dev up0",
        "ip link set up0 up",
        "ip link set up1 up",
        "ip route add default via 192.0.2.254 dev up0",
    ] {
        let _ = world.run(&line.split(' ').collect::<Vec<_>>()).success();
    }
    let options = ["--mode", "fused", "--nic", "passt:"];
    for program in ["./reach", "./reach-static"] {
        let words = [&["run"], &options[..], &["--", program, "processes"]].concat();
        let said = Running::start(as_user(&world, &words)).finish().success();
        assert!(said.stdout.contains("tried passt"), "{said}");
        assert!(!said.stdout.contains("reached"), "{said}");
    }
    let _ = world.run(&["ip", "link", "del", "up0"]).success();
    world.assert_nothing_left();
}

/// A program may kill its relay. The kernel would then let it have a filter with a listener of its
/// own, whose verdict on socket(2) would be the one that counts.
#[test]
fn no_program_answers_its_own_calls() {
    let Some(world) = world() else { return };
    for program in ["./reach", "./reach-static"] {
        let words = [&["run"], &NOWHERE[..], &["--", program, "listener"]].concat();
        let said = Running::start(as_user(&world, &words)).finish().success();
        let expected = "listener: EBUSY\nkilled tasuki-relay\nsocket: ENOSYS\nlistener: EBUSY\n\
                        Unix socket: made\n";
        assert_eq!(said.stdout, expected, "{program}: {said}");
    }
    world.assert_nothing_left();
}

/// Tries sockets by the library, or without it.
const SOCKETS: &str = r#"
import errno, os, socket, sys
if len(sys.argv) > 1:
    with socket.create_connection((sys.argv[1], 8000), 30) as one:
        one.sendall(b'hello')
        print('library', one.recv(5))
print('started', flush=True)
"#;

/// `tasuki WORDS…` by root, in a filter of system calls that refuses filters.
fn with_refused_filter(world: &World, what: &str, words: &[&str]) -> Running {
    let tasuki = tasuki_binary();
    let all = [&[what, tasuki.to_str().expect("a plain path")], words].concat();
    Running::start(world.command(&world.script("refused_filter.py", &all)))
}

#[test]
fn without_a_filter_no_program_starts() {
    let Some(world) = world() else { return };
    let words = world.python(&["-c", SOCKETS]);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    for (mode, options) in
        [("split", &[][..]), ("split", &["--intercept", "seccomp"]), ("library", &[])]
    {
        let run = [&["run", "--mode", mode], options, &NOWHERE, &["--"], &words].concat();
        let said = with_refused_filter(&world, "all", &run).finish().code(UNFILTERED);
        assert_eq!(said.stdout, "", "{said}");
        let sentence = "tasuki: the system refuses this process a filter of system calls (seccomp)";
        assert!(said.stderr.contains(sentence), "{said}");
        assert!(said.stderr.contains("--intercept preload"), "{said}");
    }
    let run = [&["run", "--intercept", "preload"][..], &NOWHERE, &["--"], &words].concat();
    let said = with_refused_filter(&world, "all", &run).finish().success();
    assert_eq!(said.stdout, "started\n", "{said}");
    world.assert_nothing_left();
}

/// The kernel before 5.19: programs with the library have the instance's network, others none.
#[test]
fn without_a_relay_programs_have_the_librarys_network_or_none() {
    let Some(mode) = Mode::shared() else { return };
    let Some(world) = world() else { return };
    let echo = world.spawn(&world.script("echo.py", &["0.0.0.0", "8000"]));
    let _ = echo.line("ready");
    world.up(NET, mode, &[]);
    let words = world.python(&["-c", SOCKETS, HOST]);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let run = [&["run", "--net", NET, "--"][..], &words].concat();
    let said = with_refused_filter(&world, "old", &run).finish().success();
    assert_eq!(said.stdout, "library b'hello'\nstarted\n", "{said}");
    let sentence = "tasuki: the kernel has no filter with a relay (Linux 5.19 has): calls that the \
                    preloaded library does not make have no network (ENETDOWN)\n";
    assert_eq!(said.stderr, sentence, "{said}");
    let run = ["run", "--net", NET, "--", "/run/home/reach-static", "socket"];
    let said = with_refused_filter(&world, "old", &run).finish().success();
    assert_eq!(said.stdout, "socket: ENETDOWN\nUnix socket: made\n", "{said}");
    let run = ["run", "--net", NET, "--intercept", "seccomp", "--", "true"];
    let _ = with_refused_filter(&world, "old", &run).finish().code(UNFILTERED);
    // Within a program of an instance, the kernel has no second relay.
    let tasuki = tasuki_binary();
    let inner = [tasuki.to_str().expect("a plain path"), "run", "--net", NET, "--"];
    let inner = [&inner[..], &["/run/home/reach-static", "socket"]].concat();
    let said = Running::start(world.on_net(NET, &inner)).finish().success();
    assert_eq!(said.stdout, "socket: ENETDOWN\nUnix socket: made\n", "{said}");
    assert!(said.stderr.contains("has a filter of system calls with a relay already"), "{said}");
    drop(echo);
    world.down(NET);
    world.assert_nothing_left();
}

/// Its own relay introduces it, as the user whom the group lets in.
#[test]
fn a_static_program_of_a_user_of_the_group() {
    let Some(mode) = Mode::shared() else { return };
    let Some(world) = world() else { return };
    let config = format!("[instance]\ngroup = \"{GROUP}\"\n");
    fs::write(world.path("config.toml"), config).unwrap();
    let raw = ["gcc", "-static", "-O1", "-o", "/run/home/raw", &program("raw.c")];
    let _ = world.run(&raw).success();
    let echo = world.spawn(&world.script("echo.py", &["0.0.0.0", "8000"]));
    let _ = echo.line("ready");
    world.up(NET, mode, &["--config", &world.file("config.toml")]);
    let words = ["run", "--net", NET, "--", "./raw", "fetch", HOST, "8000", "100000"];
    let said = Running::start(as_user(&world, &words)).finish().success();
    assert!(said.stdout.contains(&format!("local {STACK}")), "{said}");
    assert!(said.stdout.contains("came 100000"), "{said}");
    assert_eq!(said.stderr, "", "{said}");
    drop(echo);
    world.down(NET);
    world.assert_nothing_left();
}

/// As in an ordinary container.
#[test]
fn a_read_only_proc_sys_suffices() {
    let Some(mode) = Mode::shared() else { return };
    let Some(world) = world() else { return };
    let raw = ["gcc", "-static", "-O1", "-o", "raw", &program("raw.c")];
    let _ = world.run(&raw).success();
    let echo = world.spawn(&world.script("echo.py", &["0.0.0.0", "8000"]));
    let _ = echo.line("ready");
    world.up(NET, mode, &[]);
    let script = "mount --bind /proc/sys /proc/sys && mount -o remount,bind,ro /proc/sys && \
                  ! echo 0 2>/dev/null >/proc/sys/net/ipv4/ip_forward && exec \"$@\"";
    let tasuki = tasuki_binary();
    let tasuki = [tasuki.to_str().expect("a plain path"), "run", "--net", NET, "--"];
    let fetch = ["./raw", "fetch", HOST, "8000", "100000"];
    let unshare = ["unshare", "--mount", "sh", "-c", script, "sh"];
    let said = world.run(&[&unshare[..], &tasuki, &fetch].concat()).success();
    assert!(said.stdout.contains("came 100000"), "{said}");
    assert_eq!(said.stderr, "", "{said}");
    drop(echo);
    world.down(NET);
    world.assert_nothing_left();
}

/// What a relay needs, the system may refuse. Its programs have no network then, one sentence names
/// what is missing, and all that is not the network goes on.
#[test]
fn what_a_relay_lacks_is_named() {
    let Some(world) = world() else { return };
    let run = [&["run"], &NOWHERE[..], &["--", "./reach-static", "socket"]].concat();
    let refused = |said: tasuki_tests::Finished, what: &str| {
        assert_eq!(said.stdout, "socket: ENETDOWN\nUnix socket: made\n", "{said}");
        let sentences = said.stderr.lines().filter(|line| line.contains("has no network"));
        let sentences: Vec<&str> = sentences.collect();
        assert!(matches!(sentences[..], [one] if one.contains(what)), "{what}: {said}");
    };
    let _ = world.run(&["chmod", "600", "/run/tun"]).success();
    let said = Running::start(as_user(&world, &run)).finish().success();
    refused(said, "/dev/net/tun, and this user may not open it");
    let _ = world.run(&["umount", "/dev/net/tun"]).success();
    let _ = world.run(&["sh", "-c", "mkdir /run/net; mount --bind /run/net /dev/net"]).success();
    let said = Running::start(as_user(&world, &run)).finish().success();
    refused(said, "/dev/net/tun, and there is none");
    let user = world.user.to_string();
    let without = world.script("no_user_namespaces.py", &[&user]);
    let tasuki = tasuki_binary();
    let words = [&[tasuki.to_str().expect("a plain path")], &run[..]].concat();
    let mut command = world.command(&without);
    command.args(words).env("TMPDIR", "/run/home").current_dir("/");
    let said = Running::start(command).finish().success();
    refused(said, "user.max_user_namespaces allows this user none");
    let _ = world.run(&["umount", "/dev/net"]).success();
    world.assert_nothing_left();
}

/// Where /proc is read-only, or AppArmor takes a user namespace's rights, a user may make one and
/// be nobody in it. A program stays its user, and sees the host's name servers.
#[test]
fn a_user_namespace_without_rights_is_not_entered() {
    let Some(world) = world() else { return };
    let script = "mount -o remount,bind,ro /proc && exec \"$@\"";
    let dns = ["--dns", HOST, "--", "id", "-u"];
    let run = as_user(&world, &[&["run"], &NOWHERE[..], &dns].concat());
    let words = run.get_args().map(|word| word.to_str().expect("plain words").to_owned());
    // What comes after `nsenter … --`.
    let words: Vec<String> = words.skip_while(|word| word != "--").skip(1).collect();
    let unshare = ["unshare", "--mount", "sh", "-c", script, "sh"].map(str::to_owned);
    let said = world.run(&[&unshare[..], &words].concat()).success();
    assert_eq!(said.stdout, format!("{}\n", world.user), "{said}");
    assert!(said.stderr.contains("no file over /etc/resolv.conf"), "{said}");
    world.assert_nothing_left();
}

/// Root of a user namespace has no rights over the process namespace, nor over every setting of a
/// device.
#[test]
fn root_of_a_user_namespace() {
    let Some(world) = world() else { return };
    let tasuki = tasuki_binary();
    let tasuki = tasuki.to_str().expect("a plain path");
    let tap = ["--nic", "tap:rch0", "--address", "10.219.9.2/24"];
    for (own, options) in [(&[][..], &NOWHERE[..]), (&["--net"], &tap)] {
        let unshare = [&["unshare", "--user", "--map-root-user"], own].concat();
        let words = [&unshare[..], &[tasuki, "run"], options, &["--", "echo", "it runs"]].concat();
        let said = world.run(&words).success();
        assert_eq!(said.stdout, "it runs\n", "{said}");
    }
    world.assert_nothing_left();
}

/// Process 1 of many containers waits for no orphans.
#[test]
fn nothing_is_left_to_process_1() {
    let Some(world) = world() else { return };
    let tasuki = tasuki_binary();
    let script = world.script("idle_init.py", &[tasuki.to_str().expect("a plain path"), "run"]);
    for options in [&[][..], &["--host-loopback"], &["--intercept", "seccomp", "--host-loopback"]] {
        let mut words = vec!["unshare", "--pid", "--fork", "--mount-proc"];
        words.extend(script.iter().map(String::as_str));
        words.extend(options.iter().chain(&NOWHERE).chain(&["--", "/run/home/reach", "socket"]));
        let said = world.run(&words).success();
        assert!(said.stdout.ends_with("zombies: []\n"), "{said}");
    }
    world.assert_nothing_left();
}

/// `tasuki run --net` becomes its program where process 1 collects the relay.
#[test]
fn nothing_is_left_to_process_1_by_programs_of_an_instance() {
    let Some(world) = world() else { return };
    let up = [&["up"], &NOWHERE[..], &[NET]].concat();
    let _ = Running::start(world.tasuki(&up)).finish().success();
    let tasuki = tasuki_binary();
    let run = [tasuki.to_str().expect("a plain path"), "run", "--net", NET];
    for how in ["auto", "seccomp"] {
        let mut words = vec!["unshare", "--pid", "--fork", "--mount-proc"];
        let script = world.script("idle_init.py", &run);
        words.extend(script.iter().map(String::as_str));
        words.extend(["--intercept", how, "--", "/run/home/reach", "socket"]);
        let said = world.run(&words).success();
        assert!(said.stdout.ends_with("zombies: []\n"), "{said}");
    }
    // Exit codes and signals are the program's.
    let run = format!("{} --", run.join(" "));
    let script = format!(
        "import subprocess, sys\n\
         one = lambda *words: subprocess.Popen([*'{run}'.split(), *words], stdout=-1)\n\
         print(one('sh', '-c', 'exit 7').wait())\n\
         trap = 'trap \"exit 9\" TERM; echo ready; while :; do sleep 0.1; done'\n\
         running = one('sh', '-c', trap)\n\
         running.stdout.readline(); running.terminate(); print(running.wait())\n\
         killed = one('sh', '-c', 'echo $$; exec sleep 600')\n\
         number = int(killed.stdout.readline()); killed.kill(); print(killed.wait())\n\
         killed.stdout.read(); print('ended')"
    );
    let python = world.python(&["-c", &script]);
    let mut words = vec!["unshare", "--pid", "--fork", "--mount-proc"];
    words.extend(python.iter().map(String::as_str));
    let said = world.run(&words).success();
    assert_eq!(said.stdout, "7\n9\n-9\nended\n", "{said}");
    let _ = Running::start(world.tasuki(&["down", NET])).finish().success();
    world.assert_nothing_left();
}

/// A program does not go on without its network.
#[test]
fn a_program_ends_with_its_killed_instance() {
    let Some(world) = world() else { return };
    for mode in ["split", "fused", "library"] {
        for intercept in ["auto", "preload"] {
            let options = ["run", "--mode", mode, "--intercept", intercept];
            let program = ["sh", "-c", "echo ready; exec sleep 600"];
            let words = [&options[..], &NOWHERE, &["--"], &program].concat();
            let running = Running::start(as_user(&world, &words));
            let _ = running.line("ready");
            running.signal(Signal::KILL);
            let _ = running.finish();
            eventually("no process is left", || world.processes().is_empty());
        }
    }
}
