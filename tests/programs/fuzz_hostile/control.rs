//! Nonsense for the supervisor, by processes that are no clients or more than one.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

use abi::control::{ClientRequest, VERSION};
use shm::Channel;

use crate::member::{Member, connect};
use crate::random::Random;

/// Garbage, a part of a message, a huge length or nothing on fresh connections, which are closed at
/// once, later or when the process ends.
pub(crate) fn garbage(socket: &str, random: &mut Random, kept: &mut Vec<UnixStream>) -> String {
    let count = random.pick(&[1, 1, 4, 30, 300]);
    let kind = random.below(6);
    for _ in 0..count {
        let Ok(mut line) = UnixStream::connect(socket) else { continue };
        let hello = br#"{"request":"hello","version":5,"program":"#;
        let bytes = match kind {
            0 => Vec::new(),
            1 => {
                let len = 1 + random.below(100);
                random.bytes(len)
            }
            2 => [&(hello.len() as u32 + 90).to_le_bytes(), &[0; 4][..], &hello[..]].concat(),
            3 => [&(random.word(4 << 20) as u32).to_le_bytes()[..], &[0; 4]].concat(),
            4 => [&(4_u32 << 20).to_le_bytes()[..], &[0; 4], &[b' '; 60_000]].concat(),
            _ => vec![random.next() as u8; 7],
        };
        // The supervisor may have closed it.
        let _ = line.set_nonblocking(true);
        let _ = line.write(&bytes);
        if random.one_in(3) {
            kept.push(line);
        } else if random.one_in(2) {
            let _ = line.read(&mut [0; 64]);
        }
    }
    if kept.len() > 600 {
        kept.clear();
    }
    format!("{count} connections of kind {kind}")
}

/// A flood of greetings: more memberships of this process, some kept, most left at once.
pub(crate) fn hellos(socket: &str, random: &mut Random, kept: &mut Vec<Member>) -> String {
    let count = random.pick(&[1, 3, 20]);
    let mut admitted = 0;
    for _ in 0..count {
        if let Some(member) = Member::admit(socket) {
            admitted += 1;
            if random.one_in(4) {
                kept.push(member);
            }
        }
    }
    if kept.len() > 12 {
        kept.clear();
    }
    format!("{admitted} of {count} memberships")
}

/// A request that operators make, and its reply unread or read in part.
pub(crate) fn question(line: Option<&mut Channel>, socket: &str, random: &mut Random) -> String {
    let requests = [
        ClientRequest::Ps,
        ClientRequest::Ss { info: true, from: 0 },
        ClientRequest::Ss { info: false, from: random.next() as usize },
        ClientRequest::Network,
        ClientRequest::Trace { on: random.one_in(2), marks: 9 },
        // These are an operator's, and refused on the socket of programs.
        ClientRequest::Down,
        ClientRequest::Capture { snaplen: random.next() as u32, interface: None },
        ClientRequest::AttachThread,
        ClientRequest::Hello { version: VERSION, program: "again".repeat(random.below(2000)) },
        ClientRequest::Hello { version: random.next() as u32, program: String::new() },
    ];
    let request = &requests[random.below(requests.len())];
    let body = serde_json::to_vec(request).expect("a request is plain data");
    let mut fresh = None;
    let line = match line {
        Some(line) => line,
        None => match connect(socket) {
            Some(line) => fresh.insert(line),
            None => return "no connection".to_owned(),
        },
    };
    let count = random.pick(&[1, 1, 3, 200]);
    let mut sent = 0;
    while sent < count && line.post(&body, &[]).is_ok() {
        sent += 1;
    }
    let name = String::from_utf8_lossy(&body[..body.len().min(60)]).into_owned();
    format!("{name} {sent} of {count} times")
}
