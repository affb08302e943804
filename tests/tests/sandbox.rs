//! The sandbox of the servers, measured from outside and tried from inside.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use sandbox::Role;
use tasuki_tests::{Finished, HOST, Mode, Running, STACK, World, eventually, tasuki_binary};

const NET: &str = "sandbox";

/// A line of a process's status file.
fn status(pid: u32, name: &str) -> String {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).expect("the process lives");
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {name} in {text}")).trim().to_owned()
}

fn namespace(pid: u32, kind: &str) -> String {
    let link = fs::read_link(format!("/proc/{pid}/ns/{kind}")).expect("root may see it");
    link.display().to_string()
}

/// Servers that carry traffic have no right left, whatever the device.
#[test]
fn servers_have_no_rights_while_they_serve() {
    for mode in [Mode::Split, Mode::Fused] {
        let Some(world) = World::new() else { return };
        fs::write(world.path("file"), vec![7; 1 << 20]).unwrap();
        let server = world.http_server();
        world.up(NET, mode, &[]);
        let url = format!("http://{HOST}:8000/file");
        let slowly = world.script("slowly.py", &[&url, "back", "go"]);
        let mut program = Running::start(world.on_net(NET, &slowly));
        let _ = program.line("begun");

        let all = world.ps(NET).processes;
        let supervisor = all[0].pid;
        let servers: Vec<u32> =
            all.iter().filter(|p| p.sandbox.is_some()).map(|process| process.pid).collect();
        assert_eq!(servers.len(), if mode == Mode::Split { 2 } else { 1 }, "{all:?}");
        let users: BTreeSet<u32> =
            servers.iter().map(|&pid| check_server(pid, supervisor)).collect();
        assert_eq!(users.len(), servers.len(), "each has a user of its own: {users:?}");
        for process in all.iter().filter_map(|process| process.sandbox.as_ref()) {
            assert_eq!(process.missing, [""; 0]);
        }
        check_supervisor(supervisor);

        assert!(!program.has_ended(), "there is no more traffic");
        fs::write(world.path("go"), "").unwrap();
        let _ = program.finish().success();
        drop(server);
        world.down(NET);
        world.assert_nothing_left();
    }
}

/// Returns its user.
fn check_server(pid: u32, supervisor: u32) -> u32 {
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert_eq!(status(pid, set), "0000000000000000", "{set} of {pid}");
    }
    assert_eq!((status(pid, "Seccomp"), status(pid, "NoNewPrivs")), ("2".into(), "1".into()));
    assert_eq!(status(pid, "Groups"), "");
    let users = status(pid, "Uid");
    let users: BTreeSet<u32> = users.split_whitespace().map(|uid| uid.parse().unwrap()).collect();
    assert_eq!((users.len(), status(pid, "Gid")), (1, status(pid, "Uid")));
    let user = *users.first().unwrap();
    assert!((61_184..=65_519).contains(&user), "{user}");
    // Its number in the innermost namespace is the last one.
    assert!(status(pid, "NSpid").ends_with("\t1"), "{}", status(pid, "NSpid"));
    for kind in ["cgroup", "ipc", "mnt", "net", "pid", "uts"] {
        assert_ne!(namespace(pid, kind), namespace(supervisor, kind), "{kind}");
    }
    let root: Vec<_> = fs::read_dir(format!("/proc/{pid}/root")).unwrap().collect();
    assert!(root.is_empty(), "{root:?}");
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    for limit in ["Max core file size", "Max processes"] {
        let line = limits.lines().find(|line| line.starts_with(limit)).unwrap();
        let values: Vec<&str> = line[limit.len()..].split_whitespace().take(2).collect();
        assert_eq!(values, ["0", "0"], "{line}");
    }
    // Of files it has only the null device, the log, its device and memory without a name. An inet
    // server may keep processors awake.
    let inet = status(pid, "Name") != "tasuki-nic";
    for entry in fs::read_dir(format!("/proc/{pid}/fd")).unwrap() {
        let target = fs::read_link(entry.unwrap().path()).unwrap().display().to_string();
        let may = ["/dev/null", "/dev/net/tun", "/run/tasuki/", "/memfd:", "/anon_hugepage"];
        let latency = inet && target == "/dev/cpu_dma_latency";
        let allowed = latency || may.iter().any(|head| target.starts_with(head));
        assert!(!target.starts_with('/') || allowed, "{target}");
    }
    user
}

/// It keeps what a TAP device needs in force, and what later servers need permitted.
fn check_supervisor(pid: u32) {
    let bits = |numbers: &[u32]| numbers.iter().fold(0_u64, |all, number| all | 1 << number);
    let set = |name: &str| u64::from_str_radix(&status(pid, name), 16).unwrap();
    // kill, net_admin, bpf; setgid, setuid, setpcap, sys_chroot, sys_admin.
    let in_force = bits(&[5, 12, 39]);
    assert_eq!(set("CapEff"), in_force);
    assert_eq!(set("CapPrm"), in_force | bits(&[6, 7, 8, 18, 21]));
    assert_eq!(set("CapBnd"), set("CapPrm"));
    assert_eq!(status(pid, "NoNewPrivs"), "1");
}

/// `tasuki ps --security` shows the same.
#[test]
fn ps_shows_the_rights() {
    let Some(world) = World::new() else { return };
    world.up(NET, Mode::Split, &[]);
    let pids: Vec<u32> = world.ps(NET).processes.iter().map(|process| process.pid).collect();
    let said = Running::start(world.tasuki(&["ps", "--security", NET])).finish().success();
    for word in ["filter", "cgroup,ipc,mnt,net,pid,uts", "kill,net_admin,bpf", "yes"] {
        assert!(said.stdout.contains(word), "{word} is not in {said}");
    }
    let words = ["ps", "--security", "--json", NET];
    let said = Running::start(world.tasuki(&words)).finish().success();
    let all: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
    for (pid, report) in pids.iter().zip(all[0]["security"].as_array().unwrap()) {
        let user: u32 = status(*pid, "Uid").split('\t').next().unwrap().parse().unwrap();
        assert_eq!(report["uid"], user);
        assert_eq!(report["no_new_privs"], true);
        assert_eq!(report["seccomp"].to_string(), status(*pid, "Seccomp"));
    }
    world.down(NET);
    world.assert_nothing_left();
}

/// The program of `tasuki run` has its caller's rights, neither less nor more.
#[test]
fn a_program_has_the_rights_of_its_caller() {
    let Some(world) = World::new() else { return };
    let words = ["grep", "-E", "^(Uid|Gid|Groups|Cap|NoNewPrivs)", "/proc/self/status"];
    let alone = Running::start(world.command(&words)).finish().success();
    assert!(alone.stdout.contains("CapEff"), "{alone}");
    for mode in [Mode::Split, Mode::Fused, Mode::Library] {
        let on_stack = Running::start(world.on_stack(mode, &words)).finish().success();
        assert_eq!(on_stack.stdout, alone.stdout, "{mode:?}");
    }
    world.assert_nothing_left();
}

/// A server that somebody owns makes a system call outside of its list: it is not made, and ends
/// the instance with sentences that name it.
#[test]
#[cfg(target_arch = "x86_64")]
fn a_call_outside_of_the_list_is_named() {
    for (role, name) in [("inet", "inet"), ("nic", "nic:tap")] {
        let Some(world) = World::new() else { return };
        world.up(NET, Mode::Split, &[]);
        let all = world.ps(NET).processes;
        let server = all.iter().find(|process| process.role == role).unwrap().pid;
        // So the server makes calls. 110 is getppid.
        let ping = world.spawn(&["ping", "-q", "-i", "0.2", "-w", "30", STACK]);
        let inject = world.script("inject_call.py", &[&server.to_string(), "110"]);
        let _ = world.run(&inject).success();
        drop(ping);
        eventually("the instance has ended", || world.processes().is_empty());
        let log = fs::read_to_string(world.outside(&format!("/run/tasuki/{NET}.log"))).unwrap();
        let sentence = format!("the process {name} made the system call getppid (110)");
        assert_eq!(log.matches(&sentence).count(), 1, "{log}");
        assert!(log.contains("by a system call that its sandbox does not allow"), "{log}");
    }
}

/// Calls of somebody who owns a server. The kernel refuses them even without the filter.
const REFUSED: &[&str] = &[
    "openat(-100,\"/etc/passwd\",0)",
    "openat(-100,\"/proc/self/mem\",2)",
    "openat(-100,\"/new\",66,384)",
    "mkdirat(-100,\"/new\",448)",
    // Packet and AF_XDP sockets.
    "socket(17,3,0)",
    "socket(44,3,0)",
    "execve(\"/proc/self/exe\",0,0)",
    "clone(17)",
    "ptrace(16,1)",
    "kill(1000,9)",
    "mount(\"x\",\"/\",\"tmpfs\",0,0)",
    "setuid(0)",
    "setns(0,0)",
    "bpf(0,0,0)",
    "chroot(\"/\")",
    "sethostname(\"x\",1)",
    "init_module",
    "reboot(0xfee1dead,672274793,0)",
];

/// Calls that the filter alone refuses.
const FILTERED: &[&str] = &[
    "socket(2,1,0)",
    "socket(1,1,0)",
    "connect(0,0,0)",
    "unshare(0x10000000)",
    "mmap(0,4096,7,0x22,-1,0)",
    "mprotect(0,0,4)",
    "prctl(38,1,0,0,0)",
    "io_uring_setup",
    "io_uring_register",
    "pidfd_open(1)",
    "process_vm_writev(1)",
    "keyctl",
    "userfaultfd",
    "perf_event_open",
    // A terminal's input, through standard error.
    "ioctl(2,0x5412,0)",
    // Making a descriptor ours send signals.
    "fcntl(2,8,1)",
    "tgkill(1,1,9)",
    "prlimit64(2,7,0,0)",
];

/// Of these, the calls that the relay makes in its own network namespace, and the connector in its
/// caller's.
const RELAYED: &[&str] = &["socket(2,1,0)", "connect(0,0,0)"];

/// Calls that the filter alone refuses the relay: it may have raw sockets in its own network
/// namespace, so it has the right to these there.
const RAW: &[&str] = &["socket(17,3,0)", "socket(44,3,0)"];

/// Calls that the filter alone refuses a target: the threads of its io_uring, which the kernel
/// begins, count as its processes.
const OF_URING: &[&str] = &["clone(17)"];

/// Calls that are part of every role's work.
const ALLOWED: &[&str] = &["getpid", "mmap(0,4096,3,0x22,-1,0)", "sched_yield", "futex(0,1,1)"];

fn probe(role: Role, filter: bool, tries: &[&str]) -> Finished {
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork"]).arg(tasuki_binary()).args(["server", &role.to_string()]);
    command.args(["--user=61300", "--sandbox=require"]);
    command.args((!filter).then_some("--no-filter"));
    command.args(tries.iter().map(|one| format!("--try={one}")));
    Running::start(command).finish()
}

/// Every role is owned by somebody, who tries all kinds of things.
#[test]
fn who_owns_a_server_can_do_nothing_else() {
    if World::new().is_none() {
        return;
    }
    // The other roles' lists are made of these, so there is less to try.
    let whole = [
        "inet",
        "nic:tap",
        "nic:packet",
        "nic:xdp",
        "nic:wire",
        "fused:pcap",
        "relay",
        "connector",
        "target",
    ];
    for role in Role::all() {
        let said = probe(role, true, ALLOWED).success();
        assert_eq!(said.stdout.lines().count(), 1 + ALLOWED.len(), "{role}: {said}");
        let take = if whole.contains(&&role.to_string()[..]) { usize::MAX } else { 1 };
        let relayed = matches!(role, Role::Relay | Role::Connector);
        let of_its_network = |one: &&&str| relayed && RELAYED.contains(one);
        let tries = FILTERED.iter().chain(REFUSED).filter(|one| !of_its_network(one));
        for one in tries.take(take) {
            let said = probe(role, true, &[one]);
            let call = one.split('(').next().unwrap();
            let sentence = format!("the process {role} made the system call {call} (");
            assert!(said.stderr.contains(&sentence), "{role}: {one}: {said}");
            assert_eq!(said.status.code(), Some(sandbox::EXIT_CODE), "{role}: {one}: {said}");
        }
        // The layers below do not need it.
        let filtered = |one: &&&str| match role {
            Role::Relay => RAW.contains(one),
            Role::Target => OF_URING.contains(one),
            _ => false,
        };
        let refused = REFUSED.iter().filter(|one| !filtered(one)).copied();
        let refused: Vec<&str> = refused.collect();
        let said = probe(role, false, &refused).success();
        let results: Vec<&str> = said.stdout.lines().skip(1).collect();
        assert_eq!(results.len(), refused.len(), "{said}");
        for result in results {
            assert!(result.contains("os error"), "{role}: {result}");
        }
    }
}

/// The user can do without, and can demand all.
#[test]
fn the_variable_is_obeyed() {
    let Some(world) = World::new() else { return };
    let run = |value: &str, words: &[&str]| {
        let mut command = world.on_stack(Mode::Split, words);
        command.env("TASUKI_SANDBOX", value);
        Running::start(command).finish()
    };
    let _ = run("require", &["true"]).success();
    let ps = format!("{} ps --security --json", tasuki_binary().display());
    for (value, filter) in [("off", "0"), ("on", "2")] {
        let said = run(value, &["sh", "-c", &format!("LD_PRELOAD= {ps}")]).success();
        let all: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
        let security = all[0]["security"].as_array().unwrap();
        assert_eq!(security[1]["seccomp"].to_string(), filter, "{said}");
        assert_eq!(security[1]["uid"] == 0, value == "off", "{said}");
    }
    let said = run("of", &["true"]);
    assert_eq!(said.status.code(), Some(118), "{said}");
    assert!(said.stderr.contains("use on, off or require"), "{said}");
    world.assert_nothing_left();
}

/// Root of a container may lack the right to make namespaces. Its servers get a user namespace, and
/// one warning says what is missing.
#[test]
fn a_missing_right_costs_one_warning() {
    let Some(world) = World::new() else { return };
    let tasuki = tasuki_binary();
    let without = ["setpriv", "--bounding-set=-sys_admin", tasuki.to_str().unwrap()];
    let run = |demand: &str, words: &[&str]| {
        let words: Vec<&str> = without.iter().chain(words).copied().collect();
        let mut command = world.command(&words);
        command.env("TASUKI_SANDBOX", demand);
        Running::start(command).finish()
    };
    let up = ["up", "--nic", "tap:tsk0", "--address", "10.219.7.2/24", NET];
    let said = run("require", &up);
    assert!(!said.status.success() && said.stderr.contains("the whole sandbox"), "{said}");
    let log = || fs::read_to_string(world.outside(&format!("/run/tasuki/{NET}.log"))).unwrap();
    assert!(log().contains("the sandbox lacks process namespace"), "{}", log());

    let _ = run("on", &up).success();
    let log = log();
    assert_eq!(log.matches("the sandbox is not complete").count(), 1, "{log}");
    for process in world.ps(NET).processes {
        let Some(sandbox) = process.sandbox else { continue };
        assert_eq!(sandbox.missing, ["process namespace"]);
        assert_ne!(status(process.pid, "Uid").split('\t').next(), Some("0"));
        assert_eq!(status(process.pid, "CapEff"), "0000000000000000");
        assert_eq!(status(process.pid, "Seccomp"), "2");
        let own = namespace(std::process::id(), "user");
        assert_ne!(namespace(process.pid, "user"), own);
    }
    world.down(NET);
    world.assert_nothing_left();
}
