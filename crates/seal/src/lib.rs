//! Sealed transport: a TLS 1.3 handshake, then records of whole blocks. Sans-IO: no socket, no
//! clock, no thread; bytes and the time go in, bytes and events come out.
//!
//! TLS cuts a stream into records of at most 16 KiB and copies each of them. Here the handshake is
//! TLS's and the records are ours: chunks of up to 256 KiB are sealed in place, on any thread,
//! while the chunk before is on the wire. docs/reference/sealed-transport.md specifies all bytes,
//! docs/design/sealed-threats.md says what is defended and what is not.
//!
//! # How a shell drives it
//!
//! 1. Once: an [`Identity`] and [`Trust`] become a [`ClientEndpoint`] or [`ServerEndpoint`].
//! 2. For each stream: a [`Handshake`]. The shell sends [`Handshake::poll_output`], receives, gives
//!    the bytes to [`Handshake::handle_bytes`], until [`Handshake::step`] is [`Step::Judging`].
//! 3. The shell judges [`Handshake::peer`] ([`KnownPeers::judge`] for raw keys, names of
//!    certificates), and calls [`Handshake::accept`] or [`Handshake::refuse`]. It goes on as in 2
//!    until [`Step::Ready`]. Bytes that the handshake did not take belong to step 5.
//! 4. [`Handshake::into_session`] gives a [`Session`]. Its `hello` is sent first.
//! 5. Received bytes go to a [`Receiver`] around `opener`; each [`Opened`] comes out of
//!    [`Receiver::next`]. [`Opened::Hello`] goes to [`Sealer::handle_hello`]; then data may be
//!    sent. Or the shell places bytes itself and calls [`Opener::header`] and
//!    [`Opener::open_in_place`].
//! 6. Data is sealed by [`Sealer::seal`], or by [`Sealer::begin`] and [`SealJob::run`] on another
//!    thread. Before each chunk the shell asks [`Sealer::rekey_due`] and sends [`Sealer::rekey`].
//! 7. [`Sealer::end`] ends the own direction. When the transport's stream ends,
//!    [`Receiver::handle_end_of_stream`] tells a whole stream from a truncated one.
//!
//! ```
//! use tasuki_seal::{
//!     ClientEndpoint, HEADER_LEN, Handshake, Identity, Opened, Receiver, ServerEndpoint, Session,
//!     SessionSettings, Step, SuiteChoice, Trust, generate_key_pem,
//! };
//!
//! /// Takes what has come, then sends. True if the handshake is over.
//! fn turn(end: &mut Handshake, from_peer: &mut Vec<u8>, to_peer: &mut Vec<u8>) -> bool {
//!     let taken = end.handle_bytes(from_peer).expect("an honest peer");
//!     from_peer.drain(..taken);
//!     if end.step() == Step::Judging {
//!         let peer = end.peer().expect("a peer to judge");
//!         println!("the other end has the key {}", peer.fingerprint());
//!         end.accept().expect("a peer to accept");
//!     }
//!     to_peer.extend(end.poll_output());
//!     end.step() == Step::Ready
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (ours, theirs) = (generate_key_pem()?, generate_key_pem()?);
//! let ours = Identity::raw_key(&ours)?;
//! let client = ClientEndpoint::new(ours, &Trust::RawKeys, SuiteChoice::default())?;
//! let theirs = Identity::raw_key(&theirs)?;
//! let server = ServerEndpoint::new(theirs, &Trust::RawKeys, SuiteChoice::default())?;
//!
//! let now = 1_795_564_800;
//! let mut client = Handshake::client(&client, "10.9.0.2", now)?;
//! let mut server = Handshake::server(&server, now)?;
//! let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
//! while !turn(&mut server, &mut to_server, &mut to_client) {
//!     turn(&mut client, &mut to_client, &mut to_server);
//! }
//! // The server says Hello; so the client knows that it has been accepted.
//! let Session { opener, hello, .. } = server.into_session(SessionSettings::default())?;
//! let mut received = Receiver::new(opener);
//! to_client.extend(hello.as_ref());
//! assert!(turn(&mut client, &mut to_client, &mut to_server));
//! let mut session = client.into_session(SessionSettings::default())?;
//! to_server.extend(session.hello.as_ref());
//!
//! let mut answers = Receiver::new(session.opener);
//! answers.handle_bytes(&to_client);
//! if let Some(Opened::Hello(hello)) = answers.next()? {
//!     session.sealer.handle_hello(hello);
//! }
//! let mut block = *b"a block of a disk";
//! let (mut header, mut tail) = ([0; HEADER_LEN], [0; 16]);
//! session.sealer.seal(&mut header, &mut block, &mut tail)?;
//! for part in [&header[..], &block, &tail] {
//!     to_server.extend(part);
//! }
//!
//! received.handle_bytes(&to_server);
//! assert!(matches!(received.next()?, Some(Opened::Hello(_))));
//! assert!(matches!(received.next()?, Some(Opened::Data(data)) if data == b"a block of a disk"));
//! # Ok(())
//! # }
//! ```
//!
//! Any error ends the session. [`Sealer::alert`] may tell the peer; the error's `fault` says whose
//! fault it was.
//!
//! # Modules
//!
//! ```text layers
//! handshake
//! receiver tls
//! endpoint
//! opener sealer raw_keys identity
//! traffic record peer known_peers
//! suite open_error seal_error handshake_error fingerprint
//! kind fault
//! ```

#![forbid(unsafe_code)]

mod endpoint;
mod fault;
mod fingerprint;
mod handshake;
mod handshake_error;
mod identity;
mod kind;
mod known_peers;
mod open_error;
mod opener;
mod peer;
mod raw_keys;
mod receiver;
mod record;
mod seal_error;
mod sealer;
mod suite;
#[cfg(test)]
mod tests;
mod tls;
mod traffic;

pub use endpoint::{ALPN, BadTrust, ClientEndpoint, ServerEndpoint, Trust};
pub use fault::Fault;
pub use fingerprint::{BadFingerprint, Fingerprint};
pub use handshake::{
    Handshake, MAX_HANDSHAKE, Session, SessionSettings, Step, halves_from_exporter,
};
pub use handshake_error::HandshakeError;
pub use identity::{Identity, IdentityError, certificates, generate_key_pem, revocation_lists};
pub use kind::Kind;
pub use known_peers::{
    Judgement, KnownPeer, KnownPeers, KnownPeersError, MAX_ADDRESS, MAX_FILE, known_peer_line,
    without_known_peer,
};
pub use open_error::OpenError;
pub use opener::{Expected, Opened, Opener};
pub use peer::{CredentialKind, PeerIdentity};
pub use receiver::{READ_AHEAD, Receiver};
pub use record::{
    HEADER_LEN, MAX_BOUND, MAX_CHANGES_WITHOUT_DATA, MAX_CONTROL_LEN, MAX_KEY_BYTES,
    MAX_KEY_RECORDS, MAX_PADDING, MIN_BOUND, PeerHello, Reason,
};
pub use rustls::pki_types::{CertificateDer, CertificateRevocationListDer};
pub use seal_error::SealError;
pub use sealer::{ControlRecord, Padding, RekeyAfter, SealJob, Sealer};
pub use suite::{Suite, SuiteChoice, TAG_LEN};
pub use tls::{peer_of_tls, tls_client, tls_server};
