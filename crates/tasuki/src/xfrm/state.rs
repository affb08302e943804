//! Associations out of words.

use abi::xfrm::{
    XfrmAlgorithm, XfrmAlgorithms, XfrmId, XfrmKey, XfrmLimits, XfrmMode, XfrmSelector, XfrmState,
};

use super::key::key;
use super::policy::{Address, SelectorParts, mode, protocol};
use super::words::{XfrmWords, unexpected};

const KNOWN: &str = "src, dst, proto, spi, mode, reqid, aead, enc, auth, auth-trunc, \
                     replay-window, replay-seq, replay-oseq, replay-seq-hi, replay-oseq-hi, flag, \
                     limit, sel and tfcpad";

/// Names the parts of an association, as far as they were given.
#[derive(Debug, Default)]
struct StateParts {
    src: Option<Address>,
    dst: Option<Address>,
    spi: Option<u32>,
    mode: XfrmMode,
    reqid: u32,
    algorithms: XfrmAlgorithms,
    replay_window: u32,
    esn: bool,
    /// Lower and upper half.
    seq: (u32, u32),
    oseq: (u32, u32),
    limits: XfrmLimits,
    sel: Option<XfrmSelector>,
    tfcpad: u16,
}

/// An association out of its words. `insecure`: algorithms are allowed that protect too little.
///
/// # Errors
/// A sentence, which contains no key.
pub(crate) fn parse_state(all: &[String], insecure: bool) -> Result<XfrmState, String> {
    let mut words = XfrmWords::new(all);
    let mut parts = StateParts::default();
    while let Some(word) = words.next() {
        parts.take(word, &mut words)?;
    }
    let (Some(src), Some(dst), Some(spi)) = (parts.src, parts.dst, parts.spi) else {
        return Err("an association needs src, dst and spi".to_owned());
    };
    let whole = |(low, high): (u32, u32)| u64::from(high) << 32 | u64::from(low);
    Ok(XfrmState {
        src: src.0,
        id: XfrmId { dst: dst.0, spi },
        reqid: parts.reqid,
        mode: parts.mode,
        algorithms: XfrmAlgorithms { insecure, ..parts.algorithms },
        replay_window: parts.replay_window,
        esn: parts.esn,
        seq: whole(parts.seq),
        oseq: whole(parts.oseq),
        limits: parts.limits,
        sel: parts.sel,
        tfcpad: parts.tfcpad,
    })
}

impl StateParts {
    fn take(&mut self, word: &str, words: &mut XfrmWords<'_>) -> Result<(), String> {
        match word {
            "src" => self.src = Some(words.parsed(word)?),
            "dst" => self.dst = Some(words.parsed(word)?),
            "proto" => protocol(words.value(word)?)?,
            "spi" => self.spi = Some(words.number(word)?),
            "mode" => self.mode = mode(words.value(word)?)?,
            "reqid" => self.reqid = words.number(word)?,
            "aead" => self.algorithms.aead = Some(algorithm(word, words, true)?),
            "enc" => self.algorithms.enc = Some(algorithm(word, words, false)?),
            "auth" => self.algorithms.auth = Some(algorithm(word, words, false)?),
            "auth-trunc" => self.algorithms.auth = Some(algorithm(word, words, true)?),
            "replay-window" => self.replay_window = words.number(word)?,
            "replay-seq" => self.seq.0 = words.number(word)?,
            "replay-seq-hi" => self.seq.1 = words.number(word)?,
            "replay-oseq" => self.oseq.0 = words.number(word)?,
            "replay-oseq-hi" => self.oseq.1 = words.number(word)?,
            "tfcpad" => self.tfcpad = words.number(word)?,
            "flag" => match words.value(word)? {
                "esn" => self.esn = true,
                other => return Err(unexpected(other, "esn")),
            },
            "limit" => limit(&mut self.limits, words)?,
            "sel" => {
                let mut parts = SelectorParts::default();
                while let Some(word) = words.peek() {
                    let mut ahead = words.clone();
                    ahead.next();
                    if !parts.take(word, &mut ahead)? {
                        break;
                    }
                    *words = ahead;
                }
                self.sel = Some(parts.selector()?);
            }
            word => return Err(unexpected(word, KNOWN)),
        }
        Ok(())
    }
}

/// An algorithm's name, key and, with `icv`, length of the check value.
fn algorithm(kind: &str, words: &mut XfrmWords<'_>, icv: bool) -> Result<XfrmAlgorithm, String> {
    let name = words.value(kind)?.to_owned();
    let key = match words.value(kind)? {
        "" => XfrmKey::new(Vec::new()),
        word => key(word).map_err(|error| format!("{kind}: {error}"))?,
    };
    let icv = icv.then(|| words.number(kind)).transpose()?;
    Ok(XfrmAlgorithm { name, key: Some(key), icv })
}

fn limit(limits: &mut XfrmLimits, words: &mut XfrmWords<'_>) -> Result<(), String> {
    let word = words.value("limit")?;
    let place = match word {
        "byte-soft" => &mut limits.byte_soft,
        "byte-hard" => &mut limits.byte_hard,
        "packet-soft" => &mut limits.packet_soft,
        "packet-hard" => &mut limits.packet_hard,
        "time-soft" => &mut limits.time_soft,
        "time-hard" => &mut limits.time_hard,
        "time-use-soft" => &mut limits.time_use_soft,
        "time-use-hard" => &mut limits.time_use_hard,
        other => {
            let known = "byte-, packet-, time- and time-use- with soft or hard";
            return Err(unexpected(other, known));
        }
    };
    *place = Some(words.number(word)?);
    Ok(())
}

/// The name of an association that is to be removed.
///
/// # Errors
/// A sentence.
pub(crate) fn parse_state_name(all: &[String]) -> Result<XfrmId, String> {
    let mut words = XfrmWords::new(all);
    let (mut dst, mut spi) = (None, None);
    while let Some(word) = words.next() {
        match word {
            "src" => drop(words.parsed::<Address>(word)?),
            "dst" => dst = Some(words.parsed::<Address>(word)?.0),
            "proto" => protocol(words.value(word)?)?,
            "spi" => spi = Some(words.number(word)?),
            word => return Err(unexpected(word, "src, dst, proto and spi")),
        }
    }
    match (dst, spi) {
        (Some(dst), Some(spi)) => Ok(XfrmId { dst, spi }),
        _ => Err("the name of an association is dst and spi".to_owned()),
    }
}
