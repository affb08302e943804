//! What targets and initiators bring to sealed and TLS, out of their options; and processes that
//! have secrets.

use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use seal::{
    CredentialKind, Identity, Padding, RekeyAfter, SessionSettings, Trust, certificates,
    revocation_lists,
};
use storage::{Credentials, Judge};

use crate::exit::{Code, Failure};
use crate::keys::{KeyDirectory, raw_key, read_private, read_public};
use crate::options::CredentialArgs;

/// From here on the process has secrets: no core dump, and no debugger but root's.
///
/// # Errors
/// The system's.
pub fn forbid_dumps() -> Result<(), Failure> {
    set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(|errno| Failure::system("forbid core dumps", errno))
}

/// The credentials that the options mean. `known` judges keys; certificates of the authorities are
/// taken as they are.
///
/// # Errors
/// A file cannot be read, others may read the private key, or it does not hold what it should.
pub fn credentials(
    args: &CredentialArgs,
    keys: &KeyDirectory,
    known: impl FnOnce(&Identity) -> Judge,
) -> Result<Credentials, Failure> {
    forbid_dumps()?;
    let identity = identity(args, keys)?;
    let trust = trust(args)?;
    let judge = match trust {
        Trust::RawKeys => known(&identity),
        Trust::Authorities { .. } => Judge::new(|peer| {
            debug_assert_eq!(peer.kind(), CredentialKind::Certificate);
            Ok(())
        }),
    };
    let mut rekey_after = RekeyAfter::default();
    if let Some(mib) = args.rekey_after {
        rekey_after.bytes = mib << 20;
    }
    let padding = args.pad.map_or(Padding::None, Padding::Multiple);
    let records = SessionSettings { padding, rekey_after, ..SessionSettings::default() };
    Ok(Credentials { identity, trust, judge, suites: args.cipher.into(), records })
}

fn identity(args: &CredentialArgs, keys: &KeyDirectory) -> Result<Identity, Failure> {
    match (&args.cert, &args.key) {
        (Some(cert), Some(key)) => {
            let (chain, pem) = (read_public(cert)?, read_private(key)?);
            Identity::certificate(&chain, &pem).map_err(|error| {
                let sentence = format!("{} and {}: {error}", cert.display(), key.display());
                Failure::new(Code::Configuration, sentence)
            })
        }
        (None, Some(key)) => raw_key(key),
        _ => keys.own_key(),
    }
}

fn trust(args: &CredentialArgs) -> Result<Trust, Failure> {
    let Some(ca) = &args.ca else { return Ok(Trust::RawKeys) };
    let wrong = |path: &std::path::Path, error: &seal::IdentityError| {
        Failure::new(Code::Configuration, format!("{}: {error}", path.display()))
    };
    let roots = certificates(&read_public(ca)?).map_err(|error| wrong(ca, &error))?;
    let mut revocations = Vec::new();
    for crl in &args.crl {
        revocations
            .extend(revocation_lists(&read_public(crl)?).map_err(|error| wrong(crl, &error))?);
    }
    Ok(Trust::Authorities { roots, revocations })
}

#[cfg(test)]
mod tests {
    use clap::{Args as _, FromArgMatches as _};
    use rustix::process::dumpable_behavior;

    use super::*;

    #[test]
    fn a_process_with_a_key_forbids_core_dumps() {
        let directory = tempfile::tempdir().unwrap();
        let keys = KeyDirectory::at(directory.path().join("keys"));
        let command = CredentialArgs::augment_args(clap::Command::new("test"));
        let args = command.get_matches_from(["test", "--pad", "64", "--rekey-after", "3"]);
        let args = CredentialArgs::from_arg_matches(&args).unwrap();
        let made = credentials(&args, &keys, |_| Judge::new(|_| Ok(()))).unwrap();
        assert_eq!(dumpable_behavior().unwrap(), DumpableBehavior::NotDumpable);
        assert_eq!(made.records.padding, Padding::Multiple(64));
        assert_eq!(made.records.rekey_after.bytes, 3 << 20);
        assert_eq!(made.identity.fingerprint(), keys.own_key().unwrap().fingerprint());
    }
}
