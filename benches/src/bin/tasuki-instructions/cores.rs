//! The core alone: two of them back to back, of which the near one is looked at.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Result, bail};
use inet::Instant;

use crate::counting::{OPERATIONS, Party, count, row};
use crate::peer::{Bytes, Peer, carried};

/// Payload of a segment: MTU 1500 and timestamps.
const SEGMENT: usize = 1448;

/// Frames in and out, in turn, as far as `only` names them.
pub(crate) fn all(offload: bool, only: &str) -> Result<()> {
    let mut pair = Pair::new(offload)?;
    let (title, segments) = if offload { ("on", 44) } else { ("off", 16) };
    let bytes = segments * SEGMENT;
    for (what, act) in [
        ("data in order", Pair::receive as fn(&mut Pair, usize, bool) -> usize),
        ("pure ACK", Pair::acknowledge),
        ("data sent", Pair::send),
    ] {
        let each = if offload { "super-segment of 62 KiB" } else { "segment" };
        let of = if what == "pure ACK" { "ACK" } else { each };
        let row_title = format!("{title}: {what}, {of}");
        if !row_title.contains(only) {
            continue;
        }
        let mut frames = 0;
        for number in 0..2 * OPERATIONS {
            let on = number >= OPERATIONS;
            let done = act(&mut pair, bytes, on);
            pair.rest();
            frames += if on { done } else { 0 };
        }
        row(&row_title, Party::Core, u32::try_from(frames)?);
    }
    Ok(())
}

struct Pair {
    near: Peer,
    far: Peer,
    now: Instant,
}

impl Pair {
    fn new(offload: bool) -> Result<Self> {
        let [near, mut far] = [1, 2].map(|last| Peer::new(last, offload));
        far.listen(80);
        let now = Instant::from_nanos(1_000_000_000);
        let mut pair = Self { near, far, now };
        pair.near.connect(now, SocketAddr::from((pair.far.address, 80)));
        pair.rest();
        if pair.far.connection.is_none() {
            bail!("the two cores are not connected");
        }
        // Until windows are wide enough for the bytes of the measurement.
        for _ in 0..40 {
            pair.send(64 << 10, false);
            pair.rest();
            pair.receive(64 << 10, false);
            pair.rest();
        }
        Ok(pair)
    }

    /// Moves frames until both have nothing more to say, a delayed ACK included.
    fn rest(&mut self) {
        while cross(&mut self.near, &mut self.far, self.now)
            | cross(&mut self.far, &mut self.near, self.now)
        {
            self.now += Duration::from_micros(20);
        }
        self.now += Duration::from_millis(50);
        cross(&mut self.near, &mut self.far, self.now);
        cross(&mut self.far, &mut self.near, self.now);
    }

    /// Handles the frames that the far end sends, ACKs included. Returns their number.
    fn receive(&mut self, bytes: usize, on: bool) -> usize {
        let Self { near, far, now } = self;
        far.send(*now, Bytes::new(bytes));
        far.poll(*now);
        let frames = std::mem::take(&mut far.wire.0);
        let many = frames.len();
        count(on, || {
            frames.into_iter().for_each(|frame| near.handle(*now, carried(frame)));
            near.poll(*now);
        });
        many
    }

    /// Sends, and handles the ACKs; how many.
    fn acknowledge(&mut self, bytes: usize, on: bool) -> usize {
        self.send(bytes, false);
        let Self { near, far, now } = self;
        cross(near, far, *now);
        far.take(*now);
        far.poll(*now);
        let frames = std::mem::take(&mut far.wire.0);
        let many = frames.len();
        count(on, || frames.into_iter().for_each(|frame| near.handle(*now, carried(frame))));
        many
    }

    /// Sends; how many frames leave at once.
    fn send(&mut self, bytes: usize, on: bool) -> usize {
        let bytes = Bytes::new(bytes);
        let Self { near, now, .. } = self;
        count(on, || {
            near.send(*now, bytes);
            near.poll(*now);
        });
        near.wire.0.len()
    }
}

/// Passes frames from one peer to the other, which handles them. Returns false if there were none.
fn cross(from: &mut Peer, to: &mut Peer, now: Instant) -> bool {
    from.poll(now);
    let frames = std::mem::take(&mut from.wire.0);
    let any = !frames.is_empty();
    frames.into_iter().for_each(|frame| to.handle(now, carried(frame)));
    to.take(now);
    any
}
