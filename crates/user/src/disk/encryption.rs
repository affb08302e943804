//! Encrypted disks: the options `--luks` and `--key-file`.

use storage::{Disk, DiskError, EncryptionError, LuksError, Passphrase, open_encrypted};

use super::access::DiskAccess;
use super::passphrase::Secret;
use crate::exit::{Code, Failure};
use crate::options::{LuksArgs, LuksKeyArgs};

/// How units are encrypted, if they are.
#[derive(Debug)]
pub struct Encryption(Option<(Passphrase, bool)>);

impl Encryption {
    /// By these options; with a passphrase that is there already, or that is got now.
    ///
    /// # Errors
    /// There is no passphrase.
    pub fn new(args: &LuksArgs) -> Result<Self, Failure> {
        let secret = args.key.luks.then(|| Secret::of(&args.key)).transpose()?;
        Ok(Self::with(args, secret))
    }

    /// The same, where nothing is given back to the target.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn of_key(args: &LuksKeyArgs) -> Result<Self, Failure> {
        Self::new(&LuksArgs { key: args.clone(), discard: false })
    }

    /// As [`Self::new`], with the passphrase that is there.
    #[must_use]
    pub fn with(args: &LuksArgs, secret: Option<Secret>) -> Self {
        Self(secret.map(|secret| (secret.passphrase(), args.discard)))
    }

    /// The disk in the unit.
    ///
    /// # Errors
    /// It has no header, or the passphrase is wrong.
    pub async fn open(&self, access: &DiskAccess, unit: Disk) -> Result<Disk, Failure> {
        let Some((passphrase, discard)) = &self.0 else { return Ok(unit) };
        let opened = open_encrypted(unit.clone(), passphrase.clone(), *discard).await;
        if opened.is_err() {
            unit.close().await;
        }
        opened.map_err(|error| encryption_failure(access, &error))
    }
}

/// An error of an encrypted disk, and its exit code.
#[must_use]
pub fn encryption_failure(access: &DiskAccess, error: &EncryptionError) -> Failure {
    let code = match error {
        EncryptionError::Unit(DiskError::Unit(error)) => return access.failure(error),
        EncryptionError::Luks(error) => match error {
            LuksError::Passphrase => Code::Passphrase,
            LuksError::Library(_) | LuksError::Failed { .. } => Code::Internal,
            LuksError::TooSmall { .. } | LuksError::Options(_) => Code::Configuration,
            _ => Code::Header,
        },
        EncryptionError::InUse(_) => Code::InUse,
        EncryptionError::ReadOnly => Code::Rights,
        EncryptionError::Unit(_) | EncryptionError::Thread => Code::Internal,
    };
    Failure::new(code, error.to_string())
}
