//! Timestamps (RFC 7323): the own clock, the peer's last one, and protection against segments from
//! before the sequence numbers wrapped (PAWS).

use core::time::Duration;

use super::durable::{self, Durable};
use super::segment::{SegmentRepr, Timestamps};
use super::seq::Seq;
use crate::Instant;

/// Length of the option with its padding, bytes: its share of a segment's payload.
pub(super) const TIMESTAMPS_LEN: u16 = 12;

/// Age after which the last timestamp says nothing any more (RFC 7323 5.5).
const TIMESTAMP_LIFE: Duration = Duration::from_secs(24 * 24 * 3600);

/// Own clock in the option: milliseconds.
#[inline]
pub(super) fn own_clock(durable: &Durable, now: Instant) -> u32 {
    ((now.as_nanos() / 1_000_000) as u32).wrapping_add(durable.ts_offset)
}

/// The option of a segment sent now. With `echo`, it echoes the peer's last timestamp.
#[inline]
pub(super) fn option(durable: &Durable, now: Instant, echo: bool) -> Timestamps {
    let echo = if echo { durable.ts_recent } else { 0 };
    Timestamps { value: own_clock(durable, now), echo }
}

/// The option of a segment after the handshake, if the two sides have agreed on it.
#[inline]
pub(super) fn agreed_option(durable: &Durable, now: Instant) -> Option<Timestamps> {
    durable.has(durable::TIMESTAMPS).then(|| option(durable, now, true))
}

/// Milliseconds since this side's timestamp `echo` was sent. `None` if it is from the future, and
/// so not of this side.
#[inline]
pub(super) fn millis_since(durable: &Durable, now: Instant, echo: u32) -> Option<u32> {
    let age = own_clock(durable, now).wrapping_sub(echo).cast_signed();
    u32::try_from(age).ok()
}

/// The time since the timestamp that `segment` echoes was sent (RFC 7323 4.1).
#[inline]
pub(super) fn echoed(durable: &Durable, now: Instant, segment: &SegmentRepr) -> Option<Duration> {
    let timestamps = segment.timestamps.filter(|t| t.echo != 0)?;
    let millis = millis_since(durable, now, timestamps.echo)?;
    durable.has(durable::TIMESTAMPS).then(|| Duration::from_millis(millis.into()))
}

/// How old the peer's last timestamp is, which is itself in the durable half.
#[derive(Debug, Clone, Copy)]
pub(super) struct PeerTimestamp {
    taken_at: Instant,
}

impl PeerTimestamp {
    pub(super) fn new(now: Instant) -> Self {
        Self { taken_at: now }
    }

    /// When it came.
    pub(super) fn taken_at(&self) -> Instant {
        self.taken_at
    }

    /// Stores the peer's timestamp `value`.
    #[inline]
    pub(super) fn take(&mut self, durable: &mut Durable, now: Instant, value: u32) {
        durable.ts_recent = value;
        self.taken_at = now;
    }

    /// Whether `segment` is from before the last one (RFC 7323 5.3). As in Linux, a segment that
    /// has lost its timestamps on its way is accepted (RFC 7323 3.2 would drop it). It only lacks
    /// the protection against old sequence numbers.
    #[inline]
    pub(super) fn is_old(&self, durable: &Durable, now: Instant, segment: &SegmentRepr) -> bool {
        let Some(timestamps) = segment.timestamps else { return false };
        durable.has(durable::TIMESTAMPS)
            && Seq::new(timestamps.value).before(Seq::new(durable.ts_recent))
            && now - self.taken_at < TIMESTAMP_LIFE
    }
}
