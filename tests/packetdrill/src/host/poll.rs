//! poll(2) and epoll(7).

use std::time::Duration;

use inet::SocketKind;

use super::Host;
use super::call::{Outcome, Progress, Stop, fail};
use super::table::{Descriptor, Epoll, EpollEvent, Interest, PollFd};

const IN: u32 = libc::EPOLLIN as u32 | libc::EPOLLRDNORM as u32;
const OUT: u32 = libc::EPOLLOUT as u32 | libc::EPOLLWRNORM as u32;
const ALWAYS: u32 = libc::EPOLLERR as u32 | libc::EPOLLHUP as u32;

impl Host {
    /// The result of poll(2) for `fd`, as EPOLL* bits (which are the POLL* ones), and the socket's
    /// activity.
    fn readiness(&mut self, fd: i32) -> Option<(u32, u64)> {
        let writable = self.is_writable(fd);
        let deferred = self.is_deferred(fd);
        let Some(Descriptor::Socket(socket)) = self.entries.get(fd) else {
            return self.entries.get(fd).map(|_| (0, 0));
        };
        let mut mask = 0;
        let mut set = |on: bool, bits: u32| mask |= if on { bits } else { 0 };
        if socket.listening {
            set(socket.acceptable, IN);
            return Some((mask, socket.activity));
        }
        let stream = socket.kind == SocketKind::Stream;
        let read_over = socket.shut_read || socket.eof || socket.failed;
        let write_over = socket.shut_write || socket.failed;
        let fresh = stream && !socket.connected && !socket.connecting;
        set(socket.error.is_some(), libc::EPOLLERR as u32);
        set(stream && read_over && write_over || fresh, libc::EPOLLHUP as u32);
        set(stream && read_over, IN | libc::EPOLLRDHUP as u32);
        set(!socket.received.is_empty(), IN);
        let unconnected = socket.connecting && !socket.connected && !socket.failed;
        // A program that writes to a connection that waits for data makes it go on.
        let under_way = stream && unconnected && !deferred;
        set(!under_way && (writable || write_over), OUT);
        Some((mask, socket.activity))
    }

    /// Whether `fd` is a connection whose SYN waits for data.
    fn is_deferred(&mut self, fd: i32) -> bool {
        match self.handle(fd) {
            Ok(handle) => self.stack().deferred_room(handle).is_some(),
            Err(_) => false,
        }
    }

    /// Until when to wait, from a timeout in milliseconds (negative: for ever).
    fn deadline(&self, timeout: i32, progress: &mut Progress) -> Option<inet::Instant> {
        if !progress.begun {
            progress.begun = true;
            let time = u64::try_from(timeout).ok().map(Duration::from_millis);
            progress.until = time.map(|time| self.now + time);
        }
        progress.until
    }

    /// poll(2): how many descriptors have something to say.
    ///
    /// # Errors
    /// None but to wait.
    pub fn poll(
        &mut self,
        fds: &mut [PollFd],
        timeout: i32,
        progress: &mut Progress,
    ) -> Outcome<usize> {
        let until = self.deadline(timeout, progress);
        let mut count = 0;
        for poll in fds.iter_mut() {
            poll.revents = 0;
            if poll.fd < 0 {
                continue;
            }
            let bits = match self.readiness(poll.fd) {
                Some((mask, _)) => {
                    let wanted = u32::from(poll.events.cast_unsigned()) | ALWAYS;
                    u16::try_from(mask & wanted).unwrap_or_default().cast_signed()
                }
                None => libc::POLLNVAL,
            };
            poll.revents = bits;
            count += usize::from(bits != 0);
        }
        if count == 0 && until.is_none_or(|until| until > self.now) {
            return Err(Stop::Wait(until));
        }
        Ok(count)
    }

    /// epoll_create(2).
    ///
    /// # Errors
    /// EINVAL.
    pub fn epoll_create(&mut self, size: i32) -> Outcome<i32> {
        if size <= 0 {
            return fail(libc::EINVAL);
        }
        Ok(self.entries.add(Descriptor::Epoll(Epoll::default())))
    }

    fn epoll(&mut self, fd: i32) -> Outcome<&mut Epoll> {
        match self.entries.get_mut(fd) {
            Some(Descriptor::Epoll(epoll)) => Ok(epoll),
            Some(_) => fail(libc::EINVAL),
            None => fail(libc::EBADF),
        }
    }

    /// epoll_ctl(2).
    ///
    /// # Errors
    /// EBADF, EINVAL, EEXIST, ENOENT.
    pub fn epoll_ctl(&mut self, epfd: i32, op: i32, fd: i32, event: EpollEvent) -> Outcome<()> {
        if self.entries.get(fd).is_none() {
            return fail(libc::EBADF);
        }
        let interests = &mut self.epoll(epfd)?.interests;
        let known = interests.contains_key(&fd);
        match op {
            libc::EPOLL_CTL_ADD if known => return fail(libc::EEXIST),
            libc::EPOLL_CTL_MOD | libc::EPOLL_CTL_DEL if !known => return fail(libc::ENOENT),
            libc::EPOLL_CTL_ADD | libc::EPOLL_CTL_MOD => {
                interests.insert(fd, Interest { event, seen: None, spent: false });
            }
            libc::EPOLL_CTL_DEL => {
                interests.remove(&fd);
            }
            _ => return fail(libc::EINVAL),
        }
        Ok(())
    }

    /// epoll_wait(2): at most `most` events.
    ///
    /// # Errors
    /// EBADF, EINVAL.
    pub fn epoll_wait(
        &mut self,
        epfd: i32,
        most: i32,
        timeout: i32,
        progress: &mut Progress,
    ) -> Outcome<Vec<EpollEvent>> {
        let most = usize::try_from(most).ok().filter(|most| *most > 0);
        let most = most.ok_or(Stop::Errno(libc::EINVAL))?;
        let watched: Vec<i32> = self.epoll(epfd)?.interests.keys().copied().collect();
        let mut found = Vec::new();
        for fd in watched {
            let Some((mask, activity)) = self.readiness(fd) else { continue };
            let Some(interest) = self.epoll(epfd)?.interests.get_mut(&fd) else { continue };
            if found.len() < most
                && let Some(event) = interest.fire(mask, activity)
            {
                found.push(event);
            }
        }
        let until = self.deadline(timeout, progress);
        if found.is_empty() && until.is_none_or(|until| until > self.now) {
            return Err(Stop::Wait(until));
        }
        Ok(found)
    }

    /// A closed descriptor is watched no more.
    pub(super) fn forget_in_epolls(&mut self, fd: i32) {
        for entry in self.entries.iter_mut() {
            if let Descriptor::Epoll(epoll) = entry {
                epoll.interests.remove(&fd);
            }
        }
    }
}

impl Interest {
    /// The event to give out, if there is one.
    fn fire(&mut self, mask: u32, activity: u64) -> Option<EpollEvent> {
        let wanted = self.event.events;
        let events = mask & (wanted | ALWAYS);
        let edge = wanted & libc::EPOLLET as u32 != 0;
        let stale = edge && self.seen == Some(activity);
        if events == 0 || self.spent || stale {
            return None;
        }
        self.seen = Some(activity);
        self.spent = wanted & libc::EPOLLONESHOT as u32 != 0;
        Some(EpollEvent { events, data: self.event.data })
    }
}
