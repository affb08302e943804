//! Random words in every structure of the region.

use abi::client::{QUEUE, REQUESTS, RESULTS};

use crate::member::Member;
use crate::random::Random;

/// The structures, each with the bytes that a random word may go to.
const STRUCTURES: [&str; 11] = [
    "head",
    "thread",
    "requests",
    "results",
    "news",
    "socket",
    "sending",
    "receiving",
    "tx-owners",
    "rx-owners",
    "anywhere",
];

/// Writes random words into one structure. Returns what was written where, for the log.
pub(crate) fn scribble(member: &Member, random: &mut Random) -> String {
    let layout = &member.layout;
    let which = random.pick(&STRUCTURES);
    let thread = if random.one_in(4) {
        random.below16(layout.params.threads)
    } else {
        member.threads[random.below(member.threads.len())].number
    };
    let known = member.sockets.get(random.below(member.sockets.len()));
    let socket = match known {
        Some(id) if !random.one_in(4) => id.index % layout.params.sockets,
        _ => random.below16(layout.params.sockets),
    };
    let words = layout.tx_queue(0) - layout.tx_queue(0) / 4096 * 4096;
    let (at, len) = match which {
        "head" => (0, 1100),
        "thread" => (layout.request_ring(thread) - 64, 8),
        "requests" => (layout.request_ring(thread), shm::ring_bytes(REQUESTS)),
        "results" => (layout.result_ring(thread), shm::ring_bytes(RESULTS)),
        "news" => (layout.result_ring(thread) + shm::ring_bytes(RESULTS), 64 + 512),
        "socket" => (layout.tx_queue(socket) - words, words),
        "sending" => (layout.tx_queue(socket), shm::ring_bytes(QUEUE)),
        "receiving" => (layout.rx_queue(socket), shm::ring_bytes(QUEUE)),
        "tx-owners" => (layout.tx_pool.table, layout.tx_pool.pages as usize * 8),
        "rx-owners" => (layout.rx_pool.table, layout.rx_pool.pages as usize * 8),
        _ => (0, layout.len),
    };
    // The first cache lines of a ring have its indices.
    let len = if random.one_in(2) { len.min(256) } else { len };
    let count = random.pick(&[1, 1, 1, 2, 8, 100]);
    for _ in 0..count {
        let at = at + random.below(len);
        member.set_word(at, random.word(member.word(at)));
    }
    if random.one_in(2) {
        member.mark_dirty(socket);
    }
    member.ring();
    format!("{count} words in {which}, thread {thread}, socket {socket}")
}

/// Says again and again that the server or a thread sleeps, and rings.
pub(crate) fn bells(member: &Member, random: &mut Random) {
    let count = random.pick(&[10, 1000, 20_000]);
    for turn in 0..count {
        if turn % 16 == 0 {
            member.set_word(0, random.word(member.word(0)));
        }
        member.ring();
    }
}

/// Marks all sockets, existing or not, as having news for the server.
pub(crate) fn dirty(member: &Member, random: &mut Random) {
    for _ in 0..random.pick(&[1, 10, 300]) {
        for socket in 0..member.layout.params.sockets {
            member.mark_dirty(socket);
        }
        member.ring();
    }
}
