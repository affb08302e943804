//! `tasuki down`: ends an instance.

use std::time::Duration;

use abi::control::{ClientReply, ClientRequest};

use crate::cli::DownArgs;
use crate::exit::Failure;
use crate::operator::Operator;

/// How long the supervisor may take to end itself after everything else has ended.
const PATIENCE: Duration = Duration::from_secs(5);

/// Ends the instance and waits until nothing is left of it.
///
/// # Errors
/// When there is none, or it does not end in order.
pub(crate) fn down(args: &DownArgs) -> Result<u8, Failure> {
    let mut operator = Operator::connect(&args.name)?;
    match operator.ask(&ClientRequest::Down)? {
        (ClientReply::Done, _) => {
            operator.wait_for_end(PATIENCE);
            Ok(0)
        }
        (other, _) => Err(operator.unexpected(&other)),
    }
}
