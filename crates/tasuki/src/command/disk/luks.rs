//! `tasuki disk format`: new encrypted disks.

use std::sync::Arc;

use storage::{
    DerivationCost, FormatOptions, KeyDerivation, LuksVersion, SectorSize, format_encrypted,
};
use user::{DiskAccess, DiskPlace, Secret, encryption_failure, on_instance};

use crate::cli::{DiskFormatArgs, LuksFormatArgs, LuksType, Pbkdf};
use crate::exit::{Code, Failure};

/// Carries out `tasuki disk format`.
///
/// # Errors
/// The unit's, or it has data.
pub(super) fn format(args: &DiskFormatArgs) -> Result<u8, Failure> {
    let options = options(&args.luks)?;
    let access = Arc::new(DiskAccess::new(&args.session.access)?);
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
