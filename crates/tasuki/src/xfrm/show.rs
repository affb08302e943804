//! Associations and policies as text, as `ip xfrm` writes them.

use std::fmt::Write;

use abi::xfrm::{
    XfrmAction, XfrmAlgorithm, XfrmDirection, XfrmLimits, XfrmMode, XfrmPolicy, XfrmSelector,
    XfrmStateStatus, XfrmTemplate,
};

// Writing to a string does not fail.

/// An association, with what it has done if that is wanted.
pub(crate) fn state_text(status: &XfrmStateStatus, statistics: bool) -> String {
    let state = &status.state;
    let mut text = format!("src {} dst {}\n", state.src, state.id.dst);
    let (spi, reqid, mode) = (state.id.spi, state.reqid, mode(state.mode));
    let _ = writeln!(text, "\tproto esp spi {spi:#010x} reqid {reqid} mode {mode}");
    let esn = if state.esn { " flag esn" } else { "" };
    let age = if status.age == "valid" { String::new() } else { format!(" ({})", status.age) };
    let _ = writeln!(text, "\treplay-window {}{esn}{age}", state.replay_window);
    let algorithms = &state.algorithms;
    let auth = algorithms.auth.as_ref();
    let auth_word = if auth.is_some_and(|auth| auth.icv.is_some()) { "auth-trunc" } else { "auth" };
    let all =
        [("aead", algorithms.aead.as_ref()), (auth_word, auth), ("enc", algorithms.enc.as_ref())];
    for (word, algorithm) in all.iter().filter_map(|(word, one)| Some((word, (*one)?))) {
        let _ = writeln!(text, "\t{word} {}", algorithm_text(algorithm));
    }
    if let Some(sel) = &state.sel {
        let _ = writeln!(text, "\tsel {}", selector_text(sel));
    }
    if state.tfcpad > 0 {
        let _ = writeln!(text, "\ttfcpad {}", state.tfcpad);
    }
    if statistics {
        write_statistics(&mut text, status);
    }
    text
}

fn write_statistics(text: &mut String, status: &XfrmStateStatus) {
    let _ = writeln!(text, "\tlimits: {}", limits_text(&status.state.limits));
    let (bytes, packets, added) = (status.bytes, status.packets, status.added);
    let used = status.used.map_or("not used".to_owned(), |used| format!("used for {used} s"));
    let _ = writeln!(text, "\tcurrent: {bytes} bytes, {packets} packets, {added} s old, {used}");
    let (seq, oseq) = (status.state.seq, status.state.oseq);
    let _ = writeln!(text, "\tnumbers: seq {seq:#x}, oseq {oseq:#x}");
    let (replay, failed) = (status.replay, status.failed);
    let _ = writeln!(text, "\tstats: replay {replay}, failed {failed}");
}

fn limits_text(limits: &XfrmLimits) -> String {
    let all = [
        ("byte-soft", limits.byte_soft),
        ("byte-hard", limits.byte_hard),
        ("packet-soft", limits.packet_soft),
        ("packet-hard", limits.packet_hard),
        ("time-soft", limits.time_soft),
        ("time-hard", limits.time_hard),
        ("time-use-soft", limits.time_use_soft),
        ("time-use-hard", limits.time_use_hard),
    ];
    let given = all.iter().filter_map(|(word, limit)| Some(format!("{word} {}", (*limit)?)));
    match given.collect::<Vec<_>>().join(", ") {
        none if none.is_empty() => "none".to_owned(),
        some => some,
    }
}

fn algorithm_text(algorithm: &XfrmAlgorithm) -> String {
    let key = algorithm.key.as_ref().map_or("<hidden>".to_owned(), |key| key.text());
    let icv = algorithm.icv.map_or(String::new(), |icv| format!(" {icv}"));
    format!("{} {key}{icv}", algorithm.name)
}

fn selector_text(sel: &XfrmSelector) -> String {
    let mut text = format!("src {} dst {}", sel.src, sel.dst);
    if let Some(proto) = sel.proto {
        let name = match proto {
            1 => "icmp",
            6 => "tcp",
            17 => "udp",
            58 => "ipv6-icmp",
            136 => "udplite",
            _ => "",
        };
        let _ = match name {
            "" => write!(text, " proto {proto}"),
            name => write!(text, " proto {name}"),
        };
    }
    let is_icmp = matches!(sel.proto, Some(1 | 58));
    let words = if is_icmp { ["type", "code"] } else { ["sport", "dport"] };
    for (word, port) in words.into_iter().zip([sel.sport, sel.dport]) {
        if let Some(port) = port {
            let _ = write!(text, " {word} {port}");
        }
    }
    text
}

fn mode(mode: XfrmMode) -> &'static str {
    match mode {
        XfrmMode::Transport => "transport",
        XfrmMode::Tunnel => "tunnel",
    }
}

/// A policy.
pub(crate) fn policy_text(policy: &XfrmPolicy) -> String {
    let dir = match policy.dir {
        XfrmDirection::In => "in",
        XfrmDirection::Out => "out",
    };
    let mut text = format!("{}\n", selector_text(&policy.sel));
    let action = if policy.action == XfrmAction::Block { " action block" } else { "" };
    let _ = writeln!(text, "\tdir {dir}{action} priority {}", policy.priority);
    if let XfrmAction::Protect(XfrmTemplate { ends, spi, reqid, mode: m, optional }) = policy.action
    {
        let ends = ends.map_or(String::new(), |(src, dst)| format!(" src {src} dst {dst}"));
        let spi = spi.map_or(String::new(), |spi| format!(" spi {spi:#010x}"));
        let level = if optional { " level use" } else { "" };
        let _ = writeln!(text, "\ttmpl{ends} proto esp{spi} reqid {reqid} mode {}{level}", mode(m));
    }
    text
}
