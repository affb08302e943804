//! A connection that may be dormant, and is restored when it is used.
//!
//! Code that works with the connection finds it complete. Questions about all sockets at once are
//! answered without restoring it.

use alloc::boxed::Box;
use core::cell::OnceCell;
use core::ops::{Deref, DerefMut};

use crate::bytes::{RxBytes, TxBytes};
use crate::tcp::{Connection, Dormant, Durable, Endpoints, State};

/// Exactly one of the two is there, but for the moment in which a dormant connection is examined.
#[derive(Debug)]
pub(crate) struct MaybeDormant<T, R> {
    awake: OnceCell<Box<Connection<T, R>>>,
    dormant: Option<Box<Dormant>>,
}

impl<T: TxBytes, R: RxBytes> MaybeDormant<T, R> {
    pub(crate) fn new(connection: Connection<T, R>) -> Self {
        Self { awake: OnceCell::from(Box::new(connection)), dormant: None }
    }

    /// Puts an idle connection to sleep.
    pub(crate) fn make_dormant(&mut self) {
        if let Some(connection) = self.awake.get().filter(|connection| connection.is_idle()) {
            self.dormant = Some(Box::new(connection.to_dormant()));
            self.awake.take();
        }
    }

    pub(crate) fn is_dormant(&self) -> bool {
        self.awake.get().is_none()
    }

    pub(crate) fn durable(&self) -> &Durable {
        match (self.awake.get(), &self.dormant) {
            (None, Some(dormant)) => dormant.durable(),
            _ => self.deref().durable(),
        }
    }

    pub(crate) fn state(&self) -> State {
        self.durable().state()
    }

    pub(crate) fn endpoints(&self) -> Endpoints {
        self.durable().endpoints()
    }

    pub(crate) fn acked(&self) -> u64 {
        self.durable().acked
    }

    pub(crate) fn unacked_len(&self) -> usize {
        if self.is_dormant() { 0 } else { self.deref().unacked_len() }
    }

    pub(crate) fn unconsumed_len(&self) -> usize {
        if self.is_dormant() { 0 } else { self.deref().unconsumed_len() }
    }
}

impl<T: TxBytes, R: RxBytes> Deref for MaybeDormant<T, R> {
    type Target = Connection<T, R>;

    fn deref(&self) -> &Connection<T, R> {
        self.awake.get_or_init(|| {
            let dormant = self.dormant.as_ref().expect("asleep, if not awake");
            Box::new(dormant.to_connection())
        })
    }
}

impl<T: TxBytes, R: RxBytes> DerefMut for MaybeDormant<T, R> {
    fn deref_mut(&mut self) -> &mut Connection<T, R> {
        // Wakes it.
        let _: &Connection<T, R> = Deref::deref(&*self);
        self.dormant = None;
        self.awake.get_mut().expect("awake by now")
    }
}
