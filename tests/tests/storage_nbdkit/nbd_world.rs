//! A world with a target on one instance, and nbdkit as client of another one.

use std::fs::File;
use std::path::PathBuf;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use tasuki_tests::{
    Finished, Mode, Nic, Running, STACK, World, eventually, installed, skip, tasuki_binary,
};

/// Bytes of an image.
pub(crate) const SIZE: usize = 64 << 20;
/// The instance of the target, and that of nbdkit (the other end of the wire).
const TARGET: &str = "net";
const CLIENT: &str = "far";
/// The Python of the distribution, which has its libnbd.
const PYTHON: &str = "/usr/bin/python3";
/// How long nbdkit waits for its target in a test. A test that was ended ends with it.
const GIVE_UP: &str = "give-up=120";

/// A target's world.
pub(crate) struct NbdWorld {
    world: World,
    scheme: &'static str,
}

impl std::ops::Deref for NbdWorld {
    type Target = World;

    fn deref(&self) -> &World {
        &self.world
    }
}

/// A file of a unit.
pub(crate) struct Image {
    pub(crate) path: PathBuf,
    pub(crate) lun: String,
}

/// The plug-in, beside the command.
fn plug_in() -> PathBuf {
    tasuki_binary().with_file_name("libtasuki_nbdkit.so")
}

impl NbdWorld {
    /// With both instances, for a portal of this transport. Without what it needs it prints SKIP
    /// and returns `None`.
    ///
    /// # Panics
    /// If nbdkit is there and the plug-in is not built.
    pub(crate) fn new(scheme: &'static str, programs: &[&str]) -> Option<Self> {
        let mode = Mode::shared()?;
        let needed = ["nbdkit", "nbdinfo"].into_iter().chain(programs.iter().copied());
        if let Some(missing) = needed.into_iter().find(|program| !installed(program)) {
            skip(&format!("{missing} is not installed"));
            return None;
        }
        let libnbd = Command::new(PYTHON).args(["-c", "import nbd"]).output();
        if !libnbd.is_ok_and(|said| said.status.success()) {
            skip("python3-libnbd is not installed");
            return None;
        }
        assert!(plug_in().exists(), "`cargo build -p tasuki-nbdkit` first, beside TASUKI_BIN");
        let world = World::over(Nic::Wire)?;
        world.up(TARGET, mode, &[]);
        Some(Self { world, scheme })
    }

    /// Runs a program of the host.
    pub(crate) fn run(&self, words: &[&str]) -> Finished {
        self.start(words).finish()
    }

    pub(crate) fn start(&self, words: &[&str]) -> Running {
        Running::start(self.command(words))
    }

    pub(crate) fn image(&self, name: &str) -> Image {
        let path = self.path(name);
        File::create(&path).unwrap().set_len(SIZE as u64).unwrap();
        let lun = format!("file:{}", path.display());
        Image { path, lun }
    }

    /// Starts the target `disks`. Its last process may still have a file for a moment.
    pub(crate) fn target_up(&self, luns: &[&str]) {
        let mut words = vec!["target", "up", "disks", "--net", TARGET];
        words.extend(match self.scheme {
            "iscsi" => Some("--plain"),
            "iscsi+tls" => Some("--tls"),
            _ => None,
        });
        words.extend(luns.iter().flat_map(|lun| ["--lun", lun]));
        eventually("the target starts", || {
            let said = self.tasuki(&words);
            let in_use = said.stderr.contains("is in use");
            assert!(said.status.success() || in_use, "{said}");
            said.status.success()
        });
    }

    /// `tasuki WORDS…` with the keys of this world's machine.
    pub(crate) fn tasuki(&self, words: &[&str]) -> Finished {
        let mut command = self.world.tasuki(words);
        command.env("TASUKI_KEYS", self.path("keys"));
        Running::start(command).finish()
    }

    /// Kills the target, if `signal` does.
    pub(crate) fn signal_target(&self, signal: Signal) {
        let all = self.processes().into_iter().filter(|pid| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let mut said = line.split(|byte| *byte == 0).skip(1);
            [b"target", &b"up"[..]].iter().all(|word| said.next() == Some(word))
        });
        for pid in all.filter_map(|pid| i32::try_from(pid).ok().and_then(Pid::from_raw)) {
            kill_process(pid, signal).unwrap();
        }
    }

    /// The number of sessions at the target.
    pub(crate) fn sessions(&self) -> usize {
        let said = self.tasuki(&["target", "ls", "--json"]).success();
        let status: serde_json::Value = serde_json::from_str(&said.stdout).expect("JSON");
        status[0]["sessions"].as_array().map_or(0, Vec::len)
    }

    pub(crate) fn unit(&self, lun: u16) -> String {
        format!("{}://{STACK}/iqn.2026-11.tasuki:disks/{lun}", self.scheme)
    }

    /// `nbdkit OPTIONS… tasuki PARAMETERS…`, with the keys in `keys` of this world.
    pub(crate) fn nbdkit(&self, keys: &str, options: &[&str], parameters: &[&str]) -> Command {
        let plug_in = plug_in();
        let plug_in = plug_in.to_str().expect("a plain path");
        let words = [&["nbdkit"], options, &[plug_in], parameters].concat();
        let mut command = self.command(&words);
        command.env("TASUKI_KEYS", self.path(keys));
        command
    }

    /// Serves a unit at a socket of this world.
    pub(crate) fn serve(&self, lun: u16, parameters: &[&str]) -> Served<'_> {
        let patience = match parameters.iter().any(|word| word.starts_with("give-up=")) {
            true => &[][..],
            false => &[GIVE_UP],
        };
        let (unit, net) = (self.unit(lun), format!("net={CLIENT}"));
        let (socket, pid) = (self.file("nbd.sock"), self.file("nbd.pid"));
        let parameters = [&[&*unit, &*net], parameters, patience].concat();
        let mut nbdkit =
            Running::start(self.nbdkit("keys", &["-f", "-U", &socket, "-P", &pid], &parameters));
        eventually("nbdkit serves", || {
            assert!(!nbdkit.has_ended() || self.path("nbd.pid").exists(), "nbdkit has ended");
            self.path("nbd.pid").exists()
        });
        let served = Served { world: self, nbdkit };
        // The number is written before the session is made; clients wait for that.
        let _ = self.run(&["nbdinfo", "--size", &served.uri()]).success();
        served
    }

    pub(crate) fn end(&self) {
        let _ = self.tasuki(&["target", "down", "disks"]).success();
        self.down(TARGET);
        self.assert_nothing_left();
    }
}

/// An nbdkit that serves a unit.
pub(crate) struct Served<'a> {
    world: &'a NbdWorld,
    pub(crate) nbdkit: Running,
}

impl Served<'_> {
    /// The address for clients.
    pub(crate) fn uri(&self) -> String {
        format!("nbd+unix:///?socket={}", self.world.file("nbd.sock"))
    }

    /// The process.
    pub(crate) fn pid(&self) -> Pid {
        let text = std::fs::read_to_string(self.world.path("nbd.pid")).expect("nbdkit serves");
        let number = text.trim().parse().ok().and_then(Pid::from_raw);
        number.expect("the number of a process")
    }

    /// What nbdinfo sees.
    pub(crate) fn info(&self) -> serde_json::Value {
        let said = self.world.run(&["nbdinfo", "--json", &self.uri()]).success();
        let all: serde_json::Value = serde_json::from_str(&said.stdout).expect("JSON");
        all["exports"][0].clone()
    }

    pub(crate) fn copy(&self, from: &str, to: &str) -> Running {
        // Without --flush nbdcopy returns before the bytes are safe.
        self.world.start(&["nbdcopy", "--flush", from, to])
    }

    /// Runs a script of libnbd: `h` is a connection.
    pub(crate) fn script(&self, lines: &[&str]) -> Finished {
        self.start_script(lines).finish()
    }

    pub(crate) fn start_script(&self, lines: &[&str]) -> Running {
        let script = lines.join("\n");
        self.world.start(&[PYTHON, "-mnbd", "-u", &self.uri(), "-c", &script])
    }

    /// Ends nbdkit, which logs out.
    pub(crate) fn end(self) -> Finished {
        self.nbdkit.signal(Signal::TERM);
        let said = self.nbdkit.finish();
        let _ = std::fs::remove_file(self.world.path("nbd.sock"));
        let _ = std::fs::remove_file(self.world.path("nbd.pid"));
        said.success()
    }
}
