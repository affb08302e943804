//! Negotiation of the operational keys (RFC 7143 6.2, 13).
//!
//! [`KeyNegotiation`] serves both ends. An acceptor answers an offer by the key's result function.
//! An originator writes its offers, and takes answers that the result function allows.

mod negotiation;
mod rules;

pub(crate) use negotiation::KeyNegotiation;

#[cfg(test)]
mod tests;
