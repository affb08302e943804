//! The protocol between client and server: a 16-byte order, then the measured bytes.

use std::io::{self, Read, Write};

/// The kind of measurement.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    clap::ValueEnum,
    serde::Serialize,
    serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Test {
    /// The client writes, the server reads all and answers 4 bytes.
    Send,
    /// The server writes, the client reads all.
    Receive,
    /// The client writes `size` bytes, the server answers 4 when it has all: with how many reads.
    Rtt,
    /// Connect, one request of `size` bytes answered by 4, close.
    Connect,
    /// Round trips of one connection by two processes in turn. For the server it is as `Rtt`.
    Turns,
    /// The client writes for `total` milliseconds; the server answers 8 bytes: how many bytes came
    /// in that time.
    Goodput,
}

/// The client's order on a new connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Order {
    /// The measurement.
    pub(crate) test: Test,
    /// Milliseconds that the server pauses after each write ([`Test::Receive`]).
    pub(crate) pause: u8,
    /// Bytes per write or request.
    pub(crate) size: u32,
    /// Bytes in all; round trips for [`Test::Rtt`], milliseconds for [`Test::Goodput`].
    pub(crate) total: u64,
}

impl Order {
    /// Write the order.
    ///
    /// # Errors
    /// The stream's.
    pub(crate) fn write(&self, stream: &mut impl Write) -> io::Result<()> {
        let mut bytes = [0; 16];
        bytes[0] = self.test as u8;
        bytes[1] = self.pause;
        bytes[4..8].copy_from_slice(&self.size.to_le_bytes());
        bytes[8..].copy_from_slice(&self.total.to_le_bytes());
        stream.write_all(&bytes)
    }

    /// Read an order; sizes above 64 MiB are refused.
    ///
    /// # Errors
    /// The stream's, or `InvalidData`.
    pub(crate) fn read(stream: &mut impl Read) -> io::Result<Self> {
        let mut bytes = [0; 16];
        stream.read_exact(&mut bytes)?;
        let test = match bytes[0] {
            0 => Test::Send,
            1 => Test::Receive,
            2 => Test::Rtt,
            3 => Test::Connect,
            4 => Test::Turns,
            5 => Test::Goodput,
            _ => return Err(io::ErrorKind::InvalidData.into()),
        };
        let [_, _, _, _, size @ .., _, _, _, _, _, _, _, _] = bytes;
        let [_, _, _, _, _, _, _, _, total @ ..] = bytes;
        let size = u32::from_le_bytes(size);
        if size == 0 || size > 64 << 20 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(Self { test, pause: bytes[1], size, total: u64::from_le_bytes(total) })
    }
}

/// How many operations come before so many that count.
pub(crate) fn warm_up_of(count: u32) -> u32 {
    count / 10
}
