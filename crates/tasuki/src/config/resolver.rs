//! The keys `instance.dns` and `instance.search`.

use std::net::IpAddr;
use std::str::FromStr;

/// A name server's address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NameServer(pub(crate) IpAddr);

impl FromStr for NameServer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let address: IpAddr = text
            .parse()
            .map_err(|_| format!("`{text}` is not an IP address such as 192.0.2.53 or fd00::53"))?;
        let link_local = matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local());
        if address.is_unspecified() || address.is_multicast() || link_local {
            return Err(format!("{address} cannot be a name server's address"));
        }
        Ok(Self(address))
    }
}

/// A domain that completes short names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SearchDomain(pub(crate) String);

impl FromStr for SearchDomain {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if relay::resolver::is_search_domain(text) {
            Ok(Self(text.to_owned()))
        } else {
            Err(format!("`{text}` is not a domain such as example.org"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_servers_are_addresses_of_hosts() {
        for text in ["192.0.2.53", "fd00::53", "127.0.0.1"] {
            assert_eq!(text.parse::<NameServer>().unwrap().0.to_string(), text);
        }
        for text in ["", "dns.example", "192.0.2.53:53", "0.0.0.0", "::", "224.0.0.1", "fe80::1"] {
            assert!(text.parse::<NameServer>().is_err(), "{text}");
        }
    }

    #[test]
    fn search_domains_are_names() {
        assert_eq!("example.org".parse::<SearchDomain>().unwrap().0, "example.org");
        assert!("a b".parse::<SearchDomain>().unwrap_err().contains("`a b`"));
    }
}
