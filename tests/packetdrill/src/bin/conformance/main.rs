//! Plays packetdrill scripts against the core and compares the results with committed lists:
//! `make conformance`.
//!
//! The runner of this package plays our own scripts and needs nothing else. packetdrill itself
//! plays all scripts that are named, with the plug-in ([`play`]). The program prints a line for
//! each script: `pass`, `FAIL` with packetdrill's message, or `skip` with the reason. Then follow
//! the sums, and the differences from the list ([`results`]).
//!
//! ```text layers
//! play: plays one script
//! results: outcomes, and the committed lists
//! ```
#![forbid(unsafe_code)]

mod play;
mod results;

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs, io};

use play::{Packetdrill, Player};
use results::{Comparison, Outcome, Results};

const USAGE: &str = "\
usage: conformance [OPTION...] [SCRIPT-OR-FOLDER...]

Plays the named scripts by packetdrill against Tasuki's core, prints a line for each, and compares
the results with the committed list, tests/packetdrill/results/*.txt. There is one for our own
scripts (own.txt: by the runner of this package; own-packetdrill.txt: by packetdrill) and one for
Google's (google.txt), which are known by their folder, gtests/net/tcp.

  --own      play our own scripts as well: by this package's runner and, if it is there, packetdrill
  --update   write what is better than in the list, and what is new, to the list
  --json     print a line of JSON for each script
  --kernel   play against this machine's kernel, in a network namespace (root); nothing is compared
  --ip=FAMILY              ipv4, ipv6 or ipv4-mapped-ipv6; the latter two have lists of their own
  --packetdrill=BINARY     default: $PACKETDRILL, or `packetdrill` on PATH
  --plugin=LIBRARY         default: libtasuki_packetdrill.so beside this program

Exit code: 0; 1 if a script fails or is skipped that passes in the list, or fails and is in no list;
2 if nothing could be played.";

#[derive(Debug, Default)]
struct Options {
    json: bool,
    own: bool,
    update: bool,
    packetdrill: Packetdrill,
    scripts: Vec<PathBuf>,
}

fn main() -> ExitCode {
    if env::args().skip(1).any(|argument| ["-h", "--help"].contains(&&argument[..])) {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    match options().and_then(|options| run(&options)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("conformance: {error}");
            ExitCode::from(2)
        }
    }
}

fn options() -> Result<Options, String> {
    let mut options = Options::default();
    let packetdrill = &mut options.packetdrill;
    packetdrill.ip = "ipv4".to_owned();
    packetdrill.program = env::var_os("PACKETDRILL")
        .filter(|value| !value.is_empty())
        .map_or_else(|| PathBuf::from("packetdrill"), PathBuf::from);
    let beside = env::current_exe().map_err(|error| error.to_string())?;
    packetdrill.plugin = beside.with_file_name("libtasuki_packetdrill.so");
    for argument in env::args().skip(1) {
        match argument.split_once('=') {
            Some(("--ip", value)) => packetdrill.ip = value.to_owned(),
            Some(("--packetdrill", value)) => packetdrill.program = value.into(),
            Some(("--plugin", value)) => packetdrill.plugin = value.into(),
            _ if argument == "--json" => options.json = true,
            _ if argument == "--own" => options.own = true,
            _ if argument == "--update" => options.update = true,
            _ if argument == "--kernel" => packetdrill.kernel = true,
            _ if argument.starts_with('-') => return Err(format!("{argument}?\n{USAGE}")),
            _ => options.scripts.push(argument.into()),
        }
    }
    if options.scripts.is_empty() && !options.own {
        return Err(format!("no scripts\n{USAGE}"));
    }
    Ok(options)
}

/// The folder of our own scripts.
fn own_scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts")
}

/// Plays everything that is asked for. Whether all is as good as in the lists.
fn run(options: &Options) -> Result<bool, String> {
    let own = own_scripts();
    let mut good = true;
    let kernel = options.packetdrill.kernel;
    if options.own && !kernel {
        good &= play_folder(options, &Player::Runner, &own)?;
    }
    let packetdrill = options.packetdrill.found();
    match packetdrill {
        Ok(packetdrill) => {
            let player = Player::Packetdrill(packetdrill);
            let ours = options.own && !options.scripts.iter().any(|named| is_same(named, &own));
            for folder in ours.then_some(&own).into_iter().chain(&options.scripts) {
                good &= play_folder(options, &player, folder)?;
            }
        }
        Err(error) if options.scripts.is_empty() && !kernel => eprintln!("not played: {error}"),
        Err(error) => return Err(error),
    }
    Ok(good)
}

fn is_same(a: &Path, b: &Path) -> bool {
    fs::canonicalize(a).ok().is_some_and(|a| fs::canonicalize(b).is_ok_and(|b| a == b))
}

/// Plays the scripts of one folder, or a single script. Whether all is as good as in the list.
fn play_folder(options: &Options, player: &Player, folder: &Path) -> Result<bool, String> {
    let folder =
        fs::canonicalize(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let scripts = find(&folder).map_err(|error| error.to_string())?;
    if scripts.is_empty() {
        return Err(format!("{}: there are no scripts (*.pkt)", folder.display()));
    }
    let outcomes = player.play(&scripts, !options.json);
    let collection = Collection::of(player, &folder);
    let root = match &collection {
        Some(collection) => &collection.root,
        None if folder.is_dir() => &folder,
        None => folder.parent().unwrap_or(&folder),
    };
    let name = |script: &PathBuf| script.strip_prefix(root).unwrap_or(script).display().to_string();
    let played = scripts.iter().map(name).zip(outcomes).collect();
    print(options, &played);
    let Some(collection) = &collection else {
        return Ok(!played.iter().any(|(_, outcome)| matches!(outcome, Outcome::Fail(_))));
    };
    let whole = folder == collection.root;
    compare(options, collection, &played, whole)
        .map_err(|error| format!("{}: {error}", collection.list.display()))
}

/// All scripts below `place`, in order.
fn find(place: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut waiting = VecDeque::from([place.to_owned()]);
    while let Some(place) = waiting.pop_front() {
        if place.is_dir() {
            for entry in fs::read_dir(&place)? {
                let path = entry?.path();
                if path.is_dir() || path.extension().is_some_and(|end| end == "pkt") {
                    waiting.push_back(path);
                }
            }
        } else {
            found.push(place);
        }
    }
    found.sort();
    Ok(found)
}

/// A collection of scripts with a list of results.
struct Collection {
    /// The folder below which the names in the list begin.
    root: PathBuf,
    list: PathBuf,
}

impl Collection {
    /// The collection that `folder` is, or belongs to, if there is one for `player`.
    fn of(player: &Player, folder: &Path) -> Option<Self> {
        let google = |root: &&Path| root.ends_with("gtests/net/tcp");
        let own = own_scripts();
        let (root, name) = match folder.ancestors().find(google) {
            Some(root) => (root.to_owned(), "google"),
            None if folder.starts_with(&own) => (own, "own"),
            None => return None,
        };
        let suffix = player.list_suffix()?;
        let results = Path::new(env!("CARGO_MANIFEST_DIR")).join("results");
        let with_packetdrill = matches!(player, Player::Packetdrill(_)) && name == "own";
        let by = if with_packetdrill { "-packetdrill" } else { "" };
        Some(Self { root, list: results.join(format!("{name}{by}{suffix}.txt")) })
    }
}

/// Prints a line for each script, and the sums.
fn print(options: &Options, played: &Vec<(String, Outcome)>) {
    let count = |word| played.iter().filter(|(_, outcome)| outcome.word() == word).count();
    let (passed, failed, skipped) = (count("pass"), count("fail"), count("skip"));
    for (name, outcome) in played {
        let (word, why) = (outcome.word(), outcome.reason());
        if options.json {
            let line = serde_json::json!({"script": name, "outcome": word, "reason": why});
            println!("{line}");
        } else {
            let colon = if why.is_empty() { "" } else { ": " };
            println!("{} {name}{colon}{why}", if word == "fail" { "FAIL" } else { word });
        }
    }
    if options.json {
        let line = serde_json::json!({"passed": passed, "failed": failed, "skipped": skipped});
        println!("{line}");
    } else {
        println!("{passed} passed, {failed} failed, {skipped} skipped");
    }
}

/// Compares with the list of `collection`, and writes the list on request. Returns true if no
/// result is worse.
fn compare(
    options: &Options,
    collection: &Collection,
    played: &[(String, Outcome)],
    whole: bool,
) -> io::Result<bool> {
    let list = &collection.list;
    let text = match fs::read_to_string(list) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error),
    };
    let mut results = Results::parse(&text);
    let comparison = Comparison::of(&results, played, whole);
    let file = list.file_name().unwrap_or_default().display();
    for line in &comparison.worse {
        eprintln!("worse than in {file}: {line}");
    }
    for line in comparison.better.iter().chain(&comparison.changed) {
        eprintln!("not as in {file}: {line}");
    }
    if options.update {
        results.update(played, whole);
        fs::write(list, results.to_string())?;
        eprintln!("{file} is written; what is worse is in it as before");
    } else if !comparison.better.is_empty() || !comparison.changed.is_empty() {
        eprintln!("to have this in the list: make conformance CONFORMANCE=--update, commit {file}");
    } else if comparison.worse.is_empty() {
        eprintln!("as in {file}");
    }
    Ok(comparison.worse.is_empty())
}
