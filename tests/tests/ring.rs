//! `packet:` and its ring of received frames. Each byte is copied out of the ring once. No frame is
//! lost between one owner of the socket and the next.

use tasuki_tests::{HOST, LARGE, Mode, Nic, Running, World, sha256, write_noise};

const NET: &str = "net";
const BYTES: usize = LARGE / 8;

/// A world with a cable, an HTTP server at its far end and a file there, and the file's digest.
fn world() -> Option<(World, Running, String)> {
    let world = World::over(Nic::Packet)?;
    write_noise(&world.path("file"), BYTES, 1);
    let digest = sha256(&world.path("file"));
    let server = world.http_server();
    Some((world, server, digest))
}

/// Gets the file over the instance.
fn get(world: &World, digest: &str) {
    let url = format!("http://{HOST}:8000/file");
    let _ =
        Running::start(world.on_net(NET, &["curl", "-sS", "-o", "back", &url])).finish().success();
    assert_eq!(sha256(&world.path("back")), *digest);
    std::fs::remove_file(world.path("back")).unwrap();
}

/// Four counters of a moment in which no frame came between the reading of one and of another: a
/// host sends frames of its own too.
fn at_rest(world: &World) -> [u64; 4] {
    let read = || {
        ["nic.rx-bytes", "packet.rx-copied-bytes", "packet.rx-dropped", "packet.rx-super-frames"]
            .map(|name| world.counter(NET, name))
    };
    let mut before = read();
    loop {
        let now = read();
        if now == before {
            return now;
        }
        before = now;
    }
}

#[test]
fn frames_in_a_slot_are_copied_once_and_longer_ones_are_not() {
    for offloads in [false, true] {
        let Some((world, server, digest)) = world() else { return };
        world.offloads(offloads);
        world.up(NET, Mode::Split, &[]);
        get(&world, &digest);
        let [received, copied, dropped, super_frames] = at_rest(&world);
        assert!(received >= BYTES as u64 && dropped == 0, "{received} came, {dropped} did not");
        if offloads {
            assert!(super_frames > 0 && copied < received, "{copied} of {received}");
        } else {
            assert_eq!((copied, super_frames), (received, 0));
        }
        world.down(NET);
        drop(server);
        world.assert_nothing_left();
    }
}

#[test]
fn programs_that_have_the_socket_one_after_the_other_all_receive() {
    let Some((world, server, digest)) = world() else { return };
    world.up(NET, Mode::Library, &[]);
    (0..3).for_each(|_| get(&world, &digest));
    world.down(NET);
    drop(server);
    world.assert_nothing_left();
}
