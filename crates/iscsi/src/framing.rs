//! PDUs out of a stream of bytes, and back (RFC 7143 11.1, 11.2).
//!
//! A [`Decoder`] takes pieces of a stream. It bounds what it keeps: a header, and a payload up to
//! MaxRecvDataSegmentLength. A payload that lies in one piece is not copied, unless it is less than
//! an eighth of the piece. So a small payload never keeps a large piece alive, and memory that
//! payloads keep is at most eight times their length.
//!
//! Payloads of data may come in parts instead, before they are complete: an initiator puts them
//! where they belong without keeping or copying them before.

mod decoder;
mod encoder;
mod payload_parts;

pub use decoder::{Decoded, Decoder, RawPdu};
pub use encoder::encode;

#[cfg(test)]
mod tests;
