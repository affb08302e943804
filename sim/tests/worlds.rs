//! Many worlds by their seeds, and a few whose outcome is known.

use core::time::Duration;

use inet::tcp::TcpConfig;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketOption;
use pcap_file::pcapng::{Block, PcapNgReader};
use tasuki_sim::link::LinkConfig;
use tasuki_sim::{Kind, Report, Scenario, World};

/// Worlds of each kind; `TASUKI_SIM_WORLDS` sets another number.
fn worlds() -> u64 {
    let asked = std::env::var("TASUKI_SIM_WORLDS").ok();
    asked.map_or(500, |text| text.parse().expect("TASUKI_SIM_WORLDS is a number"))
}

fn run_all(kind: Kind) {
    let failures: Vec<String> = (0..worlds())
        .filter_map(|seed| tasuki_sim::run(&Scenario::draw(seed, kind)).err())
        .collect();
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

#[test]
fn worlds_of_bare_connections() {
    run_all(Kind::Bare);
}

#[test]
fn worlds_of_whole_stacks() {
    run_all(Kind::Whole);
}

#[test]
fn worlds_of_ipv6() {
    run_all(Kind::Ipv6);
}

/// In this world a neighbour falls silent for minutes while the application writes: the output that
/// is dropped meanwhile leaves a gap in the numbers on the link.
#[test]
fn a_silent_neighbour_leaves_a_gap() {
    let world = World::new(Scenario::draw(8576, Kind::Ipv6), false);
    world.run().unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn worlds_of_esp() {
    run_all(Kind::Esp);
}

fn stream(link: &LinkConfig, tcp: TcpConfig, bytes: u64) -> Report {
    let mut reports = [Kind::Bare, Kind::Whole, Kind::Ipv6].map(|kind| {
        let report = World::new(Scenario::stream(kind, link, tcp, bytes), false).run();
        report.unwrap_or_else(|error| panic!("{error}"))
    });
    let [bare, whole, ipv6] = &mut reports;
    assert!([&bare, &whole, &ipv6].iter().all(|report| report.received == [0, bytes]));
    println!("{bare:?}\n{whole:?}\n{ipv6:?}");
    // A stack asks for the neighbour's address first.
    if whole.time > bare.time { whole.clone() } else { bare.clone() }
}

fn rate(report: &Report) -> f64 {
    report.received[1] as f64 / report.time.as_secs_f64()
}

const ONE_WAY: Duration = Duration::from_millis(5);

fn large_window() -> TcpConfig {
    TcpConfig { recv_buffer: 4 << 20, ..TcpConfig::default() }
}

/// 100 Mbit/s, 10 ms: the bandwidth-delay product is 125 kB.
#[test]
fn a_clean_link_is_filled() {
    let link = LinkConfig::perfect(ONE_WAY, 100_000_000);
    let report = stream(&link, large_window(), 8_000_000);
    // Headers take 5 %, slow start some round trips.
    assert!(rate(&report) > 0.88 * 12_500_000.0, "{}", rate(&report));
    assert_eq!(report.repeated, [0, 0]);
    // An ACK for every second segment, about.
    assert!(report.segments[1] < report.segments[0] * 6 / 10, "{:?}", report.segments);
}

/// Whatever the link could carry: one window in each round trip.
#[test]
fn the_window_is_filled() {
    for (buffer, scaling) in [(65_535, false), (256 * 1024, true), (1 << 20, true)] {
        let config =
            TcpConfig { recv_buffer: buffer, window_scaling: scaling, ..TcpConfig::default() };
        let report = stream(&LinkConfig::perfect(ONE_WAY, 0), config, 40 * buffer as u64);
        let most = buffer as f64 / (2.0 * ONE_WAY.as_secs_f64());
        assert!(rate(&report) > 0.8 * most, "{buffer}: {} of {most}", rate(&report));
        assert_eq!(report.repeated, [0, 0]);
    }
}

/// Reno's law: MSS / RTT * 1.22 / sqrt(p), which is 1.8 MB/s here.
#[test]
fn one_percent_loss_leaves_a_sane_rate() {
    let link = LinkConfig { loss: 0.01, ..LinkConfig::perfect(ONE_WAY, 0) };
    let report = stream(&link, large_window(), 8_000_000);
    assert!(rate(&report) > 900_000.0, "{}", rate(&report));
    assert!(report.repeated[0] < report.segments[0] / 20, "{report:?}");
}

#[test]
fn ten_percent_loss_goes_on() {
    let link = LinkConfig { loss: 0.1, ..LinkConfig::perfect(ONE_WAY, 0) };
    let report = stream(&link, large_window(), 300_000);
    assert!(rate(&report) > 5_000.0, "{}", rate(&report));
}

/// A queue of a quarter of the bandwidth-delay product. Slow start overshoots and loses a hundred
/// segments at once.
#[test]
fn a_short_queue_is_survived() {
    let link = LinkConfig { queue: 30_000, ..LinkConfig::perfect(ONE_WAY, 100_000_000) };
    let report = stream(&link, large_window(), 16_000_000);
    assert!(rate(&report) > 0.40 * 12_500_000.0, "{}", rate(&report));
}

/// A world can be kept for Wireshark: every segment, at both ends.
#[test]
fn a_world_is_recorded() {
    let directory = tempfile::tempdir().expect("a temporary folder");
    for kind in Kind::ALL {
        let path = directory.path().join(kind.name());
        let mut world = World::new(Scenario::draw(3, kind), false);
        world.record(&path);
        let report = world.run().expect("it passes");
        let bytes = std::fs::read(&path).expect("it was written");
        let mut reader = PcapNgReader::new(&bytes[..]).expect("a pcapng file");
        let (mut sent, mut received, mut interfaces) = (0, 0, 0);
        while let Some(block) = reader.next_block() {
            match block.expect("a block") {
                Block::InterfaceDescription(_) => interfaces += 1,
                Block::EnhancedPacket(packet) => match packet.options[..] {
                    [EnhancedPacketOption::Flags(2)] => sent += 1,
                    [EnhancedPacketOption::Flags(1)] => received += 1,
                    _ => panic!("{packet:?}"),
                },
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(interfaces, 2);
        assert!(sent >= report.segments.iter().sum::<u64>(), "{sent} of {report:?}");
        assert!(received > 0);
    }
}

#[test]
fn a_seed_is_a_world() {
    let run = || World::new(Scenario::draw(4711, Kind::Whole), false).run().expect("it passes");
    let (a, b) = (run(), run());
    assert_eq!((a.time, a.segments, a.received), (b.time, b.segments, b.received));
}
