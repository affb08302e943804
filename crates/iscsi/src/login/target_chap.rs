//! The target's side of the security stage (RFC 7143 12.1).

use super::refusal::LoginRefusal;
use crate::chap::{self, MAX_BINARY, MIN_CHALLENGE};
use crate::secret::ChapSecret;
use crate::settings::{ChapAlgorithm, ChapDemand};
use crate::text::{self, TextWriter};

/// How far the authentication is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// AuthMethod is not settled.
    Open,
    /// AuthMethod is CHAP; the initiator names algorithms next.
    Chap,
    /// The challenge is out.
    Challenged(ChapAlgorithm),
    /// The initiator has proved itself, or need not.
    Done,
}

/// The authentication of one login.
#[derive(Debug)]
pub(super) struct TargetAuthentication {
    demand: Option<ChapDemand>,
    /// The name of the account that the initiator has proved.
    user: Option<String>,
    progress: Progress,
    id: u8,
    challenge: [u8; 32],
}

/// The pairs of CHAP in one text.
#[derive(Default)]
struct ChapPairs<'a> {
    algorithms: Option<&'a str>,
    name: Option<&'a str>,
    response: Option<&'a str>,
    id: Option<&'a str>,
    challenge: Option<&'a str>,
    method: Option<&'a str>,
}

impl<'a> ChapPairs<'a> {
    /// Sorts the pairs; pairs of no meaning here are answered.
    fn of(pairs: &[(&'a str, &'a str)], out: &mut TextWriter) -> Result<Self, LoginRefusal> {
        let mut found = Self::default();
        for (key, value) in pairs {
            let place = match *key {
                "AuthMethod" => &mut found.method,
                "CHAP_A" => &mut found.algorithms,
                "CHAP_N" => &mut found.name,
                "CHAP_R" => &mut found.response,
                "CHAP_I" => &mut found.id,
                "CHAP_C" => &mut found.challenge,
                "InitiatorName" | "InitiatorAlias" | "TargetName" | "SessionType" => continue,
                "HeaderDigest" | "DataDigest" | "MaxRecvDataSegmentLength" | "SendTargets" => {
                    return Err(LoginRefusal::breach("a key is in the wrong stage"));
                }
                _ => {
                    out.push(key, "NotUnderstood");
                    continue;
                }
            };
            if place.replace(value).is_some() {
                return Err(LoginRefusal::breach("a key is there twice"));
            }
        }
        Ok(found)
    }
}

impl TargetAuthentication {
    pub(super) fn new(random: &[u8; 33]) -> Self {
        let [id, challenge @ ..] = *random;
        Self { demand: None, user: None, progress: Progress::Open, id, challenge }
    }

    /// Sets what the initiator has to prove. `None` if the secrets of both ends are the same, which
    /// RFC 7143 9.2.1 forbids.
    pub(super) fn set_demand(&mut self, demand: Option<ChapDemand>) -> Option<()> {
        let own = demand.as_ref().and_then(|demand| Some((demand, demand.target.as_ref()?)));
        let same = own.is_some_and(|(demand, own)| {
            demand.accounts.iter().any(|account| account.secret.is_same(&own.secret))
        });
        self.demand = demand;
        (!same).then_some(())
    }

    /// The name with which the initiator has proved itself.
    pub(super) fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// Overwrites the secrets.
    pub(super) fn forget(&mut self) {
        self.demand = None;
    }

    /// Whether the login may go on without the security stage, or has passed it.
    pub(super) fn may_be_skipped(&self) -> bool {
        self.demand.is_none() || self.progress == Progress::Done
    }

    /// Whether the stage may end, if the initiator wants it to.
    pub(super) fn check_transit(&mut self, wanted: bool) -> Result<bool, LoginRefusal> {
        match self.progress {
            Progress::Done => Ok(true),
            // RFC 7143 6.3.1: without an offer there is no authentication.
            Progress::Open if self.demand.is_none() => Ok(true),
            Progress::Open if wanted => {
                Err(LoginRefusal::authentication("it offered no method of authentication"))
            }
            _ => Ok(false),
        }
    }

    /// Takes the pairs of a text.
    pub(super) fn take(
        &mut self,
        pairs: &[(&str, &str)],
        out: &mut TextWriter,
    ) -> Result<(), LoginRefusal> {
        let pairs = ChapPairs::of(pairs, out)?;
        if let Some(methods) = pairs.method {
            if self.progress != Progress::Open {
                return Err(LoginRefusal::breach("a key is there twice"));
            }
            return self.take_method(methods, out);
        }
        match self.progress {
            Progress::Chap => self.take_algorithms(pairs.algorithms, out),
            Progress::Challenged(algorithm) => self.take_response(algorithm, &pairs, out),
            Progress::Open | Progress::Done if pairs.algorithms.or(pairs.response).is_some() => {
                Err(LoginRefusal::breach("a key is in the wrong place"))
            }
            Progress::Open | Progress::Done => Ok(()),
        }
    }

    /// RFC 7143 6.3.2: the method that the target wants.
    fn take_method(&mut self, methods: &str, out: &mut TextWriter) -> Result<(), LoginRefusal> {
        let (wanted, progress) = match self.demand {
            Some(_) => ("CHAP", Progress::Chap),
            None => ("None", Progress::Done),
        };
        if !methods.split(',').any(|method| method == wanted) {
            return Err(LoginRefusal::authentication("it has not the method that is asked for"));
        }
        out.push("AuthMethod", wanted);
        self.progress = progress;
        Ok(())
    }

    /// RFC 7143 12.1.3: the first algorithm of the initiator's list that the target allows.
    fn take_algorithms(
        &mut self,
        list: Option<&str>,
        out: &mut TextWriter,
    ) -> Result<(), LoginRefusal> {
        let (Some(list), Some(demand)) = (list, &self.demand) else {
            return Err(LoginRefusal::breach("CHAP_A is missing"));
        };
        let known = |code| demand.algorithms.iter().find(|known| known.code() == code);
        let Some(algorithm) = list.split(',').filter_map(text::number).find_map(known) else {
            return Err(LoginRefusal::authentication("it has no algorithm that is allowed"));
        };
        out.push("CHAP_A", &algorithm.code().to_string());
        out.push("CHAP_I", &self.id.to_string());
        out.push("CHAP_C", &text::hex(&self.challenge));
        self.progress = Progress::Challenged(*algorithm);
        Ok(())
    }

    fn take_response(
        &mut self,
        algorithm: ChapAlgorithm,
        pairs: &ChapPairs<'_>,
        out: &mut TextWriter,
    ) -> Result<(), LoginRefusal> {
        let (Some(name), Some(response), Some(demand)) = (pairs.name, pairs.response, &self.demand)
        else {
            return Err(LoginRefusal::breach("CHAP_N or CHAP_R is missing"));
        };
        let wrong = || LoginRefusal::authentication("its name or secret is wrong");
        let response = text::binary(response, MAX_BINARY).ok_or_else(wrong)?;
        // Each name and one secret are compared in any case: the time does not tell what was wrong.
        let nobody = ChapSecret::new(&self.challenge);
        let mut found = None;
        for account in &demand.accounts {
            if chap::is_same(name.as_bytes(), account.name.as_bytes()) {
                found = Some(account);
            }
        }
        let secret = found.map_or(&nobody, |account| &account.secret);
        let right = chap::respond(algorithm, self.id, secret, &self.challenge);
        if !(chap::is_same(&response, &right) & found.is_some()) {
            return Err(wrong());
        }
        let user = found.map(|account| account.name.clone());
        if pairs.id.or(pairs.challenge).is_some() {
            self.prove(algorithm, pairs, out)?;
        }
        self.user = user;
        self.progress = Progress::Done;
        Ok(())
    }

    /// The initiator wants a proof as well.
    fn prove(
        &self,
        algorithm: ChapAlgorithm,
        pairs: &ChapPairs<'_>,
        out: &mut TextWriter,
    ) -> Result<(), LoginRefusal> {
        let id = pairs.id.and_then(text::number).and_then(|id| u8::try_from(id).ok());
        let challenge = pairs.challenge.and_then(|text| text::binary(text, MAX_BINARY));
        let (Some(id), Some(challenge)) = (id, challenge) else {
            return Err(LoginRefusal::breach("CHAP_I or CHAP_C is malformed"));
        };
        // RFC 7143 9.2.1: a reflected challenge is refused.
        if challenge.len() < MIN_CHALLENGE || chap::is_same(&challenge, &self.challenge) {
            return Err(LoginRefusal::authentication("it sent the target's own challenge back"));
        }
        let Some(own) = self.demand.as_ref().and_then(|demand| demand.target.as_ref()) else {
            return Err(LoginRefusal::authentication("it wants a proof that the target has not"));
        };
        out.push("CHAP_N", &own.name);
        let response = chap::respond(algorithm, id, &own.secret, &challenge);
        out.push("CHAP_R", &text::hex(&response));
        Ok(())
    }
}
