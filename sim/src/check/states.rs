//! RFC 9293 figure 5, seen from outside. One state may follow another only if the link and the
//! application have given the reason for each step between them.

use core::time::Duration;

use inet::Instant;

use super::Check;
use super::side::{Side, StateWatch};
use super::status::SideStatus;

/// How long that may take: a neighbour's address may be asked for before.
const REPORT_LIMIT: Duration = Duration::from_secs(10);

/// The reasons that there are.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Facts {
    pub(super) syn_given: bool,
    pub(super) syn_acked: bool,
    pub(super) fin_given: bool,
    pub(super) fin_acked: bool,
    pub(super) shut: bool,
    /// Reset, aborted or failed.
    pub(super) gone: bool,
    /// TIME-WAIT, or an orphan's FIN-WAIT-2, may be over.
    pub(super) wait_over: bool,
}

/// The figure: from, to, and whether the facts have the reason.
type Step = (&'static str, &'static str, fn(&Facts) -> bool);

const CLOSED: &str = "UNCONN";

const TRANSITIONS: [Step; 17] = [
    (CLOSED, "SYN-SENT", |_| true),
    (CLOSED, "SYN-RECV", |f| f.syn_given),
    ("LISTEN", "SYN-RECV", |f| f.syn_given),
    ("SYN-SENT", "ESTAB", |f| f.syn_given && f.syn_acked),
    ("SYN-SENT", "SYN-RECV", |f| f.syn_given),
    ("SYN-RECV", "ESTAB", |f| f.syn_acked),
    ("SYN-RECV", "FIN-WAIT-1", |f| f.shut),
    ("ESTAB", "FIN-WAIT-1", |f| f.shut),
    ("ESTAB", "CLOSE-WAIT", |f| f.fin_given),
    ("CLOSE-WAIT", "LAST-ACK", |f| f.shut),
    ("FIN-WAIT-1", "FIN-WAIT-2", |f| f.fin_acked),
    ("FIN-WAIT-1", "CLOSING", |f| f.fin_given),
    ("FIN-WAIT-2", "TIME-WAIT", |f| f.fin_given),
    ("CLOSING", "TIME-WAIT", |f| f.fin_acked),
    ("LAST-ACK", CLOSED, |f| f.fin_acked),
    ("FIN-WAIT-2", CLOSED, |f| f.wait_over),
    ("TIME-WAIT", CLOSED, |f| f.wait_over),
];

/// Whether `to` can be reached from `from` with the reasons there are.
pub(super) fn reachable(from: &'static str, to: &'static str, facts: &Facts) -> bool {
    if facts.gone && to == CLOSED {
        return true;
    }
    let mut reached = vec![from];
    let mut at = 0;
    while let Some(here) = reached.get(at).copied() {
        for (start, end, reason) in TRANSITIONS {
            if start == here && reason(facts) && !reached.contains(&end) {
                reached.push(end);
            }
        }
        at += 1;
    }
    reached.contains(&to)
}

impl Check {
    /// Looks at the step from the state seen last.
    pub(super) fn watch_state(
        &mut self,
        now: Instant,
        side: usize,
        standing: SideStatus,
    ) -> Result<(), String> {
        let rules = self.rules[side];
        let peer_fin = self.sides[1 - side].fin;
        let own = &mut self.sides[side];
        let watch = own.watch;
        let before = watch.state.unwrap_or(CLOSED);
        let state = standing.state.unwrap_or(CLOSED);
        let told = standing.failed || standing.left || own.reset;
        if watch.unreported.is_some_and(|since| !told && now - since > REPORT_LIMIT) {
            return Err(format!("{state}, and the application does not know why"));
        }
        if before == state {
            // RFC 9293 3.10.7.4: a retransmitted FIN restarts TIME-WAIT. The watch need not
            // restart.
            let shut_late = state == "ESTAB" || state == "CLOSE-WAIT";
            if shut_late && standing.shut && !standing.left && !standing.failed {
                return Err(format!("{state}, though shut"));
            }
            return Ok(());
        }
        let waited = now - watch.since;
        let wait_over = match before {
            "TIME-WAIT" => waited >= rules.time_wait,
            "FIN-WAIT-2" => standing.left && waited >= rules.fin_timeout,
            _ => false,
        };
        let facts = Facts {
            syn_given: own.got.covers(0, 1),
            syn_acked: own.una >= 1,
            fin_given: peer_fin.is_some_and(|fin| own.got.covers(0, fin + 1)),
            fin_acked: own.fin.is_some_and(|fin| own.una > fin),
            shut: standing.shut || standing.left,
            gone: own.reset || standing.failed || left_open(own, standing, before),
            wait_over,
        };
        own.watch = StateWatch { state: standing.state, since: now, unreported: None };
        // Both FINs have arrived and all was read. TIME-WAIT must follow, whichever application has
        // left.
        let both = facts.fin_given && facts.fin_acked;
        let read = peer_fin.is_some_and(|fin| standing.consumed as i64 == fin - 1);
        let active = ["FIN-WAIT-1", "FIN-WAIT-2", "CLOSING"].contains(&before);
        let ended = own.reset || standing.failed || standing.aborted;
        if state == CLOSED && active && both && read && !ended && !wait_over {
            return Err(format!("{before} ended without TIME-WAIT"));
        }
        if !reachable(before, state, &facts) {
            if state == CLOSED && before != "TIME-WAIT" {
                own.watch.unreported = Some(now);
                return Ok(());
            }
            return Err(format!("{state} after {before} (for {waited:?}): {facts:?}"));
        }
        Ok(())
    }
}

/// Whether a connection may end without a report to the application: the application has left it,
/// or has not seen it yet.
fn left_open(own: &Side, standing: SideStatus, before: &str) -> bool {
    // An orphan in TIME-WAIT must stay there; an abort ends it (RFC 9293 3.10.5).
    let unseen = before == "SYN-RECV";
    unseen || standing.aborted || standing.left && (before != "TIME-WAIT" || own.restarted)
}
