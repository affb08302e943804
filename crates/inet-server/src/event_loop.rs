//! The event loop, in parts for the owner of the thread. The thread works while there is work. Then
//! it sleeps until a bell rings, a timer is due or the epoll set reports something else.
//!
//! The drivers of the same process ([`Companion`]) come first in each iteration. So a frame that
//! woke the thread goes through the core to the client's words in one iteration. The core's answer
//! leaves in the next. All sources of work are in one epoll set. Before a sleep, server and drivers
//! announce it and look once more for work.

use std::fs::File;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use abi::companion::{Companion, EPOLL_NUMBERS};
use inet::Instant;
use rustix::event::epoll::Event;
use shm::{Channel, Spin, spin};

use crate::clock::{clock, secret};
use crate::error::{ServerError, system};
use crate::poller::{COMPANIONS, CONTROL, SHARED, TIMER};
use crate::server::Server;
use crate::xfrm::{self, MakeCipher};

mod control;

pub use control::ControlActivity;
use control::ControlConnection;

/// How often a server that does not sleep looks at its control connection.
const CONTROL_EVERY: Duration = Duration::from_millis(2);

/// A server with its control connection and the drivers of this process. Dropping it resets all
/// connections, unless the supervisor has ended it already.
pub struct EventLoop {
    control: ControlConnection,
    server: Server,
    companions: Vec<Box<dyn Companion>>,
    /// When to look at the control connection, although epoll has not reported it.
    control_due: Instant,
    /// Server and drivers have announced sleep.
    announced: bool,
    /// A bell rang, and no iteration followed yet.
    rung: bool,
    ended: bool,
}

/// The outcome of one look in a spin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpinOutcome {
    /// There is work.
    Work,
    /// Look again, after yielding the processor.
    Again,
    /// Sleep.
    Sleep,
}

impl std::fmt::Debug for EventLoop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventLoop").finish_non_exhaustive()
    }
}

impl EventLoop {
    /// Waits for the supervisor's configuration and makes the server.
    ///
    /// # Errors
    /// See [`ServerError`].
    pub fn new(
        channel: Channel,
        mut companions: Vec<Box<dyn Companion>>,
    ) -> Result<Self, ServerError> {
        let mut control = ControlConnection::new(channel);
        let config = control.configure()?;
        let server = Server::new(config, secret()?).map_err(system("epoll_create"))?;
        tracing::info!(instance = server.config.instance, "inet server");
        server.poller.add_control(control.channel()).map_err(system("epoll_ctl"))?;
        for (number, companion) in (0..).zip(&mut companions) {
            let watched =
                companion.watch_in(server.poller.set(), COMPANIONS + number * EPOLL_NUMBERS);
            watched.map_err(ServerError::Companion)?;
        }
        Ok(Self {
            control,
            server,
            companions,
            control_due: Instant::ZERO,
            announced: false,
            rung: false,
            ended: false,
        })
    }

    /// Lets the server keep processors awake by requests to `latency`, unless the configuration
    /// forbids it: see [`run`](crate::run).
    pub(crate) fn keep_awake_by(&mut self, latency: File) {
        if self.server.config.keep_awake {
            self.server.wakefulness.allow(latency);
        }
    }

    /// Lets security associations be added: see [`run`](crate::run).
    pub(crate) fn use_ciphers(&mut self, make: MakeCipher) {
        self.server.xfrm.use_ciphers(make);
    }

    /// Works until there is nothing more to do, or until `enough` returns true after some work.
    /// [`ControlActivity::Shutdown`]: the supervisor has ended the server; drop the loop.
    ///
    /// # Errors
    /// See [`ServerError`]; drop the loop.
    pub fn work(
        &mut self,
        enough: &mut dyn FnMut() -> bool,
    ) -> Result<ControlActivity, ServerError> {
        self.awake();
        let mut activity = ControlActivity::None;
        loop {
            let now = clock();
            if now >= self.control_due {
                self.control_due = now + CONTROL_EVERY;
                activity = self.control.serve(&mut self.server, now)?;
                self.server.end_unheld(now);
                xfrm::log_notices(&mut self.server.engine);
                if activity == ControlActivity::Shutdown {
                    self.finish()?;
                    return Ok(activity);
                }
            }
            let mut progress = self.step_drivers()?;
            progress |= self.server.iterate_silently(now);
            if self.server.has_due_bells() {
                // A program that is woken may take the processor, so frames leave first.
                progress |= self.send_drivers()?;
                if self.server.take_connect_succeeded() && self.companions.is_empty() {
                    // The peer's accept waits for the ACK, and the driver perhaps for a processor.
                    self.server.spin.yield_once();
                }
                self.server.ring();
            }
            self.control.report(self.server.take_events())?;
            let idle_wake = std::mem::take(&mut self.rung) && !progress;
            self.server.engine.counters.idle_wakes += u64::from(idle_wake);
            if !progress {
                return Ok(activity);
            }
            self.server.spin.over();
            if enough() {
                // The core's answers are in the rings.
                self.send_drivers()?;
                return Ok(activity);
            }
        }
    }

    /// Makes the drivers send the core's output.
    fn send_drivers(&mut self) -> Result<bool, ServerError> {
        let mut progress = false;
        for companion in &mut self.companions {
            progress |= companion.send().map_err(ServerError::Companion)?;
        }
        Ok(progress)
    }

    fn step_drivers(&mut self) -> Result<bool, ServerError> {
        let mut progress = false;
        for companion in &mut self.companions {
            progress |= companion.step().map_err(ServerError::Companion)?;
        }
        Ok(progress)
    }

    /// Spins for a while, then sleeps until a bell rings or a timer is due. It may return at once.
    ///
    /// # Errors
    /// See [`ServerError`]; drop the loop.
    pub fn sleep(&mut self) -> Result<(), ServerError> {
        loop {
            match self.look()? {
                SpinOutcome::Again => spin::yield_processor(),
                SpinOutcome::Work => return Ok(()),
                SpinOutcome::Sleep => break,
            }
        }
        if self.prepare_sleep() {
            self.server.engine.counters.sleeps += 1;
            let timeout = self.server.deadline(clock());
            let Self { server, companions, control_due, rung, .. } = self;
            let Server { poller, spin, .. } = server;
            let report = |events: &[Event]| {
                Report { companions, control_due, rung, spin }.pass_on(events);
            };
            poller.wait(timeout, report).map_err(system("epoll_wait"))?;
        }
        Ok(())
    }

    /// One look of a spin ([`shm::spin`]): is there work now?
    ///
    /// # Errors
    /// See [`ServerError`]; drop the loop.
    pub fn look(&mut self) -> Result<SpinOutcome, ServerError> {
        if !self.server.spin.again() {
            return Ok(SpinOutcome::Sleep);
        }
        self.companions.iter_mut().for_each(|companion| companion.ask());
        let work = self.step_drivers()? || self.server.has_work();
        Ok(if work { SpinOutcome::Work } else { SpinOutcome::Again })
    }

    /// Announces sleep and looks once more for work. True: there is none, and new work will ring
    /// the server's bell. The thread may wait for [`EventLoop::set`] until [`EventLoop::deadline`].
    /// It passes the set's reports to [`EventLoop::woken`], and goes on with [`EventLoop::work`].
    pub fn prepare_sleep(&mut self) -> bool {
        if self.server.defers_fin_acks() {
            self.server.iterate(clock());
        }
        self.announced = true;
        self.server.announce();
        let sleep = !self.server.has_work() && self.prepare_drivers();
        if sleep {
            self.server.before_sleep(clock());
        }
        sleep
    }

    /// Takes the announcements back.
    fn awake(&mut self) {
        if std::mem::take(&mut self.announced) {
            self.companions.iter_mut().for_each(|companion| companion.awake());
            self.server.awake();
        }
    }

    /// The epoll set with all sources of work.
    #[must_use]
    pub fn set(&self) -> BorrowedFd<'_> {
        self.server.poller.set()
    }

    /// Adds an eventfd or doorbell to the set, edge-triggered. It only ends a wait.
    ///
    /// # Errors
    /// The system's.
    pub fn watch(&self, fd: BorrowedFd<'_>) -> std::io::Result<()> {
        self.server.poller.add_bell(fd)
    }

    /// Passes on what the epoll set reported after a sleep.
    pub fn woken(&mut self, events: &[Event]) {
        let Self { server, companions, control_due, rung, .. } = self;
        Report { companions, control_due, rung, spin: &mut server.spin }.pass_on(events);
    }

    /// Is there neither a client nor memory of a departed one?
    #[must_use]
    pub fn is_deserted(&self) -> bool {
        self.server.is_deserted()
    }

    /// Works and sleeps until every interface has its addresses, or the wait for them is over. With
    /// duplicate address detection that takes seconds.
    ///
    /// # Errors
    /// See [`ServerError`]; drop the loop.
    pub fn settle(&mut self) -> Result<ControlActivity, ServerError> {
        loop {
            let activity = self.work(&mut || false)?;
            if activity == ControlActivity::Shutdown || self.server.is_settled() {
                return Ok(activity);
            }
            self.sleep()?;
        }
    }

    /// How long there is nothing to do if no bell rings; `None` is for ever.
    pub fn deadline(&mut self) -> Option<Duration> {
        self.server.deadline(clock())
    }

    /// Do all drivers allow the thread to sleep?
    fn prepare_drivers(&mut self) -> bool {
        self.companions.iter_mut().all(|companion| companion.prepare_sleep())
    }

    /// After the last request: the drivers of this thread still have to send the RSTs.
    fn finish(&mut self) -> Result<(), ServerError> {
        self.ended = true;
        for _ in 0..64 {
            if !self.step_drivers()? {
                break;
            }
        }
        Ok(())
    }
}

/// The parts of a loop that reports of the epoll set are for.
struct Report<'a> {
    companions: &'a mut [Box<dyn Companion>],
    control_due: &'a mut Instant,
    rung: &'a mut bool,
    spin: &'a mut Spin,
}

impl Report<'_> {
    /// Passes each event to the owner of its number.
    fn pass_on(self, events: &[Event]) {
        for (place, event) in events.iter().enumerate() {
            let name = event.data.u64();
            *self.rung |= ![CONTROL, SHARED, TIMER].contains(&name);
            match name.checked_sub(COMPANIONS) {
                Some(number) => {
                    let number = usize::try_from(number / EPOLL_NUMBERS).unwrap_or(usize::MAX);
                    if let Some(companion) = self.companions.get_mut(number) {
                        companion.woken(name, event.flags);
                    }
                }
                None if name == CONTROL || name == SHARED => *self.control_due = Instant::ZERO,
                // The events are in the order in which they came. The first ended the sleep.
                None if name == TIMER && place == 0 => self.spin.timer_fired(),
                None => {}
            }
        }
    }
}

impl Drop for EventLoop {
    fn drop(&mut self) {
        if !self.ended {
            self.server.shut_down(clock());
            // A driver that failed sends nothing.
            let _ = self.finish();
        }
    }
}
