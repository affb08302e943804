//! The cipher of the sectors: AES-256 in mode XTS (IEEE 1619), with the tweaks of dm-crypt's
//! `plain64`.
//!
//! A tweak is the number of a sector, counted in 512 bytes from the begin of the data, whatever the
//! size of a sector is. AWS-LC has the mode; its Rust interface lacks it, so its functions are
//! called here.
#![allow(unsafe_code)]

#[cfg(test)]
mod tests;

use std::ffi::c_int;
use std::ptr::{NonNull, null, null_mut};

use aws_lc_sys::{
    EVP_CIPHER_CTX, EVP_CIPHER_CTX_free, EVP_CIPHER_CTX_new, EVP_CipherInit_ex, EVP_CipherUpdate,
    EVP_aes_256_xts,
};

/// Bytes of a key: two of AES-256.
pub const KEY_LEN: usize = 64;
/// Tweaks count these.
const TWEAK_UNIT: u64 = 512;

/// Bytes of a sector: 512, 1024, 2048 or 4096.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SectorSize(u16);

impl SectorSize {
    /// The smallest, which LUKS1 has.
    pub const SMALL: Self = Self(512);
    /// The largest.
    pub const LARGE: Self = Self(4096);

    /// `None`: LUKS has no such sectors.
    #[must_use]
    pub fn new(bytes: u64) -> Option<Self> {
        let bytes = u16::try_from(bytes).ok()?;
        (bytes.is_power_of_two() && (512..=4096).contains(&bytes)).then_some(Self(bytes))
    }

    /// Bytes.
    #[must_use]
    pub const fn bytes(self) -> usize {
        self.0 as usize
    }
}

/// Encrypts and decrypts sectors.
#[derive(Debug)]
pub struct SectorCipher {
    encrypt: CipherContext,
    decrypt: CipherContext,
    sector: SectorSize,
}

impl SectorCipher {
    /// A cipher with this key. `None`: both halves of the key are equal, which XTS forbids, or
    /// there is no memory.
    #[must_use]
    pub fn new(key: &[u8; KEY_LEN], sector: SectorSize) -> Option<Self> {
        let encrypt = CipherContext::new(key, 1)?;
        Some(Self { encrypt, decrypt: CipherContext::new(key, 0)?, sector })
    }

    /// Bytes of a sector.
    #[must_use]
    pub fn sector(&self) -> SectorSize {
        self.sector
    }

    /// Encrypts whole sectors. `offset` is the place of the first in the data, in bytes.
    ///
    /// # Panics
    /// If `offset` or the length is no multiple of a sector.
    pub fn encrypt(&mut self, offset: u64, sectors: &mut [u8]) {
        self.encrypt.run(self.sector, offset, sectors);
    }

    /// Decrypts whole sectors, as [`SectorCipher::encrypt`].
    ///
    /// # Panics
    /// As there.
    pub fn decrypt(&mut self, offset: u64, sectors: &mut [u8]) {
        self.decrypt.run(self.sector, offset, sectors);
    }
}

/// An expanded key and a direction. AWS-LC overwrites its memory when it is freed.
#[derive(Debug)]
struct CipherContext(NonNull<EVP_CIPHER_CTX>);

impl CipherContext {
    /// `direction`: 1 encrypts, 0 decrypts.
    fn new(key: &[u8; KEY_LEN], direction: c_int) -> Option<Self> {
        // SAFETY: the function has no conditions.
        let context = Self(NonNull::new(unsafe { EVP_CIPHER_CTX_new() })?);
        // SAFETY: the function has no conditions; it returns a static.
        let cipher = unsafe { EVP_aes_256_xts() };
        // SAFETY: the context is ours, and the key has the 64 bytes that this cipher reads. The
        // engine may be null, and so may the tweak, which `run` sets.
        let set = unsafe {
            let key = key.as_ptr();
            EVP_CipherInit_ex(context.0.as_ptr(), cipher, null_mut(), key, null(), direction)
        };
        (set == 1).then_some(context)
    }

    fn run(&mut self, sector: SectorSize, offset: u64, sectors: &mut [u8]) {
        let len = sector.bytes();
        assert!(offset.is_multiple_of(len as u64), "no begin of a sector: {offset}");
        assert!(sectors.len().is_multiple_of(len), "no whole sectors: {}", sectors.len());
        let tweaks = (offset / TWEAK_UNIT..).step_by(len / TWEAK_UNIT as usize);
        for (tweak, bytes) in tweaks.zip(sectors.chunks_exact_mut(len)) {
            let mut wide = [0; 16];
            wide[..8].copy_from_slice(&tweak.to_le_bytes());
            // SAFETY: the context is ours and has its cipher and key, which null leaves as they
            // are; the tweak has the 16 bytes that are read. -1 keeps the direction.
            let set = unsafe {
                let (context, tweak) = (self.0.as_ptr(), wide.as_ptr());
                EVP_CipherInit_ex(context, null(), null_mut(), null(), tweak, -1)
            };
            let mut done = 0;
            let place = bytes.as_mut_ptr();
            // SAFETY: the context is ours. Input and output are the same `len` bytes, which may be.
            // XTS gives as many bytes as it takes.
            let ciphered = unsafe {
                EVP_CipherUpdate(self.0.as_ptr(), place, &raw mut done, place, c_int::from(sector))
            };
            assert!(set == 1 && ciphered == 1 && usize::try_from(done) == Ok(len), "AES-XTS");
        }
    }
}

impl From<SectorSize> for c_int {
    fn from(size: SectorSize) -> Self {
        Self::from(size.0)
    }
}

impl Drop for CipherContext {
    fn drop(&mut self) {
        // SAFETY: the context is ours, and not used after this.
        unsafe { EVP_CIPHER_CTX_free(self.0.as_ptr()) };
    }
}

// SAFETY: a context is plain memory without ties to a thread, and it has one owner.
unsafe impl Send for CipherContext {}
