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

/// The interface with this index in [`OutputTurns`].
fn interface_at(at: usize) -> InterfaceId {
    let number = at.checked_sub(1).and_then(|number| u16::try_from(number).ok());
    number.map_or(InterfaceId::LOOPBACK, InterfaceId)
}

/// The sockets that may have something to send on one interface.
#[derive(Debug, Default)]
struct InterfaceTurns {
    /// Owners with a socket here, in the order of their turns.
    owners: VecDeque<OwnerId>,
    /// Sockets of each owner, by its index.
    sockets: Vec<VecDeque<Handle>>,
    /// Sockets of all owners.
    len: usize,
}

impl InterfaceTurns {
    fn push(&mut self, owner: OwnerId, handle: Handle) {
        if self.sockets.len() <= owner.index() {
            self.sockets.resize_with(owner.index() + 1, VecDeque::new);
        }
        let Some(sockets) = self.sockets.get_mut(owner.index()) else { return };
        if sockets.is_empty() {
            self.owners.push_back(owner);
        }
        sockets.push_back(handle);
        self.len += 1;
    }

    /// Moves the next owner with room to the front.
    fn choose_owner<T>(
        &mut self,
        at: usize,
        link: &LinkLayer,
        out: &mut dyn Egress<T>,
    ) -> Option<()> {
        for _ in 0..self.owners.len() {
            let owner = *self.owners.front()?;
            out.set_sender(owner);
            if link.has_room(interface_at(at), out) {
                return Some(());
            }
            self.owners.rotate_left(1);
        }
        None
    }

    /// The first socket of the owner whose turn it is. The owner's next turn comes after all
    /// others'.
    fn pop(&mut self) -> Option<Handle> {
        let owner = self.owners.pop_front()?;
        let sockets = self.sockets.get_mut(owner.index())?;
        let handle = sockets.pop_front();
        if sockets.is_empty() {
            if sockets.capacity() > KEPT_ROOM {
                *sockets = VecDeque::new();
            }
        } else {
            self.owners.push_back(owner);
        }
        self.len -= 1;
        handle
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

    /// The interfaces at which sockets may wait: 0 is the loopback interface.
    pub(super) fn interfaces(&self) -> core::ops::Range<usize> {
        0..self.interfaces.len()
    }

    /// Sockets that wait at an interface.
    pub(super) fn waiting(&self, at: usize) -> usize {
        self.interfaces.get(at).map_or(0, |turns| turns.len)
    }

    pub(super) fn push(&mut self, exit: InterfaceId, owner: OwnerId, handle: Handle) {
        let at = usize::from(exit.0.wrapping_add(1));
        if self.interfaces.len() <= at {
            self.interfaces.resize_with(at + 1, InterfaceTurns::default);
        }
        if let Some(turns) = self.interfaces.get_mut(at) {
            turns.push(owner, handle);
            self.len += 1;
        }
    }

    /// The next socket of an interface whose owner has room to send. Frames emitted from now on
    /// are that owner's.
    pub(super) fn pop<T>(
        &mut self,
        at: usize,
        link: &LinkLayer,
        out: &mut dyn Egress<T>,
    ) -> Option<Handle> {
        let turns = self.interfaces.get_mut(at)?;
        turns.choose_owner(at, link, out)?;
        self.len -= 1;
        turns.pop()
    }

    /// Whether a socket may send now: it waits, and its owner has room.
    pub(super) fn can_go_on<T>(&mut self, link: &LinkLayer, out: &mut dyn Egress<T>) -> bool {
        let mut interfaces = self.interfaces.iter_mut().enumerate();
        self.len > 0 && interfaces.any(|(at, turns)| turns.choose_owner(at, link, out).is_some())
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
        let mut turns = InterfaceTurns::default();
        for handle in &handles[..4] {
            turns.push(OwnerId::new(1), *handle);
        }
        turns.push(OwnerId::new(2), handles[4]);
        let order: Vec<_> = core::iter::from_fn(|| turns.pop()).collect();
        assert_eq!(order, [0, 4, 1, 2, 3].map(|at| handles[at]));
        assert_eq!(turns.len, 0);
        assert!(turns.owners.is_empty());
    }
}
