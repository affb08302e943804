//! Observation of the server: counters, and a trace of where the time goes.

pub(crate) mod counters;
pub(crate) mod trace;
