//! What an instance is to be: the configuration file, then the command line over it, then checks of
//! what must fit together.

use std::net::Ipv4Addr;

use abi::client::ClientParams;
use abi::control::FaultConfig;

use crate::cidr::Cidr;
use crate::cli::InstanceOptions;
use crate::config::{Config, Device, Mode};
use crate::exit::{Code, Failure};
use crate::network::{Addresses, Routes};
use crate::place::InstanceName;

/// All that was asked for. What was left open is chosen when the instance is made.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) name: InstanceName,
    pub(crate) mode: Mode,
    pub(crate) device: Option<Device>,
    pub(crate) mtu: u16,
    pub(crate) fault: FaultConfig,
    /// For the frame region.
    pub(crate) huge_pages: bool,
    /// For the regions of clients.
    pub(crate) client_huge_pages: bool,
    pub(crate) strict: bool,
    pub(crate) clients: usize,
    pub(crate) params: ClientParams,
    addresses: Option<Addresses>,
}

impl Settings {
    /// For an instance of this name.
    ///
    /// # Errors
    /// [`Code::Configuration`]
    pub(crate) fn new(name: InstanceName, options: &InstanceOptions) -> Result<Self, Failure> {
        let config = match &options.config {
            Some(path) => Config::load(path)?,
            None => Config::default(),
        };
        // What is wrong in the file alone is told with its name.
        let given = options.address.is_some() || options.gateway.is_some();
        let file = options.config.as_ref().map(|path| format!("{}: ", path.display()));
        let file = file.unwrap_or_default();
        let wrong = |sentence: String| Failure::new(Code::Configuration, sentence);
        let in_file = |sentence: String| wrong(format!("{file}{sentence}"));
        let address = options.address.or(config.inet.address);
        let gateway = options.gateway.or(config.inet.gateway);
        Ok(Self {
            name,
            mode: options.mode.unwrap_or(config.instance.mode),
            device: options.nic.clone().or(config.nic.device),
            mtu: config.nic.mtu.narrow(),
            fault: options.fault.unwrap_or(config.nic.fault).0,
            huge_pages: config.memory.huge_pages,
            client_huge_pages: config.memory.client.huge_pages,
            strict: config.memory.strict,
            clients: config.instance.clients.narrow().into(),
            params: config.memory.client.params().map_err(in_file)?,
            addresses: addresses(address, gateway)
                .map_err(|what| if given { wrong(what) } else { in_file(what) })?,
        })
    }

    /// The addresses asked for, or free ones. Hold the lock of the directory until the device has
    /// them.
    ///
    /// # Errors
    /// [`Code::InUse`]
    pub(crate) fn addresses(&self, routes: &Routes) -> Result<Addresses, Failure> {
        match self.addresses {
            Some(addresses) => routes.check(addresses).map(|()| addresses),
            None => routes.choose(),
        }
    }
}

/// What was asked for, completed; `None` when nothing was.
fn addresses(
    address: Option<Cidr>,
    gateway: Option<Ipv4Addr>,
) -> Result<Option<Addresses>, String> {
    match (address, gateway) {
        (None, None) => Ok(None),
        (None, Some(gateway)) => Err(format!(
            "the gateway {gateway} needs an address beside it: give --address (inet.address) too, \
             in the same network"
        )),
        (Some(stack), None) => Ok(Some(Addresses { stack, gateway: stack.first_other_host() })),
        (Some(stack), Some(gateway)) if stack.is_other_host(gateway) => {
            Ok(Some(Addresses { stack, gateway }))
        }
        (Some(stack), Some(gateway)) => Err(format!(
            "the gateway {gateway} is not another host's address in the network of {stack} ({}/{})",
            stack.network(),
            stack.prefix()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(options: &InstanceOptions) -> Result<Settings, Failure> {
        Settings::new("a".parse().unwrap(), options)
    }

    #[test]
    fn addresses_are_completed_and_checked() {
        let given = |address: &str, gateway: &str| {
            addresses(address.parse().ok(), gateway.parse().ok()).map(|found| {
                found.map(|found| (found.stack.to_string(), found.gateway.to_string()))
            })
        };
        let pair = |a: &str, b: &str| Ok(Some((a.to_owned(), b.to_owned())));
        assert_eq!(given("", ""), Ok(None));
        assert_eq!(given("10.0.0.2/24", ""), pair("10.0.0.2/24", "10.0.0.1"));
        assert_eq!(given("10.0.0.1/24", ""), pair("10.0.0.1/24", "10.0.0.2"));
        assert_eq!(given("10.0.0.2/24", "10.0.0.9"), pair("10.0.0.2/24", "10.0.0.9"));
        for (address, gateway) in [
            ("", "10.0.0.1"),
            ("10.0.0.2/24", "10.0.0.2"),
            ("10.0.0.2/24", "10.0.1.1"),
            ("10.0.0.2/24", "10.0.0.255"),
        ] {
            assert!(given(address, gateway).is_err(), "{address} {gateway}");
        }
    }

    #[test]
    fn the_command_line_wins_over_the_file() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let text = "[instance]\nmode = \"fused\"\n[nic]\ndevice = \"tap:one\"\nmtu = 1400\n\
                    [nic.fault]\nloss = 0.5\n[inet]\naddress = \"10.1.0.2/24\"\n";
        std::io::Write::write_all(&mut file, text.as_bytes()).unwrap();
        let mut options =
            InstanceOptions { config: Some(file.path().to_owned()), ..Default::default() };
        let found = settings(&options).unwrap();
        assert_eq!((found.mode, found.mtu, found.fault.loss), (Mode::Fused, 1400, 0.5));
        assert_eq!(found.device.unwrap().name(), "one");
        options.mode = Some(Mode::Split);
        options.nic = Some("tap:two".parse().unwrap());
        options.fault = Some("duplicate=0.1".parse().unwrap());
        options.address = Some("10.2.0.2/24".parse().unwrap());
        let found = settings(&options).unwrap();
        assert_eq!((found.mode, found.fault.loss, found.fault.duplicate), (Mode::Split, 0.0, 0.1));
        assert_eq!(found.device.unwrap().name(), "two");
        assert_eq!(found.addresses.unwrap().gateway, Ipv4Addr::new(10, 2, 0, 1));
    }

    #[test]
    fn a_file_that_is_not_there() {
        let options = InstanceOptions { config: Some("/none/x.toml".into()), ..Default::default() };
        let failure = settings(&options).unwrap_err();
        assert_eq!(failure.code, Code::Configuration);
        assert!(failure.sentence.contains("/none/x.toml"), "{failure}");
    }
}
