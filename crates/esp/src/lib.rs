//! The ciphers of ESP, for the inet server.
//!
//! [`make()`] turns the algorithms of a security association, named as in `ip xfrm`, into an
//! [`EspCipher`]. All cryptography is aws-lc's.
//!
//! | name | what |
//! |---|---|
//! | `rfc4106(gcm(aes))` | AES-GCM (RFC 4106) |
//! | `rfc7539esp(chacha20,poly1305)` | ChaCha20-Poly1305 (RFC 7634) |
//! | `cbc(aes)` with `hmac(sha256)` | RFC 3602, RFC 4868 |
//! | `cbc(des3_ede)`, `cipher_null`, `hmac(sha1)` | RFC 2451, 2410, 2404; only if asked for |
//!
//! ```text layers
//! make: algorithms by their names
//! combined separate: ciphers with integrity; ciphers beside it
//! iv: initialization vectors
//! error: why there is no such cipher
//! ```
//!
//! [`EspCipher`]: inet::EspCipher
#![forbid(unsafe_code)]

mod combined;
mod error;
mod iv;
mod make;
mod separate;
#[cfg(test)]
mod tests;

pub use error::CipherRefusal;
pub use make::{cipher, counted_key, make};
