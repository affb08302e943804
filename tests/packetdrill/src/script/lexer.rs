//! Words of the script language.

use std::fmt;

use super::syntax::Fault;

/// A part of a script.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    /// A whole number; its text, since it may be a hexadecimal cookie.
    Int(i64, String),
    /// A number with a point; its text.
    Float(String),
    Word(String),
    /// Between double quotes.
    Text(Vec<u8>),
    /// Between back-ticks.
    Command(String),
    /// Between `%{` and `}%`.
    Code(String),
    /// `--name=value` or `--name`.
    Option(String, String),
    /// `...`
    Ellipsis,
    Sign(char),
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(_, text) | Self::Float(text) | Self::Word(text) => write!(f, "`{text}`"),
            Self::Text(_) => f.write_str("a string"),
            Self::Command(_) => f.write_str("a command"),
            Self::Code(_) => f.write_str("code"),
            Self::Option(name, _) => write!(f, "`--{name}`"),
            Self::Ellipsis => f.write_str("`...`"),
            Self::Sign(sign) => write!(f, "`{sign}`"),
        }
    }
}

/// The words of `text` with the lines on which they begin, counted from 1.
///
/// # Errors
/// A string, comment, command or code without an end.
pub(super) fn split(text: &str) -> Result<Vec<(Token, usize)>, Fault> {
    let mut lexer = Lexer { rest: text, line: 1 };
    let mut tokens = Vec::new();
    loop {
        lexer.skip()?;
        let line = lexer.line;
        match lexer.next()? {
            Some(token) => tokens.push((token, line)),
            None => return Ok(tokens),
        }
    }
}

struct Lexer<'a> {
    rest: &'a str,
    line: usize,
}

impl<'a> Lexer<'a> {
    /// Takes `bytes` bytes, at the border of a character.
    fn take(&mut self, bytes: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(bytes.min(self.rest.len()));
        self.rest = rest;
        self.line += taken.matches('\n').count();
        taken
    }

    /// Takes all up to and with `end`, after `start` bytes. Returns the text between.
    fn enclosed(&mut self, start: usize, end: &str, what: &str) -> Result<&'a str, Fault> {
        let line = self.line;
        self.take(start);
        let Some(len) = self.rest.find(end) else {
            return Err(Fault::new(line, format!("{what} without an end")));
        };
        let inner = self.take(len);
        self.take(end.len());
        Ok(inner)
    }

    /// Passes blanks and comments.
    fn skip(&mut self) -> Result<(), Fault> {
        loop {
            let blank = self.rest.len() - self.rest.trim_start().len();
            self.take(blank);
            if self.rest.starts_with("//") || self.rest.starts_with('#') {
                let end = self.rest.find('\n').unwrap_or(self.rest.len());
                self.take(end);
            } else if self.rest.starts_with("/*") {
                self.enclosed(2, "*/", "a comment")?;
            } else if blank == 0 {
                return Ok(());
            }
        }
    }

    fn next(&mut self) -> Result<Option<Token>, Fault> {
        let Some(first) = self.rest.chars().next() else { return Ok(None) };
        let token = match first {
            '`' => Token::Command(self.enclosed(1, "`", "a command")?.to_owned()),
            '"' => self.string()?,
            _ if self.rest.starts_with("%{") => {
                Token::Code(self.enclosed(2, "}%", "code")?.to_owned())
            }
            _ if self.rest.starts_with("...") => {
                self.take(3);
                Token::Ellipsis
            }
            _ if self.is_option() => {
                let end = self.rest.find(char::is_whitespace).unwrap_or(self.rest.len());
                let text = self.take(end).trim_start_matches('-');
                let (name, value) = text.split_once('=').unwrap_or((text, ""));
                Token::Option(name.to_owned(), value.to_owned())
            }
            _ => self.word_or_sign(first),
        };
        Ok(Some(token))
    }

    fn is_option(&self) -> bool {
        self.rest.strip_prefix("--").is_some_and(|rest| rest.starts_with(char::is_alphabetic))
    }

    fn string(&mut self) -> Result<Token, Fault> {
        let line = self.line;
        self.take(1);
        let mut bytes = Vec::new();
        loop {
            let mut chars = self.rest.chars();
            let (Some(first), second) = (chars.next(), chars.next()) else {
                return Err(Fault::new(line, "a string without an end"));
            };
            match (first, second) {
                ('"', _) => {
                    self.take(1);
                    return Ok(Token::Text(bytes));
                }
                ('\\', Some('x')) => {
                    let hex = self.rest.get(2..4).unwrap_or_default();
                    let byte = u8::from_str_radix(hex, 16);
                    bytes.push(byte.map_err(|_| Fault::new(line, "\\x wants two digits"))?);
                    self.take(4);
                }
                ('\\', Some(escaped)) => {
                    bytes.push(match escaped {
                        'n' => b'\n',
                        't' => b'\t',
                        'r' => b'\r',
                        '0' => 0,
                        other => u8::try_from(other).unwrap_or(b'?'),
                    });
                    self.take(1 + escaped.len_utf8());
                }
                _ => bytes.extend_from_slice(self.take(first.len_utf8()).as_bytes()),
            }
        }
    }

    /// A number, a word, or a single sign; the longest that fits.
    fn word_or_sign(&mut self, first: char) -> Token {
        let word = self.rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        let word = word.unwrap_or(self.rest.len());
        let sign = usize::from(first == '-');
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        let whole = digits(self.rest.get(sign..).unwrap_or_default());
        let after = self.rest.get(sign + whole..).unwrap_or_default();
        let fraction = after.strip_prefix('.').map_or(0, digits);
        if fraction > 0 && sign + whole >= word {
            return Token::Float(self.take(sign + whole + 1 + fraction).to_owned());
        }
        if whole > 0 && sign + whole >= word {
            let text = self.take(sign + whole).to_owned();
            return Token::Int(text.parse().unwrap_or(i64::MAX), text);
        }
        if word > 0 {
            let text = self.take(word).to_owned();
            let hex = text.strip_prefix("0x").and_then(|hex| i64::from_str_radix(hex, 16).ok());
            return match hex {
                Some(value) => Token::Int(value, text),
                None => Token::Word(text),
            };
        }
        self.take(first.len_utf8());
        Token::Sign(first)
    }
}
