//! From words to events.

use super::lexer::{Token, split};
use super::notation;
use super::syntax::{
    Action, Call, Ecn, Event, EventTime, Fault, Packet, PacketBody, QuotedPacket, Segment,
    TcpOption, Value,
};

/// A script that can be run.
#[derive(Debug, Clone, PartialEq)]
pub struct Script {
    /// `--name=value`, with the line.
    pub(super) options: Vec<(String, String, usize)>,
    /// The commands that come before the first event.
    pub(super) setup: Vec<(String, usize)>,
    pub(super) events: Vec<Event>,
}

impl Script {
    /// Reads a script.
    ///
    /// # Errors
    /// The first thing that is not understood, with its line.
    pub fn parse(text: &str) -> Result<Self, Fault> {
        let mut parser = Parser { tokens: split(text)?, at: 0 };
        let mut script = Self { options: Vec::new(), setup: Vec::new(), events: Vec::new() };
        while let Some((token, line)) = parser.peek() {
            match token {
                Token::Option(name, value) => script.options.push((name, value, line)),
                // Before the events it sets up, after them it cleans up, which is not needed here.
                Token::Command(text) if script.events.is_empty() => {
                    script.setup.push((text, line));
                }
                Token::Command(_) if parser.at + 1 == parser.tokens.len() => {}
                _ => {
                    script.events.push(parser.event()?);
                    continue;
                }
            }
            parser.at += 1;
        }
        match script.events.first() {
            None => Err(Fault::new(parser.line(), "a script needs an event")),
            Some(_) => Ok(script),
        }
    }
}

struct Parser {
    tokens: Vec<(Token, usize)>,
    at: usize,
}

type Parsed<T> = Result<T, Fault>;

impl Parser {
    fn peek(&self) -> Option<(Token, usize)> {
        self.tokens.get(self.at).cloned()
    }

    fn line(&self) -> usize {
        let last = self.tokens.len().saturating_sub(1);
        self.tokens.get(self.at.min(last)).map_or(1, |(_, line)| *line)
    }

    fn next(&mut self) -> Parsed<Token> {
        let token = self.tokens.get(self.at).map(|(token, _)| token.clone());
        self.at += 1;
        token.ok_or_else(|| Fault::new(self.line(), "the script ends in the middle of something"))
    }

    fn is(&mut self, sign: char) -> bool {
        let found = self.peek().is_some_and(|(token, _)| token == Token::Sign(sign));
        self.at += usize::from(found);
        found
    }

    fn is_word(&mut self, word: &str) -> bool {
        let found =
            self.peek().is_some_and(|(token, _)| matches!(token, Token::Word(w) if w == word));
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, sign: char) -> Parsed<()> {
        if self.is(sign) { Ok(()) } else { self.complain(&format!("`{sign}`")) }
    }

    /// The present word is not the expected one.
    fn complain<T>(&self, wanted: &str) -> Parsed<T> {
        let found = self.peek().map_or("the end".to_owned(), |(token, _)| token.to_string());
        Err(Fault::new(self.line(), format!("{wanted} is wanted, not {found}")))
    }

    fn integer(&mut self) -> Parsed<i64> {
        match self.peek() {
            Some((Token::Int(value, _), _)) => {
                self.at += 1;
                Ok(value)
            }
            _ => self.complain("a number"),
        }
    }

    fn number<T: TryFrom<i64>>(&mut self) -> Parsed<T> {
        let line = self.line();
        let value = self.integer()?;
        T::try_from(value).map_err(|_| Fault::new(line, format!("{value} is out of range")))
    }

    fn word(&mut self) -> Parsed<String> {
        match self.peek() {
            Some((Token::Word(word), _)) => {
                self.at += 1;
                Ok(word)
            }
            _ => self.complain("a word"),
        }
    }

    fn event(&mut self) -> Parsed<Event> {
        let when = self.when()?;
        let line = self.line();
        let what = match self.peek().map(|(token, _)| token) {
            Some(Token::Sign('<')) => {
                self.at += 1;
                Action::Inbound(self.packet()?)
            }
            Some(Token::Sign('>')) => {
                self.at += 1;
                Action::Outbound(self.packet()?)
            }
            Some(Token::Command(text)) => {
                self.at += 1;
                Action::Command(text)
            }
            Some(Token::Code(text)) => {
                self.at += 1;
                Action::Code(text)
            }
            Some(Token::Word(_) | Token::Ellipsis) => Action::Call(self.call()?),
            _ => return self.complain("a packet, a call, a command or code"),
        };
        Ok(Event { line, when, what })
    }

    fn when(&mut self) -> Parsed<EventTime> {
        if self.is('*') {
            return Ok(EventTime::Any);
        }
        let relative = self.is('+');
        let from = self.time()?;
        let to = if self.is('~') {
            if relative {
                self.expect('+')?;
            }
            self.time()?
        } else {
            from
        };
        Ok(EventTime::At { from, to, relative })
    }

    /// A time in seconds, as microseconds.
    fn time(&mut self) -> Parsed<i64> {
        let line = self.line();
        let text = match self.next()? {
            Token::Int(_, text) | Token::Float(text) => text,
            _ => {
                self.at -= 1;
                return self.complain("a time");
            }
        };
        let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
        let micros = format!("{:0<6}", fraction.get(..6).unwrap_or(fraction));
        let whole: Option<i64> = if whole.is_empty() { Some(0) } else { whole.parse().ok() };
        let time = whole
            .and_then(|whole| whole.checked_mul(1_000_000))
            .and_then(|whole| whole.checked_add(micros.parse().ok()?))
            .filter(|time| *time >= 0);
        time.ok_or_else(|| Fault::new(line, format!("`{text}` is not a time")))
    }

    fn packet(&mut self) -> Parsed<Packet> {
        let (mut ecn, mut tos) = (None, None);
        let close = match self.peek() {
            Some((Token::Sign('['), _)) => Some(']'),
            Some((Token::Sign('('), _)) => Some(')'),
            _ => None,
        };
        if let Some(close) = close {
            self.at += 1;
            let line = self.line();
            match &self.word()?[..] {
                "noecn" => ecn = Some(Ecn::Exactly(0)),
                "ect0" => ecn = Some(Ecn::Exactly(2)),
                "ect1" => ecn = Some(Ecn::Exactly(1)),
                "ce" => ecn = Some(Ecn::Exactly(3)),
                "ect01" => ecn = Some(Ecn::Capable),
                "tos" => tos = Some(self.number()?),
                other => return Err(Fault::new(line, format!("IP field `{other}`"))),
            }
            self.expect(close)?;
        }
        let carries = if self.is_word("icmp") {
            self.icmp()?
        } else if self.is_word("udp") {
            self.expect('(')?;
            let len = self.number()?;
            self.expect(')')?;
            PacketBody::Udp { len }
        } else {
            PacketBody::Tcp(self.segment()?)
        };
        Ok(Packet { ecn, tos, carries })
    }

    fn icmp(&mut self) -> Parsed<PacketBody> {
        let line = self.line();
        let (kind, mut code) = (self.word()?, String::new());
        if let Some((Token::Word(word), _)) = self.peek()
            && word != "mtu"
        {
            self.at += 1;
            code = word;
        }
        let mut mtu = 0;
        if self.is_word("mtu") {
            mtu = self.number()?;
        }
        let mut echoed = QuotedPacket::Tcp { seq: 0 };
        if self.is('[') {
            if self.is_word("udp") {
                self.expect('(')?;
                self.integer()?;
                self.expect(')')?;
                echoed = QuotedPacket::Udp;
            } else {
                let (seq, _) = self.sequence()?;
                echoed = QuotedPacket::Tcp { seq };
            }
            self.expect(']')?;
        }
        if self.is_word("mtu") {
            mtu = self.number()?;
        }
        let Some((kind, code)) = notation::icmp(&kind, &code) else {
            return Err(Fault::new(line, format!("ICMP `{kind} {code}` is not known")));
        };
        Ok(PacketBody::Icmp { kind, code, mtu, echoed })
    }

    /// `first:last(length)`
    fn sequence(&mut self) -> Parsed<(u32, usize)> {
        let line = self.line();
        let first: u32 = self.number()?;
        self.expect(':')?;
        let last: u32 = self.number()?;
        self.expect('(')?;
        let len: u32 = self.number()?;
        self.expect(')')?;
        if first.wrapping_add(len) != last {
            let message = format!("{first} + {len} is not {last}");
            return Err(Fault::new(line, message));
        }
        Ok((first, len as usize))
    }

    fn segment(&mut self) -> Parsed<Segment> {
        let line = self.line();
        let mut letters = String::new();
        if let Some((Token::Word(word), _)) = self.peek() {
            self.at += 1;
            letters = word;
        }
        if self.is('.') {
            letters.push('.');
        } else if let Some((Token::Float(text), _)) = self.peek()
            && text.starts_with('.')
        {
            self.at += 1;
            letters.push_str(&text);
        } else if letters.is_empty() {
            self.expect('-')?;
        }
        let flags = notation::flags(&letters)
            .ok_or_else(|| Fault::new(line, format!("`{letters}` are not flags")))?;
        let (seq, len) = self.sequence()?;
        let mut segment =
            Segment { flags, seq, len, ack: 0, window: None, urgent: 0, options: Some(Vec::new()) };
        if self.is_word("ack") {
            segment.ack = self.number()?;
        }
        if self.is_word("win") {
            segment.window = Some(self.number()?);
        }
        if self.is_word("urg") {
            segment.urgent = self.number()?;
        }
        // A line that begins with `<` has a time before it, so this is not the next packet.
        if self.is('<') {
            segment.options = self.options()?;
        }
        Ok(segment)
    }

    /// Options, up to `>`; `None` for `...`.
    fn options(&mut self) -> Parsed<Option<Vec<TcpOption>>> {
        if matches!(self.peek(), Some((Token::Ellipsis, _))) {
            self.at += 1;
            self.expect('>')?;
            return Ok(None);
        }
        let mut options = Vec::new();
        loop {
            options.push(self.option()?);
            if self.is('>') {
                return Ok(Some(options));
            }
            self.expect(',')?;
        }
    }

    fn option(&mut self) -> Parsed<TcpOption> {
        let line = self.line();
        Ok(match &self.word()?[..] {
            "nop" => TcpOption::Nop,
            "eol" => TcpOption::Eol,
            "mss" => TcpOption::Mss(self.number()?),
            "wscale" => TcpOption::WindowScale(self.number()?),
            "sackOK" => TcpOption::SackPermitted,
            "sack" => {
                let mut blocks = Vec::new();
                while let Some((Token::Int(..), _)) = self.peek() {
                    let first = self.number()?;
                    self.expect(':')?;
                    blocks.push((first, self.number()?));
                }
                TcpOption::Sack(blocks)
            }
            "TS" => {
                if !self.is_word("val") {
                    return self.complain("`val`");
                }
                let val = self.number()?;
                if !self.is_word("ecr") {
                    return self.complain("`ecr`");
                }
                TcpOption::Timestamps { val, ecr: self.number()? }
            }
            "FO" => TcpOption::FastOpen(self.cookie()?),
            "FOEXP" => TcpOption::FastOpenExp(self.cookie()?),
            other => return Err(Fault::new(line, format!("TCP option `{other}` is not known"))),
        })
    }

    fn cookie(&mut self) -> Parsed<Vec<u8>> {
        let line = self.line();
        let text = match self.peek() {
            Some((Token::Word(text) | Token::Int(_, text), _)) => text,
            _ => return Ok(Vec::new()),
        };
        self.at += 1;
        let bytes: Option<Vec<u8>> = (0..text.len().div_ceil(2))
            .map(|n| u8::from_str_radix(text.get(2 * n..2 * n + 2)?, 16).ok())
            .collect();
        bytes.ok_or_else(|| Fault::new(line, format!("`{text}` is not a cookie")))
    }

    fn call(&mut self) -> Parsed<Call> {
        let mut end = None;
        if matches!(self.peek(), Some((Token::Ellipsis, _))) {
            self.at += 1;
            end = Some(self.time()?);
        }
        let name = self.word()?;
        self.expect('(')?;
        let arguments = self.values(')')?;
        self.expect('=')?;
        let result = self.value()?;
        let mut errno = None;
        if let Some((Token::Word(word), _)) = self.peek() {
            self.at += 1;
            errno = Some(word);
        }
        if self.is('(') {
            // A note for the reader.
            while !self.is(')') {
                self.next()?;
            }
        }
        Ok(Call { name, arguments, result, errno, end })
    }

    /// Values between commas, up to `close`.
    fn values(&mut self, close: char) -> Parsed<Vec<Value>> {
        let mut values = Vec::new();
        if self.is(close) {
            return Ok(values);
        }
        loop {
            values.push(self.value()?);
            if self.is(close) {
                return Ok(values);
            }
            self.expect(',')?;
        }
    }

    fn value(&mut self) -> Parsed<Value> {
        let mut value = self.simple_value()?;
        while self.is('|') {
            value = Value::Or(Box::new(value), Box::new(self.simple_value()?));
        }
        Ok(value)
    }

    fn simple_value(&mut self) -> Parsed<Value> {
        Ok(match self.next()? {
            Token::Ellipsis => Value::Any,
            Token::Int(value, _) => Value::Int(value),
            Token::Word(word) => Value::Word(word),
            Token::Text(mut bytes) => {
                while let Some((Token::Text(more), _)) = self.peek() {
                    self.at += 1;
                    bytes.extend_from_slice(&more);
                }
                if matches!(self.peek(), Some((Token::Ellipsis, _))) {
                    self.at += 1;
                }
                Value::Bytes(bytes)
            }
            Token::Sign('[') => Value::List(self.values(']')?),
            Token::Sign('{') => Value::Fields(self.fields()?),
            _ => {
                self.at -= 1;
                return self.complain("a value");
            }
        })
    }

    /// `name=value`, `name(...)=value` or `value`, between commas, up to `}`.
    fn fields(&mut self) -> Parsed<Vec<(String, Value)>> {
        let mut fields = Vec::new();
        loop {
            let start = self.at;
            let mut name = String::new();
            if let Ok(word) = self.word() {
                if self.is('(') {
                    self.values(')')?;
                }
                if self.is('=') {
                    name = word;
                } else {
                    self.at = start;
                }
            }
            fields.push((name, self.value()?));
            if self.is('}') {
                return Ok(fields);
            }
            self.expect(',')?;
        }
    }
}
