//! The page: one document with its style and its script inside.
//!
//! The parts are files of their own in the source, and one text in the executable. The policy names
//! the hashes of both, so a browser runs nothing else, and asks for nothing but this server.

use base64ct::{Base64, Encoding as _};
use bytes::Bytes;
use sha2::{Digest as _, Sha256};

const BODY: &str = include_str!("page/body.html");
/// The page's own rules come behind those of the library, which they change.
const STYLE: &str =
    concat!(include_str!("page/uplot/uPlot.min.css"), "\n", include_str!("page/style.css"));
/// In the order of their use: a part uses those above. The library comes with its licence.
const SCRIPT: &str = concat!(
    "(() => {\n\"use strict\";\n/*\n",
    include_str!("page/uplot/LICENSE"),
    "*/\n",
    include_str!("page/uplot/uPlot.iife.min.js"),
    include_str!("page/base.js"),
    include_str!("page/history.js"),
    include_str!("page/plot.js"),
    include_str!("page/drawing.js"),
    include_str!("page/connections.js"),
    include_str!("page/counters.js"),
    include_str!("page/recording.js"),
    include_str!("page/main.js"),
    include_str!("page/selftest.js"),
    "})();\n"
);

/// The document and its policy.
pub(super) struct WebPage {
    pub(super) html: Bytes,
    /// For the header Content-Security-Policy.
    pub(super) policy: String,
}

impl WebPage {
    /// Puts it together.
    pub(super) fn new() -> Self {
        let html = format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <link rel=\"icon\" href=\"data:,\">\n<title>Tasuki</title>\n<style>{STYLE}</style>\n\
             </head>\n<body>\n{BODY}<script>{SCRIPT}</script>\n</body>\n</html>\n"
        );
        let policy = format!(
            "default-src 'none'; style-src {}; script-src {}; connect-src 'self'; img-src data:; \
             base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
            hash(STYLE),
            hash(SCRIPT)
        );
        Self { html: html.into(), policy }
    }
}

/// As a policy names what is inside of the page.
fn hash(content: &str) -> String {
    format!("'sha256-{}'", Base64::encode_string(&Sha256::digest(content)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_whole_and_asks_for_nothing_else() {
        let page = WebPage::new();
        let html = std::str::from_utf8(&page.html).unwrap();
        assert!(html.ends_with("</html>\n") && page.policy.contains("sha256-"));
        // The library names its source in a comment.
        let html = html.replacen("/*! https://github.com/leeoniya/uPlot (v", "", 1);
        for outside in ["https://", "src=", "@import", "url(http", "eval(", "new Function"] {
            assert!(!html.contains(outside), "{outside}");
        }
        // Names are put into the page as text.
        for markup in ["innerHTML", "insertAdjacentHTML", "document.write", "outerHTML ="] {
            assert!(!SCRIPT.contains(markup), "{markup}");
        }
        // Style attributes and handlers in the markup are not allowed by the policy.
        assert!(!BODY.contains("style=") && !BODY.contains(" onclick"));
        assert!(!STYLE.contains("</") && !SCRIPT.contains("</script"));
    }

    #[test]
    fn the_library_is_that_of_the_registry() {
        let read_me = include_str!("page/uplot/README.md");
        let library = include_str!("page/uplot/uPlot.iife.min.js");
        for (name, content) in [
            ("uPlot.iife.min.js", library),
            ("uPlot.min.css", include_str!("page/uplot/uPlot.min.css")),
            ("LICENSE", include_str!("page/uplot/LICENSE")),
        ] {
            let hash = hash(content);
            assert!(
                read_me.contains(&format!("| {name} | {} |", hash.trim_matches('\''))),
                "{hash}"
            );
        }
        let (_, version) = library.split_once("uPlot (v").unwrap();
        let (version, _) = version.split_once(')').unwrap();
        assert!(read_me.contains(&format!("uPlot) {version}, ")), "{version}");
    }

    #[test]
    fn parts_fit_a_sitting() {
        for part in [BODY, STYLE] {
            assert!(part.lines().count() <= 600);
        }
    }
}
