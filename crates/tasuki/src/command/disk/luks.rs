//! Encrypted disks: `tasuki disk format`, and the option `--luks` of the other commands.

use std::rc::Rc;

use storage::{
    DerivationCost, Disk, DiskError, EncryptionError, FormatOptions, KeyDerivation, LuksError,
    LuksVersion, Passphrase, SectorSize, format_encrypted, open_encrypted,
};

use super::access::DiskAccess;
use super::passphrase::Secret;
use super::session::{DiskPlace, on_instance};
use crate::cli::{DiskFormatArgs, LuksArgs, LuksFormatArgs, LuksType, Pbkdf};
use crate::exit::{Code, Failure};

/// How units are encrypted, if they are.
pub(super) struct Encryption(Option<(Passphrase, bool)>);

impl Encryption {
    /// By these options; with a passphrase that is there already, or that is got now.
    ///
    /// # Errors
    /// There is no passphrase.
    pub(super) fn new(args: &LuksArgs) -> Result<Self, Failure> {
        let secret = args.luks.then(|| secret(args)).transpose()?;
        Ok(Self::with(args, secret))
    }

    pub(super) fn with(args: &LuksArgs, secret: Option<Secret>) -> Self {
        Self(secret.map(|secret| (secret.passphrase(), args.discard)))
    }

    /// The disk in the unit.
    ///
    /// # Errors
    /// It has no header, or the passphrase is wrong.
    pub(super) async fn open(&self, unit: Disk, access: &DiskAccess) -> Result<Disk, Failure> {
        let Some((passphrase, discard)) = &self.0 else { return Ok(unit) };
        let opened = open_encrypted(unit.clone(), passphrase.clone(), *discard).await;
        if opened.is_err() {
            unit.close().await;
        }
        opened.map_err(|error| encryption_failure(access, &error))
    }
}

/// The passphrase that the options mean.
///
/// # Errors
/// There is none.
pub(super) fn secret(args: &LuksArgs) -> Result<Secret, Failure> {
    Secret::get(args.key_file.as_deref(), false)
}

/// Carries out `tasuki disk format`.
///
/// # Errors
/// The unit's, or it has data.
pub(super) fn format(args: &DiskFormatArgs) -> Result<u8, Failure> {
    let options = options(&args.luks)?;
    let access = Rc::new(DiskAccess::new(&args.session.access)?);
    let place = DiskPlace::new(&args.url, &access, args.session.give_up)?;
    let passphrase = Secret::get(args.luks.key_file.as_deref(), true)?.passphrase();
    let formatted = async {
        let unit = place.open().await?;
        let made = format_encrypted(&unit, options, passphrase, args.luks.force).await;
        unit.close().await;
        made.map_err(|error| encryption_failure(&access, &error))
    };
    on_instance(args.session.net.as_ref(), formatted)?.map(|()| 0)
}

fn options(args: &LuksFormatArgs) -> Result<FormatOptions, Failure> {
    let (version, sector, derivation) = match args.kind {
        LuksType::Luks1 => (LuksVersion::Luks1, SectorSize::SMALL, KeyDerivation::Pbkdf2),
        LuksType::Luks2 => (LuksVersion::Luks2, SectorSize::LARGE, KeyDerivation::Argon2id),
    };
    let sector = match args.sector_size {
        None => sector,
        Some(bytes) => SectorSize::new(bytes).ok_or_else(|| {
            let sentence = format!("sectors of {bytes} bytes: take 512, 1024, 2048 or 4096");
            Failure::new(Code::Usage, sentence)
        })?,
    };
    let derivation = match args.pbkdf {
        None => derivation,
        Some(Pbkdf::Argon2id) => KeyDerivation::Argon2id,
        Some(Pbkdf::Pbkdf2) => KeyDerivation::Pbkdf2,
    };
    let time = DerivationCost::Milliseconds(args.iter_time);
    let cost = args.pbkdf_force_iterations.map_or(time, DerivationCost::Iterations);
    Ok(FormatOptions { version, sector, derivation, cost })
}

fn encryption_failure(access: &DiskAccess, error: &EncryptionError) -> Failure {
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
