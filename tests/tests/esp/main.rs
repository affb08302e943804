//! ESP between two instances: every algorithm and mode, both families, `tasuki xfrm` and the
//! configuration, captures that tshark decrypts, wrong keys, plaintext, replays, lifetimes, and a
//! router that shortens packets.
//!
//! ```text layers
//! transfers captures refusals limits vectors words: the tests
//! pair: two instances, and what they protect
//! ```

mod captures;
mod limits;
mod pair;
mod refusals;
mod transfers;
mod vectors;
mod words;
