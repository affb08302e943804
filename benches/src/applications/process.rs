//! Running a program to its end, with both outputs kept in files.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

/// How often we look whether it is over.
const LOOK: Duration = Duration::from_millis(5);
/// How long a program may take to end after SIGTERM.
const ENDING: Duration = Duration::from_secs(5);
/// Lines of an output that an error shows.
const SHOWN: usize = 6;

/// The output of a command that ends within `patience`. A failure shows its last lines.
pub(crate) fn output_of(
    command: &mut Command,
    folder: &Path,
    patience: Duration,
) -> Result<String> {
    let (out, err) = (folder.join("client.out"), folder.join("client.err"));
    command.stdin(Stdio::null()).stdout(File::create(&out)?).stderr(File::create(&err)?);
    let mut child = command.spawn().with_context(|| format!("starting {command:?}"))?;
    let status = waited(&mut child, patience)?;
    let said = String::from_utf8_lossy(&fs::read(&out)?).into_owned();
    let complaints = String::from_utf8_lossy(&fs::read(&err)?).into_owned();
    let shown = if complaints.trim().is_empty() { &said } else { &complaints };
    let shown = last_lines(shown);
    let Some(status) = status else {
        end(&mut child)?;
        bail!("no end after {patience:?}: {shown}");
    };
    if !status.success() {
        bail!("it ended with {status}: {shown}");
    }
    Ok(said)
}

/// Waits for its end. `None`: there was none.
fn waited(child: &mut Child, patience: Duration) -> Result<Option<std::process::ExitStatus>> {
    let began = Instant::now();
    loop {
        match child.try_wait()? {
            None if began.elapsed() < patience => sleep(LOOK),
            status => return Ok(status),
        }
    }
}

/// Ends a program. `tasuki run` ends its program and servers on request, so it gets the time.
pub(crate) fn end(child: &mut Child) -> Result<()> {
    // It may have ended already.
    let _ = Command::new("kill").arg(child.id().to_string()).stderr(Stdio::null()).status();
    if waited(child, ENDING)?.is_none() {
        child.kill()?;
        child.wait()?;
    }
    Ok(())
}

/// The end of an output, in one line.
pub(crate) fn last_lines(said: &str) -> String {
    let lines: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(SHOWN)..];
    if last.is_empty() { "nothing".to_owned() } else { last.join(" | ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_shows_what_the_program_said() {
        let folder = std::env::temp_dir();
        let run = |script: &str, millis| {
            let patience = Duration::from_millis(millis);
            let folder = folder.join(format!("tb-process-{}-{millis}", std::process::id()));
            fs::create_dir_all(&folder).unwrap();
            let said = output_of(Command::new("sh").args(["-c", script]), &folder, patience);
            fs::remove_dir_all(&folder).unwrap();
            said.map_err(|error| error.to_string())
        };
        assert_eq!(run("echo fine; echo less >&2", 60_000), Ok("fine\n".to_owned()));
        let failed = run("echo why >&2; exit 3", 60_001).unwrap_err();
        assert!(failed.contains("exit status: 3: why"), "{failed}");
        let failed = run("echo waiting; exec sleep 1000", 500).unwrap_err();
        assert!(failed.starts_with("no end after 500ms"), "{failed}");
    }
}
