//! `tasuki lab`: what is done with results of measurements. The work is that of crate `lab`; here
//! are files, tables and exit codes.

mod diff;

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use lab::{MOST_FILE_BYTES, Results};

use crate::cli::{LabArgs, LabCommand};
use crate::exit::{Code, Failure};

/// Carries out the command.
///
/// # Errors
/// As each.
pub(crate) fn lab(args: &LabArgs) -> Result<u8, Failure> {
    match &args.command {
        LabCommand::Diff(args) => diff::diff(args, &results(&args.before)?, &results(&args.after)?),
    }
}

/// Reads and checks a results file.
fn results(path: &Path) -> Result<Results, Failure> {
    let wrong = |sentence: String| Failure::new(Code::Configuration, sentence);
    let mut text = Vec::new();
    let read = File::open(path)
        .and_then(|file| file.take(MOST_FILE_BYTES as u64 + 1).read_to_end(&mut text));
    read.map_err(|error| wrong(format!("cannot read the results {}: {error}", path.display())))?;
    Results::parse(&text).map_err(|error| {
        let remedy = "`tasuki-bench compare --results FILE` writes results files";
        wrong(format!("{} is no good results file: {error}; {remedy}", path.display()))
    })
}
