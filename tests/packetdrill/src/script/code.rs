//! Code of scripts: assertions about TCP_INFO.
//!
//! Scripts are made for Python. This module understands `assert condition` and `assert condition,
//! message`. A condition has numbers, names of TCP_INFO's fields and constants, arithmetic,
//! comparisons in chains, `and`, `or`, `not`, `min`, `max` and `abs`. Lines that begin with `print`
//! are passed over.

use inet::tcp::TcpInfo;

use super::syntax::Fault;

/// Checks all assertions of `code`, which begins on `line`.
///
/// # Errors
/// The first one that does not hold, or that is not understood.
pub(super) fn check(code: &str, line: usize, info: &TcpInfo) -> Result<(), Fault> {
    let mut waiting = String::new();
    for (here, text) in (line..).zip(code.lines()) {
        waiting.push_str(text.split('#').next().unwrap_or_default());
        let open = waiting.matches('(').count() > waiting.matches(')').count();
        if open || waiting.trim_end().ends_with('\\') {
            waiting = waiting.trim_end().trim_end_matches('\\').to_owned() + " ";
            continue;
        }
        for statement in std::mem::take(&mut waiting).split(';') {
            check_statement(statement.trim(), info).map_err(|text| Fault::new(here, text))?;
        }
    }
    let last = line + code.lines().count().saturating_sub(1);
    if waiting.trim().is_empty() { Ok(()) } else { Err(Fault::new(last, "code without an end")) }
}

fn check_statement(statement: &str, info: &TcpInfo) -> Result<(), String> {
    if statement.is_empty() || statement.starts_with("print") {
        return Ok(());
    }
    let Some(rest) = statement.strip_prefix("assert") else {
        return Err(format!("`{statement}`: only assertions are understood"));
    };
    let mut reader = Reader { rest, info, seen: Vec::new() };
    let value = reader.disjunction()?;
    let tail = reader.rest.trim_start();
    if !tail.is_empty() && !tail.starts_with(',') {
        return Err(format!("`{tail}` is not understood"));
    }
    if value == 0.0 {
        let seen: Vec<String> =
            reader.seen.iter().map(|(name, value)| format!("{name} is {value}")).collect();
        return Err(format!("`{}` does not hold: {}", statement, seen.join(", ")));
    }
    Ok(())
}

struct Reader<'a> {
    rest: &'a str,
    info: &'a TcpInfo,
    /// Fields that were looked at, for the message.
    seen: Vec<(String, f64)>,
}

type CodeValue = Result<f64, String>;
type Compare = fn(f64, f64) -> bool;

fn truth(value: bool) -> f64 {
    f64::from(u8::from(value))
}

impl Reader<'_> {
    /// Takes `sign` if it comes next; a word must end there.
    fn is(&mut self, sign: &str) -> bool {
        let rest = self.rest.trim_start();
        let Some(after) = rest.strip_prefix(sign) else { return false };
        let is_word = sign.ends_with(|c: char| c.is_alphanumeric());
        if is_word && after.starts_with(|c: char| c.is_alphanumeric() || c == '_') {
            return false;
        }
        self.rest = after;
        true
    }

    fn disjunction(&mut self) -> CodeValue {
        let mut value = self.conjunction()?;
        while self.is("or") {
            let other = self.conjunction()?;
            value = truth(value != 0.0 || other != 0.0);
        }
        Ok(value)
    }

    fn conjunction(&mut self) -> CodeValue {
        let mut value = self.negation()?;
        while self.is("and") {
            let other = self.negation()?;
            value = truth(value != 0.0 && other != 0.0);
        }
        Ok(value)
    }

    fn negation(&mut self) -> CodeValue {
        if self.is("not") {
            return Ok(truth(self.negation()? == 0.0));
        }
        let mut left = self.bits()?;
        let mut holds = None;
        loop {
            let signs: [(&str, Compare); 6] = [
                ("==", |a, b| a == b),
                ("!=", |a, b| a != b),
                ("<=", |a, b| a <= b),
                (">=", |a, b| a >= b),
                ("<", |a, b| a < b),
                (">", |a, b| a > b),
            ];
            let Some((_, compare)) = signs.into_iter().find(|(sign, _)| self.is(sign)) else {
                return Ok(holds.map_or(left, truth));
            };
            let right = self.bits()?;
            holds = Some(holds.unwrap_or(true) && compare(left, right));
            left = right;
        }
    }

    fn bits(&mut self) -> CodeValue {
        let mut value = self.sum()?;
        loop {
            // Bits are taken of whole numbers that a double holds exactly.
            if self.is("&") {
                value = ((value as i64) & (self.sum()? as i64)) as f64;
            } else if self.is("|") {
                value = ((value as i64) | (self.sum()? as i64)) as f64;
            } else {
                return Ok(value);
            }
        }
    }

    fn sum(&mut self) -> CodeValue {
        let mut value = self.product()?;
        loop {
            if self.is("+") {
                value += self.product()?;
            } else if self.is("-") {
                value -= self.product()?;
            } else {
                return Ok(value);
            }
        }
    }

    fn product(&mut self) -> CodeValue {
        let mut value = self.atom()?;
        loop {
            if self.is("*") {
                value *= self.atom()?;
            } else if self.is("//") {
                value = (value / self.atom()?).floor();
            } else if self.is("/") {
                value /= self.atom()?;
            } else if self.is("%") {
                value %= self.atom()?;
            } else {
                return Ok(value);
            }
        }
    }

    fn atom(&mut self) -> CodeValue {
        if self.is("(") {
            let value = self.disjunction()?;
            return if self.is(")") { Ok(value) } else { Err("`)` is missing".to_owned()) };
        }
        if self.is("-") {
            return Ok(-self.atom()?);
        }
        let rest = self.rest.trim_start();
        let len = rest
            .find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '.'))
            .unwrap_or(rest.len());
        let (word, after) = rest.split_at(len);
        self.rest = after;
        if let Some(hex) = word.strip_prefix("0x") {
            let value = i64::from_str_radix(hex, 16).map_err(|_| format!("`{word}`?"))?;
            return Ok(value as f64);
        }
        if word.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
            return word.parse().map_err(|_| format!("`{word}` is not a number"));
        }
        match word {
            "min" => self.call(f64::min),
            "max" => self.call(f64::max),
            "abs" => self.call(|value, _| value.abs()),
            _ => self.name(word),
        }
    }

    fn call(&mut self, function: fn(f64, f64) -> f64) -> CodeValue {
        if !self.is("(") {
            return Err("`(` is missing".to_owned());
        }
        let mut value = self.disjunction()?;
        value = function(value, value);
        while self.is(",") {
            value = function(value, self.disjunction()?);
        }
        if self.is(")") { Ok(value) } else { Err("`)` is missing".to_owned()) }
    }

    fn name(&mut self, word: &str) -> CodeValue {
        if let Some(value) = constant(word) {
            return Ok(value.into());
        }
        let value = field(word, self.info).ok_or_else(|| format!("`{word}` is not known"))?;
        self.seen.push((word.to_owned(), value));
        Ok(value)
    }
}

fn constant(name: &str) -> Option<u32> {
    const STATES: [&str; 11] = [
        "TCP_ESTABLISHED",
        "TCP_SYN_SENT",
        "TCP_SYN_RECV",
        "TCP_FIN_WAIT1",
        "TCP_FIN_WAIT2",
        "TCP_TIME_WAIT",
        "TCP_CLOSE",
        "TCP_CLOSE_WAIT",
        "TCP_LAST_ACK",
        "TCP_LISTEN",
        "TCP_CLOSING",
    ];
    let number = |place: usize| u32::try_from(place).unwrap_or(0);
    if let Some(place) = STATES.iter().position(|state| *state == name) {
        return Some(number(place + 1));
    }
    Some(match name {
        "TCP_CA_Open" => 0,
        "TCP_CA_Disorder" => 1,
        "TCP_CA_CWR" => 2,
        "TCP_CA_Recovery" => 3,
        "TCP_CA_Loss" => 4,
        "TCPI_OPT_TIMESTAMPS" => 1,
        "TCPI_OPT_SACK" => 2,
        "TCPI_OPT_WSCALE" => 4,
        "TCPI_OPT_ECN" => 8,
        "TCPI_OPT_ECN_SEEN" => 16,
        "TCPI_OPT_SYN_DATA" => 32,
        "TCP_INFINITE_SSTHRESH" => 0x7fff_ffff,
        _ => return None,
    })
}

/// The field that is called `name`, with its `tcpi_`.
fn field(name: &str, info: &TcpInfo) -> Option<f64> {
    macro_rules! fields {
        ($($field:ident)*) => {
            match name.strip_prefix("tcpi_")? {
                $(stringify!($field) => info.$field as f64,)*
                "delivery_rate_app_limited" => truth(info.delivery_rate_app_limited),
                _ => return None,
            }
        };
    }
    Some(fields! {
        state ca_state retransmits probes backoff options snd_wscale rcv_wscale
        fastopen_client_fail rto ato snd_mss rcv_mss unacked sacked lost retrans last_data_sent
        last_data_recv last_ack_recv pmtu rcv_ssthresh rtt rttvar snd_ssthresh snd_cwnd advmss
        reordering rcv_rtt rcv_space total_retrans pacing_rate max_pacing_rate bytes_acked
        bytes_received segs_out segs_in notsent_bytes min_rtt data_segs_in data_segs_out
        delivery_rate busy_time rwnd_limited sndbuf_limited delivered delivered_ce bytes_sent
        bytes_retrans dsack_dups reord_seen rcv_ooopack snd_wnd rcv_wnd total_rto
        total_rto_recoveries total_rto_time
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assertions_are_evaluated() {
        let info = TcpInfo { snd_cwnd: 10, options: 7, ..TcpInfo::default() };
        for (code, holds) in [
            ("assert tcpi_snd_cwnd == 10", true),
            ("assert tcpi_snd_cwnd == 11", false),
            ("assert tcpi_snd_cwnd == 10, tcpi_snd_cwnd", true),
            ("assert 5 < tcpi_snd_cwnd <= 10 and not tcpi_lost", true),
            ("assert 5 < tcpi_snd_cwnd < 10", false),
            ("assert (tcpi_options & TCPI_OPT_SACK) != 0, tcpi_options", true),
            ("assert (tcpi_options & TCPI_OPT_ECN) != 0", false),
            ("assert tcpi_snd_cwnd // 3 * 2 + 1 == 7 or tcpi_lost", true),
            ("assert min(tcpi_snd_cwnd, 3) == 3; assert tcpi_lost == 1", false),
            ("print(tcpi_snd_cwnd)\nassert (tcpi_snd_cwnd ==\n 10)", true),
            ("assert not tcpi_snd_cwnd == 10", false),
        ] {
            assert_eq!(check(code, 1, &info).is_ok(), holds, "{code}");
        }
    }

    #[test]
    fn nonsense_is_refused_with_its_line() {
        let info = TcpInfo::default();
        for code in ["assert tcpi_nothing == 1", "x = 1", "assert (1", "assert 1 1", "assert"] {
            let fault = check(&format!("\n{code}"), 7, &info).expect_err(code);
            assert_eq!(fault.line, 8, "{code}");
        }
    }
}
