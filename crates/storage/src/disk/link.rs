//! A unit's session, which comes back after it was lost.
//!
//! ```text
//!            lost, reset by others, no answer                  the same unit
//!   Live ──────────────────────────────────▶ Away ── login ──▶ Live
//!                                             │ another unit
//!                                             ▼
//!                                           Other: every request fails
//! ```
//!
//! A session is lost when its connection ends, when another initiator has reset the unit (then
//! commands may have ended without an answer), or when nothing is answered for [`SILENCE`]. Its
//! commands are made again on the next one. It is also given up when the target says that its units
//! have changed: no command is made again before the unit has said which one it is.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::error::DiskError;
use super::facts::UnitFacts;
use super::unit_session::{Connect, UnitSession};
use crate::initiator::{InitiatorError, UNIT_ATTENTION, may_be_another};

/// The pauses between attempts to log in: the first, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// How long an attempt may take.
const ATTEMPT: Duration = Duration::from_secs(10);
/// A session that has answered nothing for so long is lost.
const SILENCE: Duration = Duration::from_secs(60);
/// Between two looks for that.
const LOOK: Duration = Duration::from_secs(5);
/// How often a command is made again that the target could not take.
const BUSY_TRIES: u32 = 50;
/// The pause before that.
const BUSY_PAUSE: Duration = Duration::from_millis(100);

/// Why a session is given up whose unit is to be asked anew.
const CHANGED: &str = "the unit was reset, or the target's units have changed";
/// Unit attentions (SPC-4 D.2).
const CAPACITY_CHANGED: u16 = 0x2a09;
const COMMANDS_CLEARED: u16 = 0x2f00;

/// A unit and its session.
pub(super) struct Link {
    connect: Connect,
    lun: u16,
    /// How long requests wait for a session; `None`: for ever.
    give_up: Option<Duration>,
    state: RefCell<State>,
    changed: Notify,
    generation: Cell<u64>,
    facts: RefCell<Rc<UnitFacts>>,
    /// Bytes of the unit, for other threads as well.
    size: Arc<AtomicU64>,
    open: Cell<u32>,
    /// When a command was answered, or the first of those that are open was made.
    heard: Cell<Instant>,
}

#[derive(Clone)]
enum State {
    Live(Live),
    Away { since: Instant, why: String },
    Other(String),
    Closed,
}

#[derive(Clone)]
struct Live {
    generation: u64,
    session: Rc<dyn UnitSession>,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").field("lun", &self.lun).finish_non_exhaustive()
    }
}

impl Link {
    /// Makes the first session.
    ///
    /// # Errors
    /// The first attempt's.
    pub(super) async fn open(
        connect: Connect,
        lun: u16,
        give_up: Option<Duration>,
    ) -> Result<Rc<Self>, InitiatorError> {
        let (session, facts) = first_session(&connect, lun, give_up).await?;
        let link = Rc::new(Self {
            connect,
            lun,
            give_up,
            state: RefCell::new(State::Closed),
            changed: Notify::new(),
            generation: Cell::new(0),
            size: Arc::new(AtomicU64::new(facts.capacity.bytes())),
            facts: RefCell::new(Rc::new(facts)),
            open: Cell::new(0),
            heard: Cell::new(Instant::now()),
        });
        link.begin(session);
        Ok(link)
    }

    pub(super) fn facts(&self) -> Rc<UnitFacts> {
        self.facts.borrow().clone()
    }

    pub(super) fn size(&self) -> &Arc<AtomicU64> {
        &self.size
    }

    /// Carries out a command, on as many sessions as it takes.
    pub(super) async fn command(
        self: &Rc<Self>,
        cdb: &[u8],
        data_out: &[Bytes],
        expected_in: u32,
    ) -> Result<Bytes, DiskError> {
        let mut tries = BUSY_TRIES;
        loop {
            let live = self.live().await?;
            let open = OpenCommand::new(self);
            let result = live.session.command(self.lun, cdb, data_out, expected_in).await;
            drop(open);
            self.heed_attentions(&live);
            match result {
                Err(InitiatorError::Command { key: UNIT_ATTENTION, code, .. })
                    if may_be_another(code) =>
                {
                    self.lose(&live, CHANGED);
                }
                Err(InitiatorError::Lost(why)) => self.lose(&live, &why),
                Err(error) if is_for_now(&error) && tries > 0 => {
                    tries -= 1;
                    sleep(BUSY_PAUSE).await;
                }
                other => return other.map_err(DiskError::Unit),
            }
        }
    }

    /// Ends the session. No request has a result after that.
    pub(super) async fn close(&self) {
        let before = self.state.replace(State::Closed);
        self.changed.notify_waiters();
        if let State::Live(live) = before {
            live.session.logout().await;
            live.session.close();
        }
    }

    /// The session, once there is one.
    async fn live(&self) -> Result<Live, DiskError> {
        loop {
            let changed = self.changed.notified();
            let state = self.state.borrow().clone();
            let (since, why) = match state {
                State::Live(live) => return Ok(live),
                State::Other(what) => return Err(DiskError::OtherUnit(what)),
                State::Closed => return Err(DiskError::Closed),
                State::Away { since, why } => (since, why),
            };
            let Some(patience) = self.give_up else {
                changed.await;
                continue;
            };
            if timeout_at(since + patience, changed).await.is_err() {
                return Err(DiskError::Away { patience, why });
            }
        }
    }

    fn enter(&self, state: State) {
        self.state.replace(state);
        self.changed.notify_waiters();
    }

    fn begin(self: &Rc<Self>, session: Rc<dyn UnitSession>) {
        let generation = self.generation.get() + 1;
        self.generation.set(generation);
        self.enter(State::Live(Live { generation, session }));
        tokio::task::spawn_local(Rc::clone(self).watch(generation));
    }

    fn is_live(&self, generation: u64) -> bool {
        matches!(&*self.state.borrow(), State::Live(live) if live.generation == generation)
    }

    /// The session is over. Its commands end with an error, and wait for the next one.
    fn lose(self: &Rc<Self>, live: &Live, why: &str) {
        if !self.is_live(live.generation) {
            return;
        }
        tracing::warn!(lun = self.lun, why, "the session is lost; trying to log in again");
        self.enter(State::Away { since: Instant::now(), why: why.to_owned() });
        live.session.close();
        tokio::task::spawn_local(Rc::clone(self).recover());
    }

    /// Looks whether the session still answers.
    async fn watch(self: Rc<Self>, generation: u64) {
        loop {
            sleep(LOOK).await;
            let live = match &*self.state.borrow() {
                State::Live(live) if live.generation == generation => live.clone(),
                _ => return,
            };
            if self.open.get() > 0 && self.heard.get().elapsed() > SILENCE {
                self.lose(&live, "commands are not answered");
            }
        }
    }

    /// Logs in again and again, until there is a session.
    async fn recover(self: Rc<Self>) {
        let (mut pause, longest) = PAUSES;
        loop {
            let attempt = timeout(ATTEMPT, self.attempt()).await;
            let why = match attempt {
                Ok(Ok((session, facts))) => {
                    if self.is_away() {
                        return self.resume(session, facts);
                    }
                    return session.close();
                }
                Ok(Err(error)) => error.to_string(),
                Err(_) => format!("no answer within {} s", ATTEMPT.as_secs()),
            };
            match &mut *self.state.borrow_mut() {
                State::Away { why: before, .. } if *before == why => {}
                State::Away { why: before, .. } => {
                    tracing::warn!(lun = self.lun, why, "no session yet");
                    *before = why;
                }
                _ => return,
            }
            sleep(pause).await;
            pause = (pause * 2).min(longest);
        }
    }

    async fn attempt(&self) -> Result<(Rc<dyn UnitSession>, UnitFacts), InitiatorError> {
        let new = NewSession { session: (self.connect)().await?, kept: false };
        let facts = UnitFacts::ask(&*new.session, self.lun).await?;
        let _ = new.session.take_attentions();
        Ok((new.keep(), facts))
    }

    fn is_away(&self) -> bool {
        matches!(*self.state.borrow(), State::Away { .. })
    }

    /// There is a session again. It is used if the unit is the one it was.
    fn resume(self: &Rc<Self>, session: Rc<dyn UnitSession>, facts: UnitFacts) {
        if let Some(what) = facts.difference(&self.facts.borrow()) {
            session.close();
            return self.refuse(what);
        }
        tracing::warn!(lun = self.lun, "the session is back");
        self.learn(facts);
        self.begin(session);
    }

    fn refuse(&self, what: String) {
        tracing::error!(lun = self.lun, what, "the unit is another one: nothing is written to it");
        self.enter(State::Other(what));
    }

    fn learn(&self, facts: UnitFacts) {
        self.size.store(facts.capacity.bytes(), Ordering::Relaxed);
        self.facts.replace(Rc::new(facts));
    }

    fn heed_attentions(self: &Rc<Self>, live: &Live) {
        for code in live.session.take_attentions() {
            if code == COMMANDS_CLEARED || may_be_another(code) {
                self.lose(live, CHANGED);
            } else if code == CAPACITY_CHANGED {
                tokio::task::spawn_local(Rc::clone(self).ask_again(live.clone()));
            }
        }
    }

    /// Asks the unit what it is now.
    ///
    /// # Errors
    /// It does not say, or it is another unit.
    pub(super) async fn refresh(self: &Rc<Self>) -> Result<(), DiskError> {
        loop {
            let live = self.live().await?;
            let open = OpenCommand::new(self);
            let asked = UnitFacts::ask(&*live.session, self.lun).await;
            drop(open);
            match asked {
                Ok(facts) => {
                    self.compare(&live, facts);
                    // It may be another unit.
                    return self.live().await.map(drop);
                }
                Err(InitiatorError::Lost(why)) => self.lose(&live, &why),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The unit has another size.
    async fn ask_again(self: Rc<Self>, live: Live) {
        if let Ok(facts) = UnitFacts::ask(&*live.session, self.lun).await {
            self.compare(&live, facts);
        }
    }

    /// What the unit of this session says now is taken if it is still the same unit.
    fn compare(&self, live: &Live, facts: UnitFacts) {
        if !self.is_live(live.generation) {
            return;
        }
        let difference = facts.difference(&self.facts.borrow());
        match difference {
            Some(what) => {
                live.session.close();
                self.refuse(what);
            }
            None => self.learn(facts),
        }
    }
}

/// The first session with a unit, and what the unit is. A target that cannot be reached is an
/// error. One that is lost after a login is waited for, as later.
async fn first_session(
    connect: &Connect,
    lun: u16,
    give_up: Option<Duration>,
) -> Result<(Rc<dyn UnitSession>, UnitFacts), InitiatorError> {
    let mut lost_at = None;
    loop {
        let asked = async {
            let session = connect().await.map_err(|error| (false, error))?;
            let facts = UnitFacts::ask(&*session, lun).await.map_err(|error| (true, error))?;
            let _ = session.take_attentions();
            Ok((session, facts))
        };
        match asked.await {
            Ok(opened) => return Ok(opened),
            Err((true, InitiatorError::Lost(_))) => lost_at = Some(Instant::now()),
            Err((false, InitiatorError::Lost(_) | InitiatorError::Connect { .. }))
                if lost_at.is_some_and(|at| give_up.is_none_or(|most| at.elapsed() < most)) => {}
            Err((_, error)) => return Err(error),
        }
        sleep(PAUSES.0).await;
    }
}

/// A session that is closed unless it is kept.
struct NewSession {
    session: Rc<dyn UnitSession>,
    kept: bool,
}

impl NewSession {
    fn keep(mut self) -> Rc<dyn UnitSession> {
        self.kept = true;
        Rc::clone(&self.session)
    }
}

impl Drop for NewSession {
    fn drop(&mut self) {
        if !self.kept {
            self.session.close();
        }
    }
}

/// A command that waits for its answer.
struct OpenCommand<'a>(&'a Link);

impl<'a> OpenCommand<'a> {
    fn new(link: &'a Link) -> Self {
        if link.open.replace(link.open.get() + 1) == 0 {
            link.heard.set(Instant::now());
        }
        Self(link)
    }
}

impl Drop for OpenCommand<'_> {
    fn drop(&mut self) {
        self.0.open.set(self.0.open.get() - 1);
        self.0.heard.set(Instant::now());
    }
}

/// Will the target take the command later? BUSY, TASK SET FULL, TASK ABORTED (SAM-5 5.3.1);
/// ABORTED COMMAND; NOT READY, becoming ready (SPC-4 4.5.6).
fn is_for_now(error: &InitiatorError) -> bool {
    match error {
        InitiatorError::Command { status: 0x08 | 0x28 | 0x40, .. } | InitiatorError::Target => true,
        InitiatorError::Command { key, code, .. } => *key == 0xb || (*key, *code) == (2, 0x0401),
        _ => false,
    }
}
