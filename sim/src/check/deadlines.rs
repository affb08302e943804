//! Answers that are due, and their deadlines. Data is acknowledged (RFC 9293 3.8.6.3), at once if
//! it came out of order (RFC 5681 4.2). A closed window opens when there is room again (RFC 9293
//! 3.8.6.2.2).

use core::time::Duration;

use inet::Instant;

use super::status::{RelativeSegment, SideStatus};
use crate::ranges::Ranges;

/// Time that "at once" may take. A host may have no room for its frames for a while. It may also
/// collect events of one millisecond (as Linux does with SACKs).
const AT_ONCE: Duration = Duration::from_millis(10);
/// The least that "delayed" means, as Linux.
const DELAYED: Duration = Duration::from_millis(200);
/// Added to the delay: the timer's own granularity.
const GRANULARITY: Duration = Duration::from_millis(50);
/// Time that a host waits for an answer about its neighbour's address before it asks once more or
/// gives up (RFC 4861 10, RETRANS_TIMER; so does ARP). It includes the timer's granularity.
const RESOLUTION_TIME: Duration = Duration::from_millis(1050);
/// A window below this counts as closed.
const CLOSED: i64 = 512;
/// How long a window may stay closed though all was read.
const OPENING: Duration = Duration::from_millis(100);

fn is_synchronized(state: &str) -> bool {
    !["UNCONN", "LISTEN", "SYN-SENT", "SYN-RECV"].contains(&state)
}

/// The answers that one side has yet to send.
#[derive(Debug, Default)]
pub(super) struct ResponseDeadlines {
    ack: Option<(Instant, &'static str)>,
    /// When the side last asked for its neighbour's address, if it has sent no segment since.
    asked_at: Option<Instant>,
    /// Since when its window is closed for no reason.
    closed_since: Option<Instant>,
}

impl ResponseDeadlines {
    /// The side receives a segment that takes sequence space. `received` holds the end of what it
    /// has acknowledged, and what it has received so far.
    pub(super) fn given(
        &mut self,
        now: Instant,
        received: (i64, &Ranges),
        relative: &RelativeSegment<'_>,
        standing: SideStatus,
        delayed: Duration,
    ) {
        let synchronized = standing
            .state
            .is_some_and(|state| !["UNCONN", "LISTEN", "SYN-SENT", "SYN-RECV"].contains(&state));
        if !synchronized || relative.segment.syn || standing.crowded {
            return;
        }
        // A segment that fills a gap is to be acknowledged at once as well. But the side may have
        // had no room for the segments after the gap.
        let (acked, got) = received;
        let in_order = relative.start <= got.reach(0) && relative.end > acked;
        let (wait, why) = if in_order && !relative.segment.fin {
            (delayed.max(DELAYED) + GRANULARITY, "data was not acknowledged")
        } else {
            (AT_ONCE, "a segment out of order, or a FIN, was not acknowledged at once")
        };
        // Its answer waits with what else it has to say.
        if self.asked_at.is_some_and(|asked| now - asked < RESOLUTION_TIME) {
            return;
        }
        let due = now + wait;
        if self.ack.is_none_or(|(before, _)| due < before) {
            self.ack = Some((due, why));
        }
    }

    /// The side asks for its neighbour's address. Its output waits for the answer, and is dropped
    /// if none comes (RFC 1122 2.3.2.2, RFC 4861 7.2.2).
    pub(super) fn asked(&mut self, now: Instant) {
        self.asked_at = Some(now);
        self.ack = None;
    }

    /// The side sends a segment.
    pub(super) fn answered(&mut self, has_ack: bool) {
        self.asked_at = None;
        if has_ack {
            self.ack = None;
        }
    }

    /// When something will be overdue.
    pub(super) fn due(&self) -> Option<Instant> {
        let opening = self.closed_since.map(|since| since + OPENING);
        self.ack.map(|(due, _)| due).into_iter().chain(opening).min()
    }

    /// Looks whether something is overdue, with a window of `offered` bytes and `unread` bytes that
    /// were acknowledged to the peer and not read.
    pub(super) fn check(
        &mut self,
        now: Instant,
        standing: SideStatus,
        offered: i64,
        unread: i64,
    ) -> Result<(), String> {
        let state = standing.state.filter(|state| is_synchronized(state));
        let Some(state) = state.filter(|_| !standing.left && !standing.failed) else {
            *self = Self::default();
            return Ok(());
        };
        if let Some((due, why)) = self.ack
            && now > due
        {
            return Err(why.into());
        }
        let receives = ["ESTAB", "FIN-WAIT-1", "FIN-WAIT-2"].contains(&state);
        if !receives || unread > 0 || offered >= CLOSED {
            self.closed_since = None;
            return Ok(());
        }
        let since = *self.closed_since.get_or_insert(now);
        if now - since > OPENING {
            return Err(format!("a window of {offered} though all was read"));
        }
        Ok(())
    }
}
