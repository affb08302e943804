//! The sandbox of a target: measured from outside, and all that a target does within it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use rustix::process::{Pid, Signal, kill_process};
use tasuki_tests::{
    Finished, Mode, Running, STACK, World, eventually, installed, skip, tasuki_binary, write_noise,
};

const IQN: &str = "iqn.2026-11.tasuki:disks";
/// Bytes of an image.
const SIZE: u64 = 8 << 20;

fn world(programs: &[&str]) -> Option<World> {
    let mode = Mode::shared()?;
    if let Some(missing) = programs.iter().find(|program| !installed(program)) {
        skip(&format!("{missing} is not installed"));
        return None;
    }
    let world = World::with_kernel()?;
    world.up("net", mode, &[]);
    Some(world)
}

fn tasuki(world: &World, words: &[&str]) -> Finished {
    Running::start(world.tasuki(words)).finish()
}

fn end(world: &World) {
    let _ = tasuki(world, &["target", "down", "disks"]).success();
    world.down("net");
    world.assert_nothing_left();
}

/// An image that only root may read, and the option for it.
fn image(world: &World, name: &str) -> String {
    let path = world.path(name);
    fs::File::create(&path).unwrap().set_len(SIZE).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    format!("file:{}", path.display())
}

fn up(world: &World, words: &[&str]) -> Finished {
    let begin = ["target", "up", "disks", "--plain", "--net", "net"];
    tasuki(world, &[&begin, words].concat())
}

fn unit(lun: u16) -> String {
    format!("iscsi://{STACK}/{IQN}/{lun}")
}

/// Copies noise to a unit and back.
fn use_unit(world: &World, lun: u16) {
    let noise = world.path("noise");
    write_noise(&noise, 1 << 20, u64::from(lun) + 1);
    let _ = tasuki(world, &["disk", "copy", &world.file("noise"), &unit(lun)]).success();
    let _ = tasuki(world, &["disk", "copy", &unit(lun), &world.file("back")]).success();
    assert_eq!(fs::read(world.path("back")).unwrap()[..1 << 20], fs::read(noise).unwrap());
}

/// What the only target says of itself.
fn report(world: &World) -> serde_json::Value {
    let said = tasuki(world, &["target", "ls", "--json"]).success();
    let all: serde_json::Value = serde_json::from_str(&said.stdout).expect("JSON");
    all[0].clone()
}

fn target(world: &World) -> u32 {
    report(world)["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok()).expect("a process")
}

/// A line of a process's status file.
fn status(pid: u32, name: &str) -> String {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).expect("the process lives");
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {name} in {text}")).trim().to_owned()
}

fn broker(pid: u32) -> u32 {
    status(pid, "PPid").parse().expect("a number")
}

fn kill(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a process");
    kill_process(pid, signal).unwrap();
}

fn log(world: &World) -> String {
    fs::read_to_string(world.outside("/run/tasuki/disks.target.log")).expect("a log")
}

fn namespace(pid: u32, kind: &str) -> String {
    let link = fs::read_link(format!("/proc/{pid}/ns/{kind}")).expect("root may see it");
    link.display().to_string()
}

/// A target that serves has no right left, and its files.
#[test]
fn a_target_has_no_rights_while_it_serves() {
    let Some(world) = world(&[]) else { return };
    let state = world.file("state");
    let _ = up(&world, &["--lun", &image(&world, "a.img"), "--state", &state]).success();
    use_unit(&world, 0);
    let (report, pid) = (report(&world), target(&world));
    assert_eq!(report["sandbox"]["missing"], serde_json::json!([]), "{report}");
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert_eq!(status(pid, set), "0000000000000000", "{set}");
    }
    assert_eq!((status(pid, "Seccomp"), status(pid, "NoNewPrivs")), ("2".into(), "1".into()));
    for thread in fs::read_dir(format!("/proc/{pid}/task")).unwrap() {
        // Threads of the kernel's io_uring run nothing of the target's.
        let status = fs::read_to_string(thread.unwrap().path().join("status")).unwrap();
        let in_kernel = status.starts_with("Name:\tiou-");
        assert!(in_kernel || status.contains("Seccomp:\t2"), "{status}");
    }
    let user: u32 = status(pid, "Uid").split('\t').next().unwrap().parse().unwrap();
    assert!((61_184..=65_519).contains(&user), "{user}");
    assert_eq!(status(pid, "Groups"), "");
    assert!(status(pid, "NSpid").ends_with("\t1"), "{}", status(pid, "NSpid"));
    for kind in ["cgroup", "ipc", "mnt", "net", "pid", "uts"] {
        assert_ne!(namespace(pid, kind), namespace(broker(pid), kind), "{kind}");
    }
    let root: Vec<_> = fs::read_dir(format!("/proc/{pid}/root")).unwrap().collect();
    assert!(root.is_empty(), "{root:?}");
    for entry in fs::read_dir(format!("/proc/{pid}/fd")).unwrap() {
        let target = fs::read_link(entry.unwrap().path()).unwrap().display().to_string();
        let may = ["/dev/null", "/run/tasuki/", "/memfd:", "/anon_hugepage"];
        let allowed = target.ends_with("/a.img") || may.iter().any(|head| target.starts_with(head));
        assert!(!target.starts_with('/') || allowed, "{target}");
    }
    let said = tasuki(&world, &["ps", "--security", "net"]).success();
    assert!(said.stdout.lines().any(|line| line.contains(&user.to_string())), "{said}");
    end(&world);
}

/// The command opens the file with its user's rights, and passes it.
#[test]
fn units_are_added_and_resized_within() {
    let Some(world) = world(&["losetup", "iscsi-readcapacity16"]) else { return };
    let _ = up(&world, &["--lun", "memory:1M"]).success();
    let lun = image(&world, "b.img");
    let add = |number: &str, lun: &str| tasuki(&world, &["target", "add", "disks", number, lun]);
    let resize = |words: &[&str]| tasuki(&world, &[&["target", "resize", "disks"], words].concat());
    let size = |lun| {
        let said = world.run(&["iscsi-readcapacity16", "-s", &unit(lun)]).success();
        said.stdout.trim().parse::<u64>().unwrap_or_else(|_| panic!("{said}"))
    };
    let _ = add("1", &lun).success();
    use_unit(&world, 1);
    let _ = resize(&["1", "16M"]).success();
    assert_eq!((size(1), fs::metadata(world.path("b.img")).unwrap().len()), (16 << 20, 16 << 20));
    let _ = resize(&["1", "4M"]).success();
    fs::File::options().write(true).open(world.path("b.img")).unwrap().set_len(SIZE).unwrap();
    let _ = resize(&["1"]).success();
    assert_eq!(size(1), SIZE);
    for (number, lun, code, sentence) in [
        ("2", &*lun, 120, "in use"),
        ("2", "file:/none", 118, "cannot open /none"),
        ("2", "file:/dev/null", 118, "neither a regular file nor a block device"),
        ("1", "memory:1M", 118, "choose another number"),
    ] {
        let said = add(number, lun).code(code);
        assert!(said.stderr.contains(sentence), "{sentence}: {said}");
    }
    // A file that was not taken is free again, and so is that of a unit that went.
    let _ = add("1", &image(&world, "c.img")).code(118);
    let _ = add("2", &format!("file:{}", world.file("c.img"))).success();
    for number in ["1", "2"] {
        let _ = tasuki(&world, &["target", "remove", "disks", number]).success();
    }
    let _ = add("3", &format!("{lun},ro")).success();
    let said = tasuki(&world, &["disk", "copy", &world.file("noise"), &unit(3)]).code(125);
    assert!(said.stderr.contains("sense key 7h"), "{said}");

    let found = world.run(&["losetup", "--find", "--show", &world.file("c.img")]);
    if found.stdout.is_empty() {
        skip("there is no loop device");
    } else {
        let device = found.success().stdout.trim().to_owned();
        let added = add("4", &format!("block:{device}"));
        use_unit(&world, 4);
        fs::File::options()
            .write(true)
            .open(world.path("c.img"))
            .unwrap()
            .set_len(SIZE * 2)
            .unwrap();
        let grown = world.run(&["losetup", "--set-capacity", &device]);
        let (resized, now) = (resize(&["4"]), size(4));
        let _ = tasuki(&world, &["target", "remove", "disks", "4"]);
        let _ = world.run(&["losetup", "--detach", &device]).success();
        let _ = (added.success(), grown.success(), resized.success());
        assert_eq!(now, SIZE * 2);
    }
    assert!(!log(&world).contains("system call"), "{}", log(&world));
    end(&world);
}

/// Reservations outlive a target that has no right to their file.
#[test]
fn the_broker_keeps_reservations() {
    let Some(world) = world(&[]) else { return };
    let (state, lun) = (world.file("state"), image(&world, "a.img"));
    let begin = || {
        let _ = up(&world, &["--lun", &lun, "--state", &state]).success();
    };
    let attack = |words: &[&str]| {
        let words = [&[STACK, IQN], words].concat();
        world.run(&world.script("chap.py", &words)).success().stdout.trim().to_owned()
    };
    begin();
    assert_eq!(attack(&["registered"]), "");
    assert_eq!(attack(&["register", "00000000deadbeef"]), "registered");
    kill(target(&world), Signal::KILL);
    eventually("the broker has ended", || {
        tasuki(&world, &["target", "ls"]).stdout.lines().count() == 1
    });
    begin();
    assert_eq!(attack(&["registered"]), "00000000deadbeef");
    // A unit that comes later has its state, too.
    let _ = tasuki(&world, &["target", "remove", "disks", "0"]).success();
    let _ = tasuki(&world, &["target", "add", "disks", "0", &lun]).success();
    assert_eq!(attack(&["registered"]), "00000000deadbeef");
    // What cannot be stored fails, and is told in the log.
    fs::remove_dir_all(world.path("state")).unwrap();
    let words = [STACK, IQN, "register", "0000000000000001"];
    assert!(!world.run(&world.script("chap.py", &words)).status.success());
    assert!(log(&world).contains("cannot keep the unit's state"), "{}", log(&world));
    end(&world);
}

/// Neither process outlives the other one, and nothing is left.
#[test]
fn target_and_broker_end_together() {
    let Some(world) = world(&[]) else { return };
    let begin = || {
        let _ = up(&world, &["--lun", "memory:1M"]).success();
        let pid = target(&world);
        (pid, broker(pid))
    };
    let socket = world.outside("/run/tasuki/disks.target.sock");
    let gone = |pid: u32| !std::path::Path::new(&format!("/proc/{pid}")).exists();
    for (of_broker, signal, in_order) in [
        (false, Signal::KILL, true),
        (false, Signal::TERM, true),
        (true, Signal::TERM, true),
        (true, Signal::INT, true),
        (true, Signal::KILL, false),
    ] {
        let (pid, broker) = begin();
        kill(if of_broker { broker } else { pid }, signal);
        eventually("both have ended", || gone(pid) && gone(broker));
        assert_eq!(!socket.exists(), in_order, "{signal:?} {of_broker}");
    }
    // A socket that was left is replaced.
    let _ = begin();
    end(&world);
}

/// A target that somebody owns makes a system call outside of its list.
#[test]
#[cfg(target_arch = "x86_64")]
fn a_call_outside_of_the_list_ends_the_target() {
    let Some(world) = world(&[]) else { return };
    let _ = up(&world, &["--lun", "memory:1M"]).success();
    let pid = target(&world);
    // So that it makes calls. 110 is getppid.
    let busy = world.spawn(&world.script("chap.py", &[STACK, IQN, "challenges", "1000"]));
    let _ = world.run(&world.script("inject_call.py", &[&pid.to_string(), "110"])).success();
    drop(busy);
    eventually("the target has ended", || !std::path::Path::new(&format!("/proc/{pid}")).exists());
    eventually("the broker says so", || log(&world).contains("does not allow (the log names it)"));
    let log = log(&world);
    assert!(log.contains("the process target made the system call getppid (110)"), "{log}");
    fs::remove_file(world.outside("/run/tasuki/disks.target.log")).unwrap();
    world.down("net");
    world.assert_nothing_left();
}

/// The user can do without, and can demand all; and root may lack rights.
#[test]
fn the_sandbox_is_as_the_variable_says() {
    let Some(world) = world(&[]) else { return };
    let tasuki = tasuki_binary();
    let tasuki = tasuki.to_str().unwrap();
    let few = ["setpriv", "--bounding-set=-sys_admin", tasuki];
    let words =
        ["target", "up", "disks", "--plain", "--net", "net", "--lun", &image(&world, "a.img")];
    let up = |program: &[&str], value: &str| {
        let mut command = world.command(&[program, &words].concat());
        command.env("TASUKI_SANDBOX", value);
        Running::start(command).finish()
    };
    for (program, value, filter, missing) in [
        (&[tasuki][..], "off", "0", &[][..]),
        (&[tasuki], "require", "2", &[]),
        (&few, "on", "2", &["process namespace"]),
    ] {
        let _ = up(program, value).success();
        use_unit(&world, 0);
        let pid = target(&world);
        assert_eq!(status(pid, "Seccomp"), filter, "{value}");
        assert_eq!(status(pid, "Uid").starts_with("0\t"), filter == "0", "{value}");
        assert_eq!(report(&world)["sandbox"]["missing"], serde_json::json!(missing));
        let warnings = log(&world).matches("the sandbox of the target is not complete").count();
        assert_eq!(warnings, missing.len());
        let _ = Running::start(world.tasuki(&["target", "down", "disks"])).finish().success();
    }
    let said = up(&few, "require").code(119);
    assert!(said.stderr.contains("the sandbox lacks process namespace"), "{said}");
    let said = up(&[tasuki], "of").code(118);
    assert!(said.stderr.contains("use on, off or require"), "{said}");
    world.down("net");
    world.assert_nothing_left();
}
