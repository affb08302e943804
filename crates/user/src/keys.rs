//! Keys of this machine's user, and those that it knows, as files like ssh's.
//!
//! | file | content | mode |
//! |---|---|---|
//! | `key.pem` | the private key (Ed25519, PKCS#8), made when it is first needed | 0600 |
//! | `known_targets` | keys of targets: `ADDRESS:PORT SHA256:... COMMENT` | 0600 |
//! | `known_initiators` | keys that targets let in: `NAME SHA256:... COMMENT` | 0600 |
//!
//! They lie in `$TASUKI_KEYS`, or in `/etc/tasuki` (root), or in `$XDG_CONFIG_HOME/tasuki` or
//! `~/.config/tasuki` (others). A private key that others may read is refused, and so is a file of
//! known keys that others may write. A file of known keys
//! is replaced as a whole, under the lock of the directory.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use seal::{
    Fingerprint, Identity, KnownPeers, generate_key_pem, known_peer_line, without_known_peer,
};
use storage::{check_private, check_trusted};
use zeroize::Zeroizing;

use crate::exit::{self, Code, Failure};

/// Names another directory.
const VARIABLE: &str = "TASUKI_KEYS";
/// The own key.
const KEY: &str = "key.pem";
/// Longest file with a key or certificates, bytes.
const LONGEST: u64 = 1 << 20;

/// A file of known keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KnownFile {
    /// Keys of targets, by address.
    Targets,
    /// Keys of initiators, by any name.
    Initiators,
}

impl KnownFile {
    fn name(self) -> &'static str {
        match self {
            Self::Targets => "known_targets",
            Self::Initiators => "known_initiators",
        }
    }
}

/// The directory of keys.
#[derive(Debug, Clone)]
pub struct KeyDirectory(PathBuf);

impl KeyDirectory {
    /// The directory of this user. It need not be there.
    ///
    /// # Errors
    /// No variable tells where it is.
    pub fn find() -> Result<Self, Failure> {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let path = if let Some(path) = variable(VARIABLE) {
            PathBuf::from(path)
        } else if rustix::process::geteuid().is_root() {
            PathBuf::from("/etc/tasuki")
        } else if let Some(config) = variable("XDG_CONFIG_HOME") {
            Path::new(&config).join("tasuki")
        } else if let Some(home) = variable("HOME") {
            Path::new(&home).join(".config/tasuki")
        } else {
            let sentence = format!("no place for keys: set HOME or {VARIABLE}");
            return Err(Failure::new(Code::Configuration, sentence));
        };
        // A process in the background may have another working directory.
        let path = std::path::absolute(&path)
            .map_err(|error| Failure::system(format!("use {}", path.display()), error))?;
        Ok(Self(path))
    }

    /// This directory.
    #[cfg(test)]
    pub fn at(path: PathBuf) -> Self {
        Self(path)
    }

    /// The path of the own key.
    pub fn key_path(&self) -> PathBuf {
        self.0.join(KEY)
    }

    /// The path of a file of known keys.
    pub fn known_path(&self, file: KnownFile) -> PathBuf {
        self.0.join(file.name())
    }

    /// The own key; a new one if there is none.
    ///
    /// # Errors
    /// It cannot be read or made, or others may read it.
    pub fn own_key(&self) -> Result<Identity, Failure> {
        let path = self.key_path();
        if !path.exists() {
            let _locked = self.lock()?;
            // Another process may have been first.
            if !path.exists() {
                let key = self.make_key(false)?;
                let path = path.display();
                exit::say(format_args!("tasuki: made the key {} in {path}", key.fingerprint()));
                return Ok(key);
            }
        }
        raw_key(&path)
    }

    /// Makes a new key; in the place of an old one only if that is wanted.
    ///
    /// # Errors
    /// There is one already, or the system's.
    pub fn new_key(&self, replace: bool) -> Result<Identity, Failure> {
        let _locked = self.lock()?;
        self.make_key(replace)
    }

    fn make_key(&self, replace: bool) -> Result<Identity, Failure> {
        let path = self.key_path();
        if path.exists() && !replace {
            let sentence = format!("{} is there: --force replaces it", path.display());
            return Err(Failure::new(Code::Configuration, sentence));
        }
        let pem = generate_key_pem().map_err(|error| Failure::system("make a key", error))?;
        self.replace(&path, pem.as_bytes())?;
        raw_key(&path)
    }

    /// The known keys of a file; none if there is no file.
    ///
    /// # Errors
    /// It cannot be read, or a line of it is wrong.
    pub fn known(&self, file: KnownFile) -> Result<KnownPeers, Failure> {
        let path = self.known_path(file);
        let text = read_known(&path)?;
        KnownPeers::parse(&text).map_err(|error| {
            Failure::new(Code::Configuration, format!("{}: {error}", path.display()))
        })
    }

    /// Adds a key to a file.
    ///
    /// # Errors
    /// The name cannot stand in the file, or the system's.
    pub fn add(
        &self,
        file: KnownFile,
        name: &str,
        key: Fingerprint,
        comment: &str,
    ) -> Result<(), Failure> {
        let line = known_peer_line(name, key, comment)
            .map_err(|error| Failure::new(Code::Usage, error.to_string()))?;
        self.edit(file, |mut text| {
            if !text.is_empty() && !text.ends_with('\n') {
                text.push('\n');
            }
            text + &line
        })
    }

    /// Removes all lines of a name. Were there any?
    ///
    /// # Errors
    /// The system's.
    pub fn forget(&self, file: KnownFile, name: &str) -> Result<bool, Failure> {
        if !self.known_path(file).exists() {
            return Ok(false);
        }
        let mut removed = false;
        self.edit(file, |text| {
            let without = without_known_peer(&text, name);
            removed = without != text;
            without
        })?;
        Ok(removed)
    }

    fn edit(&self, file: KnownFile, edit: impl FnOnce(String) -> String) -> Result<(), Failure> {
        let _locked = self.lock()?;
        let path = self.known_path(file);
        let text = edit(read_known(&path)?);
        self.replace(&path, text.as_bytes())
    }

    /// Makes the directory if it is not there, and locks it.
    fn lock(&self) -> Result<File, Failure> {
        let failed = |error| Failure::system(format!("use {}", self.0.display()), error);
        DirBuilder::new().recursive(true).mode(0o700).create(&self.0).map_err(failed)?;
        let directory = File::open(&self.0).map_err(failed)?;
        flock(&directory, FlockOperation::LockExclusive).map_err(|errno| failed(errno.into()))?;
        Ok(directory)
    }

    /// Replaces a file of the directory as a whole. Only its owner may read it.
    fn replace(&self, path: &Path, content: &[u8]) -> Result<(), Failure> {
        let new = path.with_extension("new");
        let write = || {
            let _ = fs::remove_file(&new);
            let mut file = File::options().write(true).create_new(true).mode(0o600).open(&new)?;
            file.write_all(content)?;
            file.sync_all()?;
            fs::rename(&new, path)
        };
        write().map_err(|error: io::Error| {
            let _ = fs::remove_file(&new);
            Failure::system(format!("write {}", path.display()), error)
        })
    }
}

/// A file of known keys, which only its owner may write. Nothing if there is none.
fn read_known(path: &Path) -> Result<String, Failure> {
    let shown = path.display();
    let failed = |error: io::Error| Failure::system(format!("read {shown}"), error);
    let mut file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(String::new()),
        opened => opened.map_err(failed)?,
    };
    let metadata = file.metadata().map_err(failed)?;
    check_trusted(path, &metadata)
        .map_err(|error| Failure::new(Code::Rights, format!("{shown}: {error}")))?;
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(failed)?;
    Ok(text)
}

/// The raw key in a file.
///
/// # Errors
/// As [`read_private`], or it is no such key.
pub fn raw_key(path: &Path) -> Result<Identity, Failure> {
    Identity::raw_key(&read_private(path)?)
        .map_err(|error| Failure::new(Code::Configuration, format!("{}: {error}", path.display())))
}

/// Reads a file that only its owner may read, who is this user or root.
///
/// # Errors
/// Others may read it, or the system's.
pub fn read_private(path: &Path) -> Result<Zeroizing<String>, Failure> {
    let shown = path.display();
    let failed = |error: io::Error| {
        let code = match error.kind() {
            io::ErrorKind::PermissionDenied => Code::Rights,
            _ => Code::Configuration,
        };
        Failure::new(code, format!("cannot read {shown}: {error}"))
    };
    let mut file = File::open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    check_private(path, &metadata)
        .map_err(|error| Failure::new(Code::Rights, format!("the private key {shown}: {error}")))?;
    // It does not grow, which would leave a copy behind.
    let mut text = Zeroizing::new(String::with_capacity(64 << 10));
    (&mut file).take(text.capacity() as u64).read_to_string(&mut text).map_err(failed)?;
    Ok(text)
}

/// Reads certificates or revocation lists, which are no secrets.
///
/// # Errors
/// The system's, or it is longer than any such file.
pub fn read_public(path: &Path) -> Result<String, Failure> {
    let failed = |error: io::Error| {
        Failure::new(Code::Configuration, format!("cannot read {}: {error}", path.display()))
    };
    let mut text = String::new();
    File::open(path).map_err(failed)?.take(LONGEST).read_to_string(&mut text).map_err(failed)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn directory() -> (tempfile::TempDir, KeyDirectory) {
        let parent = tempfile::tempdir().unwrap();
        let keys = KeyDirectory::at(parent.path().join("keys"));
        (parent, keys)
    }

    #[test]
    fn the_key_is_made_once_and_is_its_owners() {
        let (_parent, keys) = directory();
        let made = keys.own_key().unwrap().fingerprint();
        assert_eq!(keys.own_key().unwrap().fingerprint(), made);
        assert!(keys.new_key(false).unwrap_err().sentence.contains("--force"));
        assert_ne!(keys.new_key(true).unwrap().fingerprint(), made);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&keys.0), mode(&keys.key_path())), (0o700, 0o600));
    }

    #[test]
    fn keys_that_others_may_read_are_refused() {
        let (_parent, keys) = directory();
        keys.new_key(false).unwrap();
        for mode in [0o640, 0o604, 0o620, 0o601] {
            fs::set_permissions(keys.key_path(), fs::Permissions::from_mode(mode)).unwrap();
            let failure = keys.own_key().unwrap_err();
            assert_eq!(failure.code, Code::Rights);
            assert!(failure.sentence.contains("chmod 600"), "{failure}");
        }
        fs::set_permissions(keys.key_path(), fs::Permissions::from_mode(0o400)).unwrap();
        keys.own_key().unwrap();
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(keys.key_path(), Some(4711), None).unwrap();
            let failure = keys.own_key().unwrap_err();
            assert!(failure.code == Code::Rights && failure.sentence.contains("chown 0"));
        }
    }

    #[test]
    fn known_keys_are_added_and_forgotten() {
        let (_parent, keys) = directory();
        let key = keys.new_key(false).unwrap().fingerprint();
        assert!(!keys.forget(KnownFile::Targets, "10.0.0.1:3260").unwrap());
        for name in ["10.0.0.1:3260", "10.0.0.2:3260"] {
            keys.add(KnownFile::Targets, name, key, "seen").unwrap();
        }
        assert_eq!(keys.known(KnownFile::Targets).unwrap().iter().count(), 2);
        assert_eq!(keys.known(KnownFile::Initiators).unwrap().iter().count(), 0);
        assert!(keys.forget(KnownFile::Targets, "10.0.0.1:3260").unwrap());
        let known = keys.known(KnownFile::Targets).unwrap();
        assert_eq!(known.iter().next().unwrap().address(), "10.0.0.2:3260");
        assert_eq!(keys.add(KnownFile::Targets, "a b", key, "").unwrap_err().code, Code::Usage);
        let path = keys.known_path(KnownFile::Targets);
        for mode in [0o620, 0o602] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let failure = keys.known(KnownFile::Targets).unwrap_err();
            assert!(failure.code == Code::Rights && failure.sentence.contains("chmod go-w"));
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&path, Some(4711), None).unwrap();
            assert!(keys.known(KnownFile::Targets).unwrap_err().sentence.contains("chown 0"));
            std::os::unix::fs::chown(&path, Some(0), None).unwrap();
        }
        fs::write(&path, "nonsense\n").unwrap();
        let failure = keys.known(KnownFile::Targets).unwrap_err();
        assert_eq!(failure.code, Code::Configuration);
        assert!(failure.sentence.contains("line 1"), "{failure}");
    }
}
