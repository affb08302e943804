//! `[[xfrm.state]]` and `[[xfrm.policy]]`: security associations and policies.

use std::path::PathBuf;

use abi::xfrm::{
    XfrmAction, XfrmAlgorithm, XfrmAlgorithms, XfrmDirection, XfrmId, XfrmKey, XfrmLimits,
    XfrmMode, XfrmPolicy, XfrmRequest, XfrmSelector, XfrmState, XfrmTemplate,
};
use serde::Deserialize;

use crate::xfrm::{Address, Network, Protocol, key_in_file, new_selector};

/// Both kinds of tables.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct XfrmSection {
    state: Vec<StateSection>,
    policy: Vec<PolicySection>,
}

/// One of `[[xfrm.state]]`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct StateSection {
    src: Address,
    dst: Address,
    spi: u32,
    #[serde(default)]
    mode: XfrmMode,
    #[serde(default)]
    reqid: u32,
    aead: Option<AlgorithmKey>,
    enc: Option<AlgorithmKey>,
    auth: Option<AlgorithmKey>,
    #[serde(default)]
    insecure: bool,
    #[serde(default)]
    replay_window: u32,
    #[serde(default)]
    esn: bool,
    #[serde(default)]
    limits: XfrmLimits,
    sel: Option<SelectorKey>,
    #[serde(default)]
    tfcpad: u16,
}

/// An algorithm, with its key or the file that has it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct AlgorithmKey {
    name: String,
    key: Option<XfrmKey>,
    key_file: Option<PathBuf>,
    icv: Option<u16>,
}

/// A selector.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct SelectorKey {
    src: Option<Network>,
    dst: Option<Network>,
    proto: Option<Protocol>,
    sport: Option<u16>,
    dport: Option<u16>,
}

/// One of `[[xfrm.policy]]`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct PolicySection {
    dir: XfrmDirection,
    sel: SelectorKey,
    #[serde(default)]
    priority: u32,
    #[serde(default)]
    action: ActionKey,
    tmpl: Option<TemplateKey>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ActionKey {
    #[default]
    Allow,
    Block,
}

/// The association that a policy asks for.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct TemplateKey {
    src: Option<Address>,
    dst: Option<Address>,
    spi: Option<u32>,
    #[serde(default)]
    reqid: u32,
    #[serde(default)]
    mode: XfrmMode,
    #[serde(default)]
    level: LevelKey,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum LevelKey {
    #[default]
    Required,
    Use,
}

impl XfrmSection {
    /// Whether the file itself has a key.
    pub(crate) fn has_keys(&self) -> bool {
        let algorithms = |state: &StateSection| {
            [&state.aead, &state.enc, &state.auth]
                .map(|one| one.as_ref().and_then(|a| a.key.clone()))
        };
        let mut keys = self.state.iter().flat_map(algorithms).flatten();
        keys.any(|key| !key.bytes().is_empty())
    }

    /// What the inet server is asked for: policies first, so that nothing passes unprotected.
    /// `possible`: it has ciphers.
    ///
    /// # Errors
    /// A sentence, such as that a key's file cannot be read.
    pub(crate) fn requests(self, possible: bool) -> Result<Vec<XfrmRequest>, String> {
        let asked = !self.state.is_empty() || !self.policy.is_empty();
        if asked && !possible {
            return Err("xfrm: in mode library there is no ESP; use mode split or fused".to_owned());
        }
        let policies = self.policy.into_iter().map(|policy| {
            policy
                .policy()
                .map(XfrmRequest::AddPolicy)
                .map_err(|what| format!("xfrm.policy: {what}"))
        });
        let states = self.state.into_iter().map(|state| {
            let spi = state.spi;
            let state = state.state().map_err(|what| format!("xfrm.state {spi:#x}: {what}"))?;
            Ok(XfrmRequest::AddState(Box::new(state)))
        });
        policies.chain(states).collect()
    }
}

impl SelectorKey {
    fn selector(self) -> Result<XfrmSelector, String> {
        let Self { src, dst, proto, sport, dport } = self;
        new_selector((src, dst), proto, sport, dport)
    }
}

impl AlgorithmKey {
    fn algorithm(self) -> Result<XfrmAlgorithm, String> {
        let Self { name, key, key_file, icv } = self;
        let key = match (key, key_file) {
            (Some(_), Some(_)) => return Err(format!("{name} has both key and key_file")),
            (Some(key), None) => key,
            (None, Some(path)) => key_in_file(&path)?,
            (None, None) => XfrmKey::new(Vec::new()),
        };
        Ok(XfrmAlgorithm { name, key: Some(key), icv })
    }
}

impl StateSection {
    fn state(self) -> Result<XfrmState, String> {
        let algorithm = |one: Option<AlgorithmKey>| one.map(AlgorithmKey::algorithm).transpose();
        Ok(XfrmState {
            src: self.src.0,
            id: XfrmId { dst: self.dst.0, spi: self.spi },
            reqid: self.reqid,
            mode: self.mode,
            algorithms: XfrmAlgorithms {
                aead: algorithm(self.aead)?,
                enc: algorithm(self.enc)?,
                auth: algorithm(self.auth)?,
                insecure: self.insecure,
            },
            replay_window: self.replay_window,
            esn: self.esn,
            seq: 0,
            oseq: 0,
            limits: self.limits,
            sel: self.sel.map(SelectorKey::selector).transpose()?,
            tfcpad: self.tfcpad,
        })
    }
}

impl PolicySection {
    fn policy(self) -> Result<XfrmPolicy, String> {
        let action = match (self.action, self.tmpl) {
            (ActionKey::Block, None) => XfrmAction::Block,
            (ActionKey::Block, Some(_)) => return Err("a policy that blocks has no tmpl".into()),
            (ActionKey::Allow, None) => XfrmAction::Allow,
            (ActionKey::Allow, Some(tmpl)) => XfrmAction::Protect(tmpl.template()?),
        };
        Ok(XfrmPolicy { dir: self.dir, sel: self.sel.selector()?, priority: self.priority, action })
    }
}

impl TemplateKey {
    fn template(self) -> Result<XfrmTemplate, String> {
        let ends = match (self.src, self.dst) {
            (Some(src), Some(dst)) => Some((src.0, dst.0)),
            (None, None) => None,
            _ => return Err("tmpl has both src and dst, or neither".to_owned()),
        };
        let optional = self.level == LevelKey::Use;
        Ok(XfrmTemplate { ends, spi: self.spi, reqid: self.reqid, mode: self.mode, optional })
    }
}
