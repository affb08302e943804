//! An idle instance uses no processor. None of its processes is ever woken, however its programs
//! wait.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use tasuki_tests::{HOST, Mode, PATIENCE, Running, World};

const NET: &str = "idle";
/// How long nothing may happen.
const QUIET: Duration = Duration::from_secs(3);

/// Ways of waiting: in a call, in poll(2) with a descriptor of the kernel's, and with a time limit.
const WAITS: [&str; 3] = [
    "s.recv(1)",
    "import os, select; p = select.poll(); p.register(s, 1); p.register(os.pipe()[0], 1); p.poll()",
    "s.settimeout(3600); s.recv(1)",
];

/// Context switches of all threads of a process so far.
fn switches(pid: u32) -> u64 {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("the process runs");
    let statuses =
        tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("status")).ok());
    let count = |status: String| -> u64 {
        let lines = status.lines().filter(|line| line.contains("ctxt_switches"));
        lines.filter_map(|line| line.rsplit_once('\t')?.1.parse::<u64>().ok()).sum()
    };
    statuses.map(count).sum()
}

fn nothing_happens(mode: Mode, programs: usize) {
    let Some(world) = World::new() else { return };
    // The host's kernel would look for routers and report its groups on the device.
    for name in ["all", "default"] {
        let key = format!("net.ipv6.conf.{name}.disable_ipv6=1");
        let _ = world.run(&["sysctl", "-qw", &key]).success();
    }
    world.up(NET, mode, &["--ipv6", "off"]);
    let peer = world.spawn(&world.script("echo.py", &["0.0.0.0", "9000"]));
    let _ = peer.line("ready");
    let waiting: Vec<Running> = WAITS[..programs]
        .iter()
        .map(|wait| {
            let code = format!(
                "import socket; s = socket.create_connection((\"{HOST}\", 9000)); \
                 print(\"waits\"); {wait}"
            );
            let program = Running::start(world.on_net(NET, &world.python(&["-c", &code])));
            let _ = program.line("waits");
            program
        })
        .collect();
    let status = world.ps(NET);
    assert_eq!(status.processes.iter().filter(|p| p.role == "client").count(), waiting.len());
    let begin = Instant::now();
    loop {
        // The work of the start ends sooner or later: reports of groups, handshakes.
        let before = status.processes.iter().map(|p| switches(p.pid)).collect::<Vec<_>>();
        sleep(QUIET);
        let after = status.processes.iter().map(|p| switches(p.pid)).collect::<Vec<_>>();
        if before == after {
            break;
        }
        let roles: Vec<&str> = status.processes.iter().map(|p| p.role.as_str()).collect();
        assert!(begin.elapsed() < PATIENCE, "{mode:?} is woken: {roles:?} {before:?} {after:?}");
    }
    // The programs do wake up for news, or for the end.
    drop(peer);
    for program in waiting {
        let _ = program.finish().success();
    }
    world.down(NET);
    world.assert_nothing_left();
}

#[test]
fn no_process_is_woken_in_split_mode() {
    nothing_happens(Mode::Split, WAITS.len());
    nothing_happens(Mode::Split, 0);
}

#[test]
fn no_process_is_woken_in_fused_mode() {
    nothing_happens(Mode::Fused, WAITS.len());
}

#[test]
fn no_process_is_woken_in_library_mode() {
    nothing_happens(Mode::Library, 1);
}

#[test]
fn a_long_wait_ends_with_the_instance() {
    let Some(world) = World::new() else { return };
    world.up(NET, Mode::Split, &[]);
    let code = "import socket; s = socket.socket(); s.bind((\"0.0.0.0\", 1)); s.listen(); \
                print(\"waits\"); s.accept()";
    let program = Running::start(world.on_net(NET, &world.python(&["-c", code])));
    let _ = program.line("waits");
    // Longer than it sleeps on its futex.
    sleep(Duration::from_millis(1500));
    world.down(NET);
    let said = program.finish();
    assert!(!said.status.success() && said.stderr.contains("Error"), "{said}");
}

/// The kernel's file for requests that processors do not halt.
const LATENCY: &str = "/dev/cpu_dma_latency";

/// Has a server of the instance the file open?
fn may_keep_awake(world: &World, config: &str) -> bool {
    fs::write(world.path("config"), format!("[instance]\n{config}\n")).expect("room for it");
    world.up(NET, Mode::Split, &["--config", &world.file("config")]);
    let mut servers = world.ps(NET).processes.into_iter();
    let inet = servers.find(|process| process.role == "inet").expect("it runs");
    let fds = fs::read_dir(format!("/proc/{}/fd", inet.pid)).expect("root may look");
    let mut links = fds.filter_map(|fd| fs::read_link(fd.ok()?.path()).ok());
    let has = links.any(|link| link.as_os_str() == LATENCY);
    world.down(NET);
    has
}

#[test]
fn the_configuration_decides_whether_processors_may_be_kept_awake() {
    let Some(world) = World::new() else { return };
    let possible = fs::File::options().write(true).open(LATENCY).is_ok();
    assert_eq!(may_keep_awake(&world, ""), possible);
    assert!(!may_keep_awake(&world, "keep_awake = false"));
}
