use std::time::Duration;

use proptest::prelude::*;
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;

use super::*;

/// Two normal values (Box and Muller).
fn normal(random: &mut ChaCha8Rng) -> f64 {
    let (a, b): (f64, f64) = (random.random(), random.random());
    (-2.0 * (1.0 - a).ln()).sqrt() * (std::f64::consts::TAU * b).cos()
}

fn samples(count: usize, mut one: impl FnMut() -> f64) -> Vec<f64> {
    (0..count).map(|_| one()).collect()
}

#[test]
fn medians_and_quantiles() {
    assert_eq!(median(&[]), None);
    assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
    assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    // As R's quantile(c(1,2,3,4,10), c(0, .1, .99, 1)) has it.
    let values = [1.0, 2.0, 3.0, 4.0, 10.0];
    let all = [0.0, 0.1, 0.99, 1.0].map(|at| quantile(&values, at).expect("five values"));
    for (found, expected) in all.into_iter().zip([1.0, 1.4, 9.76, 10.0]) {
        assert!((found - expected).abs() < 1e-12, "{found} {expected}");
    }
}

#[test]
fn outliers_lie_beyond_the_fences() {
    // Quartiles 2 and 4, so the fences are -1 and 7.
    assert_eq!(outliers(&[1.0, 2.0, 3.0, 4.0, 7.0]), 0);
    assert_eq!(outliers(&[1.0, 2.0, 3.0, 4.0, 7.1]), 1);
    assert_eq!(outliers(&[-1.1, 4.0, 3.0, 2.0, 5.0]), 1);
    // Quartiles 2.5 and 7.5.
    let both = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 30.0, -30.0];
    assert_eq!(outliers(&both), 2);
    // Where most are the same any other one is far away.
    assert_eq!(outliers(&[5.0, 5.0, 5.0, 5.0, 5.0, 5.1]), 1);
    assert_eq!(outliers(&[5.0; 9]), 0);
    // Too few.
    assert_eq!(outliers(&[1.0, 1.0, 1.0, 1000.0]), 0);
    assert_eq!(outliers(&[]), 0);
}

#[test]
fn an_interval_is_reproducible_and_knows_few_samples() {
    let values = [1.0, 2.0, 3.0, 4.0, 5.0];
    assert_eq!(median_interval(&values), median_interval(&values));
    let interval = median_interval(&values).expect("an interval");
    assert_eq!((interval.low, interval.middle, interval.high), (1.0, 3.0, 5.0));
    let one = median_interval(&[7.0]).expect("an interval");
    assert_eq!((one.low, one.high, one.relative_half_width()), (7.0, 7.0, 0.0));
    assert_eq!(median_interval(&[]), None);
    assert_eq!(ratio_interval(&[1.0], &[0.0]), None);
}

/// How often the interval of `count` samples has the true median.
fn coverage(count: usize, truth: f64, one: fn(&mut ChaCha8Rng) -> f64) -> f64 {
    let mut random = ChaCha8Rng::seed_from_u64(count as u64);
    let trials = 600;
    let hits = (0..trials)
        .filter(|_| {
            let drawn = samples(count, || one(&mut random));
            median_interval(&drawn).is_some_and(|interval| interval.contains(truth))
        })
        .count();
    hits as f64 / f64::from(trials)
}

#[test]
fn intervals_have_the_true_median_by_95_percent() {
    type Draw = fn(&mut ChaCha8Rng) -> f64;
    let distributions: [(&str, f64, Draw); 4] = [
        ("normal", 10.0, |random| 10.0 + normal(random)),
        ("uniform", 0.5, |random| random.random()),
        ("exponential", std::f64::consts::LN_2, |random| -(1.0 - random.random::<f64>()).ln()),
        ("lognormal", 1.0, |random| (normal(random) / 2.0).exp()),
    ];
    for (name, truth, one) in distributions {
        for count in [10, 25, 60, 401] {
            let found = coverage(count, truth, one);
            assert!((0.92..=0.985).contains(&found), "{name}, {count} samples: {found}");
        }
    }
}

#[test]
fn intervals_of_ratios_have_the_true_ratio_by_95_percent() {
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let trials = 400;
    let hits = (0..trials)
        .filter(|_| {
            let before = samples(15, || 100.0 * (0.05 * normal(&mut random)).exp());
            let after = samples(15, || 90.0 * (0.05 * normal(&mut random)).exp());
            ratio_interval(&after, &before).is_some_and(|interval| interval.contains(0.9))
        })
        .count();
    let found = hits as f64 / f64::from(trials);
    assert!((0.92..=0.985).contains(&found), "{found}");
}

#[test]
fn the_test_finds_no_difference_without_one_in_19_of_20() {
    let mut random = ChaCha8Rng::seed_from_u64(2);
    for count in [5, 10, 20] {
        // With outliers, as a machine has them.
        let mut one = || {
            let is_outlier = random.random::<f64>() < 0.05;
            0.03 * normal(&mut random) + if is_outlier { 0.3 } else { 0.0 }
        };
        let trials = 2000;
        let alarms = (0..trials)
            .filter(|_| {
                let (a, b) = (samples(count, &mut one), samples(count, &mut one));
                difference(&a, &b).is_some_and(|likelihood| likelihood < 0.05)
            })
            .count();
        let found = alarms as f64 / f64::from(trials);
        assert!(found < 0.065, "{count} samples: {found}");
    }
}

#[test]
fn the_test_agrees_with_tables() {
    // Five samples: one is cut at each end. R: WRS2::yuen, by hand.
    let likelihood = difference(&[1.0, 2.0, 3.0, 4.0, 5.0], &[11.0, 12.0, 13.0, 14.0, 15.0]);
    assert!(likelihood.expect("enough samples") < 0.01, "{likelihood:?}");
    // Four samples: nothing is cut. Welch's t is 3.0 with 6 degrees of freedom: p = 0.02401.
    let spread = [1.0, 1.0, -1.0, -1.0];
    let distance = 3.0 * (2.0_f64 / 3.0).sqrt();
    let other = spread.map(|value| value + distance);
    let likelihood = difference(&spread, &other).expect("enough samples");
    assert!((likelihood - 0.024_01).abs() < 1e-4, "{likelihood}");
    assert_eq!(difference(&[1.0, 2.0], &[1.0, 2.0, 3.0]), None);
    assert_eq!(difference(&[1.0; 3], &[1.0; 3]), Some(1.0));
    assert_eq!(difference(&[1.0; 3], &[2.0; 3]), Some(0.0));
}

#[test]
fn likelihoods_are_adjusted_for_their_number() {
    // As R's p.adjust(c(.01, .02, .03, .5), "BH") has it.
    let found = adjusted(&[0.01, 0.5, 0.03, 0.02]);
    for (found, expected) in found.into_iter().zip([0.04, 0.5, 0.04, 0.04]) {
        assert!((found - expected).abs() < 1e-12, "{found} {expected}");
    }
    assert_eq!(adjusted(&[]), Vec::<f64>::new());
}

#[test]
fn a_measurement_ends_when_its_interval_is_narrow_or_its_time_is_up() {
    let rule = Precision { least: 6, half_width: 0.05, time: Duration::from_secs(10) };
    let (early, late) = (Duration::from_secs(1), Duration::from_secs(10));
    assert_eq!(rule.judge(&[100.0; 5], early), Verdict::GoOn);
    assert_eq!(rule.judge(&[100.0; 6], early), Verdict::Narrow);
    let wild = [50.0, 100.0, 150.0, 80.0, 120.0, 200.0, 90.0];
    assert_eq!(rule.judge(&wild, early), Verdict::GoOn);
    assert_eq!(rule.judge(&wild, late), Verdict::OutOfTime);
    assert_eq!(rule.judge(&[], late), Verdict::OutOfTime);
}

#[test]
fn more_noise_needs_more_rounds() {
    let rounds = |noise: f64| {
        let mut random = ChaCha8Rng::seed_from_u64(3);
        let mut taken = Vec::new();
        while Precision::default().judge(&taken, Duration::ZERO) == Verdict::GoOn {
            taken.push(100.0 * (noise * normal(&mut random)).exp());
        }
        taken.len()
    };
    let (quiet, loud) = (rounds(0.02), rounds(0.15));
    assert!(quiet < 10 && loud > 2 * quiet && loud < 200, "{quiet} {loud}");
}

proptest! {
    #[test]
    fn an_interval_lies_around_the_median_and_within_the_samples(
        values in prop::collection::vec(0.0..1e9_f64, 1..60)
    ) {
        let it = median_interval(&values).expect("samples");
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(0.0, f64::max);
        prop_assert!(least <= it.low && it.low <= it.middle, "{it:?}");
        prop_assert!(it.middle <= it.high && it.high <= most, "{it:?}");
    }

    /// The middle half is never among them, and order, unit and place of zero do not matter.
    #[test]
    fn outliers_are_fewer_than_half_and_do_not_depend_on_order_or_unit(
        values in prop::collection::vec(0..10_000_u32, 0..60)
    ) {
        let values: Vec<f64> = values.into_iter().map(f64::from).collect();
        let found = outliers(&values);
        prop_assert!(2 * found <= values.len(), "{found}");
        prop_assert!(values.len() >= 5 || found == 0);
        let reversed: Vec<f64> = values.iter().rev().copied().collect();
        prop_assert_eq!(outliers(&reversed), found);
        // Powers of two, so that nothing is rounded.
        let moved: Vec<f64> = values.iter().map(|value| 1024.0 + 4.0 * value).collect();
        prop_assert_eq!(outliers(&moved), found);
    }

    #[test]
    fn one_far_away_is_an_outlier(
        mut values in prop::collection::vec(1.0..2.0_f64, 5..60), far in 10.0..1e9_f64
    ) {
        values.push(far);
        prop_assert!(outliers(&values) >= 1);
    }

    #[test]
    fn a_likelihood_is_one_and_has_no_order(
        a in prop::collection::vec(0.0..1e9_f64, 0..20),
        b in prop::collection::vec(0.0..1e9_f64, 0..20),
    ) {
        let likelihood = difference(&a, &b);
        prop_assert_eq!(likelihood, difference(&b, &a));
        prop_assert_eq!(likelihood.is_some(), a.len() >= 3 && b.len() >= 3);
        prop_assert!(likelihood.is_none_or(|it| (0.0..=1.0).contains(&it)));
    }

    #[test]
    fn adjusting_keeps_the_order(values in prop::collection::vec(0.0..1.0_f64, 0..40)) {
        let found = adjusted(&values);
        for (value, after) in values.iter().zip(&found) {
            prop_assert!(after >= value && *after <= 1.0);
        }
        for (a, found_a) in values.iter().zip(&found) {
            for (b, found_b) in values.iter().zip(&found) {
                prop_assert!(a > b || found_a <= found_b);
            }
        }
    }
}
