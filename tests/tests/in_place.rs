//! AF_XDP with the frame pool as the socket's memory. The driver copies none of the bytes it
//! receives, whatever else the instance does. No page is lost with a device or a driver.

use abi::network::InterfaceStatus;
use abi::nic::NicLayout;
use tasuki_tests::{
    DEVICE, FAR_END, Finished, HOST, LARGE, Mode, Nic, Running, STACK, World, eventually, sha256,
    skip, write_noise,
};

const NET: &str = "net";
const BYTES: usize = LARGE / 8;

/// A world with a cable, an HTTP server at its far end and a file there, and the file's digest.
fn world() -> Option<(World, Running, String)> {
    let world = World::over(Nic::Xdp)?;
    write_noise(&world.path("file"), BYTES, 1);
    let digest = sha256(&world.path("file"));
    let server = world.http_server();
    Some((world, server, digest))
}

fn words() -> [String; 5] {
    ["curl", "-sS", "-o", "back", &format!("http://{HOST}:8000/file")].map(str::to_owned)
}

/// Gets the file over the instance.
fn get(world: &World, digest: &str) {
    let _ = Running::start(world.on_net(NET, &words())).finish().success();
    assert_eq!(sha256(&world.path("back")), *digest);
}

fn interface(world: &World) -> InterfaceStatus {
    let said = Running::start(world.tasuki(&["addr", "--json", "--net", NET])).finish().success();
    let all: Vec<InterfaceStatus> =
        serde_json::from_str(&said.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
    let found = all.into_iter().find(|one| one.name == "eth0");
    found.unwrap_or_else(|| panic!("there is no eth0: {said}"))
}

fn is_in_place(world: &World) -> bool {
    interface(world).features.iter().any(|one| one == "rx-in-place")
}

/// After traffic the driver has all pages that it may have, but for some that the kernel used last.
/// No other process has one.
fn pages_are_back(world: &World) {
    let layout = NicLayout::for_umem();
    eventually("only the driver has pages", || {
        let pools = world.ps(NET).pools;
        let frames = pools.iter().find(|pool| pool.name == "frames").expect("a frame pool");
        assert_eq!(frames.pages, layout.pool.pages);
        let taken = frames.pages - frames.free;
        (layout.stock - 64..=layout.stock).contains(&taken)
    });
}

/// A download in which the driver copied nothing and no page was lost.
fn without_a_copy(world: &World, digest: &str) {
    let bytes = world.counter(NET, "nic.rx-bytes");
    get(world, digest);
    let bytes = world.counter(NET, "nic.rx-bytes") - bytes;
    assert!(bytes >= BYTES as u64, "{bytes} came by the interface");
    assert_eq!(world.counter(NET, "xdp.rx-copied-bytes"), 0, "of {bytes}");
    assert!(world.counter(NET, "nic.rx-joined") > 0);
    assert_eq!(world.counter(NET, "nic.rx-bad-place"), 0);
    assert!(is_in_place(world));
    pages_are_back(world);
}

/// The interface goes, and another one of its name comes.
fn replace_device(world: &World) {
    let _ = world.run(&["ip", "link", "delete", DEVICE]).success();
    eventually("it is gone", || interface(world).state == "NOTPRESENT");
    world.lay_cable();
    world.offloads(false);
    eventually("it is back", || interface(world).state == "UP");
}

#[test]
fn nothing_is_copied_and_no_page_lost_with_the_device() {
    for mode in [Mode::Split, Mode::Fused] {
        let Some((world, server, digest)) = world() else { return };
        // Segments as on a wire.
        world.offloads(false);
        world.up(NET, mode, &[]);
        without_a_copy(&world, &digest);
        for times in 1..=2 {
            replace_device(&world);
            without_a_copy(&world, &digest);
            assert_eq!(world.counter(NET, "nic.devices-lost"), times);
        }
        world.down(NET);
        drop(server);
        world.assert_nothing_left();
    }
}

#[test]
fn programs_of_mode_library_receive_so_too() {
    let Some((world, server, digest)) = world() else { return };
    world.up(NET, Mode::Library, &[]);
    // Each has servers of its own, and they a region.
    for _ in 0..2 {
        get(&world, &digest);
        std::fs::remove_file(world.path("back")).unwrap();
    }
    world.down(NET);
    drop(server);
    world.assert_nothing_left();
}

#[test]
fn strict_mode_and_shared_frames_are_no_hindrance() {
    for memory in ["strict", "share_frames", "huge_pages"] {
        let Some((world, server, digest)) = world() else { return };
        world.offloads(false);
        std::fs::write(world.path("config"), format!("[memory]\n{memory} = true\n")).unwrap();
        world.up(NET, Mode::Split, &["--config", &world.file("config")]);
        without_a_copy(&world, &digest);
        if memory == "share_frames" {
            let [all, lent, copied] =
                ["payload.rx-bytes", "payload.rx-lent-bytes", "copy.rx-bytes"]
                    .map(|name| world.counter(NET, name));
            assert!(lent > 0 && lent + copied == all, "{lent} lent, {copied} copied of {all}");
        }
        // Now no process can map the frames for writing any more.
        replace_device(&world);
        without_a_copy(&world, &digest);
        world.down(NET);
        drop(server);
        world.assert_nothing_left();
    }
}

#[test]
fn where_faults_are_made_frames_are_copied_once() {
    let Some((world, server, digest)) = world() else { return };
    world.offloads(false);
    world.up(NET, Mode::Split, &["--fault", "duplicate=0.01"]);
    get(&world, &digest);
    let copied = world.counter(NET, "xdp.rx-copied-bytes");
    assert!(copied >= BYTES as u64 && !is_in_place(&world), "{copied}");
    world.down(NET);
    drop(server);
    world.assert_nothing_left();
}

/// `tasuki up` under a limit of `mib` MiB of locked memory, and without CAP_IPC_LOCK, which would
/// lift the limit. Prints SKIP and returns `None` where the limit is less and cannot be raised.
fn up_with_memlock(world: &World, mib: u32) -> Option<Finished> {
    let binary = tasuki_tests::tasuki_binary();
    let limit = format!("--memlock={}", mib << 20);
    let mut words = vec!["prlimit", &limit];
    if !world.run(&[&words[..], &["true"]].concat()).status.success() {
        skip(&format!("less than {mib} MiB may be locked here"));
        return None;
    }
    let (device, address) = (format!("xdp:{FAR_END}"), format!("{STACK}/24"));
    words.extend(["setpriv", "--bounding-set=-ipc_lock", "--inh-caps=-ipc_lock"]);
    words.extend([binary.to_str().expect("a plain path"), "up", "--nic", &device]);
    words.extend(["--address", address.as_str(), NET]);
    Some(world.run(&words))
}

/// With the limit that everybody has by default.
#[test]
fn where_the_pool_cannot_be_locked_frames_are_copied_once() {
    let Some((world, server, digest)) = world() else { return };
    world.offloads(false);
    let Some(finished) = up_with_memlock(&world, 8) else { return };
    let _ = finished.success();
    get(&world, &digest);
    let copied = world.counter(NET, "xdp.rx-copied-bytes");
    assert!(copied >= BYTES as u64 && !is_in_place(&world), "{copied}");
    // The same when the device has gone and come back.
    replace_device(&world);
    get(&world, &digest);
    assert!(!is_in_place(&world));
    world.down(NET);
    drop(server);
    world.assert_nothing_left();
}

#[test]
fn too_little_lockable_memory_is_reported() {
    let Some((world, server, _)) = world() else { return };
    // Neither the pool nor memory of the device's own.
    let Some(finished) = up_with_memlock(&world, 4) else { return };
    assert_eq!(finished.status.code(), Some(121), "{finished}");
    let own = "7168 KiB are to be locked: raise `ulimit -l`";
    assert!(finished.stderr.contains(own), "{finished}");
    drop(server);
    world.assert_nothing_left();
}
