//! FINs whose acknowledgement waits a moment for our own answer.

use super::streams::{listener, stream};
use super::*;
use crate::tcp::SegmentRepr;

const MOMENT: Duration = Duration::from_micros(200);

impl Host {
    /// What leaves while the owner still looks for its programs' answers.
    fn sent_deferring(&mut self) -> Vec<SegmentRepr> {
        self.stack.poll_deferring(self.now, &mut self.wire);
        self.wire.frames.drain(..).map(|frame| segment_of(&frame)).collect()
    }
}

/// A pair whose B has closed its end of a connection that A has made; A's handle, and B's frames.
fn closed_by_peer() -> (Pair, Handle, Vec<Vec<u8>>) {
    let mut pair = Pair::new();
    let (client, server, _) = pair.connected();
    pair.b.stack.close(pair.b.now, server).unwrap();
    let frames = pair.b.sent();
    assert_eq!(frames.len(), 1);
    (pair, client, frames)
}

#[test]
fn a_close_soon_after_the_peers_saves_a_frame() {
    let (mut pair, client, frames) = closed_by_peer();
    frames.iter().for_each(|frame| pair.a.take(frame));
    assert_eq!(pair.a.sent_deferring(), []);
    assert!(pair.a.stack.defers_fin_acks());
    assert_eq!(pair.a.stack.poll_at(), Some(pair.a.now + MOMENT));
    assert_eq!(pair.a.events_of(1), [EventKind::Eof]);
    pair.a.stack.close(pair.a.now, client).unwrap();
    let sent = pair.a.sent_deferring();
    assert!(matches!(&sent[..], [only] if only.fin && only.ack.is_some()), "{sent:?}");
    assert_eq!(pair.a.sent(), Vec::<Vec<u8>>::new());
    assert!(!pair.a.stack.defers_fin_acks());
}

#[test]
fn an_owner_that_waits_acknowledges_before() {
    let (mut pair, _, frames) = closed_by_peer();
    frames.iter().for_each(|frame| pair.a.take(frame));
    assert_eq!(pair.a.sent_deferring(), []);
    let sent = pair.a.sent();
    let fin = segment_of(&frames[0]);
    assert_eq!(sent.len(), 1);
    assert_eq!(segment_of(&sent[0]).ack, Some(fin.seq + 1));
    assert!(!pair.a.stack.defers_fin_acks());
    // One that does not defer acknowledges at once.
    let (mut pair, _, frames) = closed_by_peer();
    frames.iter().for_each(|frame| pair.a.take(frame));
    assert_eq!(pair.a.sent().len(), 1);
}

#[test]
fn a_busy_owner_acknowledges_after_a_moment() {
    let (mut pair, _, frames) = closed_by_peer();
    frames.iter().for_each(|frame| pair.a.take(frame));
    assert_eq!(pair.a.sent_deferring(), []);
    pair.a.now += MOMENT / 2;
    assert_eq!(pair.a.sent_deferring(), []);
    pair.a.now += MOMENT / 2;
    assert_eq!(pair.a.sent_deferring().len(), 1);
    assert!(!pair.a.stack.defers_fin_acks());
}

#[test]
fn only_so_many_acknowledgements_are_deferred() {
    const CONNECTIONS: usize = 70;
    let mut pair = Pair::new();
    let server = listener(&mut pair.b, 2, 80, 100);
    for tag in 0..CONNECTIONS as u64 {
        let client = stream(&mut pair.a, 100 + tag);
        pair.a.stack.connect(pair.a.now, client, at(IP_B, 80)).unwrap();
    }
    pair.settle();
    while let Some((child, _)) = pair.b.stack.accept(server, 3).unwrap() {
        pair.b.stack.close(pair.b.now, child).unwrap();
    }
    let fins = pair.b.sent();
    assert_eq!(fins.len(), CONNECTIONS);
    fins.iter().for_each(|fin| pair.a.take(fin));
    let at_once = pair.a.sent_deferring().len();
    assert!(at_once > 0 && at_once < CONNECTIONS);
    assert_eq!(pair.a.sent().len(), CONNECTIONS - at_once);
}
