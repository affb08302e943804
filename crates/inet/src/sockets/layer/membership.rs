//! Sockets' memberships of multicast groups.

use crate::bytes::{RxBytes, TxBytes};
use crate::context::Context;
use crate::error::Error;
use crate::interface_id::InterfaceId;
use crate::ip::groups::{Filter, FilterMode, GroupListener, GroupMember};
use crate::sockets::kinds::Family;
use crate::sockets::layer::SocketLayer;
use crate::sockets::socket::Socket;
use crate::table::Handle;
use crate::time::Instant;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

impl<T: TxBytes, R: RxBytes> SocketLayer<T, R> {
    /// See [`Stack::join_group`](crate::Stack::join_group).
    pub(crate) fn join_group(
        &mut self,
        cx: &mut Context,
        now: Instant,
        handle: Handle,
        group: IpAddr,
        interface: Option<InterfaceId>,
    ) -> Result<(), Error> {
        let interface = self.group_interface(cx, handle, group, interface)?;
        if cx.ip.group_filter(interface, group, GroupListener::Socket(handle)).is_some() {
            return Err(Error::AddrInUse);
        }
        self.set_filter(cx, now, handle, group, interface, Filter::all())
    }

    /// See [`Stack::leave_group`](crate::Stack::leave_group).
    pub(crate) fn leave_group(
        &mut self,
        cx: &mut Context,
        now: Instant,
        handle: Handle,
        group: IpAddr,
        interface: Option<InterfaceId>,
    ) -> Result<(), Error> {
        let socket = self.open_socket(handle)?;
        let Some(datagram) = socket.datagram() else { return Err(Error::Unsupported) };
        // As Linux: without an interface the first membership of the group is meant.
        let named = |(at, of): &&(InterfaceId, IpAddr)| {
            *of == group && interface.is_none_or(|interface| interface == *at)
        };
        let found = datagram.memberships.iter().find(named);
        let interface = found.ok_or(Error::AddrNotAvailable)?.0;
        let none = Filter { mode: FilterMode::Include, sources: BTreeSet::new() };
        self.set_filter(cx, now, handle, group, interface, none)
    }

    /// See [`Stack::set_group_filter`](crate::Stack::set_group_filter).
    #[expect(clippy::too_many_arguments, reason = "a membership and its filter")]
    pub(crate) fn set_group_filter(
        &mut self,
        cx: &mut Context,
        now: Instant,
        handle: Handle,
        group: IpAddr,
        interface: Option<InterfaceId>,
        mode: FilterMode,
        sources: &[IpAddr],
    ) -> Result<(), Error> {
        let interface = self.group_interface(cx, handle, group, interface)?;
        if sources.len() > self.config.group_sources {
            return Err(Error::NoBuffers);
        }
        if sources.iter().any(|source| source.is_ipv4() != group.is_ipv4()) {
            return Err(Error::Invalid);
        }
        let filter = Filter { mode, sources: sources.iter().copied().collect() };
        self.set_filter(cx, now, handle, group, interface, filter)
    }

    /// See [`Stack::group_filter`](crate::Stack::group_filter).
    pub(crate) fn group_filter(
        &mut self,
        cx: &mut Context,
        handle: Handle,
        group: IpAddr,
        interface: Option<InterfaceId>,
    ) -> Option<(FilterMode, Vec<IpAddr>)> {
        let interface = self.group_interface(cx, handle, group, interface).ok()?;
        let filter = cx.ip.group_filter(interface, group, GroupListener::Socket(handle))?;
        Some((filter.mode, filter.sources.iter().copied().collect()))
    }

    /// The interface that is meant.
    fn group_interface(
        &mut self,
        cx: &mut Context,
        handle: Handle,
        group: IpAddr,
        interface: Option<InterfaceId>,
    ) -> Result<InterfaceId, Error> {
        let socket = self.open_socket(handle)?;
        if socket.datagram().is_none() {
            return Err(Error::Unsupported);
        }
        if !group.is_multicast() || group.is_ipv6() && socket.family == Family::V4 {
            return Err(Error::Invalid);
        }
        let id = match interface {
            Some(id) => id,
            None => {
                let found = cx.find(&SocketAddr::new(group, 0), None);
                found.map_or(InterfaceId(0), |path| path.interface)
            }
        };
        let is_there = id == InterfaceId::LOOPBACK || cx.link.interface(id).is_some();
        if is_there { Ok(id) } else { Err(Error::AddrNotAvailable) }
    }

    fn set_filter(
        &mut self,
        cx: &mut Context,
        now: Instant,
        handle: Handle,
        group: IpAddr,
        interface: InterfaceId,
        filter: Filter,
    ) -> Result<(), Error> {
        let most = self.config.memberships;
        let socket = self.open_socket(handle)?;
        let owner = socket.owner;
        let Some(datagram) = socket.datagram() else { return Err(Error::Unsupported) };
        let name = (interface, group);
        let is_new = !datagram.memberships.contains(&name);
        let leaves = filter.mode == FilterMode::Include && filter.sources.is_empty();
        if is_new && !leaves && datagram.memberships.len() >= most {
            return Err(Error::NoBuffers);
        }
        let entry = (GroupListener::Socket(handle), GroupMember { owner, filter });
        cx.ip.listen_to_group(now, name, entry, &mut cx.secret, &mut cx.timers)?;
        if let Some(datagram) = self.sockets.get_mut(handle).and_then(Socket::datagram) {
            datagram.memberships.retain(|other| *other != name);
            if !leaves {
                datagram.memberships.push(name);
            }
        }
        Ok(())
    }

    /// A socket has ended, and leaves all its groups.
    pub(super) fn leave_all_groups(&mut self, cx: &mut Context, handle: Handle) {
        let now = cx.clock;
        let datagram = self.sockets.get_mut(handle).and_then(Socket::datagram);
        let Some(memberships) = datagram.map(|found| core::mem::take(&mut found.memberships))
        else {
            return;
        };
        let (cx, listener) = (cx, GroupListener::Socket(handle));
        cx.ip.leave_groups(now, &memberships, listener, &mut cx.secret, &mut cx.timers);
    }
}
