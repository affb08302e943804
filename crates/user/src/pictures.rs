//! Pictures of pixels (PNG) of drawings (SVG), beside them.
//!
//! rsvg-convert of librsvg draws them, where it is installed: a renderer of our own would be most
//! of what is built.

use std::io;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The program.
const PROGRAM: &str = "rsvg-convert";
/// Pixels for each of the drawing's own.
const ZOOM: &str = "2";

/// Why there is no picture.
#[derive(Debug, thiserror::Error)]
pub enum PictureError {
    /// The program is not there.
    #[error(
        "no PNG beside the plots: rsvg-convert is not installed (package librsvg2-bin); the page \
         saves one of each plot"
    )]
    NotInstalled,
    /// It does not start.
    #[error("no PNG beside the plots: rsvg-convert: {0}")]
    Start(#[from] io::Error),
    /// It has failed.
    #[error("no PNG of {}: rsvg-convert says: {said}", .drawing.display())]
    Failed {
        /// The drawing.
        drawing: PathBuf,
        /// What it says.
        said: String,
    },
}

/// Makes a picture `NAME.png` of each drawing `NAME.svg`, as many at a time as there are
/// processors: some twenty a second.
///
/// # Errors
/// That of one that could not be made. Others are made all the same.
pub fn png_beside(drawings: &[PathBuf]) -> Result<(), PictureError> {
    let next = AtomicUsize::new(0);
    let work = || -> Result<(), PictureError> {
        let mut all = Ok(());
        while let Some(drawing) = drawings.get(next.fetch_add(1, Ordering::Relaxed)) {
            match draw(drawing) {
                Err(PictureError::NotInstalled) => return Err(PictureError::NotInstalled),
                one => all = all.and(one),
            }
        }
        all
    };
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let started: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        let ended = started
            .into_iter()
            .map(|worker| worker.join().unwrap_or_else(|panic| resume_unwind(panic)));
        ended.fold(Ok(()), Result::and)
    })
}

/// Makes one. The program has no name of a file, so whatever it is called is no option.
fn draw(drawing: &Path) -> Result<(), PictureError> {
    let beside = drawing.with_extension("png.new");
    let output = std::fs::File::create(&beside)?;
    let ended = Command::new(PROGRAM)
        .args(["--zoom", ZOOM])
        .stdin(std::fs::File::open(drawing)?)
        .stdout(output)
        .stderr(Stdio::piped())
        .output();
    let failed = match ended {
        Ok(ended) if ended.status.success() => {
            return Ok(std::fs::rename(&beside, drawing.with_extension("png"))?);
        }
        Ok(ended) => PictureError::Failed {
            drawing: drawing.to_path_buf(),
            said: String::from_utf8_lossy(&ended.stderr).trim().replace('\n', " "),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => PictureError::NotInstalled,
        Err(error) => error.into(),
    };
    // What there is of it is of no use.
    let _ = std::fs::remove_file(&beside);
    Err(failed)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;

    use super::*;

    #[test]
    fn drawings_have_pictures_beside_them() {
        if Command::new(PROGRAM).arg("--version").output().is_err() {
            // The macros' output would be captured by the test runner.
            let _ = std::io::stderr().write_all(b"SKIP: rsvg-convert is not installed\n");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let drawing = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 30 20\" \
                       width=\"30\" height=\"20\"><rect width=\"9\" height=\"9\"/></svg>";
        let names = ["a.svg", "--help.svg", "c d.svg"];
        let paths: Vec<PathBuf> = names.iter().map(|name| folder.path().join(name)).collect();
        for path in &paths {
            fs::write(path, drawing).unwrap();
        }
        png_beside(&paths).unwrap();
        for path in &paths {
            let picture = fs::read(path.with_extension("png")).unwrap();
            assert!(picture.starts_with(b"\x89PNG\r\n"));
            // Width and height in the header.
            assert_eq!(picture[16..24], [0, 0, 0, 60, 0, 0, 0, 40]);
        }
        fs::write(&paths[1], "no drawing").unwrap();
        let failed = png_beside(&paths).unwrap_err().to_string();
        assert!(failed.contains("--help.svg") && failed.lines().count() == 1, "{failed}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 6, "half a picture is left");
    }
}
