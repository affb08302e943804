//! The address of a unit: `iscsi://ADDRESS[:PORT][/TARGET[/LUN]]`, as libiscsi has it. The scheme
//! names the transport: `iscsi`, `iscsi+tls` or `iscsi+sealed`.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use iscsi::IscsiName;

use crate::definition::PORT;

/// A transport, as an address names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// `iscsi`
    Plain,
    /// `iscsi+tls`
    Tls,
    /// `iscsi+sealed`
    Sealed,
}

impl Scheme {
    const NAMED: [(&str, Self); 3] =
        [("iscsi", Self::Plain), ("iscsi+tls", Self::Tls), ("iscsi+sealed", Self::Sealed)];
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::NAMED.iter().find(|(_, scheme)| scheme == self);
        f.write_str(name.map_or("", |(name, _)| name))
    }
}

/// The address of a portal: an IP address with or without a port.
///
/// # Errors
/// [`UrlError::Portal`].
pub fn portal_address(word: &str) -> Result<SocketAddr, UrlError> {
    let bare = word.trim_start_matches('[').trim_end_matches(']');
    let address = || bare.parse::<IpAddr>().map(|address| SocketAddr::new(address, PORT));
    word.parse().or_else(|_| address()).map_err(|_| UrlError::Portal(word.to_owned()))
}

/// A portal, with a target and a unit if they are named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskUrl {
    /// How the portal is protected.
    pub scheme: Scheme,
    /// The portal.
    pub portal: SocketAddr,
    /// The target.
    pub target: Option<IscsiName>,
    /// The unit.
    pub lun: Option<u16>,
}

/// A word that is no such address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// Another scheme.
    #[error(
        "`{0}` is no address of a disk: say iscsi+sealed://ADDRESS/TARGET/LUN, or iscsi+tls, iscsi"
    )]
    Scheme(String),
    /// No numeric address.
    #[error("`{0}` is no IP address with or without a port: names are not looked up")]
    Portal(String),
    /// No name of a target.
    #[error("`{0}` is no name of an iSCSI target")]
    Target(String),
    /// No number of a unit.
    #[error("`{0}` is no number of a logical unit")]
    Lun(String),
}

impl FromStr for DiskUrl {
    type Err = UrlError;

    fn from_str(word: &str) -> Result<Self, UrlError> {
        let (scheme, rest) =
            word.split_once("://").ok_or_else(|| UrlError::Scheme(word.to_owned()))?;
        let named = Scheme::NAMED.iter().find(|(name, _)| *name == scheme);
        let (_, scheme) = named.ok_or_else(|| UrlError::Scheme(word.to_owned()))?;
        let mut parts = rest.trim_end_matches('/').splitn(3, '/');
        let portal = parts.next().unwrap_or_default();
        let target =
            parts.next().map(|name| name.parse().map_err(|_| UrlError::Target(name.to_owned())));
        let lun = parts.next().map(|lun| {
            let number: Option<u16> = lun.parse().ok().filter(|number| *number < 1 << 14);
            number.ok_or_else(|| UrlError::Lun(lun.to_owned()))
        });
        Ok(Self {
            scheme: *scheme,
            portal: portal_address(portal)?,
            target: target.transpose()?,
            lun: lun.transpose()?,
        })
    }
}

impl fmt::Display for DiskUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme, self.portal)?;
        self.target.as_ref().map_or(Ok(()), |target| write!(f, "/{target}"))?;
        self.lun.map_or(Ok(()), |lun| write!(f, "/{lun}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_understood() {
        for (word, shown) in [
            ("iscsi://10.9.0.2", "iscsi://10.9.0.2:3260"),
            ("iscsi://10.9.0.2:3261/", "iscsi://10.9.0.2:3261"),
            ("iscsi+tls://10.9.0.2", "iscsi+tls://10.9.0.2:3260"),
            ("iscsi+sealed://[fd00::2]", "iscsi+sealed://[fd00::2]:3260"),
            (
                "iscsi://[fd00::2]/iqn.2026-11.tasuki:a/7",
                "iscsi://[fd00::2]:3260/iqn.2026-11.tasuki:a/7",
            ),
            (
                "iscsi://[fd00::2]:9/iqn.2026-11.tasuki:a",
                "iscsi://[fd00::2]:9/iqn.2026-11.tasuki:a",
            ),
        ] {
            let url: DiskUrl = word.parse().unwrap();
            assert_eq!(url.to_string(), shown);
        }
    }

    #[test]
    fn others_are_refused() {
        for word in [
            "",
            "10.9.0.2",
            "http://10.9.0.2",
            "iscsi+ssl://10.9.0.2",
            "iscsi://host",
            "iscsi://10.9.0.2/disk",
            "iscsi://10.9.0.2/iqn.2026-11.tasuki:a/x",
            "iscsi://10.9.0.2/iqn.2026-11.tasuki:a/16384",
            "iscsi://",
        ] {
            assert!(word.parse::<DiskUrl>().is_err(), "{word}");
        }
    }
}
