//! Numbers that must not be guessed from outside: for hash tables, sequence numbers, ports.
//!
//! The stack gets one 128-bit secret at its start. Each use is a SipHash of its inputs under a key
//! of its own, derived from the secret. So observing one use discloses nothing about another.

use core::hash::{BuildHasher, Hash, Hasher};

use siphasher::sip::{SipHasher13, SipHasher24};

use crate::time::Instant;

/// Builds the hasher of every table whose keys come from the network.
#[derive(Debug, Clone)]
pub(crate) struct KeyedHash(u64, u64);

impl BuildHasher for KeyedHash {
    type Hasher = SipHasher13;
    fn build_hasher(&self) -> SipHasher13 {
        SipHasher13::new_with_keys(self.0, self.1)
    }
}

/// The derived keys and the state of the generator.
#[derive(Debug)]
pub(crate) struct Secret {
    tables: KeyedHash,
    isn: (u64, u64),
    timestamps: (u64, u64),
    cookies: (u64, u64),
    fast_open: (u64, u64),
    random: (u64, u64),
    links: (u64, u64),
    flows: (u64, u64),
    ports: KeyedHash,
    drawn: u64,
}

impl Secret {
    pub(crate) fn new(secret: &[u8; 16]) -> Self {
        let derive = |purpose: u8| {
            let half = |which: u8| SipHasher24::new_with_key(secret).hash(&[purpose, which]);
            (half(0), half(1))
        };
        let (a, b) = derive(1);
        let (c, d) = derive(18);
        Self {
            tables: KeyedHash(a, b),
            isn: derive(2),
            timestamps: derive(3),
            random: derive(4),
            cookies: derive(5),
            links: derive(16),
            flows: derive(17),
            ports: KeyedHash(c, d),
            fast_open: derive(6),
            drawn: 0,
        }
    }

    pub(crate) fn tables(&self) -> KeyedHash {
        self.tables.clone()
    }

    /// An initial sequence number: a clock of about 4 µs plus a keyed hash of the connection's ends
    /// (RFC 6528 3; RFC 9293 3.4.1 MUST-8, SHLD-1).
    #[expect(clippy::cast_possible_truncation, reason = "sequence space is 32 bits")]
    pub(crate) fn isn_number(&self, now: Instant, ends: &impl Hash) -> u32 {
        (now.as_nanos() >> 12).wrapping_add(of_ends(self.isn, ends)) as u32
    }

    /// The offset of a connection's timestamp clock (RFC 7323 5.4).
    #[expect(clippy::cast_possible_truncation, reason = "timestamps are 32 bits")]
    pub(crate) fn timestamp_offset(&self, ends: &impl Hash) -> u32 {
        of_ends(self.timestamps, ends) as u32
    }

    /// The hash in a SYN cookie for a connection's ends and three numbers.
    pub(crate) fn cookie(&self, ends: &impl Hash, input: [u64; 3]) -> u64 {
        let mut hash = SipHasher24::new_with_keys(self.cookies.0, self.cookies.1);
        hash.write_u64(of_ends(self.cookies, ends));
        input.into_iter().for_each(|number| hash.write_u64(number));
        hash.finish()
    }

    /// Where the search for a connection's own port starts (RFC 6056 3.3.4).
    pub(crate) fn ports(&self) -> KeyedHash {
        self.ports.clone()
    }

    /// For delays and nonces on links, which no node should foresee.
    pub(crate) fn links(&self) -> KeyedHash {
        let (a, b) = self.links;
        KeyedHash(a, b)
    }

    /// The flow label of a connection (RFC 6437 3): 20 bits, not 0.
    pub(crate) fn flow_label(&self, ends: &impl Hash) -> u32 {
        match of_ends(self.flows, ends) & 0xf_ffff {
            0 => 1,
            #[expect(clippy::cast_possible_truncation, reason = "20 bits")]
            label => label as u32,
        }
    }

    /// The key of Fast Open cookies, unless another is set.
    pub(crate) fn fast_open_key(&self) -> [u8; 16] {
        let mut key = [0; 16];
        key[..8].copy_from_slice(&self.fast_open.0.to_le_bytes());
        key[8..].copy_from_slice(&self.fast_open.1.to_le_bytes());
        key
    }

    fn random(&mut self) -> u64 {
        self.drawn = self.drawn.wrapping_add(1);
        let mut hash = SipHasher24::new_with_keys(self.random.0, self.random.1);
        hash.write_u64(self.drawn);
        hash.finish()
    }

    /// An unpredictable number below `bound` (0 counts as 1), near enough evenly.
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        #[expect(clippy::cast_possible_truncation, reason = "the remainder is below a u32")]
        let value = (self.random() % u64::from(bound.max(1))) as u32;
        value
    }
}

fn of_ends(key: (u64, u64), ends: &impl Hash) -> u64 {
    let mut hash = SipHasher24::new_with_keys(key.0, key.1);
    ends.hash(&mut hash);
    hash.finish()
}
