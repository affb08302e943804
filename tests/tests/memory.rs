//! Many clients' lives: nothing of them is left. How much memory the servers then have is a row for
//! a reader (`make test-lab`).

use std::collections::BTreeMap;
use std::fs;

use tasuki_tests::{Mode, Nic, Running, World, eventually, judge};

const NET: &str = "memory";
/// Processes at the same time, and clients of each.
const PROCESSES: usize = 7;
const CLIENTS: usize = 15;
/// A server's own memory with no client left, beyond that before the first one, KiB. Tables have
/// grown to the size for so many sockets.
const KEPT: u64 = 12 << 10;
/// Further growth, after the first 315 clients, KiB.
const GROWTH: u64 = 4 << 10;

/// Memory of their own of all servers, by role, KiB.
fn own_memory(world: &World) -> BTreeMap<String, u64> {
    let status = world.ps(NET);
    let servers = status.processes.iter().filter(|process| process.role != "client");
    servers
        .map(|process| {
            let status = fs::read_to_string(format!("/proc/{}/status", process.pid)).unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
            let kib = line.split_whitespace().next().unwrap().parse().unwrap();
            (process.role.clone(), kib)
        })
        .collect()
}

/// Lets crowds come and go, of 105 clients each.
fn lives(world: &World, crowds: std::ops::Range<usize>) {
    let socket = format!("/run/tasuki/{NET}.sock");
    let program = env!("CARGO_BIN_EXE_fuzz-hostile");
    for crowd in crowds {
        let process = |number: usize| {
            let (clients, seed) = (CLIENTS.to_string(), (crowd * PROCESSES + number).to_string());
            Running::start(world.command(&[program, "crowd", &socket, &clients, &seed]))
        };
        let processes: Vec<_> = (0..PROCESSES).map(process).collect();
        for process in &processes {
            let _ = process.line(&format!("{CLIENTS} admitted"));
        }
        // That ends them by SIGKILL.
        drop(processes);
        let clients = || world.ps(NET).processes.iter().filter(|p| p.role == "client").count();
        eventually("all clients are gone", || clients() == 0);
    }
}

#[test]
fn many_lives_of_clients_leave_nothing_behind() {
    if Nic::given() == Nic::Wire {
        return;
    }
    let Some(mode) = Mode::shared() else { return };
    let Some(world) = World::with_kernel() else { return };
    fs::write(world.path("memory.toml"), "[instance]\nfaults_per_second = 0\n").unwrap();
    world.up(NET, mode, &["--config", &world.file("memory.toml")]);
    let before = own_memory(&world);
    lives(&world, 0..3);
    let first = own_memory(&world);
    lives(&world, 3..9);
    let last = own_memory(&world);
    for (role, kib) in &last {
        let kept = kib.saturating_sub(before[role]);
        judge(&format!("memory that {role} keeps after 945 clients, KiB"), kept, ..KEPT);
        let grown = kib.saturating_sub(first[role]);
        judge(&format!("memory of {role} since the 315th client, KiB"), grown, ..GROWTH);
    }
    world.down(NET);
    world.assert_nothing_left();
}
