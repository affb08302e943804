//! Where passphrases of encrypted disks come from: a file, standard input, the terminal. Never the
//! command line, which all users of a machine can see.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::process::ChildStdin;

use storage::{Passphrase, check_private};
use zeroize::Zeroizing;

use crate::credentials::forbid_dumps;
use crate::exit::{Code, Failure};
use crate::options::LuksKeyArgs;

/// Longest key file, bytes: cryptsetup's bound.
const LONGEST: usize = 8 << 20;
/// A key file with this name is standard input.
const STANDARD_INPUT: &str = "-";

/// A passphrase that can be handed to a process in the background.
pub struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    /// The one that these options mean.
    ///
    /// # Errors
    /// There is none.
    pub fn of(args: &LuksKeyArgs) -> Result<Self, Failure> {
        Self::get(args.key_file.as_deref(), false)
    }

    /// Out of the file, or from the terminal. A new one is asked for `twice`.
    ///
    /// # Errors
    /// There is none, or others may read the file.
    pub fn get(key_file: Option<&Path>, twice: bool) -> Result<Self, Failure> {
        forbid_dumps()?;
        let secret = match key_file {
            Some(path) if path.as_os_str() == STANDARD_INPUT => from_input(),
            Some(path) => from_file(path),
            None => from_terminal(twice),
        }?;
        if secret.is_empty() {
            let from = key_file.map_or_else(String::new, |path| format!(" in {}", path.display()));
            let sentence = format!("the passphrase{from} is empty: nothing is encrypted with it");
            return Err(Failure::new(Code::Passphrase, sentence));
        }
        Ok(Self(secret))
    }

    /// The one that [`Secret::hand_over`] has sent.
    ///
    /// # Errors
    /// The system's.
    pub fn receive() -> Result<Self, Failure> {
        forbid_dumps()?;
        from_input().map(Self)
    }

    /// Sends it to a process that waits for it.
    pub fn hand_over(&self, mut to: ChildStdin) {
        // If that process has ended, it tells why in another way.
        let _ = to.write_all(&self.0);
    }

    /// As LUKS takes it.
    #[must_use]
    pub fn passphrase(self) -> Passphrase {
        Passphrase::new(self.0)
    }
}

fn from_input() -> Result<Zeroizing<Vec<u8>>, Failure> {
    let failed = |error| Failure::system("read the passphrase from standard input", error);
    all(&mut io::stdin().lock()).map_err(failed)
}

fn from_file(path: &Path) -> Result<Zeroizing<Vec<u8>>, Failure> {
    let shown = path.display();
    let failed = |error: io::Error| {
        let code = match error.kind() {
            io::ErrorKind::PermissionDenied => Code::Rights,
            _ => Code::Configuration,
        };
        Failure::new(code, format!("cannot read the key file {shown}: {error}"))
    };
    let mut file = File::open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    // A pipe of the shell's belongs to its reader, whatever its mode.
    if metadata.is_file() {
        check_private(path, &metadata).map_err(|error| {
            Failure::new(Code::Rights, format!("the key file {shown}: {error}"))
        })?;
    }
    all(&mut file).map_err(failed)
}

/// Reads all that there is, into memory that does not move: a copy would be left behind.
fn all(from: &mut impl io::Read) -> io::Result<Zeroizing<Vec<u8>>> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(LONGEST + 1));
    let _ = from.take(LONGEST as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > LONGEST {
        return Err(io::Error::other(format!("it has more than {LONGEST} bytes")));
    }
    Ok(bytes)
}

fn from_terminal(twice: bool) -> Result<Zeroizing<Vec<u8>>, Failure> {
    let ask = |prompt: &str| {
        rpassword::prompt_password(prompt).map(Zeroizing::new).map_err(|error| {
            let sentence =
                format!("no terminal to ask for the passphrase: say --key-file ({error})");
            Failure::new(Code::Passphrase, sentence)
        })
    };
    let answer = ask("Passphrase of the disk: ")?;
    if twice && *ask("The same again: ")? != *answer {
        let sentence = "the two passphrases are not the same: nothing is written";
        return Err(Failure::new(Code::Passphrase, sentence));
    }
    Ok(Zeroizing::new(answer.as_bytes().to_vec()))
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    use rustix::process::{DumpableBehavior, dumpable_behavior};

    use super::*;

    fn file(bytes: &[u8], mode: u32) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, bytes).unwrap();
        std::fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
        file
    }

    #[test]
    fn a_key_file_is_taken_as_it_is() {
        let file = file(b"right\0\n", 0o400);
        assert_eq!(*Secret::get(Some(file.path()), false).ok().unwrap().0, b"right\0\n");
        assert_eq!(dumpable_behavior().unwrap(), DumpableBehavior::NotDumpable);
    }

    #[test]
    fn key_files_that_are_refused() {
        let code = |file: &Path| Secret::get(Some(file), false).err().unwrap();
        let open = code(file(b"right", 0o640).path());
        assert_eq!((open.code, open.sentence.contains("chmod 600")), (Code::Rights, true));
        if rustix::process::geteuid().is_root() {
            let other = file(b"right", 0o600);
            std::os::unix::fs::chown(other.path(), Some(4711), None).unwrap();
            assert!(code(other.path()).sentence.contains("belongs to user 4711"));
        }
        assert_eq!(code(file(b"", 0o600).path()).code, Code::Passphrase);
        assert_eq!(code(Path::new("/nowhere")).code, Code::Configuration);
        let long = code(file(&vec![1; LONGEST + 1], 0o600).path());
        assert!(long.sentence.contains("more than 8388608"), "{long}");
    }
}
