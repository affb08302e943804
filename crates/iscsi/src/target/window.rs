//! The command window (RFC 7143 4.2.2.1): commands are delivered in the order of CmdSN.
//!
//! The window's upper end rises when a command is over. So open commands and free places are always
//! as many as the queue is deep.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::pdu::{LogoutRequest, NopOut, TaskRequest, TextRequest};
use crate::serial::SerialNumber;

/// A request that waits for its turn.
#[derive(Debug)]
pub(super) enum Pending {
    /// A command, by its task tag.
    Command(u32),
    Task(TaskRequest),
    Text(TextRequest, Bytes),
    Logout(LogoutRequest),
    Nop(NopOut, Bytes),
    /// A request that was rejected or aborted.
    Skip,
}

/// ExpCmdSN, MaxCmdSN and the requests between them.
#[derive(Debug)]
pub(super) struct CommandWindow {
    expected: SerialNumber,
    max: SerialNumber,
    waiting: VecDeque<Option<Pending>>,
}

impl CommandWindow {
    /// A window that begins with that number.
    pub(super) fn new(first: SerialNumber, depth: u16) -> Self {
        let max = first + u32::from(depth) - 1;
        Self { expected: first, max, waiting: VecDeque::new() }
    }

    /// ExpCmdSN and MaxCmdSN.
    pub(super) fn numbers(&self) -> (SerialNumber, SerialNumber) {
        (self.expected, self.max)
    }

    /// The place of a number in the window, if it is inside and free. A number outside or one that
    /// is there already is ignored (RFC 7143 4.2.2.1).
    pub(super) fn place(&self, number: SerialNumber) -> Option<usize> {
        let place = usize::try_from(number.offset_from(self.expected)).ok()?;
        let inside = !number.after(self.max);
        let free = self.waiting.get(place).is_none_or(Option::is_none);
        (inside && free).then_some(place)
    }

    /// Puts a request into a free place.
    pub(super) fn put(&mut self, place: usize, pending: Pending) {
        if self.waiting.len() <= place {
            self.waiting.resize_with(place + 1, || None);
        }
        self.waiting[place] = Some(pending);
    }

    /// The request whose turn it is.
    pub(super) fn front(&self) -> Option<&Pending> {
        self.waiting.front().and_then(Option::as_ref)
    }

    /// Takes the request whose turn it is. ExpCmdSN rises. A command keeps its place in the window
    /// until `release`.
    pub(super) fn take(&mut self) -> Option<Pending> {
        self.front()?;
        let pending = self.waiting.pop_front().flatten()?;
        self.expected = self.expected.next();
        if !matches!(pending, Pending::Command(_)) {
            self.release();
        }
        Some(pending)
    }

    /// A command that kept a place is over.
    pub(super) fn release(&mut self) {
        self.max = self.max.next();
    }

    /// Bytes of payload that wait.
    pub(super) fn held(&self) -> usize {
        let held = self.waiting.iter().flatten().map(|pending| match pending {
            Pending::Text(_, data) | Pending::Nop(_, data) => data.len(),
            _ => 0,
        });
        held.sum()
    }

    /// Forgets what waits.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_leave_in_the_order_of_their_numbers() {
        let first = SerialNumber::new(u32::MAX);
        let mut window = CommandWindow::new(first, 3);
        assert_eq!(window.place(first - 1), None);
        assert_eq!(window.place(first + 3), None);
        window.put(window.place(first + 2).expect("inside"), Pending::Command(2));
        assert!(window.place(first + 2).is_none() && window.front().is_none());
        assert!(window.take().is_none());
        window.put(0, Pending::Skip);
        assert!(matches!(window.take(), Some(Pending::Skip)));
        assert_eq!(window.numbers(), (first + 1, first + 3));
        window.put(window.place(first + 1).expect("inside"), Pending::Command(1));
        assert!(matches!(window.take(), Some(Pending::Command(1))));
        assert!(matches!(window.take(), Some(Pending::Command(2))));
        assert_eq!(window.numbers(), (first + 3, first + 3));
        window.release();
        assert_eq!(window.numbers(), (first + 3, first + 4));
    }

    #[test]
    fn a_full_window_is_closed() {
        let first = SerialNumber::new(7);
        let mut window = CommandWindow::new(first, 1);
        window.put(0, Pending::Command(1));
        assert!(window.take().is_some());
        assert_eq!(window.numbers(), (first + 1, first));
        assert_eq!(window.place(first + 1), None);
        window.release();
        assert_eq!(window.place(first + 1), Some(0));
    }
}
