//! What the server tells about itself: counters, and where the time goes.

pub(crate) mod counters;
pub(crate) mod trace;
