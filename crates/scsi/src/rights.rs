//! What a nexus may do with the target's units.
//!
//! A unit without right is not there for the nexus: REPORT LUNS does not list it, and commands to
//! it end as at a number without unit. A nexus that may only read cannot write, and cannot change
//! what other nexuses find: reservations, mode pages, the medium's presence.

use std::collections::BTreeMap;

use crate::id::LunNumber;

/// What a nexus may do with a unit. The later one is the larger.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum UnitRight {
    /// It reads.
    Read,
    /// It reads, writes and manages.
    Write,
}

/// The rights of a nexus.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnitRights {
    /// At each unit, also at those that come later.
    all: Option<UnitRight>,
    /// More than that at single units.
    units: BTreeMap<LunNumber, UnitRight>,
}

impl UnitRights {
    /// No unit is there.
    pub const NONE: Self = Self { all: None, units: BTreeMap::new() };
    /// Every unit, to write.
    pub const EVERYTHING: Self = Self { all: Some(UnitRight::Write), units: BTreeMap::new() };

    /// Adds a right at every unit.
    pub fn grant_all(&mut self, right: UnitRight) {
        self.all = self.all.max(Some(right));
    }

    /// Adds a right at one unit.
    pub fn grant(&mut self, lun: LunNumber, right: UnitRight) {
        let unit = self.units.entry(lun).or_insert(right);
        *unit = right.max(*unit);
    }

    /// The right at a unit; `None`: the unit is not there.
    pub fn at(&self, lun: LunNumber) -> Option<UnitRight> {
        self.all.max(self.units.get(&lun).copied())
    }

    /// Whether the nexus may write every unit, also those that come later.
    pub fn is_everything(&self) -> bool {
        self.all == Some(UnitRight::Write)
    }
}
