//! Values of options that are longer than a call. Their parts come before the call that is about
//! the option, in calls of their own.

use std::collections::VecDeque;

use abi::option::LONG_MOST;
use abi::{Errno, SocketId};

/// Most values of one client. One more takes the place of the oldest, whose option then fails.
const MOST: usize = 8;

/// The values of one client.
#[derive(Debug, Default)]
pub(crate) struct LongValues(VecDeque<(SocketId, Vec<u8>)>);

impl LongValues {
    /// Adds a part. The first part, at 0, begins a new value of that socket.
    ///
    /// # Errors
    /// EINVAL for a part that does not follow the one before it, or is too much.
    pub(crate) fn add(&mut self, socket: SocketId, at: usize, part: &[u8]) -> Result<(), Errno> {
        if at == 0 {
            self.0.retain(|(other, _)| *other != socket);
            if self.0.len() >= MOST {
                self.0.pop_front();
            }
            self.0.push_back((socket, Vec::new()));
        }
        let found = self.0.iter_mut().find(|(other, _)| *other == socket);
        let (_, bytes) = found.ok_or(Errno::INVAL)?;
        if bytes.len() != at || at + part.len() > LONG_MOST {
            return Err(Errno::INVAL);
        }
        bytes.extend_from_slice(part);
        Ok(())
    }

    /// The value for a socket; nothing if there is none.
    pub(crate) fn of(&self, socket: SocketId) -> &[u8] {
        let found = self.0.iter().find(|(other, _)| *other == socket);
        found.map_or(&[], |(_, bytes)| bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_joined_and_bounded() {
        let id = |index| SocketId { index, generation: 1 };
        let mut values = LongValues::default();
        assert_eq!(values.add(id(1), 24, &[1]), Err(Errno::INVAL), "without a beginning");
        values.add(id(1), 0, &[1; 24]).unwrap();
        values.add(id(1), 24, &[2; 3]).unwrap();
        assert_eq!(values.of(id(1)), [[1; 24].as_slice(), &[2; 3]].concat());
        assert_eq!(values.add(id(1), 24, &[3]), Err(Errno::INVAL), "once more");
        values.add(id(1), 0, &[4]).unwrap();
        assert_eq!(values.of(id(1)), [4]);
        (2..=9).for_each(|index| values.add(id(index), 0, &[5]).unwrap());
        assert!(values.of(id(1)).is_empty(), "the oldest gave way");
        let parts = (0..LONG_MOST / 8).map(|n| values.add(id(2), 8 * n, &[0; 8]));
        assert!(parts.last().unwrap().is_ok());
        assert_eq!(values.add(id(2), LONG_MOST, &[0]), Err(Errno::INVAL));
    }
}
