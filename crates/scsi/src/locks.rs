//! Which tasks may touch a medium at the same time.
//!
//! A shell asks [`RangeLocks::start`] for each task when it has begun, in the order of the
//! commands, and tells [`RangeLocks::finish`] when the task is over. COMPARE AND WRITE, ORWRITE and
//! the destination of a copy hold their blocks exclusively. Plain reads and writes share theirs:
//! SBC-3 promises no order between them. A task with attribute ORDERED waits for all before it, and
//! all behind it wait for it.
//!
//! A target has one table, since a copy holds blocks of several units.
//!
//! Tasks wait in the order of their start, and a task waits only for earlier ones. So there is no
//! deadlock. While no task is exclusive or ordered, each call costs one look-up.

use std::collections::BTreeMap;

use crate::id::LunNumber;
use crate::step::ByteRange;

/// How a task holds a range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hold {
    /// Together with others that share it.
    Shared,
    /// Alone.
    Exclusive,
}

/// A range that a task holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Claim {
    /// The unit; `None` claims every unit.
    pub lun: Option<LunNumber>,
    /// The bytes.
    pub range: ByteRange,
    /// How.
    pub hold: Hold,
}

impl Claim {
    /// Whether two tasks cannot have these claims at the same time.
    fn conflicts(&self, other: &Self) -> bool {
        let exclusive = self.hold == Hold::Exclusive || other.hold == Hold::Exclusive;
        let same_unit = match (self.lun, other.lun) {
            (Some(a), Some(b)) => a == b,
            _ => true,
        };
        exclusive && same_unit && self.range.overlaps(other.range)
    }
}

/// What a task holds while it runs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Access {
    /// The ranges; none for a task that does not touch a medium.
    pub claims: Vec<Claim>,
    /// The unit whose tasks are kept in order around this one (attribute ORDERED).
    pub barrier: Option<LunNumber>,
    /// The unit of the task's command.
    pub lun: Option<LunNumber>,
}

impl Access {
    fn is_plain(&self) -> bool {
        self.barrier.is_none() && self.claims.iter().all(|claim| claim.hold == Hold::Shared)
    }

    /// Whether this task must wait for an earlier one.
    fn waits_for(&self, earlier: &Self) -> bool {
        let ordered = (self.barrier.is_some() || earlier.barrier.is_some())
            && self.lun == earlier.lun
            && self.lun.is_some();
        ordered || self.claims.iter().any(|a| earlier.claims.iter().any(|b| a.conflicts(b)))
    }
}

/// Whether a task may run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Start {
    /// It may.
    Now,
    /// It waits; [`RangeLocks::finish`] of another task names it later.
    Later,
    /// There is no room. The task is not in the table; the status for its initiator is TASK SET
    /// FULL.
    Full,
    /// The shell has used the key already. The task is not in the table a second time.
    Known,
}

#[derive(Debug)]
struct Holder {
    access: Access,
    runs: bool,
}

/// The tasks that run and those that wait.
#[derive(Debug)]
pub struct RangeLocks {
    /// By the order of their start.
    holders: BTreeMap<u64, (u64, Holder)>,
    /// From the shell's key to that order.
    orders: BTreeMap<u64, u64>,
    next: u64,
    /// Holders that are not plain.
    special: usize,
    waiting: usize,
    most: usize,
}

impl RangeLocks {
    /// A table for at most `most` tasks.
    pub const fn new(most: usize) -> Self {
        Self {
            holders: BTreeMap::new(),
            orders: BTreeMap::new(),
            next: 0,
            special: 0,
            waiting: 0,
            most,
        }
    }

    /// Enters a task under a key of the shell's.
    pub fn start(&mut self, key: u64, access: &Access) -> Start {
        if self.orders.contains_key(&key) {
            return Start::Known;
        }
        if self.orders.len() >= self.most {
            return Start::Full;
        }
        let plain = access.is_plain();
        let runs = (self.special == 0 && plain)
            || !self.holders.values().any(|(_, earlier)| access.waits_for(&earlier.access));
        self.special += usize::from(!plain);
        self.waiting += usize::from(!runs);
        let order = self.next;
        self.next += 1;
        self.orders.insert(key, order);
        self.holders.insert(order, (key, Holder { access: access.clone(), runs }));
        if runs { Start::Now } else { Start::Later }
    }

    /// Takes a task out, whether it ran or waited, and gives the keys of the tasks that may run
    /// now. An unknown key changes nothing.
    pub fn finish(&mut self, key: u64) -> Vec<u64> {
        let Some(order) = self.orders.remove(&key) else { return Vec::new() };
        if let Some((_, gone)) = self.holders.remove(&order) {
            self.special -= usize::from(!gone.access.is_plain());
            self.waiting -= usize::from(!gone.runs);
        }
        self.wake()
    }

    /// Replaces what a task holds by less, and gives the keys of the tasks that may run now. UNMAP
    /// and EXTENDED COPY hold whole units until they have their parameter lists.
    pub fn narrow(&mut self, key: u64, access: &Access) -> Vec<u64> {
        let entry = self.orders.get(&key).and_then(|order| self.holders.get_mut(order));
        let Some((_, holder)) = entry else { return Vec::new() };
        let before = usize::from(!holder.access.is_plain());
        holder.access = access.clone();
        self.special = self.special - before + usize::from(!access.is_plain());
        self.wake()
    }

    /// Makes all that a task holds its own. A task that was aborted while its medium works may
    /// still change blocks. Later tasks of the same blocks wait for it.
    pub fn hold_alone(&mut self, key: u64) {
        let entry = self.orders.get(&key).and_then(|order| self.holders.get_mut(order));
        let Some((_, holder)) = entry else { return };
        let before = usize::from(!holder.access.is_plain());
        for claim in &mut holder.access.claims {
            claim.hold = Hold::Exclusive;
        }
        self.special = self.special - before + usize::from(!holder.access.is_plain());
    }

    /// Tasks in the table.
    pub fn len(&self) -> usize {
        self.orders.len()
    }

    /// Whether the table has no task.
    pub fn is_empty(&self) -> bool {
        self.orders.is_empty()
    }

    fn wake(&mut self) -> Vec<u64> {
        if self.waiting == 0 {
            return Vec::new();
        }
        let is_free = |order: u64, access: &Access| {
            let mut earlier = self.holders.range(..order);
            !earlier.any(|(_, (_, earlier))| access.waits_for(&earlier.access))
        };
        let waiting = self.holders.iter().filter(|(_, (_, holder))| !holder.runs);
        let free: Vec<u64> = waiting
            .filter(|(order, (_, holder))| is_free(**order, &holder.access))
            .map(|(order, _)| *order)
            .collect();
        self.waiting -= free.len();
        let mut keys = Vec::with_capacity(free.len());
        for order in free {
            if let Some((key, holder)) = self.holders.get_mut(&order) {
                holder.runs = true;
                keys.push(*key);
            }
        }
        keys
    }
}
