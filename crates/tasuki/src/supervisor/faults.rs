//! Slow readmission of programs that break the rules.
//!
//! A program in a loop of faults costs all others the work of its admissions and removals. Whose
//! loop it is cannot be known for sure: a fork has another process id, a copy another executable,
//! and a user has honest programs, too. So two budgets bound the work that faults cause:
//!
//! * One for each *origin*, a user and an executable: [`OF_ORIGIN`] faults at once, then
//!   `instance.faults_per_second`. It slows down the usual case, one broken program that is started
//!   again and again, and leaves the user's other programs alone.
//! * One for each user, [`OF_USER`] times as large. It bounds a program that changes its
//!   executable. All programs of that user wait then, each origin in its order.
//!
//! Faults take from both budgets. While a budget is used up, and until it is full again, each
//! admission takes from it as well, and waits for that. An honest program of the same origin waits
//! for its turn and gets in. Other users' programs wait for nothing.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Uid};

/// Faults of an origin that slow nothing down.
const OF_ORIGIN: f64 = 10.0;
/// How many times more a user may have.
const OF_USER: f64 = 10.0;
/// Most origins and users that are remembered.
const MOST_BUDGETS: usize = 256;

/// Whose program a client is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Origin {
    pub(super) user: u32,
    /// Where its executable lies, or its name where that cannot be seen.
    executable: String,
}

impl Origin {
    /// Of a process. Reads a link of /proc, which waits for nothing, as opening a file might.
    pub(super) fn of(pid: Pid, user: Uid, name: &str) -> Self {
        let link = format!("/proc/{}/exe", pid.as_raw_nonzero());
        let executable = std::fs::read_link(link).map(|path| path.to_string_lossy().into_owned());
        Self { user: user.as_raw(), executable: executable.unwrap_or_else(|_| name.to_owned()) }
    }
}

/// The owner of a budget.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum BudgetOwner {
    Origin(Origin),
    User(u32),
}

/// Faults that may still happen before admissions wait.
#[derive(Debug, Clone, Copy)]
struct FaultBudget {
    left: f64,
    most: f64,
    since: Instant,
    /// It was used up, and has not been full since.
    spent: bool,
}

/// The budgets that are not full.
#[derive(Debug)]
pub(super) struct FaultBudgets {
    all: BTreeMap<BudgetOwner, FaultBudget>,
    per_second: f64,
}

impl FaultBudgets {
    /// An origin gets so many faults back in a second; 0: admissions never wait.
    pub(super) fn new(per_second: u32) -> Self {
        Self { all: BTreeMap::new(), per_second: per_second.into() }
    }

    /// A program of this origin broke the rules.
    pub(super) fn fault(&mut self, origin: &Origin, now: Instant) {
        if self.per_second == 0.0 {
            return;
        }
        self.refill(now);
        for (owner, most) in owners(origin) {
            if self.all.len() >= MOST_BUDGETS && !self.all.contains_key(&owner) {
                let fullest = self.all.iter().max_by(|(_, a), (_, b)| a.left.total_cmp(&b.left));
                let fullest = fullest.map(|(owner, _)| owner.clone());
                fullest.and_then(|owner| self.all.remove(&owner));
            }
            let full = FaultBudget { left: most, most, since: now, spent: false };
            let budget = self.all.entry(owner).or_insert(full);
            budget.take();
        }
    }

    /// May a program of this origin be admitted now? If not: when to ask again.
    pub(super) fn admit(&mut self, origin: &Origin, now: Instant) -> Result<(), Instant> {
        self.refill(now);
        let owners = owners(origin);
        let mut wait = 0.0_f64;
        for (owner, most) in &owners {
            let budget = self.all.get(owner).filter(|budget| budget.spent);
            let missing = budget.map_or(0.0, |budget| 1.0 - budget.left);
            wait = wait.max(missing * OF_ORIGIN / (most * self.per_second));
        }
        if wait > 0.0 {
            return Err(now + Duration::from_secs_f64(wait));
        }
        for (owner, _) in &owners {
            if let Some(budget) = self.all.get_mut(owner).filter(|budget| budget.spent) {
                budget.take();
            }
        }
        Ok(())
    }

    fn refill(&mut self, now: Instant) {
        let per_second = self.per_second;
        self.all.retain(|_, budget| {
            let seconds = now.saturating_duration_since(budget.since).as_secs_f64();
            budget.left += seconds * per_second * budget.most / OF_ORIGIN;
            budget.since = now;
            budget.left < budget.most
        });
    }
}

impl FaultBudget {
    fn take(&mut self) {
        self.left = (self.left - 1.0).max(0.0);
        self.spent |= self.left < 1.0;
    }
}

fn owners(origin: &Origin) -> [(BudgetOwner, f64); 2] {
    let user = BudgetOwner::User(origin.user);
    [(BudgetOwner::Origin(origin.clone()), OF_ORIGIN), (user, OF_ORIGIN * OF_USER)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(executable: &str) -> Origin {
        Origin { user: 7, executable: executable.to_owned() }
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_eleventh_time_waits_and_others_do_not() {
        let (mut budgets, now) = (FaultBudgets::new(1), Instant::now());
        let (bad, good) = (origin("bad"), origin("good"));
        for _ in 0..10 {
            budgets.admit(&bad, now).unwrap();
            budgets.fault(&bad, now);
        }
        assert_eq!(budgets.admit(&bad, now), Err(now + SECOND));
        assert_eq!(budgets.admit(&good, now), Ok(()));
        // One a second, for whichever program of that origin comes first.
        let now = now + SECOND;
        assert_eq!(budgets.admit(&bad, now), Ok(()));
        assert_eq!(budgets.admit(&bad, now), Err(now + SECOND));
        // All is forgotten when it has behaved.
        let now = now + 11 * SECOND;
        budgets.admit(&bad, now).unwrap();
        assert!(budgets.all.keys().all(|owner| *owner != BudgetOwner::Origin(bad.clone())));
    }

    #[test]
    fn other_executables_use_up_the_user_s_budget() {
        let (mut budgets, now) = (FaultBudgets::new(1), Instant::now());
        for number in 0..100 {
            let bad = origin(&number.to_string());
            budgets.admit(&bad, now).unwrap();
            budgets.fault(&bad, now);
        }
        assert_eq!(budgets.admit(&origin("new"), now), Err(now + SECOND / 10));
        let other = Origin { user: 8, ..origin("new") };
        assert_eq!(budgets.admit(&other, now), Ok(()));
        for number in 0..1000 {
            budgets.fault(&origin(&number.to_string()), now);
        }
        assert!(budgets.all.len() <= MOST_BUDGETS);
        assert!(budgets.admit(&origin("new"), now).is_err());
    }

    #[test]
    fn without_a_rate_nothing_waits() {
        let (mut budgets, now) = (FaultBudgets::new(0), Instant::now());
        for _ in 0..1000 {
            budgets.fault(&origin("bad"), now);
            budgets.admit(&origin("bad"), now).unwrap();
        }
    }
}
