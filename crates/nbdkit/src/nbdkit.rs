//! The functions of nbdkit that this library calls.

#[cfg(test)]
mod fake;
#[cfg(not(test))]
mod symbols;

#[cfg(test)]
pub(crate) use self::fake::{
    add_extent, debug, error, is_input_free, is_over, set_error, shut_down, told,
};
#[cfg(not(test))]
pub(crate) use self::symbols::{
    add_extent, debug, error, is_input_free, is_over, set_error, shut_down,
};

/// `NBDKIT_EXTENT_HOLE | NBDKIT_EXTENT_ZERO`: no storage, reads as zeroes.
pub(crate) const HOLE: u32 = 3;
