//! The native API in real processes: the bytes that it copies, and that no page is lost.

use tasuki_tests::{HOST, LARGE, Mode, Running, World, sha256, write_noise};

const PROGRAM: &str = env!("CARGO_BIN_EXE_native");
/// Hand-overs of the leak test, unless `TASUKI_LEAK_OPERATIONS` says another number.
const OPERATIONS: u64 = 10_000_000;
/// Programs that make them, one after the other.
const PROGRAMS: u64 = 10;

/// Copies of payload in user space that the instance knows of.
fn copied(world: &World) -> [u64; 3] {
    ["copy.program-tx-bytes", "copy.rx-bytes", "copy.program-rx-bytes"]
        .map(|name| world.counter("one", name))
}

/// A file of `bytes` in areas of `length` bytes, to a kernel program.
fn send(mode: Mode, length: u32, bytes: usize) {
    let Some(world) = World::new() else { return };
    write_noise(&world.path("file"), bytes, 1);
    world.up("one", mode, &[]);
    let sink = world.spawn(&world.script("digest.py", &["0.0.0.0", "9000"]));
    let _ = sink.line("ready");
    let before = (copied(&world), world.counter("one", "payload.tx-bytes"));
    let (peer, length) = (format!("{HOST}:9000"), length.to_string());
    let program = world.on_net("one", &[PROGRAM, "send", &peer, &length, "file"]);
    let said = Running::start(program).finish().success();
    assert!(said.stdout.contains("lost 0"), "{said}");
    let digest = sha256(&world.path("file"));
    assert_eq!(sink.line("took"), format!("took {bytes} {digest}"));
    let sent = world.counter("one", "payload.tx-bytes") - before.1;
    assert!(sent >= bytes as u64, "{sent} bytes were taken from queues");
    assert_eq!(copied(&world), before.0, "0 bytes copied for {sent} bytes sent");
    world.down("one");
    drop(sink);
    world.assert_nothing_left();
}

#[test]
fn areas_of_four_kibibytes_are_sent_without_a_copy() {
    // Each area waits for its acknowledgement.
    send(Mode::Split, 4 << 10, LARGE / 8);
}

#[test]
fn areas_of_four_mebibytes_are_sent_without_a_copy() {
    send(Mode::Fused, 4 << 20, LARGE);
}

#[test]
fn an_unmodified_programs_sendfile_copies_nothing() {
    const PROGRAM: &str = "import os, socket
to, file, at = socket.create_connection(('{HOST}', 9000)), open('file', 'rb'), 0
while sent := os.sendfile(to.fileno(), file.fileno(), at, 1 << 20):
    at += sent
";
    let Some(world) = World::new() else { return };
    write_noise(&world.path("file"), LARGE, 1);
    world.up("one", Mode::Split, &[]);
    let sink = world.spawn(&world.script("digest.py", &["0.0.0.0", "9000"]));
    let _ = sink.line("ready");
    let program = world.python(&["-c", &PROGRAM.replace("{HOST}", HOST)]);
    let _ = Running::start(world.on_net("one", &program)).finish().success();
    let digest = sha256(&world.path("file"));
    assert_eq!(sink.line("took"), format!("took {LARGE} {digest}"));
    assert_eq!(copied(&world), [0; 3]);
    world.down("one");
    drop(sink);
    world.assert_nothing_left();
}

/// What became of received bytes.
struct Taken {
    received: u64,
    /// Handed to the program in their frames.
    lent: u64,
    copied_by_server: u64,
    copied_by_program: u64,
}

/// Sends a file from a kernel program into a program of `words`.
fn take(share: bool, words: impl Fn(&str) -> Vec<String>) -> Option<Taken> {
    let world = World::new()?;
    write_noise(&world.path("file"), LARGE, 1);
    std::fs::write(world.path("config"), format!("[memory]\nshare_frames = {share}\n")).ok()?;
    world.up("one", Mode::Split, &["--config", &world.file("config")]);
    let source = world.spawn(&["sh", "-c", "exec nc -n -v -N -l 9000 <file"]);
    let _ = source.line("Listening on");
    let before = world.ps("one").pools;
    let counts = copied(&world);
    let of = |name: &str| world.counter("one", name);
    let (received, lent) = (of("payload.rx-bytes"), of("payload.rx-lent-bytes"));
    let said = Running::start(world.on_net("one", &words(HOST))).finish().success();
    assert_eq!(sha256(&world.path("back")), sha256(&world.path("file")), "{said}");
    let after = copied(&world);
    let taken = Taken {
        received: of("payload.rx-bytes") - received,
        lent: of("payload.rx-lent-bytes") - lent,
        copied_by_server: after[1] - counts[1],
        copied_by_program: after[2] - counts[2],
    };
    let _ = source.finish();
    world.assert_pools_return("one", &before);
    world.down("one");
    world.assert_nothing_left();
    Some(taken)
}

fn native(host: &str) -> Vec<String> {
    [PROGRAM, "take", &format!("{host}:9000"), "back"].map(str::to_owned).to_vec()
}

fn netcat(host: &str) -> Vec<String> {
    ["sh", "-c", &format!("exec nc -n -d {host} 9000 >back")].map(str::to_owned).to_vec()
}

/// How many bytes come in segments too small to be lent depends on the other end's writes. Each
/// byte is lent, or copied once.
fn assert_lent(taken: &Taken) {
    let Taken { received, lent, copied_by_server, .. } = taken;
    assert!(*received >= LARGE as u64 && *lent > 0, "{lent} of {received} were lent");
    assert_eq!(lent + copied_by_server, *received);
}

#[test]
fn where_frames_are_shared_areas_are_received_without_a_copy() {
    let Some(taken) = take(true, native) else { return };
    assert_lent(&taken);
    assert_eq!(taken.copied_by_program, 0);
}

#[test]
fn where_frames_are_shared_recv_copies_once() {
    let Some(taken) = take(true, netcat) else { return };
    assert_lent(&taken);
    assert_eq!(taken.copied_by_program, taken.received);
}

#[test]
fn between_programs_without_trust_there_is_one_copy_more() {
    for (words, by_program) in [(native as fn(&str) -> Vec<String>, false), (netcat, true)] {
        let Some(taken) = take(false, words) else { return };
        assert_eq!((taken.copied_by_server, taken.lent), (taken.received, 0));
        assert_eq!(taken.copied_by_program, if by_program { taken.received } else { 0 });
    }
}

/// Hand-overs of one program after the other; all memory is back in the end.
fn many_hand_overs(mode: Mode, count: u64) {
    let Some(world) = World::new() else { return };
    world.up("one", mode, &[]);
    let (peer, each) = (format!("{HOST}:9000"), count / PROGRAMS);
    let before = world.ps("one").pools;
    for _ in 0..PROGRAMS {
        let sink = world.spawn(&world.script("digest.py", &["0.0.0.0", "9000"]));
        let _ = sink.line("ready");
        let program = world.on_net("one", &[PROGRAM, "churn", &peer, &each.to_string()]);
        let said = Running::start(program).finish().success();
        assert!(said.stdout.contains("lost 0"), "{said}");
        let _ = sink.finish().success();
    }
    assert!(world.counter("one", "payload.tx-bytes") >= each * PROGRAMS * 64);
    world.assert_pools_return("one", &before);
    world.down("one");
    world.assert_nothing_left();
}

#[test]
fn no_page_is_lost_in_many_hand_overs_fused_mode() {
    let count = std::env::var("TASUKI_LEAK_OPERATIONS").map(|text| text.parse());
    many_hand_overs(Mode::Fused, count.map_or(OPERATIONS, |count| count.expect("a number")));
}

#[test]
fn no_page_is_lost_in_many_hand_overs_split_mode() {
    many_hand_overs(Mode::Split, OPERATIONS / 100);
}
