//! Security associations and policies, as the operator names them.
//!
//! The core holds what it needs for packets. This module keeps the words of each association, so
//! that it can be listed, and turns them into what the core takes. The ciphers come from the owner
//! of the server ([`MakeCipher`]).

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use abi::xfrm::{
    XfrmAction, XfrmAlgorithms, XfrmDirection, XfrmId, XfrmLimits, XfrmMode, XfrmPolicy,
    XfrmRequest, XfrmSelector, XfrmState, XfrmStateStatus, XfrmStatus, XfrmTemplate, XfrmVectors,
};
use inet::{
    Cidr, EspCipher, EspMode, EspNoticeKind, EspSelector, Instant, SaAge, SaConfig, SaId, SaInfo,
    SaLifetimes, SpAction, SpConfig, SpDirection, SpTemplate,
};

use crate::engine::Engine;

/// Makes the cipher of an association for packets from one address to the other, with the vectors
/// that are reserved for it. The error is one sentence.
pub type MakeCipher =
    fn(&XfrmAlgorithms, Option<XfrmVectors>, IpAddr, IpAddr) -> Result<Box<dyn EspCipher>, String>;

/// Why a request about associations or policies is refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum XfrmRefusal {
    #[error("this process has no ciphers: use mode split or fused")]
    NoCiphers,
    #[error("{0}")]
    Cipher(String),
    #[error(
        "the association with spi {0:#x} has the same key: each association needs a key of its own"
    )]
    SameKey(u32),
    #[error("there is an association for {dst} with spi {spi:#x} already: delete it first")]
    StateExists { dst: IpAddr, spi: u32 },
    #[error("there is no association for {dst} with spi {spi:#x}: see `tasuki xfrm state list`")]
    NoState { dst: IpAddr, spi: u32 },
    #[error(
        "such an association cannot be: spi is 256 or more, src and dst are of one family, \
         replay-window is 32 to 4096, or 0 without esn"
    )]
    BadState,
    #[error("there is a policy for this direction and selector already: delete it first")]
    PolicyExists,
    #[error("there is no such policy: see `tasuki xfrm policy list`")]
    NoPolicy,
    #[error(
        "such a policy cannot be: src and dst are of one family, ports need proto, and tmpl in \
         mode tunnel needs src and dst"
    )]
    BadPolicy,
    #[error("there are too many")]
    TooMany,
}

/// The associations by their names, with their keys.
#[derive(Default)]
pub(crate) struct XfrmTable {
    states: HashMap<XfrmId, XfrmState>,
    make: Option<MakeCipher>,
}

impl XfrmTable {
    /// Lets associations be added, with ciphers from `make`.
    pub(crate) fn use_ciphers(&mut self, make: MakeCipher) {
        self.make = Some(make);
    }

    /// Carries out a request, for which vectors may be reserved. The answer is `Some` for a list.
    pub(crate) fn request(
        &mut self,
        engine: &mut Engine,
        now: Instant,
        (request, vectors): (XfrmRequest, Option<XfrmVectors>),
    ) -> Result<Option<XfrmStatus>, XfrmRefusal> {
        match request {
            XfrmRequest::AddState(state) => self.add_state(engine, now, *state, vectors)?,
            XfrmRequest::DeleteState(id) => self.delete_state(engine, id)?,
            XfrmRequest::FlushStates => {
                let all: Vec<XfrmId> = self.states.keys().copied().collect();
                all.into_iter().try_for_each(|id| self.delete_state(engine, id))?;
            }
            XfrmRequest::AddPolicy(policy) => add_policy(engine, &policy)?,
            XfrmRequest::DeletePolicy { dir, sel } => {
                let removed = engine.stack.remove_policy(direction(dir), &selector(&sel));
                removed.map_err(|_| XfrmRefusal::NoPolicy)?;
            }
            XfrmRequest::FlushPolicies => engine.stack.clear_policies(),
            XfrmRequest::List { keys } => return Ok(Some(self.status(engine, now, keys))),
        }
        Ok(None)
    }

    fn add_state(
        &mut self,
        engine: &mut Engine,
        now: Instant,
        state: XfrmState,
        vectors: Option<XfrmVectors>,
    ) -> Result<(), XfrmRefusal> {
        let (id, src) = (state.id, state.src);
        if self.states.contains_key(&id) {
            return Err(XfrmRefusal::StateExists { dst: id.dst, spi: id.spi });
        }
        // RFC 4301 4.4.2.1: each association has a key of its own.
        let same = self.states.values().find(|other| {
            let key = |one: &XfrmState| one.algorithms.aead.clone().and_then(|aead| aead.key);
            let forward = |one: &XfrmState| one.src > one.id.dst;
            key(other).is_some() && key(other) == key(&state) && forward(other) == forward(&state)
        });
        if let Some(other) = same {
            return Err(XfrmRefusal::SameKey(other.id.spi));
        }
        let make = self.make.ok_or(XfrmRefusal::NoCiphers)?;
        let cipher = make(&state.algorithms, vectors, src, id.dst).map_err(XfrmRefusal::Cipher)?;
        let config = SaConfig {
            id: sa_id(id),
            source: src,
            reqid: state.reqid,
            mode: mode(state.mode),
            cipher,
            replay_window: state.replay_window,
            extended: state.esn,
            sent: state.oseq,
            received: state.seq,
            lifetimes: lifetimes(&state.limits),
            selector: state.sel.as_ref().map(selector),
            padded_to: state.tfcpad,
        };
        let added = engine.stack.add_association(now, config);
        added.map_err(|error| match error {
            inet::Error::NoBuffers => XfrmRefusal::TooMany,
            _ => XfrmRefusal::BadState,
        })?;
        self.states.insert(id, state);
        Ok(())
    }

    fn delete_state(&mut self, engine: &mut Engine, id: XfrmId) -> Result<(), XfrmRefusal> {
        let none = XfrmRefusal::NoState { dst: id.dst, spi: id.spi };
        self.states.remove(&id).ok_or(none)?;
        // The core has it as long as it is here.
        let _ = engine.stack.remove_association(&sa_id(id));
        Ok(())
    }

    fn status(&self, engine: &Engine, now: Instant, keys: bool) -> XfrmStatus {
        let known = engine.stack.associations().filter_map(|info| {
            let id = XfrmId { dst: info.id.destination, spi: info.id.spi };
            Some(state_status(self.states.get(&id)?, &info, now, keys))
        });
        let mut states: Vec<_> = known.collect();
        states.sort_by_key(|status| (status.state.id.spi, status.state.id.dst));
        XfrmStatus { states, policies: engine.stack.policies().map(policy_status).collect() }
    }
}

/// Logs what has happened to associations.
pub(crate) fn log_notices(engine: &mut Engine) {
    while let Some(notice) = engine.stack.poll_esp_notice() {
        let (spi, dst) = (format_args!("{:#x}", notice.id.spi), notice.id.destination);
        let what = match notice.kind {
            EspNoticeKind::Dying => "a soft limit is passed; add another association soon",
            EspNoticeKind::Expired => {
                "a hard limit is passed; the association is not used any more"
            }
            EspNoticeKind::SequenceExhausted => "there is no sequence number left",
            EspNoticeKind::KeyExhausted => "its key must not encrypt any more",
        };
        tracing::warn!(%spi, %dst, "association of ESP: {what}");
    }
}

fn add_policy(engine: &mut Engine, policy: &XfrmPolicy) -> Result<(), XfrmRefusal> {
    let action = match policy.action {
        XfrmAction::Block => SpAction::Discard,
        XfrmAction::Allow => SpAction::Bypass,
        XfrmAction::Protect(XfrmTemplate { ends, spi, reqid, mode: m, optional }) => {
            SpAction::Protect(SpTemplate { mode: mode(m), reqid, spi, ends, optional })
        }
    };
    let config = SpConfig {
        direction: direction(policy.dir),
        selector: selector(&policy.sel),
        priority: policy.priority,
        action,
    };
    engine.stack.add_policy(config).map_err(|error| match error {
        inet::Error::AddrInUse => XfrmRefusal::PolicyExists,
        inet::Error::NoBuffers => XfrmRefusal::TooMany,
        _ => XfrmRefusal::BadPolicy,
    })
}

fn sa_id(id: XfrmId) -> SaId {
    SaId { spi: id.spi, destination: id.dst }
}

fn mode(mode: XfrmMode) -> EspMode {
    match mode {
        XfrmMode::Transport => EspMode::Transport,
        XfrmMode::Tunnel => EspMode::Tunnel,
    }
}

fn direction(dir: XfrmDirection) -> SpDirection {
    match dir {
        XfrmDirection::In => SpDirection::In,
        XfrmDirection::Out => SpDirection::Out,
    }
}

fn selector(sel: &XfrmSelector) -> EspSelector {
    EspSelector {
        source: Cidr::new(sel.src.address, sel.src.prefix),
        destination: Cidr::new(sel.dst.address, sel.dst.prefix),
        protocol: sel.proto,
        source_port: sel.sport,
        destination_port: sel.dport,
    }
}

fn lifetimes(limits: &XfrmLimits) -> SaLifetimes {
    let seconds = |limit: Option<u64>| limit.map(Duration::from_secs);
    SaLifetimes {
        soft_bytes: limits.byte_soft,
        hard_bytes: limits.byte_hard,
        soft_packets: limits.packet_soft,
        hard_packets: limits.packet_hard,
        soft_time: seconds(limits.time_soft),
        hard_time: seconds(limits.time_hard),
        soft_use: seconds(limits.time_use_soft),
        hard_use: seconds(limits.time_use_hard),
    }
}

fn state_status(state: &XfrmState, info: &SaInfo, now: Instant, keys: bool) -> XfrmStateStatus {
    let algorithms = match keys {
        true => state.algorithms.clone(),
        false => state.algorithms.without_keys(),
    };
    let age = match info.age {
        SaAge::Valid => "valid",
        SaAge::Dying => "dying",
        SaAge::Expired => "expired",
    };
    XfrmStateStatus {
        state: XfrmState { seq: info.received, oseq: info.sent, algorithms, ..state.clone() },
        age: age.to_owned(),
        bytes: info.usage.bytes,
        packets: info.usage.packets,
        added: (now - info.usage.added).as_secs(),
        used: info.usage.first_used.map(|first| (now - first).as_secs()),
        replay: info.replays,
        failed: info.failures,
    }
}

fn policy_status(config: &SpConfig) -> XfrmPolicy {
    let network =
        |cidr: Cidr| abi::network::Prefixed { address: cidr.address, prefix: cidr.prefix };
    let words = match config.action {
        SpAction::Discard => XfrmAction::Block,
        SpAction::Bypass => XfrmAction::Allow,
        SpAction::Protect(SpTemplate { mode, reqid, spi, ends, optional }) => {
            let mode = match mode {
                EspMode::Transport => XfrmMode::Transport,
                EspMode::Tunnel => XfrmMode::Tunnel,
            };
            XfrmAction::Protect(XfrmTemplate { ends, spi, reqid, mode, optional })
        }
    };
    let EspSelector { source, destination, protocol, source_port, destination_port } =
        config.selector;
    XfrmPolicy {
        dir: match config.direction {
            SpDirection::In => XfrmDirection::In,
            SpDirection::Out => XfrmDirection::Out,
        },
        sel: XfrmSelector {
            src: network(source),
            dst: network(destination),
            proto: protocol,
            sport: source_port,
            dport: destination_port,
        },
        priority: config.priority,
        action: words,
    }
}
