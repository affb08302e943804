//! Messages to standard error, at a limited rate.
//!
//! Programs and the network can cause messages: a program that breaks the rules, is dropped and
//! joins again, writes one each time. A background instance's log lies in memory (`/run`). So each
//! place in the code that logs has a budget: [`BURST`] messages at once and then one every
//! [`INTERVAL`]. The next message that is written says how many were left out. Places that log for
//! developers (levels debug and trace) have no limit.
//!
//! No message waits for a reader: see [`ready_stderr`].

mod ready_stderr;

use std::collections::HashMap;
use std::io::IsTerminal;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::callsite::Identifier;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer, fmt};

use crate::exit;

/// Messages that one place in the code may log at once.
const BURST: u32 = 20;
/// How long until it may log one more.
const INTERVAL: Duration = Duration::from_secs(5);

/// Messages go to standard error, from the level that TASUKI_LOG names (`warn` if it names none).
pub(crate) fn start(background: bool) {
    let asked = std::env::var("TASUKI_LOG").unwrap_or_default();
    let parsed =
        EnvFilter::builder().with_default_directive(LevelFilter::WARN.into()).parse(&asked);
    let filter = parsed.unwrap_or_else(|error| {
        let see = "see `tasuki --help`";
        exit::say(format_args!("tasuki: TASUKI_LOG is ignored: {error}; {see}"));
        EnvFilter::new("warn")
    });
    // A message that cannot be written is lost: saying so there as well would be a panic.
    let lines = fmt::layer()
        .with_writer(ready_stderr::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .log_internal_errors(false);
    let log = tracing_subscriber::registry().with(filter).with(RateLimit::default());
    if background {
        log.with(lines).init();
    } else {
        log.with(lines.without_time().compact()).init();
    }
}

/// The budget of one place in the code.
#[derive(Debug)]
struct Budget {
    left: u32,
    /// Since when `left` is what it is.
    since: Instant,
    /// Messages left out since the last one that was written.
    left_out: u64,
}

impl Budget {
    fn new(now: Instant) -> Self {
        Self { left: BURST, since: now, left_out: 0 }
    }

    /// May a message be written now?
    fn spend(&mut self, now: Instant) -> bool {
        let earned = now.saturating_duration_since(self.since).as_nanos() / INTERVAL.as_nanos();
        let earned = u32::try_from(earned).unwrap_or(BURST).min(BURST);
        if earned > 0 {
            self.left = (self.left + earned).min(BURST);
            self.since = now;
        }
        let may = self.left > 0;
        match may {
            true => self.left -= 1,
            false => self.left_out += 1,
        }
        may
    }
}

/// Leaves out messages that are over the budget of their place.
#[derive(Debug, Default)]
struct RateLimit {
    budgets: Mutex<HashMap<Identifier, Budget>>,
}

impl<S: Subscriber> Layer<S> for RateLimit {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        if *event.metadata().level() > Level::INFO {
            return true;
        }
        let now = Instant::now();
        let mut budgets = self.budgets.lock().unwrap_or_else(PoisonError::into_inner);
        let budget = budgets.entry(event.metadata().callsite()).or_insert_with(|| Budget::new(now));
        budget.spend(now)
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut budgets = self.budgets.lock().unwrap_or_else(PoisonError::into_inner);
        let budget = budgets.get_mut(&event.metadata().callsite());
        let left_out = budget.map_or(0, |budget| std::mem::take(&mut budget.left_out));
        // The message below comes here again.
        drop(budgets);
        if left_out > 0 {
            tracing::warn!(left_out, "too many messages like the next one: some were left out");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_place_has_a_budget_that_grows_again() {
        let mut now = Instant::now();
        let mut budget = Budget::new(now);
        assert_eq!((0..100).filter(|_| budget.spend(now)).count(), BURST as usize);
        assert_eq!(budget.left_out, 100 - u64::from(BURST));
        now += INTERVAL - Duration::from_millis(1);
        assert!(!budget.spend(now));
        now += Duration::from_millis(1);
        assert!(budget.spend(now));
        assert!(!budget.spend(now));
        now += 1000 * INTERVAL;
        assert_eq!((0..100).filter(|_| budget.spend(now)).count(), BURST as usize);
    }

    /// Everything that was logged.
    #[derive(Clone, Default)]
    struct Memory(Arc<Mutex<Vec<u8>>>);

    impl Write for Memory {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn one_place_leaves_the_others_theirs() {
        let memory = Memory::default();
        let writer = memory.clone();
        let lines = fmt::layer().with_writer(move || writer.clone()).with_ansi(false);
        let log = tracing_subscriber::registry().with(RateLimit::default()).with(lines);
        tracing::subscriber::with_default(log, || {
            for number in 0..1000 {
                tracing::warn!(number, "flood");
                tracing::debug!(number, "details");
            }
            tracing::warn!("other");
        });
        let text = String::from_utf8(memory.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text.matches("flood").count(), BURST as usize);
        assert_eq!(text.matches("details").count(), 1000);
        assert_eq!(text.matches("other").count(), 1);
    }
}
