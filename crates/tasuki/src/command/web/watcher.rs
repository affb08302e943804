//! The watcher: one thread, which asks the instance on behalf of all viewers.
//!
//! While there are viewers it takes a snapshot every interval, and hands it to all of them. It
//! answers single questions ([`Question`]) at any time. Without viewers and questions it sleeps
//! until the instance ends, and the instance is not asked.
//!
//! When the answers take long, as with thousands of connections, the interval becomes longer: the
//! instance works for us at most one part in [`LEAST_PAUSE`] of the time.
//!
//! An instance that has ended may begin again, by its service manager or by hand. The watcher looks
//! for it while somebody waits for it, once a second at most.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use abi::control::{ClientReply, ClientRequest, InstanceStatus, SocketStatus};
use bytes::Bytes;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use tokio::sync::{oneshot, watch};

use super::events::Events;
use super::snapshot::{Encoded, Snapshot};
use crate::command::ps;
use crate::command::stats;
use crate::exit::{self, Code, Failure};
use crate::operator::Operator;
use crate::runtime_dir::InstanceName;

/// Sockets in a snapshot: four pages of the instance's answer.
const MOST_SOCKETS: usize = 4 * abi::control::SOCKET_PAGE;
/// Between two snapshots lies this many times the time that the instance took to answer.
const LEAST_PAUSE: u32 = 25;
/// A snapshot as new as this answers a question.
const FRESH: Duration = Duration::from_millis(100);
/// How often an instance that has ended is looked for.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// Questions that wait.
const MOST_WAITING: usize = 32;

/// What can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Question {
    /// A snapshot, as JSON.
    Snapshot,
    /// A page of the sockets from this one on, as JSON.
    Sockets { from: usize },
    /// All counters for Prometheus.
    Metrics,
}

/// The answer, encoded.
type Answer = Result<Bytes, Failure>;

/// The web server's end.
#[derive(Clone)]
pub(super) struct Watched {
    questions: SyncSender<(Question, oneshot::Sender<Answer>)>,
    snapshots: watch::Receiver<Encoded>,
    viewers: Arc<AtomicUsize>,
    wake: Arc<OwnedFd>,
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum NoAnswer {
    /// Too many questions wait.
    Busy,
    /// The watcher has failed.
    Gone,
    /// What the instance, or its lack, says.
    Failed(Failure),
}

/// A viewer. While there is one, snapshots are taken.
pub(super) struct Viewer {
    pub(super) snapshots: watch::Receiver<Encoded>,
    viewers: Arc<AtomicUsize>,
}

impl Drop for Viewer {
    fn drop(&mut self) {
        self.viewers.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Watched {
    /// Asks, and waits for the answer.
    pub(super) async fn ask(&self, question: Question) -> Result<Bytes, NoAnswer> {
        let (answer, answered) = oneshot::channel();
        self.questions.try_send((question, answer)).map_err(|error| match error {
            TrySendError::Full(_) => NoAnswer::Busy,
            TrySendError::Disconnected(_) => NoAnswer::Gone,
        })?;
        self.wake();
        answered.await.map_err(|_| NoAnswer::Gone)?.map_err(NoAnswer::Failed)
    }

    /// One more viewer, if there are fewer than `most`.
    pub(super) fn view(&self, most: usize) -> Option<Viewer> {
        let add = |viewers: usize| (viewers < most).then_some(viewers + 1);
        self.viewers.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).ok()?;
        let viewers = self.viewers.clone();
        self.wake();
        Some(Viewer { snapshots: self.snapshots.clone(), viewers })
    }

    fn wake(&self) {
        // It fails when it is full, and then the watcher is awake.
        let _ = rustix::io::write(&*self.wake, &1_u64.to_ne_bytes());
    }
}

/// See the module's documentation.
pub(super) struct Watcher {
    name: InstanceName,
    operator: Option<Operator>,
    looked: Instant,
    interval: Duration,
    due: Instant,
    questions: Receiver<(Question, oneshot::Sender<Answer>)>,
    publish: watch::Sender<Encoded>,
    viewers: Arc<AtomicUsize>,
    wake: Arc<OwnedFd>,
    events: Events,
    number: u64,
    /// When the newest snapshot was taken; `None`: none since the instance ended.
    newest: Option<Instant>,
}

impl Watcher {
    /// For the instance of this operator.
    ///
    /// # Errors
    /// When the system has no descriptor left.
    pub(super) fn new(operator: Operator, interval: Duration) -> Result<(Self, Watched), Failure> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let wake = wake.map_err(|errno| Failure::system("make an eventfd", errno))?;
        let wake = Arc::new(wake);
        let (questions, asked) = sync_channel(MOST_WAITING);
        let (publish, snapshots) = watch::channel(Encoded::default());
        let viewers = Arc::<AtomicUsize>::default();
        let watched =
            Watched { questions, snapshots, viewers: viewers.clone(), wake: wake.clone() };
        let now = Instant::now();
        let watcher = Self {
            name: operator.name().clone(),
            operator: Some(operator),
            looked: now,
            interval,
            due: now,
            questions: asked,
            publish,
            viewers,
            wake,
            events: Events::default(),
            number: 0,
            newest: None,
        };
        Ok((watcher, watched))
    }

    /// Works until the process ends.
    pub(super) fn run(mut self) {
        loop {
            self.wait();
            // All that asked before are answered below.
            let _ = rustix::io::read(&*self.wake, &mut [0; 8]);
            while let Ok((question, answer)) = self.questions.try_recv() {
                // Whoever asked may be gone.
                let _ = answer.send(self.answer(question));
            }
            if self.is_viewed() && Instant::now() >= self.due {
                self.take_snapshot();
            }
        }
    }

    fn is_viewed(&self) -> bool {
        self.viewers.load(Ordering::Relaxed) > 0
    }

    /// Until the next snapshot is due, somebody asks, or the instance ends.
    fn wait(&mut self) {
        let left = self.is_viewed().then(|| self.due.saturating_duration_since(Instant::now()));
        let left = left.map(|left| Timespec {
            tv_sec: left.as_secs().cast_signed(),
            tv_nsec: left.subsec_nanos().into(),
        });
        let mut fds = vec![PollFd::new(&*self.wake, PollFlags::IN)];
        if let Some(operator) = &self.operator {
            fds.push(PollFd::from_borrowed_fd(operator.line(), PollFlags::RDHUP));
        }
        let woken = poll(&mut fds, left.as_ref());
        let has_ended = woken.is_ok() && fds.get(1).is_some_and(|fd| !fd.revents().is_empty());
        if has_ended {
            self.lost();
        }
    }

    /// The connection has ended: the instance has, or it has dropped this connection for a newer
    /// one.
    fn lost(&mut self) {
        self.operator = Operator::connect(&self.name).ok();
        self.looked = Instant::now();
        self.newest = None;
        if self.operator.is_none() && self.events.ended(now_ms()) {
            exit::say(format_args!("instance {} has ended; waiting for it", self.name));
            self.due = Instant::now();
        }
    }

    fn answer(&mut self, question: Question) -> Answer {
        match question {
            Question::Snapshot => {
                if self.newest.is_none_or(|taken| taken.elapsed() > FRESH) {
                    self.take_snapshot();
                }
                Ok(self.publish.borrow().json())
            }
            Question::Sockets { from } => {
                let (sockets, more) = self.asking(|operator| page_of_sockets(operator, from))?;
                encode(&serde_json::json!({ "from": from, "sockets": sockets, "more": more }))
            }
            Question::Metrics => match self.asking(ps::status) {
                Ok(status) => Ok(stats::exposition(status).into()),
                Err(failure) if failure.code == Code::NoInstance => {
                    Ok(stats::exposition_of_none(self.name.as_str()).into())
                }
                Err(failure) => Err(failure),
            },
        }
    }

    /// Asks the instance, after it was found again if need be.
    fn asking<T>(
        &mut self,
        ask: impl Fn(&mut Operator) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        match ask(self.connected()?) {
            Ok(done) => Ok(done),
            Err(_) => {
                self.lost();
                ask(self.connected()?)
            }
        }
    }

    fn connected(&mut self) -> Result<&mut Operator, Failure> {
        if self.operator.is_none() {
            if self.looked.elapsed() < LOOK_AGAIN {
                let sentence = format!("no instance {} is running", self.name);
                return Err(Failure::new(Code::NoInstance, sentence));
            }
            self.looked = Instant::now();
            self.operator = Some(Operator::connect(&self.name)?);
            exit::say(format_args!("instance {} runs again", self.name));
        }
        let gone = || Failure::new(Code::NoInstance, "the instance has ended");
        self.operator.as_mut().ok_or_else(gone)
    }

    /// Asks for everything, and hands it to all viewers.
    fn take_snapshot(&mut self) {
        let begun = Instant::now();
        let seen = self.asking(look);
        let asked = begun.elapsed();
        let at_ms = now_ms();
        let (status, sockets, more_sockets) = match seen {
            Ok((status, sockets, more)) => {
                self.events.answered(at_ms, &status);
                (Some(status), sockets, more)
            }
            Err(failure) => {
                if failure.code != Code::NoInstance {
                    tracing::warn!(%failure, "no snapshot");
                }
                (None, Vec::new(), false)
            }
        };
        let pause = match status {
            Some(_) => self.interval.max(asked.saturating_mul(LEAST_PAUSE)),
            None => self.interval.max(LOOK_AGAIN),
        };
        self.number += 1;
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let encoded = Encoded::new(&Snapshot {
            number: self.number,
            at_ms,
            interval_ms: millis(pause),
            asked_us: u64::try_from(asked.as_micros()).unwrap_or(u64::MAX),
            instance: self.name.as_str(),
            status: status.as_ref(),
            sockets: &sockets,
            more_sockets,
            events: self.events.kept(),
        });
        match encoded {
            Ok(encoded) => drop(self.publish.send_replace(encoded)),
            Err(failure) => tracing::warn!(%failure, "no snapshot"),
        }
        self.newest = Some(Instant::now());
        self.due = begun + pause;
    }
}

/// A page of sockets, with the inside of connections, and whether there are more.
fn page_of_sockets(
    operator: &mut Operator,
    from: usize,
) -> Result<(Vec<SocketStatus>, bool), Failure> {
    match operator.ask(&ClientRequest::Ss { info: true, from })? {
        (ClientReply::Sockets { sockets, more }, _) => Ok((sockets, more)),
        (other, _) => Err(operator.unexpected(&other)),
    }
}

/// All that a snapshot has of the instance itself.
fn look(operator: &mut Operator) -> Result<(InstanceStatus, Vec<SocketStatus>, bool), Failure> {
    let status = ps::status(operator)?;
    let (mut all, mut more) = page_of_sockets(operator, 0)?;
    while more && all.len() < MOST_SOCKETS {
        let (page, follows) = page_of_sockets(operator, all.len())?;
        more = follows && !page.is_empty();
        all.extend(page);
    }
    Ok((status, all, more))
}

fn encode(value: &serde_json::Value) -> Answer {
    let text = serde_json::to_vec(value);
    text.map(Bytes::from).map_err(|error| Failure::system("encode an answer", error))
}

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}
