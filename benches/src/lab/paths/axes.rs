//! Which of loss, delay and queue are axes, and the setting of each point.
//!
//! As with round trips: what has more than one value is an axis, and the others have their first
//! value. Without any option each is an axis once.

use lab::plan::{LabOptions, Percents, Places, percent};
use lab::{Axis, Scale};

use super::bad_path::WireSetting;

/// Loss, delay and queue where they are not the axis and not given. The queue is half of what is on
/// its way at the link's rate.
const BASE: WireSetting = WireSetting { loss: 0, delay: 20, queue: 256 };
/// The same loss makes longer delays slower.
const LOSS_BY_DELAY: u32 = 10;

/// A property of the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WireProperty {
    Loss,
    Delay,
    Queue,
}

/// One axis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WireAxis {
    pub(super) property: WireProperty,
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
}

impl WireAxis {
    fn new(property: WireProperty, places: &[u32], base: WireSetting) -> Self {
        let points = places.iter().map(|place| property.set(*place, base)).collect();
        Self { property, points }
    }

    pub(super) fn axis(&self) -> Axis {
        let (title, unit, scale) = match self.property {
            WireProperty::Loss => ("lost frames, each way", "%", Scale::Linear),
            WireProperty::Delay => ("delay, each way", "ms", Scale::Linear),
            WireProperty::Queue => ("queue before the link", "B", Scale::Log),
        };
        Axis { title: title.to_owned(), unit: unit.to_owned(), scale }
    }

    /// What stays the same, for a title.
    pub(super) fn title(&self) -> String {
        let WireSetting { loss, delay, queue } = self.points.first().copied().unwrap_or(BASE);
        let parts = [
            (WireProperty::Loss, format!("{} % lost", percent(loss))),
            (WireProperty::Delay, format!("{delay} ms each way")),
            (WireProperty::Queue, format!("queue of {queue} KiB")),
        ];
        let others = parts.into_iter().filter(|(property, _)| *property != self.property);
        others.map(|(_, words)| words).collect::<Vec<_>>().join(", ")
    }

    /// The words behind `tasuki lab` that measure it alone.
    pub(super) fn words(&self) -> String {
        let values = |of: fn(&WireSetting) -> String| {
            let mut all: Vec<String> = self.points.iter().map(of).collect();
            all.dedup();
            all.join(",")
        };
        format!(
            "paths --loss {} --delay {} --queue {}",
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
        return vec![WireAxis::new(WireProperty::Loss, &[0, 100], BASE)];
    }
    vec![
        WireAxis::new(WireProperty::Loss, &[0, 10, 100, 300], BASE),
        WireAxis::new(WireProperty::Delay, &[5, 20, 50, 100], lossy),
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
}
