//! Documents: every page can be found, every link leads somewhere.

use crate::tree::{complain, files, read, root};

/// A reader who starts at README.md or ARCHITECTURE.md finds every page.
#[test]
fn every_document_can_be_found() {
    let start = ["README.md", "ARCHITECTURE.md"].map(read).concat();
    let mut complaints = Vec::new();
    for page in files("docs", &[".md"]) {
        if !start.contains(&page) {
            complaints.push(format!("{page} is linked neither from README.md nor ARCHITECTURE.md"));
        }
    }
    for file in ["CONTRIBUTING.md", "CHANGELOG.md"] {
        if !start.contains(file) {
            complaints.push(format!("{file} is linked neither from README.md nor ARCHITECTURE.md"));
        }
    }
    complain(&complaints);
}

/// Relative links lead somewhere.
#[test]
fn links_between_documents_hold() {
    let mut complaints = Vec::new();
    for page in files("", &[".md"]) {
        let text = read(&page);
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let target = link.split(['#', ' ']).next().unwrap_or_default();
            if target.is_empty() || target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let folder = root().join(&page);
            if !folder.parent().expect("a folder").join(target).exists() {
                complaints.push(format!("{page} links to {target}, which is not there"));
            }
        }
    }
    complain(&complaints);
}
