//! What a target is to be: the configuration file, then the command line over it.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use seal::{Fingerprint, PeerIdentity};
use storage::{
    AUTHORITY, DigestPreference, IdentityRegister, Judge, LunNumber, PORT, PortalTransport,
    Refusal, TargetDefinition,
};
use user::{CredentialArgs, credentials, state_directory};

use super::broker_line::BrokerLine;
use crate::cli::TargetUpArgs;
use crate::exit::{Code, Failure};
use crate::keys::KeyDirectory;
use crate::runtime_dir::InstanceName;
use crate::target_config::{TargetConfig, TransportChoice};

/// All that the user says about a target.
#[derive(Debug)]
pub(super) struct TargetSettings {
    pub(super) name: InstanceName,
    /// The instance; `None`: the one that runs.
    pub(super) net: Option<InstanceName>,
    /// The folder for reservations and mode pages that outlive the target.
    pub(super) state: Option<PathBuf>,
    /// All but the place for its state.
    pub(super) definition: TargetDefinition,
}

impl TargetSettings {
    /// For these options, which win over their file. A target knows the keys that its broker finds;
    /// without one, the settings are only checked.
    ///
    /// # Errors
    /// [`Code::Configuration`] for the file, [`Code::Usage`] for the options; those of keys.
    pub(super) fn new(args: &TargetUpArgs, broker: Option<&BrokerLine>) -> Result<Self, Failure> {
        let file = args.config.as_deref().map(TargetConfig::load).transpose()?.unwrap_or_default();
        let name = name(args)?;
        let mut luns = file.luns;
        if !args.luns.is_empty() {
            let numbered = args.luns.iter().enumerate().map(|(number, lun)| {
                let number = u16::try_from(number).ok().and_then(LunNumber::new);
                number.map(|number| (number, lun.clone()))
            });
            let numbered: Option<_> = numbered.collect();
            luns = numbered.ok_or_else(|| usage("there are too many --lun"))?;
        }
        if luns.is_empty() {
            let path = args.config.as_deref().unwrap_or(std::path::Path::new(""));
            let sentence = format!("{}: the target has no [[lun]], and no --lun", path.display());
            return Err(Failure::new(Code::Configuration, sentence));
        }
        let iqn = match (&args.iqn, file.iqn) {
            (None, Some(iqn)) => iqn,
            (given, _) => {
                let iqn = given.clone().unwrap_or_else(|| format!("{AUTHORITY}:{name}"));
                iqn.parse().map_err(|error| {
                    usage(format!("`{iqn}` is no name of an iSCSI target: {error}"))
                })?
            }
        };
        let mut access = file.access;
        if let Some(own) = access.target.as_mut().filter(|own| own.name.is_empty()) {
            iqn.as_str().clone_into(&mut own.name);
        }
        let choice = match (args.plain, args.tls) {
            (true, _) => TransportChoice::Plain,
            (_, true) => TransportChoice::Tls,
            _ => file.transport,
        };
        if choice == TransportChoice::Plain
            && let Some(rule) = access.rules.iter().find(|rule| !rule.identities.is_empty())
        {
            let sentence = format!(
                "an [[allow]] names the identity `{}`, which nobody can prove at a plain portal: \
                 leave out --plain and transport = \"plain\", or name a user",
                rule.identities[0]
            );
            return Err(Failure::new(Code::Configuration, sentence));
        }
        let address = args.address.or(file.address).unwrap_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED));
        let definition = TargetDefinition {
            name: iqn,
            luns,
            portal: SocketAddr::new(address, args.port.or(file.port).unwrap_or(PORT)),
            transport: transport(choice, &args.credentials, broker)?,
            digest: args.digest.or(file.digest).map(DigestPreference::from).unwrap_or_default(),
            state: None,
            register: identity_register(),
            access,
        };
        let state = args.state.clone().or(file.state);
        Ok(Self { name, net: args.net.clone().or(file.net), state, definition })
    }
}

/// Where identities of volumes are kept that cannot keep their own.
pub(super) fn identity_register() -> IdentityRegister {
    IdentityRegister::new(state_directory())
}

/// How the portal is protected.
fn transport(
    choice: TransportChoice,
    args: &CredentialArgs,
    broker: Option<&BrokerLine>,
) -> Result<PortalTransport, Failure> {
    let credentials = || {
        let keys = KeyDirectory::find()?;
        credentials(args, &keys, |own| {
            let (own, broker) = (own.fingerprint(), broker.cloned());
            Judge::new(move |peer| judge(broker.as_ref(), own, peer))
        })
    };
    let transport = match choice {
        TransportChoice::Plain => Ok(PortalTransport::Plain),
        TransportChoice::Tls => PortalTransport::tls(credentials()?),
        TransportChoice::Sealed => PortalTransport::sealed(credentials()?),
    };
    transport.map_err(|error| Failure::new(Code::Configuration, error.to_string()))
}

/// Judges the key of an initiator.
fn judge(
    broker: Option<&BrokerLine>,
    own: Fingerprint,
    peer: &PeerIdentity,
) -> Result<(), Refusal> {
    let key = peer.fingerprint();
    if key == own {
        return Ok(());
    }
    let known = broker.map_or(Ok(false), |broker| broker.is_known(key));
    let known = known.map_err(|failure| Refusal::Failed(failure.sentence))?;
    known.then_some(()).ok_or(Refusal::Unknown)
}

/// The target's name: without one, that of its file without the ending.
fn name(args: &TargetUpArgs) -> Result<InstanceName, Failure> {
    if let Some(name) = &args.name {
        return Ok(name.clone());
    }
    let stem = args.config.as_deref().and_then(std::path::Path::file_stem);
    let stem = stem.map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    stem.parse().map_err(|_| {
        usage(format!(
            "a target has a NAME, of a-z, 0-9 and -, which the file's name {stem:?} cannot be: say \
             `tasuki target up NAME -f FILE`"
        ))
    })
}

fn usage(sentence: impl Into<String>) -> Failure {
    Failure::new(Code::Usage, sentence)
}
