//! Making, naming, connecting and closing sockets.

use std::net::{IpAddr, SocketAddr};

use inet::{Error, Family, Handle, ShutdownHow, SocketKind};

use super::call::{Outcome, Progress, Stop, fail, failed};
use super::table::{Descriptor, Socket};
use super::{Host, link};

fn family(domain: i32) -> Family {
    if domain == libc::AF_INET6 { Family::V6 } else { Family::V4 }
}

impl Host {
    /// socket(2).
    ///
    /// # Errors
    /// EAFNOSUPPORT, ESOCKTNOSUPPORT, EPROTONOSUPPORT, ENOBUFS.
    pub fn socket(&mut self, domain: i32, kind: i32, protocol: i32) -> Outcome<i32> {
        if ![libc::AF_INET, libc::AF_INET6].contains(&domain) {
            return fail(libc::EAFNOSUPPORT);
        }
        let nonblocking = kind & libc::SOCK_NONBLOCK != 0;
        let (kind, own) = match kind & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC) {
            libc::SOCK_STREAM => (SocketKind::Stream, libc::IPPROTO_TCP),
            libc::SOCK_DGRAM => (SocketKind::Datagram, libc::IPPROTO_UDP),
            _ => return fail(libc::ESOCKTNOSUPPORT),
        };
        if protocol != 0 && protocol != own {
            return fail(libc::EPROTONOSUPPORT);
        }
        let tag = u64::try_from(self.entries.next()).unwrap_or_default();
        let handle = self.stack().open_in(family(domain), kind, tag).map_err(failed)?;
        let mut socket = Socket::new(kind, domain, nonblocking);
        socket.handle = Some(handle);
        Ok(self.entries.add(Descriptor::Socket(Box::new(socket))))
    }

    pub(super) fn handle(&mut self, fd: i32) -> Outcome<Handle> {
        self.entries.socket(fd)?.handle.ok_or(Stop::Errno(libc::EBADF))
    }

    /// bind(2). An address that is not the host's becomes one of its addresses: packetdrill
    /// announces the address that it has chosen in no other way.
    ///
    /// # Errors
    /// EBADF, ENOTSOCK, EINVAL, EADDRINUSE, EADDRNOTAVAIL.
    pub fn bind(&mut self, fd: i32, address: SocketAddr) -> Outcome<()> {
        let handle = self.handle(fd)?;
        self.learn_address(address.ip());
        self.stack().bind(handle, address).map_err(failed)
    }

    /// listen(2).
    ///
    /// # Errors
    /// EBADF, ENOTSOCK, EINVAL, EADDRINUSE, EOPNOTSUPP.
    pub fn listen(&mut self, fd: i32, backlog: i32) -> Outcome<()> {
        let handle = self.handle(fd)?;
        // To Linux a negative backlog is a large one. It is limited there as here.
        let backlog = u16::try_from(backlog).unwrap_or(u16::MAX);
        self.stack().listen(handle, backlog).map_err(failed)?;
        self.entries.socket(fd)?.listening = true;
        Ok(())
    }

    /// accept(2): the new descriptor and the peer.
    ///
    /// # Errors
    /// EBADF, ENOTSOCK, EINVAL, EAGAIN.
    pub fn accept(&mut self, fd: i32) -> Outcome<(i32, SocketAddr)> {
        let listener = self.entries.socket(fd)?;
        if !listener.listening {
            return fail(libc::EINVAL);
        }
        let (domain, nonblocking) = (listener.domain, listener.nonblocking);
        let handle = self.handle(fd)?;
        let tag = u64::try_from(self.entries.next()).unwrap_or_default();
        self.entries.socket(fd)?.acceptable = false;
        let accepted = self.stack().accept(handle, tag).map_err(failed)?;
        let Some((child, peer)) = accepted else {
            return if nonblocking { fail(libc::EAGAIN) } else { Err(Stop::Wait(None)) };
        };
        let mut socket = Socket::new(SocketKind::Stream, domain, false);
        socket.handle = Some(child);
        socket.connected = true;
        let new = self.entries.add(Descriptor::Socket(Box::new(socket)));
        self.settle();
        Ok((new, peer))
    }

    /// connect(2).
    ///
    /// # Errors
    /// EBADF, ENOTSOCK, EINPROGRESS, EALREADY, EISCONN, ENETUNREACH, EADDRNOTAVAIL, and the
    /// error that ended the attempt.
    pub fn connect(
        &mut self,
        fd: i32,
        address: SocketAddr,
        progress: &mut Progress,
    ) -> Outcome<()> {
        let handle = self.handle(fd)?;
        let socket = self.entries.socket(fd)?;
        if socket.connecting && (progress.begun || socket.connected || socket.error.is_some()) {
            return self.connect_ended(fd);
        }
        let (stream, nonblocking) = (socket.kind == SocketKind::Stream, socket.nonblocking);
        let now = self.now;
        match self.stack().connect(now, handle, address) {
            Ok(()) | Err(Error::InProgress) => {}
            Err(error) => return Err(failed(error)),
        }
        if !stream {
            self.entries.socket(fd)?.connected = true;
            return Ok(());
        }
        self.entries.socket(fd)?.connecting = true;
        progress.begun = true;
        self.settle();
        if self.stack().deferred_room(handle).is_some() {
            // Its first data will connect it.
            return Ok(());
        }
        if nonblocking {
            return fail(libc::EINPROGRESS);
        }
        self.connect_ended(fd)
    }

    /// The outcome of a connection attempt.
    fn connect_ended(&mut self, fd: i32) -> Outcome<()> {
        let socket = self.entries.socket(fd)?;
        if let Some(error) = socket.error.take() {
            socket.connecting = false;
            socket.failed = false;
            return fail(error);
        }
        if socket.connected {
            socket.connecting = false;
            return Ok(());
        }
        Err(Stop::Wait(None))
    }

    /// connect(2) to `AF_UNSPEC`: a connection is aborted, and the socket can connect again.
    ///
    /// # Errors
    /// EBADF, ENOTSOCK, ENOBUFS.
    pub fn disconnect(&mut self, fd: i32) -> Outcome<()> {
        let handle = self.handle(fd)?;
        let old = self.entries.socket(fd)?;
        let (kind, family) = (old.kind, family(old.domain));
        let tag = u64::try_from(fd).unwrap_or_default();
        // A stale handle is a connection that is over already.
        let now = self.now;
        let _ = self.stack().abort(now, handle);
        let handle = self.stack().open_in(family, kind, tag).map_err(failed)?;
        let old = self.entries.socket(fd)?;
        let mut socket = Socket::new(kind, old.domain, old.nonblocking);
        socket.handle = Some(handle);
        *old = socket;
        self.settle();
        Ok(())
    }

    /// shutdown(2).
    ///
    /// # Errors
    /// EBADF, ENOTSOCK, EINVAL, ENOTCONN.
    pub fn shutdown(&mut self, fd: i32, how: i32) -> Outcome<()> {
        let how = match how {
            libc::SHUT_RD => ShutdownHow::Read,
            libc::SHUT_WR => ShutdownHow::Write,
            libc::SHUT_RDWR => ShutdownHow::Both,
            _ => return fail(libc::EINVAL),
        };
        let handle = self.handle(fd)?;
        let now = self.now;
        let socket = self.entries.socket(fd)?;
        // Linux's TCP goes on receiving: the end of reading is the socket's matter alone.
        let outcome = match how {
            ShutdownHow::Read if socket.connected => Ok(()),
            ShutdownHow::Both if socket.connected => {
                self.stack().shutdown(now, handle, ShutdownHow::Write)
            }
            _ => self.stack().shutdown(now, handle, how),
        };
        let socket = self.entries.socket(fd)?;
        if socket.listening && how != ShutdownHow::Write {
            socket.listening = false;
        }
        outcome.map_err(failed)?;
        let socket = self.entries.socket(fd)?;
        socket.shut_read |= how != ShutdownHow::Write;
        socket.shut_write |= how != ShutdownHow::Read;
        socket.activity += 1;
        self.settle();
        Ok(())
    }

    /// close(2). Received bytes that were not read make a connection end with a RST.
    ///
    /// # Errors
    /// EBADF.
    pub fn close(&mut self, fd: i32) -> Outcome<()> {
        match self.entries.remove(fd) {
            None => return fail(libc::EBADF),
            Some(Descriptor::Socket(socket)) => {
                let now = self.now;
                if let Some(handle) = socket.handle {
                    // A stale handle is a connection that is over already.
                    let _ = self.stack().close(now, handle);
                }
                self.settle();
            }
            Some(Descriptor::PipeReader(pipe)) => self.entries.pipes[pipe].reader_closed = true,
            Some(Descriptor::PipeWriter(pipe)) => self.entries.pipes[pipe].writer_closed = true,
            Some(Descriptor::Epoll(_)) => {}
        }
        self.forget_in_epolls(fd);
        Ok(())
    }

    /// Whether `fd` is one of this host's.
    pub fn has(&self, fd: i32) -> bool {
        self.entries.get(fd).is_some()
    }

    /// fcntl(2), of which F_GETFL and F_SETFL with O_NONBLOCK mean something.
    ///
    /// # Errors
    /// EBADF, EINVAL.
    pub fn fcntl(&mut self, fd: i32, command: i32, argument: i64) -> Outcome<i32> {
        let nonblocking = argument & i64::from(libc::O_NONBLOCK) != 0;
        let entry = self.entries.get_mut(fd).ok_or(Stop::Errno(libc::EBADF))?;
        match (command, entry) {
            (libc::F_GETFL, Descriptor::Socket(socket)) if socket.nonblocking => {
                Ok(libc::O_RDWR | libc::O_NONBLOCK)
            }
            (libc::F_GETFL, _) => Ok(libc::O_RDWR),
            (libc::F_SETFL, Descriptor::Socket(socket)) => {
                socket.nonblocking = nonblocking;
                Ok(0)
            }
            (libc::F_SETFL | libc::F_GETFD | libc::F_SETFD, _) => Ok(0),
            _ => fail(libc::EINVAL),
        }
    }

    /// ioctl(2): FIONREAD (SIOCINQ) and TIOCOUTQ (SIOCOUTQ), and SIOCOUTQNSD.
    ///
    /// # Errors
    /// EBADF, ENOTSOCK, ENOTTY, EINVAL (a listener).
    pub fn ioctl(&mut self, fd: i32, request: u64) -> Outcome<i32> {
        const SIOCOUTQNSD: u64 = 0x894b;
        let socket = self.entries.socket(fd)?;
        if socket.listening {
            return fail(libc::EINVAL);
        }
        let count = match request {
            libc::FIONREAD => socket.received.len() as u64,
            libc::TIOCOUTQ => socket.queued.saturating_sub(socket.acked),
            SIOCOUTQNSD => {
                let handle = self.handle(fd)?;
                self.stack().unsent(handle) as u64
            }
            _ => return fail(libc::ENOTTY),
        };
        Ok(i32::try_from(count).unwrap_or(i32::MAX))
    }

    fn learn_address(&mut self, address: IpAddr) {
        if address != self.link.local && !address.is_unspecified() {
            self.link.local = address;
            let link = self.link;
            let running = self.running();
            link::join(&mut running.stack, running.interface, link);
        }
    }
}
