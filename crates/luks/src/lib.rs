//! LUKS: disks whose sectors only their user can read.
//!
//! The header and its key slots are libcryptsetup's, which is loaded when it is first needed. The
//! sectors are ciphered here, by AWS-LC. The storage is somebody else's: bytes of the header go in
//! and come out, so it may lie on the unit of a target that never sees a key.
//!
//! # How a header is opened
//!
//! 1. The caller reads [`HEAD_LEN`] bytes of the storage. [`head_len`] says whether it takes more.
//! 2. [`LuksHeader::load`] reads them. [`LuksHeader::areas`] says where the key slots are.
//! 3. The caller reads these, and puts them into the header ([`LuksHeader::put`]).
//! 4. [`LuksHeader::unlock`] finds the key, and gives the [`LuksVolume`].
//!
//! [`format()`] makes a new header. The caller writes it to the storage.
//!
//! Passphrases and keys are in this process's memory only, and overwritten before it is given back.
//!
//! ```text layers
//! header: headers, opened and made
//! cryptsetup: libcryptsetup's functions
//! sector: the cipher of the sectors
//! error secret: what is wrong; passphrases
//! ```

mod cryptsetup;
mod error;
mod header;
mod secret;
mod sector;

pub use error::LuksError;
pub use header::{
    DerivationCost, FormatOptions, HEAD_LEN, KeyDerivation, LuksHeader, LuksVersion, LuksVolume,
    format, head_len,
};
pub use secret::Passphrase;
pub use sector::{KEY_LEN, SectorCipher, SectorSize};
