//! Network devices as `--nic` and `nic.device` name them: `KIND:TARGET`.
//!
//! [`KINDS`] is the table of back ends on this side: what a target is, and whose the other end of
//! the link is. [`crate::supervisor`] has the one that opens them, and `nic_driver::backend` the
//! one that drives them.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use nic_driver::pcap;
use serde::Deserialize;

/// A back end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A TAP device, made by Tasuki.
    Tap,
    /// passt(1), started by Tasuki.
    Passt,
    /// A capture file that is replayed.
    Pcap,
    /// A link to another instance.
    Wire,
    /// An interface that the host has, by a packet socket.
    Packet,
    /// An interface that the host has, taken over whole by AF_XDP.
    Xdp,
}

/// Behind `passt:`: programs reach this host's own loopback.
const HOST: &str = "host";

/// The properties of a kind.
struct Row {
    kind: Kind,
    /// The word before the colon.
    word: &'static str,
    /// The other end of the link is this host's. It gets the gateways' addresses, and free
    /// addresses are chosen where none are given. Otherwise the stack is a guest in another
    /// network: its address must be given, or comes by DHCP.
    host_end: bool,
    /// More stations than the stack and the link's other end may be on the link, and may have an
    /// address of the stack's. A TAP device, passt and a wire have just one other end, whose
    /// addresses are set together with the stack's. Behind a capture file no station answers.
    shared: bool,
    /// The fault in a target, if there is one.
    check: fn(&str) -> Result<(), String>,
}

/// Every kind.
const KINDS: &[Row] = &[
    Row { kind: Kind::Tap, word: "tap", host_end: true, shared: false, check: check_interface },
    Row { kind: Kind::Passt, word: "passt", host_end: true, shared: false, check: check_host },
    Row { kind: Kind::Pcap, word: "pcap", host_end: false, shared: false, check: check_replay },
    Row { kind: Kind::Wire, word: "wire", host_end: false, shared: false, check: check_socket },
    Row {
        kind: Kind::Packet,
        word: "packet",
        host_end: false,
        shared: true,
        check: check_interface,
    },
    Row { kind: Kind::Xdp, word: "xdp", host_end: false, shared: true, check: check_interface },
];

impl Kind {
    fn row(self) -> &'static Row {
        // There is one for each.
        KINDS.iter().find(|row| row.kind == self).unwrap_or(&KINDS[0])
    }

    /// The kind of the sandbox of its driver.
    pub(crate) fn sandbox(self) -> sandbox::DeviceKind {
        use sandbox::DeviceKind;
        match self {
            Self::Tap => DeviceKind::Tap,
            Self::Passt => DeviceKind::Passt,
            Self::Pcap => DeviceKind::Pcap,
            Self::Wire => DeviceKind::Wire,
            Self::Packet => DeviceKind::Packet,
            Self::Xdp => DeviceKind::Xdp,
        }
    }

    /// May more stations be on the link than the stack and its other end?
    pub(crate) fn is_shared(self) -> bool {
        self.row().shared
    }
}

impl Kind {
    /// A good target with whole paths: servers are in another directory.
    fn absolute(self, target: &str) -> Result<String, String> {
        let whole = |path: PathBuf| {
            std::path::absolute(&path).map_err(|error| format!("{}: {error}", path.display()))
        };
        match self {
            Self::Tap | Self::Packet | Self::Xdp | Self::Passt => Ok(target.to_owned()),
            Self::Pcap => {
                let target: pcap::Target = target.parse()?;
                let input = whole(target.input)?;
                let output = target.output.map(whole).transpose()?;
                Ok(pcap::Target { input, output, ..target }.to_string())
            }
            Self::Wire => Ok(whole(target.into())?.display().to_string()),
        }
    }
}

/// A network device.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Device {
    kind: Kind,
    target: String,
}

impl Device {
    /// A TAP device of this name, which the kernel took already.
    pub(crate) fn tap(name: String) -> Self {
        Self { kind: Kind::Tap, target: name }
    }

    /// passt.
    pub(crate) fn passt() -> Self {
        Self { kind: Kind::Passt, target: String::new() }
    }

    /// Does the gateway's address lead to this host's own loopback?
    pub(crate) fn reaches_host_loopback(&self) -> bool {
        self.kind == Kind::Passt && self.target == HOST
    }

    /// Which back end.
    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    /// Is this host at the other end of the link, rather than another network?
    pub(crate) fn host_end(&self) -> bool {
        self.kind.row().host_end
    }

    /// Is it one of the host's interfaces, which may be deleted and come back?
    pub(crate) fn is_interface(&self) -> bool {
        matches!(self.kind, Kind::Tap | Kind::Packet | Kind::Xdp)
    }

    /// The part behind the colon: for most kinds, the host's name of an interface. The kind itself
    /// without a colon.
    pub(crate) fn name(&self) -> &str {
        if self.target.is_empty() { self.kind.row().word } else { &self.target }
    }
}

impl FromStr for Device {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((word, target)) = text.split_once(':') else {
            return Err(format!("`{text}` lacks the kind of device, as in tap:{text}"));
        };
        let Some(row) = KINDS.iter().find(|row| row.word == word) else {
            let known: Vec<_> = KINDS.iter().map(|row| row.word).collect();
            let known = known.join(", ");
            return Err(format!("device kind `{word}` is not known; known: {known}"));
        };
        (row.check)(target)?;
        Ok(Self { kind: row.kind, target: row.kind.absolute(target)? })
    }
}

impl TryFrom<String> for Device {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind.row().word, self.target)
    }
}

/// Can it be the name of one of the host's interfaces?
fn check_interface(name: &str) -> Result<(), String> {
    let fits = (1..16).contains(&name.len())
        && !name.contains(|c: char| c.is_whitespace() || c.is_control())
        && !name.contains(['/', ':', '%'])
        && name != "."
        && name != "..";
    if fits {
        return Ok(());
    }
    Err(format!("`{name}` cannot be a device name: 1 to 15 bytes, no space, / : or %"))
}

fn check_host(target: &str) -> Result<(), String> {
    if target.is_empty() || target == HOST {
        return Ok(());
    }
    Err(format!("nothing is to be behind `passt:`, or `{HOST}`, not `{target}`"))
}

fn check_replay(target: &str) -> Result<(), String> {
    target.parse::<pcap::Target>().map(drop)
}

/// Can it be the path of a Unix socket?
fn check_socket(path: &str) -> Result<(), String> {
    // sockaddr_un has 108 bytes with the zero at the end.
    if (1..108).contains(&path.len()) && !path.contains('\0') {
        return Ok(());
    }
    Err(format!("`{path}` cannot be the path of a socket: 1 to 107 bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_a_kind_and_a_target() {
        let device: Device = "tap:tasuki0".parse().unwrap();
        assert_eq!((device.kind(), device.name()), (Kind::Tap, "tasuki0"));
        for Row { word, kind, .. } in KINDS {
            let text = match kind {
                Kind::Passt => format!("{word}:"),
                Kind::Pcap | Kind::Wire => format!("{word}:/x"),
                _ => format!("{word}:x"),
            };
            assert_eq!(text.parse::<Device>().unwrap().to_string(), text);
        }
        for (text, said) in [
            ("tap", "as in tap:tap"),
            ("eth:x", "device kind `eth` is not known; known: tap, "),
            ("tap:", "cannot be a device name"),
            ("passt:x", "nothing is to be behind `passt:`, or `host`"),
            ("pcap:", "lacks the file"),
            ("wire:", "cannot be the path of a socket"),
            ("tap:a b", "cannot be a device name"),
            ("tap:sixteen-chars-xx", "cannot be a device name"),
        ] {
            assert!(text.parse::<Device>().unwrap_err().contains(said), "{text}");
        }
        assert_eq!(Device::passt().name(), "passt");
        assert!("passt:host".parse::<Device>().unwrap().reaches_host_loopback());
        assert!(!Device::passt().reaches_host_loopback());
        let here = std::env::current_dir().unwrap();
        let relative: Device = "wire:x/y".parse().unwrap();
        assert_eq!(relative.name(), here.join("x/y").to_str().unwrap());
        let relative: Device = "pcap:a,b,fast".parse().unwrap();
        let (a, b) = (here.join("a"), here.join("b"));
        assert_eq!(relative.name(), format!("{},{},fast", a.display(), b.display()));
    }
}
