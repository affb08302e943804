//! What programs might do around their instance: system calls by which the kernel would use the
//! host's network for them, netlink, and network namespaces of their own.

use tasuki_tests::{HOST, Mode, Running, STACK, World, installed, program, skip, tasuki_binary};

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

const NAMES_OURS: &str = "`tasuki ss` shows those of the instance";

#[test]
fn netlink_shows_nothing_of_the_host_and_changes_nothing() {
    let Some(world) = world("around.c", "around", &[]) else { return };
    let host = world.spawn(&world.script("echo.py", &["0.0.0.0", "4711"]));
    let _ = host.line("ready");
    let on_net = |words: &[&str]| Running::start(world.on_net(NET, words)).finish();
    let said = on_net(&["ss", "-tlnH"]).success();
    assert_eq!(said.stdout, "", "{said}");
    assert!(said.stderr.contains(NAMES_OURS), "{said}");
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

/// The relay may have no namespace, so that the program gets no list.
#[test]
fn what_cannot_list_sockets_names_the_command_that_does() {
    let Some(world) = World::new() else { return };
    let tasuki = tasuki_binary();
    let tasuki = tasuki.to_str().expect("a plain path");
    let script = "echo 0 > /proc/sys/user/max_net_namespaces && exec \"$@\"";
    let words = ["unshare", "--user", "--map-root-user", "--net", "--mount", "sh", "-c", script];
    let run = [tasuki, "run", "--nic", "tap:alone0", "--address", "192.0.2.2/24", "--"];
    let said = world.run(&[&words[..], &["sh"], &run, &["ss", "-tlnH"]].concat());
    assert_eq!(said.stdout, "", "{said}");
    assert!(said.stderr.contains(NAMES_OURS), "{said}");
    world.assert_nothing_left();
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
        for how in [&["unshare"][..], &["syscall"], &["clone"], &["__clone"], &["set", &file]] {
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
    namespaces_without_networks(&world);
    drop(echo);
    end(&world);
}

/// Tools that take the network away, of root and of a plain user.
fn namespaces_without_networks(world: &World) {
    let script = format!("(exec 3<>/dev/tcp/{HOST}/8000) 2>&1; ip -br link");
    let user = ["setpriv", "--reuid", "47110", "--regid", "47110", "--clear-groups"];
    let bwrap = ["bwrap", "--dev-bind", "/", "/", "--unshare-net", "--"];
    for tool in [&["unshare", "-rn"][..], &bwrap] {
        if !installed(tool[0]) {
            skip("bwrap is not installed");
            continue;
        }
        for user in [&[][..], &user] {
            let words = [user, tool, &["bash", "-c", &script]].concat();
            let said = Running::start(world.on_net(NET, &words)).finish().success();
            assert!(said.stdout.contains("Network is unreachable"), "{words:?}: {said}");
            let links = said.stdout.lines().filter(|line| !line.contains("unreachable"));
            let links: Vec<_> = links.filter_map(|line| line.split_whitespace().next()).collect();
            assert_eq!(links, ["lo"], "{words:?}: {said}");
        }
    }
}

/// Descriptors that the caller has left open: a socket of the host, a Unix socket, a pipe, an
/// io_uring (or a socket, where the system has none), a packet socket, a device of the host.
const LEFT_OPEN: &str = r#"
import ctypes, fcntl, os, socket, struct, subprocess, sys
host = socket.socket()
host.bind(('127.0.0.1', 0))
local, other = socket.socketpair()
reader, writer = os.pipe()
ring = ctypes.CDLL(None).syscall(425, 2, ctypes.create_string_buffer(120))
if ring < 0: ring = os.dup(host.fileno())
packets = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
device = os.open('/dev/net/tun', os.O_RDWR)
fcntl.ioctl(device, 0x400454ca, struct.pack('16sH22x', b'tap%d', 0x1002))
all = (host.fileno(), local.fileno(), reader, ring, packets.fileno(), device)
for number, fd in enumerate(all):
    os.dup2(fd, 50 + number, inheritable=True)
show = '''
import os
for fd in range(50, 56):
    try: print(os.readlink(f'/proc/self/fd/{fd}').split(':')[0], end=' ')
    except OSError: print('closed', end=' ')
'''
words, options = sys.argv[1:], os.environ.get('OPTIONS', '').split()
stdin = host if 'STREAM' in os.environ else None
listening = {'LISTEN_FDS': '48'} if 'ACTIVATED' in os.environ else {}
def name_itself():
    if listening: os.environ['LISTEN_PID'] = str(os.getpid()); os.environ.update(listening)
    os.execvp(words[0], [*words, *options, '--', sys.executable, '-c', show])
child = os.fork()
if child == 0:
    if stdin: os.dup2(host.fileno(), 0)
    name_itself()
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"#;

#[test]
fn descriptors_that_lead_around_are_closed() {
    let Some(world) = world("around.c", "around", &[]) else { return };
    std::fs::write(world.path("left_open.py"), LEFT_OPEN).expect("a file in the world");
    let tasuki = tasuki_tests::tasuki_binary();
    let tasuki = tasuki.to_str().expect("a plain path");
    let run = |variables: &[&str]| {
        let python = world.python(&["left_open.py", tasuki, "run", "--net", NET]);
        let words = ["env"].iter().chain(variables).map(|word| (*word).to_owned());
        world.run(&words.chain(python).collect::<Vec<_>>())
    };
    let said = run(&[]).success();
    assert_eq!(said.stdout, "closed socket pipe closed closed closed ", "{said}");
    let said = run(&["OPTIONS=--keep-fd 50,77"]).code(2);
    assert!(said.stderr.contains("--keep-fd names descriptor 77"), "{said}");
    let said = run(&["OPTIONS=--keep-fd 50"]).success();
    assert_eq!(said.stdout, "socket socket pipe closed closed closed ", "{said}");
    let said = run(&["ACTIVATED=1"]).success();
    assert_eq!(
        said.stdout, "socket socket pipe closed closed closed ",
        "systemd passes them on: {said}"
    );
    let said = run(&["OPTIONS=--no-host-sockets"]).success();
    assert_eq!(said.stdout, "closed closed pipe closed closed closed ", "{said}");
    let said = run(&["STREAM=1"]).code(2);
    assert!(said.stderr.contains("name it with --keep-fd 0"), "{said}");
    let said = run(&["STREAM=1", "OPTIONS=--keep-fd 0"]).success();
    assert_eq!(said.stdout, "closed socket pipe closed closed closed ", "{said}");
    end(&world);
}

#[test]
fn settings_of_the_hosts_network_are_not_written() {
    let Some(world) = world("around.c", "around", &[]) else { return };
    let before = world.run(&["cat", "/proc/sys/net/ipv4/ip_forward"]).success().stdout;
    let other = if before.trim() == "0" { "1" } else { "0" };
    let script = format!(
        "sysctl -w net.ipv4.ip_forward={other} && exit 1; \
         echo {other} > /proc/sys/net/ipv4/ip_forward && exit 2; \
         cat /proc/sys/net/ipv4/ip_forward; \
         cat /proc/sys/vm/swappiness > value; cat value > /proc/sys/vm/swappiness && echo written"
    );
    for how in ["auto", "seccomp"] {
        let words = ["run", "--net", NET, "--intercept", how, "--", "bash", "-c", &script];
        let said = Running::start(world.tasuki(&words)).finish().success();
        assert_eq!(said.stdout, format!("{before}written\n"), "{said}");
    }
    let after = world.run(&["cat", "/proc/sys/net/ipv4/ip_forward"]).success();
    assert_eq!(after.stdout, before);
    end(&world);
}

/// Tries Unix sockets of the host, and processes that have some; then it uses its network.
const WITHOUT: &str = r#"
import os, signal, socket, sys
outside = int(sys.argv[1])
def attempt(what, call):
    try: call(); print(what, 'works')
    except OSError as error: print(what, error.strerror)
attempt('path', lambda: socket.socket(socket.AF_UNIX).connect('service'))
attempt('abstract', lambda: socket.socket(socket.AF_UNIX).connect('\0service'))
attempt('datagram', lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM))
attempt('signal', lambda: os.kill(outside, 0))
attempt('memory', lambda: open(f'/proc/{outside}/mem', 'rb'))
pair = socket.socketpair()
attempt('pair', lambda: pair[0].send(b'x'))
server = socket.create_server(('127.0.0.1', 7000))
one = socket.create_connection(('127.0.0.1', 7000), 30)
two = server.accept()[0]
if os.fork() == 0:
    two.sendall(b'child'); os._exit(0)
os.wait()
print(one.recv(9))
attempt('instance', lambda: socket.create_connection((sys.argv[2], 8000), 30))
"#;

#[test]
fn unix_sockets_of_the_host_are_out_of_reach_if_wanted() {
    let Some(world) = world("around.c", "around", &[]) else { return };
    let echo = world.spawn(&world.script("echo.py", &["0.0.0.0", "8000"]));
    let _ = echo.line("ready");
    let service = "import socket, time\n\
        all = [socket.socket(socket.AF_UNIX) for _ in range(2)]\n\
        for one, name in zip(all, ('service', '\\0service')): one.bind(name); one.listen()\n\
        print('ready', flush=True)\n\
        time.sleep(600)\n";
    let service = world.spawn(&world.python(&["-c", service]));
    let _ = service.line("ready");
    std::fs::write(world.path("without.py"), WITHOUT).expect("a file in the world");
    let pid = service.pid().to_string();
    let program = world.python(&["without.py", &pid, HOST]);
    for how in ["auto", "seccomp"] {
        let run = ["run", "--net", NET, "--intercept", how, "--no-host-sockets", "--"];
        let words: Vec<_> = run.map(str::to_owned).into_iter().chain(program.clone()).collect();
        let said = Running::start(world.tasuki(&words)).finish();
        if said.stderr.contains("needs Landlock of Linux 6.12") {
            skip("needs Landlock of Linux 6.12");
            break;
        }
        let no = "Operation not permitted";
        let expected = format!(
            "path {no}\nabstract {no}\ndatagram {no}\nsignal {no}\nmemory Permission denied\n\
             pair works\nb'child'\ninstance works\n"
        );
        assert_eq!(said.success().stdout, expected);
    }
    // Without the option they are as the host has them.
    let run = ["run", "--net", NET, "--"].map(str::to_owned);
    let words: Vec<_> = run.into_iter().chain(program).collect();
    let said = Running::start(world.tasuki(&words)).finish().success();
    assert!(said.stdout.starts_with("path works\nabstract works\n"), "{said}");
    drop((echo, service));
    end(&world);
}

/// The stack itself has a program's network: so the instance is still told apart from the host.
#[test]
fn a_private_instance_has_the_same_rules() {
    let Some(mode) = Mode::shared() else { return };
    let Some(world) = World::with_kernel() else { return };
    let script = "unshare -rn ip -br link && ip -4 -o addr show dev eth0";
    let words = ["sh", "-c", script];
    let said = Running::start(world.on_stack(mode, &words)).finish().success();
    assert!(said.stdout.starts_with("lo "), "{said}");
    assert!(said.stdout.contains(STACK), "{said}");
    world.assert_nothing_left();
}
