//! One driver: its control connection to the supervisor, and when it works and when it sleeps.
//!
//! [`Driver::step`] does a bounded amount of work. When the driver has nothing more to do, the
//! owner of the thread (here [`run`], or the inet server in fused mode) calls
//! [`Driver::prepare_sleep`]. The bell word then announces sleep, and the driver looks at the rings
//! once more. Only if they are still empty may the thread wait for the epoll set; afterwards it
//! calls [`Driver::awake`]. The inet server writes to the bell's eventfd only while the word says
//! that the driver sleeps.
//!
//! All descriptors are in one epoll set: the driver's own, or that of the thread's owner
//! ([`Companion`]), which then passes on the set's reports. The device is in the set for reading
//! only while there is an empty page to read into, and for writing only while a frame waits for
//! room. The bell is edge-triggered, so it never needs to be read. The driver looks at the control
//! connection when the connection woke it, and every [`CONTROL_EVERY`] steps while it does not
//! sleep.
//!
//! Asking a device in vain costs a system call. So a device that had no frame is asked again only
//! when the set reports it, or at every [`ASK_EVERY`]-th step while the driver does not sleep.
//! There are two exceptions. A host behind a TAP device answers within the call that sends. If the
//! last frames sent were answered when the device was asked next, the device is asked after
//! sending. And with more to send, while several clients are active, the device is asked at every
//! step.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use abi::companion::Companion;
use abi::control::{BusyPoll, NicConfig, ServerEvent, ServerOutput, ServerReply, ServerRequest};
use abi::stages::TraceStage;
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use shm::descriptors::keep;
use shm::{Access, Channel, Region, Ringer, Sleep, Sleeper, Spin, TryRecv, spin};

use self::parts::{DriverParts, OpenDevice, WrappedDevice, encode, layout_of, parse};
use crate::backend::{self, DeviceContext, exactly};
use crate::device::Device;
use crate::error::DriverError;
use crate::frames::Frames;
use crate::slot::DeviceSlot;

mod parts;

/// Steps without sleep after which the control connection is checked.
const CONTROL_EVERY: u32 = 256;

/// Steps without sleep after which a device that had no frame is asked again.
const ASK_EVERY: u32 = 4;

const CONTROL: u64 = 0;
const BELL: u64 = 1;
const DEVICE: u64 = 2;
/// The timer of measured sleeps ([`Spin::timer`]).
const TIMER: u64 = 3;
const UNSOLICITED: u64 = 4;
const DATAGRAMS: u64 = 5;
/// The timer of a device that holds frames back.
const DELAYED: u64 = 6;

/// The longest sleep while unsolicited frames wait for the time of their next batch, or datagrams
/// for the inet server.
const NAP: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000 };

/// Runs a driver in this thread until the supervisor ends it or goes away (`Ok`), or it cannot go
/// on.
///
/// # Errors
/// See [`DriverError`].
pub fn run(channel: Channel) -> Result<(), DriverError> {
    let mut driver = Driver::from_channel(channel)?;
    driver.begin_spinning()?;
    while !driver.ended() {
        if driver.step()? {
            driver.spin.over();
        } else if driver.spin.again() {
            driver.ask_in = 0;
            spin::yield_processor();
        } else if driver.announce_sleep() {
            driver.sleep()?;
        }
    }
    Ok(())
}

/// A driver of one device.
pub struct Driver {
    control: Channel,
    config: NicConfig,
    open: OpenDevice,
    frames: Frames<WrappedDevice>,
    sleeper: Sleeper,
    inet: Ringer,
    set: OwnedFd,
    /// Our first number in the set.
    first: u64,
    /// In the epoll set, which does not keep it open.
    bell: OwnedFd,
    /// The events for which the device is in the set.
    interest: EventFlags,
    /// The device woke us.
    ready: bool,
    /// The device reported an error while nothing could be read from it.
    suspect: bool,
    /// Steps until a device that had no frame is asked again; 0: now.
    ask_in: u32,
    /// Frames were sent since the device was asked.
    sent: bool,
    /// Frames sent before it was asked were answered at once.
    answers: bool,
    /// Steps until the control connection is checked.
    control_in: u32,
    /// [`Driver::prepare_sleep`] allowed it.
    asleep: bool,
    /// Of the driver's own thread, if it has one.
    spin: Spin,
    bells_rung: u64,
    wake_ups: u64,
    idle_wake_ups: u64,
    /// It was woken and has not worked since.
    woken: bool,
    ended: bool,
}

impl Driver {
    /// Waits for the supervisor's `ConfigureNic`, opens the rings and registers the interface.
    ///
    /// # Errors
    /// See [`DriverError`]; where possible the supervisor is notified as well.
    pub fn from_channel(control: Channel) -> Result<Self, DriverError> {
        Self::with_device(control, backend::open)
    }

    /// As [`Driver::from_channel`], with a device made by `open` out of configuration and
    /// descriptors.
    ///
    /// # Errors
    /// See [`DriverError`].
    pub fn with_device(
        mut control: Channel,
        open: impl FnMut(DeviceContext<'_>, Vec<OwnedFd>) -> Result<Box<dyn Device>, DriverError>
        + Send
        + 'static,
    ) -> Result<Self, DriverError> {
        let mut open: OpenDevice = Box::new(open);
        let Some(message) = control.recv()? else {
            return Err(DriverError::BadMessage("it ended before the configuration".to_owned()));
        };
        let (ask, fds) = parse(message)?;
        let ServerRequest::ConfigureNic(config) = ask.request else {
            return Err(DriverError::BadMessage("the configuration must come first".to_owned()));
        };
        match DriverParts::new(&config, fds, &mut open) {
            Ok(ends) => {
                let mut driver = Self::assemble(control, ends, config, open)?;
                driver.reply(ask.id, ServerReply::Done)?;
                driver.ring(true);
                Ok(driver)
            }
            Err(error) => {
                let reply = ServerReply::Error { message: error.to_string() };
                control.send(&encode(&ServerOutput::Reply { id: ask.id, reply }), &[])?;
                Err(error)
            }
        }
    }

    fn assemble(
        control: Channel,
        ends: DriverParts,
        config: NicConfig,
        open: OpenDevice,
    ) -> Result<Self, DriverError> {
        let DriverParts { frames, sleeper, inet, bell } = ends;
        let set = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(epoll_failed)?;
        let set = keep(set);
        let spin = Spin::new(BusyPoll::OFF.into());
        let mut driver = Self {
            control,
            config,
            open,
            frames,
            sleeper,
            inet,
            set,
            first: 0,
            bell,
            interest: EventFlags::empty(),
            ready: false,
            suspect: false,
            ask_in: 0,
            sent: false,
            answers: false,
            control_in: 0,
            asleep: false,
            spin,
            bells_rung: 0,
            wake_ups: 0,
            idle_wake_ups: 0,
            woken: false,
            ended: false,
        };
        driver.enter_set()?;
        Ok(driver)
    }

    /// The driver has a thread of its own, which spins before it sleeps.
    fn begin_spinning(&mut self) -> Result<(), DriverError> {
        self.spin = Spin::new(self.config.busy_poll.into());
        let Some(timer) = self.spin.timer() else { return Ok(()) };
        let (name, flags) = (EventData::new_u64(TIMER), EventFlags::IN | EventFlags::ET);
        epoll::add(&self.set, timer, name, flags).map_err(epoll_failed)
    }

    fn enter_set(&mut self) -> Result<(), DriverError> {
        let edge = EventFlags::IN | EventFlags::ET;
        for (fd, name, flags) in [
            (self.control.as_fd(), CONTROL, EventFlags::IN),
            (self.bell.as_fd(), BELL, edge),
            (self.frames.device.poll_fd(), DEVICE, self.interest),
        ] {
            let name = EventData::new_u64(self.first + name);
            epoll::add(&self.set, fd, name, flags).map_err(epoll_failed)?;
        }
        self.watch_more_queues()
    }

    /// The queues beside the device's first one, and its timer.
    fn more_queues(&self) -> impl Iterator<Item = (BorrowedFd<'_>, u64)> {
        let device = &self.frames.device;
        let queues = [
            (device.unsolicited_fd(), UNSOLICITED),
            (device.datagrams_fd(), DATAGRAMS),
            (device.timer_fd(), DELAYED),
        ];
        queues.into_iter().filter_map(|(fd, name)| Some((fd?, name)))
    }

    /// They are edge-triggered: a step that leaves frames remembers it.
    fn watch_more_queues(&self) -> Result<(), DriverError> {
        for (fd, name) in self.more_queues() {
            let (name, edge) = (EventData::new_u64(self.first + name), EventFlags::ET);
            epoll::add(&self.set, fd, name, EventFlags::IN | edge).map_err(epoll_failed)?;
        }
        Ok(())
    }

    /// Did the supervisor end it, or go away?
    #[must_use]
    pub fn ended(&self) -> bool {
        self.ended
    }

    /// Does a bounded amount of work; `false` when there was nothing to do.
    ///
    /// # Errors
    /// See [`DriverError`]. A lost device is reported only to the supervisor.
    pub fn step(&mut self) -> Result<bool, DriverError> {
        if self.ended {
            return Ok(false);
        }
        let mut progress = false;
        if self.control_in == 0 {
            self.control_in = CONTROL_EVERY;
            progress = self.serve_control()?;
        }
        self.control_in -= 1;
        let moved = self.step_frames();
        let moved = self.tell(moved)?;
        let idle_wake_up = std::mem::take(&mut self.woken) && !(progress || moved);
        self.idle_wake_ups += u64::from(idle_wake_up);
        Ok(progress || moved)
    }

    /// The half of [`Driver::step`] that sends. The thread's owner calls it before giving up the
    /// processor, which it may not get back soon.
    ///
    /// # Errors
    /// As [`Driver::step`].
    pub fn send(&mut self) -> Result<bool, DriverError> {
        if self.ended {
            return Ok(false);
        }
        let sent = self.send_frames();
        self.tell(sent)
    }

    /// Wakes the inet server if frames were moved. Notifies the supervisor if the device is lost.
    fn tell(&mut self, moved: Result<bool, DriverError>) -> Result<bool, DriverError> {
        let moved = match moved {
            Err(DriverError::DeviceLost(error)) => self.lost(&error)?,
            other => other?,
        };
        if moved {
            self.ring(self.frames.has_received());
        }
        Ok(moved)
    }

    fn send_frames(&mut self) -> Result<bool, DriverError> {
        let sent = self.frames.transmit_some()?;
        self.sent |= sent;
        if sent && (self.answers || self.frames.answers_are_awaited()) {
            self.ask_in = 0;
        }
        Ok(sent)
    }

    fn step_frames(&mut self) -> Result<bool, DriverError> {
        if std::mem::take(&mut self.suspect) {
            self.frames.probe()?;
        }
        let ask = self.ask_in == 0 || self.frames.device.pending().receive;
        if !ask {
            self.ask_in -= 1;
            return self.send_frames();
        }
        let moved = self.frames.step()?;
        if self.sent || self.frames.has_sent() {
            (self.sent, self.answers) = (false, self.frames.has_received());
        }
        let often = !self.frames.found_no_frame() || self.frames.answers_are_awaited();
        self.ask_in = if often { 0 } else { ASK_EVERY };
        Ok(moved)
    }

    /// Announces sleep. `true`: there is nothing to do, and a bell will ring for new work. Wait for
    /// the epoll set and then call [`Driver::awake`]. `false`: go on with [`Driver::step`].
    pub fn prepare_sleep(&mut self) -> bool {
        if matches!(self.frames.has_later(), Ok(true)) {
            self.ask_in = 0;
            return false;
        }
        self.announce_sleep()
    }

    /// As [`Driver::prepare_sleep`], though frames wait for their time.
    fn announce_sleep(&mut self) -> bool {
        self.sleeper.announce(Sleep::Fd);
        // An error here comes again at the next step, and is reported then.
        let sleep = matches!(self.frames.has_work(), Ok(false))
            && self
                .update_interest()
                .is_ok_and(|receive| self.frames.device.prepare_sleep(receive));
        if !sleep {
            self.slept();
            self.ask_in = 0;
        }
        self.asleep = sleep;
        sleep
    }

    /// The sleep is over, or does not begin.
    fn slept(&mut self) {
        self.sleeper.awake();
        let ready = std::mem::take(&mut self.ready);
        self.frames.device.awake(ready);
    }

    /// After a sleep that [`Driver::prepare_sleep`] allowed.
    pub fn awake(&mut self) {
        if std::mem::take(&mut self.asleep) {
            self.slept();
        }
    }

    /// Sleeps in this thread, after [`Driver::announce_sleep`] allowed it.
    fn sleep(&mut self) -> Result<(), DriverError> {
        let nap = self.frames.has_later()?.then_some(&NAP);
        self.ask_in = if nap.is_some() { 0 } else { self.ask_in };
        self.spin.before_sleep();
        let slept = self.collect(nap);
        self.awake();
        slept
    }

    fn collect(&mut self, timeout: Option<&Timespec>) -> Result<(), DriverError> {
        let mut events =
            [epoll::Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; 4];
        let count = match epoll::wait(&self.set, &mut events, timeout) {
            Ok(count) => count,
            Err(Errno::INTR) => 0,
            Err(errno) => return Err(epoll_failed(errno)),
        };
        for (place, event) in events[..count].iter().enumerate() {
            match event.data.u64() {
                // The events are in the order in which they came. The first ended the sleep.
                TIMER if place == 0 => self.spin.timer_fired(),
                TIMER => {}
                name => self.woken(name, event.flags),
            }
        }
        Ok(())
    }

    /// True when frames can be received.
    fn update_interest(&mut self) -> Result<bool, DriverError> {
        let mut interest = EventFlags::empty();
        let (receive, room) = (self.frames.can_receive()?, self.frames.wants_room());
        let readable = self.frames.device.room_is_readable();
        interest.set(EventFlags::IN, receive || readable);
        interest.set(EventFlags::OUT, room && !readable);
        if interest != self.interest {
            let device = self.frames.device.poll_fd();
            let name = EventData::new_u64(self.first + DEVICE);
            epoll::modify(&self.set, device, name, interest).map_err(epoll_failed)?;
            self.interest = interest;
        }
        Ok(receive)
    }

    /// Wakes the inet server if frames were `received`, else only if it waits for transmit
    /// completions.
    fn ring(&mut self, received: bool) {
        self.frames.trace.mark(TraceStage::Result);
        let rung = if received { self.inet.ring() } else { self.inet.ring_completion() };
        self.bells_rung += u64::from(rung);
        self.frames.trace.mark(TraceStage::DriverRest);
    }

    /// Goes on without the device, and notifies the supervisor.
    fn lost(&mut self, error: &io::Error) -> Result<bool, DriverError> {
        self.replace_device(None)?;
        let event = ServerEvent::DeviceLost { reason: error.to_string() };
        self.control.send(&encode(&ServerOutput::Event(event)), &[])?;
        Ok(true)
    }

    fn slot(&mut self) -> &mut DeviceSlot {
        self.frames.device.inner_mut().inner_mut()
    }

    /// Another device, or none: another descriptor to wait for.
    fn replace_device(&mut self, device: Option<Box<dyn Device>>) -> Result<(), DriverError> {
        epoll::delete(&self.set, self.frames.device.poll_fd()).map_err(epoll_failed)?;
        for (fd, _) in self.more_queues() {
            epoll::delete(&self.set, fd).map_err(epoll_failed)?;
        }
        // Its descriptor is needed until here.
        drop(self.slot().replace(device));
        (self.interest, self.ask_in) = (EventFlags::empty(), 0);
        let (fd, name) = (self.frames.device.poll_fd(), EventData::new_u64(self.first + DEVICE));
        epoll::add(&self.set, fd, name, self.interest).map_err(epoll_failed)?;
        self.watch_more_queues()
    }

    /// Answers the supervisor's requests that came meanwhile; `true` if there were any.
    fn serve_control(&mut self) -> Result<bool, DriverError> {
        let mut any = false;
        loop {
            let message = match self.control.try_recv()? {
                TryRecv::Message(message) => message,
                TryRecv::Empty => return Ok(any),
                TryRecv::Ended => {
                    tracing::info!("the supervisor is gone: the driver ends");
                    self.ended = true;
                    return Ok(true);
                }
            };
            any = true;
            let lost = message.lost;
            let (ask, fds) = parse(message)?;
            let answer = match lost {
                false => self.answer(ask.request, fds),
                true => Err(DriverError::NoDescriptor),
            };
            let reply = answer.unwrap_or_else(|error| {
                tracing::warn!(%error, "the supervisor's request was refused");
                ServerReply::Error { message: error.to_string() }
            });
            self.reply(ask.id, reply)?;
        }
    }

    fn answer(
        &mut self,
        request: ServerRequest,
        fds: Vec<OwnedFd>,
    ) -> Result<ServerReply, DriverError> {
        match request {
            ServerRequest::AddClient { client, params } => {
                let [region] = exactly(fds)?;
                let layout = params.layout().map_err(|e| DriverError::BadMessage(e.to_string()))?;
                let region = Region::map(region.as_fd(), layout.len, Access::ReadOnly)?;
                self.frames.add_client(client, region);
            }
            ServerRequest::UnmapClient { client } => self.frames.remove_client(client),
            ServerRequest::Capture { snaplen } => {
                let [socket] = exactly(fds)?;
                if let Err(refusal) = self.frames.device.add_reader(socket, snaplen) {
                    return Ok(ServerReply::Error { message: refusal.to_string() });
                }
            }
            ServerRequest::Counters => {
                let spins = self.spin.spins();
                let mut counters = vec![
                    ("nic.bells-rung".to_owned(), self.bells_rung),
                    ("nic.wake-ups".to_owned(), self.wake_ups),
                    ("nic.idle-wake-ups".to_owned(), self.idle_wake_ups),
                    ("nic.spins-won".to_owned(), spins.won),
                    ("nic.spins-lost".to_owned(), spins.lost),
                    ("nic.wake-up-cost-ns".to_owned(), self.spin.wake_cost()),
                    ("nic.spin-bound-ns".to_owned(), self.spin.most()),
                ];
                self.frames.counters(&mut |name, value| counters.push((name.to_owned(), value)));
                let histograms = self.frames.histograms();
                // The inet server has the rings, the supervisor knows whose counters these are.
                let (pools, parties) = (Vec::new(), Vec::new());
                return Ok(ServerReply::Counters { counters, pools, histograms, parties });
            }
            ServerRequest::AttachDevice => {
                let (config, region) = (&self.config, self.frames.region());
                let layout = &layout_of(config);
                let device = (self.open)(DeviceContext { config, region, layout }, fds)?;
                if !self.slot().fits(&*device) {
                    return Err(DriverError::BadMessage(
                        "the new device does less for frames than the one before".to_owned(),
                    ));
                }
                self.replace_device(Some(device))?;
                // Whoever had descriptors of the one before has closed them.
                self.frames.device_replaced();
            }
            ServerRequest::DetachDevice => self.replace_device(None)?,
            ServerRequest::Shutdown => self.ended = true,
            other => {
                return Err(DriverError::BadMessage(format!("{other:?} is not for a driver")));
            }
        }
        Ok(ServerReply::Done)
    }

    fn reply(&mut self, id: u64, reply: ServerReply) -> Result<(), DriverError> {
        Ok(self.control.send(&encode(&ServerOutput::Reply { id, reply }), &[])?)
    }
}

impl Companion for Driver {
    fn step(&mut self) -> Result<bool, String> {
        Driver::step(self).map_err(|error| error.to_string())
    }

    fn send(&mut self) -> Result<bool, String> {
        Driver::send(self).map_err(|error| error.to_string())
    }

    fn ask(&mut self) {
        self.ask_in = 0;
    }

    fn prepare_sleep(&mut self) -> bool {
        Driver::prepare_sleep(self)
    }

    fn awake(&mut self) {
        Driver::awake(self);
    }

    fn watch_in(&mut self, set: BorrowedFd<'_>, first: u64) -> Result<(), String> {
        self.set = keep(set.try_clone_to_owned().map_err(|error| error.to_string())?);
        self.first = first;
        self.interest = EventFlags::empty();
        self.enter_set().map_err(|error| error.to_string())
    }

    fn woken(&mut self, name: u64, flags: EventFlags) {
        if !std::mem::replace(&mut self.woken, true) {
            self.wake_ups += 1;
        }
        match name.wrapping_sub(self.first) {
            CONTROL => self.control_in = 0,
            DELAYED => self.ask_in = 0,
            DEVICE => {
                self.ask_in = 0;
                self.ready = true;
                let failed = flags.intersects(EventFlags::ERR | EventFlags::HUP);
                self.suspect |= failed && !self.interest.contains(EventFlags::IN);
            }
            UNSOLICITED => {
                self.ask_in = 0;
                self.frames.unsolicited_reported();
            }
            DATAGRAMS => {
                self.ask_in = 0;
                self.frames.device.datagrams_reported();
            }
            _ => {}
        }
    }
}

fn epoll_failed(errno: Errno) -> DriverError {
    DriverError::System { doing: "wait for events", error: errno.into() }
}

#[cfg(test)]
mod tests;
