//! The parameters of the nbdkit plug-in, `name=value`: the options of `tasuki disk mount` that have
//! the same names. The plug-in parses and explains them; `tasuki manual` writes its page with them.

use clap::{Arg, ArgAction, CommandFactory as _, Parser};
use storage::DiskUrl;

use crate::options::{DiskSessionArgs, LuksArgs};

/// What the plug-in serves.
#[derive(Debug, Clone, Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
pub struct UnitArgs {
    /// The unit: iscsi+sealed://ADDRESS/TARGET/LUN, or the same with iscsi+tls or iscsi (plain)
    #[arg(long, value_name = "URL")]
    pub uri: DiskUrl,
    /// Its encryption.
    #[command(flatten)]
    pub luks: LuksArgs,
    /// Its sessions, which have headings.
    #[command(flatten)]
    pub session: DiskSessionArgs,
}

/// Examples of the plug-in.
pub const EXAMPLES: &str = "\
nbdkit tasuki iscsi+sealed://10.9.0.2/iqn.2026-11.tasuki:disks/0
nbdkit tasuki uri=iscsi://10.9.0.2/iqn.2026-11.tasuki:disks/0 net=web --run 'nbdinfo \"$uri\"'
nbdkit -U /run/a.sock tasuki iscsi://10.9.0.2/iqn.2026-11.tasuki:disks/0 luks=true key-file=a.key";

/// A parameter as people are told of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParameterHelp {
    /// `name=VALUE`, or `name=true`.
    pub form: String,
    /// What it means, in one line.
    pub help: String,
    /// What else there is to say.
    pub more: Option<String>,
    /// What it belongs to.
    pub heading: Option<String>,
}

/// All parameters.
#[must_use]
pub fn explanations() -> Vec<ParameterHelp> {
    UnitArgs::command().get_arguments().filter_map(explain).collect()
}

fn explain(argument: &Arg) -> Option<ParameterHelp> {
    let name = argument.get_long()?;
    let value = if is_flag(argument) { "true".to_owned() } else { value_of(argument) };
    let first = argument.get_help()?.to_string();
    let mut help = in_parameters(&first);
    let values = argument.get_possible_values();
    if !values.is_empty() && !is_flag(argument) {
        let values: Vec<&str> = values.iter().map(|value| value.get_name()).collect();
        help = format!("{help}: {}", values.join(", "));
    }
    if argument.is_required_set() {
        help.push_str(" (required)");
    }
    let long = argument.get_long_help().map(ToString::to_string);
    let more = long.and_then(|long| Some(long.strip_prefix(&first)?.trim().to_owned()));
    Some(ParameterHelp {
        form: format!("{name}={value}"),
        help,
        more: more.filter(|more| !more.is_empty()).map(|more| in_parameters(&more)),
        heading: argument.get_help_heading().map(str::to_owned),
    })
}

/// Is it yes or no?
#[must_use]
pub fn is_flag(argument: &Arg) -> bool {
    matches!(argument.get_action(), ArgAction::SetTrue)
}

/// A sentence about options, in the words of parameters: `--pad <BYTES>` is `pad=BYTES`.
#[must_use]
pub fn in_parameters(sentence: &str) -> String {
    let command = UnitArgs::command();
    let mut said = sentence.to_owned();
    let mut arguments: Vec<&Arg> = command.get_arguments().collect();
    // `--key-file` before `--key`.
    arguments.sort_by_key(|argument| std::cmp::Reverse(argument.get_long().map_or(0, str::len)));
    for argument in arguments {
        let Some(name) = argument.get_long() else { continue };
        let option = format!("--{name}");
        if is_flag(argument) {
            said = said.replace(&option, &format!("{name}=true"));
            continue;
        }
        let value = value_of(argument);
        said = said.replace(&format!("{option} <{value}>"), &format!("{name}={value}"));
        said = said.replace(&option, &format!("{name}="));
    }
    said
}

fn value_of(argument: &Arg) -> String {
    let names = argument.get_value_names().unwrap_or_default();
    names.first().map(ToString::to_string).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_parameters_are_explained() {
        let all = explanations();
        assert_eq!(all.len(), UnitArgs::command().get_arguments().count());
        let find = |form: &str| all.iter().find(|parameter| parameter.form == form).unwrap();
        assert!(find("uri=URL").help.ends_with("(required)"));
        assert!(find("cipher=CIPHER").help.contains("auto, aes-256-gcm"));
        assert_eq!(find("pad=BYTES").heading.as_deref(), Some("Sealed and TLS"));
        assert_eq!((&find("give-up=SECONDS").heading, &find("luks=true").heading), (&None, &None));
        let discard = find("discard=true");
        assert!(discard.more.as_deref().unwrap().starts_with("They read as zeroes"));
        for parameter in &all {
            let said = format!("{}{}", parameter.help, parameter.more.as_deref().unwrap_or(""));
            assert!(!said.contains("--"), "{said}");
        }
    }
}
