//! Bytes in bulk, as each API moves them best. An API with `Read` and `Write` alone uses one
//! buffer, which is written or read again and again. Tasuki's native API uses areas.
//!
//! No program touches the bytes. The stack has copied them for the program on `std::net`; the
//! native program only gets their place. Areas that are sent are used again as soon as they are
//! back. They are not written anew, as the buffer of the other program is not.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;

use sockets::{Errno, MOST_SLICES, SendFlags, Socket, TxArea, TxSlice, Wait};

use crate::transport::{Bulk, Connect, TransferUnit, share};

/// Tasuki's native API.
pub(crate) struct Native;

impl Connect for Native {
    type Stream = sockets::TcpStream;

    fn connect(&mut self, to: SocketAddr) -> io::Result<sockets::TcpStream> {
        let stream = sockets::TcpStream::connect(to)?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

impl Bulk for sockets::TcpStream {
    fn write_bulk(&mut self, unit: TransferUnit, total: u64) -> io::Result<()> {
        let socket = self.as_socket();
        let mut flight = Flight(VecDeque::new());
        let mut left = total;
        let mut slices = Vec::new();
        while left > 0 {
            for _ in 0..unit.pieces {
                let now = share(left, unit.bytes);
                if now == 0 {
                    break;
                }
                let whole = flight.next_area(socket, unit.bytes)?.freeze();
                slices.push(whole.slice(..now).ok_or(io::ErrorKind::InvalidInput)?);
                left -= now as u64;
            }
            flight.send(socket, &mut slices)?;
        }
        Ok(())
    }

    /// Areas have the length that the instance gives them.
    fn read_bulk(&mut self, _: TransferUnit, total: u64) -> io::Result<()> {
        let mut left = total;
        while left > 0 {
            match self.as_socket().recv_area(Wait::Forever)?.len() {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                now => left = left.saturating_sub(now as u64),
            }
        }
        Ok(())
    }
}

/// Areas that were sent, oldest first, each with the number of its slice.
struct Flight(VecDeque<(u64, TxSlice)>);

impl Flight {
    /// Sends them together, as far as one call takes them.
    fn send(&mut self, socket: &Socket, slices: &mut Vec<TxSlice>) -> io::Result<()> {
        let calls = slices.len().div_ceil(MOST_SLICES);
        for (at, some) in slices.chunks(MOST_SLICES).enumerate() {
            let flags = SendFlags { more: at + 1 < calls, ..SendFlags::default() };
            let numbers = socket.send_slices(some, flags, None, Wait::Forever)?;
            self.0.extend(numbers.zip(some.iter().cloned()));
        }
        slices.clear();
        Ok(())
    }

    /// The oldest if it is back, else a new one, else the oldest when it comes back.
    fn next_area(&mut self, socket: &Socket, size: usize) -> io::Result<TxArea> {
        let done = socket.slices_done()?;
        if self.0.front().is_none_or(|(number, _)| *number >= done) {
            match sockets::instance().map_err(io::Error::other)?.alloc(size) {
                Err(Errno::NOBUFS) if !self.0.is_empty() => {}
                area => return Ok(area?),
            }
        }
        let (number, slice) = self.0.pop_front().ok_or(Errno::NOBUFS)?;
        socket.wait_slice(number, Wait::Forever)?;
        slice.reclaim().map_err(|_| io::Error::other("somebody else holds a slice of the area"))
    }
}
