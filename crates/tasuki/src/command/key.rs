//! `tasuki key`: this machine's key, and those that it knows.

use serde::Serialize;

use super::{print, print_json, table};
use crate::cli::{KeyArgs, KeyCommand};
use crate::exit::{Code, Failure};
use crate::keys::{KeyDirectory, KnownFile};

/// Carries out the command.
///
/// # Errors
/// As each.
pub(crate) fn key(args: &KeyArgs) -> Result<u8, Failure> {
    let keys = KeyDirectory::find()?;
    match &args.command {
        KeyCommand::Show => print(&format!("{}\n", keys.own_key()?.fingerprint()))?,
        KeyCommand::New { force } => {
            print(&format!("{}\n", keys.new_key(*force)?.fingerprint()))?;
        }
        KeyCommand::Allow { name, key } => keys.add(KnownFile::Initiators, name, *key, "")?,
        KeyCommand::Trust { address, key } => {
            keys.add(KnownFile::Targets, &address.to_string(), *key, "")?;
        }
        KeyCommand::Forget { name } => forget(&keys, name)?,
        KeyCommand::Ls { json } => list(&keys, *json)?,
    }
    Ok(0)
}

fn forget(keys: &KeyDirectory, name: &str) -> Result<(), Failure> {
    let address = storage::portal_address(name).map(|address| address.to_string());
    let target = match address {
        Ok(address) => keys.forget(KnownFile::Targets, &address)?,
        Err(_) => false,
    };
    let initiator = keys.forget(KnownFile::Initiators, name)?;
    if target || initiator {
        return Ok(());
    }
    let sentence = format!("no key is known for `{name}`: see `tasuki key ls`");
    Err(Failure::new(Code::Configuration, sentence))
}

/// A key, as `tasuki key ls` shows it.
#[derive(Debug, Serialize)]
struct KeyRow {
    of: &'static str,
    name: String,
    key: String,
    comment: String,
}

fn list(keys: &KeyDirectory, json: bool) -> Result<(), Failure> {
    let mut rows = Vec::new();
    if keys.key_path().exists() {
        rows.push(KeyRow {
            of: "this machine",
            name: String::new(),
            key: keys.own_key()?.fingerprint().to_string(),
            comment: String::new(),
        });
    }
    for (of, file) in [("target", KnownFile::Targets), ("initiator", KnownFile::Initiators)] {
        rows.extend(keys.known(file)?.iter().map(|peer| KeyRow {
            of,
            name: peer.address().to_owned(),
            key: peer.fingerprint().to_string(),
            comment: peer.comment().to_owned(),
        }));
    }
    if json {
        return print_json(&rows);
    }
    let mut lines = vec![["Of", "Name", "Key", "Comment"].map(str::to_owned).to_vec()];
    lines.extend(
        rows.into_iter().map(|row| vec![row.of.to_owned(), row.name, row.key, row.comment]),
    );
    print(&table(&lines, &[]))
}
