//! The pipe, the initiator's shell, and the model of the disk.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use iscsi::initiator::{Ending, InitiatorConnection, LoginStages};
use iscsi::pdu::{AsyncEvent, Isid, LogoutReason, ServiceResponse, TaskFunction, TaskResponse};
use iscsi::target::TargetConnection;
use iscsi::{
    CommandId, InitiatorCommand, InitiatorConfig, InitiatorEvent, KeySettings, Lun, TargetConfig,
};

use crate::disk::Disk;
use crate::name;
use crate::random::Random;

/// Each region of the disk has one open command.
const REGION: usize = 20_000;
const REGIONS: usize = 12;

/// An open command.
struct Open {
    region: usize,
    start: usize,
    /// What a read is to find, and what it found.
    read: Option<(Vec<u8>, Vec<u8>)>,
    is_aborted: bool,
    /// To be submitted again.
    command: InitiatorCommand,
}

pub(crate) struct World {
    random: Random,
    pub(crate) initiator: InitiatorConnection,
    target: TargetConnection,
    settings: TargetConfig,
    pub(crate) disk: Disk,
    model: Vec<u8>,
    to_target: BytesMut,
    to_initiator: BytesMut,
    open: BTreeMap<CommandId, Open>,
    aborts: BTreeMap<CommandId, CommandId>,
    pub(crate) ending: Option<Ending>,
    pub(crate) events: Vec<InitiatorEvent>,
    done: usize,
    /// One in so many steps cuts the connection; 0: none does.
    pub(crate) cuts: usize,
    pub(crate) reconnections: usize,
    wishes: InitiatorConfig,
}

pub(crate) fn initiator_config(keys: &KeySettings, stages: LoginStages) -> InitiatorConfig {
    let target = Some(name("iqn.2001-04.com.example:disks"));
    let own = name("iqn.2001-04.com.example:i");
    let config = InitiatorConfig::new(own, target, Isid::random([1, 2, 3, 4, 5]));
    InitiatorConfig { keys: keys.clone(), stages, ..config }
}

pub(crate) fn target_config(keys: &KeySettings) -> TargetConfig {
    let budget = 100_000;
    TargetConfig {
        keys: keys.clone(),
        queue_depth: 8,
        data_out_budget: budget,
        ..TargetConfig::default()
    }
}

impl World {
    /// Both ends before the login.
    pub(crate) fn new(seed: u64, initiator: InitiatorConfig, target: TargetConfig) -> Self {
        let mut random = Random::new(seed);
        let secret = random.bytes();
        let wishes = initiator.clone();
        Self {
            initiator: InitiatorConnection::new(initiator, Duration::ZERO, secret)
                .expect("sound settings"),
            settings: target.clone(),
            target: TargetConnection::new(target, Duration::ZERO, random.bytes()),
            random,
            disk: Disk::new(REGION * REGIONS, name("iqn.2001-04.com.example:disks")),
            model: vec![0; REGION * REGIONS],
            to_target: BytesMut::new(),
            to_initiator: BytesMut::new(),
            open: BTreeMap::new(),
            aborts: BTreeMap::new(),
            ending: None,
            events: Vec::new(),
            done: 0,
            cuts: 0,
            reconnections: 0,
            wishes,
        }
    }

    /// Both ends in the full feature phase.
    pub(crate) fn connect(seed: u64, keys: &KeySettings, stages: LoginStages) -> Self {
        let mut world = Self::new(seed, initiator_config(keys, stages), target_config(keys));
        world.settle();
        assert!(world.initiator.is_full_feature(), "{:?}", world.events);
        if stages != LoginStages::Security {
            let (a, b) = (world.initiator.parameters(), world.target.parameters());
            assert_eq!((a.initial_r2t, a.immediate_data), (keys.initial_r2t, keys.immediate_data));
            assert_eq!((a.send_limit, a.max_burst), (b.receive_limit, b.max_burst));
        }
        world
    }

    /// Moves some bytes one way; whether there were any.
    fn step(&mut self) -> bool {
        let room = 200_000;
        let mut moved = false;
        if self.random.below(2) == 0 {
            while self.to_target.len() < room
                && let Some(pdu) = self.initiator.poll_transmit()
            {
                pdu.pieces().for_each(|piece| self.to_target.extend_from_slice(piece));
                moved = true;
            }
            moved |= !self.to_target.is_empty();
            let mut input = cut(&mut self.to_target, &mut self.random);
            self.target.handle_bytes(Duration::ZERO, &mut input);
            give_back(&mut self.to_target, &input);
        } else {
            while self.to_initiator.len() < room
                && let Some(pdu) = self.target.poll_transmit()
            {
                pdu.pieces().for_each(|piece| self.to_initiator.extend_from_slice(piece));
                moved = true;
            }
            moved |= !self.to_initiator.is_empty();
            let mut input = cut(&mut self.to_initiator, &mut self.random);
            self.initiator.handle_bytes(Duration::ZERO, &mut input);
            give_back(&mut self.to_initiator, &input);
        }
        self.disk.work(&mut self.target, &mut self.random);
        self.check_bound();
        while let Some(event) = self.initiator.poll_event() {
            self.take(event);
        }
        moved
    }

    /// The sum in the documentation of [`TargetConfig`].
    fn check_bound(&self) {
        let config = &self.settings;
        let parameters = self.target.parameters();
        let open = usize::from(config.queue_depth) + 2 * usize::from(config.max_immediate);
        let bound = open * parameters.first_burst.max(parameters.receive_limit) as usize
            + config.data_out_budget.max(config.keys.max_burst) as usize
            + parameters.receive_limit as usize
            + (18 << 10);
        assert!(self.target.held_bytes() <= bound, "{} bytes", self.target.held_bytes());
    }

    /// Moves bytes until nothing moves.
    pub(crate) fn settle(&mut self) {
        let mut idle = 0;
        while idle < 40 {
            idle = if self.step() { 0 } else { idle + 1 };
        }
    }

    /// Runs that many random commands.
    pub(crate) fn run_commands(&mut self, count: usize) {
        let end = self.done + count;
        let mut submitted = self.done;
        let mut idle = 0;
        while self.done < end {
            if submitted < end && self.open.len() < REGIONS && self.random.below(3) == 0 {
                submitted += usize::from(self.submit());
            }
            if self.random.below(40) == 0 {
                self.abort_a_read();
            }
            if self.cuts > 0 && self.random.below(self.cuts) == 0 {
                self.reconnect();
            }
            idle = if self.step() || submitted < end { 0 } else { idle + 1 };
            assert!(idle < 1000, "{} of {end} commands are done: {:?}", self.done, self.ending);
        }
        self.settle();
        assert_eq!(self.disk.bytes, self.model);
    }

    /// Submits a command in a free region.
    fn submit(&mut self) -> bool {
        let region = self.random.below(REGIONS);
        if self.open.values().any(|open| open.region == region) {
            return false;
        }
        let length = 1 + self.random.below(REGION);
        let start = region * REGION + self.random.below(REGION - length + 1);
        let is_write = self.random.below(2) == 0;
        let mut cdb = vec![u8::from(is_write), 0];
        cdb.extend_from_slice(&(start as u32).to_be_bytes());
        cdb.extend_from_slice(&(length as u32).to_be_bytes());
        let mut command =
            InitiatorCommand { lun: Lun::default(), cdb: cdb.into(), ..Default::default() };
        let mut read = None;
        if is_write {
            let fill = self.random.bytes::<7>();
            let data: Bytes = (0..length).map(|at| fill[at % 7]).collect::<Vec<u8>>().into();
            self.model[start..start + length].copy_from_slice(&data);
            let middle = self.random.below(length + 1);
            command.data_out = vec![data.slice(..middle), data.slice(middle..)];
        } else {
            command.expected_in = length as u32;
            read = Some((self.model[start..start + length].to_vec(), vec![0; length]));
        }
        let id = self.initiator.submit(command.clone()).expect("room");
        self.open.insert(id, Open { region, start, read, is_aborted: false, command });
        true
    }

    /// The connection is lost, with what is in the pipe. A new one replaces the session, and the
    /// initiator submits again what is open (RFC 7143 6.3.5).
    fn reconnect(&mut self) {
        self.reconnections += 1;
        self.to_target.clear();
        self.to_initiator.clear();
        self.disk.end_session();
        let (wishes, settings) = (self.wishes.clone(), self.settings.clone());
        let made = InitiatorConnection::new(wishes, Duration::ZERO, self.random.bytes());
        self.initiator = made.expect("sound settings");
        self.target = TargetConnection::new(settings, Duration::ZERO, self.random.bytes());
        self.aborts.clear();
        let open = std::mem::take(&mut self.open);
        self.settle();
        assert!(self.initiator.is_full_feature());
        for (_, mut open) in open {
            open.is_aborted = false;
            let id = self.initiator.submit(open.command.clone()).expect("room");
            self.open.insert(id, open);
        }
    }

    fn abort_a_read(&mut self) {
        let found = self.open.iter_mut().find(|(_, open)| open.read.is_some() && !open.is_aborted);
        let Some((id, open)) = found else { return };
        open.is_aborted = true;
        let id = *id;
        let function = TaskFunction::AbortTask;
        let request = self.initiator.task_management(function, Lun::default(), Some(id));
        self.aborts.insert(request.expect("open"), id);
    }

    fn take(&mut self, event: InitiatorEvent) {
        match event {
            InitiatorEvent::DataIn { command, offset, data } => {
                let open = self.open.get_mut(&command).expect("open");
                let (_, found) = open.read.as_mut().expect("a read");
                found[offset as usize..][..data.len()].copy_from_slice(&data);
            }
            InitiatorEvent::Response { command, response, status, .. } => {
                assert_eq!((response, status), (ServiceResponse::Completed, 0));
                let open = self.open.remove(&command).expect("open");
                if let Some((expected, found)) = open.read {
                    assert!(expected == found, "a read at {} is wrong", open.start);
                }
                self.done += 1;
            }
            InitiatorEvent::TaskManagement { command, response, ended } => {
                let meant = self.aborts.remove(&command).expect("an abort");
                match response {
                    TaskResponse::Complete => {
                        assert_eq!(ended, [meant]);
                        assert!(self.open.remove(&meant).is_some());
                        self.done += 1;
                    }
                    TaskResponse::TaskDoesNotExist => {
                        assert!(ended.is_empty() && !self.open.contains_key(&meant));
                    }
                    other => panic!("{other:?}"),
                }
            }
            InitiatorEvent::Closed(ending) => self.ending = Some(ending),
            other => self.events.push(other),
        }
    }

    /// The target tells something unasked.
    pub(crate) fn tell(&mut self, event: AsyncEvent, sense: &Bytes) {
        self.target.send_async(event, sense).expect("logged in");
    }

    pub(crate) fn log_out(&mut self) {
        let reason = LogoutReason::CloseSession;
        self.initiator.logout(Duration::ZERO, reason).expect("logged in");
        self.settle();
        assert!(matches!(self.ending, Some(Ending::LoggedOut(_))), "{:?}", self.ending);
    }
}

/// A piece of random length from the front.
fn cut(pipe: &mut BytesMut, random: &mut Random) -> Bytes {
    let most = match random.below(4) {
        0 => 60,
        1 => 3000,
        _ => 100_000,
    };
    let length = (1 + random.below(most)).min(pipe.len());
    pipe.split_to(length).freeze()
}

/// Puts bytes back that were not taken.
fn give_back(pipe: &mut BytesMut, rest: &Bytes) {
    if !rest.is_empty() {
        let mut all = BytesMut::from(&rest[..]);
        all.extend_from_slice(pipe);
        *pipe = all;
    }
}
