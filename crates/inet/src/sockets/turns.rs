//! The order in which sockets send: by interface, then by owner, then first come, first served.
//!
//! The owners of an interface take turns, and so do the sockets of one owner. So an owner with a
//! thousand busy sockets gets no more turns than an owner with one.
//!
//! A socket waits at the interface by which it has sent last. So an interface whose driver takes
//! nothing holds up no other one. A new socket waits at the loopback interface, which always has
//! room soon.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::bytes::Egress;
use crate::interface_id::InterfaceId;
use crate::link::LinkLayer;
use crate::owner_id::OwnerId;
use crate::table::Handle;

/// Room that an owner's queue keeps when it becomes empty, sockets.
const KEPT_ROOM: usize = 16;

/// The sockets that may have something to send on one interface.
#[derive(Debug)]
struct InterfaceTurns {
    interface: InterfaceId,
    /// Owners with a socket here, in the order of their turns.
    owners: VecDeque<OwnerId>,
    /// Sockets of each owner, by its index.
    sockets: Vec<VecDeque<Handle>>,
    /// Sockets of all owners.
    len: usize,
}

impl InterfaceTurns {
    fn new(interface: InterfaceId) -> Self {
        Self { interface, owners: VecDeque::new(), sockets: Vec::new(), len: 0 }
    }

    fn knows(&self, owner: OwnerId) -> bool {
        owner.index() < self.sockets.len()
    }

    #[inline]
    fn push(&mut self, owner: OwnerId, handle: Handle) {
        let Some(sockets) = self.sockets.get_mut(owner.index()) else { return };
        if sockets.is_empty() {
            self.owners.push_back(owner);
        }
        sockets.push_back(handle);
        self.len += 1;
    }

    /// The first socket of the next owner with room, whose frames are those emitted from now on.
    /// The owner's next turn comes after all others'.
    #[inline]
    fn pop<T>(&mut self, link: &LinkLayer, out: &mut dyn Egress<T>) -> Option<Handle> {
        let mut left = self.owners.len();
        while left > 0 {
            let owner = self.owners.pop_front()?;
            out.set_sender(owner);
            if link.has_room(self.interface, out) {
                return self.pop_socket(owner);
            }
            self.owners.push_back(owner);
            left -= 1;
        }
        None
    }

    #[inline]
    fn pop_socket(&mut self, owner: OwnerId) -> Option<Handle> {
        let sockets = self.sockets.get_mut(owner.index())?;
        let handle = sockets.pop_front();
        if !sockets.is_empty() {
            self.owners.push_back(owner);
        } else if sockets.capacity() > KEPT_ROOM {
            *sockets = VecDeque::new();
        }
        self.len -= 1;
        handle
    }

    /// Whether an owner with a socket here has room to send.
    fn can_go_on<T>(&self, link: &LinkLayer, out: &mut dyn Egress<T>) -> bool {
        self.owners.iter().any(|owner| {
            out.set_sender(*owner);
            link.has_room(self.interface, out)
        })
    }
}

/// The sockets that may have something to send.
#[derive(Debug, Default)]
pub(super) struct OutputTurns {
    /// The loopback interface first.
    interfaces: Vec<InterfaceTurns>,
    len: usize,
}

impl OutputTurns {
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Number of the interfaces at which sockets may wait: 0 is the loopback interface.
    pub(super) fn interfaces(&self) -> usize {
        self.interfaces.len()
    }

    /// Sockets that wait at an interface.
    pub(super) fn waiting(&self, at: usize) -> usize {
        self.interfaces.get(at).map_or(0, |turns| turns.len)
    }

    pub(super) fn push(&mut self, exit: InterfaceId, owner: OwnerId, handle: Handle) {
        let at = usize::from(exit.0.wrapping_add(1));
        if !self.interfaces.get(at).is_some_and(|turns| turns.knows(owner)) {
            self.add_queue(at, owner);
        }
        if let Some(turns) = self.interfaces.get_mut(at) {
            turns.push(owner, handle);
            self.len += 1;
        }
    }

    /// An owner has a socket at an interface for the first time.
    #[cold]
    fn add_queue(&mut self, at: usize, owner: OwnerId) {
        while self.interfaces.len() <= at {
            // Its number is one less than the place; the loopback interface has the last number.
            let number = (self.interfaces.len() as u16).wrapping_sub(1);
            self.interfaces.push(InterfaceTurns::new(InterfaceId(number)));
        }
        if let Some(turns) = self.interfaces.get_mut(at).filter(|turns| !turns.knows(owner)) {
            turns.sockets.resize_with(owner.index() + 1, VecDeque::new);
        }
    }

    /// The next socket of an interface whose owner has room to send. Frames emitted from now on
    /// are that owner's.
    #[inline]
    pub(super) fn pop<T>(
        &mut self,
        at: usize,
        link: &LinkLayer,
        out: &mut dyn Egress<T>,
    ) -> Option<Handle> {
        let handle = self.interfaces.get_mut(at)?.pop(link, out)?;
        self.len -= 1;
        Some(handle)
    }

    /// Whether a socket may send now: it waits, and its owner has room.
    #[inline]
    pub(super) fn can_go_on<T>(&self, link: &LinkLayer, out: &mut dyn Egress<T>) -> bool {
        !self.is_empty() && self.one_has_room(link, out)
    }

    #[inline]
    fn one_has_room<T>(&self, link: &LinkLayer, out: &mut dyn Egress<T>) -> bool {
        self.interfaces.iter().any(|turns| turns.can_go_on(link, out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handles(count: u32) -> Vec<Handle> {
        let mut table = crate::table::Table::new(count as usize);
        (0..count).filter_map(|number| table.insert(number)).collect()
    }

    #[test]
    fn owners_take_turns_whatever_the_number_of_their_sockets() {
        let handles = handles(5);
        let mut all = OutputTurns::default();
        for handle in &handles[..4] {
            all.push(InterfaceId(0), OwnerId::new(1), *handle);
        }
        all.push(InterfaceId(0), OwnerId::new(2), handles[4]);
        assert_eq!((all.interfaces(), all.waiting(0), all.waiting(1)), (2, 0, 5));
        let turns = &mut all.interfaces[1];
        let pop = || turns.owners.pop_front().and_then(|owner| turns.pop_socket(owner));
        let order: Vec<_> = core::iter::from_fn(pop).collect();
        assert_eq!(order, [0, 4, 1, 2, 3].map(|at| handles[at]));
        assert_eq!(turns.len, 0);
        assert!(turns.owners.is_empty());
    }
}
