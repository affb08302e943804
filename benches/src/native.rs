//! Bytes in bulk, as each API moves them best. An API with `Read` and `Write` alone uses one
//! buffer, which is written or read again and again. Tasuki's native API uses areas.
//!
//! No program touches the bytes. The stack has copied them for the program on `std::net`; the
//! native program only gets their place. Areas that are sent are used again as soon as they are
//! back. They are not written anew, as the buffer of the other program is not.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;

use sockets::{Errno, SendFlags, Socket, TxArea, TxSlice, Wait};

use crate::transport::{Bulk, Connect, share};

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
    fn write_bulk(&mut self, size: usize, total: u64) -> io::Result<()> {
        let socket = self.as_socket();
        let mut flight = Flight(VecDeque::new());
        let mut left = total;
        while left > 0 {
            let now = share(left, size);
            let whole = flight.next_area(socket, size)?.freeze();
            let slice = whole.slice(..now).ok_or(io::ErrorKind::InvalidInput)?;
            drop(whole);
            let slices = std::slice::from_ref(&slice);
            let numbers = socket.send_slices(slices, SendFlags::default(), None, Wait::Forever)?;
            flight.0.push_back((numbers.start, slice));
            left -= now as u64;
        }
        Ok(())
    }

    fn read_bulk(&mut self, _: usize, total: u64) -> io::Result<()> {
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
