//! The two traits of every stack under measurement. [`Connect`] makes connections. [`Bulk`] moves
//! many bytes in the way that is best for the stack, so many at a time as a [`TransferUnit`] says.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::SocketAddr;

/// A stack that connections can be made on; they block and send without delay (no Nagle).
pub(crate) trait Connect {
    /// A connection; dropping it closes it.
    type Stream: Bulk;

    /// Makes one.
    fn connect(&mut self, to: SocketAddr) -> io::Result<Self::Stream>;
}

/// The bytes that one request moves: some pieces of one length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TransferUnit {
    /// Bytes of a piece, 1 at least.
    pub(crate) bytes: usize,
    /// Pieces, 1 at least: areas of the native API, parts of writev(2) and readv(2).
    pub(crate) pieces: usize,
}

impl TransferUnit {
    /// One piece.
    pub(crate) fn whole(bytes: usize) -> Self {
        Self { bytes, pieces: 1 }
    }

    /// Bytes of a request.
    pub(crate) fn all(self) -> usize {
        self.bytes * self.pieces
    }
}

/// Most bytes that a server reads at once.
pub(crate) const MOST_READ: usize = 256 << 10;

/// A connection that bytes go over in bulk.
pub(crate) trait Bulk: Read + Write {
    /// Writes `total` bytes, a unit at a time.
    fn write_bulk(&mut self, unit: TransferUnit, total: u64) -> io::Result<()> {
        let buffer = vec![0xa5; unit.all()];
        let mut left = total;
        while left > 0 {
            let now = &buffer[..share(left, unit.all())];
            match unit.pieces {
                1 => self.write_all(now)?,
                _ => write_pieces(self, now, unit.bytes)?,
            }
            left -= now.len() as u64;
        }
        Ok(())
    }

    /// Reads `total` bytes, at most a unit at a time.
    fn read_bulk(&mut self, unit: TransferUnit, total: u64) -> io::Result<()> {
        let mut buffer = vec![0; unit.all()];
        let mut left = total;
        while left > 0 {
            let room = &mut buffer[..share(left, unit.all())];
            let now = match unit.pieces {
                1 => self.read(room),
                _ => {
                    let mut pieces: Vec<IoSliceMut<'_>> =
                        room.chunks_mut(unit.bytes).map(IoSliceMut::new).collect();
                    self.read_vectored(&mut pieces)
                }
            };
            match now? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                now => left -= now as u64,
            }
        }
        Ok(())
    }
}

impl Bulk for std::net::TcpStream {}

/// By as many writev(2) as it takes.
fn write_pieces(to: &mut (impl Write + ?Sized), bytes: &[u8], each: usize) -> io::Result<()> {
    let mut pieces: Vec<IoSlice<'_>> = bytes.chunks(each).map(IoSlice::new).collect();
    let mut left = &mut pieces[..];
    while !left.is_empty() {
        match to.write_vectored(left)? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            written => IoSlice::advance_slices(&mut left, written),
        }
    }
    Ok(())
}

/// The bytes of the next transfer.
pub(crate) fn share(left: u64, size: usize) -> usize {
    usize::try_from(left).map_or(size, |left| left.min(size))
}
