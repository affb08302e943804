//! Text of logins and Text PDUs: `key=value` pairs (RFC 7143 6.1, 6.2, 11.10.5).
//!
//! A text of several PDUs is put together first, up to 16,384 bytes and 64 pairs.

mod assembler;
mod pairs;
mod value;

pub(crate) use assembler::TextAssembler;
pub(crate) use pairs::{TextWriter, parse, parse_up_to};
pub(crate) use value::{binary, boolean, hex, number};

#[cfg(test)]
mod tests;
