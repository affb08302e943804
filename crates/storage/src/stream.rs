//! A connection's protocol on a stream: the loops that both ends of iSCSI share.
//!
//! ```text
//!  stream ──▶ read ──▶ handle_bytes ──▶ events (the owner's)
//!  stream ◀── write ◀─ poll_transmit ◀─ output: there is something to send
//! ```

use std::io;
use std::time::Duration;

use bytes::Bytes;
use iscsi::Transmit;
use tokio::sync::Notify;

use crate::transport::{Reader, Writer};

/// Bytes that are handed to the stream at a time.
const OUTPUT: usize = 256 << 10;
/// Pieces that are handed to the stream at a time.
const PIECES: usize = 64;
/// How long it may take to tell the peer why the stream ends.
const LAST_WORD: Duration = Duration::from_secs(1);

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

/// Do these first bytes of a stream begin TLS, or sealed, which begins so as well? An alert or a
/// handshake (RFC 8446 5.1). No PDU of a login begins so.
pub(crate) fn begins_tls(bytes: &[u8]) -> bool {
    matches!(bytes, [0x15 | 0x16, 3, ..])
}

/// Serves the stream until it or the connection is over, or `until` is. A connection that is over
/// ends when all of its output has left.
///
/// # Errors
/// The stream's.
pub(crate) async fn run(
    protocol: &impl StreamProtocol,
    mut reader: Reader,
    mut writer: Writer,
    until: impl Future<Output = ()>,
) -> io::Result<()> {
    let reading = async {
        let ended = read(protocol, &mut reader).await;
        if protocol.is_over() {
            // The writer ends it.
            std::future::pending::<()>().await;
        }
        ended
    };
    let ended = tokio::select! {
        ended = reading => ended,
        ended = write(protocol, &mut writer) => ended,
        () = until => Ok(()),
    };
    if let Err(error) = &ended {
        let _ = tokio::time::timeout(LAST_WORD, writer.give_up(error)).await;
    }
    ended
}

/// Reads until the stream or the connection is over.
async fn read(protocol: &impl StreamProtocol, reader: &mut Reader) -> io::Result<()> {
    while !protocol.is_over() {
        let Some(mut input) = reader.read().await? else { return Ok(()) };
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
async fn write(protocol: &impl StreamProtocol, writer: &mut Writer) -> io::Result<()> {
    loop {
        let mut pieces = Vec::new();
        let mut len = 0;
        while len < OUTPUT && pieces.len() < PIECES {
            let Some(pdu) = protocol.poll_transmit() else { break };
            len += pdu.wire_len();
            pieces.extend(Transmit::into_pieces(pdu));
        }
        if !pieces.is_empty() {
            writer.write(pieces).await?;
            protocol.signals().drained.notify_one();
        } else if protocol.is_over() {
            return writer.finish().await;
        } else {
            writer.send_own().await?;
            protocol.signals().output.notified().await;
        }
    }
}
