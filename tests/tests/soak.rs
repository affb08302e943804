//! Servers that people run, in one instance, under load for a long time: nginx that reloads, redis
//! that saves by a fork, PostgreSQL, iperf3. No request fails, memory does not grow, in the end
//! nothing is left, and nothing went over the host's network.
//!
//! `make soak` runs it for 20 minutes. TASUKI_SOAK_SECONDS is another time.

use std::fs;
use std::time::{Duration, Instant};

use abi::control::InstanceStatus;
use rustix::process::Signal;
use tasuki_tests::{PostgresFiles, ProgramWorld, Running, STACK, eventually, write_noise};

const PROGRAMS: [&str; 5] = ["nginx", "wrk", "redis-server", "redis-benchmark", "iperf3"];
/// Listeners of nginx, redis and iperf3, and those of PostgreSQL for IPv4 and IPv6.
const LISTENERS: usize = 5;
/// Between two reloads of nginx.
const RELOAD: Duration = Duration::from_secs(3);
/// Most memory that a server may take more at the end than after a third of the time, KiB.
const GROWTH: u64 = 16 << 10;

/// Memory and descriptors of a server of the instance.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Usage {
    role: String,
    resident_kib: u64,
    descriptors: usize,
}

fn usage(status: &InstanceStatus) -> Vec<Usage> {
    let servers = status.processes.iter().filter(|process| process.role != "client");
    let of = |pid: u32| {
        let text = fs::read_to_string(format!("/proc/{pid}/status")).expect("a running server");
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a size");
        let kib = line.split_whitespace().next().and_then(|word| word.parse().ok());
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).expect("root may look").count();
        (kib.expect("a number"), descriptors)
    };
    let usage = servers.map(|process| {
        let (resident_kib, descriptors) = of(process.pid);
        Usage { role: process.role.clone(), resident_kib, descriptors }
    });
    usage.collect()
}

/// Repeats a command of the kernel's side until the file `enough` is there. A failure ends it. So
/// does a word of its output that tells of one.
fn repeat(world: &ProgramWorld, name: &str, command: &str) -> Running {
    let shell = format!(
        "bad='socket errors|non-2xx|error:|failed transactions: [1-9]'
         while [ ! -e enough ]; do
             {command} >{name}.out 2>&1 || {{ cat {name}.out; exit 1; }}
             ! grep -Ei \"$bad\" {name}.out || exit 1
             echo once
         done"
    );
    world.spawn(&["sh", "-c", &shell])
}

/// The loads, by name.
fn loads(world: &ProgramWorld, postgres: &PostgresFiles) -> Vec<(&'static str, Running)> {
    let url = format!("http://{STACK}:8000/file");
    let wrk = format!("wrk -t2 -c20 -d5s --timeout 30s -H 'Connection: close' {url}");
    let fetch = world.script("fetch_many.py", &[&url, "10"]);
    let pipelined =
        format!("redis-benchmark -h {STACK} -p 6379 -q -c 50 -P 16 -n 20000 -t set,get,lpush");
    let checked = world.script("redis_load.py", &[STACK, "6379", "4", "5"]);
    // Between two tests iperf3's server closes its listener and makes another one.
    let bulk = format!(
        "{{ iperf3 -c {STACK} -t 3 -P 4 && sleep 1 && iperf3 -c {STACK} -t 3 -R && sleep 1 && \
         iperf3 -c {STACK} -t 2 --bidir && sleep 1 && iperf3 -c {STACK} -t 2 -u -b 50M && \
         sleep 1; }}"
    );
    let pgbench = postgres.client("pgbench", STACK, &["-n", "-c", "4", "-T", "5"]);
    let connects = postgres.client("pgbench", STACK, &["-n", "-S", "-C", "-c", "2", "-T", "2"]);
    vec![
        ("pgbench", repeat(world, "pgbench", &pgbench.join(" "))),
        ("connects", repeat(world, "connects", &connects.join(" "))),
        ("wrk", repeat(world, "wrk", &wrk)),
        ("fetch", repeat(world, "fetch", &fetch.join(" "))),
        ("pipelined", repeat(world, "pipelined", &pipelined)),
        ("checked", repeat(world, "checked", &checked.join(" "))),
        ("bulk", repeat(world, "bulk", &bulk)),
    ]
}

/// nginx, redis, iperf3 and PostgreSQL on the instance.
fn servers(world: &ProgramWorld, postgres: &PostgresFiles) -> [Running; 4] {
    fs::create_dir(world.path("www")).expect("a folder");
    write_noise(&world.path("www/file"), 20_000, 3);
    let (log, pid, root) = (world.file("error.log"), world.file("pid"), world.file("www"));
    let conf = format!(
        "user root; worker_processes 2; daemon off; error_log {log} notice; pid {pid};
         events {{ worker_connections 512; }}
         http {{ access_log off; sendfile on; server {{ listen 8000 backlog=511; root {root}; }} }}"
    );
    fs::write(world.path("nginx.conf"), conf).expect("a file");
    let nginx = ["nginx", "-c", &world.file("nginx.conf"), "-e", &log];
    let redis = ["redis-server", "--bind", "0.0.0.0", "--protected-mode", "no", "--dir"];
    let folder = world.file("");
    let redis = [&redis[..], &[&folder, "--save", "2 1"]].concat();
    let database = world.start(&postgres.server);
    [world.start(&nginx), world.start(&redis), world.start(&["iperf3", "-s"]), database]
}

#[test]
#[ignore = "takes 20 minutes: `make soak`"]
fn servers_under_load_for_a_long_time() {
    let Some(bin) = PostgresFiles::bin() else { return };
    let Some(world) = ProgramWorld::new(&PROGRAMS) else { return };
    let seconds = std::env::var("TASUKI_SOAK_SECONDS").unwrap_or_else(|_| "1200".to_owned());
    let time = Duration::from_secs(seconds.parse().expect("seconds"));
    let postgres = PostgresFiles::new(&world, bin);
    let before = world.status();
    let servers = servers(&world, &postgres);
    let listening = || world.open_sockets().iter().filter(|row| row.state == "LISTEN").count();
    eventually("all listen", || listening() == LISTENERS);
    let _ = servers[3].line("ready to accept connections");
    let _ = world.run(&postgres.client("pgbench", STACK, &["-i", "-q"])).success();
    let mut loads = loads(&world, &postgres);
    let (begun, mut early, mut shown) = (Instant::now(), None, 0);
    while begun.elapsed() < time {
        std::thread::sleep(RELOAD);
        servers[0].signal(Signal::HUP);
        if let Some(failed) = loads.iter_mut().position(|(_, load)| load.has_ended()) {
            let (name, load) = loads.swap_remove(failed);
            panic!("{name} failed: {}", load.finish());
        }
        if begun.elapsed() > time / 3 {
            early.get_or_insert_with(|| usage(&world.status()));
        }
        let minutes = begun.elapsed().as_secs() / 60;
        if minutes > shown {
            shown = minutes;
            eprintln!("after {minutes} minutes: {:?}", usage(&world.status()));
        }
    }
    let late = usage(&world.status());
    fs::write(world.path("enough"), "").expect("a file");
    for (name, load) in loads {
        let said = load.finish().success();
        eprintln!("{name}: {} times", said.stdout.matches("once").count());
    }
    for (was, is) in early.iter().flatten().zip(&late) {
        assert!(is.resident_kib < was.resident_kib + GROWTH, "it grows: {was:?} became {is:?}");
    }
    let log = fs::read_to_string(world.path("error.log")).unwrap_or_default();
    assert!(!log.contains("[alert]") && !log.contains("[crit]"), "{log}");
    end(&world, servers, &before);
}

/// Ends the servers. Nothing is left then.
fn end(world: &ProgramWorld, servers: [Running; 4], before: &InstanceStatus) {
    let [nginx, redis, iperf, postgres] = servers;
    nginx.signal(Signal::QUIT);
    let _ = nginx.finish().success();
    redis.signal(Signal::TERM);
    let said = redis.finish();
    assert!(said.stdout.matches("DB saved on disk").count() >= 2, "{said}");
    iperf.signal(Signal::INT);
    let _ = iperf.finish();
    postgres.signal(Signal::INT);
    let said = postgres.finish().success();
    assert!(!said.stderr.contains("terminated by signal"), "{said}");
    eventually("no socket is left", || world.open_sockets().is_empty());
    world.assert_pages_return(before);
    let descriptors = |status: &InstanceStatus| -> Vec<usize> {
        usage(status).iter().map(|usage| usage.descriptors).collect()
    };
    let held = descriptors(before);
    eventually("all descriptors are closed", || descriptors(&world.status()) == held);
    world.end();
}
