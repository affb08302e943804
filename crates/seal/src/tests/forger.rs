//! Records that break the rules and are authentic: a peer that has the keys and means ill.

use crate::opener::Opener;
use crate::record::HEADER_LEN;
use crate::suite::{Suite, TAG_LEN};
use crate::traffic::Secret;

/// A sender without rules.
pub(crate) struct Forger {
    secret: Secret,
    pub(crate) epoch: u16,
    number: u64,
}

fn secret(fill: u8) -> Secret {
    let filled = |out: &mut [u8]| {
        out.fill(fill);
        Ok::<_, ()>(())
    };
    Secret::exported(Suite::Aes256Gcm, filled).unwrap()
}

impl Forger {
    /// A forger, and the opener that has the same key. The opener takes `bound` bytes.
    pub(crate) fn new(bound: u32) -> (Self, Opener) {
        let forger = Self { secret: secret(7), epoch: 0, number: 0 };
        (forger, Opener::new(secret(7), bound).unwrap())
    }

    /// A forger whose opener has taken its Hello.
    pub(crate) fn greeted(bound: u32) -> (Self, Opener) {
        let (mut forger, mut opener) = Self::new(bound);
        let mut hello = forger.record([1, 0], &[1, 0, 0, 0, 0, 0, 0x40, 0]);
        let (header, body) = hello.split_at_mut(HEADER_LEN);
        let expected = opener.header((&*header).try_into().unwrap()).unwrap();
        opener.open_in_place(&expected, body).unwrap();
        (forger, opener)
    }

    /// An authentic record with any kind and flags.
    pub(crate) fn record(&mut self, kind_flags: [u8; 2], content: &[u8]) -> Vec<u8> {
        let length = ((content.len() + TAG_LEN) as u32).to_be_bytes();
        let header = [&kind_flags[..], &self.epoch.to_be_bytes(), &length].concat();
        let (mut body, mut tag) = (content.to_vec(), [0; TAG_LEN]);
        let key = self.secret.key().unwrap();
        key.seal(self.number, &header, &mut body, &[], &mut tag).unwrap();
        self.number += 1;
        [&header[..], &body, &tag].concat()
    }

    /// A Rekey and the change of key.
    pub(crate) fn rekey(&mut self) -> Vec<u8> {
        let record = self.record([3, 0], &[]);
        self.secret.step().unwrap();
        self.epoch = self.epoch.wrapping_add(1);
        self.number = 0;
        record
    }
}
