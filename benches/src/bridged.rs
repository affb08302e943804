//! Two instances of Tasuki, a program's at each end, whose TAP devices are ports of one bridge.
//!
//! So each end has the device that a single end on Tasuki has, with the same offloads. What lies
//! between the two is a switch: no gateway, and no socket of the kernel's. A wire would leave out
//! the devices and the kernel. It compares with the loopback interface, not with a veth pair.
//! `packet:` on a veth pair would be another device than that of a single end.
//!
//! A TAP device ends with its instance, and its successor would be no port of the bridge. So the
//! instances stay (`tasuki up`), and programs join them (`tasuki run --net`).

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::setup::Role;
use crate::shell::sh;

/// See the module. A drop ends both instances and removes the bridge.
pub(crate) struct BridgedPair {
    tasuki: PathBuf,
    /// Names of the instances of server and client.
    names: [String; 2],
    server: String,
    namespace: String,
    bridge: String,
}

/// Where a pair is, and what it is called.
pub(crate) struct PairPlace<'a> {
    /// The namespace of bridge and devices.
    pub(crate) namespace: &'a str,
    /// What its names begin with. Others on this machine have other names.
    pub(crate) tag: &'a str,
    /// The first three numbers of its network, which nothing else in the namespace has.
    pub(crate) network: &'a str,
}

impl BridgedPair {
    /// Starts both instances in this mode. The commands put what follows them into the namespace:
    /// the server's end, then the client's.
    pub(crate) fn new(
        place: &PairPlace<'_>,
        tasuki: &Path,
        mode: &str,
        ends: [Command; 2],
    ) -> Result<Self> {
        let PairPlace { namespace, tag, network } = place;
        let names = ["s", "c"].map(|end| format!("{tag}-{mode}-{end}"));
        let server = format!("{network}.2");
        let (namespace, bridge) = ((*namespace).to_owned(), format!("br-{mode}"));
        let pair = Self { tasuki: tasuki.to_owned(), names, server, namespace, bridge };
        let Self { namespace, bridge, .. } = &pair;
        sh(&format!("ip -n {namespace} link add {bridge} type bridge"))?;
        sh(&format!("ip -n {namespace} link set {bridge} up"))?;
        for (at, mut command) in ends.into_iter().enumerate() {
            let (name, device) = (&pair.names[at], format!("b{at}-{mode}"));
            command.arg(tasuki).args(["up", "--mode", mode, "--ipv6", "off"]);
            command.args(["--nic", &format!("tap:{device}"), "--gateway", &format!("{network}.1")]);
            command.args(["--address", &format!("{network}.{}/24", at + 2), name]);
            let output = command.output().with_context(|| format!("starting {command:?}"))?;
            let why = String::from_utf8_lossy(&output.stderr);
            ensure!(output.status.success(), "the instance {name}: {}", why.trim());
            let ip = format!("ip -n {namespace}");
            sh(&format!("{ip} addr flush dev {device} && {ip} link set {device} master {bridge}"))?;
        }
        Ok(pair)
    }

    /// Words that put a program onto the instance of an end.
    pub(crate) fn words(&self, end: Role) -> Vec<OsString> {
        let [server, client] = &self.names;
        let name = if end == Role::Server { server } else { client };
        let mut words: Vec<OsString> = vec![(&self.tasuki).into()];
        words.extend(["run", "--net", name, "--"].map(OsString::from));
        words
    }

    /// The server's address.
    pub(crate) fn server(&self) -> &str {
        &self.server
    }
}

impl Drop for BridgedPair {
    fn drop(&mut self) {
        for name in &self.names {
            // It may have failed to start. What is left ends with the namespace.
            let _ = Command::new(&self.tasuki).args(["down", name]).output();
        }
        let _ = sh(&format!("ip -n {} link del {}", self.namespace, self.bridge));
    }
}
