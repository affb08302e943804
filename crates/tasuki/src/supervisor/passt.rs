//! passt(1), which carries an instance's packets over ordinary sockets of this host.
//!
//! The supervisor starts it as the user's own process, with one end of a socket pair; the driver
//! gets the other. passt ends by itself when that end is closed, and is killed when the instance is
//! dropped before. Stack and passt get the same addresses, so no DHCP is needed.
//!
//! passt can lead the gateway's address to the host's own loopback, where servers trust whoever
//! connects. It does so only if the user wants that. Likewise the stack has no route to addresses
//! at which clouds give a machine its secrets ([`METADATA`]): on the host's behalf passt would ask.

use std::fs::{self, File};
use std::io::{Read, Seek as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

use abi::network::{Prefixed, RouteSettings};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::MemfdFlags;
use rustix::io::{Errno, FdFlags};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

use crate::exit::{Code, Failure};
use crate::network::Addresses;
use crate::publish::Publish;

/// Link-local destinations, which no router forwards (RFC 3927 2.7), and the servers of metadata
/// that clouds have at addresses of IPv6.
const METADATA: [(IpAddr, u8); 3] = [
    (IpAddr::V4(Ipv4Addr::new(169, 254, 0, 0)), 16),
    (IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)), 128),
    (IpAddr::V6(Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)), 128),
];

/// Routes of a stack that is not to reach the host's metadata.
pub(super) fn routes_away(ipv6: bool) -> impl Iterator<Item = RouteSettings> {
    METADATA.into_iter().filter(move |(to, _)| ipv6 || to.is_ipv4()).map(|(address, prefix)| {
        let nowhere = if address.is_ipv4() { Prefixed::ALL_V4 } else { Prefixed::ALL_V6 };
        let to = Prefixed { address, prefix };
        RouteSettings { to, via: Some(nowhere.address), metric: 0 }
    })
}

/// How long it may take to answer for the first time.
const PATIENCE: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };
/// Most bytes of its messages that are reported.
const SAID_MOST: usize = 4096;

/// A running passt; ended and collected when dropped.
#[derive(Debug)]
pub(super) struct Passt {
    child: Child,
    /// Its standard error: a memfd, so that it never waits for a reader.
    said: File,
}

impl Passt {
    /// Starts it and waits until it answers. Also returns the driver's end of the stream. With
    /// `host_loopback` the gateway's address leads to the host's loopback.
    ///
    /// # Errors
    /// [`Code::Rights`] when it is not installed; its own message when it cannot work here.
    pub(super) fn start(
        addresses: &Addresses,
        mtu: u16,
        publish: &[Publish],
        host_loopback: bool,
    ) -> Result<(Self, OwnedFd), Failure> {
        let failed = |what: &str, errno: Errno| Failure::system(format!("{what} for passt"), errno);
        let (unix, stream) = (AddressFamily::UNIX, SocketType::STREAM);
        let (ours, theirs) = rustix::net::socketpair(unix, stream, SocketFlags::CLOEXEC, None)
            .map_err(|errno| failed("make a socket pair", errno))?;
        let said = rustix::fs::memfd_create("tasuki-passt", MemfdFlags::CLOEXEC)
            .map_err(|errno| failed("make a file", errno))?;
        let said = File::from(said);
        let stderr = said.try_clone().map_err(|error| Failure::system("copy a file", error))?;
        // No other process is started before this end is closed here.
        rustix::io::fcntl_setfd(&theirs, FdFlags::empty())
            .map_err(|errno| failed("pass on a socket", errno))?;
        let mut command = Command::new("passt");
        command.args(["--foreground", "--quiet", "--fd", &theirs.as_raw_fd().to_string()]);
        command.args((!host_loopback).then_some("--no-map-gw"));
        command.args(arguments(addresses, mtu)).args(publish.iter().flat_map(published));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr);
        command.env_remove("LD_PRELOAD").process_group(0).current_dir("/");
        let child = command.spawn().map_err(|error| not_started(&error))?;
        drop(theirs);
        let mut passt = Self { child, said };
        passt.wait_for_answer(&ours, addresses)?;
        Ok((passt, ours))
    }

    /// Asks it for the gateway's hardware address. The answer stays in the stream, because the
    /// stack can use it.
    fn wait_for_answer(&mut self, ours: &OwnedFd, addresses: &Addresses) -> Result<(), Failure> {
        let four = |address: IpAddr| match address {
            IpAddr::V4(four) => Some(four),
            IpAddr::V6(_) => None,
        };
        let own = addresses.stack.iter().find_map(|cidr| four(cidr.address()));
        let gateway = addresses.gateways.iter().copied().find_map(four);
        let question = arp_question(
            own.unwrap_or(Ipv4Addr::UNSPECIFIED),
            gateway.unwrap_or(Ipv4Addr::new(10, 219, 0, 1)),
        );
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        if rustix::net::send(ours, &question, flags).is_err() {
            return Err(self.gone());
        }
        let mut fds = [PollFd::new(ours, PollFlags::IN)];
        match poll(&mut fds, Some(&PATIENCE)) {
            // Without IPv4 there is none to answer.
            Ok(0) | Err(_) => Ok(()),
            Ok(_) => {
                let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
                match rustix::net::recv(ours, &mut [0_u8; 1], flags) {
                    Ok((1.., _)) | Err(Errno::AGAIN) => Ok(()),
                    _ => Err(self.gone()),
                }
            }
        }
    }

    /// It ended instead of answering.
    fn gone(&mut self) -> Failure {
        // It has closed its end, so it has ended, or is about to.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let words = self.words();
        let words = if words.is_empty() { "it does not say why".to_owned() } else { words };
        Failure::new(Code::Internal, format!("passt cannot connect this host's network: {words}"))
    }

    /// Its messages, except noise: about a missing system log, and about running as root.
    fn words(&mut self) -> String {
        let mut bytes = Vec::new();
        if self.said.rewind().is_ok() {
            let _ = Read::by_ref(&mut self.said).take(SAID_MOST as u64).read_to_end(&mut bytes);
        }
        let text = String::from_utf8_lossy(&bytes);
        let worth = |line: &&str| {
            let noise = ["Failed to send ", "Don't run as root"];
            !line.is_empty() && !noise.iter().any(|head| line.starts_with(head))
        };
        text.lines().map(str::trim).filter(worth).collect::<Vec<_>>().join("; ")
    }
}

impl Drop for Passt {
    fn drop(&mut self) {
        // Neither fails for a child that was not collected.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn not_started(error: &std::io::Error) -> Failure {
    if error.kind() == std::io::ErrorKind::NotFound {
        let sentence = "passt is not installed, which connects a stack without any right: \
                        `apt install passt`";
        return Failure::new(Code::Rights, sentence);
    }
    Failure::system("start passt", error)
}

/// Does it advertise itself as an IPv6 router to a stack with these addresses, which has no address
/// of IPv6 yet? It does where this host has a default route, whose prefix it then gives out.
pub(super) fn advertises(addresses: &Addresses) -> bool {
    let has_own = addresses.stack.iter().any(|cidr| !cidr.is_ipv4());
    !has_own && fs::read_to_string("/proc/net/ipv6_route").is_ok_and(|table| has_default(&table))
}

/// Does a routing table in the kernel's form have an IPv6 default route over a device?
fn has_default(table: &str) -> bool {
    table.lines().any(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_all =
            |word: Option<&&str>| word.is_some_and(|word| word.bytes().all(|digit| digit == b'0'));
        let device = words.get(9);
        is_all(words.first()) && is_all(words.get(1)) && device.is_some_and(|name| *name != "lo")
    })
}

/// Its arguments for a stack with these addresses. Without addresses it offers the host's own by
/// DHCP.
fn arguments(addresses: &Addresses, mtu: u16) -> Vec<String> {
    let mut all = vec!["--mtu".to_owned(), mtu.to_string()];
    let mut push = |name: &str, value: String| all.extend([name.to_owned(), value]);
    for ipv4 in [true, false] {
        let Some(first) = addresses.stack.iter().find(|cidr| cidr.is_ipv4() == ipv4) else {
            continue;
        };
        push("--address", first.address().to_string());
        if ipv4 {
            push("--netmask", first.prefix().to_string());
        }
        if let Some(gateway) = addresses.gateways.iter().find(|ip| ip.is_ipv4() == ipv4) {
            push("--gateway", gateway.to_string());
        }
    }
    all
}

/// Its arguments for a published port.
fn published(publish: &Publish) -> [String; 2] {
    let option = if publish.udp { "--udp-ports" } else { "--tcp-ports" };
    let address = publish.address.map_or(String::new(), |address| format!("{address}/"));
    [option.to_owned(), format!("{address}{}:{}", publish.port, publish.stack_port)]
}

/// An ARP request in passt's framing.
fn arp_question(own: Ipv4Addr, wanted: Ipv4Addr) -> Vec<u8> {
    const MAC: [u8; 6] = [0x02, 0, 0, 0, 0, 0x01];
    let mut frame = Vec::new();
    frame.extend_from_slice(&[0xff; 6]);
    frame.extend_from_slice(&MAC);
    // ARP; for Ethernet and IPv4, with addresses of 6 and 4 bytes: a request.
    frame.extend_from_slice(&[0x08, 0x06, 0, 1, 0x08, 0x00, 6, 4, 0, 1]);
    frame.extend_from_slice(&MAC);
    frame.extend_from_slice(&own.octets());
    frame.extend_from_slice(&[0; 6]);
    frame.extend_from_slice(&wanted.octets());
    let len = u32::try_from(frame.len()).unwrap_or(0);
    [&len.to_be_bytes()[..], &frame].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(stack: &str, gateways: &str) -> Addresses {
        Addresses {
            stack: stack.split_whitespace().map(|text| text.parse().unwrap()).collect(),
            gateways: gateways.split_whitespace().map(|text| text.parse().unwrap()).collect(),
            routes: vec![],
        }
    }

    #[test]
    fn both_sides_are_told_the_same_addresses() {
        let told =
            |stack: &str, gateways: &str| arguments(&addresses(stack, gateways), 1400).join(" ");
        assert_eq!(told("", ""), "--mtu 1400");
        assert_eq!(
            told("10.9.0.2/24", "10.9.0.1"),
            "--mtu 1400 --address 10.9.0.2 --netmask 24 --gateway 10.9.0.1"
        );
        assert_eq!(
            told("fd00::2/64 10.9.0.2/24", "fd00::1 10.9.0.1"),
            "--mtu 1400 --address 10.9.0.2 --netmask 24 --gateway 10.9.0.1 \
             --address fd00::2 --gateway fd00::1"
        );
    }

    #[test]
    fn metadata_is_out_of_reach() {
        let shown = |ipv6| routes_away(ipv6).map(|route| route.to.to_string()).collect::<Vec<_>>();
        assert_eq!(shown(false), ["169.254.0.0/16"]);
        assert_eq!(shown(true)[1..], ["fd00:ec2::254/128", "fd20:ce::254/128"]);
        assert!(routes_away(true).all(|route| route.via.is_some_and(|via| via.is_unspecified())));
    }

    #[test]
    fn ports_are_published() {
        let told = |text: &str| published(&text.parse().unwrap()).join(" ");
        assert_eq!(told("8080:80"), "--tcp-ports 8080:80");
        assert_eq!(told("127.0.0.1:53:5353/udp"), "--udp-ports 127.0.0.1/53:5353");
    }

    #[test]
    fn the_question_is_an_arp_request() {
        let bytes = arp_question(Ipv4Addr::new(10, 9, 0, 2), Ipv4Addr::new(10, 9, 0, 1));
        assert_eq!(bytes[..4], 42_u32.to_be_bytes());
        assert_eq!(
            (bytes.len(), &bytes[32..36], &bytes[42..]),
            (46, &[10, 9, 0, 2][..], &[10, 9, 0, 1][..])
        );
    }

    #[test]
    fn what_is_missing_is_told() {
        let error = std::io::Error::from(std::io::ErrorKind::NotFound);
        let failure = not_started(&error);
        assert_eq!(failure.code, Code::Rights);
        assert!(failure.sentence.contains("apt install passt"), "{failure}");
    }

    #[test]
    fn default_routes_of_the_host() {
        let zeros = "0".repeat(32);
        let row = |to: &str, bits: &str, device: &str| {
            format!("{to} {bits} {zeros} 00 {zeros} 00000400 00000001 00000000 00000003 {device}")
        };
        assert!(has_default(&row(&zeros, "00", "eth0")));
        assert!(!has_default(&row(&zeros, "00", "lo")), "which refuses");
        let prefix = "fe80".to_owned() + &"0".repeat(28);
        assert!(!has_default(&row(&prefix, "40", "eth0")) && !has_default(""));
    }
}
