//! The connections of clients and operators: admission, one request at a time, without waiting.
//!
//! Only root and the user of the instance are let in (SO_PEERCRED). With `instance.group`, the
//! programs' socket lets others in: the system has checked that they are of the group. The
//! supervisor sends the rest of a reply when the socket takes it. It does not read the connection's
//! next request before.
//!
//! Each process has at most [`MOST_UNADMITTED_OF_PROCESS`] connections that are no client's.
//! Another user has at most [`MOST_UNADMITTED_OF_OTHER`], all programs
//! [`budget::most_unadmitted`], and operators [`MOST_OPERATORS`]. A new one then takes the place of
//! the oldest, first of those that never made a request. So idle connections keep no new one out.
//!
//! A user whose connections make no request, or one that is refused, gets new ones at a slower pace
//! ([`AcceptPace`]). A connection with [`MOST_WRONG`] wrong requests is dropped.
//!
//! A connection brings no descriptors, and closing one takes no time ([`Channel::untrusted`]).
//! Before Linux 6.16, new connections wait for the moment in which too many are being closed.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use abi::control::{Audience, ClientReply, ClientRequest};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::sockopt;
use rustix::process::{Pid, PidfdFlags, Uid, pidfd_open};
use shm::{Channel, ChannelError, TryRecv};

use super::accept_pace::AcceptPace;
use super::budget;
use crate::exit::Failure;
use crate::limits::TOO_MANY_IN_FLIGHT;

/// Bytes of replies that a connection may have waiting: more than the longest message.
const SEND_BUFFER: usize = 8 << 20;

/// Most connections of one process that are no client's.
const MOST_UNADMITTED_OF_PROCESS: usize = 16;
/// Most of the processes of a user who is not the instance's.
const MOST_UNADMITTED_OF_OTHER: usize = 64;
/// Most of all operators.
const MOST_OPERATORS: usize = 64;
/// Most connections accepted in one iteration. A new one has several iterations to make its request
/// before newer ones can push it out.
const ACCEPTS_PER_ITERATION: usize = 16;
/// While too many connections are being closed, we look so often whether they still are.
const ACCEPT_AGAIN: Duration = Duration::from_millis(20);
/// Wrong requests for which a connection is dropped.
const MOST_WRONG: u32 = 16;
/// A client of a process that has been one before has hardly begun to work if it ends sooner. The
/// first one of a process may be as brief as it likes: a program that forks is no fault, and a
/// process costs the one who makes it as much as a client costs us.
const BRIEF: Duration = Duration::from_millis(5);
/// Processes that are remembered because they have been, or tried to be, a client.
const FORMER_PROCESSES: usize = 256;
/// Longest request, bytes; a longer one is none of ours.
const LONGEST_REQUEST: usize = 4096;

/// Number of a connection; never used twice.
pub(super) type ConnectionId = u64;

/// One client or operator.
pub(super) struct Connection {
    channel: Channel,
    /// The process that connected.
    pub(super) pid: Pid,
    /// Its user.
    pub(super) user: Uid,
    /// The socket that it connected to.
    pub(super) audience: Audience,
    /// Becomes readable when that process has ended; for clients.
    death: Option<OwnedFd>,
    /// A request is being answered: the next one waits.
    pub(super) busy: bool,
    /// The rest of a reply waits for room in the socket.
    writing: bool,
    /// It has made a request.
    asked: bool,
    /// Requests that are none, or not for this socket.
    wrong: u32,
    /// A request of it was refused.
    pub(super) refused: bool,
    /// The other end hung up while a request was being answered.
    hung_up: bool,
    /// The client that it admitted.
    pub(super) client: Option<u16>,
    /// When it was accepted.
    since: Instant,
}

/// A message or an event of a connection.
pub(super) enum Received {
    /// A request.
    Request(ClientRequest),
    /// Something else: a sentence about it.
    Unknown(String),
    /// None for now.
    Nothing,
    /// It ended, or is of no use: why, when it is the other end's fault.
    Ended(Option<String>),
}

impl Connection {
    /// The next request; never waits.
    pub(super) fn receive(&mut self) -> Received {
        match self.channel.try_recv() {
            Ok(TryRecv::Message(message)) => {
                self.asked = true;
                match serde_json::from_slice(&message.body) {
                    Ok(request) => Received::Request(request),
                    Err(error) => Received::Unknown(format!("the request is not known: {error}")),
                }
            }
            Ok(TryRecv::Empty) => Received::Nothing,
            Ok(TryRecv::Ended) => Received::Ended(None),
            Err(error) => Received::Ended(Some(error.to_string())),
        }
    }

    /// Sends a reply. The connection takes requests again when all of the reply is sent.
    ///
    /// # Errors
    /// A sentence; drop the connection.
    pub(super) fn reply(
        &mut self,
        reply: &ClientReply,
        fds: &[BorrowedFd<'_>],
    ) -> Result<(), String> {
        let body = serde_json::to_vec(reply).map_err(|error| error.to_string())?;
        match self.channel.post(&body, fds) {
            Ok(all) => (self.busy, self.writing) = (!all, !all),
            Err(ChannelError::System(Errno::AGAIN)) => {
                return Err("it does not read its replies".to_owned());
            }
            Err(ChannelError::System(Errno::TOOMANYREFS)) => {
                // Nothing of the reply was sent. The program gets the reason, if there is room.
                let refusal = ClientReply::Error { message: TOO_MANY_IN_FLIGHT.to_owned() };
                let body = serde_json::to_vec(&refusal).map_err(|error| error.to_string())?;
                let _ = self.channel.post(&body, &[]);
                return Err(TOO_MANY_IN_FLIGHT.to_owned());
            }
            Err(error) => return Err(error.to_string()),
        }
        Ok(())
    }

    /// The connection had an event: what is it busy with now?
    pub(super) fn poll_busy(&mut self) -> Busy {
        if self.writing {
            return match self.channel.flush() {
                Ok(true) => {
                    (self.busy, self.writing) = (false, false);
                    Busy::No
                }
                Ok(false) => Busy::Writing,
                Err(_) => Busy::Broken,
            };
        }
        // The rest of its messages is read when the request is answered.
        self.hung_up = self.busy;
        if self.busy { Busy::Asking } else { Busy::No }
    }

    /// Watches for the death of the process that connected. `false`: it is dead already.
    pub(super) fn watch(&mut self) -> bool {
        self.death = pidfd_open(self.pid, PidfdFlags::empty()).ok();
        self.death.is_some()
    }
}

/// The work that a connection is busy with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Busy {
    /// Nothing: it may have a request.
    No,
    /// A server has a request of it.
    Asking,
    /// Its reply is not all sent.
    Writing,
    /// The rest of its reply cannot be sent any more.
    Broken,
}

/// The events to poll of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Watch {
    /// Requests, on its socket.
    Requests,
    /// The death of its process.
    Death,
}

/// When new connections are accepted at a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Accepts {
    Now,
    /// Their user has to wait, or others are still being closed: look again then.
    In(Duration),
    /// There is no descriptor left until a connection ends.
    AfterAnEnd,
}

/// All connections of an instance.
pub(super) struct Connections {
    all: BTreeMap<ConnectionId, Connection>,
    next: ConnectionId,
    /// Accepting failed for want of descriptors: no more until a connection ends.
    full: bool,
    /// The programs' socket is for a group.
    lets_others: bool,
    pace: AcceptPace,
    /// Processes whose clients have ended, the last one at the end.
    former: VecDeque<Pid>,
}

impl Connections {
    pub(super) fn new(lets_others: bool) -> Self {
        Self {
            all: BTreeMap::new(),
            next: 1,
            full: false,
            lets_others,
            pace: AcceptPace::default(),
            former: VecDeque::new(),
        }
    }

    pub(super) fn get_mut(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        self.all.get_mut(&id)
    }

    pub(super) fn ids(&self) -> Vec<ConnectionId> {
        self.all.keys().copied().collect()
    }

    /// Closes a connection; the number of the client that it was.
    pub(super) fn remove(&mut self, id: ConnectionId) -> Option<u16> {
        self.full = false;
        let connection = self.all.remove(&id)?;
        self.count(&connection);
        connection.client
    }

    /// A connection made a request that is none, or not for its socket. True: it is one too many,
    /// so drop the connection.
    pub(super) fn wrong_request(&mut self, id: ConnectionId) -> bool {
        let Some(connection) = self.all.get_mut(&id) else { return false };
        connection.wrong += 1;
        connection.wrong >= MOST_WRONG
    }

    /// A connection ends. Was it of use?
    fn count(&mut self, connection: &Connection) {
        let refused = connection.refused || connection.wrong > 0;
        let of_use = match connection.client {
            Some(_) => !self.came_before(connection.pid) || connection.since.elapsed() >= BRIEF,
            None => connection.asked && (!refused || !self.came_before(connection.pid)),
        };
        if of_use {
            return;
        }
        let user = connection.user.as_raw();
        if self.pace.useless(user, Instant::now()) {
            let pid = connection.pid.as_raw_nonzero();
            tracing::warn!(
                pid,
                uid = user,
                "this user's connections are of no use or brief: new ones are accepted slowly"
            );
        }
    }

    /// A client of this process ends, or one that was refused. Was there one before?
    fn came_before(&mut self, pid: Pid) -> bool {
        let before = self.former.iter().any(|one| *one == pid);
        if !before {
            if self.former.len() >= FORMER_PROCESSES {
                self.former.pop_front();
            }
            self.former.push_back(pid);
        }
        before
    }

    /// When may more connections be accepted at this socket? One answer says both whether to watch
    /// the socket and how long to wait without it. Two looks at the clock could differ, and then
    /// nothing would end the wait.
    pub(super) fn accepts(&self, audience: Audience, now: Instant) -> Accepts {
        if self.full {
            return Accepts::AfterAnEnd;
        }
        let again = shm::closer::is_behind().then_some(ACCEPT_AGAIN);
        match self.pace.pause(audience, now).max(again) {
            None => Accepts::Now,
            Some(pause) => Accepts::In(pause),
        }
    }

    /// Accepts a bounded number of waiting connections that are allowed.
    ///
    /// # Errors
    /// When the listening socket fails.
    pub(super) fn accept(
        &mut self,
        listener: &UnixListener,
        audience: Audience,
    ) -> Result<(), Failure> {
        for _ in 0..ACCEPTS_PER_ITERATION {
            if self.accepts(audience, Instant::now()) != Accepts::Now {
                break;
            }
            let flags = rustix::net::SocketFlags::CLOEXEC;
            let fd = match rustix::net::accept_with(listener, flags) {
                Ok(fd) => fd,
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR | Errno::CONNABORTED) => continue,
                Err(errno @ (Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS)) => {
                    tracing::warn!(%errno, "cannot accept more connections for now");
                    self.full = true;
                    break;
                }
                Err(errno) => return Err(Failure::system("accept connections", errno)),
            };
            self.admit(fd, audience);
        }
        Ok(())
    }

    /// The descriptor that is readable once a client's process has ended.
    pub(super) fn death(&self, id: ConnectionId) -> Option<BorrowedFd<'_>> {
        self.all.get(&id)?.death.as_ref().map(AsFd::as_fd)
    }

    /// A connection for a process that a relay of `user` knows. Returns its end.
    ///
    /// # Errors
    /// When the system has no descriptor left.
    pub(super) fn introduce(&mut self, pid: Pid, user: Uid) -> std::io::Result<OwnedFd> {
        let (ours, end) = UnixStream::pair()?;
        self.admit_as(ours.into(), Audience::Programs, user, Some(pid));
        Ok(end.into())
    }

    fn admit(&mut self, fd: OwnedFd, audience: Audience) {
        let Ok(peer) = shm::peer::peer(&fd) else { return };
        self.pace.accepted(audience, peer.uid.as_raw(), Instant::now());
        self.admit_as(fd, audience, peer.uid, peer.pid);
    }

    fn admit_as(&mut self, fd: OwnedFd, audience: Audience, user: Uid, pid: Option<Pid>) {
        // Root may have a larger buffer than other users. Small replies do not need it.
        let _ = sockopt::set_socket_send_buffer_size_force(&fd, SEND_BUFFER)
            .or_else(|_| sockopt::set_socket_send_buffer_size(&fd, SEND_BUFFER));
        let mut channel = Channel::from_fd(fd).limited(LONGEST_REQUEST, 0).untrusted();
        let Some(pid) = pid else { return self.refuse_hidden(&mut channel, user) };
        let mut connection = Connection {
            channel,
            pid,
            user,
            audience,
            death: None,
            busy: false,
            writing: false,
            asked: false,
            wrong: 0,
            refused: false,
            hung_up: false,
            client: None,
            since: Instant::now(),
        };
        let of_group = self.lets_others && audience == Audience::Programs;
        if !user.is_root() && !is_own(user) && !of_group {
            let pid = pid.as_raw_nonzero();
            tracing::warn!(pid, uid = user.as_raw(), "refused: another user's process");
            let message = "this instance belongs to another user".to_owned();
            // Whether it reads that is its affair.
            let _ = connection.reply(&ClientReply::Error { message }, &[]);
            self.count(&connection);
            return;
        }
        self.make_room(&connection);
        self.all.insert(self.next, connection);
        self.next += 1;
    }

    /// Refuses a process that has no process id here: nobody could see it end.
    fn refuse_hidden(&mut self, channel: &mut Channel, user: Uid) {
        let uid = user.as_raw();
        tracing::warn!(uid, "refused: a process of a PID namespace that is hidden from here");
        self.pace.useless(uid, Instant::now());
        let message = "this process is in a PID namespace that the instance does not see: start \
                       the instance where it sees the process, or the process in its namespace";
        let reply = ClientReply::Error { message: message.to_owned() };
        if let Ok(reply) = serde_json::to_vec(&reply) {
            // Whether it reads that is its affair.
            let _ = channel.post(&reply, &[]);
        }
    }

    /// Drops a connection that is no client's if there are too many, for `new`. If a request of it
    /// is being answered, the answer goes nowhere.
    fn make_room(&mut self, new: &Connection) {
        let all = || {
            let all = self.all.iter();
            all.filter(|(_, one)| one.client.is_none() && one.audience == new.audience)
        };
        let own = || all().filter(|(_, one)| one.pid == new.pid);
        let users = || all().filter(|(_, one)| one.user == new.user && !is_own(new.user));
        let first = |(id, connection): &(&ConnectionId, &Connection)| (connection.asked, **id);
        let most = match new.audience {
            Audience::Programs => budget::most_unadmitted(),
            Audience::Operators => MOST_OPERATORS,
        };
        let oldest = if own().count() >= MOST_UNADMITTED_OF_PROCESS {
            own().min_by_key(first)
        } else if users().count() >= MOST_UNADMITTED_OF_OTHER {
            users().min_by_key(first)
        } else if all().count() >= most {
            all().min_by_key(first)
        } else {
            None
        };
        let Some((&id, connection)) = oldest else { return };
        let pid = connection.pid.as_raw_nonzero();
        tracing::debug!(pid, "connection dropped: too many are open that are no client's");
        self.remove(id);
    }

    /// All that is to be polled, with the connection that it belongs to.
    pub(super) fn watched(&self) -> impl Iterator<Item = (ConnectionId, Watch, PollFd<'_>)> {
        self.all.iter().flat_map(|(id, connection)| {
            let events = match (connection.writing, connection.busy) {
                (true, _) => PollFlags::OUT,
                (false, true) => PollFlags::RDHUP,
                (false, false) => PollFlags::IN | PollFlags::RDHUP,
            };
            let line = (!connection.hung_up || connection.writing).then(|| {
                (*id, Watch::Requests, PollFd::from_borrowed_fd(connection.channel.as_fd(), events))
            });
            let death = connection.death.as_ref();
            let death = death.map(|fd| (*id, Watch::Death, PollFd::new(fd, PollFlags::IN)));
            line.into_iter().chain(death)
        })
    }
}

/// Is this the user of the instance?
pub(super) fn is_own(user: Uid) -> bool {
    user == rustix::process::geteuid()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_a_client_once_at_no_price() {
        let mut connections = Connections::new(false);
        let pid = |number: i32| Pid::from_raw(number).unwrap();
        assert!((1..=3000).all(|number| !connections.came_before(pid(number))), "each forks once");
        assert!(connections.came_before(pid(3000)) && connections.came_before(pid(2745)));
        assert!(!connections.came_before(pid(2744)), "a bounded number is remembered");
        assert_eq!(connections.former.len(), FORMER_PROCESSES);
    }

    /// At every moment a socket is watched, or a time to look again is known.
    #[test]
    fn a_slow_user_s_connections_are_accepted_in_time() {
        let (mut connections, now) = (Connections::new(false), Instant::now());
        assert_eq!(connections.accepts(Audience::Programs, now), Accepts::Now);
        while !connections.pace.useless(7, now) {}
        connections.pace.accepted(Audience::Programs, 7, now);
        let Accepts::In(pause) = connections.accepts(Audience::Programs, now) else {
            panic!("a user of useless connections is not slow");
        };
        assert_eq!(connections.accepts(Audience::Operators, now), Accepts::Now);
        let just_before = now + pause - Duration::from_nanos(1);
        let last = Accepts::In(Duration::from_nanos(1));
        assert_eq!(connections.accepts(Audience::Programs, just_before), last);
        assert_eq!(connections.accepts(Audience::Programs, now + pause), Accepts::Now);
        connections.full = true;
        assert_eq!(connections.accepts(Audience::Programs, now), Accepts::AfterAnEnd);
    }
}
