//! Who this initiator is.

use storage::{AUTHORITY, ChapAccount, ChapAlgorithm, ChapPolicy, InitiatorIdentity, read_secret};

use crate::credentials::forbid_dumps;
use crate::exit::{Code, Failure};
use crate::options::ChapArgs;

/// The name that is asked for, or one of this machine, and the secrets.
///
/// # Errors
/// [`Code::Usage`] for the name, [`Code::Configuration`] for the secrets.
pub(crate) fn identity(
    initiator: Option<&str>,
    chap: &ChapArgs,
) -> Result<InitiatorIdentity, Failure> {
    let machine = || {
        let id = std::fs::read_to_string("/etc/machine-id").unwrap_or_default();
        let id: String = id.chars().filter(char::is_ascii_hexdigit).take(12).collect();
        format!("{AUTHORITY}:host{id}")
    };
    let name = initiator.map_or_else(machine, str::to_owned);
    let name = name.parse().map_err(|error| {
        Failure::new(Code::Usage, format!("`{name}` is no name of an initiator: {error}"))
    })?;
    Ok(InitiatorIdentity { name, chap: policy(chap)? })
}

/// CHAP as the options have it: with SHA-256 or SHA3-256, never with MD5.
fn policy(args: &ChapArgs) -> Result<Option<ChapPolicy>, Failure> {
    // Neither is there without the other.
    let (Some(user), Some(file)) = (&args.user, &args.secret_file) else { return Ok(None) };
    forbid_dumps()?;
    let wrong = |sentence: String| Failure::new(Code::Configuration, sentence);
    let secret = |file| read_secret(file).map_err(|error| wrong(error.to_string()));
    let initiator = ChapAccount { name: user.clone(), secret: secret(file)? };
    let target = match &args.target_secret_file {
        // Whoever knows the secret is the target, by any name.
        Some(file) => Some(ChapAccount { name: String::new(), secret: secret(file)? }),
        None => None,
    };
    if target.as_ref().is_some_and(|target| target.secret.is_same(&initiator.secret)) {
        let sentence = "--secret-file and --target-secret-file have the same secret: the target \
                        could prove itself with what it is told; each needs its own";
        return Err(wrong(sentence.to_owned()));
    }
    let algorithms = vec![ChapAlgorithm::Sha256, ChapAlgorithm::Sha3_256];
    Ok(Some(ChapPolicy { initiator, target, algorithms }))
}
