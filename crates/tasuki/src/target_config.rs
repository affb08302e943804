//! The configuration file of a target: TOML, every key documented in `examples/target.toml`.
//!
//! It has the rules of the instance's file ([`crate::config`]): an unknown key is refused with its
//! line and the nearest known one, and values are checked where they are read. Paths in the file
//! begin at the file's folder. Secrets are not in it, but in files of their own.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Deserializer};
use storage::{
    AccessPolicy, AccessRule, BlockSize, ChapAccount, ChapSecret, IscsiName, LunDefinition,
    LunNumber, MOST_LUNS, Network, PORT, UnitRight, VolumeSpecification, read_secret,
};
use toml::Spanned;
use user::Digest;

use crate::config::{self, List, Misplaced, Ranged};
use crate::exit::Failure;
use crate::runtime_dir::InstanceName;

/// A whole file, as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct TargetFile {
    target: TargetSection,
    #[serde(rename = "lun")]
    luns: Vec<Spanned<LunSection>>,
    #[serde(rename = "user")]
    users: Vec<Spanned<UserSection>>,
    #[serde(rename = "allow")]
    rules: Vec<Spanned<AllowSection>>,
}

/// `[target]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct TargetSection {
    iqn: Option<Word<IscsiName>>,
    net: Option<Word<InstanceName>>,
    transport: TransportChoice,
    digest: Option<Digest>,
    address: Option<IpAddr>,
    port: Port,
    state: Option<PathBuf>,
    chap_md5: bool,
    chap_name: Option<UserName>,
    chap_secret_file: Option<Spanned<PathBuf>>,
}

/// One of `[[lun]]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LunSection {
    number: Option<Ranged<0, { LunNumber::MAX as u32 }>>,
    volume: Word<VolumeSpecification>,
    #[serde(default)]
    read_only: bool,
    #[serde(default)]
    removable: bool,
    #[serde(default)]
    writethrough: bool,
    #[serde(default)]
    block: Block,
    serial: Option<String>,
}

/// One of `[[user]]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct UserSection {
    name: UserName,
    secret_file: PathBuf,
}

/// One of `[[allow]]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct AllowSection {
    initiator: List<Word<IscsiName>>,
    address: List<Word<Network>>,
    user: List<UserName>,
    identity: List<IdentityName>,
    luns: Option<Vec<Ranged<0, { LunNumber::MAX as u32 }>>>,
    read_only: bool,
}

/// How bytes are protected on their way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum TransportChoice {
    /// By sealed records.
    #[default]
    Sealed,
    /// By TLS 1.3.
    Tls,
    /// Not at all.
    Plain,
}

/// Text that names a value.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Word<T>(T);

impl<T: FromStr<Err: Display>> FromStr for Word<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.parse().map(Self).map_err(|error: T::Err| error.to_string())
    }
}

impl<'de, T: FromStr<Err: Display>> Deserialize<'de> for Word<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// A name of CHAP.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
struct UserName(String);

impl TryFrom<String> for UserName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl FromStr for UserName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fits =
            (1..=255).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
        let wrong =
            || format!("{text:?} is no name for CHAP: 1 to 255 ASCII characters, no blanks");
        fits.then(|| Self(text.to_owned())).ok_or_else(wrong)
    }
}

/// A name of a certificate (a DNS name or a URI), or the fingerprint of a key.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
struct IdentityName(String);

impl TryFrom<String> for IdentityName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl FromStr for IdentityName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.starts_with("SHA256:") {
            let key: seal::Fingerprint = text.parse().map_err(|error| {
                format!("{text:?}: {error}; `tasuki key show` on the initiator prints its key")
            })?;
            return Ok(Self(key.to_string()));
        }
        let fits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        let wrong = || {
            format!("{text:?} is neither a key, SHA256:..., nor a DNS name or URI of a certificate")
        };
        fits.then(|| Self(text.to_owned())).ok_or_else(wrong)
    }
}

/// A TCP port.
#[derive(Debug, Clone, Copy, Deserialize)]
struct Port(Ranged<1, { u16::MAX as u32 }>);

impl Default for Port {
    fn default() -> Self {
        Self(Ranged(PORT.into()))
    }
}

/// Bytes of a logical block.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "u32")]
struct Block(BlockSize);

impl Default for Block {
    fn default() -> Self {
        Self(BlockSize::B512)
    }
}

impl TryFrom<u32> for Block {
    type Error = String;

    fn try_from(bytes: u32) -> Result<Self, String> {
        match bytes {
            512 => Ok(Self(BlockSize::B512)),
            4096 => Ok(Self(BlockSize::B4096)),
            other => Err(format!("{other} is neither 512 nor 4096")),
        }
    }
}

/// What a file says, with its secrets.
#[derive(Debug, Clone, Default)]
pub(crate) struct TargetConfig {
    pub(crate) iqn: Option<IscsiName>,
    pub(crate) net: Option<InstanceName>,
    pub(crate) transport: TransportChoice,
    pub(crate) digest: Option<Digest>,
    pub(crate) address: Option<IpAddr>,
    pub(crate) port: Option<u16>,
    pub(crate) state: Option<PathBuf>,
    pub(crate) luns: BTreeMap<LunNumber, LunDefinition>,
    pub(crate) access: AccessPolicy,
}

impl TargetConfig {
    /// Reads a file, and those with its secrets.
    ///
    /// # Errors
    /// [`crate::exit::Code::Configuration`]; the sentence names file, line and remedy.
    pub(crate) fn load(path: &Path) -> Result<Self, Failure> {
        let folder = std::path::absolute(path)
            .map_err(|error| Failure::system(format!("find {}", path.display()), error))?;
        let folder = folder.parent().unwrap_or(Path::new("/")).to_owned();
        config::load(path, |text, _| Self::parse(text, &folder))
    }

    /// Out of a file's text, whose paths begin at `folder`.
    fn parse(text: &str, folder: &Path) -> Result<Self, Misplaced> {
        let TargetFile { target, luns, users, rules } = config::parse(text)?;
        let reader = Reader { text, folder };
        let users = reader.users(users)?;
        let rules = reader.rules(rules, &users)?;
        let own = match (&target.chap_secret_file, target.chap_name) {
            (Some(path), name) => {
                let line = path.span().start;
                let secret = reader.secret(path.get_ref(), line)?;
                if users.is_empty() {
                    let what = "chap_secret_file is for users that ask who the target is: add a \
                                [[user]]";
                    return Err(reader.at(line, what));
                }
                if let Some(user) = users.iter().find(|user| user.secret.is_same(&secret)) {
                    let what = format!(
                        "the target and user {} have the same secret: each needs its own",
                        user.name
                    );
                    return Err(reader.at(line, what));
                }
                Some((name, secret))
            }
            (None, Some(_)) => {
                return Err((None, "chap_name needs chap_secret_file".to_owned()));
            }
            (None, None) => None,
        };
        let mut config = Self {
            iqn: target.iqn.map(|iqn| iqn.0),
            net: target.net.map(|net| net.0),
            transport: target.transport,
            digest: target.digest,
            address: target.address,
            port: Some(target.port.0.narrow()),
            state: target.state.map(|path| folder.join(path)),
            luns: reader.luns(luns)?,
            access: AccessPolicy { rules, users, target: None, md5: target.chap_md5 },
        };
        // The name that initiators expect who know of no other.
        config.access.target = own.map(|(name, secret)| ChapAccount {
            name: name.map_or_else(String::new, |name| name.0),
            secret,
        });
        Ok(config)
    }
}

/// A file's text, and where its paths begin.
struct Reader<'a> {
    text: &'a str,
    folder: &'a Path,
}

impl Reader<'_> {
    /// An error at a byte of the text.
    fn at(&self, byte: usize, what: impl Into<String>) -> Misplaced {
        (Some(config::line_at(self.text, byte)), what.into())
    }

    fn secret(&self, path: &Path, byte: usize) -> Result<ChapSecret, Misplaced> {
        read_secret(&self.folder.join(path)).map_err(|error| self.at(byte, error.to_string()))
    }

    fn users(&self, sections: Vec<Spanned<UserSection>>) -> Result<Vec<ChapAccount>, Misplaced> {
        let mut users: Vec<ChapAccount> = Vec::new();
        for section in sections {
            let byte = section.span().start;
            let UserSection { name: UserName(name), secret_file } = section.into_inner();
            if users.iter().any(|user| user.name == name) {
                return Err(self.at(byte, format!("user {name} is there twice")));
            }
            users.push(ChapAccount { name, secret: self.secret(&secret_file, byte)? });
        }
        Ok(users)
    }

    fn rules(
        &self,
        sections: Vec<Spanned<AllowSection>>,
        users: &[ChapAccount],
    ) -> Result<Vec<AccessRule>, Misplaced> {
        let mut rules = Vec::new();
        for section in sections {
            let byte = section.span().start;
            let AllowSection { initiator, address, user, identity, luns, read_only } =
                section.into_inner();
            let named: Vec<String> = user.0.into_iter().map(|user| user.0).collect();
            if let Some(name) = named.iter().find(|name| users.iter().all(|u| u.name != **name)) {
                return Err(self.at(byte, format!("there is no [[user]] of the name {name}")));
            }
            let number = |lun: Ranged<0, _>| LunNumber::new(lun.narrow());
            rules.push(AccessRule {
                initiators: initiator.0.into_iter().map(|name| name.0).collect(),
                addresses: address.0.into_iter().map(|network| network.0).collect(),
                users: named,
                identities: identity.0.into_iter().map(|identity| identity.0).collect(),
                luns: luns.map(|luns| luns.into_iter().filter_map(number).collect()),
                right: if read_only { UnitRight::Read } else { UnitRight::Write },
            });
        }
        let idle = |user: &&ChapAccount| rules.iter().all(|rule| !rule.users.contains(&user.name));
        match users.iter().find(idle).filter(|_| !rules.is_empty()) {
            Some(user) => {
                let what = format!("no [[allow]] has user {}, who could not log in", user.name);
                Err((None, what))
            }
            None => Ok(rules),
        }
    }

    fn luns(
        &self,
        sections: Vec<Spanned<LunSection>>,
    ) -> Result<BTreeMap<LunNumber, LunDefinition>, Misplaced> {
        let mut luns = BTreeMap::new();
        let mut next = 0;
        for section in sections {
            let byte = section.span().start;
            let section = section.into_inner();
            let number = section.number.map_or(next, Ranged::narrow);
            let wrong = || self.at(byte, format!("there is no logical unit {number}"));
            let lun = LunNumber::new(number).ok_or_else(wrong)?;
            let mut volume = section.volume.0;
            if let VolumeSpecification::File(path) = &mut volume {
                *path = self.folder.join(&*path);
            }
            let definition = LunDefinition {
                volume,
                block_size: section.block.0,
                read_only: section.read_only,
                removable: section.removable,
                write_cache: !section.writethrough,
                serial: section.serial,
            };
            if luns.insert(lun, definition).is_some() {
                return Err(self.at(byte, format!("logical unit {number} is there twice")));
            }
            if luns.len() > MOST_LUNS {
                return Err(self.at(byte, format!("a target has at most {MOST_LUNS} units")));
            }
            next = number + 1;
        }
        Ok(luns)
    }
}

#[cfg(test)]
mod tests;
