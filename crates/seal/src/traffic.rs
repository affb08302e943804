//! The key schedule: from the exporter's output to the keys of each direction and epoch.
//!
//! ```text
//!   exporter's output ─┬─ "c to s" ─▶ secret 0 ─ "next" ─▶ secret 1 ─ "next" ─▶ …
//!                      │                 ├─ "key" ─▶ key 0    ├─ "key" ─▶ key 1
//!                      │                 └─ "iv" ──▶ iv 0     └─ "iv" ──▶ iv 1
//!                      └─ "s to c" ─▶ …
//! ```
//!
//! Each arrow is HKDF-Expand-Label (RFC 8446 7.1) with a prefix of our own. A secret is forgotten
//! when the next one is made, so a key that leaks later opens nothing that was sent before.

use core::fmt;

use aws_lc_rs::aead::{Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::hkdf::{KeyType, Prk};
use zeroize::Zeroizing;

use crate::suite::{KEY_LEN, NONCE_LEN, Suite, TAG_LEN};

/// In front of each label; TLS has "tls13 " there.
const PREFIX: &[u8] = b"seal1 ";

/// A direction of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Direction {
    ClientToServer,
    ServerToClient,
}

/// The length of an expansion, as the library wants it.
struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

/// A secret of the suite's hash length.
pub(crate) struct Secret {
    suite: Suite,
    /// On the heap: a move of the secret leaves no copy behind.
    bytes: Zeroizing<Vec<u8>>,
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret").field("suite", &self.suite).finish_non_exhaustive()
    }
}

impl Secret {
    /// The exporter's output: `suite.hash_len()` bytes, which `fill` writes.
    ///
    /// # Errors
    /// Those of `fill`.
    pub(crate) fn exported<E>(
        suite: Suite,
        fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<Self, E> {
        let mut bytes = Zeroizing::new(vec![0; suite.hash_len()]);
        fill(&mut bytes)?;
        Ok(Self { suite, bytes })
    }

    /// The suite that the secret belongs to.
    pub(crate) fn suite(&self) -> Suite {
        self.suite
    }

    /// HKDF-Expand-Label with an empty context (RFC 8446 7.1).
    fn expand(&self, label: &[u8], out: &mut [u8]) -> Result<(), Unspecified> {
        let prk = Prk::new_less_safe(self.suite.hkdf(), &self.bytes);
        // Labels and hashes are short constants.
        let length = (out.len() as u16).to_be_bytes();
        let label_len = [(PREFIX.len() + label.len()) as u8];
        let info = [&length[..], &label_len, PREFIX, label, &[0]];
        prk.expand(&info, Length(out.len()))?.fill(out)
    }

    fn derive(&self, label: &[u8]) -> Result<Self, Unspecified> {
        Self::exported(self.suite, |out| self.expand(label, out))
    }

    /// The first secret of a direction.
    pub(crate) fn of_direction(&self, direction: Direction) -> Result<Self, Unspecified> {
        self.derive(match direction {
            Direction::ClientToServer => b"c to s",
            Direction::ServerToClient => b"s to c",
        })
    }

    /// The secret of the next epoch. It replaces this one, whose bytes are overwritten.
    pub(crate) fn step(&mut self) -> Result<(), Unspecified> {
        *self = self.derive(b"next")?;
        Ok(())
    }

    /// The key and the fixed part of the nonces.
    pub(crate) fn key(&self) -> Result<RecordKey, Unspecified> {
        let mut key = Zeroizing::new([0; KEY_LEN]);
        let mut iv = Zeroizing::new([0; NONCE_LEN]);
        self.expand(b"key", &mut *key)?;
        self.expand(b"iv", &mut *iv)?;
        let key = LessSafeKey::new(UnboundKey::new(self.suite.aead(), &*key)?);
        Ok(RecordKey { key, iv })
    }
}

/// A key of one direction and epoch.
pub(crate) struct RecordKey {
    /// The library overwrites its memory when it drops it.
    key: LessSafeKey,
    iv: Zeroizing<[u8; NONCE_LEN]>,
}

impl fmt::Debug for RecordKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordKey").finish_non_exhaustive()
    }
}

impl RecordKey {
    /// The nonce of a record: the fixed part, its last eight bytes xor the number (RFC 8446 5.3).
    fn nonce(&self, number: u64) -> Nonce {
        let mut nonce = *self.iv;
        for (byte, part) in nonce[NONCE_LEN - 8..].iter_mut().zip(number.to_be_bytes()) {
            *byte ^= part;
        }
        Nonce::assume_unique_for_key(nonce)
    }

    /// Seals `content` in place and `padding` into `tail`, which the tag ends.
    ///
    /// # Errors
    /// `tail` is not as long as `padding` and the tag.
    pub(crate) fn seal(
        &self,
        number: u64,
        header: &[u8],
        content: &mut [u8],
        padding: &[u8],
        tail: &mut [u8],
    ) -> Result<(), Unspecified> {
        let aad = Aad::from(header);
        self.key.seal_in_place_scatter(self.nonce(number), aad, content, padding, tail)
    }

    /// Seals `content` into `sealed`, which is as long, and `padding` as [`Self::seal`] does.
    ///
    /// # Errors
    /// `sealed` is not as long as `content`, or as those of [`Self::seal`].
    pub(crate) fn seal_into(
        &self,
        number: u64,
        header: &[u8],
        content: &[u8],
        sealed: &mut [u8],
        padding: &[u8],
        tail: &mut [u8],
    ) -> Result<(), Unspecified> {
        let (nonce, aad) = (self.nonce(number), Aad::from(header));
        self.key.seal_out_of_place_scatter(nonce, aad, content, sealed, padding, tail)
    }

    /// Opens `body`, which the tag ends, in place.
    ///
    /// # Errors
    /// The tag does not fit. The bytes of `body` are then overwritten.
    pub(crate) fn open<'a>(
        &self,
        number: u64,
        header: &[u8],
        body: &'a mut [u8],
    ) -> Result<&'a mut [u8], Unspecified> {
        let len = body.len().checked_sub(TAG_LEN).ok_or(Unspecified)?;
        let (sealed, tag) = body.split_at_mut(len);
        let aad = Aad::from(header);
        let nonce = self.nonce(number);
        match self.key.open_in_place_separate_tag(nonce, aad, tag, sealed) {
            Ok(_) => Ok(sealed),
            Err(error) => {
                sealed.fill(0);
                Err(error)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Secret {
        /// The secret, its key and its iv, for the test vectors.
        pub(crate) fn reveal(&self) -> (Vec<u8>, Vec<u8>, Vec<u8>) {
            let (mut key, mut iv) = (vec![0; KEY_LEN], vec![0; NONCE_LEN]);
            self.expand(b"key", &mut key).unwrap();
            self.expand(b"iv", &mut iv).unwrap();
            (self.bytes.to_vec(), key, iv)
        }
    }

    impl RecordKey {
        /// The nonce of record `number`, for the test vectors.
        pub(crate) fn revealed_nonce(&self, number: u64) -> Vec<u8> {
            self.nonce(number).as_ref().to_vec()
        }
    }

    #[test]
    fn secrets_print_nothing() {
        let secret = Secret::exported(Suite::Aes256Gcm, |out| {
            out.fill(0xab);
            Ok::<_, ()>(())
        });
        let secret = secret.unwrap();
        assert_eq!(format!("{secret:?}"), "Secret { suite: Aes256Gcm, .. }");
        assert_eq!(format!("{:?}", secret.key().unwrap()), "RecordKey { .. }");
    }

    /// Directions and epochs have secrets, keys and ivs of their own.
    #[test]
    fn no_two_secrets_are_equal() {
        let exported = Secret::exported(Suite::ChaCha20Poly1305, |_| Ok::<_, ()>(())).unwrap();
        let mut seen = std::collections::HashSet::new();
        for direction in [Direction::ClientToServer, Direction::ServerToClient] {
            let mut secret = exported.of_direction(direction).unwrap();
            for _ in 0..100 {
                let (bytes, key, iv) = secret.reveal();
                assert!(seen.insert(bytes) && seen.insert(key) && seen.insert(iv));
                secret.step().unwrap();
            }
        }
    }
}
