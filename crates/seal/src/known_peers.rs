//! The file of known peers, like ssh's `known_hosts`: which key belongs to which address.
//!
//! ```text
//! # address        fingerprint                                         comment
//! 10.9.0.2:3260    SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU  disks, seen 2026-11-25
//! ```
//!
//! A line has an address, a fingerprint and a comment, with spaces or tabs between. Empty lines and
//! those that begin with `#` mean nothing. An address may have several lines; any of their keys is
//! known. The address is compared letter by letter, upper and lower case being the same. The shell
//! reads and writes the file; this module parses and judges.

use crate::fingerprint::{BadFingerprint, Fingerprint};

/// Most bytes of a file.
pub const MAX_FILE: usize = 4 << 20;
/// Most bytes of an address: a DNS name, brackets and a port.
pub const MAX_ADDRESS: usize = 300;

/// A line of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownPeer {
    address: String,
    fingerprint: Fingerprint,
    comment: String,
    line: usize,
}

impl KnownPeer {
    /// The peer's address, as it is in the file.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The fingerprint of the peer's key.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// All after the fingerprint, without spaces around it.
    pub fn comment(&self) -> &str {
        &self.comment
    }

    /// The number of the line, counted from 1.
    pub fn line(&self) -> usize {
        self.line
    }
}

/// A file or line that is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KnownPeersError {
    /// The file is too long.
    #[error("the file has {len} bytes, more than {MAX_FILE}")]
    FileTooLong {
        /// Bytes of the file.
        len: usize,
    },
    /// A line has no fingerprint.
    #[error("line {line} has an address and no fingerprint: write ADDRESS SHA256:… COMMENT")]
    NoFingerprint {
        /// The number of the line, counted from 1.
        line: usize,
    },
    /// A line's second word is no fingerprint.
    #[error("line {line}: {error}")]
    BadFingerprint {
        /// The number of the line, counted from 1.
        line: usize,
        /// What is wrong with it.
        error: BadFingerprint,
    },
    /// An address is empty, too long, or has a space or control character in it, or begins with #.
    #[error("{address:?} cannot stand for an address in a file of known peers")]
    BadAddress {
        /// The address.
        address: String,
    },
    /// A comment has a control character in it, such as the end of a line.
    #[error("a comment must be one line without control characters")]
    BadComment,
}

/// What the file says of a peer's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judgement<'a> {
    /// The file has this key for this address.
    Known(&'a KnownPeer),
    /// The file has no key for this address.
    Unknown,
    /// The file has another key for this address. Somebody else may be answering there.
    Changed {
        /// The first line of this address.
        known: &'a KnownPeer,
    },
}

/// A parsed file of known peers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KnownPeers {
    peers: Vec<KnownPeer>,
}

impl KnownPeers {
    /// Parses a file of at most [`MAX_FILE`] bytes.
    ///
    /// # Errors
    /// The first line that is wrong. A file with a wrong line is refused as a whole: a line that
    /// was meant to pin a key must not be passed over.
    pub fn parse(text: &str) -> Result<Self, KnownPeersError> {
        if text.len() > MAX_FILE {
            return Err(KnownPeersError::FileTooLong { len: text.len() });
        }
        let mut peers = Vec::new();
        for (index, content) in text.lines().enumerate() {
            let content = content.trim();
            if content.is_empty() || content.starts_with('#') {
                continue;
            }
            let line = index + 1;
            let (address, rest) = content
                .split_once(char::is_whitespace)
                .ok_or(KnownPeersError::NoFingerprint { line })?;
            let rest = rest.trim_start();
            let (fingerprint, comment) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
            let fingerprint = fingerprint.parse();
            let fingerprint =
                fingerprint.map_err(|error| KnownPeersError::BadFingerprint { line, error })?;
            check_address(address)?;
            let (address, comment) = (address.to_owned(), comment.trim().to_owned());
            peers.push(KnownPeer { address, fingerprint, comment, line });
        }
        Ok(Self { peers })
    }

    /// All lines, in their order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &KnownPeer> {
        self.peers.iter()
    }

    /// What the file says of the key that answered at `address`.
    pub fn judge(&self, address: &str, fingerprint: Fingerprint) -> Judgement<'_> {
        let mut same = self.peers.iter().filter(|peer| peer.address.eq_ignore_ascii_case(address));
        let Some(first) = same.next() else { return Judgement::Unknown };
        if first.fingerprint == fingerprint {
            return Judgement::Known(first);
        }
        match same.find(|peer| peer.fingerprint == fingerprint) {
            Some(peer) => Judgement::Known(peer),
            None => Judgement::Changed { known: first },
        }
    }

    /// The first line with this key, whatever its address: for a server, whose clients come from
    /// anywhere.
    pub fn find(&self, fingerprint: Fingerprint) -> Option<&KnownPeer> {
        self.peers.iter().find(|peer| peer.fingerprint == fingerprint)
    }
}

fn check_address(address: &str) -> Result<(), KnownPeersError> {
    let sound = (1..=MAX_ADDRESS).contains(&address.len())
        && !address.starts_with('#')
        && !address.contains(|c: char| c.is_whitespace() || c.is_control());
    if sound { Ok(()) } else { Err(KnownPeersError::BadAddress { address: address.to_owned() }) }
}

/// The text of a file without the lines of `address`; all other lines stay as they are, also those
/// that cannot be read. This is for a peer whose key has changed rightly.
pub fn without_known_peer(text: &str, address: &str) -> String {
    let kept = text.split_inclusive('\n').filter(|line| {
        let first = line.split_whitespace().next();
        // A comment has no address.
        first.is_none_or(|first| first.starts_with('#') || !first.eq_ignore_ascii_case(address))
    });
    kept.collect()
}

/// A line for the file, with its end.
///
/// # Errors
/// [`KnownPeersError::BadAddress`] and [`KnownPeersError::BadComment`] for what would not be read
/// back as it is.
pub fn known_peer_line(
    address: &str,
    fingerprint: Fingerprint,
    comment: &str,
) -> Result<String, KnownPeersError> {
    check_address(address)?;
    if comment.contains(char::is_control) {
        return Err(KnownPeersError::BadComment);
    }
    let line = format!("{address} {fingerprint} {}", comment.trim());
    Ok(format!("{}\n", line.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fingerprint(of: &str) -> Fingerprint {
        Fingerprint::of_public_key(of.as_bytes())
    }

    fn file() -> String {
        let (a, b, c) = (fingerprint("a"), fingerprint("b"), fingerprint("c"));
        format!(
            "# comment\n\n10.9.0.2:3260 {a} disks, old\r\n  disks.example:3260\t{b}\n\
             10.9.0.2:3260   {c}   disks,  new \n[2001:db8::1]:3260 {a}"
        )
    }

    #[test]
    fn peers_are_judged() {
        let known = KnownPeers::parse(&file()).unwrap();
        let (a, b, c) = (fingerprint("a"), fingerprint("b"), fingerprint("c"));
        let lines: Vec<usize> = known.iter().map(KnownPeer::line).collect();
        assert_eq!(lines, [3, 4, 5, 6]);
        let line = |judgement| match judgement {
            Judgement::Known(peer) => Some(peer.line()),
            _ => None,
        };
        assert_eq!(line(known.judge("10.9.0.2:3260", a)), Some(3));
        assert_eq!(line(known.judge("10.9.0.2:3260", c)), Some(5));
        assert_eq!(line(known.judge("DISKS.example:3260", b)), Some(4));
        assert_eq!(line(known.judge("[2001:DB8::1]:3260", a)), Some(6));
        let first = known.iter().next().unwrap();
        assert_eq!(known.judge("10.9.0.2:3260", b), Judgement::Changed { known: first });
        assert_eq!(known.judge("10.9.0.2", a), Judgement::Unknown);
        assert_eq!(known.judge("10.9.0.2:860", a), Judgement::Unknown);
        assert_eq!((first.comment(), first.address()), ("disks, old", "10.9.0.2:3260"));
        assert_eq!(known.iter().nth(2).unwrap().comment(), "disks,  new");
        assert_eq!(known.find(c).map(KnownPeer::line), Some(5));
        assert_eq!(known.find(fingerprint("d")), None);
        assert_eq!(KnownPeers::parse("").unwrap(), KnownPeers::default());
    }

    #[test]
    fn a_wrong_line_spoils_the_file() {
        use KnownPeersError as Bad;
        let right = fingerprint("a");
        let error = BadFingerprint;
        let long = "a".repeat(MAX_ADDRESS + 1);
        let cases = [
            ("10.9.0.2".to_owned(), Bad::NoFingerprint { line: 1 }),
            (format!("\n10.9.0.2 x{right}"), Bad::BadFingerprint { line: 2, error }),
            (format!("10.9.0.2 {right}, comment"), Bad::BadFingerprint { line: 1, error }),
            (format!("{right} 10.9.0.2"), Bad::BadFingerprint { line: 1, error }),
            (format!("{long} {right}"), Bad::BadAddress { address: long }),
            (format!("a\u{7}b {right}"), Bad::BadAddress { address: "a\u{7}b".into() }),
        ];
        for (text, expected) in cases {
            assert_eq!(KnownPeers::parse(&text), Err(expected), "{text:?}");
        }
        let len = MAX_FILE + 1;
        assert_eq!(KnownPeers::parse(&"#".repeat(len)), Err(Bad::FileTooLong { len }));
    }

    #[test]
    fn a_peer_is_removed() {
        let text = file();
        let without = without_known_peer(&text, "10.9.0.2:3260");
        let known = KnownPeers::parse(&without).unwrap();
        assert_eq!(known.judge("10.9.0.2:3260", fingerprint("a")), Judgement::Unknown);
        assert_eq!(known.iter().count(), 2);
        // The comment and the empty line are where they were.
        assert!(without.starts_with("# comment\n\n  disks"));
        assert_eq!(without_known_peer(&text, "10.9.0.2"), text);
        assert_eq!(without_known_peer("# b\n#", "#"), "# b\n#");
        let last = without_known_peer(&text, "[2001:DB8::1]:3260");
        assert!(last.ends_with("new \n"), "{last:?}");
    }

    #[test]
    fn lines_are_read_back() {
        let key = fingerprint("a");
        for comment in ["", "disks, seen 2026-11-25", " spaces "] {
            let line = known_peer_line("[fe80::1]:3260", key, comment).unwrap();
            let known = KnownPeers::parse(&format!("{line}{line}")).unwrap();
            let peer = known.iter().next_back().unwrap();
            assert_eq!((peer.line(), peer.comment()), (2, comment.trim()));
            assert_eq!(known.judge("[fe80::1]:3260", key), Judgement::Known(&known.peers[0]));
        }
        for address in ["", "a b", "#a", "a\nb", &"a".repeat(MAX_ADDRESS + 1)] {
            let address = address.to_owned();
            let line = known_peer_line(&address, key, "");
            assert_eq!(line, Err(KnownPeersError::BadAddress { address }));
        }
        let line = known_peer_line("a", key, "b\n10.9.0.2 SHA256:x");
        assert_eq!(line, Err(KnownPeersError::BadComment));
    }
}
