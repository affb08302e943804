//! Playing scripts: by packetdrill with the plug-in, or by the runner of this package.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs, io, panic, thread};

use packetdrill::Script;

use crate::results::Outcome;

/// Features that no stack but the kernel's own can have, as far as scripts name them.
const KERNEL_ONLY: &[(&str, &str)] = &[
    ("MSG_ZEROCOPY", "zero-copy notices come from the kernel's error queue"),
    ("SO_TIMESTAMPING", "time stamps come from the kernel's error queue"),
    ("MSG_ERRQUEUE", "the kernel's error queue"),
    ("psp_", "PSP is the kernel's"),
    ("/proc/net/tcp", "looks for sockets in the kernel's tables"),
    ("nstat", "looks at the kernel's counters"),
    ("pfifo limit 0", "a queueing discipline that drops what the host itself sends"),
    ("qdisc replace dev tun0 root fq", "pacing by the kernel's queueing discipline"),
];

/// Longest time of one script, by the machine's clock.
const PATIENCE: Duration = Duration::from_secs(30);

/// packetdrill, and how it plays.
#[derive(Debug, Clone, Default)]
pub(crate) struct Packetdrill {
    /// Against the machine's kernel instead of the core.
    pub(crate) kernel: bool,
    /// The family, as packetdrill's option has it.
    pub(crate) ip: String,
    pub(crate) program: PathBuf,
    pub(crate) plugin: PathBuf,
}

/// The player of scripts.
#[derive(Debug)]
pub(crate) enum Player {
    /// This package's own runner.
    Runner,
    Packetdrill(Packetdrill),
}

impl Player {
    /// Plays all `scripts`; counts them on the terminal if `tell`.
    pub(crate) fn play(&self, scripts: &[PathBuf], tell: bool) -> Vec<Outcome> {
        let next = AtomicUsize::new(0);
        let outcomes: Mutex<Vec<Option<Outcome>>> = Mutex::new(vec![None; scripts.len()]);
        thread::scope(|scope| {
            for _ in 0..self.workers() {
                scope.spawn(|| {
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        let Some(script) = scripts.get(number) else { return };
                        let outcome = self.play_one(script);
                        let mut outcomes = outcomes.lock().expect("no thread panics with it");
                        if tell {
                            eprint!("\r{}/{} ", number + 1, scripts.len());
                        }
                        outcomes[number] = Some(outcome);
                    }
                });
            }
        });
        eprintln!();
        let outcomes = outcomes.into_inner().expect("all threads are over");
        outcomes.into_iter().flatten().collect()
    }

    fn workers(&self) -> usize {
        match self {
            // The kernel's time is real time: scripts beside each other make each other late.
            Self::Packetdrill(packetdrill) if packetdrill.kernel => 1,
            _ => thread::available_parallelism().map_or(1, usize::from),
        }
    }

    fn play_one(&self, script: &Path) -> Outcome {
        match self {
            Self::Runner => play_ourselves(script),
            Self::Packetdrill(packetdrill) => packetdrill.play(script),
        }
    }

    /// The addition to the name of a list of results. `None` if there is no list to compare with.
    pub(crate) fn list_suffix(&self) -> Option<String> {
        match self {
            Self::Packetdrill(packetdrill) if packetdrill.kernel => None,
            Self::Packetdrill(packetdrill) if packetdrill.ip != "ipv4" => {
                Some(format!("-{}", packetdrill.ip))
            }
            _ => Some(String::new()),
        }
    }
}

/// Plays a script of ours.
fn play_ourselves(script: &Path) -> Outcome {
    let played = fs::read_to_string(script).map_err(|error| error.to_string()).and_then(|text| {
        let script = Script::parse(&text).map_err(|fault| fault.to_string())?;
        let run = panic::catch_unwind(panic::AssertUnwindSafe(|| script.run()));
        run.map_err(|_| "a panic".to_owned())?.map_err(|fault| fault.to_string())
    });
    played.map_or_else(Outcome::Fail, |()| Outcome::Pass)
}

impl Packetdrill {
    /// The same with paths that hold everywhere.
    ///
    /// # Errors
    /// What is missing.
    pub(crate) fn found(&self) -> Result<Self, String> {
        let mut found = self.clone();
        find_program(&mut found.program)?;
        if !self.kernel && !self.plugin.exists() {
            return Err(format!("{} is not there: build the plug-in", self.plugin.display()));
        }
        found.plugin = fs::canonicalize(&self.plugin).unwrap_or(found.plugin);
        Ok(found)
    }

    /// Runs one script.
    fn play(&self, script: &Path) -> Outcome {
        let text = fs::read(script).map(|text| String::from_utf8_lossy(&text).into_owned());
        let text = match text {
            Ok(text) => text,
            Err(error) => return Outcome::Fail(error.to_string()),
        };
        let name = script.to_string_lossy();
        let other_family = match &self.ip[..] {
            "ipv6" => name.ends_with("v4.pkt"),
            _ => name.ends_with("v6.pkt") || text.contains("--ip_version=ipv6"),
        };
        if other_family {
            return Outcome::Skip(format!("not for {}", self.ip));
        }
        if !self.kernel
            && let Some((_, why)) = KERNEL_ONLY.iter().find(|(word, _)| text.contains(word))
        {
            return Outcome::Skip((*why).to_owned());
        }
        match self.execute(script, &text) {
            Ok(outcome) => outcome,
            Err(error) => Outcome::Fail(error.to_string()),
        }
    }

    /// The settings that scripts take for granted, by packetdrill's own convention.
    fn arguments(&self) -> Vec<String> {
        let (level, cookie, addresses): (&str, &str, &[&str]) = match &self.ip[..] {
            "ipv6" => (
                "IPV6",
                "c1d1e9742a47a9bc",
                &[
                    "--mtu=1520",
                    "--local_ip=fd3d:0a0b:17d6::1",
                    "--gateway_ip=fd3d:0a0b:17d6:8888::1",
                    "--remote_ip=fd3d:fa7b:d17d::1",
                ],
            ),
            ip => (
                if ip == "ipv4" { "IP" } else { "IPV6" },
                "3021b9d889017eeb",
                &[
                    "--local_ip=192.168.0.1",
                    "--gateway_ip=192.168.0.1",
                    "--netmask_ip=255.255.0.0",
                    "--remote_ip=192.0.2.1",
                    "-D",
                    "CODE=host_unreachable",
                ],
            ),
        };
        let mut all = vec!["--send_omit_free".to_owned(), format!("--ip_version={}", self.ip)];
        all.extend(addresses.iter().map(|&argument| argument.to_owned()));
        for definition in [
            format!("TFO_COOKIE={cookie}"),
            format!("CMSG_LEVEL_IP=SOL_{level}"),
            format!("CMSG_TYPE_RECVERR={level}_RECVERR"),
        ] {
            all.extend(["-D".to_owned(), definition]);
        }
        all
    }

    fn execute(&self, script: &Path, text: &str) -> io::Result<Outcome> {
        let folder = tempfile::tempdir()?;
        let said = folder.path().join("said");
        let mut command = match self.kernel {
            true => {
                let mut command = Command::new("unshare");
                let and_then = "ip link set lo up && exec \"$@\"";
                command.args(["--net", "sh", "-c", and_then, "sh"]).arg(&self.program);
                command
            }
            false => {
                let mut command = Command::new(&self.program);
                command.env("LD_PRELOAD", &self.plugin);
                command.arg(format!("--so_filename={}", self.plugin.display()));
                command.arg(format!("--so_flags={}", self.flags(text)));
                command
            }
        };
        // A setting of the script itself is left out: the command line would win.
        let own = |argument: &String| match argument.split_once('=') {
            Some((name, _)) if name.starts_with("--") => text.contains(&format!("{name}=")),
            _ => false,
        };
        command
            .args(self.arguments().iter().filter(|argument| !own(argument)))
            .arg(script.file_name().unwrap_or_default());
        command.current_dir(script.parent().unwrap_or(Path::new("/")));
        command.env("TMPDIR", folder.path()).stdin(Stdio::null());
        command
            .stdout(fs::File::create(&said)?)
            .stderr(fs::File::options().append(true).open(&said)?);
        let mut child = command.spawn()?;
        let begin = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            if begin.elapsed() > PATIENCE {
                child.kill()?;
                child.wait()?;
                return Ok(Outcome::Fail(format!("no end after {} s", PATIENCE.as_secs())));
            }
            thread::sleep(Duration::from_millis(5));
        };
        let said = String::from_utf8_lossy(&fs::read(&said)?).into_owned();
        Ok(if status.success() { Outcome::Pass } else { Outcome::Fail(first_lines(&said)) })
    }

    /// The plug-in's flags: the link as packetdrill and the script have it.
    fn flags(&self, text: &str) -> String {
        let link = (self.ip == "ipv6").then(|| "mtu=1520,local=fd3d:a0b:17d6::1".to_owned());
        // A kernel learns it from the packet's header in the TUN device, a plug-in does not.
        let mss = text.lines().find_map(|line| line.strip_prefix("--mss="));
        let mss = mss.map(|mss| format!("mss={}", mss.trim()));
        link.into_iter().chain(mss).collect::<Vec<_>>().join(",")
    }
}

/// Makes `program` a path, looking along PATH.
fn find_program(program: &mut PathBuf) -> Result<(), String> {
    let name = program.clone();
    let places = env::var_os("PATH").unwrap_or_default();
    let found = match name.components().count() {
        1 => env::split_paths(&places).map(|folder| folder.join(&name)).find(|path| path.exists()),
        _ => fs::canonicalize(&name).ok(),
    };
    *program = found.ok_or_else(|| {
        format!(
            "{} is not there. packetdrill: https://github.com/google/packetdrill",
            name.display()
        )
    })?;
    Ok(())
}

/// The first lines of packetdrill's message, in one.
fn first_lines(said: &str) -> String {
    let lines: Vec<&str> =
        said.lines().filter(|line| !line.trim().is_empty() && !line.contains("warning")).collect();
    let first = lines.iter().position(|line| line.contains(".pkt:")).unwrap_or(0);
    let all: Vec<&str> = lines.iter().skip(first).take(3).map(|line| line.trim()).collect();
    if all.is_empty() { "it failed and said nothing".to_owned() } else { all.join(" | ") }
}
