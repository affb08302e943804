//! What a target is to be: the configuration file, then the command line over it.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use storage::{AUTHORITY, LunNumber, PORT, TargetDefinition};

use crate::cli::TargetUpArgs;
use crate::exit::{Code, Failure};
use crate::runtime_dir::InstanceName;
use crate::target_config::{TargetConfig, TransportChoice};

/// All that the user says about a target.
#[derive(Debug, Clone)]
pub(super) struct TargetSettings {
    pub(super) name: InstanceName,
    /// The instance; `None`: the one that runs.
    pub(super) net: Option<InstanceName>,
    pub(super) transport: Option<TransportChoice>,
    pub(super) definition: TargetDefinition,
}

impl TargetSettings {
    /// For these options, which win over their file.
    ///
    /// # Errors
    /// [`Code::Configuration`] for the file, [`Code::Usage`] for the options.
    pub(super) fn new(args: &TargetUpArgs) -> Result<Self, Failure> {
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
        let address = args.address.or(file.address).unwrap_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED));
        let definition = TargetDefinition {
            name: iqn,
            luns,
            portal: SocketAddr::new(address, args.port.or(file.port).unwrap_or(PORT)),
            state: args.state.clone().or(file.state),
            access,
        };
        let plain = args.plain.then_some(TransportChoice::Plain);
        Ok(Self {
            name,
            net: args.net.clone().or(file.net),
            transport: plain.or(file.transport),
            definition,
        })
    }
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
