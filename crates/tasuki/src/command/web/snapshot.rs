//! A snapshot: the state of an instance as the page shows it, encoded once for all viewers.

use std::collections::VecDeque;

use abi::control::{InstanceStatus, SocketStatus};
use bytes::Bytes;
use serde::Serialize;

use super::events::Event;
use crate::exit::Failure;

/// The JSON of /api/snapshot, and of each event of /api/events.
#[derive(Serialize)]
pub(super) struct Snapshot<'a> {
    /// Counts snapshots.
    pub(super) number: u64,
    /// Milliseconds since 1970.
    pub(super) at_ms: u64,
    /// Time to the next one.
    pub(super) interval_ms: u64,
    /// How long the instance took to answer.
    pub(super) asked_us: u64,
    /// Name of the instance.
    pub(super) instance: &'a str,
    /// `null` while it does not run.
    pub(super) status: Option<&'a InstanceStatus>,
    pub(super) sockets: &'a [SocketStatus],
    /// The instance has more sockets than these.
    pub(super) more_sockets: bool,
    pub(super) events: &'a VecDeque<Event>,
}

/// An encoded snapshot.
#[derive(Debug, Clone, Default)]
pub(super) struct Encoded {
    text: Bytes,
    /// Where the JSON is in it.
    json: std::ops::Range<usize>,
}

impl Encoded {
    /// Encodes a snapshot.
    pub(super) fn new(snapshot: &Snapshot<'_>) -> Result<Self, Failure> {
        let failed = |error| Failure::system("encode a snapshot", error);
        let mut text = Vec::from(format!("id: {}\ndata: ", snapshot.number));
        let begin = text.len();
        // The encoder writes control characters as escapes: the JSON is one line.
        serde_json::to_writer(&mut text, snapshot).map_err(failed)?;
        let json = begin..text.len();
        text.extend_from_slice(b"\n\n");
        Ok(Self { text: text.into(), json })
    }

    /// As JSON.
    pub(super) fn json(&self) -> Bytes {
        self.text.slice(self.json.clone())
    }

    /// As a server-sent event; empty before the first snapshot.
    pub(super) fn event(&self) -> Bytes {
        self.text.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::super::events::tests::{process, status};
    use super::super::events::{Event, EventKind};
    use super::*;

    #[test]
    fn an_event_is_one_line_of_json() {
        let mut status = status(vec![process("supervisor", 1, None)]);
        status.instance = "line\nfeed".to_owned();
        let event = Event { at_ms: 1, kind: EventKind::ProgramCame, text: "a\r\nb".to_owned() };
        let snapshot = Snapshot {
            number: 3,
            at_ms: 2,
            interval_ms: 500,
            asked_us: 100,
            instance: "web",
            status: Some(&status),
            sockets: &[],
            more_sockets: false,
            events: &VecDeque::from([event]),
        };
        let encoded = Encoded::new(&snapshot).unwrap();
        let text = String::from_utf8(encoded.event().to_vec()).unwrap();
        assert!(text.starts_with("id: 3\ndata: {") && text.ends_with("}\n\n"), "{text}");
        assert_eq!(text.lines().count(), 3);
        let json: serde_json::Value = serde_json::from_slice(&encoded.json()).unwrap();
        assert_eq!(json["status"]["processes"][0]["pid"], 1);
        assert_eq!(json["events"][0]["kind"], "program-came");
        let page = include_str!("../../../../../docs/reference/web.md");
        for key in json.as_object().unwrap().keys() {
            assert!(page.contains(&format!("`{key}`")), "docs/reference/web.md has no {key}");
        }
    }
}
