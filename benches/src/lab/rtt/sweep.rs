//! Which parameters are axes, and the settings of each point.
//!
//! An axis is a parameter with more than one value. The other parameters then have their first
//! value. Several axes are measured one after the other, not crossed. Without any option each
//! parameter is an axis once.

use lab::plan::{HostEnd, HostPlaces, LabOptions, Places};
use lab::{Axis, Scale};

use crate::lab::experiment::bytes_axis;

/// A parameter of the paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Parameter {
    Length,
    Gateways,
    Power(HostEnd),
    Load(HostEnd),
    NetworkLoad,
}

/// All that one sample depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Setting {
    /// Bytes of a request.
    pub(super) length: u32,
    /// Forwarding hosts.
    pub(super) gateways: u32,
    /// Percent of a processor, of sender and receiver.
    pub(super) power: [u32; 2],
    /// Computing processes beside sender and receiver.
    pub(super) load: [u32; 2],
    /// Percent of the limited link; `None`: no link is limited.
    pub(super) network_load: Option<u32>,
}

impl Setting {
    /// Is it measured over passt? Hosts have their full power there, and no gateway or limited link
    /// is between them: these are made by root.
    fn is_rootless(&self) -> bool {
        (self.gateways, self.power, self.network_load) == (0, [100; 2], None)
    }
}

/// One axis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sweep {
    pub(super) parameter: Parameter,
    /// Place on the axis, and setting.
    pub(super) points: Vec<(u32, Setting)>,
}

/// The length where others are the axis.
const LENGTH: u32 = 1024;

impl Parameter {
    /// As names of figures have it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Length => "length",
            Self::Gateways => "gateways",
            Self::Power(HostEnd::Both) => "power",
            Self::Power(HostEnd::Sender) => "power-of-sender",
            Self::Power(HostEnd::Receiver) => "power-of-receiver",
            Self::Load(HostEnd::Both) => "load",
            Self::Load(HostEnd::Sender) => "load-of-sender",
            Self::Load(HostEnd::Receiver) => "load-of-receiver",
            Self::NetworkLoad => "network-load",
        }
    }

    /// As titles have it.
    pub(super) fn words(self) -> String {
        self.name().replace('-', " ")
    }

    /// The place whose value others are put in relation to; `None`: the first.
    pub(super) fn anchor(self) -> Option<f64> {
        match self {
            Self::Length => Some(f64::from(LENGTH)),
            Self::Power(_) => Some(100.0),
            _ => None,
        }
    }

    /// Its axis.
    fn axis(self) -> Axis {
        let plain = |title: &str, unit: &str| Axis {
            title: title.to_owned(),
            unit: unit.to_owned(),
            scale: Scale::Linear,
        };
        match self {
            Self::Length => bytes_axis("bytes of a request"),
            Self::Gateways => plain("gateways", ""),
            Self::Power(_) => plain("power of a host", "%"),
            Self::Load(_) => plain("computing processes", ""),
            Self::NetworkLoad => plain("load of the link", "%"),
        }
    }

    /// The setting with this value.
    fn set(self, value: u32, mut setting: Setting) -> Setting {
        let ends = |end| match end {
            HostEnd::Sender => &[0_usize][..],
            HostEnd::Receiver => &[1],
            HostEnd::Both => &[0, 1],
        };
        match self {
            Self::Length => setting.length = value,
            Self::Gateways => setting.gateways = value,
            Self::Power(end) => ends(end).iter().for_each(|end| setting.power[*end] = value),
            Self::Load(end) => ends(end).iter().for_each(|end| setting.load[*end] = value),
            Self::NetworkLoad => {
                setting.network_load = Some(value);
                // Other hosts' datagrams come by the gateway.
                setting.gateways = setting.gateways.max(1);
            }
        }
        setting
    }
}

impl Sweep {
    fn new(parameter: Parameter, places: &[u32], base: Setting) -> Self {
        let points = places.iter().map(|place| (*place, parameter.set(*place, base)));
        Self { parameter, points: points.collect() }
    }

    /// Can a user without rights measure it?
    pub(super) fn is_rootless(&self) -> bool {
        self.points.iter().all(|(_, setting)| setting.is_rootless())
    }

    pub(super) fn axis(&self) -> Axis {
        self.parameter.axis()
    }

    /// Behind the title of a figure.
    pub(super) fn title(&self) -> String {
        let length = self.points.first().map_or(0, |(_, setting)| setting.length);
        let length = lab::report::place(f64::from(length), "B");
        match self.parameter {
            Parameter::Length => ", by length".to_owned(),
            parameter => format!(", {length}, by {}", parameter.words()),
        }
    }

    /// The words behind `tasuki lab` that measure it alone.
    pub(super) fn words(&self) -> String {
        let places: Vec<String> = self.points.iter().map(|(place, _)| place.to_string()).collect();
        let own = places.join(",");
        let mut words = "rtt".to_owned();
        let mut add = |is_own: bool, option: &str, value: Option<String>| {
            if let Some(value) = if is_own { Some(own.clone()) } else { value } {
                words += &format!(" {option}{value}");
            }
        };
        let Some((_, setting)) = self.points.first() else { return words };
        let parameter = self.parameter;
        let usual = |value: u32, usual: u32| (value != usual).then(|| value.to_string());
        add(parameter == Parameter::Length, "--length ", usual(setting.length, LENGTH));
        let is_usual = u32::from(setting.network_load.is_some());
        add(parameter == Parameter::Gateways, "--gateways ", usual(setting.gateways, is_usual));
        for (option, all, default, of) in [
            ("--power ", setting.power, 100, Parameter::Power as fn(HostEnd) -> Parameter),
            ("--load ", setting.load, 0, Parameter::Load),
        ] {
            if parameter == of(HostEnd::Both) {
                add(true, option, None);
                continue;
            }
            for (at, end) in [HostEnd::Sender, HostEnd::Receiver].into_iter().enumerate() {
                let option = format!("{option}{}=", end.word());
                add(parameter == of(end), &option, usual(all[at], default));
            }
        }
        let network_load = setting.network_load.map(|percent| percent.to_string());
        add(parameter == Parameter::NetworkLoad, "--network-load ", network_load);
        words
    }
}

/// What the options ask for.
pub(super) fn sweeps(options: &LabOptions) -> Vec<Sweep> {
    let LabOptions { length, gateways, power, load, network_load, .. } = options;
    let first = |places: &Option<Places>| places.as_ref().map(Places::first);
    let mut base = Setting {
        length: first(length).unwrap_or(LENGTH),
        gateways: first(gateways).unwrap_or(0),
        power: [100; 2],
        load: [0; 2],
        network_load: None,
    };
    let ends = |all: &[HostPlaces], of: fn(HostEnd) -> Parameter| -> Vec<(Parameter, Places)> {
        all.iter().map(|it| (of(it.end), it.places.clone())).collect()
    };
    let mut given = Vec::new();
    let mut give = |parameter, places: &Option<Places>| {
        given.extend(places.clone().map(|places| (parameter, places)));
    };
    give(Parameter::Length, length);
    give(Parameter::Gateways, gateways);
    give(Parameter::NetworkLoad, network_load);
    given.extend(ends(power, Parameter::Power));
    given.extend(ends(load, Parameter::Load));
    if given.is_empty() {
        return default_sweeps(options.quick, base);
    }
    // A computing process or a quota is there or not while others are the axis: the first value.
    for (parameter, places) in given.iter().filter(|(_, places)| !places.are_several()) {
        base = parameter.set(places.first(), base);
    }
    let several = given.iter().filter(|(_, places)| places.are_several());
    let sweeps: Vec<Sweep> =
        several.map(|(parameter, places)| Sweep::new(*parameter, places.all(), base)).collect();
    if sweeps.is_empty() {
        return vec![Sweep::new(Parameter::Length, &[base.length], base)];
    }
    sweeps
}

fn default_sweeps(quick: bool, base: Setting) -> Vec<Sweep> {
    use HostEnd::{Both, Receiver, Sender};
    let all: &[(Parameter, &[u32])] = if quick {
        &[
            (Parameter::Length, &[4, 1024, 8192]),
            (Parameter::Gateways, &[0, 1, 2]),
            (Parameter::Power(Both), &[25, 100]),
            (Parameter::Load(Receiver), &[0, 2]),
        ]
    } else {
        &[
            (Parameter::Length, &[4, 64, 256, 1024, 2048, 4096, 8192]),
            (Parameter::Gateways, &[0, 1, 2, 3, 4]),
            (Parameter::Power(Both), &[10, 25, 50, 75, 100]),
            (Parameter::Load(Sender), &[0, 1, 2, 5, 8]),
            (Parameter::Load(Receiver), &[0, 1, 2, 5, 8]),
            (Parameter::NetworkLoad, &[0, 25, 50, 75, 90]),
        ]
    };
    all.iter().map(|(parameter, places)| Sweep::new(*parameter, places, base)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::options_of;

    fn of(words: &str) -> Vec<Sweep> {
        sweeps(&options_of(words))
    }

    #[test]
    fn what_has_several_values_is_an_axis_and_the_rest_has_its_first() {
        let found = of("rtt --gateways 0,1,2 --load receiver=0..2 --length 64 --power 50");
        let [gateways, load] = &found[..] else { panic!("{found:?}") };
        assert_eq!(gateways.parameter, Parameter::Gateways);
        let settings: Vec<u32> = gateways.points.iter().map(|(_, it)| it.gateways).collect();
        assert_eq!(settings, [0, 1, 2]);
        assert!(gateways.points.iter().all(|(_, it)| it.load == [0, 0] && it.length == 64));
        let loads: Vec<[u32; 2]> = load.points.iter().map(|(_, it)| it.load).collect();
        assert_eq!(loads, [[0, 0], [0, 1], [0, 2]]);
        assert!(load.points.iter().all(|(_, it)| it.power == [50, 50] && it.gateways == 0));
    }

    #[test]
    fn a_sweep_is_repeated_by_its_words() {
        for words in [
            "rtt --length 4,8192",
            "rtt --length 64 --gateways 0,2",
            "rtt --gateways 2 --power sender=50,100",
            "rtt --power 50 --load sender=0,4",
            "rtt --load 1,2",
            "rtt --length 64 --gateways 2 --network-load 0,50",
            "rtt --network-load 0,50",
        ] {
            let [sweep] = &of(words)[..] else { panic!("{words}") };
            assert_eq!(
                &of(&sweep.words())[..],
                std::slice::from_ref(sweep),
                "{words}: {}",
                sweep.words()
            );
        }
    }

    #[test]
    fn all_five_parameters_are_axes_without_options() {
        let names: Vec<&str> = of("rtt").iter().map(|sweep| sweep.parameter.name()).collect();
        let all =
            ["length", "gateways", "power", "load-of-sender", "load-of-receiver", "network-load"];
        assert_eq!(names, all);
        let single = of("rtt --gateways 1 --network-load 20");
        assert_eq!((single.len(), single[0].points.len()), (1, 1));
        assert_eq!(single[0].points[0].1.network_load, Some(20));
    }

    #[test]
    fn without_rights_length_and_loads_are_axes() {
        let all = of("rtt");
        let names = all.iter().filter(|sweep| sweep.is_rootless()).map(|it| it.parameter.name());
        assert_eq!(names.collect::<Vec<_>>(), ["length", "load-of-sender", "load-of-receiver"]);
    }
}
