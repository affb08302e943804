//! Values of an axis that is a part of all in percent, with up to two digits behind the point.

use std::fmt;

use super::places::Places;

/// The most percent.
const MOST: u32 = 3;
/// Hundredths of a percent.
const WHOLE: u32 = 100;

/// Parts in percent: in order, each once, one at least.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Percents(Places);

impl Percents {
    /// All, in hundredths of a percent.
    #[must_use]
    pub fn hundredths(&self) -> &[u32] {
        self.0.all()
    }

    /// `0,0.1,1` or `0..3`, which goes by whole percent.
    pub(super) fn parse(word: &str) -> Result<Self, String> {
        let mut all = Vec::new();
        for part in word.split(',') {
            match part.split_once("..") {
                None => all.push(one(part)?),
                Some((from, to)) => {
                    let (from, to) = (one(from)?, one(to)?);
                    if from > to {
                        return Err(format!("{part} goes down: say the lower one first"));
                    }
                    all.extend((from..to).step_by(WHOLE as usize).chain([to]));
                }
            }
        }
        Places::new(all).map(Self).ok_or_else(rule)
    }
}

/// As the command line has it.
impl fmt::Display for Percents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<String> = self.0.all().iter().map(|it| percent(*it)).collect();
        f.write_str(&words.join(","))
    }
}

/// Hundredths of a percent as the command line has them, such as `0.1`.
#[must_use]
pub fn percent(hundredths: u32) -> String {
    (f64::from(hundredths) / f64::from(WHOLE)).to_string()
}

fn one(word: &str) -> Result<u32, String> {
    let hundredths = word.parse::<f64>().ok().map(|value| value * f64::from(WHOLE));
    let near = |it: &f64| (it - it.round()).abs() < 1e-6;
    let found = hundredths.filter(|it| (0.0..=f64::from(MOST * WHOLE)).contains(it) && near(it));
    found.map(|it| it.round() as u32).ok_or_else(rule)
}

fn rule() -> String {
    format!("say percent from 0 to {MOST}, such as 0.1: one, a list such as A,B, or a range A..B")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_percent_are_kept() {
        let all = |word| Percents::parse(word).map(|it| it.hundredths().to_vec());
        assert_eq!(all("0..3"), Ok(vec![0, 100, 200, 300]));
        assert_eq!(all("1,0.01,0.5..2"), Ok(vec![1, 50, 100, 150, 200]));
        assert_eq!(Percents::parse("3,0.1,0").unwrap().to_string(), "0,0.1,3");
        for wrong in ["3.01", "-1", "0.001", "", "1..0", "nan", "x"] {
            assert!(all(wrong).is_err(), "{wrong}");
        }
    }
}
