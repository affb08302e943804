//! What the disk survives.
