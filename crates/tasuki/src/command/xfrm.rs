//! `tasuki xfrm`: security associations and policies of a running instance.

use abi::control::{ClientReply, ClientRequest};
use abi::xfrm::{XfrmRequest, XfrmStatus};

use super::{print, print_json};
use crate::cli::{XfrmArgs, XfrmCommand, XfrmObject, XfrmOptions};
use crate::exit::{Code, Failure};
use crate::operator::Operator;
use crate::xfrm::{
    parse_policy, parse_policy_name, parse_state, parse_state_name, policy_text, state_text,
};

/// Carries out one command.
///
/// # Errors
/// [`Code::Usage`] for wrong words, the instance's refusal, or that it does not run.
pub(crate) fn xfrm(args: &XfrmArgs) -> Result<u8, Failure> {
    let options = &args.options;
    let wrong = |sentence| Failure::new(Code::Usage, sentence);
    let request = match &args.object {
        XfrmObject::State { command: XfrmCommand::Add { words } } => {
            let state = parse_state(words, options.insecure).map_err(wrong)?;
            XfrmRequest::AddState(Box::new(state))
        }
        XfrmObject::State { command: XfrmCommand::Delete { words } } => {
            XfrmRequest::DeleteState(parse_state_name(words).map_err(wrong)?)
        }
        XfrmObject::State { command: XfrmCommand::Flush } => XfrmRequest::FlushStates,
        XfrmObject::Policy { command: XfrmCommand::Add { words } } => {
            XfrmRequest::AddPolicy(parse_policy(words).map_err(wrong)?)
        }
        XfrmObject::Policy { command: XfrmCommand::Delete { words } } => {
            let (dir, sel) = parse_policy_name(words).map_err(wrong)?;
            XfrmRequest::DeletePolicy { dir, sel }
        }
        XfrmObject::Policy { command: XfrmCommand::Flush } => XfrmRequest::FlushPolicies,
        XfrmObject::State { command: XfrmCommand::List }
        | XfrmObject::Policy { command: XfrmCommand::List } => {
            XfrmRequest::List { keys: options.show_keys }
        }
    };
    let mut operator = Operator::connect_or_guess(options.net.as_ref())?;
    match operator.ask(&ClientRequest::Xfrm { xfrm: request })? {
        (ClientReply::Done, _) => {}
        (ClientReply::Xfrm(status), _) => match &args.object {
            XfrmObject::State { .. } => show_states(options, &status)?,
            XfrmObject::Policy { .. } => show_policies(options, &status)?,
        },
        (other, _) => return Err(operator.unexpected(&other)),
    }
    Ok(0)
}

fn show_states(options: &XfrmOptions, status: &XfrmStatus) -> Result<(), Failure> {
    if options.json {
        return print_json(&status.states);
    }
    let texts = status.states.iter().map(|state| state_text(state, options.statistics));
    print(&texts.collect::<String>())
}

fn show_policies(options: &XfrmOptions, status: &XfrmStatus) -> Result<(), Failure> {
    if options.json {
        return print_json(&status.policies);
    }
    print(&status.policies.iter().map(policy_text).collect::<String>())
}

#[cfg(test)]
mod tests {
    use abi::xfrm::XfrmStateStatus;

    use super::*;
    use crate::command::tests::every_key_is_documented;

    #[test]
    fn its_json_is_documented() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let state = "src 10.0.0.1 dst 10.0.0.2 spi 256 aead a 0x00 128 enc b 0x00 auth c 0x00 sel \
                     src 10.0.0.1 proto tcp";
        let policy = "dir in src 10.0.0.1 tmpl src 10.0.0.1 dst 10.0.0.2";
        let status = XfrmStateStatus {
            state: parse_state(&words(state), false).unwrap(),
            age: "valid".to_owned(),
            bytes: 0,
            packets: 0,
            added: 0,
            used: None,
            replay: 0,
            failed: 0,
        };
        every_key_is_documented(&status);
        every_key_is_documented(&parse_policy(&words(policy)).unwrap());
    }
}
