//! The two traits of every stack under measurement. [`Connect`] makes connections. [`Bulk`] moves
//! many bytes in the way that is best for the stack.

use std::io::{self, Read, Write};
use std::net::SocketAddr;

/// A stack that connections can be made on; they block and send without delay (no Nagle).
pub(crate) trait Connect {
    /// A connection; dropping it closes it.
    type Stream: Bulk;

    /// Makes one.
    fn connect(&mut self, to: SocketAddr) -> io::Result<Self::Stream>;
}

/// Most bytes that a server reads at once.
pub(crate) const MOST_READ: usize = 256 << 10;

/// A connection that bytes go over in bulk.
pub(crate) trait Bulk: Read + Write {
    /// Writes `total` bytes, `size` at a time.
    fn write_bulk(&mut self, size: usize, total: u64) -> io::Result<()> {
        let buffer = vec![0xa5; size];
        let mut left = total;
        while left > 0 {
            let now = share(left, size);
            self.write_all(&buffer[..now])?;
            left -= now as u64;
        }
        Ok(())
    }

    /// Reads `total` bytes, at most `size` at a time.
    fn read_bulk(&mut self, size: usize, total: u64) -> io::Result<()> {
        let mut buffer = vec![0; size];
        let mut left = total;
        while left > 0 {
            match self.read(&mut buffer[..share(left, size)])? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                now => left -= now as u64,
            }
        }
        Ok(())
    }
}

impl Bulk for std::net::TcpStream {}

/// The bytes of the next transfer.
pub(crate) fn share(left: u64, size: usize) -> usize {
    usize::try_from(left).map_or(size, |left| left.min(size))
}
