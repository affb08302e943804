//! Writing to a stream.

use std::io::{self, IoSlice};

use bytes::Bytes;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};

/// Writes all pieces, without joining them.
///
/// # Errors
/// The stream's.
pub(crate) async fn write_pieces(
    writer: &mut (impl AsyncWrite + Unpin),
    pieces: &[Bytes],
) -> io::Result<()> {
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
