//! Results of scripts, and the committed lists of them.
//!
//! A list has a line for each script: `pass`, `fail` or `skip`, and the script's name below the
//! collection's folder. So it is the same on each machine. Lines that begin with `#` are comments
//! and stay.

use std::collections::BTreeMap;
use std::fmt;

/// The outcome of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    Pass,
    /// With packetdrill's message.
    Fail(String),
    /// With the reason.
    Skip(String),
}

impl Outcome {
    /// `pass`, `fail` or `skip`.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail(_) => "fail",
            Self::Skip(_) => "skip",
        }
    }

    /// Why it is not a pass.
    pub(crate) fn reason(&self) -> &str {
        match self {
            Self::Pass => "",
            Self::Fail(why) | Self::Skip(why) => why,
        }
    }
}

/// A committed list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Results {
    comments: Vec<String>,
    words: BTreeMap<String, String>,
}

impl Results {
    /// Reads a list.
    pub(crate) fn parse(text: &str) -> Self {
        let mut results = Self::default();
        for line in text.lines() {
            if line.starts_with('#') {
                results.comments.push(line.to_owned());
            } else if let Some((word, name)) = line.split_once(' ') {
                results.words.insert(name.to_owned(), word.to_owned());
            }
        }
        results
    }

    /// Takes over results that are better or new. A worse result leaves the list's as it was. If
    /// `whole`, scripts that were not played are removed.
    pub(crate) fn update(&mut self, played: &[(String, Outcome)], whole: bool) {
        if whole {
            self.words.retain(|name, _| played.iter().any(|(played, _)| played == name));
        }
        for (name, outcome) in played {
            if self.words.get(name).is_none_or(|word| word != "pass") {
                self.words.insert(name.clone(), outcome.word().to_owned());
            }
        }
    }
}

impl fmt::Display for Results {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.comments {
            writeln!(f, "{line}")?;
        }
        self.words.iter().try_for_each(|(name, word)| writeln!(f, "{word} {name}"))
    }
}

/// How results differ from a list; a line for each script.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Comparison {
    /// Errors: scripts that passed and do not now, and new ones that fail.
    pub(crate) worse: Vec<String>,
    /// Scripts that pass and did not, or are new.
    pub(crate) better: Vec<String>,
    /// Scripts that fail instead of being skipped, or the other way round; those that are gone.
    pub(crate) changed: Vec<String>,
}

impl Comparison {
    /// Compares the outcomes in `played` with `list`; `whole`: the whole collection was played.
    pub(crate) fn of(list: &Results, played: &[(String, Outcome)], whole: bool) -> Self {
        let mut comparison = Self::default();
        for (name, outcome) in played {
            let (now, why) = (outcome.word(), outcome.reason());
            match (list.words.get(name).map(|word| &word[..]), now) {
                (Some(before), now) if before == now => {}
                (Some("pass"), now) => {
                    comparison.worse.push(format!("{name}: pass, now {now}: {why}"));
                }
                (None, "fail") => comparison.worse.push(format!("{name}: new, and fails: {why}")),
                (Some(before), "pass") => {
                    comparison.better.push(format!("{name}: {before}, now pass"));
                }
                (None, now) => comparison.better.push(format!("{name}: new, {now}")),
                (Some(before), now) => {
                    comparison.changed.push(format!("{name}: {before}, now {now}: {why}"));
                }
            }
        }
        if whole {
            let gone = |name: &&String| !played.iter().any(|(played, _)| played == *name);
            let gone = list.words.keys().filter(gone);
            comparison.changed.extend(gone.map(|name| format!("{name}: is gone")));
        }
        comparison
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "# a comment\npass a/b.pkt\nfail c.pkt\nskip d.pkt\n";

    fn played() -> Vec<(String, Outcome)> {
        let fail = || Outcome::Fail("why".to_owned());
        vec![("a/b.pkt".into(), fail()), ("c.pkt".into(), Outcome::Pass), ("e.pkt".into(), fail())]
    }

    #[test]
    fn a_list_is_written_as_it_was_read() {
        assert_eq!(Results::parse(LIST).to_string(), LIST);
    }

    #[test]
    fn worse_is_told_with_its_name_and_better_apart() {
        let comparison = Comparison::of(&Results::parse(LIST), &played(), true);
        assert_eq!(
            comparison.worse,
            ["a/b.pkt: pass, now fail: why", "e.pkt: new, and fails: why"]
        );
        assert_eq!(comparison.better, ["c.pkt: fail, now pass"]);
        assert_eq!(comparison.changed, ["d.pkt: is gone"]);
        let part = Comparison::of(&Results::parse(LIST), &played(), false);
        assert!(part.changed.is_empty());
    }

    #[test]
    fn an_update_takes_nothing_worse() {
        let mut results = Results::parse(LIST);
        results.update(&played(), true);
        assert_eq!(results.to_string(), "# a comment\npass a/b.pkt\npass c.pkt\nfail e.pkt\n");
        let mut results = Results::parse(LIST);
        results.update(&played(), false);
        assert!(results.to_string().contains("skip d.pkt"));
    }
}
