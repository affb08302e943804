//! Programs on the disk.
