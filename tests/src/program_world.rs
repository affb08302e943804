//! A world for the programs that people run: an instance, and a watch over the host's network.
//!
//! The watch is a rule of nftables in the world's network namespace. It counts and drops each
//! packet that a socket of a program sends there, unless the program belongs to the far host. The
//! programs of the far host have the group [`FAR_GROUP`]; nothing that `tasuki run` starts has it.
//! Another device, `leak0`, has the default routes, so that a packet to any address is seen.

use std::ops::Deref;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use abi::control::{InstanceStatus, SocketStatus};

use crate::process::{Finished, Running};
use crate::tools::{eventually, skip};
use crate::world::{Mode, Nic, World};

/// The group of programs that belong to the far host, in worlds of this kind.
const FAR_GROUP: &str = "42190";
/// The instance in worlds of this kind.
const NET: &str = "programs";

/// See the module's documentation.
pub struct ProgramWorld {
    world: World,
}

impl Deref for ProgramWorld {
    type Target = World;

    fn deref(&self) -> &World {
        &self.world
    }
}

/// Is there a program of this name on PATH, or at this path?
#[must_use]
pub fn installed(program: &str) -> bool {
    let found = Command::new("which").arg(program).output();
    found.is_ok_and(|output| output.status.success())
}

/// Has QEMU its driver for iSCSI? Debian has it in a package of its own, qemu-block-extra.
#[must_use]
pub fn qemu_has_iscsi() -> bool {
    let folders = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    folders.map(|folder| folder.path().join("qemu/block-iscsi.so")).any(|driver| driver.exists())
}

impl ProgramWorld {
    /// A world with an instance and the watch. It prints SKIP and returns `None` if one of
    /// `programs` is not installed, or the rights are missing, or the mode is `library`.
    ///
    /// # Panics
    /// When the rights are there and it cannot be made.
    #[must_use]
    pub fn new(programs: &[&str]) -> Option<Self> {
        Self::new_with(programs, &[])
    }

    /// As [`ProgramWorld::new`], with more options for the instance.
    ///
    /// # Panics
    /// When the rights are there and it cannot be made.
    #[must_use]
    pub fn new_with(programs: &[&str], options: &[&str]) -> Option<Self> {
        let mode = Mode::shared()?;
        if let Some(missing) = programs.iter().chain(&["nft"]).find(|name| !installed(name)) {
            skip(&format!("{missing} is not installed: `scripts/deps.sh programs` installs it"));
            return None;
        }
        if !rustix::process::geteuid().is_root() {
            skip("needs root: programs change their group and user");
            return None;
        }
        let world = Self { world: World::over(Nic::Tap)? };
        // Servers under another user have their files here.
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(world.path("."), open).expect("the test's own folder");
        world.watch();
        world.up(NET, mode, options);
        Some(world)
    }

    /// The state of the instance.
    ///
    /// # Panics
    /// When it does not tell.
    #[must_use]
    pub fn status(&self) -> InstanceStatus {
        self.ps(NET)
    }

    /// The sockets of the instance that are not in TIME-WAIT.
    ///
    /// # Panics
    /// When it does not tell.
    #[must_use]
    pub fn open_sockets(&self) -> Vec<SocketStatus> {
        let mut rows = self.ss(NET);
        rows.retain(|row| !row.state.starts_with("TIME"));
        rows
    }

    /// [`World::assert_pools_return`] of the instance.
    ///
    /// # Panics
    /// When pages are lost.
    pub fn assert_pages_return(&self, before: &InstanceStatus) {
        self.assert_pools_return(NET, &before.pools);
    }

    fn watch(&self) {
        for words in [
            "ip link add leak0 type veth peer name leak1",
            "ip link set leak1 up",
            "ip link set leak0 up",
            "ip route add default dev leak0",
            "ip -6 route add default dev leak0",
        ] {
            let words: Vec<_> = words.split(' ').collect();
            let _ = Running::start(self.command(&words)).finish().success();
        }
        let rules = format!(
            "table inet watch {{
                 counter leaked {{ }}
                 chain output {{
                     type filter hook output priority 0; policy accept;
                     meta skgid != {FAR_GROUP} counter name leaked drop
                 }}
             }}\n"
        );
        std::fs::write(self.path("watch.nft"), rules).expect("a file");
        let _ = Running::start(self.command(&["nft", "-f", "watch.nft"])).finish().success();
    }

    /// Packets so far that went over the host's network and were not the far host's.
    ///
    /// # Panics
    /// When nftables does not tell.
    #[must_use]
    pub fn leaked(&self) -> u64 {
        let words = ["nft", "list", "counter", "inet", "watch", "leaked"];
        let said = Running::start(self.command(&words)).finish().success();
        let count = said.stdout.split_once("packets ").and_then(|(_, rest)| rest.split(' ').next());
        count.and_then(|count| count.parse().ok()).unwrap_or_else(|| panic!("{said}"))
    }

    /// Asserts that no program but those of the far host has used the host's network.
    ///
    /// # Panics
    /// When one has.
    pub fn assert_host_network_unused(&self) {
        let leaked = self.leaked();
        assert_eq!(leaked, 0, "packets went over the host's network, past the instance");
    }

    /// Starts a program of the far host.
    #[must_use]
    pub fn spawn<S: AsRef<str>>(&self, words: &[S]) -> Running {
        let group = format!("--regid={FAR_GROUP}");
        let mut command = self.command(&["setpriv", &group, "--clear-groups", "--"]);
        command.args(words.iter().map(AsRef::as_ref));
        Running::start(command)
    }

    /// Runs a program of the far host to its end.
    #[must_use]
    pub fn run<S: AsRef<str>>(&self, words: &[S]) -> Finished {
        self.spawn(words).finish()
    }

    /// Starts a program on the instance.
    #[must_use]
    pub fn start<S: AsRef<str>>(&self, words: &[S]) -> Running {
        Running::start(self.on_net(NET, words))
    }

    /// As [`ProgramWorld::start`], with options for `tasuki run`.
    #[must_use]
    pub fn start_with<S: AsRef<str>>(&self, options: &[&str], words: &[S]) -> Running {
        let run = [&["run", "--net", NET], options, &["--"]].concat();
        let mut command = self.tasuki(&run);
        command.args(words.iter().map(AsRef::as_ref));
        Running::start(command)
    }

    /// Runs a program on the instance to its end.
    #[must_use]
    pub fn run_inside<S: AsRef<str>>(&self, words: &[S]) -> Finished {
        self.start(words).finish()
    }

    /// Runs a program on both hosts, one after the other.
    pub fn run_on_both<S: AsRef<str>>(&self, words: &[S], mut check: impl FnMut(Finished)) {
        check(self.run(words));
        check(self.run_inside(words));
    }

    /// Waits until some program on the instance listens on this port of TCP.
    ///
    /// # Panics
    /// When `server` ends before.
    pub fn listens(&self, server: &mut Running, port: u16) {
        eventually("the server listens", || {
            let rows = self.ss(NET);
            let listens = rows.iter().any(|row| row.state == "LISTEN" && row.local.port() == port);
            listens || (server.has_ended() && self.said(server))
        });
    }

    /// Shows the output of a server that ended, in the failure of the test.
    fn said(&self, server: &Running) -> bool {
        let _ = server.line("a line that no server prints");
        false
    }

    /// Asserts that all programs of the instance have closed their sockets, that none has used the
    /// host's network, and that Tasuki leaves nothing.
    ///
    /// # Panics
    /// When that is not so.
    pub fn end(&self) {
        eventually("no socket is left", || self.open_sockets().is_empty());
        self.down(NET);
        self.assert_host_network_unused();
        let _ = Running::start(self.command(&["ip", "link", "del", "leak0"])).finish().success();
        self.assert_nothing_left();
    }
}
