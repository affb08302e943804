//! A bad line, made by the driver's fault wrapper, or a bad queue before the device. Both lose many
//! segments at once. The data arrive intact all the same.

use tasuki_tests::{HOST, Mode, Nic, Running, World, sha256, skip, write_noise};

const BYTES: usize = 16 << 20;

fn both_ways(fault: &str, counter: &str) {
    let Some(world) = World::new_with(&["--offload", "off"]) else { return };
    if matches!(Nic::given(), Nic::Packet | Nic::Xdp) {
        // Behind the wrapper an unfinished checksum is a wrong one (docs/reference/limits.md).
        world.offloads(false);
    }
    write_noise(&world.path("file"), BYTES, 4);
    let digest = sha256(&world.path("file"));
    let files = world.http_server();
    let sink = world.spawn(&world.script("sink.py", &["0.0.0.0", "8001"]));
    let _ = sink.line("ready");
    world.up("faults", Mode::given(), &["--fault", fault]);
    let get = ["curl", "-sS", "-o", "back", &format!("http://{HOST}:8000/file")];
    let _ = Running::start(world.on_net("faults", &get)).finish().success();
    assert_eq!(sha256(&world.path("back")), digest);
    let put = ["curl", "-sS", "-T", "file", &format!("http://{HOST}:8001/file")];
    let _ = Running::start(world.on_net("faults", &put)).finish().success();
    assert_eq!(sink.line("sha256"), format!("sha256 {digest}"));
    // In mode `library` the counters are those of the program that has the stack.
    let stay = format!(
        "import signal, urllib.request as r\n\
         r.urlretrieve('http://{HOST}:8000/file', 'back')\n\
         print('stays')\nsignal.pause()"
    );
    let stay = Running::start(world.on_net("faults", &world.python(&["-c", &stay])));
    let _ = stay.line("stays");
    assert_eq!(sha256(&world.path("back")), digest);
    let made = world.counter("faults", counter);
    assert!(made > 20, "only {made} faults were made: the test shows nothing");
    drop((files, sink, stay));
    world.down("faults");
    world.assert_nothing_left();
}

#[test]
fn loss() {
    both_ways("loss=0.01,seed=1", "fault.lost");
}

#[test]
fn duplication() {
    both_ways("duplicate=0.01,seed=2", "fault.duplicated");
}

#[test]
fn reordering() {
    both_ways("reorder=0.01,seed=3", "fault.reordered");
}

#[test]
fn corruption() {
    both_ways("corrupt=0.01,seed=4", "fault.corrupted");
}

#[test]
fn all_faults_at_once() {
    both_ways("loss=0.005,duplicate=0.01,reorder=0.01,corrupt=0.002,seed=5", "fault.lost");
}

#[test]
fn delay() {
    both_ways("delay_us=2000", "fault.delayed");
}

#[test]
fn delay_with_loss() {
    both_ways("delay_us=2000,loss=0.01,seed=10", "fault.lost");
}

/// Both ways at once with offloads, in this mode, where whole super-segments meet `fault`.
fn super_segments(mode: Mode, fault: &str, counter: &str) {
    const BYTES: usize = 64 << 20;
    if Nic::given() == Nic::Xdp {
        return skip("AF_XDP has no super-segments");
    }
    let Some(world) = World::new() else { return };
    write_noise(&world.path("file"), BYTES, 4);
    let digest = sha256(&world.path("file"));
    let files = world.http_server();
    let sink = world.spawn(&world.script("sink.py", &["0.0.0.0", "8001"]));
    let _ = sink.line("ready");
    world.up("faults", mode, &["--fault", &format!("{fault},super_segments=on")]);
    let addr = Running::start(world.tasuki(&["addr", "--net", "faults"])).finish().success();
    assert!(addr.stdout.contains("tx-tcp-segmentation"), "offloads are on: {addr}");
    let get = ["curl", "-sS", "-o", "back", &format!("http://{HOST}:8000/file")];
    let get = Running::start(world.on_net("faults", &get));
    let put = ["curl", "-sS", "-T", "file", &format!("http://{HOST}:8001/file")];
    let put = Running::start(world.on_net("faults", &put));
    let _ = (get.finish().success(), put.finish().success());
    assert_eq!(sha256(&world.path("back")), digest);
    assert_eq!(sink.line("sha256"), format!("sha256 {digest}"));
    let made = world.counter("faults", counter);
    assert!(made > 5, "only {made} {counter}: the test shows nothing");
    assert_eq!(world.counter("faults", "nic.tx-cut"), 0, "the device cuts, not the driver");
    drop((files, sink));
    world.down("faults");
    world.assert_nothing_left();
}

#[test]
fn loss_of_super_segments_split_mode() {
    super_segments(Mode::Split, "loss=0.01,seed=6", "fault.lost-super-segments");
}

#[test]
fn loss_of_super_segments_fused_mode() {
    super_segments(Mode::Fused, "loss=0.01,seed=7", "fault.lost-super-segments");
}

#[test]
fn super_segments_twice_and_late_split_mode() {
    super_segments(Mode::Split, "duplicate=0.01,reorder=0.02,seed=8", "fault.reordered");
}

#[test]
fn super_segments_twice_and_late_fused_mode() {
    let fault = "loss=0.005,duplicate=0.01,reorder=0.02,seed=9";
    super_segments(Mode::Fused, fault, "fault.lost-super-segments");
}

#[test]
fn delay_of_super_segments_split_mode() {
    super_segments(Mode::Split, "delay_us=1000", "fault.delayed");
}

#[test]
fn delay_of_super_segments_fused_mode() {
    super_segments(Mode::Fused, "delay_us=1000", "fault.delayed");
}
