//! Connecting a stream and waiting for it: one sleep, however many calls.
//!
//! The call ends at once with EINPROGRESS, of which nobody is told; the thread sleeps until the
//! socket's words say how the attempt came out, or until the call's result says that there is none.
//! It is not the call that completes later: if a signal ended this wait, its result would reach
//! nobody, while the error word keeps it for SO_ERROR.
//!
//! With it travels a call for the next socket, where a thread connects more than once.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;

use abi::Errno;
use abi::call::{Call, Op};

use crate::batch::{CallBatch, drain};
use crate::client::{Client, lock};
use crate::request::Ticket;
use crate::rings::Outcome;
use crate::socket::Socket;
use crate::wait::{Wait, until};

/// A call that begins an attempt, and what it came to once that is known.
struct Attempt<'s> {
    socket: &'s Socket,
    batch: RefCell<CallBatch<'s>>,
    ticket: Ticket,
    begun: Cell<Option<Outcome>>,
}

impl Socket {
    /// [`Socket::connect`] of a stream that may wait.
    pub(crate) fn connect_waiting(&self, addr: SocketAddr, wait: Wait) -> Result<(), Errno> {
        let [a, b, c] = self.address_words(addr)?;
        self.client().check_memory()?;
        self.check()?;
        let mut batch = CallBatch::new(self.client())?;
        let args = [self.id().to_word(), a, b, c, 0, 0];
        let ticket = batch.surely_register(Op::Connect, Call::NONBLOCK | Call::QUIET, args)?;
        batch.make_ahead([self.kind().to_word(), self.family().to_word()])?;
        batch.flush();
        let begun = Cell::new(None);
        let attempt = Attempt { socket: self, batch: RefCell::new(batch), ticket, begun };
        let ended = until(self, wait, || attempt.outcome(), || attempt.is_over());
        let Err(early @ (Errno::AGAIN | Errno::INTR)) = ended else { return ended };
        match attempt.surely_begun()? {
            Ok(_) => attempt.outcome().map(drop),
            Err(under_way @ (Errno::INPROGRESS | Errno::ALREADY)) => {
                Err(if early == Errno::AGAIN { under_way } else { early })
            }
            Err(errno) => Err(errno),
        }
    }
}

impl Client {
    /// The name of a new socket: one that was made ahead, or else one that is made now.
    pub(crate) fn new_socket(&self, speaks: [u64; 2]) -> Result<u64, Errno> {
        if let Some(id) = self.take_ahead(speaks)? {
            return Ok(id);
        }
        let [kind, family] = speaks;
        let call = || CallBatch::call(self, Op::Socket, 0, [kind, family, 0, 0, 0, 0]);
        match call() {
            // Another thread may have one in hand, or have closed one just now.
            Err(Errno::MFILE) => match self.threads.take_ahead(self, speaks) {
                Some(id) => Ok(id),
                None => Ok(call()?[0]),
            },
            values => Ok(values?[0]),
        }
    }

    fn take_ahead(&self, speaks: [u64; 2]) -> Result<Option<u64>, Errno> {
        let thread = self.thread()?;
        if !lock(&thread.rings).makes_ahead() {
            return Ok(None);
        }
        drain(self, &thread)?;
        let id = lock(&thread.rings).take_ahead(speaks);
        Ok(id)
    }
}

impl Attempt<'_> {
    /// What the call came to, if it is known.
    fn begun(&self) -> Result<Option<Outcome>, Errno> {
        if self.begun.get().is_none() {
            let outcome = self.batch.borrow_mut().outcome(self.ticket, Wait::No)?;
            self.begun.set(outcome);
        }
        Ok(self.begun.get())
    }

    /// How the attempt came out; `None` while it goes on.
    fn outcome(&self) -> Result<Option<()>, Errno> {
        match self.begun()? {
            None => Ok(None),
            Some(Ok([room, ..])) => {
                self.socket.wait_for_data(room);
                Ok(Some(()))
            }
            Some(Err(Errno::INPROGRESS | Errno::ALREADY)) => self.socket.connected(),
            Some(Err(errno)) => Err(errno),
        }
    }

    fn is_over(&self) -> bool {
        match self.begun() {
            Ok(None) => false,
            Ok(Some(Err(Errno::INPROGRESS | Errno::ALREADY))) => {
                !matches!(self.socket.connecting(), Ok(true))
            }
            Ok(Some(_)) | Err(_) => true,
        }
    }

    /// What the call came to. Nobody is told when it has begun an attempt, so that the answer to
    /// another call, which comes after, tells it.
    fn surely_begun(&self) -> Result<Outcome, Errno> {
        if self.begun()?.is_none() {
            let mut batch = self.batch.borrow_mut();
            let after = batch.surely_register(Op::Null, 0, [0; 6])?;
            batch.surely_wait(after)?;
        }
        Ok(self.begun()?.unwrap_or(Err(Errno::INPROGRESS)))
    }
}
