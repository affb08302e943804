//! No initialization vector is used twice with a key, whatever happens to instance and clock.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use rustix::process::Signal;
use tasuki_tests::{Mode, Nic, Running, World, eventually};

use crate::pair::{A, B, CBC, GCM, Plan, SPI_AB, add_policies, add_states, xfrm, xfrm_done};

/// An instance alone on its wire, which protects what it sends to B.
fn up(world: &World, algorithms: &str) {
    let (nic, mode) = (format!("tap:{}", "pa"), Mode::given().name());
    let ip = format!("{A}/24");
    let words = ["up", "--mode", mode, "--nic", &nic, "--gateway", B, "--ip", &ip, "a"];
    let _ = Running::start(world.tasuki(&words)).finish().success();
    let plan = Plan { more: "replay-window 64", ..Plan::between([A, B], "transport", algorithms) };
    add_states(world, "a", &plan);
    add_policies(world, "a", &plan);
}

/// The vector of the first packet that an instance sends to B.
fn first_vector(world: &World) -> u64 {
    let capture = Running::start(world.tasuki(&["capture", "-w", "f.pcapng", "--net", "a"]));
    let _ = capture.line("capturing on a");
    let before = world.counter("a", "xfrm.packets-out");
    let send = format!(
        "import socket\n\
         socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('{B}', 9))"
    );
    let sent = world.on_net("a", &world.python(&["-c", &send]));
    let _ = Running::start(sent).finish().success();
    eventually("it was sent", || world.counter("a", "xfrm.packets-out") > before);
    capture.signal(Signal::INT);
    let _ = capture.finish().success();
    let frames = fs::read(world.path("f.pcapng")).unwrap();
    // SPI and number of the first packet; the vector follows.
    let start = [&0x1001_u32.to_be_bytes()[..], &1_u32.to_be_bytes()].concat();
    let at = frames.windows(start.len()).position(|bytes| bytes == start);
    let vector = &frames[at.expect("a packet of ESP") + start.len()..][..8];
    u64::from_be_bytes(vector.try_into().unwrap()) & !(1 << 63)
}

/// The records of the keys.
fn records(world: &World) -> Vec<PathBuf> {
    let all = fs::read_dir(world.path("state/esp-vectors")).unwrap();
    all.map(|entry| entry.unwrap().path()).collect()
}

fn number_in(path: &PathBuf) -> u64 {
    fs::read_to_string(path).unwrap().trim().parse().unwrap()
}

#[test]
fn a_killed_instance_and_a_wrong_clock_repeat_no_vector() {
    let Some(world) = Mode::shared().and_then(|_| World::over(Nic::Tap)) else { return };
    up(&world, GCM);
    let first = first_vector(&world);
    let kept = records(&world);
    assert_eq!(kept.len(), 2, "one for each key: {kept:?}");
    for path in &kept {
        assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(first < number_in(path), "what is used is below what is kept");
    }
    // Its processes end without a word.
    for pid in world.processes() {
        let comm = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        if comm.starts_with("tasuki") {
            let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
    }
    eventually("all is gone", || world.processes().is_empty());
    // As if the clock had been years ahead, and was set right since.
    let far = first + (1 << 55);
    for path in &kept {
        fs::write(path, format!("{far}\n")).unwrap();
    }
    let _ = fs::remove_dir_all(world.outside("/run/tasuki"));
    up(&world, GCM);
    assert_eq!(first_vector(&world), far);
    // The same key once more in the same instance.
    let delete = format!("state delete src {A} dst {B} proto esp spi {SPI_AB}");
    let _ = xfrm_done(&world, "a", &delete);
    let key = GCM.replace("{}", "1");
    let add = format!("state add src {A} dst {B} proto esp spi {SPI_AB} reqid 1 {key}");
    let _ = xfrm_done(&world, "a", &add);
    assert!(first_vector(&world) > far + (1 << 40));
    world.down("a");
    world.assert_nothing_left();
}

#[test]
fn without_a_record_there_is_no_association() {
    let Some(world) = Mode::shared().and_then(|_| World::over(Nic::Tap)) else { return };
    up(&world, GCM);
    let key = GCM.replace("{}", "7");
    let add = format!("state add src {A} dst {B} proto esp spi 0x3000 reqid 1 {key}");
    let delete = format!("state delete src {A} dst {B} proto esp spi 0x3000");
    let _ = xfrm_done(&world, "a", &add);
    let _ = xfrm_done(&world, "a", &delete);
    for path in records(&world) {
        fs::write(path, "nothing\n").unwrap();
    }
    let said = Running::start(xfrm(&world, "a", &add)).finish();
    assert!(said.stderr.contains("set another key"), "{said}");
    // A file where the directory should be.
    fs::remove_dir_all(world.path("state")).unwrap();
    fs::write(world.path("state"), "").unwrap();
    let said = Running::start(xfrm(&world, "a", &add)).finish();
    assert!(said.stderr.contains("set TASUKI_STATE to a directory"), "{said}");
    // Random vectors need none.
    let other = CBC.replace("{}", "7");
    let add = format!("state add src {A} dst {B} proto esp spi 0x3000 reqid 1 {other}");
    let _ = xfrm_done(&world, "a", &add);
    world.down("a");
    world.assert_nothing_left();
}
