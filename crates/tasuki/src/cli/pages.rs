//! The reference pages of the command name what the command has, and nothing else.

use std::collections::BTreeSet;

use clap::CommandFactory;

use super::{Cli, ENVIRONMENT};
use crate::exit;

const OPTIONS: &str = concat!(
    include_str!("../../../../docs/reference/options.md"),
    include_str!("../../../../docs/reference/options-lab.md"),
    include_str!("../../../../docs/reference/options-storage.md")
);
const EXIT_CODES: &str = include_str!("../../../../docs/reference/exit-codes.md");
const VARIABLES: &str = include_str!("../../../../docs/reference/environment.md");

/// Sections of options that two commands share.
const SHARED: [(&str, [&str; 2]); 2] =
    [("Options of an instance", ["run", "up"]), ("Credentials", ["target", "disk"])];
/// Commands whose section refers to another one's.
const AS_ADDR: [&str; 2] = ["route", "neigh"];

/// The lines below a heading `## title`, up to the next one.
fn section<'a>(page: &'a str, title: &str) -> Option<&'a str> {
    let rest = page.split_once(&format!("\n## {title}\n"))?.1;
    Some(rest.split_once("\n## ").map_or(rest, |(section, _)| section))
}

/// `--words` and `-w` in the first cells of a section's tables.
fn options_in(section: &str) -> BTreeSet<String> {
    let cells = section.lines().filter_map(|line| line.strip_prefix("| `-"));
    let cells = cells.map(|rest| rest.split_once(" | ").map_or(rest, |(cell, _)| cell));
    cells
        .flat_map(|cell| {
            let cell = format!("`-{cell}");
            let words = cell.split('`').skip(1).step_by(2).map(str::to_owned);
            words.collect::<Vec<_>>()
        })
        .map(|word| word.split(' ').next().unwrap_or_default().to_owned())
        .collect()
}

/// The options of a command and of its own commands, but for --help.
fn options_of(command: &clap::Command) -> BTreeSet<String> {
    let inner: Vec<_> = command.get_subcommands().flat_map(options_of).collect();
    let is_shown = |one: &&clap::Arg| one.get_id() != "help" && !one.is_hide_set();
    let arguments = command.get_arguments().filter(is_shown);
    let own: Vec<_> = arguments
        .flat_map(|one| {
            let longs = one.get_long_and_visible_aliases().unwrap_or_default();
            let shorts = one.get_short_and_visible_aliases().unwrap_or_default();
            let longs = longs.into_iter().map(|long| format!("--{long}"));
            longs.chain(shorts.into_iter().map(|short| format!("-{short}"))).collect::<Vec<_>>()
        })
        .collect();
    own.into_iter().chain(inner).collect()
}

#[test]
fn the_page_of_options_has_all_of_them() {
    for command in Cli::command().get_subcommands().filter(|command| !command.is_hide_set()) {
        let name = command.get_name();
        let own = section(OPTIONS, &format!("`tasuki {name}`"))
            .unwrap_or_else(|| panic!("options.md has no section `tasuki {name}`"));
        assert!(OPTIONS.contains(&format!("#tasuki-{name})")), "{name} is not in the first table");
        let mut listed = options_in(own);
        for (title, _) in SHARED.iter().filter(|(_, sharing)| sharing.contains(&name)) {
            listed.extend(options_in(section(OPTIONS, title).expect("a section that is shared")));
        }
        if AS_ADDR.contains(&name) {
            listed = options_in(section(OPTIONS, "`tasuki addr`").expect("tasuki addr"));
        }
        assert_eq!(listed, options_of(command), "options of `tasuki {name}` on the page, in fact");
    }
}

#[test]
fn the_page_of_exit_codes_has_all_of_them() {
    let page: BTreeSet<&str> = EXIT_CODES
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split_once(" | "))
        .map(|(code, _)| code)
        .filter(|code| code.bytes().all(|byte| byte.is_ascii_digit()))
        .collect();
    let help = exit::HELP.lines().filter_map(|line| line.trim().split_once("  "));
    let mut known: BTreeSet<&str> = help.map(|(code, _)| code).collect();
    known.insert("0");
    assert_eq!(page, known);
}

#[test]
fn the_page_of_variables_has_those_of_the_command() {
    let listed = section(VARIABLES, "Variables of the command").expect("its section");
    let page: BTreeSet<&str> = listed
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once('`'))
        .map(|(name, _)| name)
        .collect();
    assert_eq!(page, ENVIRONMENT.map(|(name, _)| name).into());
}
