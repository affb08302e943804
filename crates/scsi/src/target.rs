//! The target: what a shell drives.

use bytes::Bytes;

use crate::attention::Attention;
use crate::call::{Call, Origin, Plan, Planned, Then};
use crate::config::{LunConfig, Provisioning, TargetConfig, TargetError};
use crate::dispatch;
use crate::foreign;
use crate::id::{InitiatorPort, LunAddress, LunNumber, NexusId};
use crate::locks::Access;
use crate::pages::ModeBits;
use crate::registry::{Registrant, Registry};
use crate::results::CopyTable;
use crate::rights::{UnitRight, UnitRights};
use crate::sense::{Sense, SenseCode};
use crate::state::{FormerUnit, LogicalUnit, State};
use crate::step::{MediumError, MediumOperation, MediumOutput, ReadTo, Step};
use crate::table::{self, Lookup};
use crate::task::{Command, OpenTask, Task, TaskAttribute, internal_failure, respond};

/// A SCSI target device with its logical units.
#[derive(Debug)]
pub struct Target {
    state: State,
}

impl Target {
    /// A target without units and nexuses.
    ///
    /// # Errors
    ///
    /// [`TargetError::OutOfRange`] names the value of the configuration.
    pub fn new(config: TargetConfig) -> Result<Self, TargetError> {
        let out_of_range = |name| Err(TargetError::OutOfRange(name));
        if config.name.is_empty() || config.name.len() > InitiatorPort::MOST_NAME {
            return out_of_range("the target's name");
        }
        let doubled = |at: usize| config.ports[..at].contains(&config.ports[at]);
        let ports = 1..=TargetConfig::MOST_PORTS;
        if !ports.contains(&config.ports.len())
            || config.ports.contains(&0)
            || (0..config.ports.len()).any(doubled)
        {
            return out_of_range("the list of ports");
        }
        let (units, former, nexuses, rights) = Default::default();
        let copies = CopyTable::default();
        Ok(Self { state: State { config, units, former, nexuses, rights, copies } })
    }

    /// Adds a unit. Each nexus learns it by a unit attention. A nexus that knew another unit by
    /// the number gets nothing done at this one before it has asked which one it is: by INQUIRY,
    /// for the page with the designators or the serial number. What it had sent to the other unit
    /// must not be carried out at this one.
    ///
    /// # Errors
    ///
    /// The number or the identifier is in use, there is no room, a value is out of range, or stored
    /// state cannot be read. Nothing has changed then.
    pub fn add_lun(&mut self, lun: LunNumber, config: LunConfig) -> Result<(), TargetError> {
        if self.state.units.contains_key(&lun) {
            return Err(TargetError::LunInUse);
        }
        if self.state.units.len() >= self.state.config.most_luns {
            return Err(TargetError::NoRoomForLun);
        }
        let others = self.state.units.values();
        let naa = crate::inquiry::naa(&config);
        if others.map(|unit| crate::inquiry::naa(&unit.config)).any(|other| other == naa) {
            return Err(TargetError::IdentifierInUse);
        }
        check(&config)?;
        let start = ModeBits { write_cache: config.write_cache, ..ModeBits::default() };
        let mode = match &config.mode_pages {
            Some(saved) => ModeBits::load(saved).ok_or(TargetError::Stored("mode pages"))?,
            None => start,
        };
        let registry = match &config.reservations {
            Some(saved) => Registry::load(saved).ok_or(TargetError::Stored("reservations"))?,
            None => Registry::default(),
        };
        let name = name_of(&config);
        let mut unit = LogicalUnit::new(config, mode, registry);
        for nexus in self.state.nexuses.keys() {
            unit.attend(*nexus, Attention::PowerOn);
        }
        if let Some(former) = self.state.former.remove(&lun).filter(|former| former.name != name) {
            unit.estrange(former.nexuses);
        }
        self.luns_changed(lun);
        self.state.units.insert(lun, unit);
        Ok(())
    }

    /// Removes a unit. The shell aborts its tasks.
    ///
    /// # Errors
    ///
    /// [`TargetError::NoSuchLun`].
    pub fn remove_lun(&mut self, lun: LunNumber) -> Result<(), TargetError> {
        let unit = self.state.units.remove(&lun).ok_or(TargetError::NoSuchLun)?;
        let nexuses = self.state.nexuses.keys().copied().collect();
        self.state.former.insert(lun, FormerUnit { name: name_of(&unit.config), nexuses });
        self.luns_changed(lun);
        Ok(())
    }

    /// Changes a unit's number of blocks. Each nexus learns it by a unit attention. The shell makes
    /// a medium larger before this call and smaller after it; tasks that have begun keep to the old
    /// size.
    ///
    /// # Errors
    ///
    /// [`TargetError::NoSuchLun`], or the number is out of range.
    pub fn resize_lun(&mut self, lun: LunNumber, blocks: u64) -> Result<(), TargetError> {
        let unit = self.state.units.get_mut(&lun).ok_or(TargetError::NoSuchLun)?;
        if !(1..=LunConfig::MOST_BLOCKS).contains(&blocks) {
            return Err(TargetError::OutOfRange("the number of blocks"));
        }
        if unit.blocks != blocks {
            unit.blocks = blocks;
            self.state.attend_others(lun, None, Attention::CapacityChanged);
        }
        Ok(())
    }

    /// Changes whether a unit refuses writes. Each nexus learns it by a unit attention.
    ///
    /// # Errors
    ///
    /// [`TargetError::NoSuchLun`].
    pub fn set_read_only(&mut self, lun: LunNumber, read_only: bool) -> Result<(), TargetError> {
        let unit = self.state.units.get_mut(&lun).ok_or(TargetError::NoSuchLun)?;
        if unit.config.read_only != read_only {
            unit.config.read_only = read_only;
            self.state.attend_others(lun, None, Attention::ModeChanged);
        }
        Ok(())
    }

    /// Changes a unit's product identification. Each nexus learns it by a unit attention.
    ///
    /// # Errors
    ///
    /// [`TargetError::NoSuchLun`].
    pub fn set_product(&mut self, lun: LunNumber, product: &str) -> Result<(), TargetError> {
        let unit = self.state.units.get_mut(&lun).ok_or(TargetError::NoSuchLun)?;
        if unit.config.product != product {
            product.clone_into(&mut unit.config.product);
            self.state.attend_others(lun, None, Attention::InquiryChanged);
        }
        Ok(())
    }

    /// Takes a removable unit's medium out, or puts it in: the operator did it, so that no PREVENT
    /// ALLOW MEDIUM REMOVAL is asked.
    ///
    /// # Errors
    ///
    /// [`TargetError::NoSuchLun`] and [`TargetError::NotRemovable`].
    pub fn set_medium(&mut self, lun: LunNumber, loaded: bool) -> Result<(), TargetError> {
        let unit = self.state.units.get_mut(&lun).ok_or(TargetError::NoSuchLun)?;
        if !unit.config.removable {
            return Err(TargetError::NotRemovable);
        }
        let comes = loaded && !unit.loaded;
        unit.loaded = loaded;
        if comes {
            self.state.attend_others(lun, None, Attention::MediumChanged);
        }
        Ok(())
    }

    /// The units' numbers, in ascending order.
    pub fn luns(&self) -> impl Iterator<Item = LunNumber> {
        self.state.units.keys().copied()
    }

    /// Adds an I_T nexus: a session of an initiator port with one of the target's ports. Its first
    /// command at each unit ends with the unit attention of a power on.
    ///
    /// # Errors
    ///
    /// The identifier is in use, the port is unknown, or there is no room.
    pub fn add_nexus(
        &mut self,
        nexus: NexusId,
        initiator: InitiatorPort,
        port: u16,
    ) -> Result<(), TargetError> {
        if self.state.nexuses.contains_key(&nexus) {
            return Err(TargetError::NexusInUse);
        }
        if !self.state.config.ports.contains(&port) {
            return Err(TargetError::NoSuchPort);
        }
        if self.state.nexuses.len() >= self.state.config.most_nexuses {
            return Err(TargetError::NoRoomForNexus);
        }
        let registrant = Registrant { port: initiator, target_port: port };
        self.state.nexuses.insert(nexus, registrant);
        for unit in self.state.units.values_mut() {
            unit.attend(nexus, Attention::PowerOn);
        }
        Ok(())
    }

    /// Says what a nexus may do with the units: before its first command. An unknown nexus is left
    /// alone.
    pub fn set_rights(&mut self, nexus: NexusId, rights: UnitRights) {
        if self.state.nexuses.contains_key(&nexus) {
            self.state.rights.insert(nexus, rights);
        }
    }

    /// What a nexus may do with a unit; `None`: the unit is not there for it.
    pub fn right(&self, nexus: NexusId, lun: LunNumber) -> Option<UnitRight> {
        self.state.units.get(&lun).and_then(|_| self.state.right(nexus, lun))
    }

    /// Whether a nexus may do something with a unit that these rights do not give it.
    pub fn would_lose(&self, nexus: NexusId, rights: &UnitRights) -> bool {
        let mut luns = self.state.units.keys();
        luns.any(|lun| self.state.right(nexus, *lun) > rights.at(*lun))
    }

    /// Gives a nexus more rights than it has. It learns of units that are there for it now by a
    /// unit attention. An unknown nexus is left alone.
    pub fn extend_rights(&mut self, nexus: NexusId, rights: UnitRights) {
        let is_new =
            |lun: &LunNumber| self.state.right(nexus, *lun).is_none() && rights.at(*lun).is_some();
        let came = self.state.units.keys().any(is_new);
        self.set_rights(nexus, rights);
        if came && self.state.nexuses.contains_key(&nexus) {
            for unit in self.state.units.values_mut() {
                unit.attend(nexus, Attention::LunsChanged);
            }
        }
    }

    /// Whether a nexus may write every unit, also those that come later.
    pub fn may_write_all(&self, nexus: NexusId) -> bool {
        self.state.rights.get(&nexus).is_none_or(UnitRights::is_everything)
    }

    /// I_T nexus loss (SAM-5 6.3.4): the session has ended. Its RESERVE and its prevention of
    /// medium removal end; persistent reservations stay. The shell aborts its tasks.
    pub fn remove_nexus(&mut self, nexus: NexusId) {
        self.state.nexuses.remove(&nexus);
        self.state.rights.remove(&nexus);
        self.state.copies.forget(nexus);
        for unit in self.state.units.values_mut() {
            unit.forget(nexus);
        }
        self.state.former.retain(|_, former| {
            former.nexuses.remove(&nexus);
            !former.nexuses.is_empty()
        });
    }

    /// LOGICAL UNIT RESET (SAM-5 7.7). The shell aborts the unit's tasks.
    ///
    /// # Errors
    ///
    /// [`TargetError::NoSuchLun`].
    pub fn reset_lun(&mut self, lun: LunNumber) -> Result<(), TargetError> {
        self.state.units.get_mut(&lun).ok_or(TargetError::NoSuchLun)?.reset();
        self.state.attend_others(lun, None, Attention::Reset);
        Ok(())
    }

    /// A reset of the whole target (RFC 7143 11.5.1, TARGET WARM RESET and TARGET COLD RESET). The
    /// shell aborts all tasks. After a cold reset it also closes all sessions.
    pub fn reset_target(&mut self) {
        let luns: Vec<LunNumber> = self.luns().collect();
        for lun in luns {
            if let Some(unit) = self.state.units.get_mut(&lun) {
                unit.reset();
            }
            self.state.attend_others(lun, None, Attention::Reset);
        }
    }

    /// CLEAR TASK SET (SAM-5 7.5) by one nexus: other nexuses whose tasks the shell has aborted
    /// learn it by a unit attention.
    pub fn commands_cleared(&mut self, lun: LunNumber, nexus: NexusId) {
        if let Some(unit) = self.state.units.get_mut(&lun)
            && self.state.nexuses.contains_key(&nexus)
        {
            unit.attend(nexus, Attention::CommandsCleared);
        }
    }

    /// Whether a unit's write cache is on; `false` for an unknown unit. Without it, tasks ask for
    /// `fua` and [`MediumOperation::Flush`] themselves.
    pub fn write_cache(&self, lun: LunNumber) -> bool {
        self.state.units.get(&lun).is_some_and(|unit| unit.mode.write_cache)
    }

    /// A unit comes or goes: the nexuses for which it is there learn it.
    fn luns_changed(&mut self, lun: LunNumber) {
        let sees = |nexus: &&NexusId| self.state.right(**nexus, lun).is_some();
        let nexuses: Vec<NexusId> = self.state.nexuses.keys().filter(sees).copied().collect();
        for unit in self.state.units.values_mut() {
            for nexus in &nexuses {
                unit.attend(*nexus, Attention::LunsChanged);
            }
        }
    }

    /// Begins a command. [`Task::step`] says what it needs.
    ///
    /// A command of an unknown nexus is the shell's fault and ends with HARDWARE ERROR.
    pub fn begin(&mut self, command: &Command<'_>) -> Task {
        let expected = command.expected_in.max(command.expected_out);
        if !self.state.nexuses.contains_key(&command.nexus) {
            return Task::over(internal_failure(expected));
        }
        let unit = match command.lun {
            LunAddress::Unit(lun) if self.state.right(command.nexus, lun).is_some() => {
                self.state.units.get_key_value(&lun)
            }
            _ => None,
        };
        let Some((&lun, unit)) = unit else {
            return Task::over(foreign::answer(&self.state, command));
        };
        let descriptor = unit.mode.descriptor_sense;
        let mut cdb = [0; 16];
        let length = command.cdb.len().min(16);
        cdb[..length].copy_from_slice(&command.cdb[..length]);
        let found = table::find(cdb[0], cdb[1] & 0x1f);
        let sense = match found {
            Lookup::Found(row) if row.usage.len() <= command.cdb.len() => {
                return self.begin_row(command, lun, cdb, row);
            }
            Lookup::NoService => Sense::cdb_field(1, Some(4)),
            Lookup::Found(_) | Lookup::Unknown => Sense::illegal(SenseCode::INVALID_OPCODE),
        };
        let unit = self.state.units.get_mut(&lun);
        let attention = unit.and_then(|unit| unit.take_attention(command.nexus));
        let sense = attention.map_or(sense, Attention::sense);
        Task::over(respond(Err(sense.into()), 0, expected, descriptor))
    }

    fn begin_row(
        &mut self,
        command: &Command<'_>,
        lun: LunNumber,
        cdb: [u8; 16],
        row: &'static table::Row,
    ) -> Task {
        let barrier = (command.attribute == TaskAttribute::Ordered).then_some(lun);
        let mut origin = Origin {
            nexus: command.nexus,
            lun,
            cdb,
            row,
            expected_in: command.expected_in,
            expected_out: command.expected_out,
            length: 0,
            access: Access { claims: Vec::new(), barrier, lun: Some(lun) },
            effects: Vec::new(),
        };
        let planned = dispatch::begin(&mut Call { state: &mut self.state, origin: &mut origin });
        Task::follow(origin, planned, self.descriptor_sense(lun))
    }

    /// Answers [`Step::DataOut`]. The task's step is another one afterwards.
    ///
    /// Bytes of another length, or for a task that has not asked, are the shell's fault: the task
    /// ends with HARDWARE ERROR.
    pub fn data_out(&mut self, task: &mut Task, bytes: Bytes) {
        let asked = match task.step {
            Step::DataOut { len, .. } => bytes.len() == len as usize,
            _ => false,
        };
        self.resume(task, |call, then| match then {
            Then::Work(work) if asked => work.data_out(call, bytes),
            _ => Err(Sense::internal().into()),
        });
    }

    /// Answers [`Step::Medium`]. The task's step is another one afterwards.
    ///
    /// An output of another kind or length than the operation's, or for a task that has not asked,
    /// is the shell's fault: the task ends with HARDWARE ERROR.
    pub fn medium_done(&mut self, task: &mut Task, result: Result<MediumOutput, MediumError>) {
        let fits = match (&task.step, &result) {
            (Step::Medium { operation, .. }, Ok(output)) => fits(operation, output),
            (Step::Medium { .. }, Err(_)) => true,
            _ => false,
        };
        self.resume(task, |call, then| match (then, result) {
            _ if !fits => Err(Sense::internal().into()),
            (Then::Reply(reply), Ok(_)) => Ok(Plan::Reply(reply)),
            (Then::Reply(_), Err(error)) => Err(call.medium_failure(error)),
            (Then::Work(work), Ok(output)) => work.medium(call, output),
            (Then::Work(work), Err(error)) => work.medium_failed(call, error),
        });
    }

    /// Answers [`Step::Store`]: `false` if the state could not be stored. The task ends with
    /// HARDWARE ERROR then, though the change itself stays until the target ends. The task's step
    /// is another one afterwards.
    pub fn stored(&mut self, task: &mut Task, done: bool) {
        let asked = matches!(task.step, Step::Store { .. });
        self.resume(task, |_, then| match then {
            Then::Reply(reply) if asked && done => Ok(Plan::Reply(reply)),
            _ => Err(Sense::internal().into()),
        });
    }

    fn resume(&mut self, task: &mut Task, go_on: impl FnOnce(&mut Call<'_>, Then) -> Planned) {
        let Some(OpenTask { mut origin, then }) = task.open.take() else { return };
        let lun = origin.lun;
        let planned = go_on(&mut Call { state: &mut self.state, origin: &mut origin }, then);
        *task = Task::follow(origin, planned, self.descriptor_sense(lun));
    }

    fn descriptor_sense(&self, lun: LunNumber) -> bool {
        self.state.units.get(&lun).is_some_and(|unit| unit.mode.descriptor_sense)
    }
}

/// What names a unit to initiators.
fn name_of(unit: &LunConfig) -> ([u8; 8], String) {
    (crate::inquiry::naa(unit), unit.serial.clone())
}

/// Whether an output is one of the operation.
fn fits(operation: &MediumOperation, output: &MediumOutput) -> bool {
    match (operation, output) {
        (MediumOperation::Read { to: ReadTo::Task, len, .. }, MediumOutput::Bytes(bytes)) => {
            bytes.len() as u64 == *len
        }
        (MediumOperation::Read { to: ReadTo::Task, .. }, _) => false,
        (MediumOperation::Map { .. }, output) => matches!(output, MediumOutput::Extents(_)),
        (_, output) => matches!(output, MediumOutput::Done),
    }
}

/// Values of a unit's configuration.
fn check(config: &LunConfig) -> Result<(), TargetError> {
    let graphic = config.serial.bytes().all(|byte| (0x21..0x7f).contains(&byte));
    let sound = [
        (
            graphic && (1..=LunConfig::MOST_SERIAL).contains(&config.serial.len()),
            "the serial number",
        ),
        ((1..=LunConfig::MOST_BLOCKS).contains(&config.blocks), "the number of blocks"),
        (config.physical_exponent < 16, "the physical block exponent"),
        (config.most_transfer > 0, "the most blocks of a transfer"),
        (
            match config.provisioning {
                Provisioning::Full => true,
                Provisioning::Thin { granularity, .. } => granularity.is_power_of_two(),
            },
            "the unmap granularity",
        ),
    ];
    match sound.into_iter().find(|(sound, _)| !sound) {
        Some((_, name)) => Err(TargetError::OutOfRange(name)),
        None => Ok(()),
    }
}
