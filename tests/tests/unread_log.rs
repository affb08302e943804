//! Messages that no process reads stop no server: an instance in the foreground shares its terminal
//! or pipe with programs, which can keep others from reading it.

use std::io::PipeReader;
use std::process::Stdio;

use rustix::fs::{OFlags, fcntl_setfl};
use tasuki_tests::{Mode, World, eventually};

const NET: &str = "unread";

/// A pipe without room, and its reader, which reads nothing.
fn full_pipe() -> (PipeReader, Stdio) {
    let (reader, writer) = std::io::pipe().unwrap();
    fcntl_setfl(&writer, OFlags::NONBLOCK).unwrap();
    for len in [4096, 1] {
        while rustix::io::write(&writer, &vec![b'x'; len]).is_ok() {}
    }
    fcntl_setfl(&writer, OFlags::empty()).unwrap();
    (reader, writer.into())
}

fn served_on(mode: Mode) {
    let Some(world) = World::new() else { return };
    let (reader, stderr) = full_pipe();
    let mut up = world.tasuki(&["up", "--foreground", "--mode", mode.name(), NET]);
    let mut up = up.stdout(Stdio::null()).stderr(stderr).spawn().unwrap();
    let socket = format!("/run/tasuki/{NET}.sock");
    let made = world.outside(&socket);
    eventually("the instance is there", || made.exists());
    // Each is dropped with a message.
    for kind in ["indices", "slots", "paths"] {
        let hostile = world.spawn(&[env!("CARGO_BIN_EXE_hostile"), &socket, kind]);
        assert_eq!(hostile.finish().success().stdout.trim(), "dropped", "{kind}");
    }
    let clients = |world: &World| world.ps(NET).processes.iter().any(|p| p.role == "client");
    eventually("all are dropped", || !clients(&world));
    world.down(NET);
    assert!(up.wait().unwrap().success());
    drop(reader);
    world.assert_nothing_left();
}

#[test]
fn in_split_mode() {
    served_on(Mode::Split);
}

#[test]
fn in_fused_mode() {
    served_on(Mode::Fused);
}
