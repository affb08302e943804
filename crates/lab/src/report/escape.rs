//! Text out of a results file inside of HTML, SVG and a script.

/// As text or as the value of an attribute in quotes.
pub(super) fn text(raw: &str) -> String {
    let mut safe = String::with_capacity(raw.len());
    for c in raw.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            // No control character but white space may stand in XML.
            c if c.is_control() && !c.is_ascii_whitespace() => safe.push('\u{fffd}'),
            c => safe.push(c),
        }
    }
    safe
}

/// JSON inside of a script element: nothing in it ends the element or begins a comment.
pub(super) fn json(raw: &str) -> String {
    raw.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}
