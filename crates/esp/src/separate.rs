//! Encryption with integrity beside it: AES-CBC (RFC 3602), triple DES (RFC 2451) or nothing (RFC
//! 2410), with HMAC-SHA-256-128 (RFC 4868) or HMAC-SHA-1-96 (RFC 2404).
//!
//! The check value covers the header, the vector and the encrypted bytes (RFC 4303 2.8). It is
//! verified before anything is decrypted.

use std::fmt;

use aws_lc_rs::cipher::{
    AES_128, AES_256, Algorithm, DecryptingKey, DecryptionContext, EncryptingKey,
    EncryptionContext, UnboundCipherKey,
};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac;
use aws_lc_rs::iv::FixedLength;
use inet::{EspCipher, EspCipherError, EspHeader, EspShape};

use crate::iv::Random;

/// A block cipher in CBC mode, for both directions.
pub(crate) struct BlockCipher {
    encrypting: EncryptingKey,
    decrypting: DecryptingKey,
    /// Length of a block and of a vector, bytes.
    block: usize,
}

impl BlockCipher {
    /// `None` if the key's length is wrong, or if the library refuses it.
    pub(crate) fn aes(key: &[u8]) -> Option<Self> {
        let algorithm = match key.len() {
            16 => &AES_128,
            32 => &AES_256,
            _ => return None,
        };
        Self::new(algorithm, key, 16)
    }

    /// See [`aes`](Self::aes).
    pub(crate) fn triple_des(key: &[u8]) -> Option<Self> {
        #[expect(deprecated, reason = "it is here for comparison with it")]
        let algorithm = &aws_lc_rs::cipher::DES_EDE3_FOR_LEGACY_USE_ONLY;
        Self::new(algorithm, key, 8)
    }

    fn new(algorithm: &'static Algorithm, key: &[u8], block: usize) -> Option<Self> {
        let unbound = || UnboundCipherKey::new(algorithm, key).ok();
        let encrypting = EncryptingKey::cbc(unbound()?).ok()?;
        let decrypting = DecryptingKey::cbc(unbound()?).ok()?;
        Some(Self { encrypting, decrypting, block })
    }

    pub(crate) fn encrypt(&self, iv: &[u8], body: &mut [u8]) -> Option<()> {
        let context = match iv.len() {
            8 => EncryptionContext::Iv64(FixedLength::try_from(iv).ok()?),
            _ => EncryptionContext::Iv128(FixedLength::try_from(iv).ok()?),
        };
        self.encrypting.less_safe_encrypt(body, context).ok().map(|_| ())
    }

    pub(crate) fn decrypt(&self, iv: &[u8], body: &mut [u8]) -> Option<()> {
        let context = match iv.len() {
            8 => DecryptionContext::Iv64(FixedLength::try_from(iv).ok()?),
            _ => DecryptionContext::Iv128(FixedLength::try_from(iv).ok()?),
        };
        self.decrypting.decrypt(body, context).ok().map(|_| ())
    }
}

/// Encryption, if any, and integrity.
pub(crate) struct Separate {
    cipher: Option<BlockCipher>,
    integrity: hmac::Key,
    /// Length of the check value, bytes.
    icv: usize,
    vectors: Random,
}

impl fmt::Debug for Separate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Separate").finish_non_exhaustive()
    }
}

impl Separate {
    pub(crate) fn new(cipher: Option<BlockCipher>, integrity: hmac::Key, icv: usize) -> Self {
        Self { cipher, integrity, icv, vectors: Random::new() }
    }

    fn sum(&self, header: &EspHeader, iv: &[u8], body: &[u8]) -> hmac::Tag {
        let mut sum = hmac::Context::with_key(&self.integrity);
        [&header.wire()[..], iv, body].into_iter().for_each(|part| sum.update(part));
        if let Some(upper) = header.trailer() {
            sum.update(&upper);
        }
        sum.sign()
    }
}

impl EspCipher for Separate {
    fn shape(&self) -> EspShape {
        let block = self.cipher.as_ref().map(|cipher| cipher.block);
        EspShape { iv: block.unwrap_or(0), icv: self.icv, block: block.unwrap_or(4) }
    }

    fn seal(
        &mut self,
        header: &EspHeader,
        iv: &mut [u8],
        body: &mut [u8],
        icv: &mut [u8],
    ) -> Result<(), EspCipherError> {
        if let Some(cipher) = &self.cipher {
            self.vectors.fill(iv).ok_or(EspCipherError::Failed)?;
            cipher.encrypt(iv, body).ok_or(EspCipherError::Failed)?;
        }
        let sum = self.sum(header, iv, body);
        let sum = sum.as_ref().get(..icv.len()).ok_or(EspCipherError::Failed)?;
        icv.copy_from_slice(sum);
        Ok(())
    }

    fn open(
        &mut self,
        header: &EspHeader,
        iv: &[u8],
        body: &mut [u8],
        icv: &[u8],
    ) -> Result<(), EspCipherError> {
        let sum = self.sum(header, iv, body);
        let sum = sum.as_ref().get(..icv.len()).ok_or(EspCipherError::Failed)?;
        verify_slices_are_equal(sum, icv).map_err(|_| EspCipherError::BadCheckValue)?;
        match &self.cipher {
            Some(cipher) => cipher.decrypt(iv, body).ok_or(EspCipherError::Failed),
            None => Ok(()),
        }
    }
}
