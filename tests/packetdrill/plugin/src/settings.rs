//! Commands of scripts. The script's settings are in a tree like /proc/sys that is the script's
//! alone.
//!
//! Scripts configure the kernel with shell commands between back-ticks: `sysctl`, files below
//! /proc/sys and /sys/module, `ip`, `tc`, `ethtool`. The shell that runs them finds this plug-in's
//! commands first on its PATH. They write to the tree or do nothing. Paths in the command itself
//! are changed to lead into the tree. After each command the host gets the settings of the tree. So
//! a script changes nothing outside of it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

use packetdrill::Host;

/// Settings that scripts read before they set them, with Linux's defaults.
const DEFAULTS: &[(&str, &str)] = &[
    ("tcp_base_mss", "1024"),
    ("tcp_fastopen", "1"),
    ("tcp_fastopen_blackhole_timeout_sec", "0"),
    ("tcp_fastopen_key", "00000000-00000000-00000000-00000000"),
    ("tcp_min_tso_segs", "2"),
    ("tcp_mtu_probing", "0"),
    ("tcp_notsent_lowat", "4294967295"),
    ("tcp_pacing_ss_ratio", "200"),
    ("tcp_slow_start_after_idle", "1"),
    ("tcp_timestamps", "1"),
    ("tcp_wmem", "4096 16384 4194304"),
];

/// Writes each `name=value` to the tree and ignores the options. A name alone is shown. A setting
/// that newer kernels have dropped fails, as scripts expect.
const SYSCTL: &str = r#"#!/bin/sh
for word in "$@"; do
    case $word in
    -*) continue ;;
    esac
    path=$(printf %s "${word%%=*}" | tr . /)
    case $word in
    *tcp_fastopen_cookies*) exit 255 ;;
    *=*) printf '%s\n' "${word#*=}" > "$TASUKI_SETTINGS/proc/sys/$path" || exit 255 ;;
    *) printf '%s = ' "$(printf %s "${word%%=*}" | tr / .)"
       cat "$TASUKI_SETTINGS/proc/sys/$path" || exit 255 ;;
    esac
done
"#;

/// `ethtool -K DEVICE tso off`: a device that divides no segments gets no long ones.
const ETHTOOL: &str = r#"#!/bin/sh
case "$*" in
*"tso off"*) echo 0 > "$TASUKI_SETTINGS/proc/sys/net/core/device_tso" ;;
*"tso on"*) echo 1 > "$TASUKI_SETTINGS/proc/sys/net/core/device_tso" ;;
esac
"#;

/// Passes `ip tcp_metrics flush` on to the host, whatever its arguments; the rest does nothing.
const IP: &str = r#"#!/bin/sh
case $* in
*tcp_metrics*flush*) : > "$TASUKI_SETTINGS/flush" ;;
esac
exit 0
"#;

const NOTHING: &str = "#!/bin/sh\nexit 0\n";

/// The tree of one script.
#[derive(Debug)]
pub(crate) struct Settings {
    root: PathBuf,
    path: OsString,
    known: BTreeMap<String, String>,
}

impl Settings {
    /// # Errors
    /// The file system's.
    pub(crate) fn new() -> io::Result<Self> {
        let root = env::temp_dir().join(format!("tasuki-packetdrill-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        let commands = root.join("bin");
        for folder in ["bin", "proc/sys/net/ipv4", "proc/sys/net/core", "proc/sys/net/ipv6"] {
            fs::create_dir_all(root.join(folder))?;
        }
        fs::create_dir_all(root.join("sys/module/tcp_cubic/parameters"))?;
        for (name, value) in DEFAULTS {
            fs::write(root.join("proc/sys/net/ipv4").join(name), format!("{value}\n"))?;
        }
        for (name, text) in [("sysctl", SYSCTL), ("ip", IP), ("tc", NOTHING), ("ethtool", ETHTOOL)]
        {
            let file = commands.join(name);
            fs::File::create(&file)?.write_all(text.as_bytes())?;
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755))?;
        }
        let old = env::var_os("PATH").unwrap_or_default();
        let folders = [commands].into_iter().chain(env::split_paths(&old));
        let path = env::join_paths(folders).map_err(io::Error::other)?;
        let mut settings = Self { root, path, known: BTreeMap::new() };
        // The settings of the start are the host's own defaults already.
        settings.known = settings.read();
        // The host makes up one of them: a script may ask for just this key.
        settings.known.remove("tcp_fastopen_key");
        Ok(settings)
    }

    /// All files of the tree.
    fn read(&self) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        for folder in [
            "proc/sys/net/ipv4",
            "proc/sys/net/core",
            "proc/sys/net/ipv6",
            "sys/module/tcp_cubic/parameters",
        ] {
            for entry in fs::read_dir(self.root.join(folder)).into_iter().flatten().flatten() {
                let name = entry.file_name().to_string_lossy().into_owned();
                let value = fs::read_to_string(entry.path()).unwrap_or_default();
                found.insert(name, value.trim().to_owned());
            }
        }
        found
    }

    /// Runs a command and gives the host the new settings. Returns the status as wait(2) has it.
    pub(crate) fn run(&mut self, command: &str, host: &mut Host) -> i32 {
        let root = self.root.display();
        let command = command
            .replace("/proc/sys/", &format!("{root}/proc/sys/"))
            .replace("/sys/module/", &format!("{root}/sys/module/"));
        // Some are written for bash.
        let bash = Path::new("/bin/bash");
        let shell = if bash.exists() { bash } else { Path::new("/bin/sh") };
        let status = Command::new(shell)
            .args(["-c", &command])
            .env("PATH", &self.path)
            .env("TASUKI_SETTINGS", &self.root)
            .env_remove("LD_PRELOAD")
            .status();
        for (name, value) in self.read() {
            if self.known.get(&name) != Some(&value) {
                host.set_sysctl(&name, &value);
                self.known.insert(name, value);
            }
        }
        if fs::remove_file(self.root.join("flush")).is_ok() {
            host.forget_peers();
        }
        status.map_or(-1, |status| status.into_raw())
    }
}

impl Drop for Settings {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(Path::new(&self.root));
    }
}
