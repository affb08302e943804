//! Who may use a target.
//!
//! A rule names peers and gives them units. It fits a peer that has all that it names. What a peer
//! may do is the sum of the rules that fit, so their order means nothing. Without rules and users
//! everybody may do everything.
//!
//! A target judges twice. When an initiator comes, its address and the name that it says are known:
//! then the policy says whether it may go on, and what it has to prove. When it has proved that,
//! the policy says what it may do.

mod network;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::net::IpAddr;

use iscsi::IscsiName;
use iscsi::settings::{ChapAccount, ChapAlgorithm, ChapDemand};
use scsi::{LunNumber, UnitRight, UnitRights};

pub use self::network::{Network, NetworkError};

/// Who an initiator is, as far as a target knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// Where it comes from.
    pub address: IpAddr,
    /// The name that it says. Only a proof makes more of it than an allegation.
    pub initiator: IscsiName,
    /// The name that it has proved by CHAP.
    pub user: Option<String>,
    /// Who it is by its transport: the names of its certificate, and the fingerprint of its key.
    pub identities: Vec<String>,
}

/// Gives units to some peers. An empty list names every peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessRule {
    /// Names that initiators say.
    pub initiators: Vec<IscsiName>,
    /// Addresses.
    pub addresses: Vec<Network>,
    /// Names proved by CHAP.
    pub users: Vec<String>,
    /// Names of certificates, or fingerprints of keys, proved by the transport.
    pub identities: Vec<String>,
    /// The units; `None`: all, also those that come later.
    pub luns: Option<BTreeSet<LunNumber>>,
    /// What may be done with them.
    pub right: UnitRight,
}

/// Who may use a target, and how a user proves to be one.
#[derive(Debug, Clone, Default)]
pub struct AccessPolicy {
    /// The rules. Without any, every user may do everything.
    pub rules: Vec<AccessRule>,
    /// The users. Their names and those in rules are the same set.
    pub users: Vec<ChapAccount>,
    /// How the target proves itself to an initiator that asks for it.
    pub target: Option<ChapAccount>,
    /// CHAP with MD5 is allowed as well.
    pub md5: bool,
}

/// What an initiator that wants to log in hears.
#[derive(Debug, Clone)]
pub(crate) enum Judgement {
    /// It may use the target.
    Welcome,
    /// It may if it proves to be one of these users.
    Prove(ChapDemand),
    /// No rule fits it.
    Stranger,
}

impl AccessRule {
    /// Whether the rule fits, apart from users.
    fn fits_unproved(&self, peer: &Peer) -> bool {
        let address = peer.address;
        (self.initiators.is_empty() || self.initiators.contains(&peer.initiator))
            && (self.addresses.is_empty() || self.addresses.iter().any(|net| net.contains(address)))
            && (self.identities.is_empty()
                || peer.identities.iter().any(|one| self.identities.contains(one)))
    }

    fn fits(&self, peer: &Peer) -> bool {
        let user = peer.user.as_ref();
        self.fits_unproved(peer)
            && (self.users.is_empty() || user.is_some_and(|user| self.users.contains(user)))
    }
}

impl AccessPolicy {
    /// Whether everybody may do everything.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.rules.is_empty() && self.users.is_empty()
    }

    /// Whether it has secrets.
    #[must_use]
    pub fn has_secrets(&self) -> bool {
        !self.users.is_empty() || self.target.is_some()
    }

    /// May a peer that has proved nothing by CHAP yet go on?
    pub(crate) fn judge(&self, peer: &Peer) -> Judgement {
        if self.is_open() {
            return Judgement::Welcome;
        }
        let fitting: Vec<_> = self.rules.iter().filter(|rule| rule.fits_unproved(peer)).collect();
        if fitting.is_empty() && !self.rules.is_empty() {
            return Judgement::Stranger;
        }
        let may_come = |user: &&ChapAccount| {
            self.rules.is_empty() || fitting.iter().any(|rule| rule.users.contains(&user.name))
        };
        let accounts: Vec<ChapAccount> = self.users.iter().filter(may_come).cloned().collect();
        if accounts.is_empty() {
            return Judgement::Welcome;
        }
        let md5 = self.md5.then_some(ChapAlgorithm::Md5);
        let algorithms = [ChapAlgorithm::Sha256, ChapAlgorithm::Sha3_256].into_iter().chain(md5);
        Judgement::Prove(ChapDemand {
            accounts,
            target: self.target.clone(),
            algorithms: algorithms.collect(),
        })
    }

    /// May the session of a peer go on, which the policy `before` has let in? It proves nothing
    /// again, so the secret that it has proved has to be the one of now.
    pub(crate) fn still_takes(&self, peer: &Peer, before: &Self) -> bool {
        let secret = |policy: &Self| {
            let account = policy.users.iter().find(|user| Some(&user.name) == peer.user.as_ref());
            account.map(|account| account.secret.clone())
        };
        match self.judge(peer) {
            Judgement::Welcome => true,
            Judgement::Stranger => false,
            Judgement::Prove(demand) => {
                let is_peer = |one: &ChapAccount| Some(&one.name) == peer.user.as_ref();
                let secrets = secret(self).zip(secret(before));
                demand.accounts.iter().any(is_peer)
                    && secrets.is_some_and(|(now, was)| now.is_same(&was))
            }
        }
    }

    /// What a peer may do that has proved what it had to.
    pub(crate) fn rights(&self, peer: &Peer) -> UnitRights {
        if self.rules.is_empty() {
            return UnitRights::EVERYTHING;
        }
        let mut rights = UnitRights::NONE;
        for rule in self.rules.iter().filter(|rule| rule.fits(peer)) {
            match &rule.luns {
                None => rights.grant_all(rule.right),
                Some(luns) => luns.iter().for_each(|lun| rights.grant(*lun, rule.right)),
            }
        }
        rights
    }
}
