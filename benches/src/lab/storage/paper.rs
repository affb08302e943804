//! What the fifth paper found, beside the same of ours: throughput and processor time above TCP, in
//! percent of those by ESP.
//!
//! The paper's cipher is triple DES. It measured programs with plain sockets that encrypt whole
//! blocks, and iSCSI whose blocks lay encrypted on the disk. The first is what `--cipher 3des`
//! repeats. The second is encryption end to end. Beside a disk, whose cipher is another one, both
//! stand.

use lab::plan::StorageCipher;
use lab::statistics::median;
use lab::{Direction, Figure};

use crate::lab::derived::{Reference, share_of_base};
use crate::storage::ReadyBlocks;

/// What of the paper's has a counterpart here: means over sizes, and the processor time of the
/// longest block.
struct PaperShares {
    name: &'static str,
    rate: f64,
    cpu: f64,
    cpu_at: Option<(f64, f64)>,
}

const SOCKETS: PaperShares = PaperShares {
    name: "above TCP, sockets",
    rate: 130.0,
    cpu: 97.0,
    cpu_at: Some((4_194_304.0, 85.0)),
};
const ISCSI: PaperShares =
    PaperShares { name: "end to end, iSCSI", rate: 117.0, cpu: 92.0, cpu_at: None };

/// Figures in percent of ESP's, of reads by the size of a block.
pub(super) fn shares(figures: &[Figure], cipher: StorageCipher) -> Vec<Figure> {
    let papers: &[PaperShares] = match cipher {
        StorageCipher::Aes => &[SOCKETS, ISCSI],
        StorageCipher::TripleDes => &[SOCKETS],
    };
    let of = |name: &str,
              title: &str,
              direction,
              references: fn(&PaperShares, &[f64]) -> Vec<Reference>| {
        let figure = figures.iter().find(|figure| figure.name == name)?;
        let places = figure.places();
        let references: Vec<_> = papers.iter().flat_map(|it| references(it, &places)).collect();
        let name = format!("{name}-share");
        let mut share = share_of_base(figure, (&name, title), direction, &references)?;
        // What is not encrypted at all is hundreds of times as fast, and would flatten the rest.
        share.series.retain(|series| series.name != ReadyBlocks::CLEAR);
        Some(share)
    };
    let rate = of("read", "Reads, in percent of those by ESP", Direction::Higher, rates);
    let title = "Processor time of both sides for reads, in percent of that by ESP";
    rate.into_iter().chain(of("cpu", title, Direction::Lower, times)).collect()
}

fn rates(paper: &PaperShares, places: &[f64]) -> Vec<Reference> {
    let name = format!("paper 5: {}, mean of all sizes", paper.name);
    vec![Reference::flat(&name, places, paper.rate)]
}

fn times(paper: &PaperShares, places: &[f64]) -> Vec<Reference> {
    let name = format!("paper 5: {}, mean of all sizes", paper.name);
    let longest = paper.cpu_at.filter(|(place, _)| places.contains(place));
    let longest = longest.map(|point| Reference {
        name: format!("paper 5: {}, 4 MiB", paper.name),
        points: vec![point],
    });
    [Reference::flat(&name, places, paper.cpu)].into_iter().chain(longest).collect()
}

/// What whole blocks above TCP have of ESP, beside the paper's; `None` of any other figure.
pub(super) fn sentence(share: &Figure) -> Option<String> {
    let above = share.series.iter().find(|series| series.name == ReadyBlocks::ABOVE)?;
    let percents: Vec<f64> =
        above.points.iter().filter_map(|point| median(&point.values())).collect();
    let least = percents.iter().copied().reduce(f64::min)?;
    let most = percents.iter().copied().reduce(f64::max)?;
    let (what, paper) = match share.direction {
        Direction::Higher => ("throughput", SOCKETS.rate),
        Direction::Lower => ("processor time", SOCKETS.cpu),
    };
    Some(format!(
        "Whole blocks encrypted above TCP have {least:.0} to {most:.0} % of the {what} of ESP, \
         both with triple DES; paper 5 found {paper:.0} % on average."
    ))
}

#[cfg(test)]
mod tests {
    use lab::Series;

    use super::*;
    use crate::lab::figure_of::figure_of;

    fn figure(name: &str, direction: Direction) -> Figure {
        let by = |by: f64| vec![(65_536.0, vec![10.0 * by]), (4_194_304.0, vec![20.0 * by])];
        let series = [
            ("3DES by ESP", by(1.0)),
            (ReadyBlocks::CLEAR, by(100.0)),
            (ReadyBlocks::ABOVE, by(1.1)),
        ];
        figure_of(name, direction, "3DES by ESP", &series)
    }

    #[test]
    fn the_paper_of_the_same_measurement_stands_beside_ours() {
        let figures = [figure("read", Direction::Higher), figure("cpu", Direction::Lower)];
        let shares = shares(&figures, StorageCipher::TripleDes);
        let lines: Vec<Vec<(&str, f64)>> = shares
            .iter()
            .map(|share| {
                let last =
                    |it: &Series| it.points.last().map_or(0.0, |point| point.samples[0].value);
                share.series.iter().map(|it| (&it.name[..], last(it).round())).collect()
            })
            .collect();
        let mean = "paper 5: above TCP, sockets, mean of all sizes";
        assert_eq!(lines[0], [(ReadyBlocks::ABOVE, 110.0), (mean, 130.0)]);
        let longest = "paper 5: above TCP, sockets, 4 MiB";
        assert_eq!(lines[1], [(ReadyBlocks::ABOVE, 110.0), (mean, 97.0), (longest, 85.0)]);
        let said: Vec<String> = shares.iter().filter_map(sentence).collect();
        assert!(said[0].contains("110 to 110 % of the throughput of ESP"), "{said:?}");
        assert!(said[1].contains("paper 5 found 97 % on average"), "{said:?}");
    }

    #[test]
    fn beside_a_disk_stand_both_of_the_papers() {
        let shares = shares(&[figure("read", Direction::Higher)], StorageCipher::Aes);
        assert_eq!(shares[0].series.iter().filter(|series| series.reference).count(), 2);
    }
}
