//! From `tasuki lab EXPERIMENT…` to `tasuki-bench lab`, the program that measures.

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use lab::plan::LabOptions;

use crate::exit::{Code, Failure};

/// The program that measures.
const BENCH: &str = "tasuki-bench";
/// Words before those of the measurement: `tasuki lab`.
const BEFORE: usize = 2;

/// Becomes the program that measures. It gets the same words, which were checked here.
///
/// # Errors
/// [`Code::Usage`] when options do not fit together, [`Code::NotFound`] without the program.
pub(super) fn become_bench(options: &LabOptions) -> Result<u8, Failure> {
    options.check().map_err(|sentence| {
        Failure::new(Code::Usage, format!("{sentence}; see `tasuki lab --help`"))
    })?;
    let me = std::env::current_exe()
        .map_err(|error| Failure::system("find the path of this program", error))?;
    let bench = find_bench(&me, std::env::var_os("TASUKI_BENCH").map(PathBuf::from))?;
    let mut command = Command::new(&bench);
    // The command that is measured is this one.
    command.arg("lab").arg(format!("--tasuki={}", me.display()));
    let error = command.args(std::env::args_os().skip(BEFORE)).exec();
    let sentence = format!("cannot execute {}: {error}", bench.display());
    Err(Failure::new(Code::NotExecutable, sentence))
}

/// The given one, else beside the command, or where `make install` puts it.
fn find_bench(me: &Path, given: Option<PathBuf>) -> Result<PathBuf, Failure> {
    if let Some(given) = given {
        return Ok(given);
    }
    let directory = me.parent().unwrap_or(Path::new("/"));
    let beside = directory.join(BENCH);
    let installed = directory.parent().map(|up| up.join("lib/tasuki").join(BENCH));
    let all = [Some(beside.clone()), installed.clone()];
    all.into_iter().flatten().find(|path| path.is_file()).ok_or_else(|| {
        let sentence = format!(
            "the program that measures, {BENCH}, is neither {} nor {}: `make build` builds it, \
             `make install` installs it, and TASUKI_BENCH can say where it is",
            beside.display(),
            installed.unwrap_or_default().display()
        );
        Failure::new(Code::NotFound, sentence)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_beside_the_command_or_installed() {
        let directory = tempfile::tempdir().unwrap();
        let place = |path: &str| directory.path().join(path);
        std::fs::create_dir_all(place("bin")).unwrap();
        std::fs::create_dir_all(place("lib/tasuki")).unwrap();
        let me = place("bin/tasuki");
        let missing = find_bench(&me, None).unwrap_err();
        assert_eq!(missing.code, Code::NotFound);
        assert!(missing.sentence.contains("make build"), "{missing}");
        for path in ["lib/tasuki/tasuki-bench", "bin/tasuki-bench"] {
            std::fs::write(place(path), "").unwrap();
            assert_eq!(find_bench(&me, None).unwrap(), place(path));
        }
        assert_eq!(find_bench(&me, Some(place("x"))).unwrap(), place("x"));
    }
}
