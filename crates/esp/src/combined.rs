//! Ciphers with integrity: AES-GCM (RFC 4106) and ChaCha20-Poly1305 (RFC 7634).
//!
//! Both have a nonce of 12 bytes: the last four bytes of the key, and the vector of the packet.

use std::fmt;

use aws_lc_rs::aead::{Aad, Algorithm, LessSafeKey, Nonce, UnboundKey};
use inet::{EspCipher, EspCipherError, EspHeader, EspShape};

use crate::iv::Counted;

/// Bytes of the key that are a part of the nonce.
pub(crate) const SALT: usize = 4;
const IV: usize = 8;
const ICV: usize = 16;

/// One key.
pub(crate) struct Combined {
    key: LessSafeKey,
    salt: [u8; SALT],
    vectors: Counted,
}

impl fmt::Debug for Combined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Combined").finish_non_exhaustive()
    }
}

impl Combined {
    /// A cipher with `key`, whose last bytes are the salt. `None` if its length is wrong.
    pub(crate) fn new(algorithm: &'static Algorithm, key: &[u8], vectors: Counted) -> Option<Self> {
        let (key, salt) = key.split_last_chunk::<SALT>()?;
        let key = LessSafeKey::new(UnboundKey::new(algorithm, key).ok()?);
        Some(Self { key, salt: *salt, vectors })
    }

    fn nonce(&self, iv: &[u8]) -> Option<Nonce> {
        let [a, b, c, d] = self.salt;
        let &[e, f, g, h, i, j, k, l] = iv.first_chunk::<IV>()?;
        Some(Nonce::assume_unique_for_key([a, b, c, d, e, f, g, h, i, j, k, l]))
    }
}

/// The additional data of a packet.
fn additional(header: &EspHeader) -> Aad<impl AsRef<[u8]>> {
    struct Part([u8; 12], usize);
    impl AsRef<[u8]> for Part {
        fn as_ref(&self) -> &[u8] {
            self.0.get(..self.1).unwrap_or(&self.0)
        }
    }
    let (bytes, len) = header.additional();
    Aad::from(Part(bytes, len))
}

impl EspCipher for Combined {
    fn shape(&self) -> EspShape {
        EspShape { iv: IV, icv: ICV, block: 4 }
    }

    fn seal(
        &mut self,
        header: &EspHeader,
        iv: &mut [u8],
        body: &mut [u8],
        icv: &mut [u8],
    ) -> Result<(), EspCipherError> {
        let vector = self.vectors.next().ok_or(EspCipherError::Exhausted)?;
        iv.copy_from_slice(&vector);
        let nonce = self.nonce(iv).ok_or(EspCipherError::Failed)?;
        let tag = self.key.seal_in_place_separate_tag(nonce, additional(header), body);
        icv.copy_from_slice(tag.map_err(|_| EspCipherError::Failed)?.as_ref());
        Ok(())
    }

    fn open(
        &mut self,
        header: &EspHeader,
        iv: &[u8],
        body: &mut [u8],
        icv: &[u8],
    ) -> Result<(), EspCipherError> {
        let nonce = self.nonce(iv).ok_or(EspCipherError::Failed)?;
        let opened = self.key.open_in_place_separate_tag(nonce, additional(header), icv, body);
        opened.map(|_| ()).map_err(|_| EspCipherError::BadCheckValue)
    }
}
