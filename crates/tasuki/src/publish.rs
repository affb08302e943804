//! Ports of the host that lead to the stack, as `--publish` and `nic.publish` name them.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// `[ADDRESS:]PORT[:STACK-PORT][/tcp|/udp]`, an IPv6 address in brackets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Publish {
    /// The host's address; without it all of them.
    pub(crate) address: Option<IpAddr>,
    /// The host's port.
    pub(crate) port: u16,
    /// The stack's port.
    pub(crate) stack_port: u16,
    /// UDP rather than TCP.
    pub(crate) udp: bool,
}

impl FromStr for Publish {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "`{text}` is not [ADDRESS:]PORT[:STACK-PORT][/tcp|/udp], such as 8080:80 or 53/udp"
            )
        };
        let (ports, udp) = match text.split_once('/') {
            None | Some((_, "tcp")) => (text.strip_suffix("/tcp").unwrap_or(text), false),
            Some((ports, "udp")) => (ports, true),
            Some(_) => return Err(wrong()),
        };
        let port = |word: &str| word.parse().ok().filter(|port| *port > 0).ok_or_else(wrong);
        let (rest, stack_port) = match ports.rsplit_once(':') {
            None => (ports, port(ports)?),
            Some((rest, last)) => (rest, port(last)?),
        };
        let (address, host_port) = match rest.rsplit_once(':') {
            None => (None, rest),
            Some((address, host_port)) => (Some(address), host_port),
        };
        let address = match address {
            None => None,
            Some(word) => {
                let six = word.strip_prefix('[').and_then(|word| word.strip_suffix(']'));
                let address: IpAddr = six.unwrap_or(word).parse().map_err(|_| wrong())?;
                if address.is_ipv6() != six.is_some() {
                    return Err(wrong());
                }
                Some(address)
            }
        };
        Ok(Self { address, port: port(host_port)?, stack_port, udp })
    }
}

impl fmt::Display for Publish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address {
            Some(IpAddr::V6(address)) => write!(f, "[{address}]:")?,
            Some(IpAddr::V4(address)) => write!(f, "{address}:")?,
            None => {}
        }
        let protocol = if self.udp { "udp" } else { "tcp" };
        write!(f, "{}:{}/{protocol}", self.port, self.stack_port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_published() {
        for (text, whole) in [
            ("80", "80:80/tcp"),
            ("53/udp", "53:53/udp"),
            ("8080:80", "8080:80/tcp"),
            ("8080:80/tcp", "8080:80/tcp"),
            ("127.0.0.1:8080:80", "127.0.0.1:8080:80/tcp"),
            ("[::1]:8080:80/udp", "[::1]:8080:80/udp"),
        ] {
            assert_eq!(text.parse::<Publish>().unwrap().to_string(), whole);
        }
        for text in [
            "",
            ":",
            "x",
            "0",
            "80:0",
            "65536",
            "80/sctp",
            "80/",
            "::1:80:80",
            "1.2.3.4:80",
            "[1.2.3.4]:1:2",
        ] {
            assert!(text.parse::<Publish>().is_err(), "{text}");
        }
    }
}
