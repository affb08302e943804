//! The supervisor's half of wires: it finds the other end at the path, and the driver greets it.
//!
//! A driver needs the other end at its start and after each loss of the link. It asks over a
//! channel of its own ([`WireOpener`]), which mode `library` has as well.

use std::os::fd::{AsFd, BorrowedFd};

use nic_driver::wire::WireOpener;

use super::instance::Instance;

impl Instance {
    /// The openers of all wires, with the number of their interface.
    pub(super) fn openers(&self) -> impl Iterator<Item = (usize, BorrowedFd<'_>)> {
        let links = self.links.iter().enumerate();
        links.filter_map(|(number, link)| Some((number, link.device.opener.as_ref()?.as_fd())))
    }

    /// A driver may have asked for the other end of its wire. Never waits.
    pub(super) fn serve_opener(&mut self, number: usize) {
        let Some(link) = self.links.get_mut(number) else { return };
        if !link.device.opener.as_mut().is_none_or(WireOpener::serve) {
            // In mode `library` the next host gets another one.
            tracing::debug!(number, "a wire's driver is gone");
            link.device.opener = None;
        }
    }

    /// Listens on no path any more. Other ends look for a new listener when the drivers have ended.
    pub(super) fn leave_wires(&mut self) {
        for link in &mut self.links {
            link.device.opener = None;
        }
    }
}
