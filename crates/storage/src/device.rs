//! The target device: logical units with their volumes, sessions, and the tasks of all of them.
//!
//! It joins the SCSI device server, which decides, with the volumes, which do. All sessions of a
//! target share one device. Everything is on one thread.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use scsi::{
    InitiatorPort, LunConfig, LunNumber, NexusId, Provisioning, RangeLocks, StoredState, Target,
    TargetError, UnitRights,
};
use tokio::sync::oneshot;

use crate::counters::UnitCounters;
use crate::definition::{LunDefinition, MOST_LUNS, MOST_SESSIONS, TargetDefinition};
use crate::identity::VolumeIdentity;
use crate::ring::Ring;
use crate::state_file::{KeptState, StateStore, state_of};
use crate::volume::{OpenError, OpenedVolume, Volume, VolumeUse};

/// Tasks of a target that may run or wait at a time: a whole command window of each session.
const MOST_TASKS: usize = MOST_SESSIONS * 192;
/// The portal group, which is also the target port.
pub(crate) const PORTAL_GROUP: u16 = 1;
/// Bytes that one command moves at most.
const MOST_TRANSFER: u32 = 8 << 20;

/// Why a target cannot have a unit.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// Its volume.
    #[error(transparent)]
    Volume(#[from] OpenError),
    /// Its configuration.
    #[error("logical unit {lun}: {source}")]
    Unit {
        /// The unit's number.
        lun: u16,
        /// What is wrong.
        source: TargetError,
    },
    /// The target's own configuration.
    #[error(transparent)]
    Target(TargetError),
    /// The folder for state that outlives the target.
    #[error("cannot keep reservations and mode pages (--state): {0}")]
    State(std::io::Error),
    /// Its volume is there already.
    #[error(
        "logical unit {lun} would be the same volume as logical unit {other} (identity \
         {identity}): a target has a volume once"
    )]
    SameVolume {
        /// The unit's number.
        lun: u16,
        /// The number of the unit that has the volume.
        other: u16,
        /// The volume's identity.
        identity: VolumeIdentity,
    },
    /// io_uring.
    #[error("cannot use io_uring: {0}; see the sysctl kernel.io_uring_disabled")]
    Ring(std::io::Error),
}

/// A target device.
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) scsi: RefCell<Target>,
    pub(crate) volumes: RefCell<BTreeMap<LunNumber, Rc<Volume>>>,
    definitions: RefCell<BTreeMap<LunNumber, LunDefinition>>,
    counters: RefCell<BTreeMap<LunNumber, Rc<UnitCounters>>>,
    locks: RefCell<RangeLocks>,
    /// Tasks that wait for a range, by their keys.
    waiting: RefCell<HashMap<u64, oneshot::Sender<()>>>,
    next_key: Cell<u64>,
    next_nexus: Cell<u64>,
    next_tsih: Cell<u16>,
    ring: Rc<Ring>,
    state: Option<Rc<dyn StateStore>>,
}

impl Device {
    /// Opens all volumes of the definition.
    ///
    /// # Errors
    /// The first that cannot be had.
    pub(crate) fn new(definition: &TargetDefinition) -> Result<Rc<Self>, DeviceError> {
        let config = scsi::TargetConfig {
            name: definition.name.as_str().to_owned(),
            vendor: "TASUKI".to_owned(),
            revision: "0.1".to_owned(),
            port_group: 1,
            ports: vec![PORTAL_GROUP],
            most_nexuses: MOST_SESSIONS,
            most_luns: MOST_LUNS,
        };
        let target = Target::new(config).map_err(DeviceError::Target)?;
        let ring = Ring::new().map_err(DeviceError::Ring)?;
        let device = Rc::new(Self {
            scsi: RefCell::new(target),
            volumes: RefCell::default(),
            definitions: RefCell::default(),
            counters: RefCell::default(),
            locks: RefCell::new(RangeLocks::new(MOST_TASKS)),
            waiting: RefCell::default(),
            next_key: Cell::new(0),
            next_nexus: Cell::new(0),
            next_tsih: Cell::new(1),
            ring,
            state: definition.state.clone(),
        });
        for (number, lun) in &definition.luns {
            device.add_lun(*number, lun, lun.open(&definition.register)?)?;
        }
        Ok(device)
    }

    /// Completes the operations of the volumes, for ever.
    ///
    /// # Errors
    /// io_uring's.
    pub(crate) async fn run(&self) -> std::io::Result<()> {
        self.ring.run().await
    }

    /// Adds a unit, whose volume is open. Sessions learn it by a unit attention.
    ///
    /// # Errors
    /// Its file is no volume, or the number or the volume is in use.
    pub(crate) fn add_lun(
        &self,
        number: LunNumber,
        lun: &LunDefinition,
        opened: OpenedVolume,
    ) -> Result<(), DeviceError> {
        let (block_size, read_only) = (lun.block_size.bytes(), lun.read_only);
        for notice in &opened.notices {
            tracing::warn!(lun = number.get(), "{notice}");
        }
        let wanted = VolumeUse { lun: number.get(), block_size, read_only };
        let volume = Volume::new(&lun.volume, opened, wanted, &self.ring)?;
        self.has_no_other(number, volume.identity())?;
        let kept =
            self.state.as_ref().map_or_else(|| Ok(KeptState::default()), |it| it.load(number));
        let (kept, foreign) = kept.map_err(DeviceError::State)?.of(volume.identity());
        if foreign {
            tracing::warn!(
                lun = number.get(),
                "the reservations and mode pages that were kept are another volume's: the unit \
                 starts without"
            );
        }
        let config = self.config(lun, &volume, kept);
        let added = self.scsi.borrow_mut().add_lun(number, config);
        added.map_err(|source| DeviceError::Unit { lun: number.get(), source })?;
        self.volumes.borrow_mut().insert(number, Rc::new(volume));
        self.definitions.borrow_mut().insert(number, lun.clone());
        self.counters.borrow_mut().insert(number, Rc::default());
        Ok(())
    }

    /// Is the volume no other unit's?
    fn has_no_other(&self, number: LunNumber, identity: VolumeIdentity) -> Result<(), DeviceError> {
        let volumes = self.volumes.borrow();
        let mut others = volumes.iter().filter(|(other, _)| **other != number);
        match others.find(|(_, volume)| volume.identity() == identity) {
            Some((other, _)) => {
                let (lun, other) = (number.get(), other.get());
                Err(DeviceError::SameVolume { lun, other, identity })
            }
            None => Ok(()),
        }
    }

    /// Removes a unit. Its tasks go on until the caller aborts them.
    ///
    /// # Errors
    /// There is none of that number.
    pub(crate) fn remove_lun(&self, number: LunNumber) -> Result<(), DeviceError> {
        let removed = self.scsi.borrow_mut().remove_lun(number);
        removed.map_err(|source| DeviceError::Unit { lun: number.get(), source })?;
        self.volumes.borrow_mut().remove(&number);
        self.definitions.borrow_mut().remove(&number);
        self.counters.borrow_mut().remove(&number);
        Ok(())
    }

    /// Flushes all volumes.
    pub(crate) async fn flush(&self) {
        let all: Vec<_> = self.volumes.borrow().iter().map(|(n, v)| (*n, Rc::clone(v))).collect();
        for (number, volume) in all {
            if let Err(error) = volume.operate(&scsi::MediumOperation::Flush).await {
                tracing::error!(%error, lun = number.get(), "what was written last may be lost");
            }
        }
    }

    fn config(&self, lun: &LunDefinition, volume: &Volume, kept: KeptState) -> LunConfig {
        let identity = volume.identity();
        let block = u64::from(lun.block_size.bytes());
        let serial = lun.serial.clone().unwrap_or_else(|| identity.to_string());
        let granularity = u32::try_from(4096 / block).unwrap_or(1);
        LunConfig {
            block_size: lun.block_size,
            provisioning: if volume.is_thin() && !lun.read_only {
                Provisioning::Thin { granularity, anchor: true }
            } else {
                Provisioning::Full
            },
            read_only: lun.read_only,
            removable: lun.removable,
            most_transfer: MOST_TRANSFER / lun.block_size.bytes(),
            write_cache: lun.write_cache,
            keeps_state: self.state.is_some(),
            mode_pages: kept.mode_pages,
            reservations: kept.reservations,
            ..LunConfig::new(&serial, identity.identifier(), volume.size() / block)
        }
    }

    /// What its units are now.
    pub(crate) fn definitions(&self) -> BTreeMap<LunNumber, LunDefinition> {
        let mut definitions = self.definitions.borrow().clone();
        for (number, definition) in &mut definitions {
            if let Some(volume) = self.volume(*number) {
                // Memory that was resized.
                definition.volume = volume.specification();
            }
        }
        definitions
    }

    /// A key for a new task.
    pub(crate) fn next_key(&self) -> u64 {
        self.next_key.replace(self.next_key.get() + 1)
    }

    /// A nexus for a new session.
    ///
    /// # Errors
    /// There is no room.
    pub(crate) fn add_nexus(
        &self,
        name: &str,
        isid: [u8; 6],
        rights: UnitRights,
    ) -> Result<NexusId, TargetError> {
        let nexus = NexusId(self.next_nexus.replace(self.next_nexus.get() + 1));
        let port = InitiatorPort::new(name, isid)
            .ok_or(TargetError::OutOfRange("the initiator's name"))?;
        let mut scsi = self.scsi.borrow_mut();
        scsi.add_nexus(nexus, port, PORTAL_GROUP)?;
        if !rights.is_everything() {
            scsi.set_rights(nexus, rights);
        }
        Ok(nexus)
    }

    /// A session's handle: any number but 0 (RFC 7143 11.13.3).
    pub(crate) fn next_tsih(&self) -> u16 {
        let next = self.next_tsih.get().checked_add(1).unwrap_or(1);
        self.next_tsih.replace(next)
    }

    /// The unit's volume.
    pub(crate) fn volume(&self, lun: LunNumber) -> Option<Rc<Volume>> {
        self.volumes.borrow().get(&lun).cloned()
    }

    /// The unit's counters.
    pub(crate) fn counters(&self, lun: LunNumber) -> Option<Rc<UnitCounters>> {
        self.counters.borrow().get(&lun).cloned()
    }

    /// Enters a task. The guard gives its ranges back.
    pub(crate) fn lock(self: &Rc<Self>, key: u64, access: &scsi::Access) -> Option<RangeGuard> {
        let started = self.locks.borrow_mut().start(key, access);
        let turn = match started {
            scsi::Start::Now => None,
            scsi::Start::Later => {
                let (sender, turn) = oneshot::channel();
                self.waiting.borrow_mut().insert(key, sender);
                Some(turn)
            }
            scsi::Start::Full | scsi::Start::Known => return None,
        };
        Some(RangeGuard { device: Rc::clone(self), key, turn })
    }

    fn wake(&self, keys: Vec<u64>) {
        for key in keys {
            if let Some(waiting) = self.waiting.borrow_mut().remove(&key) {
                let _ = waiting.send(());
            }
        }
    }

    /// Stores state of a unit. `false`: it is not on stable storage.
    pub(crate) fn store(&self, lun: LunNumber, state: &StoredState) -> bool {
        let stored = match (&self.state, state) {
            (Some(store), _) => match self.volume(lun) {
                Some(volume) => store.store(lun, &state_of(volume.identity(), state)),
                None => Err(std::io::Error::other("the unit is gone")),
            },
            // Nothing that is to survive can be forgotten by not being stored.
            (None, StoredState::Reservations(None)) => Ok(()),
            (None, _) => Err(std::io::Error::other("the target has no folder for state")),
        };
        match stored {
            Ok(()) => true,
            Err(error) => {
                tracing::error!(%error, lun = lun.get(), "cannot keep the unit's state");
                false
            }
        }
    }
}

/// The ranges of a task, from its begin to its end.
#[derive(Debug)]
pub(crate) struct RangeGuard {
    device: Rc<Device>,
    key: u64,
    turn: Option<oneshot::Receiver<()>>,
}

impl RangeGuard {
    /// Waits until the task may run.
    pub(crate) async fn wait(&mut self) {
        if let Some(turn) = self.turn.take() {
            // It is not dropped before this guard is.
            let _ = turn.await;
        }
    }

    /// The task was aborted, and its medium still works: nobody shares its ranges any more.
    pub(crate) fn hold_alone(&self) {
        self.device.locks.borrow_mut().hold_alone(self.key);
    }

    /// The task holds less from now on.
    pub(crate) fn narrow(&self, access: &scsi::Access) {
        let free = self.device.locks.borrow_mut().narrow(self.key, access);
        self.device.wake(free);
    }
}

impl Drop for RangeGuard {
    fn drop(&mut self) {
        self.device.waiting.borrow_mut().remove(&self.key);
        let free = self.device.locks.borrow_mut().finish(self.key);
        self.device.wake(free);
    }
}
