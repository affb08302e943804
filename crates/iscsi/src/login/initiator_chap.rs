//! The initiator's side of the security stage (RFC 7143 12.1).

use crate::chap::{self, MAX_BINARY, MIN_CHALLENGE};
use crate::error::ProtocolError;
use crate::settings::{ChapAlgorithm, ChapPolicy};
use crate::text::{self, TextWriter};

/// How far the authentication is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProofProgress {
    /// AuthMethod is offered.
    Offered,
    /// The algorithms are out; the challenge comes next.
    Algorithms,
    /// The response is out; the target accepts, and proves itself if asked.
    Responded(ChapAlgorithm),
    /// All is proved that is to be proved.
    Done,
}

/// The authentication of one login.
#[derive(Debug)]
pub(super) struct InitiatorAuthentication {
    policy: Option<ChapPolicy>,
    progress: ProofProgress,
    id: u8,
    challenge: [u8; 32],
}

impl InitiatorAuthentication {
    pub(super) fn new(policy: Option<ChapPolicy>, random: &[u8; 33]) -> Self {
        let [id, challenge @ ..] = *random;
        Self { policy, progress: ProofProgress::Offered, id, challenge }
    }

    /// Overwrites the secrets.
    pub(super) fn forget(&mut self) {
        self.policy = None;
    }

    /// Whether the target is to prove itself.
    fn is_mutual(&self) -> bool {
        self.policy.as_ref().is_some_and(|policy| policy.target.is_some())
    }

    pub(super) fn offer(&self, out: &mut TextWriter) {
        let methods = match (&self.policy, self.is_mutual()) {
            (None, _) => "None",
            // A target that wants no proof is taken, unless it is to prove itself.
            (Some(_), false) => "CHAP,None",
            (Some(_), true) => "CHAP",
        };
        out.push("AuthMethod", methods);
    }

    /// Whether the next request may ask for the next stage.
    pub(super) fn is_ready(&self) -> bool {
        matches!(self.progress, ProofProgress::Responded(_) | ProofProgress::Done)
    }

    /// Whether the stage may end.
    pub(super) fn check(&self) -> Result<(), ProtocolError> {
        let missing = ProtocolError::Authentication("it gave no proof");
        match self.progress {
            ProofProgress::Done => Ok(()),
            ProofProgress::Responded(_) if !self.is_mutual() => Ok(()),
            // A target that has no security stage to speak of leaves the method out.
            ProofProgress::Offered if self.policy.is_none() => Ok(()),
            _ => Err(missing),
        }
    }

    pub(super) fn take(
        &mut self,
        pairs: &[(&str, &str)],
        out: &mut TextWriter,
    ) -> Result<(), ProtocolError> {
        let find = |key| pairs.iter().find(|pair| pair.0 == key).map(|pair| pair.1);
        if let Some(method) = find("AuthMethod") {
            return self.take_method(method, out);
        }
        match self.progress {
            ProofProgress::Algorithms if find("CHAP_A").is_some() => {
                self.take_challenge(find("CHAP_A"), find("CHAP_I"), find("CHAP_C"), out)
            }
            ProofProgress::Responded(algorithm) if find("CHAP_R").is_some() => {
                self.take_proof(algorithm, find("CHAP_N"), find("CHAP_R"))
            }
            _ => Ok(()),
        }
    }

    fn take_method(&mut self, method: &str, out: &mut TextWriter) -> Result<(), ProtocolError> {
        let wrong = Err(ProtocolError::Authentication("it chose a method that was not offered"));
        if self.progress != ProofProgress::Offered {
            return wrong;
        }
        match (method, &self.policy) {
            ("CHAP", Some(policy)) => {
                let codes: Vec<String> =
                    policy.algorithms.iter().map(|known| known.code().to_string()).collect();
                out.push("CHAP_A", &codes.join(","));
                self.progress = ProofProgress::Algorithms;
                Ok(())
            }
            ("None", _) if !self.is_mutual() => {
                self.progress = ProofProgress::Done;
                Ok(())
            }
            _ => wrong,
        }
    }

    fn take_challenge(
        &mut self,
        algorithm: Option<&str>,
        id: Option<&str>,
        challenge: Option<&str>,
        out: &mut TextWriter,
    ) -> Result<(), ProtocolError> {
        let wrong = |what| ProtocolError::Authentication(what);
        let Some(policy) = &self.policy else { return Err(wrong("it sent a challenge")) };
        let code = algorithm.and_then(text::number);
        let algorithm = policy.algorithms.iter().find(|known| Some(known.code()) == code);
        let algorithm = *algorithm.ok_or(wrong("it chose an algorithm that was not offered"))?;
        let id = id.and_then(text::number).and_then(|id| u8::try_from(id).ok());
        let challenge = challenge.and_then(|text| text::binary(text, MAX_BINARY));
        let (Some(id), Some(challenge)) = (id, challenge) else {
            return Err(wrong("its challenge is malformed"));
        };
        // RFC 7143 9.2.1: a challenge of this end is not answered.
        if challenge.len() < MIN_CHALLENGE || chap::is_same(&challenge, &self.challenge) {
            return Err(wrong("its challenge is too short or reflected"));
        }
        let response = chap::respond(algorithm, id, &policy.initiator.secret, &challenge);
        out.push("CHAP_N", &policy.initiator.name);
        out.push("CHAP_R", &text::hex(&response));
        if policy.target.is_some() {
            out.push("CHAP_I", &self.id.to_string());
            out.push("CHAP_C", &text::hex(&self.challenge));
        }
        self.progress = ProofProgress::Responded(algorithm);
        Ok(())
    }

    fn take_proof(
        &mut self,
        algorithm: ChapAlgorithm,
        name: Option<&str>,
        response: Option<&str>,
    ) -> Result<(), ProtocolError> {
        let target = self.policy.as_ref().and_then(|policy| policy.target.as_ref());
        let wrong = ProtocolError::Authentication("its name or secret is wrong");
        let Some(target) = target else { return Ok(()) };
        let response = response.and_then(|text| text::binary(text, MAX_BINARY)).unwrap_or_default();
        let right = chap::respond(algorithm, self.id, &target.secret, &self.challenge);
        let name = name.unwrap_or_default();
        let any = target.name.is_empty();
        let same_name = any | chap::is_same(name.as_bytes(), target.name.as_bytes());
        match chap::is_same(&response, &right) & same_name {
            true => {
                self.progress = ProofProgress::Done;
                Ok(())
            }
            false => Err(wrong),
        }
    }
}
