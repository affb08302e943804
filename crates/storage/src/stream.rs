//! A connection's protocol on a stream: the loops that both ends of iSCSI share.
//!
//! ```text
//!  stream ──▶ read ──▶ handle_bytes ──▶ events (the owner's)
//!  stream ◀── write ◀─ poll_transmit ◀─ output: there is something to send
//! ```

use std::io::{self, IoSlice};

use bytes::{Bytes, BytesMut};
use iscsi::Transmit;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::Notify;

/// Bytes that are read from the stream at a time.
const INPUT: usize = 256 << 10;
/// Bytes that are handed to the stream at a time.
const OUTPUT: usize = 256 << 10;
/// Pieces that are handed to the stream at a time.
const PIECES: usize = 64;

/// Tells the two loops of each other.
#[derive(Debug, Default)]
pub(crate) struct StreamSignals {
    /// There is output, or the connection is over.
    pub(crate) output: Notify,
    /// Output has left.
    drained: Notify,
}

/// A connection's protocol.
pub(crate) trait StreamProtocol {
    /// The signals of this connection.
    fn signals(&self) -> &StreamSignals;

    /// Takes bytes from the front, and handles what they mean. It leaves bytes there while the
    /// connection has too much output.
    fn handle_bytes(&self, input: &mut Bytes);

    /// The next PDU to be sent.
    fn poll_transmit(&self) -> Option<Transmit>;

    /// Is the connection over but for its output?
    fn is_over(&self) -> bool;
}

/// Serves the stream until it or the connection is over, or `until` is. A connection that is over
/// ends when all of its output has left.
///
/// # Errors
/// The stream's.
pub(crate) async fn run(
    protocol: &impl StreamProtocol,
    stream: impl AsyncRead + AsyncWrite,
    until: impl Future<Output = ()>,
) -> io::Result<()> {
    let (reader, writer) = tokio::io::split(stream);
    let reading = async {
        let ended = read(protocol, reader).await;
        if protocol.is_over() {
            // The writer ends it.
            std::future::pending::<()>().await;
        }
        ended
    };
    tokio::select! {
        ended = reading => ended,
        ended = write(protocol, writer) => ended,
        () = until => Ok(()),
    }
}

/// Reads until the stream or the connection is over.
async fn read(
    protocol: &impl StreamProtocol,
    mut reader: impl AsyncRead + Unpin,
) -> io::Result<()> {
    while !protocol.is_over() {
        let mut buffer = BytesMut::with_capacity(INPUT);
        if reader.read_buf(&mut buffer).await? == 0 {
            return Ok(());
        }
        let mut input = buffer.freeze();
        loop {
            let left = input.len();
            protocol.handle_bytes(&mut input);
            protocol.signals().output.notify_one();
            if input.is_empty() {
                break;
            }
            if input.len() == left {
                protocol.signals().drained.notified().await;
            }
        }
    }
    Ok(())
}

/// Writes until the connection is over and all of its output has left.
async fn write(
    protocol: &impl StreamProtocol,
    mut writer: impl AsyncWrite + Unpin,
) -> io::Result<()> {
    loop {
        let mut pieces = Vec::new();
        let mut len = 0;
        while len < OUTPUT && pieces.len() < PIECES {
            let Some(pdu) = protocol.poll_transmit() else { break };
            len += pdu.wire_len();
            pieces.extend(Transmit::into_pieces(pdu));
        }
        if !pieces.is_empty() {
            write_pieces(&mut writer, &pieces).await?;
            protocol.signals().drained.notify_one();
        } else if protocol.is_over() {
            return writer.shutdown().await;
        } else {
            protocol.signals().output.notified().await;
        }
    }
}

/// Writes all pieces, without joining them.
async fn write_pieces(writer: &mut (impl AsyncWrite + Unpin), pieces: &[Bytes]) -> io::Result<()> {
    let mut slices: Vec<IoSlice<'_>> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
    let mut rest = &mut slices[..];
    while !rest.is_empty() {
        let written = writer.write_vectored(rest).await?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        IoSlice::advance_slices(&mut rest, written);
    }
    writer.flush().await
}
