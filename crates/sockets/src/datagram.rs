//! Sending datagrams: each is one descriptor, with a second slot if more is said of it.
//!
//! A datagram lies in one piece, in an area as long as it needs. Which errors are told at once is
//! in [`crate::confirmed`].

use std::io::IoSlice;
use std::net::{IpAddr, SocketAddr};

use abi::ancillary::SendAncillary;
use abi::data::DataDescriptor;
use abi::{Errno, Family, SocketFlags, SocketKind};

use crate::client::lock;
use crate::error::Broken;
use crate::send::{Gather, SendFlags, SendSide};
use crate::socket::Socket;
use crate::wait::{Wait, until};

/// Most payload of a UDP datagram over IPv4: 65,535 bytes with both headers.
const MOST_V4: usize = 65_507;
/// Most over IPv6, whose own header does not count.
const MOST_V6: usize = 65_527;

/// A datagram, but for its bytes.
pub(crate) struct Addressed<'a> {
    pub(crate) len: usize,
    /// It is not complete yet.
    pub(crate) more: bool,
    pub(crate) to: Option<SocketAddr>,
    pub(crate) ancillary: &'a SendAncillary,
}

impl Socket {
    /// Sends one datagram, the bytes of `bufs` one after the other, to `to` or the connected peer,
    /// as `ancillary` says; a part of one with `flags.more` or UDP_CORK.
    ///
    /// The first datagram to a destination, or in another manner, waits for the server, even with
    /// [`Wait::No`]; later ones are only queued.
    ///
    /// # Errors
    /// EOPNOTSUPP on a stream; EAGAIN when there is no room and no time; EINTR; EPIPE when sending
    /// is shut down; a pending error of the socket, such as ECONNREFUSED, once; EDESTADDRREQ;
    /// EAFNOSUPPORT; EMSGSIZE above 65,507 bytes (IPv6: 65,527), what a region of few pages can
    /// hold, or what the path takes whole; EINVAL for a source that is not ours, 0 hops, or what
    /// cannot be cut; ENODEV; EACCES (broadcast); ENETUNREACH; EBADF after close; ENETDOWN when the
    /// instance is gone; ENOTCONN in a forked child.
    pub fn send_message(
        &self,
        bufs: &[IoSlice<'_>],
        flags: SendFlags,
        to: Option<SocketAddr>,
        ancillary: &SendAncillary,
        wait: Wait,
    ) -> Result<usize, Errno> {
        match self.kind() {
            SocketKind::Stream => Err(Errno::OPNOTSUPP),
            SocketKind::Datagram => {
                self.send_datagram(&mut Gather::new(bufs), flags, to, ancillary, wait)
            }
        }
    }

    pub(crate) fn send_datagram(
        &self,
        from: &mut Gather<'_>,
        flags: SendFlags,
        to: Option<SocketAddr>,
        ancillary: &SendAncillary,
        wait: Wait,
    ) -> Result<usize, Errno> {
        let datagram = Addressed { len: from.left, more: flags.more, to, ancillary };
        let push = |side: &mut SendSide| self.push_datagram(side, from, &datagram);
        self.send_addressed(&datagram, wait, || self.may_go_on(), push)
    }

    /// Sends a datagram that `push` publishes when there is room; `ripe` as in [`until`].
    pub(crate) fn send_addressed<T>(
        &self,
        datagram: &Addressed<'_>,
        wait: Wait,
        ripe: impl Fn() -> bool,
        mut push: impl FnMut(&mut SendSide) -> Result<Option<T>, Broken>,
    ) -> Result<T, Errno> {
        let &Addressed { len, more, to, ancillary } = datagram;
        let attempt = || {
            self.may_send_datagram(len, to)?;
            let mut side = lock(self.send_side());
            let side = side.as_mut().ok_or(Errno::BADF)?;
            push(side).map_err(|Broken| Errno::IO)
        };
        let sent = until(self, wait, attempt, ripe)?;
        let known = lock(self.confirmed()).knows(to, len, ancillary);
        // A part is judged with the whole.
        if !known && !more {
            self.flush()?;
            let whole = self.is_whole() || ancillary.segment != 0;
            let mut confirmed = lock(self.confirmed());
            confirmed.note(to, if whole { len } else { usize::MAX });
            if *ancillary != SendAncillary::default() {
                confirmed.note_manner(ancillary);
            }
        }
        Ok(sent)
    }

    /// The longest datagram that there can be room for.
    pub(crate) fn largest_datagram(&self) -> usize {
        let client = self.client();
        let sockets = client.layout().params.sockets;
        if client.tx.could_hold(MOST_V6, sockets) { MOST_V6 } else { client.tx.area_len() }
    }

    fn may_send_datagram(&self, len: usize, to: Option<SocketAddr>) -> Result<(), Errno> {
        self.check()?;
        let state = self.flags();
        if let Some(errno) = self.take_error() {
            return Err(errno);
        }
        if state.has(SocketFlags::WRITE_CLOSED) {
            return Err(Errno::PIPE);
        }
        if to.is_none() && !state.has(SocketFlags::CONNECTED) {
            return Err(Errno::DESTADDRREQ);
        }
        if self.family() == Family::V4 && to.is_some_and(|to| to.is_ipv6()) {
            return Err(Errno::AFNOSUPPORT);
        }
        let six = to.is_none() || to.is_some_and(|to| is_v6(to.ip()));
        let most = if self.family() == Family::V6 && six { MOST_V6 } else { MOST_V4 };
        let sockets = self.client().layout().params.sockets;
        if len > most || !self.client().tx.could_hold(len, sockets) {
            return Err(Errno::MSGSIZE);
        }
        Ok(())
    }

    fn push_datagram(
        &self,
        side: &mut SendSide,
        from: &mut Gather<'_>,
        datagram: &Addressed<'_>,
    ) -> Result<Option<usize>, Broken> {
        let &Addressed { len, more, to, ancillary } = datagram;
        let pool = &self.client().tx;
        side.collect(self.words(), pool)?;
        let said = (*ancillary != SendAncillary::default()).then(|| ancillary.encode());
        // As on Linux, the last datagram may go over the limit. An empty one needs an area as well:
        // its descriptor names one.
        let full = side.unreleased() >= self.tx_limit();
        if full
            || side.queue.free()? < 1 + u32::from(said.is_some())
            || side.room(pool, len.max(1)) < len.max(1)
        {
            return Ok(None);
        }
        let descriptor = side.fill(from, len)?;
        self.client().count_copied_tx(len);
        let bit = |on: bool, bit| if on { bit } else { 0 };
        let flags =
            bit(more, DataDescriptor::MORE) | bit(said.is_some(), DataDescriptor::ANCILLARY);
        self.publish(side, &DataDescriptor { peer: to, flags, ..descriptor }, said.as_ref())?;
        Ok(Some(len))
    }
}

/// Is it an address of IPv6, and not one of IPv4 in its clothes?
fn is_v6(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(_) => false,
        IpAddr::V6(v6) => v6.to_ipv4_mapped().is_none(),
    }
}
