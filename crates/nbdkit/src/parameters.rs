//! nbdkit's parameters, `key=value`, as the options of `tasuki disk mount` that have the same
//! names. clap checks them, so both refuse the same words.

use std::ffi::{OsStr, OsString};

use clap::{Arg, CommandFactory as _, Parser as _};
use user::clap_sentence;
use user::parameters::{EXAMPLES, ParameterHelp, UnitArgs, explanations, in_parameters, is_flag};

use crate::failure::PluginError;

/// The parameter that a word without `=` is.
pub(crate) const MAGIC_KEY: &std::ffi::CStr = c"uri";

/// nbdkit's words for yes and no (nbdkit_parse_bool).
const YES: [&str; 6] = ["1", "true", "t", "yes", "y", "on"];
const NO: [&str; 6] = ["0", "false", "f", "no", "n", "off"];

/// The parameters so far, as words of a command line.
#[derive(Debug, Default)]
pub(crate) struct Parameters(Vec<OsString>);

impl Parameters {
    /// None yet.
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    /// One more.
    ///
    /// # Errors
    /// There is none of this name, or it is a yes or no and the value is neither.
    pub(crate) fn add(&mut self, key: &str, value: &OsStr) -> Result<(), PluginError> {
        let command = UnitArgs::command();
        let argument = command.get_arguments().find(|argument| argument.get_long() == Some(key));
        let Some(argument) = argument else {
            let names: Vec<&str> = command.get_arguments().filter_map(Arg::get_long).collect();
            let sentence = format!("`{key}` is no parameter: there are {}", names.join(", "));
            return Err(PluginError::new(libc::EINVAL, sentence));
        };
        let mut word = OsString::from(format!("--{key}"));
        if is_flag(argument) {
            let value = value.to_string_lossy().to_lowercase();
            if NO.contains(&&value[..]) {
                return Ok(());
            }
            if !YES.contains(&&value[..]) {
                let sentence = format!("`{key}={value}`: say {key}=true or {key}=false");
                return Err(PluginError::new(libc::EINVAL, sentence));
            }
        } else {
            word.push("=");
            word.push(value);
        }
        self.0.push(word);
        Ok(())
    }

    /// All of them.
    ///
    /// # Errors
    /// A value is wrong, or one is missing.
    pub(crate) fn parse(&self) -> Result<UnitArgs, PluginError> {
        UnitArgs::try_parse_from(&self.0)
            .map_err(|error| PluginError::new(libc::EINVAL, in_parameters(&clap_sentence(&error))))
    }
}

/// All parameters with what they mean, for `nbdkit tasuki --help`.
pub(crate) fn help() -> String {
    let line = |said: ParameterHelp| format!("{:<28}{}", said.form, said.help);
    let mut lines: Vec<String> = explanations().into_iter().map(line).collect();
    lines.push(
        "\nThe unit is reached from a running instance of Tasuki, with the keys that `tasuki key` \
         shows.\n\nExamples:"
            .to_owned(),
    );
    lines.extend(EXAMPLES.lines().map(|line| format!("  {line}")));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const URL: &str = "iscsi://10.9.0.2/iqn.2026-11.tasuki:a/7";

    fn parse(parameters: &[(&str, &str)]) -> Result<UnitArgs, PluginError> {
        let mut all = Parameters::new();
        for (key, value) in parameters {
            all.add(key, OsStr::new(value))?;
        }
        all.parse()
    }

    #[test]
    fn parameters_are_options() {
        let said = parse(&[
            ("uri", URL),
            ("net", "web"),
            ("accept-new", "Yes"),
            ("luks", "off"),
            ("give-up", "30"),
            ("cipher", "chacha20-poly1305"),
            ("initiator", "iqn.2026-11.tasuki:me"),
        ]);
        let said = said.unwrap();
        assert_eq!((said.uri.lun, said.session.give_up), (Some(7), Some(30)));
        assert!(said.session.access.accept_new && !said.luks.key.luks);
        assert_eq!(said.session.net.unwrap().as_str(), "web");
        // A value may look like an option.
        let user = parse(&[("uri", URL), ("user", "--x"), ("secret-file", "s")]).unwrap();
        assert_eq!(user.session.access.chap.user.unwrap(), "--x");
    }

    #[test]
    fn wrong_parameters_are_refused_in_their_own_words() {
        for (parameters, sentence) in [
            (&[][..], "uri=URL"),
            (&[("uri", "http://a")], "`http://a` is no address of a disk"),
            (&[("uri", URL), ("url", "x")], "`url` is no parameter: there are uri, luks, "),
            (&[("uri", URL), ("luks", "maybe")], "say luks=true or luks=false"),
            (&[("uri", URL), ("key-file", "a")], "luks=true"),
            (&[("uri", URL), ("user", "a")], "secret-file=FILE"),
            (&[("uri", URL), ("cert", "a")], "key=FILE"),
            (&[("uri", URL), ("pad", "1")], "2..=16384"),
            (&[("uri", URL), ("uri", URL)], "multiple times"),
            (&[("uri", URL), ("net", "A")], "an instance's name"),
        ] {
            let said = parse(parameters).unwrap_err().sentence;
            assert!(said.contains(sentence) && !said.contains("--"), "{sentence}: {said}");
            assert!(!said.contains('\n'), "{said}");
        }
    }

    #[test]
    fn the_help_has_all_parameters() {
        let help = help();
        for argument in UnitArgs::command().get_arguments() {
            let begin = format!("{}=", argument.get_long().unwrap());
            assert!(help.lines().any(|line| line.starts_with(&begin)), "{begin}");
        }
        assert!(help.contains("auto, aes-256-gcm") && help.contains("(required)"), "{help}");
        assert!(!help.lines().take(18).any(|line| line.contains("--")), "{help}");
    }
}
