//! Shared sockets: sockets of which several processes may hold a descriptor ([`abi::shared`]).
//!
//! A shared socket has a *home*: the place in a client's region of the process that uses it. A
//! listener may have several, one in each process that accepts on it. Without a home the socket is
//! *parked* ([`ParkedSocket`]): the core goes on, and the next process that uses it takes it home.
//!
//! The server's end of the socket's pair hangs up when no process holds a descriptor any more. All
//! these ends are in one epoll set, which is a member of the server's own.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use abi::SocketId;
use abi::call::ReturnPath;
use abi::shared::{PERMIT_BYTES, permitted};
use inet::Handle;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use shm::closer::{self, ClosedLater};
use shm::descriptors::keep;
use shm::passing::takes_descriptors;

use crate::socket_owner::SocketOwner;

mod parked;

pub(crate) use self::parked::{ParkedDatagram, ParkedSocket};

/// Most permits kept for one socket: processes that take it up at the same time.
const MOST_PERMITS: usize = 16;
/// Most pairs of one socket.
const MOST_ENDS: usize = 16;
/// Hang-ups taken from the set at a time.
const HANG_UPS: usize = 16;
const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// A call that takes up a shared socket.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Adoption {
    pub(crate) client: u16,
    pub(crate) path: ReturnPath,
    /// The shared socket.
    pub(crate) number: u32,
}

/// A home: the socket's name in a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SocketHome {
    pub(crate) client: u16,
    pub(crate) id: SocketId,
}

/// What a close of a shared socket at one of its homes means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HomeClose {
    /// Other homes have the socket.
    Leave,
    /// Other processes hold the socket, and it has no other home.
    Park,
    /// No process holds it any more, and it has no other home.
    Close,
}

/// The server's end of a pair. The other end is the holders'.
struct HolderEnd {
    cookie: u64,
    fd: ClosedLater,
}

impl HolderEnd {
    /// Does no process hold the other end any more?
    fn is_hung_up(&self) -> bool {
        let mut fds = [PollFd::new(&self.fd, PollFlags::empty())];
        poll(&mut fds, Some(&NOW)).is_ok() && fds[0].revents().contains(PollFlags::HUP)
    }
}

/// One shared socket.
pub(crate) struct SharedSocket {
    pub(crate) handle: Handle,
    /// One, or several where a holder could not use the pair that others have. None: no process
    /// holds the socket but those of its homes.
    ends: Vec<HolderEnd>,
    /// Several of a listener, else at most one.
    pub(crate) homes: Vec<SocketHome>,
    /// Homes that it has left for another client's. Until their programs close the socket they hold
    /// it, by a descriptor that need not be an end of a pair.
    former: Vec<SocketHome>,
    /// Without a home.
    pub(crate) parked: Option<Box<ParkedSocket>>,
    permits: Vec<u16>,
}

impl SharedSocket {
    /// The socket leaves its homes for another client's.
    pub(crate) fn leave_homes(&mut self) {
        self.former.append(&mut self.homes);
    }

    /// Takes the permits that have come out of a descriptor, a bounded number. Is there one for
    /// `client`? It is used up by that.
    fn take_permit(&mut self, cookie: u64, client: u16) -> bool {
        let Some(end) = self.ends.iter().find(|end| end.cookie == cookie) else { return false };
        for _ in 0..MOST_PERMITS {
            let mut message = [0; PERMIT_BYTES + 1];
            // Descriptors with it are refused, or closed elsewhere.
            let Ok(len @ 1..) = closer::recv(&end.fd, &mut message) else { break };
            let Some(client) = message.get(..len).and_then(permitted) else { continue };
            if self.permits.len() >= MOST_PERMITS {
                self.permits.remove(0);
            }
            self.permits.push(client);
        }
        let found = self.permits.iter().position(|permitted| *permitted == client);
        found.map(|at| self.permits.remove(at)).is_some()
    }
}

/// All shared sockets of an instance.
#[derive(Default)]
pub(crate) struct SharedSockets {
    /// By number, which is the serial number in the core's tag.
    all: BTreeMap<u32, SharedSocket>,
    numbers: BTreeMap<u64, u32>,
    next: u32,
    /// Calls of this iteration.
    adoptions: Vec<Adoption>,
    /// Sockets that may be held by no process any more.
    unheld: Vec<u32>,
    /// Cookies of ends that are closed, for the supervisor.
    ended: Vec<u64>,
    /// The epoll set of the server's ends.
    set: Option<OwnedFd>,
}

impl SharedSockets {
    /// Makes a socket shared; its number.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn add(
        &mut self,
        cookie: u64,
        handle: Handle,
        home: SocketHome,
        fd: OwnedFd,
    ) -> io::Result<u32> {
        self.next = self.next.wrapping_add(1).max(1);
        let number = self.next;
        let end = self.watch(number, cookie, fd)?;
        let (ends, homes) = (vec![end], vec![home]);
        let (former, permits) = (Vec::new(), Vec::new());
        let shared = SharedSocket { handle, ends, homes, former, parked: None, permits };
        self.all.insert(number, shared);
        Ok(number)
    }

    /// Gives a shared socket one more pair. False: it has too many.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn add_end(&mut self, number: u32, cookie: u64, fd: OwnedFd) -> io::Result<bool> {
        self.prune(number);
        if self.all.get(&number).is_none_or(|shared| shared.ends.len() >= MOST_ENDS) {
            return Ok(false);
        }
        let end = self.watch(number, cookie, fd)?;
        if let Some(shared) = self.all.get_mut(&number) {
            shared.ends.push(end);
        }
        Ok(true)
    }

    fn watch(&mut self, number: u32, cookie: u64, fd: OwnedFd) -> io::Result<HolderEnd> {
        let set = match self.set.take() {
            Some(set) => set,
            None => keep(epoll::create(CreateFlags::CLOEXEC)?),
        };
        let set = self.set.insert(set);
        let later = takes_descriptors(&fd);
        let fd = ClosedLater::new(keep(fd), later);
        // A hang-up is reported in any case.
        epoll::add(&*set, &fd, EventData::new_u64(number.into()), EventFlags::empty())?;
        self.numbers.insert(cookie, number);
        Ok(HolderEnd { cookie, fd })
    }

    /// Closes the ends of a socket that have hung up. True: no other end is left.
    fn prune(&mut self, number: u32) -> bool {
        let Self { all, numbers, ended, set, .. } = self;
        let Some(shared) = all.get_mut(&number) else { return true };
        shared.ends.retain(|end| {
            if !end.is_hung_up() {
                return true;
            }
            if let Some(set) = set {
                let _ = epoll::delete(set, &end.fd);
            }
            numbers.remove(&end.cookie);
            ended.push(end.cookie);
            false
        });
        shared.ends.is_empty()
    }

    /// The set of the server's ends, once there is one.
    pub(crate) fn set(&self) -> Option<BorrowedFd<'_>> {
        self.set.as_ref().map(AsFd::as_fd)
    }

    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut SharedSocket> {
        self.all.get_mut(&number)
    }

    /// The number of the shared socket of that cookie.
    pub(crate) fn number(&self, cookie: u64) -> Option<u32> {
        self.numbers.get(&cookie).copied()
    }

    /// May the client take up the socket, of which it has the descriptor of that cookie?
    pub(crate) fn take_permit(&mut self, number: u32, cookie: u64, client: u16) -> bool {
        self.all.get_mut(&number).is_some_and(|shared| shared.take_permit(cookie, client))
    }

    /// Notes a call that the server is to carry out, since it concerns two clients.
    pub(crate) fn post(&mut self, adoption: Adoption) {
        self.adoptions.push(adoption);
    }

    pub(crate) fn next_adoption(&mut self) -> Option<Adoption> {
        self.adoptions.pop()
    }

    /// The core's tag of a socket that has no single home.
    pub(crate) fn tag(number: u32) -> u64 {
        // No client has number 0.
        SocketOwner { client: 0, index: 0, serial: number }.to_tag()
    }

    /// The socket is closed at one of its homes. Before [`HomeClose::Close`] it is forgotten.
    pub(crate) fn close_home(&mut self, number: u32, home: SocketHome) -> HomeClose {
        let Some(shared) = self.all.get_mut(&number) else { return HomeClose::Close };
        shared.homes.retain(|other| *other != home);
        if !shared.homes.is_empty() {
            return HomeClose::Leave;
        }
        if !self.prune(number) || self.has_former(number) {
            return HomeClose::Park;
        }
        self.all.remove(&number);
        HomeClose::Close
    }

    fn has_former(&self, number: u32) -> bool {
        self.all.get(&number).is_some_and(|shared| !shared.former.is_empty())
    }

    /// The program of a former home closes the socket.
    pub(crate) fn close_former(&mut self, number: u32, home: SocketHome) {
        let Some(shared) = self.all.get_mut(&number) else { return };
        shared.former.retain(|other| *other != home);
        if shared.former.is_empty() && shared.homes.is_empty() {
            self.unheld.push(number);
        }
    }

    /// Forgets a parked socket if no process holds it any more.
    fn take_unheld(&mut self, number: u32) -> Option<Box<ParkedSocket>> {
        let unheld = self.prune(number) && !self.has_former(number);
        // A process that has the socket in its region will close it, or end.
        let homeless = self.all.get(&number).is_some_and(|one| one.homes.is_empty());
        (unheld && homeless).then(|| self.all.remove(&number)?.parked).flatten()
    }

    /// The next socket that no process holds any more and that has no home. It is forgotten.
    pub(crate) fn poll_ended(&mut self) -> Option<Box<ParkedSocket>> {
        while let Some(number) = self.unheld.pop() {
            let ended = self.take_unheld(number);
            if ended.is_some() {
                return ended;
            }
        }
        // The rest is reported again.
        for _ in 0..HANG_UPS {
            let set = self.set.as_ref()?;
            let nothing = Event { flags: EventFlags::empty(), data: EventData::new_u64(0) };
            let mut events = [nothing; HANG_UPS];
            let count = epoll::wait(set, &mut events, Some(&NOW)).unwrap_or(0);
            if count == 0 {
                return None;
            }
            for event in &events[..count] {
                let number = u32::try_from(event.data.u64()).unwrap_or(0);
                let ended = self.take_unheld(number);
                if ended.is_some() {
                    return ended;
                }
            }
        }
        None
    }

    /// The cookie of an end that is closed.
    pub(crate) fn take_forgotten(&mut self) -> Option<u64> {
        self.ended.pop()
    }

    /// May a socket be held by no process any more?
    pub(crate) fn has_unheld(&self) -> bool {
        !self.unheld.is_empty()
    }

    /// Are there calls, sockets to be closed, or reports for the supervisor?
    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        !self.adoptions.is_empty() || !self.ended.is_empty() || !self.unheld.is_empty()
    }
}
