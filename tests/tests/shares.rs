//! Programs that take all they can get leave a share to the others.

use tasuki_tests::{HOST, Mode, Running, STACK, World, eventually};

const NET: &str = "shares";

/// Two processes take ports in every way there is and connect without end. A neighbour still
/// connects, and the stack answers.
fn others_connect(mode: Mode) {
    let Some(world) = World::new() else { return };
    let echo = world.spawn(&world.script("echo.py", &["0.0.0.0", "8000"]));
    let _ = echo.line("ready");
    world.up(NET, mode, &[]);
    let before = world.ps(NET);
    let (socket, to) = (format!("/run/tasuki/{NET}.sock"), format!("{HOST}:8000"));
    for task in ["any", "named"] {
        let hogs = [(); 2].map(|()| {
            let hog = [env!("CARGO_BIN_EXE_hog_ports"), socket.as_str(), task, &to];
            world.spawn(&hog)
        });
        for hog in &hogs {
            let _ = hog.line("holding");
        }
        let many = world.script("many.py", &[HOST, "8000", "8", "65536"]);
        let said = Running::start(world.on_net(NET, &many)).finish().success();
        assert!(said.stdout.contains("connected 8\nechoed 524288"), "{task}: {said}");
        let ping = ["ping", "-c", "20", "-i", "0.05", "-w", "60", STACK];
        let _ = world.run(&ping).answered(20);
        for hog in hogs {
            hog.signal(rustix::process::Signal::KILL);
            let _ = hog.finish();
        }
        let clients = || world.ps(NET).processes.iter().filter(|p| p.role == "client").count();
        eventually("the hostile clients are gone", || clients() == 0);
    }
    world.assert_pools_return(NET, &before.pools);
    drop(echo);
    world.down(NET);
    world.assert_nothing_left();
}

#[test]
fn of_ports_in_split_mode() {
    others_connect(Mode::Split);
}

#[test]
fn of_ports_in_fused_mode() {
    others_connect(Mode::Fused);
}

/// A driver gathers what programs send from their memory. It has no means to write there.
#[test]
fn a_driver_cannot_write_to_the_memory_of_programs() {
    let Some(world) = World::new() else { return };
    world.up(NET, Mode::Split, &[]);
    let echo = world.script("echo.py", &["0.0.0.0", "8000"]);
    let echo = Running::start(world.on_net(NET, &echo));
    let _ = echo.line("ready");
    let status = world.ps(NET);
    let driver = status.processes.iter().find(|process| process.role == "nic");
    let driver = driver.expect("a driver").pid;
    let maps = std::fs::read_to_string(format!("/proc/{driver}/smaps")).expect("its mappings");
    let regions: Vec<_> = maps.split("VmFlags:").zip(maps.split("VmFlags:").skip(1)).collect();
    let of_clients = regions.iter().filter(|(mapping, _)| mapping.contains("tasuki-client"));
    let flags: Vec<_> = of_clients.map(|(_, flags)| flags.lines().next().unwrap_or("")).collect();
    assert!(!flags.is_empty(), "{:?}", status.processes);
    // "mw": mprotect(2) may make it writable.
    assert!(flags.iter().all(|flags| !flags.contains(" mw")), "{flags:?}");
    echo.signal(rustix::process::Signal::KILL);
    let _ = echo.finish();
    world.down(NET);
    world.assert_nothing_left();
}
