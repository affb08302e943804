//! How a session with a target is made: the transport of an address, and whose keys are trusted.
//!
//! A target's key is judged as ssh judges a host's. One that is not known is asked about on a
//! terminal, or added with --accept-new, or refused. One that has changed is refused.

use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::net::SocketAddr;
use std::sync::Arc;

use seal::{Fingerprint, Judgement, PeerIdentity, Reason};
use storage::{
    Credentials, DigestPreference, DiskPortal, DiskTransport, DiskUrl, Initiator, InitiatorError,
    InitiatorIdentity, IscsiName, Judge, Refusal, Scheme, TransportError,
};

use super::identity::identity;
use crate::credentials::credentials;
use crate::exit::{self, Code, Failure};
use crate::keys::{KeyDirectory, KnownFile};
use crate::options::DiskAccessArgs;

/// How sessions are made.
#[derive(Debug)]
pub struct DiskAccess {
    args: DiskAccessArgs,
    identity: InitiatorIdentity,
    keys: Arc<KeyDirectory>,
}

impl DiskAccess {
    /// By these options.
    ///
    /// # Errors
    /// The name is none of an initiator, or a secret cannot be read.
    pub fn new(args: &DiskAccessArgs) -> Result<Self, Failure> {
        let identity = identity(args.initiator.as_deref(), &args.chap)?;
        Ok(Self { args: args.clone(), identity, keys: Arc::new(KeyDirectory::find()?) })
    }

    /// A session with a target; without one for discovery.
    ///
    /// # Errors
    /// Why there is none.
    pub async fn connect(
        &self,
        url: &DiskUrl,
        target: Option<&IscsiName>,
    ) -> Result<Initiator, Failure> {
        let portal = self.portal(url)?;
        loop {
            match Initiator::connect(&portal, &self.identity, target).await {
                Err(error) if self.is_settled(&error)? => {}
                connected => return connected.map_err(|error| self.failure(&error)),
            }
        }
    }

    /// Who this initiator is.
    pub fn identity(&self) -> &InitiatorIdentity {
        &self.identity
    }

    /// Whether the next attempt may do better: the user has confirmed a key that was not known.
    ///
    /// # Errors
    /// The key cannot be kept.
    pub fn is_settled(&self, error: &InitiatorError) -> Result<bool, Failure> {
        match error {
            InitiatorError::Transport { address, source: TransportError::Unknown(key) } => {
                self.is_confirmed(*address, *key)
            }
            _ => Ok(false),
        }
    }

    /// The portal of an address, with the transport that it names.
    pub fn portal(&self, url: &DiskUrl) -> Result<DiskPortal, Failure> {
        let bad = |error: seal::BadTrust| Failure::new(Code::Configuration, error.to_string());
        let transport = match url.scheme {
            Scheme::Plain => DiskTransport::Plain,
            Scheme::Tls => DiskTransport::tls(self.credentials(url.portal)?).map_err(bad)?,
            Scheme::Sealed => DiskTransport::sealed(self.credentials(url.portal)?).map_err(bad)?,
        };
        let default = match url.scheme {
            Scheme::Plain => DigestPreference::Prefer,
            Scheme::Tls | Scheme::Sealed => DigestPreference::Avoid,
        };
        let digest = self.args.digest.map_or(default, DigestPreference::from);
        Ok(DiskPortal { address: url.portal, transport, digest })
    }

    fn credentials(&self, address: SocketAddr) -> Result<Credentials, Failure> {
        let (keys, accept_new) = (Arc::clone(&self.keys), self.args.accept_new);
        credentials(&self.args.credentials, &self.keys, |own| {
            let own = own.fingerprint();
            Judge::new(move |peer| judge(&keys, own, address, accept_new, peer))
        })
    }

    /// Asks whether the key is the target's, and keeps it if so.
    fn is_confirmed(&self, address: SocketAddr, key: Fingerprint) -> Result<bool, Failure> {
        if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
            return Ok(false);
        }
        exit::say(format_args!("The target at {address} has the key {key}, not known here."));
        loop {
            eprint!("`tasuki key show` there tells its key. Is it this one (yes/no)? ");
            let _ = std::io::stderr().flush();
            let mut line = String::new();
            let read = std::io::stdin().lock().read_line(&mut line);
            match (read, line.trim()) {
                (Ok(1..), "yes") => {
                    let address = address.to_string();
                    self.keys.add(KnownFile::Targets, &address, key, "")?;
                    return Ok(true);
                }
                (Err(_) | Ok(0), _) | (_, "no") => return Ok(false),
                _ => {}
            }
        }
    }

    /// An error of a session, and what to do about it.
    pub fn failure(&self, error: &InitiatorError) -> Failure {
        match error {
            InitiatorError::Transport { address, source } => {
                self.transport_failure(*address, source)
            }
            InitiatorError::Refused(_) | InitiatorError::Unproved(_) => {
                Failure::new(Code::Rights, error.to_string())
            }
            InitiatorError::Connect { .. } => Failure::new(Code::Configuration, error.to_string()),
            _ => Failure::new(Code::Internal, error.to_string()),
        }
    }

    fn transport_failure(&self, address: SocketAddr, error: &TransportError) -> Failure {
        let sentence = match error {
            TransportError::Unknown(key) => format!(
                "the target at {address} has the key {key}, not known here: if `tasuki key show` \
                 there prints it, run `tasuki key trust {address} {key}`, or say --accept-new"
            ),
            TransportError::Changed { got, known } => format!(
                "THE KEY OF {address} HAS CHANGED: it was {known} and is {got}. Somebody may be \
                 answering in its place. If the change is right, run `tasuki key forget {address}`"
            ),
            TransportError::Alert(Reason::UnknownIdentity) => {
                let own = self.keys.own_key().map(|key| key.fingerprint().to_string());
                let own = own.unwrap_or_else(|_| "KEY".to_owned());
                format!(
                    "the target at {address} does not let this machine in: run `tasuki key allow \
                     NAME {own}` there"
                )
            }
            TransportError::Stream(_) | TransportError::Slow(_) => {
                let sentence = format!("no session with {address}: {error}");
                return Failure::new(Code::Configuration, sentence);
            }
            _ => format!("no session with {address}: {error}"),
        };
        Failure::new(Code::Rights, sentence)
    }
}

/// Judges the key of a target.
fn judge(
    keys: &KeyDirectory,
    own: Fingerprint,
    address: SocketAddr,
    accept_new: bool,
    peer: &PeerIdentity,
) -> Result<(), Refusal> {
    let failed = |failure: Failure| Refusal::Failed(failure.sentence);
    let (key, address) = (peer.fingerprint(), address.to_string());
    match keys.known(KnownFile::Targets).map_err(failed)?.judge(&address, key) {
        Judgement::Known(_) => Ok(()),
        Judgement::Unknown if key == own => Ok(()),
        Judgement::Unknown if accept_new => {
            exit::say(format_args!("tasuki: the target at {address} is known from now on: {key}"));
            keys.add(KnownFile::Targets, &address, key, "accepted").map_err(failed)
        }
        Judgement::Unknown => Err(Refusal::Unknown),
        Judgement::Changed { known } => Err(Refusal::Changed(known.fingerprint())),
    }
}
