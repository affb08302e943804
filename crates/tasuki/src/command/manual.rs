//! `tasuki manual DIR`: manual pages and completion scripts, out of the command line's definition.
//!
//! `make install` copies what this writes: one page for `tasuki` and one for each command, as git
//! has them, one for the nbdkit plug-in, named as nbdkit names such pages, and scripts for bash,
//! zsh and fish where distributions put them below /usr/share.

mod plug_in;
mod sections;

use std::fs::{File, create_dir_all};
use std::io::{self, Write};
use std::path::Path;

use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use self::sections::{SOURCE, definitions, verbatim};
use crate::cli::{ENVIRONMENT, ManualArgs, visible};
use crate::exit::{self, Failure};

/// Files of running instances, and installed files.
const FILES: [(&str, &str); 9] = [
    ("/run/tasuki/NAME.sock", "Socket of the instance NAME for programs"),
    ("/run/tasuki/NAME.operator.sock", "Socket of the instance NAME for operators, mode 0600"),
    ("/run/tasuki/NAME.log", "Messages of an instance that `tasuki up` started"),
    ("/run/tasuki/NAME.target.sock", "Socket of the target NAME for operators, mode 0600"),
    ("/run/tasuki/NAME.target.log", "Messages of a target that `tasuki target up` started"),
    ("$XDG_RUNTIME_DIR/tasuki/", "The same, for users other than root"),
    ("../lib/tasuki/libtasuki_preload.so", "What gets programs onto the stack, seen from tasuki"),
    ("../lib/tasuki/tasuki-bench", "What measures for `tasuki lab`, seen from tasuki"),
    ("../share/doc/tasuki/", "README.md, docs/, and examples/instance.toml with every key"),
];

/// Where each shell looks for scripts, below /usr/share.
const SCRIPTS: [(Shell, &str); 3] = [
    (Shell::Bash, "bash-completion/completions/tasuki"),
    (Shell::Zsh, "zsh/site-functions/_tasuki"),
    (Shell::Fish, "fish/vendor_completions.d/tasuki.fish"),
];

/// Writes everything.
///
/// # Errors
/// When a file cannot be written.
pub(crate) fn manual(args: &ManualArgs) -> Result<u8, Failure> {
    let directory = &args.directory;
    write_all(directory).map_err(|error| Failure::output(directory.display(), error))?;
    Ok(0)
}

fn write_all(directory: &Path) -> io::Result<()> {
    for (shell, path) in SCRIPTS {
        let mut script = create(&directory.join(path))?;
        clap_complete::generate(shell, &mut visible(), "tasuki", &mut script);
        script.flush()?;
    }
    let mut all = visible().disable_help_subcommand(true);
    all.build();
    let inner = all.get_subcommands().flat_map(Command::get_subcommands);
    let inner = inner.filter(|command| command.get_name() != "help");
    for command in std::iter::once(&all).chain(all.get_subcommands()).chain(inner) {
        let man = Man::new(command.clone()).manual("Tasuki").date("").source(SOURCE);
        let mut page = create(&directory.join("man/man1").join(man.get_filename()))?;
        write_page(&man, command, &mut page)?;
        page.flush()?;
    }
    let mut page = create(&directory.join("man/man1").join(plug_in::FILE))?;
    plug_in::write(&mut page)?;
    page.flush()
}

fn create(path: &Path) -> io::Result<File> {
    create_dir_all(path.parent().unwrap_or(Path::new("/")))?;
    File::create(path)
}

fn write_page(man: &Man, command: &Command, page: &mut dyn Write) -> io::Result<()> {
    let top = command.has_subcommands();
    man.render_title(page)?;
    man.render_name_section(page)?;
    man.render_synopsis_section(page)?;
    man.render_description_section(page)?;
    man.render_options_section(page)?;
    if top {
        man.render_subcommands_section(page)?;
    }
    let mut rest = Roff::new();
    rest.control("SH", ["EXIT STATUS"]);
    if top || command.get_name() == "run" {
        verbatim(&mut rest, exit::HELP.split_once('\n').map_or("", |(_, codes)| codes));
    } else {
        rest.text([roman("0, or one of the codes in "), bold("tasuki"), roman("(1).")]);
    }
    if top {
        definitions(&mut rest, "ENVIRONMENT", &ENVIRONMENT);
        definitions(&mut rest, "FILES", &FILES);
    }
    // The help of `tasuki` itself has no examples: those of `run` are the first to read.
    let example = if top { command.find_subcommand("run") } else { Some(command) };
    let examples = example.and_then(Command::get_after_help).map(ToString::to_string);
    rest.control("SH", ["EXAMPLES"]);
    let examples = examples.unwrap_or_default();
    verbatim(&mut rest, examples.trim_start_matches("Examples:\n"));
    rest.control("SH", ["SEE ALSO"]);
    rest.text([bold(if top { "tasuki-run" } else { "tasuki" }), roman("(1)")]);
    rest.to_writer(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page_and_every_shell_a_script() {
        let directory = tempfile::tempdir().unwrap();
        write_all(directory.path()).unwrap();
        let read = |path: &str| std::fs::read_to_string(directory.path().join(path)).unwrap();
        for section in ["EXIT STATUS", "ENVIRONMENT", "FILES", "EXAMPLES"] {
            assert!(read("man/man1/tasuki.1").contains(section), "{section}");
        }
        for command in visible().get_subcommands() {
            let page = read(&format!("man/man1/tasuki-{}.1", command.get_name()));
            assert!(page.contains("EXAMPLES") && page.contains("EXIT STATUS"), "{page}");
        }
        let page = read("man/man1/nbdkit-tasuki-plugin.1");
        for said in
            ["accept\\-new=\\fR\\fItrue", "TASUKI_KEYS", ".SS \"Sealed and TLS\"", "EXAMPLES"]
        {
            assert!(page.contains(said), "{said}: {page}");
        }
        for (_, path) in SCRIPTS {
            assert!(read(path).contains("capture"), "{path}");
        }
    }
}
