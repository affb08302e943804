//! The receiving half: it opens records in place, in the order of the stream.
//!
//! * **Copies: none.** [`Opener::header`] says how long the body is. The caller receives that many
//!   bytes, and [`Opener::open_in_place`] decrypts them where they lie.
//! * Nothing of a record reaches the caller before its tag is checked. The bytes of a refused
//!   record are overwritten with zeros.
//! * The first error is the last: all calls after it return [`OpenError::Failed`].
//! * The end of the stream is told by [`Opener::handle_end_of_stream`], which knows a truncation
//!   from an end.

use aws_lc_rs::error::Unspecified;

use crate::kind::Kind;
use crate::open_error::OpenError;
use crate::record::{
    HEADER_LEN, Header, MAX_BOUND, MAX_CHANGES_WITHOUT_DATA, MAX_KEY_BYTES, MAX_KEY_RECORDS,
    MIN_BOUND, PeerHello, Reason, content_len,
};
use crate::suite::{Suite, TAG_LEN};
use crate::traffic::{RecordKey, Secret};

/// An authentic record.
#[derive(Debug, PartialEq, Eq)]
pub enum Opened<'a> {
    /// The first record: the peer has accepted us. [`Sealer::handle_hello`](crate::Sealer) takes
    /// it.
    Hello(PeerHello),
    /// Bytes of the stream: 1 byte to the receiver's bound. The ends of records mean nothing.
    Data(&'a mut [u8]),
    /// The peer has changed its key.
    Rekeyed {
        /// How often it has done so.
        epoch: u64,
        /// The peer asks for [`Sealer::rekey`](crate::Sealer::rekey), whose own request is then
        /// to be false.
        answer: bool,
    },
    /// The peer's stream is whole. Its other direction may go on.
    End,
    /// The peer has given up the session.
    Alert(Reason),
}

/// A decoded header whose body is to come.
#[derive(Debug)]
#[must_use = "the body is to be received and opened"]
pub struct Expected {
    header: Header,
    bytes: [u8; HEADER_LEN],
}

impl Expected {
    /// Bytes of the body: content, padding and tag.
    pub fn body_len(&self) -> usize {
        self.header.sealed_len + TAG_LEN
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The Hello is to come.
    First,
    Open,
    Ended,
    Failed,
}

/// The receiving half of a session.
#[derive(Debug)]
pub struct Opener {
    secret: Secret,
    key: RecordKey,
    epoch: u64,
    /// Changes of the key since the last Data record.
    changes: u8,
    /// Records and bytes of content and padding under this key.
    records: u64,
    bytes: u64,
    bound: u32,
    state: State,
}

impl Opener {
    /// An opener that takes up to `bound` bytes of content a record.
    pub(crate) fn new(secret: Secret, bound: u32) -> Result<Self, Unspecified> {
        let key = secret.key()?;
        let bound = bound.clamp(MIN_BOUND, MAX_BOUND);
        let (epoch, changes, records, bytes, state) = (0, 0, 0, 0, State::First);
        Ok(Self { secret, key, epoch, changes, records, bytes, bound, state })
    }

    /// Most bytes of content in a record, as our Hello told the peer.
    pub fn bound(&self) -> u32 {
        self.bound
    }

    /// The cipher of the session.
    pub fn suite(&self) -> Suite {
        self.secret.suite()
    }

    /// How often the peer has changed its key.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Decodes a record's header. The body is received next, and opened.
    ///
    /// # Errors
    /// The header is wrong or comes after the end. The length is checked here, so a wrong one costs
    /// no memory.
    pub fn header(&mut self, bytes: [u8; HEADER_LEN]) -> Result<Expected, OpenError> {
        let expected = self.check_header(bytes);
        self.fail_on_error(expected)
    }

    fn check_header(&self, bytes: [u8; HEADER_LEN]) -> Result<Expected, OpenError> {
        match self.state {
            State::Failed => return Err(OpenError::Failed),
            State::Ended => return Err(OpenError::AfterEnd),
            State::First | State::Open => {}
        }
        let header = Header::decode(bytes, self.bound)?;
        if header.epoch != self.epoch as u16 {
            let expected = self.epoch as u16;
            return Err(OpenError::WrongEpoch { got: header.epoch, expected });
        }
        let kind = header.kind;
        let first = self.state == State::First;
        // An Alert may take the place of the Hello: the peer was refused.
        if kind != Kind::Alert && (kind == Kind::Hello) != first {
            return Err(OpenError::HelloOutOfPlace { kind });
        }
        Ok(Expected { header, bytes })
    }

    /// Opens a record's body where it lies.
    ///
    /// `expected` is of the last header, `body` has [`Expected::body_len`] bytes.
    ///
    /// # Errors
    /// The record is not authentic or breaks a rule. `body` then holds no plaintext.
    pub fn open_in_place<'a>(
        &mut self,
        expected: &Expected,
        body: &'a mut [u8],
    ) -> Result<Opened<'a>, OpenError> {
        let opened = self.open(expected, body);
        self.fail_on_error(opened)
    }

    fn open<'a>(
        &mut self,
        expected: &Expected,
        body: &'a mut [u8],
    ) -> Result<Opened<'a>, OpenError> {
        if self.state == State::Failed {
            return Err(OpenError::Failed);
        }
        if body.len() != expected.body_len() {
            return Err(OpenError::WrongBody);
        }
        let (epoch, number) = (self.epoch, self.records);
        let opened = self.key.open(number, &expected.bytes, body);
        let content = opened.map_err(|_| OpenError::NotAuthentic { epoch, number })?;
        self.records += 1;
        let header = expected.header;
        if header.kind == Kind::Data {
            self.bytes += content.len() as u64;
            self.changes = 0;
        }
        if self.records > MAX_KEY_RECORDS || self.bytes > MAX_KEY_BYTES {
            content.fill(0);
            return Err(OpenError::KeyOverused { epoch });
        }
        match header.kind {
            Kind::Hello => {
                let hello = PeerHello::decode(content)?;
                self.state = State::Open;
                Ok(Opened::Hello(hello))
            }
            Kind::Data if header.flag => match content_len(content) {
                Ok(len) => Ok(Opened::Data(&mut content[..len])),
                Err(error) => {
                    content.fill(0);
                    Err(error)
                }
            },
            Kind::Data => Ok(Opened::Data(content)),
            Kind::Rekey => {
                self.step()?;
                Ok(Opened::Rekeyed { epoch: self.epoch, answer: header.flag })
            }
            Kind::End => {
                self.state = State::Ended;
                Ok(Opened::End)
            }
            Kind::Alert => {
                self.state = State::Ended;
                // The header promised one byte of content.
                Ok(Opened::Alert(Reason::of_number(content.first().copied().unwrap_or(0))))
            }
        }
    }

    /// Takes the next key.
    fn step(&mut self) -> Result<(), OpenError> {
        if self.changes >= MAX_CHANGES_WITHOUT_DATA {
            return Err(OpenError::ChangesWithoutData);
        }
        self.secret.step().map_err(|_| OpenError::Library)?;
        self.key = self.secret.key().map_err(|_| OpenError::Library)?;
        // 2^64 changes take longer than any machine lives.
        self.epoch += 1;
        self.changes += 1;
        (self.records, self.bytes) = (0, 0);
        Ok(())
    }

    /// Whether an End or Alert has come.
    pub fn has_ended(&self) -> bool {
        self.state == State::Ended
    }

    /// The transport's stream has ended, `partial` bytes into a record.
    ///
    /// # Errors
    /// [`OpenError::Truncated`] if no End or Alert has come before, [`OpenError::AfterEnd`] if a
    /// part of a record has come after it, and [`OpenError::Failed`].
    pub fn handle_end_of_stream(&mut self, partial: usize) -> Result<(), OpenError> {
        let ended = match self.state {
            State::Ended if partial > 0 => Err(OpenError::AfterEnd),
            State::Ended => Ok(()),
            State::Failed => Err(OpenError::Failed),
            State::First | State::Open => Err(OpenError::Truncated { partial }),
        };
        self.fail_on_error(ended)
    }

    fn fail_on_error<T>(&mut self, result: Result<T, OpenError>) -> Result<T, OpenError> {
        if result.is_err() {
            self.state = State::Failed;
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sealer::{Padding, RekeyAfter, Sealer};

    fn secret() -> Secret {
        Secret::exported(Suite::Aes256Gcm, |_| Ok::<_, ()>(())).unwrap()
    }

    fn open(opener: &mut Opener, record: &[u8]) -> Result<(), OpenError> {
        let (header, body) = record.split_first_chunk().unwrap();
        let expected = opener.header(*header)?;
        opener.open_in_place(&expected, &mut body.to_vec()).map(drop)
    }

    /// The last record and byte that a key may do, and one more of each.
    #[test]
    fn an_overused_key_is_refused() {
        let cases = [
            (MAX_KEY_RECORDS - 1, 0, true),
            (MAX_KEY_RECORDS, 0, false),
            (1, MAX_KEY_BYTES - 1, true),
            (1, MAX_KEY_BYTES, false),
        ];
        for (records, bytes, sound) in cases {
            let mut sealer =
                Sealer::new(secret(), RekeyAfter::default(), Padding::default()).unwrap();
            let mut opener = Opener::new(secret(), MIN_BOUND).unwrap();
            open(&mut opener, sealer.hello(MIN_BOUND).unwrap().as_ref()).unwrap();
            sealer.set_number(records);
            (opener.records, opener.bytes) = (records, bytes);
            let record = sealer.forged_data(b"x");
            let expected = if sound { Ok(()) } else { Err(OpenError::KeyOverused { epoch: 0 }) };
            assert_eq!(open(&mut opener, &record), expected);
        }
    }
}
