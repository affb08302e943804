//! What a target knows: its units, its nexuses, and what waits for a nexus at a unit.

use std::collections::{BTreeMap, BTreeSet};

use crate::attention::{Attention, AttentionSet};
use crate::config::{LunConfig, Provisioning, TargetConfig};
use crate::id::{LunNumber, NexusId};
use crate::pages::ModeBits;
use crate::registry::{Registrant, Registry};
use crate::results::CopyTable;
use crate::rights::{UnitRight, UnitRights};

/// A logical unit.
#[derive(Debug)]
pub(crate) struct LogicalUnit {
    pub(crate) config: LunConfig,
    pub(crate) blocks: u64,
    pub(crate) mode: ModeBits,
    /// Mode bits after a reset.
    pub(crate) saved_mode: ModeBits,
    pub(crate) registry: Registry,
    /// The nexus that has reserved the unit with RESERVE.
    pub(crate) reserved_by: Option<NexusId>,
    /// Nexuses that prevent the medium's removal.
    pub(crate) prevents: BTreeSet<NexusId>,
    /// The medium is there.
    pub(crate) loaded: bool,
    /// Nexuses that knew another unit by this number, and have not asked which one this is.
    strangers: BTreeSet<NexusId>,
    attentions: BTreeMap<NexusId, AttentionSet>,
}

impl LogicalUnit {
    pub(crate) fn new(config: LunConfig, mode: ModeBits, registry: Registry) -> Self {
        Self {
            blocks: config.blocks,
            mode,
            saved_mode: mode,
            registry,
            reserved_by: None,
            prevents: BTreeSet::new(),
            loaded: true,
            strangers: BTreeSet::new(),
            attentions: BTreeMap::new(),
            config,
        }
    }

    /// log2 of a block's bytes.
    pub(crate) const fn shift(&self) -> u32 {
        self.config.block_size.shift()
    }

    pub(crate) const fn is_thin(&self) -> bool {
        matches!(self.config.provisioning, Provisioning::Thin { .. })
    }

    pub(crate) const fn can_anchor(&self) -> bool {
        matches!(self.config.provisioning, Provisioning::Thin { anchor: true, .. })
    }

    /// Does the nexus take it for the unit that had its number before?
    pub(crate) fn is_strange_to(&self, nexus: NexusId) -> bool {
        self.strangers.contains(&nexus)
    }

    /// The nexus has heard which unit it is.
    pub(crate) fn introduce(&mut self, nexus: NexusId) {
        self.strangers.remove(&nexus);
    }

    /// These nexuses knew another unit by its number.
    pub(crate) fn estrange(&mut self, nexuses: BTreeSet<NexusId>) {
        for nexus in &nexuses {
            self.attend(*nexus, Attention::LunsChanged);
        }
        self.strangers = nexuses;
    }

    /// Makes a condition wait for a nexus.
    pub(crate) fn attend(&mut self, nexus: NexusId, attention: Attention) {
        self.attentions.entry(nexus).or_default().add(attention);
    }

    /// The condition that waits for a nexus, taken out.
    pub(crate) fn take_attention(&mut self, nexus: NexusId) -> Option<Attention> {
        let set = self.attentions.get_mut(&nexus)?;
        let taken = set.take();
        if set.peek().is_none() {
            self.attentions.remove(&nexus);
        }
        taken
    }

    /// Takes out one condition, if it waits.
    pub(crate) fn drop_attention(&mut self, nexus: NexusId, attention: Attention) {
        if let Some(set) = self.attentions.get_mut(&nexus) {
            set.remove(attention);
        }
    }

    /// The nexus is gone: what it had at the unit ends (SAM-5 6.3.4).
    pub(crate) fn forget(&mut self, nexus: NexusId) {
        self.attentions.remove(&nexus);
        self.strangers.remove(&nexus);
        self.prevents.remove(&nexus);
        self.reserved_by = self.reserved_by.filter(|holder| *holder != nexus);
    }

    /// A reset of the unit (SAM-5 6.3.3). Persistent reservations stay.
    pub(crate) fn reset(&mut self) {
        self.reserved_by = None;
        self.prevents.clear();
        self.mode = self.saved_mode;
    }
}

/// A unit that is gone, and the nexuses that may still mean it by its number.
#[derive(Debug)]
pub(crate) struct FormerUnit {
    /// What named it.
    pub(crate) name: ([u8; 8], String),
    pub(crate) nexuses: BTreeSet<NexusId>,
}

/// All that a target knows.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) config: TargetConfig,
    pub(crate) units: BTreeMap<LunNumber, LogicalUnit>,
    /// The last unit of each number that has none, as long as a nexus may mean it.
    pub(crate) former: BTreeMap<LunNumber, FormerUnit>,
    pub(crate) nexuses: BTreeMap<NexusId, Registrant>,
    /// Of those nexuses that may not write every unit.
    pub(crate) rights: BTreeMap<NexusId, UnitRights>,
    pub(crate) copies: CopyTable,
}

impl State {
    /// What a nexus may do with a unit; `None`: the unit is not there for it.
    pub(crate) fn right(&self, nexus: NexusId, lun: LunNumber) -> Option<UnitRight> {
        match self.rights.get(&nexus) {
            Some(rights) => rights.at(lun),
            None => Some(UnitRight::Write),
        }
    }

    /// Whether a unit refuses every write of a nexus.
    pub(crate) fn is_read_only(&self, nexus: NexusId, lun: LunNumber) -> bool {
        let unit = self.units.get(&lun).is_some_and(|unit| unit.config.read_only);
        unit || self.right(nexus, lun) < Some(UnitRight::Write)
    }

    /// Makes a condition wait at a unit for each nexus but one.
    pub(crate) fn attend_others(
        &mut self,
        lun: LunNumber,
        but: Option<NexusId>,
        attention: Attention,
    ) {
        let Some(unit) = self.units.get_mut(&lun) else { return };
        for nexus in self.nexuses.keys().filter(|nexus| Some(**nexus) != but) {
            unit.attend(*nexus, attention);
        }
    }

    /// Makes a condition wait at a unit for the nexuses of some registrants, but not for one.
    pub(crate) fn attend_registrants(
        &mut self,
        lun: LunNumber,
        registrants: &[Registrant],
        but: NexusId,
        attention: Attention,
    ) {
        let Some(unit) = self.units.get_mut(&lun) else { return };
        for (nexus, who) in &self.nexuses {
            if *nexus != but && registrants.contains(who) {
                unit.attend(*nexus, attention);
            }
        }
    }

    /// The nexuses of some registrants.
    pub(crate) fn nexuses_of(&self, registrants: &[Registrant]) -> Vec<NexusId> {
        let found = self.nexuses.iter().filter(|(_, who)| registrants.contains(who));
        found.map(|(nexus, _)| *nexus).collect()
    }
}
