//! `tasuki lab`: measurements, and what is done with their results.
//!
//! `tasuki-bench` measures: this process becomes that program ([`measure`]), so that the command
//! stays small. Reports and differences are the work of crate `lab`; here are files, tables and
//! exit codes.

mod diff;
mod measure;

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use lab::plan::ExperimentName;
use lab::{MOST_FILE_BYTES, Results, report};

use super::{print, table};
use crate::cli::{LAB_REPORT, LabArgs, LabCommand, LabOpenArgs, LabReportArgs};
use crate::exit::{Code, Failure, say};
use user::pictures::png_beside;
use user::whole_file::replace;

/// Carries out the command.
///
/// # Errors
/// As each.
pub(crate) fn lab(args: &LabArgs) -> Result<u8, Failure> {
    match &args.command {
        None => measure::become_bench(&args.options),
        Some(LabCommand::List) => list(),
        Some(LabCommand::Diff(args)) => {
            let after = args.after.as_deref().map(results).transpose()?;
            diff::diff(args, &results(&args.before)?, after.as_ref())
        }
        Some(LabCommand::Report(args)) => write_report(args),
        Some(LabCommand::Open(args)) => open(args),
    }
}

/// Shows what can be measured.
fn list() -> Result<u8, Failure> {
    let head = ["Experiment", "What", "Time", "Quick", "Rights", "Options"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(ExperimentName::EACH.into_iter().map(|it| {
        let time = |quick| format!("{} s", it.time(quick).as_secs());
        let rights = if it.needs_root() { "root" } else { "any" };
        let cells = [it.title(), &time(false), &time(true), rights, &it.axes().join(" ")];
        [it.name()].iter().chain(&cells).map(|cell| (*cell).to_owned()).collect()
    }));
    print(&table(&rows, &[false, false, true, true, false, false]))?;
    Ok(0)
}

/// Writes the page and the files beside it, and says what was found.
fn write_report(args: &LabReportArgs) -> Result<u8, Failure> {
    let results = results(&args.results)?;
    let out = &args.out;
    let made = fs::create_dir_all(out);
    made.map_err(|error| Failure::output(out.display(), error))?;
    let mut plots = Vec::new();
    for file in report::files(&results) {
        replace(&out.join(&file.name), file.content.as_bytes())?;
        plots.extend(file.is_plot().then(|| out.join(&file.name)));
    }
    say(format_args!("drawing {} plots", plots.len()));
    if let Err(error) = png_beside(&plots) {
        say(error);
    }
    let said = report::findings(&results).join("\n");
    print(&format!("{said}\n\n{}\n", out.join(report::PAGE).display()))?;
    Ok(0)
}

/// Has the system open the page.
fn open(args: &LabOpenArgs) -> Result<u8, Failure> {
    let given = &args.report.clone().unwrap_or_else(newest_report);
    let page = if given.is_dir() { given.join(report::PAGE) } else { given.clone() };
    let page = page.canonicalize().map_err(|error| {
        let remedy =
            "`tasuki lab` measures and makes one, `tasuki lab report RESULTS` makes one of results";
        let sentence = format!("there is no report at {}: {error}; {remedy}", page.display());
        Failure::new(Code::Configuration, sentence)
    })?;
    let no_browser = |why: String| {
        let sentence = format!("no browser opens ({why}): open {} in one", page.display());
        Failure::new(Code::NotFound, sentence)
    };
    // It writes a line for each browser that it misses.
    match Command::new("xdg-open").arg(&page).stderr(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(0),
        Ok(status) => Err(no_browser(format!("xdg-open: {status}"))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(no_browser("xdg-open is not installed".to_owned()))
        }
        Err(error) => Err(no_browser(format!("xdg-open: {error}"))),
    }
}

/// The report below this directory that was written last.
fn newest_report() -> PathBuf {
    let entries = fs::read_dir(".").into_iter().flatten().flatten();
    let folders = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        (name == LAB_REPORT || name.starts_with("tasuki-lab-")).then_some(PathBuf::from(name))
    });
    let written = folders.filter_map(|folder| {
        let page = fs::metadata(folder.join(report::PAGE)).ok()?;
        Some((page.modified().ok()?, folder))
    });
    written.max().map_or_else(|| PathBuf::from(LAB_REPORT), |(_, folder)| folder)
}

/// Reads and checks a results file.
fn results(path: &Path) -> Result<Results, Failure> {
    let wrong = |sentence: String| Failure::new(Code::Configuration, sentence);
    let mut text = Vec::new();
    let read = File::open(path)
        .and_then(|file| file.take(MOST_FILE_BYTES as u64 + 1).read_to_end(&mut text));
    read.map_err(|error| wrong(format!("cannot read the results {}: {error}", path.display())))?;
    Results::parse(&text).map_err(|error| {
        let remedy = "`tasuki lab` and `tasuki-bench compare --results FILE` write results files";
        wrong(format!("{} is no good results file: {error}; {remedy}", path.display()))
    })
}
