//! What is wrong with a file.

/// A file that is no results file, or not a whole one. The fault lies with the file: it was edited,
/// cut off, or written by another program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{reason}", prefix(path))]
pub struct InvalidResults {
    /// The field, such as `experiments[0].figures[2].series[0].points[3].x`. Empty: the whole file.
    pub path: String,
    /// What is wrong with it.
    pub reason: String,
}

fn prefix(path: &str) -> String {
    if path.is_empty() { String::new() } else { format!("{path}: ") }
}

impl InvalidResults {
    pub(super) fn new(path: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { path: path.into(), reason: reason.into() }
    }
}
