//! Real outputs: redis 7.0, wrk 4.1, iperf3 3.12, sockperf 3.7, pgbench 15, memaslap 1.0.

use super::*;

fn values(readings: &[Reading]) -> Vec<(Option<&str>, Quantity, f64)> {
    let value = |it: &Reading| (it.value * 1000.0).round() / 1000.0;
    readings.iter().map(|it| (it.request.as_deref(), it.quantity, value(it))).collect()
}

#[test]
fn redis_has_a_line_for_each_request() {
    let readings = redis(include_str!("fixtures/redis.csv")).unwrap();
    assert_eq!(
        values(&readings),
        [
            (Some("SET"), Quantity::Rate, 60_975.61),
            (Some("SET"), Quantity::Median, 511.0),
            (Some("SET"), Quantity::P99, 4007.0),
            (Some("GET"), Quantity::Rate, 53_763.44),
            (Some("GET"), Quantity::Median, 519.0),
            (Some("GET"), Quantity::P99, 5383.0),
        ]
    );
    assert!(redis("\"test\",\"rps\"\n\"SET\",\"1\"\n").is_err(), "an older redis-benchmark");
    assert!(redis("").is_err());
}

#[test]
fn wrk_has_times_in_several_units_and_counts_errors() {
    let said = include_str!("fixtures/wrk.txt");
    let figures = |rate, p50, p99, errors| {
        [
            (None, Quantity::Rate, rate),
            (None, Quantity::Median, p50),
            (None, Quantity::P99, p99),
            (None, Quantity::Errors, errors),
        ]
    };
    assert_eq!(values(&wrk(said).unwrap()), figures(65_439.24, 592.0, 2790.0, 0.0));
    let said = include_str!("fixtures/wrk-errors.txt");
    assert_eq!(values(&wrk(said).unwrap()), figures(982.6, 10_120.0, 11_450.0, 1971.0));
    assert!(wrk("unable to connect to 10.0.0.1:80 Connection refused").is_err());
}

#[test]
fn iperf3_says_what_has_arrived_or_its_error() {
    let readings = iperf3(include_str!("fixtures/iperf3.json")).unwrap();
    assert_eq!(values(&readings), [(None, Quantity::Rate, 1867.805)]);
    let error = iperf3(r#"{ "error": "unable to connect to server" }"#).unwrap_err();
    assert_eq!(error.to_string(), "unable to connect to server");
}

#[test]
fn sockperf_has_percentiles() {
    let readings = sockperf(include_str!("fixtures/sockperf.txt")).unwrap();
    assert_eq!(
        values(&readings),
        [
            (None, Quantity::Rate, 10_232.727),
            (None, Quantity::Median, 21.782),
            (None, Quantity::P99, 1144.147),
            (None, Quantity::P999, 2331.339),
            (None, Quantity::Errors, 0.0),
        ]
    );
    let loaded = sockperf_load(include_str!("fixtures/sockperf.txt")).unwrap();
    assert_eq!(values(&loaded), values(&readings)[1..]);
    assert!(sockperf("sockperf: Test ended").is_err());
}

#[test]
fn pgbench_and_its_log_give_percentiles() {
    let readings = pgbench(include_str!("fixtures/pgbench.txt")).unwrap();
    assert_eq!(
        values(&readings),
        [
            (None, Quantity::Rate, 16_842.105),
            (None, Quantity::Median, 34.0),
            (None, Quantity::P99, 1121.0),
            (None, Quantity::Errors, 0.0),
        ]
    );
    assert!(pgbench("tps = 5.0 (without initial connection time)\n").is_err(), "no log");
}

#[test]
fn memaslap_gives_a_rate() {
    let readings = memaslap(include_str!("fixtures/memaslap.txt")).unwrap();
    let expected = [(None, Quantity::Rate, 111_270.0), (None, Quantity::Errors, 0.0)];
    assert_eq!(values(&readings), expected);
    assert!(memaslap("threads count: 2").is_err());
}
