//! Programs that carry files: rsync, ssh, scp, nc.
//!
//! Each runs as server on Tasuki, with clients on the far host and on Tasuki. The files are
//! compared. No packet uses the host's network: [`ProgramWorld`].

use rustix::process::Signal;
use tasuki_tests::{ProgramWorld, Running, STACK, eventually, sha256, write_noise};

/// Beside the relay, without the library.
const BY_RELAY: [&str; 2] = ["--intercept", "seccomp"];

fn same(world: &ProgramWorld, copy: &str) {
    assert_eq!(sha256(&world.path(copy)), sha256(&world.path("file")));
    std::fs::remove_file(world.path(copy)).expect("the copy");
}

/// A daemon that has a process for each connection. Who receives has two processes that use the
/// connection at the same time: one reads, the other writes.
fn rsync(how: &[&str]) {
    let Some(world) = ProgramWorld::new(&["rsync"]) else { return };
    write_noise(&world.path("file"), 3 << 20, 6);
    std::fs::create_dir(world.path("module")).expect("a folder");
    let conf = format!("[m]\npath = {}\nread only = no\nuid = 0\ngid = 0\n", world.file("module"));
    std::fs::write(world.path("conf"), format!("use chroot = no\nreverse lookup = no\n{conf}"))
        .expect("a file");
    let config = format!("--config={}", world.file("conf"));
    let words = ["rsync", "--daemon", "--no-detach", "--port=8730", &config];
    let server = world.start_with(how, &words);
    let far = format!("rsync://{STACK}:8730/m/");
    let probe = ["rsync", "--contimeout=60", &far];
    eventually("rsync answers", || world.run(&probe).status.success());
    for inside in [false, true] {
        let run = |words: &[&str]| {
            let running = if inside { world.start_with(how, words) } else { world.spawn(words) };
            let _ = running.finish().success();
        };
        run(&["rsync", "-a", "file", &far]);
        same(&world, "module/file");
        std::fs::copy(world.path("file"), world.path("module/file")).expect("a copy");
        run(&["rsync", "-a", &format!("{far}file"), "copy"]);
        same(&world, "copy");
        same(&world, "module/file");
    }
    server.signal(Signal::TERM);
    let _ = server.finish();
    world.end();
}

#[test]
fn rsync_copies_both_ways() {
    rsync(&["--intercept", "auto"]);
}

#[test]
#[ignore = "long: `make test-programs` runs it"]
fn rsync_copies_both_ways_through_the_relay() {
    rsync(&BY_RELAY);
}

/// Options of ssh and scp that use no file of the user's.
const SSH: [&str; 12] = [
    "-F",
    "none",
    "-i",
    "id",
    "-o",
    "StrictHostKeyChecking=no",
    "-o",
    "UserKnownHostsFile=/dev/null",
    "-o",
    "LogLevel=ERROR",
    "-o",
    "BatchMode=yes",
];

fn sshd(world: &ProgramWorld, how: &[&str]) -> Running {
    for key in ["host", "id"] {
        let words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key];
        let _ = world.run(&words).success();
    }
    let here = world.file("");
    let conf = format!(
        "Port 2222\nHostKey {here}/host\nAuthorizedKeysFile {here}/id.pub\nPidFile none\n\
         UsePAM no\nStrictModes no\nPermitRootLogin yes\n\
         Subsystem sftp internal-sftp\n"
    );
    std::fs::write(world.path("conf"), conf).expect("a file");
    // sshd gives up its rights in a folder of this name. /run is the world's own.
    let _ = world.run(&["mkdir", "-p", "/run/sshd"]).success();
    let words = ["/usr/sbin/sshd", "-D", "-e", "-f", &world.file("conf")];
    let server = world.start_with(how, &words);
    let _ = server.line("Server listening on 0.0.0.0");
    server
}

#[test]
fn ssh_logs_in_and_scp_copies() {
    log_in_and_copy(&[]);
}

#[test]
fn ssh_logs_in_and_scp_copies_without_the_library() {
    log_in_and_copy(&BY_RELAY);
}

/// Login with a key. sshd's children filter their own calls, so the library leaves it to the relay;
/// its clients have the library.
fn log_in_and_copy(how: &[&str]) {
    let Some(world) = ProgramWorld::new(&["/usr/sbin/sshd", "ssh", "scp", "ssh-keygen"]) else {
        return;
    };
    write_noise(&world.path("file"), 3 << 20, 7);
    let server = sshd(&world, how);
    let login = format!("root@{STACK}");
    let words = [&["ssh"], &SSH[..], &["-p", "2222", &login, "cat; echo done >&2"]].concat();
    world.run_on_both(&words, |said| assert!(said.success().stderr.contains("done")));
    let copy = format!("{login}:{}", world.file("copy"));
    let there = [&["scp"], &SSH[..], &["-P", "2222", "file", &copy]].concat();
    world.run_on_both(&there, |said| {
        let _ = said.success();
        same(&world, "copy");
    });
    let original = format!("{login}:{}", world.file("file"));
    let back = [&["scp"], &SSH[..], &["-P", "2222", &original, "copy"]].concat();
    world.run_on_both(&back, |said| {
        let _ = said.success();
        same(&world, "copy");
    });
    server.signal(Signal::TERM);
    let _ = server.finish();
    world.end();
}

/// nc listens for one connection and ends with it.
#[test]
fn nc_receives_a_file() {
    let Some(world) = ProgramWorld::new(&["nc"]) else { return };
    write_noise(&world.path("file"), 3 << 20, 8);
    for inside in [false, true] {
        let mut server = world.start(&["sh", "-c", "exec nc -l 7000 > copy"]);
        world.listens(&mut server, 7000);
        let send = format!("nc -N -w 60 {STACK} 7000 < file");
        let words = ["sh", "-c", &send];
        let said = if inside { world.run_inside(&words) } else { world.run(&words) };
        let _ = said.success();
        let _ = server.finish().success();
        same(&world, "copy");
    }
    world.end();
}
