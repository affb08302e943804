//! Disks: units of targets, by the options of a user.

mod access;
mod encryption;
mod identity;
mod passphrase;
mod place;

pub use self::access::DiskAccess;
pub use self::encryption::{Encryption, encryption_failure};
pub use self::passphrase::Secret;
pub use self::place::{DiskPlace, on_instance, unit_of};
