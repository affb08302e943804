//! Programs with many connections at a time. The limit that a program meets is its own
//! RLIMIT_NOFILE; no key has to be set for that.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use std::{fs, thread};

use tasuki_tests::{Finished, HOST, Mode, PATIENCE, Running, STACK, World, eventually, judge};

const NET: &str = "connections";
/// RLIMIT_NOFILE of programs with many connections.
const LIMIT: &str = "20000";
/// Memory that a connection may take of one process, KiB, and of each process beyond that.
const EACH: u64 = 32;
const BASE: u64 = 48 << 10;

/// Memory of all processes of the instance, KiB, own and shared, by role.
fn memory(world: &World) -> Vec<(String, u64)> {
    let of = |pid: u32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let rows = status
            .lines()
            .filter(|line| line.starts_with("RssAnon:") || line.starts_with("RssShmem:"));
        rows.filter_map(|row| row.split_whitespace().nth(1)?.parse::<u64>().ok()).sum()
    };
    world.ps(NET).processes.iter().map(|process| (process.role.clone(), of(process.pid))).collect()
}

/// How much memory they take is a row for a reader (`make test-lab`).
fn judge_memory(world: &World, connections: u64) {
    for (role, kib) in memory(world) {
        let what = format!("memory of {role} with {connections} connections, KiB");
        judge(&what, kib, ..=BASE + EACH * connections);
    }
}

fn assert_nothing_is_open(world: &World) {
    eventually("no socket is left", || {
        world.ss(NET).iter().all(|row| row.state.starts_with("TIME"))
    });
}

/// How many sockets each stack has in each state.
fn states(world: &World) -> BTreeMap<String, usize> {
    let mut states = BTreeMap::new();
    let kernel = world.run(&["ss", "-Htan"]).success();
    let ours = world.ss(NET);
    let kernel = kernel.stdout.lines().filter_map(|line| line.split_whitespace().next());
    for state in kernel.map(|state| format!("kernel's {state}")) {
        *states.entry(state).or_default() += 1;
    }
    for row in ours {
        *states.entry(format!("ours {}", row.state)).or_default() += 1;
    }
    states
}

/// Waits for a program that ends when all of its connections have ended. One that does not was not
/// told of an end: then the stacks' states say whose fault that is.
fn ended(world: &World, mut program: Running) -> Finished {
    let begin = Instant::now();
    while !program.has_ended() && begin.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(5));
    }
    if !program.has_ended() {
        println!("{:?}, {:?}", states(world), world.ps(NET).counters);
    }
    program.finish_within(Duration::ZERO).success()
}

/// Processor time that the program has used, in clock ticks.
fn ticks(world: &World) -> u64 {
    let clients = world.ps(NET).processes.into_iter().filter(|process| process.role == "client");
    let of = |pid: u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
        fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum::<u64>()
    };
    clients.map(|client| of(client.pid)).sum()
}

#[test]
fn a_server_has_as_many_connections_as_its_limit_allows() {
    let Some(world) = World::new() else { return };
    let Some(mode) = Mode::shared() else { return };
    world.up(NET, mode, &[]);
    let before = world.ps(NET).pools;
    let count = 12_000;
    let server = ["serve", "0.0.0.0", "8000", LIMIT, &count.to_string()];
    let server = Running::start(world.on_net(NET, &world.script("connections.py", &server)));
    let _ = server.line("ready");
    let ask = ["connect", STACK, "8000", LIMIT, &count.to_string()];
    let ask = world.spawn(&world.script("connections.py", &ask));
    println!("{}", server.line("holds"));
    judge_memory(&world, count);
    let said = ended(&world, ask);
    assert!(said.stdout.contains(&format!("closed {count}")), "{said}");
    let said = ended(&world, server);
    println!("{}", said.stdout);
    assert!(said.stdout.contains(&format!("served {count} most {count}")), "{said}");
    assert_nothing_is_open(&world);
    world.assert_pools_return(NET, &before);
    world.down(NET);
    world.assert_nothing_left();
}

#[test]
fn a_client_has_as_many_connections_as_its_limit_allows() {
    let Some(world) = World::new() else { return };
    let Some(mode) = Mode::shared() else { return };
    world.up(NET, mode, &[]);
    let before = world.ps(NET).pools;
    let count = 10_000;
    let server = ["serve", HOST, "8000", LIMIT, &count.to_string()];
    let server = world.spawn(&world.script("connections.py", &server));
    let _ = server.line("ready");
    let ask = ["connect", HOST, "8000", LIMIT, &count.to_string()];
    let ask = Running::start(world.on_net(NET, &world.script("connections.py", &ask)));
    println!("{}", ask.line("open"));
    judge_memory(&world, count);
    let said = ended(&world, ask);
    println!("{}", said.stdout);
    assert!(said.stdout.contains(&format!("closed {count}")), "{said}");
    let said = ended(&world, server);
    assert!(said.stdout.contains(&format!("served {count} most {count}")), "{said}");
    assert_nothing_is_open(&world);
    world.assert_pools_return(NET, &before);
    world.down(NET);
    world.assert_nothing_left();
}

/// A server waits for thousands of idle connections and ten busy ones. It prints how much processor
/// time it takes; that its waits look at the busy ones only is counted in
/// `crates/preload/src/registrations/tests.rs`.
#[test]
fn idle_connections_do_not_make_busy_ones_dear() {
    let Some(world) = World::new() else { return };
    let Some(mode) = Mode::shared() else { return };
    world.up(NET, mode, &[]);
    for count in [10, 5010] {
        let server = ["serve", "0.0.0.0", "8000", LIMIT, &count.to_string()];
        let server = Running::start(world.on_net(NET, &world.script("connections.py", &server)));
        let _ = server.line("ready");
        let ask = ["busy", STACK, "8000", LIMIT, &count.to_string()];
        let ask = Running::start(world.command(&world.script("connections.py", &ask)));
        let _ = server.line("holds");
        let _ = ask.line("open");
        let before = ticks(&world);
        ask.signal(rustix::process::Signal::USR1);
        let _ = ask.line("asked 10");
        println!("{count} connections: {} ticks for 10,000 requests", ticks(&world) - before);
        ask.signal(rustix::process::Signal::KILL);
        let _ = ask.finish();
        let said = server.finish().success();
        assert!(said.stdout.contains(&format!("served {count} most {count}")), "{said}");
    }
    world.down(NET);
    world.assert_nothing_left();
}

/// A limit below the number of connections: EMFILE at the limit, as the kernel gives it, and the
/// connection that was refused a number waits for the next one that is free.
#[test]
fn a_program_meets_its_own_limit_of_descriptors() {
    let Some(world) = World::new() else { return };
    let limit = 200;
    let command = |address: &str| {
        world.script("connections.py", &["fill", address, "8000", &limit.to_string()])
    };
    let mut said = Vec::new();
    for on_stack in [false, true] {
        let (address, server) = if on_stack {
            (STACK, Running::start(world.on_stack(Mode::given(), &command("0.0.0.0"))))
        } else {
            ("127.0.0.1", world.spawn(&command("127.0.0.1")))
        };
        let _ = server.line("ready");
        let some = ["some", address, "8000", "1024", "250"];
        let client = world.spawn(&world.script("connections.py", &some));
        let finished = server.finish().success();
        client.signal(rustix::process::Signal::KILL);
        let _ = client.finish();
        let lines = finished.stdout.lines().skip_while(|line| !line.starts_with("full"));
        said.push(lines.map(str::to_owned).collect::<Vec<_>>());
    }
    let last = limit - 1;
    let expected =
        [format!("full EMFILE {last}"), "EMFILE".into(), "EMFILE".into(), format!("took {last}")];
    assert_eq!(said, [expected.to_vec(), expected.to_vec()]);
    world.assert_nothing_left();
}
