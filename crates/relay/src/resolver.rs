//! Names over the stack: the /etc/resolv.conf that programs see.
//!
//! A program's resolver asks the servers that /etc/resolv.conf names, whichever resolver it is:
//! libc's, musl's, Go's, Java's. `tasuki run` writes the instance's servers into a file of its own,
//! and puts that over /etc/resolv.conf in a mount namespace that only the program and its children
//! are in ([`crate::mount`]). The relay has the file open, and rewrites it when the instance's
//! servers change.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::net::IpAddr;
use std::os::fd::OwnedFd;

use abi::network::ResolverStatus;
use rustix::io::ReadWriteFlags;

use crate::mount::{self, Place};

/// The file that resolvers read.
const PATH: &str = "/etc/resolv.conf";
/// Servers of one file. Libraries ask three at most.
const MOST_SERVERS: usize = 8;
/// Domains of one file. Older libraries take six.
const MOST_DOMAINS: usize = 32;

/// A file for programs, before it is put over /etc/resolv.conf.
#[derive(Debug)]
pub struct ResolverFile {
    content: Vec<u8>,
    place: Place,
}

impl ResolverFile {
    /// With what the instance knows. While it knows no server, the content is the host's.
    ///
    /// # Errors
    /// There is no /etc/resolv.conf to be covered, or it cannot be found in the list of mounts.
    pub fn new(resolver: &ResolverStatus) -> io::Result<Self> {
        let host = std::fs::read_to_string(PATH).unwrap_or_default();
        let content = match resolver.servers[..] {
            [] => host,
            _ => content(resolver, &options(&host)),
        };
        let unique = format!("tasuki-resolv.{}.{:x}", std::process::id(), seed());
        let place = Place::new(PATH, &unique)?;
        Ok(Self { content: content.into_bytes(), place })
    }

    /// Puts it over /etc/resolv.conf, for this process and its children. Returns the file, to be
    /// written.
    ///
    /// Async-signal-safe: it may run between fork and exec.
    ///
    /// # Errors
    /// The system's: EPERM without the right to make a mount namespace.
    pub(crate) fn show(&self) -> io::Result<OwnedFd> {
        mount::cover(&self.place, &self.content)
    }
}

/// A number for a file's name. The name is refused if it is there already.
fn seed() -> u128 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |now| now.as_nanos())
}

/// The relay's end of a file that programs see.
pub(crate) struct ShownResolver {
    file: OwnedFd,
    /// The host's lines that stay.
    options: String,
    /// As last written; the host's own length is not known.
    written: RefCell<Vec<u8>>,
}

impl ShownResolver {
    /// For this file. The host's own file must be there to be read.
    pub(crate) fn new(file: OwnedFd) -> Self {
        let host = std::fs::read_to_string(PATH).unwrap_or_default();
        Self { file, options: options(&host), written: RefCell::default() }
    }

    /// Programs see the instance's servers as they are now. While there are none, the file stays.
    pub(crate) fn update(&self, resolver: &ResolverStatus) {
        if resolver.servers.is_empty() {
            return;
        }
        let mut new = content(resolver, &self.options).into_bytes();
        let mut written = self.written.borrow_mut();
        if *written == new {
            return;
        }
        let old = rustix::fs::fstat(&self.file).map_or(0, |stat| stat.st_size);
        let bytes = new.len();
        // In one write, so that no program sees half of it: empty lines fill it up.
        new.resize(bytes.max(usize::try_from(old).unwrap_or(0)), b'\n');
        let done =
            rustix::io::pwritev2(&self.file, &[IoSlice::new(&new)], 0, ReadWriteFlags::empty());
        if let Err(error) = done {
            tracing::warn!(%error, "programs keep the former name servers");
        }
        new.truncate(bytes);
        *written = new;
    }
}

/// The text of the file.
fn content(resolver: &ResolverStatus, options: &str) -> String {
    let mut text =
        "# Name servers of the Tasuki instance; `tasuki run` shows this file.\n".to_owned();
    // A link-local address means nothing without its interface.
    let usable = |server: &&IpAddr| !matches!(server, IpAddr::V6(v6) if v6.is_unicast_link_local());
    for server in resolver.servers.iter().filter(usable).take(MOST_SERVERS) {
        text += &format!("nameserver {server}\n");
    }
    let domains = resolver.search.iter().filter(|name| is_search_domain(name));
    let domains: Vec<&str> = domains.map(String::as_str).take(MOST_DOMAINS).collect();
    if !domains.is_empty() {
        text += &format!("search {}\n", domains.join(" "));
    }
    text + options
}

/// The host's lines of options, which are its user's wishes. The flag to trust the servers' word on
/// DNSSEC is about the host's servers, and left out.
fn options(host: &str) -> String {
    let mut text = String::new();
    for line in host.lines() {
        let mut words = line.split_ascii_whitespace();
        if words.next() == Some("options") {
            let kept: Vec<&str> = words.filter(|word| *word != "trust-ad").collect();
            if !kept.is_empty() {
                text += &format!("options {}\n", kept.join(" "));
            }
        }
    }
    text
}

/// Can programs be told to search this domain? It must be a name of hosts.
#[must_use]
pub fn is_search_domain(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let label = |label: &str| (1..=63).contains(&label.len()) && label.bytes().all(letter);
    name.len() <= 253 && name.split('.').all(label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_has_servers_domains_and_the_hosts_options() {
        let host =
            "nameserver 127.0.0.53\noptions edns0 trust-ad\n options timeout:1\nsearch lan\n";
        let resolver = ResolverStatus {
            servers: ["192.0.2.53", "fe80::1", "fd00::53"].map(|s| s.parse().unwrap()).into(),
            search: ["example.org", "a b\nnameserver 10.0.0.1"].map(str::to_owned).into(),
            learns: false,
        };
        let text = content(&resolver, &options(host));
        let lines: Vec<&str> = text.lines().skip(1).collect();
        let expected = [
            "nameserver 192.0.2.53",
            "nameserver fd00::53",
            "search example.org",
            "options edns0",
            "options timeout:1",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn a_shorter_list_leaves_nothing_of_the_longer() {
        let path = std::env::temp_dir().join(format!("tasuki-resolver-{}", std::process::id()));
        let file =
            std::fs::File::options().create(true).truncate(true).write(true).open(&path).unwrap();
        let shown = ShownResolver::new(file.into());
        let told = |servers: &[&str]| {
            let servers = servers.iter().map(|server| server.parse().unwrap()).collect();
            shown.update(&ResolverStatus { servers, ..ResolverStatus::default() });
            let text = std::fs::read_to_string(&path).unwrap();
            let found = text.lines().filter_map(|line| line.strip_prefix("nameserver "));
            found.map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(told(&["192.0.2.1", "192.0.2.2"]), ["192.0.2.1", "192.0.2.2"]);
        assert_eq!(told(&["192.0.2.3"]), ["192.0.2.3"]);
        assert_eq!(told(&[]), ["192.0.2.3"], "while there are none, the file stays");
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn search_domains_are_names_of_hosts() {
        for name in ["example", "example.org", "example.org.", "_dns.a-b.c", &"a.".repeat(127)] {
            assert!(is_search_domain(name), "{name}");
        }
        let (longer, label) = ("a.".repeat(128), "a".repeat(64));
        for name in ["", ".", "a..b", "a b", "a\nnameserver b", "\u{e4}", &longer, &label] {
            assert!(!is_search_domain(name), "{name:?}");
        }
    }
}
