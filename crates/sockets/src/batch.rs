//! Packaged calls that travel together: the program's own batches.
//!
//! [`CallBatch`] adds the subjects of the calls to a raw batch. A call's socket stays open until
//! the call's result is fetched.

use std::sync::Arc;

use abi::Errno;
use abi::call::{self, CallFlags};

use crate::client::Client;
use crate::membership::{FinishedCall, MembershipRef, NewCall, RawBatch, place_in};
use crate::request::{CallSubject, Completion, Reply, Request, Ticket};
use crate::wait::Wait;

/// Sorted results that [`CallBatch::collect`] takes at a time.
const FETCHED: u32 = 32;

/// The subjects of a batch's calls, by the place of the call.
#[derive(Default)]
struct CallSubjects(Vec<Option<CallSubject>>);

impl CallSubjects {
    fn put(&mut self, tag: u32, subject: CallSubject) {
        let at = usize::from(place_in(tag));
        if at >= self.0.len() {
            self.0.resize(at + 1, None);
        }
        if let Some(place) = self.0.get_mut(at) {
            *place = Some(subject);
        }
    }

    fn take(&mut self, tag: u32) -> Option<CallSubject> {
        self.0.get_mut(usize::from(place_in(tag))).and_then(Option::take)
    }
}

/// Calls that travel together. Made and used by one thread.
///
/// Dropping it cancels its waiting calls. The other calls are still made. Their results are
/// discarded, and a socket that one of them makes is closed.
pub struct CallBatch<'c> {
    raw: RawBatch<'c>,
    subjects: CallSubjects,
    /// Empty between calls: a buffer for [`CallBatch::collect`].
    fetched: Vec<FinishedCall>,
}

impl<'c> CallBatch<'c> {
    /// A batch that flushes by itself when half of the request ring is full.
    ///
    /// # Errors
    /// ENETDOWN when the instance is gone, ENOBUFS when it has no thread slot, ENOTCONN in a forked
    /// child.
    pub fn new(client: &'c Client) -> Result<Self, Errno> {
        Self::open(MembershipRef::Borrowed(client.membership()), None)
    }

    /// A batch that flushes by itself at each `threshold`-th call (1: at every call).
    ///
    /// # Errors
    /// As [`CallBatch::new`].
    pub fn with_threshold(client: &'c Client, threshold: u32) -> Result<Self, Errno> {
        Self::open(MembershipRef::Borrowed(client.membership()), Some(threshold))
    }

    /// [`CallBatch::new`] that keeps the client.
    ///
    /// # Errors
    /// As there.
    pub fn shared(client: &Arc<Client>) -> Result<CallBatch<'static>, Errno> {
        CallBatch::open(MembershipRef::Shared(Arc::clone(client.membership())), None)
    }

    fn open(membership: MembershipRef<'c>, threshold: Option<u32>) -> Result<Self, Errno> {
        let raw = RawBatch::open(membership, threshold)?;
        Ok(Self { raw, subjects: CallSubjects::default(), fetched: Vec::new() })
    }

    /// Registers a call. Waits if the request ring is full, or 1,024 calls are out.
    ///
    /// # Errors
    /// As [`CallBatch::new`]; EINTR; ENOBUFS when 1,024 results have come and none was fetched.
    pub fn submit(&mut self, mut request: Request) -> Result<Ticket, Errno> {
        self.submit_from(&mut request)
    }

    /// [`CallBatch::submit`] that leaves the request whole when it fails.
    ///
    /// # Errors
    /// As there.
    pub fn submit_from(&mut self, request: &mut Request) -> Result<Ticket, Errno> {
        let tag = self.raw.register(&request.call)?;
        if let Some(subject) = request.subject.take() {
            self.subjects.put(tag, subject);
        }
        Ok(Ticket(tag))
    }

    /// [`CallBatch::submit`] of a call in the server's own terms. Its reply is for
    /// [`CallBatch::wait`].
    ///
    /// # Errors
    /// As there.
    pub fn register(&mut self, request: call::Request, flags: CallFlags) -> Result<Ticket, Errno> {
        self.raw.register(&NewCall::with_flags(request, flags)).map(Ticket)
    }

    /// [`CallBatch::submit`] of many calls, which costs less for each. Takes them out of `requests`
    /// and puts their tickets into `tickets`, in the same order.
    ///
    /// # Errors
    /// As there; `requests` keeps those that were not registered.
    pub fn submit_all(
        &mut self,
        requests: &mut Vec<Request>,
        tickets: &mut Vec<Ticket>,
    ) -> Result<(), Errno> {
        let (before, subjects) = (tickets.len(), &mut self.subjects);
        tickets.reserve(requests.len());
        let registered = self.raw.register_all(
            requests,
            |request| &request.call,
            |request, tag| {
                tickets.push(Ticket(tag));
                if request.subject.is_some()
                    && let Some(subject) = request.subject.take()
                {
                    subjects.put(tag, subject);
                }
            },
        );
        requests.drain(..tickets.len() - before);
        registered
    }

    /// Sends the registered calls.
    pub fn flush(&mut self) {
        self.raw.flush();
    }

    /// Of the calls submitted and not fetched: how many results had come at the last check, and how
    /// many are still due.
    #[must_use]
    pub fn counts(&self) -> (u32, u32) {
        self.raw.counts()
    }

    /// Flushes, then waits until `wanted` results have come, or all that are due if those are
    /// fewer. With 0, or when `wait` is over, it only checks. Returns how many can be fetched.
    ///
    /// # Errors
    /// EINTR; ENETDOWN when the instance is gone; ENOTCONN in a forked child.
    pub fn wait_for(&mut self, wanted: u32, wait: Wait) -> Result<u32, Errno> {
        self.raw.wait_for(wanted, wait)
    }

    /// The oldest result not yet fetched that had come at the last check ([`CallBatch::wait_for`]).
    /// `None` without one.
    pub fn fetch(&mut self) -> Option<Completion> {
        let finished = self.raw.fetch()?;
        let subject = self.subjects.take(finished.tag);
        Some(Completion::new(self.raw.membership(), &finished, subject.as_ref()))
    }

    /// [`CallBatch::wait_for`] and [`CallBatch::fetch`] in one, which costs less for each of many
    /// results. Flushes, then moves results as they come to the end of `completions`, oldest first.
    /// Ends when at least `wanted` are there, or all that are due if those are fewer. With 0, or
    /// when `wait` is over, it takes the results that have come. Returns how many.
    ///
    /// # Errors
    /// As [`CallBatch::wait_for`]. Results that came before are in `completions`.
    pub fn collect(
        &mut self,
        wanted: u32,
        wait: Wait,
        completions: &mut Vec<Completion>,
    ) -> Result<usize, Errno> {
        self.raw.flush();
        let before = completions.len();
        loop {
            let some = completions.len();
            self.take_results(completions)?;
            let came = completions.len() - before;
            if came >= wanted as usize || self.counts() == (0, 0) || wait.is_over() {
                return Ok(came);
            }
            if self.raw.results_come_soon(came > some - before) {
                continue;
            }
            self.raw.sleep_for_results(wait)?;
        }
    }

    /// Moves all results that have come to the end of `completions`.
    fn take_results(&mut self, completions: &mut Vec<Completion>) -> Result<(), Errno> {
        let Self { raw, subjects, fetched } = self;
        let before = completions.len();
        let taken =
            raw.collect(|tag, op, user_data, outcome| {
                let ticket = Ticket(tag);
                match Completion::plain(op, outcome) {
                    // Apart, and made where it stays: no more than three words.
                    Some(Ok(Reply::Done)) => completions.extend(std::iter::once_with(|| {
                        Completion { ticket, user_data, result: Ok(Reply::Done) }
                    })),
                    Some(result) => completions.push(Completion { ticket, user_data, result }),
                    None => return false,
                }
                true
            });
        // Outside of the rings' lock: the last handle of a socket closes it, by a call.
        if !subjects.0.is_empty() {
            for completion in completions.iter().skip(before) {
                drop(subjects.take(completion.ticket.0));
            }
        }
        taken?;
        loop {
            raw.fetch_some(FETCHED, fetched);
            let some = fetched.len();
            completions.extend(fetched.drain(..).map(|finished| {
                let subject = subjects.take(finished.tag);
                Completion::new(raw.membership(), &finished, subject.as_ref())
            }));
            if some < FETCHED as usize {
                return Ok(());
            }
        }
    }

    /// Cancels a call whose result is due. If the call waits, it ends with ECANCELED; otherwise its
    /// result is on its way. Either way one result comes, to be fetched as always. The cancellation
    /// travels with the next flush.
    ///
    /// # Errors
    /// ENOENT when the result has come, or the ticket is none of this batch; otherwise as
    /// [`CallBatch::submit`].
    pub fn cancel(&mut self, ticket: Ticket) -> Result<(), Errno> {
        self.raw.cancel(ticket.0)
    }

    /// Waits for one call's result, in the server's own terms.
    ///
    /// # Errors
    /// The call's own error. EAGAIN when `wait` is over; EINTR; the ticket stays good after both.
    /// ENETDOWN when the instance is gone. EINVAL for a ticket of another batch or one waited for
    /// already.
    pub fn wait(&mut self, ticket: Ticket, wait: Wait) -> Result<call::Reply, Errno> {
        let finished = self.raw.finished(ticket.0, wait)?.ok_or(Errno::AGAIN)?;
        drop(self.subjects.take(ticket.0));
        let reply = call::Reply::decode(finished.op, &finished.outcome?);
        reply.map_err(|_| self.raw.membership().server.fault())
    }
}
