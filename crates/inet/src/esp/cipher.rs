//! The cipher of an association, as the core sees it.

use core::fmt;

/// The lengths that a cipher asks for, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EspShape {
    /// The initialization vector in front of the encrypted bytes, at most 16.
    pub iv: usize,
    /// The integrity check value behind them, at most 32.
    pub icv: usize,
    /// The encrypted bytes are a multiple of this: 4, 8 or 16.
    pub block: usize,
}

impl EspShape {
    /// The longest lengths that a cipher may ask for.
    pub(crate) const MOST: Self = Self { iv: 16, icv: 32, block: 16 };

    /// Whether these are lengths that a packet of ESP can have.
    pub(crate) fn is_possible(self) -> bool {
        let Self { iv, icv, block } = self;
        iv <= Self::MOST.iv && icv <= Self::MOST.icv && matches!(block, 4 | 8 | 16)
    }
}

/// What a cipher authenticates along with the bytes that it encrypts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EspHeader {
    /// The association's number.
    pub spi: u32,
    /// The packet's number. Only its lower half is sent.
    pub sequence: u64,
    /// The association counts with 64 bits (RFC 4303 2.2.1).
    pub extended: bool,
}

impl EspHeader {
    /// The header as it is sent.
    #[must_use]
    pub fn wire(&self) -> [u8; 8] {
        let mut out = [0; 8];
        let (spi, sequence) = out.split_at_mut(4);
        spi.copy_from_slice(&self.spi.to_be_bytes());
        sequence.copy_from_slice(&self.low().to_be_bytes());
        out
    }

    /// The additional data of a combined cipher (RFC 4106 5): the header, with the upper half of
    /// the number in front of the lower one if the association counts with 64 bits. Gives the bytes
    /// and their number.
    #[must_use]
    pub fn additional(&self) -> ([u8; 12], usize) {
        let mut out = [0; 12];
        let (spi, rest) = out.split_at_mut(4);
        spi.copy_from_slice(&self.spi.to_be_bytes());
        if self.extended {
            rest.copy_from_slice(&self.sequence.to_be_bytes());
            return (out, 12);
        }
        let (low, _) = rest.split_at_mut(4);
        low.copy_from_slice(&self.low().to_be_bytes());
        (out, 8)
    }

    /// The upper half of the number, which a separate integrity check covers after everything else
    /// (RFC 4303 2.8). `None` if the association does not count with 64 bits.
    #[must_use]
    pub fn trailer(&self) -> Option<[u8; 4]> {
        let [a, b, c, d, ..] = self.sequence.to_be_bytes();
        self.extended.then_some([a, b, c, d])
    }

    fn low(&self) -> u32 {
        (self.sequence & u64::from(u32::MAX)) as u32
    }
}

/// Why a cipher does not seal or open a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EspCipherError {
    /// The integrity check value is wrong.
    #[error("the integrity check value is wrong")]
    BadCheckValue,
    /// The key must not be used for another packet.
    #[error("the key must not be used any more")]
    Exhausted,
    /// The cipher failed.
    #[error("the cipher failed")]
    Failed,
}

/// Encryption and integrity of one association, with its key. The owner of the stack supplies it.
pub trait EspCipher: fmt::Debug + Send {
    /// Its lengths, which never change.
    fn shape(&self) -> EspShape;

    /// Encrypts `body` in place, and writes the initialization vector and the integrity check
    /// value. The slices have the lengths of [`shape`](Self::shape).
    ///
    /// # Errors
    /// `Exhausted`, `Failed`. The packet is then not sent.
    fn seal(
        &mut self,
        header: &EspHeader,
        iv: &mut [u8],
        body: &mut [u8],
        icv: &mut [u8],
    ) -> Result<(), EspCipherError>;

    /// Verifies the check value and decrypts `body` in place.
    ///
    /// # Errors
    /// `BadCheckValue`, `Failed`. The content of `body` then has no meaning.
    fn open(
        &mut self,
        header: &EspHeader,
        iv: &[u8],
        body: &mut [u8],
        icv: &[u8],
    ) -> Result<(), EspCipherError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_upper_half_of_the_number_is_authenticated_and_not_sent() {
        let header = EspHeader { spi: 0x0102_0304, sequence: 0x0a_0b0c_0d0e, extended: true };
        assert_eq!(header.wire(), [1, 2, 3, 4, 0x0b, 0x0c, 0x0d, 0x0e]);
        let all = [1, 2, 3, 4, 0, 0, 0, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e];
        assert_eq!(header.additional(), (all, 12));
        assert_eq!(header.trailer(), Some([0, 0, 0, 0x0a]));
        let short = EspHeader { extended: false, ..header };
        assert_eq!(short.additional().1, 8);
        assert_eq!(short.additional().0[..8], short.wire());
        assert_eq!(short.trailer(), None);
    }
}
