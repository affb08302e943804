//! Who may use a target, as `tasuki target reload` tells it.

use std::fmt;

use serde::{Deserialize, Serialize};
use storage::{AccessPolicy, AccessRule, ChapAccount, ChapSecret, LunNumber, UnitRight};
use zeroize::Zeroize as _;

/// A policy.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct AccessMessage {
    rules: Vec<RuleMessage>,
    users: Vec<AccountMessage>,
    target: Option<AccountMessage>,
    md5: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct RuleMessage {
    initiators: Vec<String>,
    addresses: Vec<String>,
    users: Vec<String>,
    identities: Vec<String>,
    luns: Option<Vec<u16>>,
    writes: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct AccountMessage {
    name: String,
    secret: SecretMessage,
}

/// A secret, which is overwritten when it is dropped.
#[derive(Serialize, Deserialize)]
#[serde(transparent)]
struct SecretMessage(Vec<u8>);

impl fmt::Debug for SecretMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretMessage(…)")
    }
}

impl Drop for SecretMessage {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl From<&ChapAccount> for AccountMessage {
    fn from(account: &ChapAccount) -> Self {
        let secret = SecretMessage(account.secret.bytes().to_vec());
        Self { name: account.name.clone(), secret }
    }
}

impl From<&AccountMessage> for ChapAccount {
    fn from(account: &AccountMessage) -> Self {
        Self { name: account.name.clone(), secret: ChapSecret::new(&account.secret.0) }
    }
}

fn words<T: ToString>(all: &[T]) -> Vec<String> {
    all.iter().map(T::to_string).collect()
}

fn parsed<T: std::str::FromStr<Err: fmt::Display>>(all: &[String]) -> Result<Vec<T>, String> {
    all.iter().map(|word| word.parse().map_err(|error: T::Err| error.to_string())).collect()
}

impl From<&AccessPolicy> for AccessMessage {
    fn from(policy: &AccessPolicy) -> Self {
        let rule = |rule: &AccessRule| RuleMessage {
            initiators: words(&rule.initiators),
            addresses: words(&rule.addresses),
            users: rule.users.clone(),
            identities: rule.identities.clone(),
            luns: rule.luns.as_ref().map(|luns| luns.iter().map(|lun| lun.get()).collect()),
            writes: rule.right == UnitRight::Write,
        };
        Self {
            rules: policy.rules.iter().map(rule).collect(),
            users: policy.users.iter().map(AccountMessage::from).collect(),
            target: policy.target.as_ref().map(AccountMessage::from),
            md5: policy.md5,
        }
    }
}

impl AccessMessage {
    /// The policy.
    ///
    /// # Errors
    /// One sentence: it is none.
    pub(super) fn policy(&self) -> Result<AccessPolicy, String> {
        let rule = |rule: &RuleMessage| {
            Ok::<_, String>(AccessRule {
                initiators: parsed(&rule.initiators)?,
                addresses: parsed(&rule.addresses)?,
                users: rule.users.clone(),
                identities: rule.identities.clone(),
                luns: rule
                    .luns
                    .as_ref()
                    .map(|luns| luns.iter().filter_map(|lun| LunNumber::new(*lun)).collect()),
                right: if rule.writes { UnitRight::Write } else { UnitRight::Read },
            })
        };
        Ok(AccessPolicy {
            rules: self.rules.iter().map(rule).collect::<Result<_, _>>()?,
            users: self.users.iter().map(ChapAccount::from).collect(),
            target: self.target.as_ref().map(ChapAccount::from),
            md5: self.md5,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_what_it_was() {
        let account = |name: &str| ChapAccount {
            name: name.to_owned(),
            secret: ChapSecret::new(format!("secret of {name}").as_bytes()),
        };
        let policy = AccessPolicy {
            rules: vec![AccessRule {
                initiators: vec!["iqn.2026-01.example:a".parse().unwrap()],
                addresses: vec!["10.9.0.0/24".parse().unwrap(), "fd00::1".parse().unwrap()],
                users: vec!["alice".to_owned()],
                identities: vec!["a.example".to_owned()],
                luns: Some(LunNumber::new(7).into_iter().collect()),
                right: UnitRight::Read,
            }],
            users: vec![account("alice"), account("bob")],
            target: Some(account("disks")),
            md5: true,
        };
        let message = AccessMessage::from(&policy);
        assert!(!format!("{message:?}").contains("115, 101"), "no secret is shown");
        let line = serde_json::to_vec(&message).unwrap();
        let come: AccessMessage = serde_json::from_slice(&line).unwrap();
        let come = come.policy().unwrap();
        assert_eq!(come.rules, policy.rules);
        assert!(come.md5 && come.users[1].secret.is_same(&policy.users[1].secret));
        assert_eq!(come.target.map(|own| own.name).as_deref(), Some("disks"));
    }
}
