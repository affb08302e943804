//! Parts of `tasuki-bench` that measure in a process of their own.

use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use crate::machine::processors;

/// The JSON that this program prints for these words.
pub(super) fn asked<T: serde::de::DeserializeOwned>(words: &[String]) -> Result<T> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(words).arg("--json").stdin(Stdio::null());
    let output = command.output().with_context(|| format!("starting {command:?}"))?;
    let why = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}: {}", output.status, why.trim());
    serde_json::from_slice(&output.stdout).with_context(|| format!("what `{}` prints", words[0]))
}

/// `--processors 0 1`: those of the two sides, or twice the only one.
pub(super) fn two_processors() -> Result<[String; 3]> {
    let all = processors()?;
    let here = *all.first().context("a processor")?;
    let there = *all.get(1).unwrap_or(&here);
    Ok(["--processors".to_owned(), here.to_string(), there.to_string()])
}
