//! Files that are written whole or not at all.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;

use crate::exit::Failure;

/// Replaces a file: whoever reads it finds the earlier content or this one.
///
/// # Errors
/// [`Failure::output`]. The earlier content is still there.
pub fn replace(path: &Path, content: &[u8]) -> Result<(), Failure> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let beside = path.with_file_name(format!(".{name}.new"));
    // One that was left behind, or a link that another user has made.
    let _ = fs::remove_file(&beside);
    let written = File::create_new(&beside)
        .and_then(|mut file| file.write_all(content))
        .and_then(|()| fs::rename(&beside, path));
    written.map_err(|error| {
        // What was written of it is of no use.
        let _ = fs::remove_file(&beside);
        Failure::output(path.display(), error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_and_no_link_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        let [path, beside, other] =
            ["a.json", ".a.json.new", "other"].map(|it| folder.path().join(it));
        fs::write(&other, "of somebody else").unwrap();
        std::os::unix::fs::symlink(&other, &beside).unwrap();
        for content in ["one", "two"] {
            replace(&path, content.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), content);
        }
        assert_eq!(fs::read_to_string(&other).unwrap(), "of somebody else");
        assert!(!beside.exists());
    }

    #[test]
    fn what_cannot_be_written_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("taken");
        fs::create_dir(&place).unwrap();
        fs::write(place.join("file"), "").unwrap();
        assert!(replace(&place, b"content").is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
