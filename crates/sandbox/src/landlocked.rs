//! Landlock: no right to any file, port, or process outside.

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, LandlockStatus, RestrictionStatus, Ruleset,
    RulesetAttr as _, RulesetError, RulesetStatus, Scope,
};

use crate::role::Role;

/// The newest version whose rights are known here. An older kernel knows fewer of them.
const NEWEST: ABI = ABI::V7;

/// Gives up every right that Landlock knows. Returns what the kernel made of it, for
/// `tasuki ps --security`; an error says why there is none.
pub(crate) fn restrict(role: Role) -> Result<String, String> {
    let status = refuse_all(role).map_err(|error| error.to_string())?;
    let version = match status.landlock {
        LandlockStatus::Available { effective_abi, .. } => effective_abi as i32,
        LandlockStatus::NotEnabled => return Err("it is not enabled".to_owned()),
        LandlockStatus::NotImplemented => return Err("the kernel has none".to_owned()),
    };
    match status.ruleset {
        RulesetStatus::NotEnforced => Err("the kernel does not enforce it".to_owned()),
        // A newer kernel would have refused more; what an older one knows is refused.
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => {
            Ok(format!("v{version}"))
        }
    }
}

fn refuse_all(role: Role) -> Result<RestrictionStatus, RulesetError> {
    let mut rules = Ruleset::default().handle_access(AccessFs::from_all(NEWEST))?;
    if !matches!(role, Role::Relay | Role::Connector) {
        // The relay's ports are those of its own network namespace. The connector's are its work.
        rules = rules.handle_access(AccessNet::from_all(NEWEST))?;
    }
    rules.scope(Scope::from_all(NEWEST))?.create()?.restrict_self()
}
