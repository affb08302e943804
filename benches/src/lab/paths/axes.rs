//! Which of loss, delay and queue are axes, and the setting of each point.
//!
//! As with round trips: what has more than one value is an axis, and the others have their first
//! value. Without any option each is an axis once. `--cross` has each loss with each delay, for
//! each queue: a map.

use lab::plan::{LabOptions, Percents, Places, percent};
use lab::{Axis, Scale, SecondAxis};

use super::bad_path::WireSetting;

/// Loss, delay and queue where they are not the axis and not given. The queue is half of what is on
/// its way at the link's rate.
const BASE: WireSetting = WireSetting { loss: 0, delay: 20, queue: 256 };
/// The same loss makes longer delays slower.
const LOSS_BY_DELAY: u32 = 10;
/// The places of loss and delay, of lines and of maps.
const LOSSES: [u32; 4] = [0, 10, 100, 300];
const DELAYS: [u32; 4] = [5, 20, 50, 100];
const QUICK_LOSSES: [u32; 2] = [0, 100];
const QUICK_DELAYS: [u32; 2] = [5, 50];

/// A property of the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WireProperty {
    Loss,
    Delay,
    Queue,
}

/// One axis, or the two of a map.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WireAxis {
    pub(super) property: WireProperty,
    /// Down, in a map.
    pub(super) second: Option<WireProperty>,
    pub(super) points: Vec<WireSetting>,
}

impl WireProperty {
    /// As names of figures have it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Loss => "loss",
            Self::Delay => "delay",
            Self::Queue => "queue",
        }
    }

    fn set(self, value: u32, setting: WireSetting) -> WireSetting {
        match self {
            Self::Loss => WireSetting { loss: value, ..setting },
            Self::Delay => WireSetting { delay: value, ..setting },
            Self::Queue => WireSetting { queue: value, ..setting },
        }
    }

    /// The place on the axis.
    pub(super) fn place(self, setting: WireSetting) -> f64 {
        match self {
            Self::Loss => f64::from(setting.loss) / 100.0,
            Self::Delay => f64::from(setting.delay),
            Self::Queue => f64::from(setting.queue) * 1024.0,
        }
    }

    /// What it is, and its unit.
    fn title(self) -> (&'static str, &'static str) {
        match self {
            Self::Loss => ("lost frames, each way", "%"),
            Self::Delay => ("delay, each way", "ms"),
            Self::Queue => ("queue before the link", "B"),
        }
    }

    /// With its place, for people.
    fn point(self, setting: WireSetting) -> String {
        let place = lab::report::place(self.place(setting), self.title().1);
        format!("{} {place}", self.name())
    }
}

impl WireAxis {
    fn new(property: WireProperty, places: &[u32], base: WireSetting) -> Self {
        let points = places.iter().map(|place| property.set(*place, base)).collect();
        Self { property, second: None, points }
    }

    /// Each loss with each delay before this queue.
    fn map(losses: &[u32], delays: &[u32], queue: u32) -> Self {
        let of = |loss: &u32| {
            let loss = *loss;
            delays.iter().map(move |delay| WireSetting { loss, delay: *delay, queue })
        };
        let points = losses.iter().flat_map(of).collect();
        Self { property: WireProperty::Loss, second: Some(WireProperty::Delay), points }
    }

    /// Does it have two axes?
    pub(super) fn is_map(&self) -> bool {
        self.second.is_some()
    }

    /// What is across, and what is down.
    fn properties(&self) -> impl Iterator<Item = WireProperty> {
        [Some(self.property), self.second].into_iter().flatten()
    }

    /// As the title of a figure has them.
    pub(super) fn words_of_properties(&self) -> String {
        self.properties().map(WireProperty::name).collect::<Vec<_>>().join(" and ")
    }

    /// As the name of a figure has it.
    pub(super) fn name(&self) -> String {
        let queue = self.points.first().map_or(BASE.queue, |setting| setting.queue);
        let words = self.words_of_properties().replace(' ', "-");
        if self.is_map() { format!("{words}-queue-{queue}") } else { words }
    }

    pub(super) fn axis(&self) -> Axis {
        let (title, unit) = self.property.title();
        let scale = match self.property {
            WireProperty::Loss | WireProperty::Delay => Scale::Linear,
            WireProperty::Queue => Scale::Log,
        };
        Axis { title: title.to_owned(), unit: unit.to_owned(), scale }
    }

    /// That of a map.
    pub(super) fn second_axis(&self) -> Option<SecondAxis> {
        let (title, unit) = self.second?.title();
        Some(SecondAxis { title: title.to_owned(), unit: unit.to_owned(), ..SecondAxis::default() })
    }

    /// Across, and down in a map.
    pub(super) fn places(&self, setting: WireSetting) -> [f64; 2] {
        [self.property.place(setting), self.second.map_or(0.0, |second| second.place(setting))]
    }

    /// A point, for people.
    pub(super) fn point(&self, setting: WireSetting) -> String {
        self.properties().map(|it| it.point(setting)).collect::<Vec<_>>().join(", ")
    }

    /// What stays the same, for a title.
    pub(super) fn title(&self) -> String {
        let WireSetting { loss, delay, queue } = self.points.first().copied().unwrap_or(BASE);
        let parts = [
            (WireProperty::Loss, format!("{} % lost", percent(loss))),
            (WireProperty::Delay, format!("{delay} ms each way")),
            (WireProperty::Queue, format!("queue of {queue} KiB")),
        ];
        let is_own = |property| self.properties().any(|own| own == property);
        let others = parts.into_iter().filter(|(property, _)| !is_own(*property));
        others.map(|(_, words)| words).collect::<Vec<_>>().join(", ")
    }

    /// The words behind `tasuki lab` that measure it alone.
    pub(super) fn words(&self) -> String {
        let values = |of: fn(&WireSetting) -> String| {
            let mut all: Vec<String> = Vec::new();
            for value in self.points.iter().map(of) {
                if !all.contains(&value) {
                    all.push(value);
                }
            }
            all.join(",")
        };
        let cross = if self.is_map() { " --cross" } else { "" };
        format!(
            "paths{cross} --loss {} --delay {} --queue {}",
            values(|it| percent(it.loss)),
            values(|it| it.delay.to_string()),
            values(|it| it.queue.to_string())
        )
    }
}

/// What the options ask for.
pub(super) fn axes(options: &LabOptions) -> Vec<WireAxis> {
    let of = |places: &Option<Places>| places.as_ref().map(|it| it.all().to_vec());
    let loss = options.loss.as_ref().map(Percents::hundredths).map(<[u32]>::to_vec);
    if options.cross {
        let (losses, delays): (&[u32], &[u32]) =
            if options.quick { (&QUICK_LOSSES, &QUICK_DELAYS) } else { (&LOSSES, &DELAYS) };
        let losses = loss.as_deref().unwrap_or(losses);
        let delays = options.delay.as_ref().map_or(delays, Places::all);
        let queues = options.queue.as_ref().map_or(&[BASE.queue][..], Places::all);
        return queues.iter().map(|queue| WireAxis::map(losses, delays, *queue)).collect();
    }
    let all = [
        (WireProperty::Loss, loss),
        (WireProperty::Delay, of(&options.delay)),
        (WireProperty::Queue, of(&options.queue)),
    ];
    let given: Vec<(WireProperty, Vec<u32>)> =
        all.into_iter().filter_map(|(property, places)| Some((property, places?))).collect();
    if given.is_empty() {
        return usual(options.quick);
    }
    let first = |base, (property, places): &(WireProperty, Vec<u32>)| {
        places.first().map_or(base, |value| property.set(*value, base))
    };
    let base = given.iter().fold(BASE, first);
    let several = given.iter().filter(|(_, places)| places.len() > 1);
    let found: Vec<WireAxis> =
        several.map(|(property, places)| WireAxis::new(*property, places, base)).collect();
    if found.is_empty() {
        return vec![WireAxis::new(WireProperty::Loss, &[base.loss], base)];
    }
    found
}

fn usual(quick: bool) -> Vec<WireAxis> {
    let lossy = WireSetting { loss: LOSS_BY_DELAY, ..BASE };
    if quick {
        return vec![WireAxis::new(WireProperty::Loss, &QUICK_LOSSES, BASE)];
    }
    vec![
        WireAxis::new(WireProperty::Loss, &LOSSES, BASE),
        WireAxis::new(WireProperty::Delay, &DELAYS, lossy),
        WireAxis::new(WireProperty::Queue, &[16, 64, 256, 1024], BASE),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::options_of;

    fn of(words: &str) -> Vec<WireAxis> {
        axes(&options_of(words))
    }

    #[test]
    fn an_axis_is_repeated_by_its_words() {
        let all = of("paths");
        let names: Vec<&str> = all.iter().map(|axis| axis.property.name()).collect();
        assert_eq!(names, ["loss", "delay", "queue"]);
        for axis in all {
            let again = of(&axis.words());
            assert_eq!(again, std::slice::from_ref(&axis), "{}", axis.words());
        }
        let [loss, delay] = &of("paths --loss 0..3 --delay 5..100 --queue 64")[..] else {
            panic!()
        };
        assert_eq!((loss.points.len(), delay.points.len()), (4, 6));
        assert_eq!(loss.points[3], WireSetting { loss: 300, delay: 5, queue: 64 });
        assert_eq!(loss.title(), "5 ms each way, queue of 64 KiB");
        assert_eq!(of("paths --loss 0.5")[0].points.len(), 1);
    }

    #[test]
    fn a_map_has_each_loss_with_each_delay_before_one_queue() {
        let maps = of("paths --cross --loss 0,3 --delay 5,50,100 --queue 64,256");
        assert_eq!(maps.iter().map(|map| map.points.len()).collect::<Vec<_>>(), [6, 6]);
        let last = WireSetting { loss: 300, delay: 100, queue: 256 };
        assert_eq!(maps[1].points[5], last);
        assert_eq!(maps[1].places(last), [3.0, 100.0]);
        assert_eq!(maps[1].point(last), "loss 3 %, delay 100 ms");
        assert_eq!(
            (maps[1].title(), maps[0].name()),
            ("queue of 256 KiB".to_owned(), "loss-and-delay-queue-64".to_owned())
        );
        assert_eq!(of("paths --cross")[0].points.len(), 16);
        assert_eq!(of("paths --cross --quick --loss 1")[0].points.len(), 2);
    }
}
