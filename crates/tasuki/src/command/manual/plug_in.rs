//! nbdkit-tasuki-plugin(1): the page of the plug-in of nbdkit. Its parameters come from the
//! definition that the plug-in reads, its name is where `man` and nbdkit(1) look for plug-ins.

use std::io::{self, Write};

use clap_mangen::roff::{Roff, bold, italic, roman};
use user::parameters::{EXAMPLES, ParameterHelp, explanations};

use super::sections::{SOURCE, definitions, verbatim};
use crate::cli::ENVIRONMENT;

/// The file of the page.
pub(super) const FILE: &str = "nbdkit-tasuki-plugin.1";

/// Variables that matter to the plug-in.
const VARIABLES: [&str; 4] = ["TASUKI_KEYS", "TASUKI_LOG", "TASUKI_SOCKET", "XDG_RUNTIME_DIR"];

const DESCRIPTION: [&str; 5] = [
    "The plug-in serves a unit of an iSCSI target to clients of NBD: nbdcopy, qemu, programs with \
     libnbd. The way from nbdkit to the target is sealed, TLS or plain, as the URL says.",
    "The unit is reached from a running instance of Tasuki, with the keys that `tasuki key` shows. \
     nbdkit is a client of that instance, so it runs as the user of the instance: leave out \
     `nbdkit -u`. nbdkit ends with its instance.",
    "nbdkit opens the unit before it goes to the background. What is wrong is one sentence on the \
     terminal, and the exit status is 1.",
    "While the target is away, requests wait, and the session comes back by itself. With give-up \
     they fail. If another unit has come back, they fail until nbdkit is started again.",
    "Whoever reaches nbdkit's port or socket can use the unit, whatever the target asks of \
     initiators. The process writes no core dump as soon as it has read a key or a passphrase.",
];

/// Files of the plug-in.
const FILES: [(&str, &str); 2] = [
    ("../lib/tasuki/nbdkit-tasuki-plugin.so", "The plug-in, seen from tasuki"),
    (
        "$plugindir/nbdkit-tasuki-plugin.so",
        "Where nbdkit finds it by its name: `nbdkit --dump-config` tells $plugindir",
    ),
];

/// Writes the page.
pub(super) fn write(out: &mut dyn Write) -> io::Result<()> {
    let mut page = Roff::new();
    page.control("TH", ["nbdkit-tasuki-plugin", "1", "", SOURCE, "Tasuki"]);
    page.control("SH", ["NAME"]);
    page.text([roman("nbdkit-tasuki-plugin - serve a unit of an iSCSI target by NBD")]);
    page.control("SH", ["SYNOPSIS"]);
    page.text([
        bold("nbdkit tasuki"),
        roman(" ["),
        bold("uri="),
        roman("]"),
        italic("URL"),
        roman(" ["),
        italic("name"),
        bold("="),
        italic("VALUE"),
        roman("...]"),
    ]);
    page.control("SH", ["DESCRIPTION"]);
    for paragraph in DESCRIPTION {
        page.control("PP", []);
        page.text([roman(paragraph)]);
    }
    parameters(&mut page, &explanations());
    let variables = ENVIRONMENT.iter().filter(|(name, _)| VARIABLES.contains(name));
    definitions(&mut page, "ENVIRONMENT", &variables.copied().collect::<Vec<_>>());
    definitions(&mut page, "FILES", &FILES);
    page.control("SH", ["EXAMPLES"]);
    verbatim(&mut page, EXAMPLES);
    page.control("SH", ["SEE ALSO"]);
    page.text([
        bold("nbdkit"),
        roman("(1), "),
        bold("nbdcopy"),
        roman("(1), "),
        bold("nbdinfo"),
        roman("(1), "),
        bold("tasuki-disk"),
        roman("(1), "),
        bold("tasuki-key"),
        roman("(1)"),
    ]);
    page.to_writer(out)
}

/// The parameters, those without a heading first.
fn parameters(page: &mut Roff, all: &[ParameterHelp]) {
    page.control("SH", ["PARAMETERS"]);
    page.text([roman(
        "A word without `=` is the unit. Yes and no are nbdkit's: true, on, 1; false, off, 0.",
    )]);
    let mut headings: Vec<Option<&str>> = vec![None];
    for said in all {
        let heading = said.heading.as_deref();
        if !headings.contains(&heading) {
            headings.push(heading);
        }
    }
    for heading in headings {
        if let Some(heading) = heading {
            page.control("SS", [heading]);
        }
        for said in all.iter().filter(|said| said.heading.as_deref() == heading) {
            let (name, value) = said.form.split_once('=').unwrap_or((&said.form, ""));
            page.control("TP", []);
            page.text([bold(format!("{name}=")), italic(value)]);
            let more = said.more.iter().map(|more| format!(". {more}"));
            page.text([roman(std::iter::once(said.help.clone()).chain(more).collect::<String>())]);
        }
    }
}
