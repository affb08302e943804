//! What encryption end to end costs: beside the same unit in plain, within rounds.

use lab::Figure;
use lab::statistics::median;

use crate::lab::derived::ratios;
use crate::storage::ReadyMemory;

/// How much of the plain unit's throughput is left; `None` of a figure of anything else.
pub(super) fn sentence(figure: &Figure) -> Option<String> {
    let what = match &figure.name[..] {
        "read" | "read-by-delay" => "reads",
        "write" => "writes",
        _ => return None,
    };
    let of = |name: &str| figure.series.iter().find(|series| series.name == name);
    let (plain, encrypted) = (of(ReadyMemory::PLAIN)?, of(ReadyMemory::END_TO_END)?);
    let share = |point: &lab::Point| median(&ratios(point, plain.beside(point)?)?.values());
    let shares: Vec<f64> = encrypted.points.iter().filter_map(share).collect();
    let least = 100.0 * shares.iter().copied().reduce(f64::min)?;
    let most = 100.0 * shares.iter().copied().reduce(f64::max)?;
    let range = match shares.len() {
        1 => format!("{least:.0}"),
        _ => format!("{least:.0} to {most:.0}"),
    };
    let axis = &figure.axis.title;
    Some(format!(
        "Encrypted end to end, {what} have {range} % of the throughput of the same unit in plain \
         ({axis})."
    ))
}

#[cfg(test)]
mod tests {
    use lab::Direction;

    use super::*;
    use crate::lab::figure_of::figure_of;

    fn figure(name: &str, encrypted: &[[f64; 2]]) -> Figure {
        let placed = |all: &[[f64; 2]]| {
            (0..).zip(all).map(|(x, values)| (f64::from(x), values.to_vec())).collect()
        };
        let series = [
            (ReadyMemory::PLAIN, placed(&[[100.0, 200.0]; 2])),
            (ReadyMemory::END_TO_END, placed(encrypted)),
        ];
        figure_of(name, Direction::Higher, "esp", &series)
    }

    #[test]
    fn the_share_is_that_within_rounds() {
        let said = sentence(&figure("read", &[[50.0, 100.0], [80.0, 160.0]])).unwrap();
        assert!(said.contains("reads have 50 to 80 % of the throughput"), "{said}");
        let said = sentence(&figure("write", &[[25.0, 50.0]])).unwrap();
        assert!(said.contains("writes have 25 % of the throughput"), "{said}");
        assert_eq!(sentence(&figure("cpu", &[[25.0, 50.0]])), None);
    }
}
