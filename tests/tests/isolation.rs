//! What programs might do around their instance: system calls by which the kernel would use the
//! host's network for them, netlink, and network namespaces of their own.

use tasuki_tests::{HOST, Mode, Running, World, program, skip};

const NET: &str = "alone";

/// A world with an instance and a C program in it, static or not.
fn world(source: &str, name: &str, flags: &[&str]) -> Option<World> {
    let mode = Mode::shared()?;
    if !rustix::process::geteuid().is_root() {
        skip("needs root, whose programs could do most");
        return None;
    }
    let world = World::with_kernel()?;
    build(&world, source, name, flags);
    world.up(NET, mode, &[]);
    Some(world)
}

fn build(world: &World, source: &str, name: &str, flags: &[&str]) {
    let source = program(source);
    let words = ["gcc", "-O1", "-Wall", "-Wextra", "-Werror", "-o", name, &*source];
    let _ = world.run(&[&words[..], flags].concat()).success();
}

fn end(world: &World) {
    world.down(NET);
    world.assert_nothing_left();
}

/// The outcomes that do not depend on the user.
const OUTCOMES: &str = "\
request_key: EPERM
request_key without a helper: ENOKEY
keyctl: made
io_uring_setup: ENOSYS
io_uring_enter: ENOSYS
io_uring_register: ENOSYS
bpf: EPERM
finit_module: EPERM
kexec_load: EPERM
pidfd_open: made
pidfd_getfd: EPERM
seccomp with a listener: EBUSY
a pair of TIPC: EOPNOTSUPP
a pair: made
family: EAFNOSUPPORT
family: EAFNOSUPPORT
family: EAFNOSUPPORT
family: EAFNOSUPPORT
family: EAFNOSUPPORT
family: EAFNOSUPPORT
netlink of routes: made
netlink of events: made
netlink of filters: EPROTONOSUPPORT
netlink of iSCSI: EPROTONOSUPPORT
netlink of RDMA: EPROTONOSUPPORT
flags: made
new flags: EPERM
";

#[test]
fn calls_that_would_use_the_hosts_network() {
    let Some(world) = world("around.c", "around", &["-static"]) else { return };
    std::os::unix::fs::chown(world.path("."), Some(47_110), None).expect("the test's own folder");
    let user = ["setpriv", "--reuid", "47110", "--regid", "47110", "--clear-groups", "./around"];
    for words in [&["./around"][..], &user] {
        let said = Running::start(world.on_net(NET, words)).finish().success();
        assert_eq!(said.stdout, OUTCOMES, "{words:?}: {said}");
    }
    end(&world);
}

#[test]
fn netlink_shows_nothing_of_the_host_and_changes_nothing() {
    let Some(world) = world("around.c", "around", &[]) else { return };
    let host = world.spawn(&world.script("echo.py", &["0.0.0.0", "4711"]));
    let _ = host.line("ready");
    let on_net = |words: &[&str]| Running::start(world.on_net(NET, words)).finish();
    let said = on_net(&["ss", "-tlnH"]).success();
    assert_eq!(said.stdout, "", "{said}");
    assert!(said.stderr.contains("`tasuki ss` shows those of the instance"), "{said}");
    let said = on_net(&["nft", "add", "table", "inet", "around"]);
    assert!(!said.status.success(), "{said}");
    let tables = world.run(&["nft", "list", "tables"]).success();
    assert!(!tables.stdout.contains("around"), "{tables}");
    // Its change is of a picture: it says so. The program waits, as the relay ends with it.
    let change = "ip route add 198.51.100.0/24 dev eth0; while [ ! -e end ]; do sleep 0.05; done";
    let changing = Running::start(world.on_net(NET, &["sh", "-c", change]));
    let _ = changing.line("`tasuki route` show");
    std::fs::write(world.path("end"), "").expect("a file in the world");
    let _ = changing.finish().success();
    let routes = world.run(&["ip", "route"]).success();
    assert!(!routes.stdout.contains("198.51.100"), "{routes}");
    drop(host);
    end(&world);
}

/// What a program reaches that leaves and comes back.
const LEFT: &str = "before: Success
away: Network is unreachable
datagram: Network is unreachable
loopback: up
itself: Success
afterwards: Success
";

#[test]
fn a_program_that_leaves_has_the_network_that_it_makes() {
    let Some(world) = world("leaves.c", "dynamic", &[]) else { return };
    build(&world, "leaves.c", "static", &["-static"]);
    let echo = world.spawn(&world.script("echo.py", &["0.0.0.0", "8000"]));
    let _ = echo.line("ready");
    let elsewhere = world.spawn(&["unshare", "-n", "sh", "-c", "echo ready; exec sleep 600"]);
    let _ = elsewhere.line("ready");
    for name in ["./dynamic", "./static"] {
        let file = format!("/proc/{}/ns/net", elsewhere.pid());
        for how in [&["unshare"][..], &["syscall"], &["clone"], &["set", &file]] {
            let words = [&[name], how, &[HOST, "8000"]].concat();
            let said = Running::start(world.on_net(NET, &words)).finish().success();
            assert_eq!(said.stdout, LEFT, "{words:?}: {said}");
        }
    }
    drop(elsewhere);
    drop(echo);
    end(&world);
}

/// Programs that are executed in such a namespace, by the tools that people use.
#[test]
fn tools_that_leave_work() {
    let Some(world) = world("leaves.c", "leaves", &[]) else { return };
    let echo = world.spawn(&world.script("echo.py", &["0.0.0.0", "8000"]));
    let _ = echo.line("ready");
    let ask = format!(
        "import socket\n\
         for to in (('{HOST}', 8000), ('127.0.0.1', 8000)):\n\
         \x20   try: socket.create_connection(to, 10); print('connected')\n\
         \x20   except OSError as error: print(error.strerror)\n\
         print([name for _, name in socket.if_nameindex()])\n"
    );
    std::fs::write(world.path("ask.py"), ask).expect("a file in the world");
    let python = world.python(&["ask.py"]).join(" ");
    let script = format!(
        "ip link set lo up && {python} && ip -br link && ip addr add 192.0.2.1/24 dev lo && \
         ip -4 -br addr && ip route add 198.51.100.0/24 dev lo && ip route"
    );
    let said = Running::start(world.on_net(NET, &["unshare", "-n", "sh", "-c", &script]));
    let said = said.finish().success();
    for expected in [
        "Network is unreachable\nConnection refused\n['lo']\n",
        "192.0.2.1/24",
        "198.51.100.0/24 dev lo",
    ] {
        assert!(said.stdout.contains(expected), "{expected}: {said}");
    }
    assert_eq!(said.stderr, "", "{said}");
    let named = format!(
        "ip netns add away && ip netns exec away sh -c '{script}' && ip netns del away && {python}"
    );
    let said = Running::start(world.on_net(NET, &["sh", "-c", &named])).finish().success();
    let expected = "Network is unreachable\nConnection refused\n['lo']\n";
    assert!(said.stdout.starts_with(expected), "{said}");
    let back = "connected\nConnection refused\n";
    assert!(said.stdout.contains(back), "who stays has the instance: {said}");
    drop(echo);
    end(&world);
}
