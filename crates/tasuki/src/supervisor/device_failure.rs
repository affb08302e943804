//! Exit codes of devices that cannot be opened.

use nic_driver::interface::InterfaceError;
use nic_driver::tap::TapError;

use crate::exit::{Code, Failure};

/// A TAP device cannot be made.
pub(super) fn tap_failure(error: &TapError) -> Failure {
    let code = match error {
        TapError::BadName(_) => Code::Configuration,
        TapError::NameTaken(_) => Code::InUse,
        TapError::Rights { .. } | TapError::NoTap(_) => Code::Rights,
        TapError::System { .. } => Code::Internal,
    };
    Failure::new(code, error.to_string())
}

/// An interface of the host cannot be driven.
pub(super) fn interface_failure(error: &InterfaceError) -> Failure {
    use InterfaceError as Error;
    let code = match error {
        Error::Missing(_) | Error::NotEthernet(_) | Error::Mtu { .. } => Code::Configuration,
        Error::Rights { .. } => Code::Rights,
        Error::InUse { .. } => Code::InUse,
        Error::Unsupported { .. } => Code::Unsupported,
        Error::System { .. } => Code::Internal,
    };
    Failure::new(code, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_device_errors() {
        let code = |error: TapError| tap_failure(&error).code;
        assert_eq!(code(TapError::NameTaken("tap0".into())), Code::InUse);
        assert_eq!(code(TapError::Rights { doing: "x".into() }), Code::Rights);
        assert_eq!(code(TapError::BadName("a b".into())), Code::Configuration);
    }
}
