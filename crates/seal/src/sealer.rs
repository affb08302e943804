//! The sending half: it gives each record its number and key in order, and seals.
//!
//! * **Copies: none.** [`SealJob::run`] encrypts the chunk where it lies, and
//!   [`SealJob::run_into`] from there to where it is sent from. The header, and the tail of padding
//!   and tag, are written beside it. The caller sends the three parts in this order.
//! * **Order and work are apart.** [`Sealer::begin`] gives the next number and key to a
//!   [`SealJob`], which can run on any thread while the record before is on the wire. Records are
//!   sent in the order of `begin`. A job that is dropped leaves a gap, which the peer refuses.
//! * **Keys** change by [`Sealer::rekey`]. [`Sealer::rekey_due`] says when. Jobs that began before
//!   the change keep their key.

use std::sync::Arc;

use aws_lc_rs::error::Unspecified;

use crate::kind::Kind;
use crate::record::{
    HEADER_LEN, Header, MAX_CHANGES_WITHOUT_DATA, MAX_CONTROL_LEN, MAX_KEY_BYTES, MAX_KEY_RECORDS,
    MAX_PADDING, PeerHello, Reason, padding_len,
};
use crate::seal_error::SealError;
use crate::suite::{Suite, TAG_LEN};
use crate::traffic::{RecordKey, Secret};

/// 0x80 and zeros: the longest padding.
static PADDING: [u8; MAX_PADDING] = {
    let mut padding = [0; MAX_PADDING];
    padding[0] = 0x80;
    padding
};

/// Records and bytes after which [`Sealer::rekey_due`] is true.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RekeyAfter {
    /// Bytes of content and padding: 1 to [`MAX_KEY_BYTES`].
    pub bytes: u64,
    /// Records: 1 to [`MAX_KEY_RECORDS`] less 16.
    pub records: u64,
}

/// Half of what a key may do, so that jobs and control records fit until the change.
impl Default for RekeyAfter {
    fn default() -> Self {
        Self { bytes: MAX_KEY_BYTES / 2, records: MAX_KEY_RECORDS / 2 }
    }
}

/// A multiple to which the lengths of Data records are padded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Padding {
    /// Lengths are the contents' own.
    #[default]
    None,
    /// Content and padding are a multiple of this many bytes, 2 to 16,384. At least one byte of
    /// padding is added.
    Multiple(u16),
}

impl Padding {
    fn multiple(self) -> usize {
        match self {
            Self::None => 0,
            // Others are drawn into the range.
            Self::Multiple(multiple) => usize::from(multiple).clamp(2, MAX_PADDING),
        }
    }
}

/// A whole sealed record that carries no data, to be sent in its order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ControlRecord {
    bytes: [u8; MAX_CONTROL_LEN],
    len: usize,
}

impl AsRef<[u8]> for ControlRecord {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// The sending half of a session.
#[derive(Debug)]
pub struct Sealer {
    secret: Secret,
    key: Arc<RecordKey>,
    epoch: u64,
    /// Changes of the key since the last Data record.
    changes: u8,
    /// Records, and bytes of content and padding, under this key.
    records: u64,
    bytes: u64,
    rekey_after: RekeyAfter,
    padding: Padding,
    /// The peer's bound, once its Hello has come.
    bound: Option<u32>,
    ended: bool,
}

impl Sealer {
    pub(crate) fn new(
        secret: Secret,
        rekey_after: RekeyAfter,
        padding: Padding,
    ) -> Result<Self, Unspecified> {
        let key = Arc::new(secret.key()?);
        let (epoch, changes, records, bytes, bound, ended) = (0, 0, 0, 0, None, false);
        Ok(Self { secret, key, epoch, changes, records, bytes, rekey_after, padding, bound, ended })
    }

    /// Takes the peer's bound from its Hello. Data may follow.
    pub fn handle_hello(&mut self, hello: PeerHello) {
        self.bound = Some(hello.bound());
    }

    /// Most bytes of a chunk, once the peer's Hello has come.
    pub fn max_chunk(&self) -> Option<u32> {
        self.bound
    }

    /// The cipher of the session.
    pub fn suite(&self) -> Suite {
        self.secret.suite()
    }

    /// How often this direction has changed its key.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Whether the key has done as much as [`RekeyAfter`] says. [`Self::rekey`] is the answer.
    pub fn rekey_due(&self) -> bool {
        let RekeyAfter { bytes, records } = self.rekey_after;
        self.bytes >= bytes || self.records >= records
    }

    /// Gives the next record of `len` bytes of content its number and key.
    ///
    /// # Errors
    /// [`SealError::NoHello`], [`SealError::BadChunk`], [`SealError::RekeyFirst`] and
    /// [`SealError::Ended`]. No number is used up then.
    pub fn begin(&mut self, len: usize) -> Result<SealJob, SealError> {
        if self.ended {
            return Err(SealError::Ended);
        }
        let most = self.bound.ok_or(SealError::NoHello)?;
        if !(1..=most as usize).contains(&len) {
            return Err(SealError::BadChunk { len, most });
        }
        let multiple = self.padding.multiple();
        let padding = padding_len(len, multiple);
        let bytes = self.bytes + (len + padding) as u64;
        // One record less: the last number is the Rekey's.
        if bytes > MAX_KEY_BYTES || self.records >= MAX_KEY_RECORDS - 1 {
            return Err(SealError::RekeyFirst);
        }
        (self.bytes, self.changes) = (bytes, 0);
        Ok(self.job(Kind::Data, multiple != 0, len, padding))
    }

    /// Seals `chunk` in place, in the thread of the caller.
    ///
    /// `tail` has [`Self::tail_len`] bytes. The record is header, chunk, tail.
    ///
    /// # Errors
    /// Those of [`Self::begin`] and [`SealJob::run`].
    pub fn seal(
        &mut self,
        header: &mut [u8; HEADER_LEN],
        chunk: &mut [u8],
        tail: &mut [u8],
    ) -> Result<(), SealError> {
        let expected = self.tail_len(chunk.len());
        if tail.len() != expected {
            return Err(SealError::BadTail { got: tail.len(), expected });
        }
        self.begin(chunk.len())?.run(header, chunk, tail)
    }

    /// Seals `chunk` into `sealed`, in the thread of the caller. `chunk` stays as it is.
    ///
    /// `tail` has [`Self::tail_len`] bytes. The record is header, sealed chunk, tail.
    ///
    /// # Errors
    /// Those of [`Self::begin`] and [`SealJob::run_into`].
    pub fn seal_into(
        &mut self,
        header: &mut [u8; HEADER_LEN],
        chunk: &[u8],
        sealed: &mut [u8],
        tail: &mut [u8],
    ) -> Result<(), SealError> {
        let expected = self.tail_len(chunk.len());
        if tail.len() != expected {
            return Err(SealError::BadTail { got: tail.len(), expected });
        }
        self.begin(chunk.len())?.run_into(header, chunk, sealed, tail)
    }

    /// Bytes of padding and tag behind a chunk of `len` bytes.
    pub fn tail_len(&self, len: usize) -> usize {
        padding_len(len, self.padding.multiple()) + TAG_LEN
    }

    /// Seals the last record under this key, and takes the next key for all that begins later.
    ///
    /// With `ask_peer` the peer is asked to change its own key.
    ///
    /// # Errors
    /// [`SealError::ChangesWithoutData`] if no data was sealed during the last changes,
    /// [`SealError::Ended`], and [`SealError::Library`].
    pub fn rekey(&mut self, ask_peer: bool) -> Result<ControlRecord, SealError> {
        if self.changes >= MAX_CHANGES_WITHOUT_DATA {
            return Err(SealError::ChangesWithoutData);
        }
        let record = self.control(Kind::Rekey, ask_peer, &[])?;
        self.secret.step().map_err(|_| SealError::Library)?;
        self.key = Arc::new(self.secret.key().map_err(|_| SealError::Library)?);
        // 2^64 changes take longer than any machine lives.
        self.epoch += 1;
        self.changes += 1;
        (self.records, self.bytes) = (0, 0);
        Ok(record)
    }

    /// Seals the End record: the stream is whole. Nothing may follow.
    ///
    /// # Errors
    /// [`SealError::Ended`] if an End or Alert was sealed before, and [`SealError::Library`].
    pub fn end(&mut self) -> Result<ControlRecord, SealError> {
        let record = self.control(Kind::End, false, &[])?;
        self.ended = true;
        Ok(record)
    }

    /// Seals an Alert: the session is given up. Nothing may follow.
    ///
    /// # Errors
    /// [`SealError::Ended`] if an End or Alert was sealed before, and [`SealError::Library`].
    pub fn alert(&mut self, reason: Reason) -> Result<ControlRecord, SealError> {
        let record = self.control(Kind::Alert, false, &[reason.number()])?;
        self.ended = true;
        Ok(record)
    }

    /// Seals the Hello, which is the first record.
    pub(crate) fn hello(&mut self, bound: u32) -> Result<ControlRecord, SealError> {
        self.control(Kind::Hello, false, &PeerHello::encode(bound))
    }

    fn control(
        &mut self,
        kind: Kind,
        flag: bool,
        content: &[u8],
    ) -> Result<ControlRecord, SealError> {
        if self.ended {
            return Err(SealError::Ended);
        }
        let len = HEADER_LEN + content.len() + TAG_LEN;
        let mut bytes = [0; MAX_CONTROL_LEN];
        let (header, rest) = bytes.split_at_mut(HEADER_LEN);
        let (body, rest) = rest.split_at_mut(content.len());
        body.copy_from_slice(content);
        let job = self.job(kind, flag, content.len(), 0);
        job.run_in(header, body, &mut rest[..TAG_LEN])?;
        Ok(ControlRecord { bytes, len })
    }

    fn job(&mut self, kind: Kind, flag: bool, len: usize, padding: usize) -> SealJob {
        let header = Header { kind, flag, epoch: self.epoch as u16, sealed_len: len + padding };
        let number = self.records;
        // `begin` and `rekey` keep this far below its end.
        self.records += 1;
        let (key, header) = (Arc::clone(&self.key), header.encode());
        SealJob { key, number, header, len, padding }
    }
}

/// A record that has its number and key and is still to be sealed, on any thread.
#[derive(Debug)]
#[must_use = "a job that does not run leaves a gap, which the peer refuses"]
pub struct SealJob {
    key: Arc<RecordKey>,
    number: u64,
    header: [u8; HEADER_LEN],
    len: usize,
    padding: usize,
}

impl SealJob {
    /// Bytes of content.
    pub fn chunk_len(&self) -> usize {
        self.len
    }

    /// Bytes of padding and tag behind the content.
    pub fn tail_len(&self) -> usize {
        self.padding + TAG_LEN
    }

    /// Seals `chunk` in place, and writes the header and the tail.
    ///
    /// # Errors
    /// [`SealError::WrongChunk`] and [`SealError::BadTail`] if a length is not that of
    /// [`Self::chunk_len`] and [`Self::tail_len`]; the number is then lost, and so is the session.
    /// [`SealError::Library`].
    pub fn run(
        self,
        header: &mut [u8; HEADER_LEN],
        chunk: &mut [u8],
        tail: &mut [u8],
    ) -> Result<(), SealError> {
        self.run_in(header, chunk, tail)
    }

    /// Seals `chunk` into `sealed`, and writes the header and the tail. `chunk` stays as it is.
    ///
    /// # Errors
    /// As [`Self::run`]; [`SealError::WrongChunk`] also if `sealed` has another length.
    pub fn run_into(
        self,
        header: &mut [u8; HEADER_LEN],
        chunk: &[u8],
        sealed: &mut [u8],
        tail: &mut [u8],
    ) -> Result<(), SealError> {
        self.check(chunk.len(), tail.len())?;
        self.check(sealed.len(), tail.len())?;
        header.copy_from_slice(&self.header);
        let padding = &PADDING[..self.padding];
        let done = self.key.seal_into(self.number, &self.header, chunk, sealed, padding, tail);
        done.map_err(|_| SealError::Library)
    }

    fn run_in(self, header: &mut [u8], chunk: &mut [u8], tail: &mut [u8]) -> Result<(), SealError> {
        self.check(chunk.len(), tail.len())?;
        header.copy_from_slice(&self.header);
        let padding = &PADDING[..self.padding];
        let sealed = self.key.seal(self.number, &self.header, chunk, padding, tail);
        sealed.map_err(|_| SealError::Library)
    }

    fn check(&self, chunk: usize, tail: usize) -> Result<(), SealError> {
        if chunk != self.len {
            return Err(SealError::WrongChunk { got: chunk, expected: self.len });
        }
        if tail != self.tail_len() {
            return Err(SealError::BadTail { got: tail, expected: self.tail_len() });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Sealer {
        /// As if this many records had been sealed under the key.
        pub(crate) fn set_number(&mut self, records: u64) {
            self.records = records;
        }

        /// A Data record that the limits of a key do not hold back.
        pub(crate) fn forged_data(&mut self, content: &[u8]) -> Vec<u8> {
            let job = self.job(Kind::Data, false, content.len(), 0);
            let (mut header, mut body) = ([0; HEADER_LEN], content.to_vec());
            let mut tail = [0; TAG_LEN];
            job.run(&mut header, &mut body, &mut tail).unwrap();
            [&header[..], &body, &tail].concat()
        }
    }

    /// The sealer stops before the key has done more than it may, and goes on with the next.
    #[test]
    fn a_key_is_not_overused() {
        let secret = Secret::exported(Suite::Aes256Gcm, |_| Ok::<_, ()>(())).unwrap();
        let mut sealer = Sealer::new(secret, RekeyAfter::default(), Padding::default()).unwrap();
        sealer.bound = Some(1 << 14);
        (sealer.records, sealer.bytes) = (MAX_KEY_RECORDS - 2, MAX_KEY_BYTES - 2);
        assert!(sealer.rekey_due());
        assert_eq!(sealer.begin(3).unwrap_err(), SealError::RekeyFirst);
        drop(sealer.begin(1).unwrap());
        // One number is left, for the Rekey.
        assert_eq!(sealer.begin(1).unwrap_err(), SealError::RekeyFirst);
        sealer.rekey(false).unwrap();
        assert!(!sealer.rekey_due());
        drop(sealer.begin(3).unwrap());
        assert_eq!((sealer.records, sealer.bytes), (1, 3));
    }
}
