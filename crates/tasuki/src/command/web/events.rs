//! What happened to the processes of an instance: the difference of two of its answers.
//!
//! An instance keeps no such history. So the watcher sees what happens while somebody looks; what
//! happened in between shows as one difference at the next look.

use std::collections::{BTreeMap, VecDeque};

use abi::control::{InstanceStatus, ProcessStatus};
use serde::Serialize;

/// Events that are kept, the newest.
const MOST_KEPT: usize = 200;
/// Events out of one difference: programs may come and go by the thousand.
const MOST_AT_ONCE: usize = 50;

/// Counters whose growth is an event, and what it means.
const COUNTED: [(&str, EventKind, &str); 3] = [
    ("clients.faults", EventKind::Fault, "a program was dropped: it broke the rules"),
    ("nic.devices-lost", EventKind::DeviceLost, "a device is gone"),
    ("wire.peer-faults", EventKind::Fault, "the peer of a wire was dropped: it broke the rules"),
];

/// A kind of event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum EventKind {
    /// The first look at the instance.
    Seen,
    /// The instance runs again.
    Began,
    /// The instance has ended.
    Ended,
    /// A server has another process than before.
    Restarted,
    /// A program has joined.
    ProgramCame,
    /// A program has gone.
    ProgramWent,
    /// A party broke the rules and was dropped.
    Fault,
    /// A device is gone.
    DeviceLost,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Event {
    /// Milliseconds since 1970, when it was seen.
    pub(super) at_ms: u64,
    pub(super) kind: EventKind,
    /// What happened, in words.
    pub(super) text: String,
}

/// The events so far, and the answer that the next one is compared with.
#[derive(Default)]
pub(super) struct Events {
    kept: VecDeque<Event>,
    last: Option<LastSeen>,
    has_begun: bool,
}

/// The part of an answer that is compared.
struct LastSeen {
    supervisor: u32,
    servers: BTreeMap<String, u32>,
    programs: BTreeMap<(u16, u32), String>,
    counted: [u64; COUNTED.len()],
}

impl LastSeen {
    fn new(status: &InstanceStatus) -> Self {
        let of = |role: &'static str| status.processes.iter().filter(move |one| one.role == role);
        let servers = status.processes.iter().filter(|one| is_server(one));
        let programs = of("client");
        let counter = |name: &str| {
            let found = status.counters.iter().find(|(counter, _)| counter == name);
            found.map_or(0, |(_, value)| *value)
        };
        Self {
            supervisor: of("supervisor").map(|one| one.pid).next().unwrap_or(0),
            servers: servers.map(|one| (server_name(one), one.pid)).collect(),
            programs: programs
                .filter_map(|one| Some(((one.client?, one.pid), one.name.clone())))
                .collect(),
            counted: COUNTED.map(|(name, ..)| counter(name)),
        }
    }
}

fn is_server(process: &ProcessStatus) -> bool {
    !["supervisor", "client"].contains(&process.role.as_str())
}

fn server_name(process: &ProcessStatus) -> String {
    match process.role.as_str() {
        "inet" => "the inet server".to_owned(),
        "inet+nic" => format!("the inet server with the driver of {}", process.name),
        _ => format!("the driver of {}", process.name),
    }
}

impl Events {
    /// All that are kept, oldest first.
    pub(super) fn kept(&self) -> &VecDeque<Event> {
        &self.kept
    }

    /// The instance has answered.
    pub(super) fn answered(&mut self, at_ms: u64, status: &InstanceStatus) {
        let now = LastSeen::new(status);
        let mut found = Vec::new();
        match &self.last {
            Some(last) if last.supervisor == now.supervisor => differences(last, &now, &mut found),
            // A supervisor that is replaced between two looks ended meanwhile.
            last => {
                if last.is_some() {
                    found.push((EventKind::Ended, "the instance has ended".to_owned()));
                }
                let (kind, what) = match self.has_begun {
                    true => (EventKind::Began, "the instance runs again"),
                    false => (EventKind::Seen, "first look"),
                };
                let (mode, supervisor) = (&status.mode, now.supervisor);
                found.push((kind, format!("{what}: {mode}, supervisor is process {supervisor}")));
            }
        }
        self.has_begun = true;
        self.last = Some(now);
        let more = found.len().saturating_sub(MOST_AT_ONCE);
        for (kind, text) in found.into_iter().take(MOST_AT_ONCE) {
            self.keep(Event { at_ms, kind, text });
        }
        if more > 0 {
            let text = format!("{more} more programs came or went");
            self.keep(Event { at_ms, kind: EventKind::ProgramWent, text });
        }
    }

    /// The instance has ended. Says whether that is news.
    pub(super) fn ended(&mut self, at_ms: u64) -> bool {
        let is_news = self.last.take().is_some();
        if is_news {
            let text = "the instance has ended".to_owned();
            self.keep(Event { at_ms, kind: EventKind::Ended, text });
        }
        is_news
    }

    fn keep(&mut self, event: Event) {
        if self.kept.len() >= MOST_KEPT {
            self.kept.pop_front();
        }
        self.kept.push_back(event);
    }
}

fn differences(last: &LastSeen, now: &LastSeen, found: &mut Vec<(EventKind, String)>) {
    for (server, pid) in &now.servers {
        match last.servers.get(server) {
            Some(before) if before == pid => {}
            Some(before) => {
                let text = format!("{server} is process {pid} now; it was {before}");
                found.push((EventKind::Restarted, text));
            }
            None => found.push((EventKind::Restarted, format!("{server} is process {pid} now"))),
        }
    }
    for server in last.servers.keys().filter(|server| !now.servers.contains_key(*server)) {
        found.push((EventKind::Restarted, format!("{server} is gone")));
    }
    for (index, (_, kind, text)) in COUNTED.iter().enumerate() {
        if now.counted[index] > last.counted[index] {
            found.push((*kind, (*text).to_owned()));
        }
    }
    for (key, name) in last.programs.iter().filter(|(key, _)| !now.programs.contains_key(key)) {
        found.push((EventKind::ProgramWent, format!("{name} (process {}) has gone", key.1)));
    }
    for (key, name) in now.programs.iter().filter(|(key, _)| !last.programs.contains_key(key)) {
        found.push((EventKind::ProgramCame, format!("{name} (process {}) has joined", key.1)));
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::command::web) fn process(
        role: &str,
        pid: u32,
        client: Option<u16>,
    ) -> ProcessStatus {
        ProcessStatus {
            role: role.to_owned(),
            pid,
            name: if client.is_some() { "curl".to_owned() } else { "tap:tasuki0".to_owned() },
            client,
            memory: "4k".to_owned(),
            sandbox: None,
        }
    }

    pub(in crate::command::web) fn status(processes: Vec<ProcessStatus>) -> InstanceStatus {
        InstanceStatus {
            instance: "web".to_owned(),
            mode: "split".to_owned(),
            address: String::new(),
            addresses: Vec::new(),
            processes,
            pools: Vec::new(),
            counters: vec![("clients.faults".to_owned(), 1)],
            histograms: Vec::new(),
            parties: Vec::new(),
        }
    }

    fn kinds(events: &Events) -> Vec<EventKind> {
        events.kept.iter().map(|event| event.kind).collect()
    }

    #[test]
    fn programs_come_and_go_and_servers_change() {
        use EventKind::{Began, Ended, Fault, ProgramCame, ProgramWent, Restarted, Seen};
        let mut events = Events::default();
        let base = [process("supervisor", 1, None), process("inet", 2, None)];
        let with = |more: &[ProcessStatus]| status([&base[..], more].concat());
        events.answered(1, &with(&[]));
        events.answered(2, &with(&[]));
        assert_eq!(kinds(&events), [Seen]);
        events.answered(3, &with(&[process("client", 7, Some(0))]));
        // Another process with the same number.
        events.answered(4, &with(&[process("client", 8, Some(0))]));
        assert_eq!(kinds(&events)[1..], [ProgramCame, ProgramWent, ProgramCame]);
        let mut faulty = with(&[]);
        faulty.counters[0].1 = 2;
        events.answered(5, &faulty);
        assert_eq!(kinds(&events)[4..], [Fault, ProgramWent]);
        let mut other = faulty.clone();
        other.processes[1].pid = 9;
        events.answered(6, &other);
        assert_eq!(kinds(&events)[6..], [Restarted]);
        assert!(events.kept[6].text.contains("process 9 now; it was 2"), "{:?}", events.kept);
        assert!(events.ended(7) && !events.ended(8));
        other.processes[0].pid = 10;
        events.answered(9, &other);
        assert_eq!(kinds(&events)[7..], [Ended, Began]);
        assert!(events.kept[8].text.contains("again"), "{:?}", events.kept);
    }

    #[test]
    fn a_supervisor_replaced_between_two_looks_is_an_end_and_a_begin() {
        let mut events = Events::default();
        events.answered(1, &status(vec![process("supervisor", 1, None)]));
        events.answered(2, &status(vec![process("supervisor", 2, None)]));
        assert_eq!(kinds(&events)[1..], [EventKind::Ended, EventKind::Began]);
    }

    #[test]
    fn events_are_bounded() {
        let mut events = Events::default();
        let crowd = |first: u16| {
            let mut all = vec![process("supervisor", 1, None)];
            let clients = (first..first + 500).map(|at| process("client", u32::from(at), Some(at)));
            all.extend(clients);
            status(all)
        };
        events.answered(1, &crowd(0));
        events.answered(2, &crowd(500));
        assert_eq!(events.kept.len(), 1 + MOST_AT_ONCE + 1);
        assert!(events.kept.back().unwrap().text.starts_with("950 more"));
        (0..10).for_each(|round| events.answered(round, &crowd(1000 * (round as u16 % 2))));
        assert_eq!(events.kept.len(), MOST_KEPT);
    }
}
