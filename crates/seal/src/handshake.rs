//! The handshake: TLS 1.3 until both Finished have come, then keys from its exporter.
//!
//! ```text
//!   client                                                server
//!   ClientHello ───────────────────────────────────────▶
//!          ◀──── ServerHello … Certificate, Finished ▲     switch of server to client
//!   shell judges the server
//!   Certificate, CertificateVerify, Finished ▲ ────────▶   switch of client to server
//!                                                          shell judges the client
//!          ◀─────────────────────────────────────────────── Hello (sealed)
//!   Hello, Data … (sealed) ────────────────────────────▶
//! ```
//!
//! * **The switch.** In each direction, the byte after the TLS record that ends the Finished is the
//!   first byte of the first sealed record. TLS sends nothing after it, but for one case: a server
//!   that refuses the client's credential sends a TLS alert there, and ends. The first byte tells
//!   the two apart: 20 to 23 begins a TLS record, 1 to 5 a sealed one.
//! * [`Handshake::handle_bytes`] feeds TLS by whole records, so it never takes a byte beyond the
//!   switch. What it does not consume belongs to the [`Receiver`](crate::Receiver).
//! * The client sends its own credential only after the shell has accepted the server.
//! * **Copies.** The handshake's bytes only; no payload passes here.

use std::io::Read;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConnection, Connection, ServerConnection};

use crate::endpoint::{ALPN, ClientEndpoint, ServerEndpoint};
use crate::fingerprint::sha256;
use crate::handshake_error::HandshakeError;
use crate::opener::Opener;
use crate::peer::{CredentialKind, PeerIdentity};
use crate::record::{MAX_BOUND, MIN_BOUND, Reason};
use crate::sealer::{ControlRecord, Padding, RekeyAfter, Sealer};
use crate::suite::Suite;
use crate::traffic::{Direction, Secret};

/// The exporter's label (RFC 8446 7.5, RFC 5705 4).
const LABEL: &[u8] = b"EXPORTER-tasuki-seal-1";
/// Most bytes of the peer's part of a handshake. A chain of certificates is its longest part.
pub const MAX_HANDSHAKE: usize = 32 << 10;
/// Bytes of a TLS record's header (RFC 8446 5.1).
const TLS_HEADER: usize = 5;
/// Most bytes in a TLS record: 2^14 and 256 for its protection (RFC 8446 5.2).
const TLS_RECORD: u16 = (1 << 14) + 256;

/// What the handshake waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Bytes of the peer.
    Reading,
    /// The shell's judgement of [`Handshake::peer`]: [`Handshake::accept`] or
    /// [`Handshake::refuse`].
    Judging,
    /// [`Handshake::into_session`].
    Ready,
    /// Nothing: it failed.
    Failed,
}

/// Where the handshake stands within.
#[derive(Debug)]
enum Stage {
    Tls,
    Judging(Agreed),
    /// The client has sent its Finished; the server's first byte after the switch is to come.
    Verdict(Agreed),
    Ready(Agreed),
    Failed,
}

/// What the handshake has agreed on.
#[derive(Debug)]
struct Agreed {
    secret: Secret,
    peer: PeerIdentity,
}

/// The own choices for a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionSettings {
    /// Most bytes of content that we take in a record: 16 to 256 KiB. Others are drawn into this
    /// range.
    pub bound: u32,
    /// How the records that we send are padded.
    pub padding: Padding,
    /// When our key is to be changed.
    pub rekey_after: RekeyAfter,
}

impl Default for SessionSettings {
    fn default() -> Self {
        let (padding, rekey_after) = (Padding::default(), RekeyAfter::default());
        Self { bound: MAX_BOUND, padding, rekey_after }
    }
}

/// A session: both halves, and the Hello that is sent first.
#[derive(Debug)]
pub struct Session {
    /// The sending half.
    pub sealer: Sealer,
    /// The receiving half.
    pub opener: Opener,
    /// The first record, to be sent before all others.
    pub hello: ControlRecord,
    /// Whom the session is with.
    pub peer: PeerIdentity,
}

/// A handshake, driven by its shell: bytes in, bytes out, one judgement.
pub struct Handshake {
    tls: Connection,
    stage: Stage,
    peer_kind: CredentialKind,
    own_kind: CredentialKind,
    own_hash: [u8; 32],
    /// The header of the TLS record that is coming in, as far as it has come.
    header: [u8; TLS_HEADER],
    header_len: usize,
    /// Bytes that the body of this record lacks.
    body_left: usize,
    /// Bytes of the peer's so far.
    received: usize,
    /// The shell has accepted the peer.
    accepted: bool,
}

impl core::fmt::Debug for Handshake {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Handshake")
            .field("step", &self.step())
            .field("received", &self.received)
            .finish_non_exhaustive()
    }
}

impl Handshake {
    /// A client's handshake with the server `name`: a DNS name or an IP address, which a
    /// certificate is checked against. `now` is in seconds since 1970.
    ///
    /// # Errors
    /// [`HandshakeError::BadName`], and [`HandshakeError::Tls`] if the library fails.
    pub fn client(end: &ClientEndpoint, name: &str, now: u64) -> Result<Self, HandshakeError> {
        end.tell_time(now);
        let bad = |_| HandshakeError::BadName { name: name.to_owned() };
        let server = ServerName::try_from(name.to_owned()).map_err(bad)?;
        let tls = ClientConnection::new(Arc::clone(&end.tls), server);
        let tls = tls.map_err(HandshakeError::Tls)?;
        let identity = end.identity();
        let own = (identity.kind(), sha256(identity.credential()));
        Ok(Self::new(Connection::Client(tls), end.peer_kind(), own))
    }

    /// A server's handshake. `now` is in seconds since 1970.
    ///
    /// # Errors
    /// [`HandshakeError::Tls`] if the library fails.
    pub fn server(end: &ServerEndpoint, now: u64) -> Result<Self, HandshakeError> {
        end.tell_time(now);
        let tls = ServerConnection::new(Arc::clone(&end.tls)).map_err(HandshakeError::Tls)?;
        let identity = end.identity();
        let own = (identity.kind(), sha256(identity.credential()));
        Ok(Self::new(Connection::Server(tls), end.peer_kind(), own))
    }

    fn new(tls: Connection, peer_kind: CredentialKind, own: (CredentialKind, [u8; 32])) -> Self {
        let (own_kind, own_hash) = own;
        Self {
            tls,
            stage: Stage::Tls,
            peer_kind,
            own_kind,
            own_hash,
            header: [0; TLS_HEADER],
            header_len: 0,
            body_left: 0,
            received: 0,
            accepted: false,
        }
    }

    fn is_client(&self) -> bool {
        matches!(self.tls, Connection::Client(_))
    }

    /// What the handshake waits for.
    pub fn step(&self) -> Step {
        match self.stage {
            Stage::Tls | Stage::Verdict(_) => Step::Reading,
            Stage::Judging(_) => Step::Judging,
            Stage::Ready(_) => Step::Ready,
            Stage::Failed => Step::Failed,
        }
    }

    /// Whom the handshake found at the other end, from [`Step::Judging`] on.
    pub fn peer(&self) -> Option<&PeerIdentity> {
        match &self.stage {
            Stage::Judging(agreed) | Stage::Verdict(agreed) | Stage::Ready(agreed) => {
                Some(&agreed.peer)
            }
            Stage::Tls | Stage::Failed => None,
        }
    }

    /// The suite of the session, from [`Step::Judging`] on.
    pub fn suite(&self) -> Option<Suite> {
        match &self.stage {
            Stage::Judging(agreed) | Stage::Verdict(agreed) | Stage::Ready(agreed) => {
                Some(agreed.secret.suite())
            }
            Stage::Tls | Stage::Failed => None,
        }
    }

    /// Takes bytes of the peer, and returns how many.
    ///
    /// It takes none at [`Step::Judging`] and [`Step::Ready`], and none beyond the switch: these
    /// belong to the session.
    ///
    /// # Errors
    /// The handshake has failed. [`Self::poll_output`] may have an alert for the peer.
    pub fn handle_bytes(&mut self, bytes: &[u8]) -> Result<usize, HandshakeError> {
        let taken = self.take(bytes);
        if taken.is_err() {
            self.stage = Stage::Failed;
        }
        taken
    }

    fn take(&mut self, bytes: &[u8]) -> Result<usize, HandshakeError> {
        let mut left = bytes;
        while let Some(first) = left.first() {
            match self.stage {
                Stage::Tls => {}
                Stage::Verdict(_) if self.header_len == 0 && !(20..=23).contains(first) => {
                    self.ready();
                    break;
                }
                Stage::Verdict(_) => {}
                Stage::Judging(_) | Stage::Ready(_) => break,
                Stage::Failed => return Err(HandshakeError::Failed),
            }
            left = self.take_some(left)?;
        }
        Ok(bytes.len() - left.len())
    }

    /// Takes bytes up to the end of the TLS record at most, and returns the others.
    fn take_some<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], HandshakeError> {
        let lacking = match self.body_left {
            0 => TLS_HEADER - self.header_len,
            body => body,
        };
        let (now, later) = bytes.split_at(lacking.min(bytes.len()));
        self.received = self.received.saturating_add(now.len());
        if self.received > MAX_HANDSHAKE {
            return Err(HandshakeError::TooLong { most: MAX_HANDSHAKE });
        }
        if self.body_left == 0 {
            self.take_header(now)?;
            return Ok(later);
        }
        self.feed(now)?;
        self.body_left -= now.len();
        if self.body_left == 0 {
            self.header_len = 0;
            self.record_ended()?;
        }
        Ok(later)
    }

    /// Takes bytes of a TLS record's header; a whole one is checked and fed.
    fn take_header(&mut self, bytes: &[u8]) -> Result<(), HandshakeError> {
        for byte in bytes {
            self.header[self.header_len] = *byte;
            self.header_len += 1;
        }
        let [kind, v0, v1, l0, l1] = self.header;
        // RFC 8446 5.1: change_cipher_spec, alert, handshake, application_data.
        if !(20..=23).contains(&kind) {
            let hint = match kind {
                1..=5 => "a sealed record before the end of the handshake",
                0 | 0x43 => "perhaps plain iSCSI",
                _ => "another protocol",
            };
            return Err(HandshakeError::NotTls { first: kind, hint });
        }
        if self.header_len < TLS_HEADER {
            return Ok(());
        }
        let (version, length) = (u16::from_be_bytes([v0, v1]), u16::from_be_bytes([l0, l1]));
        if v0 != 3 || length == 0 || length > TLS_RECORD {
            return Err(HandshakeError::BadTlsRecord { version, length });
        }
        self.body_left = usize::from(length);
        let header = self.header;
        self.feed(&header)
    }

    /// Feeds TLS.
    fn feed(&mut self, mut bytes: &[u8]) -> Result<(), HandshakeError> {
        while !bytes.is_empty() {
            let reader: &mut dyn Read = &mut bytes;
            match self.tls.read_tls(reader) {
                // The library reads no more after a close_notify, which it takes behind the switch
                // alone.
                Ok(0) => return Err(HandshakeError::TlsAfterSwitch),
                Ok(_) => {}
                // The library's buffer for one message is full.
                Err(_) => return Err(HandshakeError::TooLong { most: MAX_HANDSHAKE }),
            }
            self.tls.process_new_packets().map_err(HandshakeError::Tls)?;
        }
        Ok(())
    }

    /// A TLS record has come to its end. If it was the Finished, this is the switch.
    fn record_ended(&mut self) -> Result<(), HandshakeError> {
        if matches!(self.stage, Stage::Verdict(_)) {
            // An alert has become an error in `feed`; all else is not for this place.
            return Err(HandshakeError::TlsAfterSwitch);
        }
        if !self.tls.is_handshaking() {
            self.stage = Stage::Judging(self.agree()?);
        }
        Ok(())
    }

    fn agree(&self) -> Result<Agreed, HandshakeError> {
        if self.tls.alpn_protocol() != Some(ALPN) {
            return Err(HandshakeError::WrongProtocol);
        }
        let suite = self.tls.negotiated_cipher_suite().map(|suite| suite.suite());
        let suite = suite.and_then(Suite::of_tls).ok_or(HandshakeError::Library)?;
        let credential = self.tls.peer_certificates().and_then(|all| all.first());
        let credential = credential.ok_or(HandshakeError::UnreadableCredential)?;
        let peer = PeerIdentity::of_credential(self.peer_kind, credential);
        let peer = peer.ok_or(HandshakeError::UnreadableCredential)?;
        let own = (self.own_kind, self.own_hash);
        let other = (self.peer_kind, sha256(credential));
        let context = match self.is_client() {
            true => exporter_context(suite, other, own),
            false => exporter_context(suite, own, other),
        };
        let secret = Secret::exported(suite, |out| {
            self.tls.export_keying_material(out, LABEL, Some(&context)).map(drop)
        });
        let secret = secret.map_err(HandshakeError::Tls)?;
        Ok(Agreed { secret, peer })
    }

    /// Bytes for the peer; empty if there are none.
    ///
    /// A client's last flight, with its credential, is held back until [`Self::accept`]. If that
    /// does not come, because the handshake fails or the shell refuses, the flight is never sent.
    pub fn poll_output(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        if self.is_client() && !self.tls.is_handshaking() && !self.accepted {
            return out;
        }
        while self.tls.wants_write() {
            // A vector takes all bytes.
            match self.tls.write_tls(&mut out) {
                Ok(0) | Err(_) => break,
                Ok(_) => {}
            }
        }
        out
    }

    /// The shell accepts the peer.
    ///
    /// A server is [`Step::Ready`] then. A client goes on reading, until it sees that the server
    /// has accepted it.
    ///
    /// # Errors
    /// [`HandshakeError::OutOfStep`] if there is nothing to judge.
    pub fn accept(&mut self) -> Result<(), HandshakeError> {
        match core::mem::replace(&mut self.stage, Stage::Failed) {
            Stage::Judging(agreed) if self.is_client() => self.stage = Stage::Verdict(agreed),
            Stage::Judging(agreed) => self.stage = Stage::Ready(agreed),
            other => {
                self.stage = other;
                return Err(HandshakeError::OutOfStep);
            }
        }
        self.accepted = true;
        Ok(())
    }

    /// The shell refuses the peer. The returned bytes are sent, then the stream ends.
    ///
    /// A server tells the client the reason in a sealed Alert. A client sends nothing more: neither
    /// its credential nor a proof of the session is for this server.
    pub fn refuse(mut self, reason: Reason) -> Vec<u8> {
        let stage = core::mem::replace(&mut self.stage, Stage::Failed);
        match stage {
            Stage::Judging(agreed) | Stage::Ready(agreed) if !self.is_client() => {
                let (ours, _) = directions(self.is_client());
                let secret = agreed.secret.of_direction(ours);
                let settings = SessionSettings::default();
                let sealer = secret
                    .and_then(|secret| Sealer::new(secret, settings.rekey_after, settings.padding));
                let alert = sealer.ok().and_then(|mut sealer| sealer.alert(reason).ok());
                alert.map_or(Vec::new(), |alert| alert.as_ref().to_vec())
            }
            _ => Vec::new(),
        }
    }

    fn ready(&mut self) {
        if let Stage::Verdict(agreed) = core::mem::replace(&mut self.stage, Stage::Failed) {
            self.stage = Stage::Ready(agreed);
        }
    }

    /// The session. TLS is over; its secrets are forgotten.
    ///
    /// # Errors
    /// [`HandshakeError::OutOfStep`] before [`Step::Ready`], and [`HandshakeError::Library`].
    pub fn into_session(self, settings: SessionSettings) -> Result<Session, HandshakeError> {
        let (ours, theirs) = directions(self.is_client());
        let Stage::Ready(Agreed { secret, peer }) = self.stage else {
            return Err(HandshakeError::OutOfStep);
        };
        let (sealer, opener, hello) = halves(&secret, ours, theirs, settings)?;
        Ok(Session { sealer, opener, hello, peer })
    }

    /// The transport's stream has ended within the handshake, which has failed with the returned
    /// error: [`HandshakeError::Truncated`], or [`HandshakeError::Failed`] if it had failed before.
    pub fn handle_end_of_stream(&mut self) -> HandshakeError {
        match core::mem::replace(&mut self.stage, Stage::Failed) {
            Stage::Failed => HandshakeError::Failed,
            _ => HandshakeError::Truncated { received: self.received },
        }
    }
}

/// The exporter's context: the suite, and kind and hash of both ends' credentials.
///
/// TLS's own exporter secret ends with the server's Finished (RFC 8446 7.1), so it does not cover
/// the client's credential; the context does.
pub(crate) fn exporter_context(
    suite: Suite,
    server: (CredentialKind, [u8; 32]),
    client: (CredentialKind, [u8; 32]),
) -> Vec<u8> {
    let mut context = suite.number().to_be_bytes().to_vec();
    for (kind, hash) in [server, client] {
        context.push(kind as u8);
        context.extend(hash);
    }
    context
}

/// Both halves of a session, and the Hello that is sent first, from the exporter's output alone.
///
/// This is for tests, and for shells with a TLS library of their own. `output` has
/// [`Suite::hash_len`] bytes.
///
/// # Errors
/// [`HandshakeError::Library`], also if `output` has another length.
pub fn halves_from_exporter(
    is_client: bool,
    suite: Suite,
    output: &[u8],
    settings: SessionSettings,
) -> Result<(Sealer, Opener, ControlRecord), HandshakeError> {
    let secret = Secret::exported(suite, |out| {
        if out.len() != output.len() {
            return Err(HandshakeError::Library);
        }
        out.copy_from_slice(output);
        Ok(())
    });
    let (ours, theirs) = directions(is_client);
    halves(&secret?, ours, theirs, settings)
}

fn halves(
    secret: &Secret,
    ours: Direction,
    theirs: Direction,
    settings: SessionSettings,
) -> Result<(Sealer, Opener, ControlRecord), HandshakeError> {
    let bound = settings.bound.clamp(MIN_BOUND, MAX_BOUND);
    let library = |_| HandshakeError::Library;
    let own = secret.of_direction(ours).map_err(library)?;
    let other = secret.of_direction(theirs).map_err(library)?;
    let mut sealer = Sealer::new(own, settings.rekey_after, settings.padding).map_err(library)?;
    let opener = Opener::new(other, bound).map_err(library)?;
    let hello = sealer.hello(bound).map_err(|_| HandshakeError::Library)?;
    Ok((sealer, opener, hello))
}

/// The directions that an end sends and receives.
fn directions(is_client: bool) -> (Direction, Direction) {
    match is_client {
        true => (Direction::ClientToServer, Direction::ServerToClient),
        false => (Direction::ServerToClient, Direction::ClientToServer),
    }
}
