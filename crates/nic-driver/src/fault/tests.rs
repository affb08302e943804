use abi::offload::{Checksum, SegmentKind, Segments};

use super::*;
use crate::testing::Fake;

fn config(seed: u64) -> FaultConfig {
    FaultConfig { loss: 0.01, duplicate: 0.02, reorder: 0.03, seed, ..FaultConfig::default() }
}

fn frame(n: u32) -> Vec<u8> {
    let mut frame = vec![0; 60];
    frame[..4].copy_from_slice(&n.to_be_bytes());
    frame
}

fn number(frame: &[u8]) -> u32 {
    u32::from_be_bytes(frame[..4].try_into().unwrap())
}

/// Sends `count` numbered frames; the numbers that reached the wire, in order.
fn sent(config: FaultConfig, count: u32) -> Vec<u32> {
    let (fake, wire) = Fake::new();
    let mut device = FaultDevice::new(fake, config).unwrap();
    for n in 0..count {
        assert!(device.transmit(&[Part::local(&frame(n))], TxOffload::NONE).unwrap());
    }
    let wire = wire.borrow();
    wire.sent.iter().map(|frame| number(frame)).collect()
}

/// Receives `count` numbered frames; the numbers that came through, in order.
fn received(config: FaultConfig, count: u32) -> Vec<u32> {
    let (fake, wire) = Fake::new();
    wire.borrow_mut().incoming.extend((0..count).map(frame));
    let mut device = FaultDevice::new(fake, config).unwrap();
    let mut page = [0; 4096];
    let mut numbers = Vec::new();
    while let Some(Received { len, .. }) = device.receive(&mut page).unwrap() {
        assert_eq!(len, 60);
        numbers.push(number(&page));
    }
    numbers
}

fn counters<D: Device>(device: &FaultDevice<D>) -> Vec<(&'static str, u64)> {
    let mut all = Vec::new();
    device.counters(&mut |name, value| all.push((name, value)));
    all
}

#[test]
fn without_faults_it_is_not_there() {
    let none = FaultConfig { seed: 7, ..FaultConfig::default() };
    assert_eq!(sent(none, 100), (0..100).collect::<Vec<_>>());
    assert_eq!(received(none, 100), (0..100).collect::<Vec<_>>());
    let (fake, _) = Fake::new();
    assert_eq!(counters(&FaultDevice::new(fake, none).unwrap()), []);
}

#[test]
fn the_seed_decides_everything() {
    assert_eq!(sent(config(1), 5000), sent(config(1), 5000));
    assert_eq!(received(config(1), 5000), received(config(1), 5000));
    assert_ne!(sent(config(1), 5000), sent(config(2), 5000));
    assert_ne!(sent(config(1), 5000), received(config(1), 5000));
}

#[test]
fn directions_do_not_disturb_each_other() {
    let alone = received(config(3), 500);
    let (fake, wire) = Fake::new();
    wire.borrow_mut().incoming.extend((0..500).map(frame));
    let mut device = FaultDevice::new(fake, config(3)).unwrap();
    let mut page = [0; 4096];
    let mut between = Vec::new();
    while device.receive(&mut page).unwrap().is_some() {
        between.push(number(&page));
        device.transmit(&[Part::local(&frame(9))], TxOffload::NONE).unwrap();
    }
    assert_eq!(between, alone);
}

#[test]
fn faults_come_about_as_often_as_asked() {
    const FRAMES: u32 = 100_000;
    for numbers in [sent(config(4), FRAMES), received(config(4), FRAMES)] {
        let mut times = vec![0_u32; FRAMES as usize];
        for &n in &numbers {
            times[n as usize] += 1;
        }
        let lost = times.iter().filter(|&&n| n == 0).count();
        let doubled = times.iter().filter(|&&n| n == 2).count();
        // Frames that come after a later one: those held back, and what was doubled beside them.
        let late = numbers.windows(2).filter(|pair| pair[1] < pair[0]).count();
        assert!((900..1100).contains(&lost), "{lost} of {FRAMES} lost");
        assert!((1800..2200).contains(&doubled), "{doubled} of {FRAMES} doubled");
        assert!((2500..3300).contains(&late), "{late} of {FRAMES} late");
        assert!(times.iter().all(|&n| n <= 2));
    }
}

#[test]
fn a_frame_is_passed_by_at_most_three() {
    let config = FaultConfig { reorder: 0.1, seed: 5, ..FaultConfig::default() };
    let numbers = sent(config, 10_000);
    for (place, &n) in numbers.iter().enumerate() {
        let passed_by = numbers[..place].iter().filter(|&&other| other > n).count();
        assert!(passed_by <= 3, "frame {n} was passed by {passed_by} frames");
    }
    // At the end some may still be held back, none lost.
    assert!(numbers.len() > 9_980);
}

#[test]
fn corruption_flips_one_bit() {
    let (fake, wire) = Fake::new();
    let config = FaultConfig { corrupt: 1.0, seed: 6, ..FaultConfig::default() };
    let mut device = FaultDevice::new(fake, config).unwrap();
    let clean = frame(0);
    for _ in 0..1000 {
        device
            .transmit(&[Part::local(&clean[..20]), Part::local(&clean[20..])], TxOffload::NONE)
            .unwrap();
    }
    for spoiled in &wire.borrow().sent {
        let bits: u32 = spoiled.iter().zip(&clean).map(|(a, b)| (a ^ b).count_ones()).sum();
        assert_eq!((spoiled.len(), bits), (60, 1));
    }
    assert_eq!(counters(&device)[4], ("fault.corrupted", 1000));
}

#[test]
fn what_the_device_has_no_room_for_waits() {
    let (fake, wire) = Fake::new();
    let config = FaultConfig { duplicate: 1.0, seed: 8, ..FaultConfig::default() };
    let mut device = FaultDevice::new(fake, config).unwrap();
    wire.borrow_mut().room = 1;
    assert!(device.transmit(&[Part::local(&frame(1))], TxOffload::NONE).unwrap());
    assert!(device.pending().transmit);
    let mut taken = 1;
    while device.transmit(&[Part::local(&frame(1 + taken))], TxOffload::NONE).unwrap() {
        taken += 1;
    }
    assert_eq!(taken, 33, "64 frames wait: 1 of the first, 2 of each of 32 more, rounded up");
    wire.borrow_mut().room = usize::MAX;
    assert_eq!(device.receive(&mut [0; 64]).unwrap(), None);
    assert!(!device.pending().transmit);
    let numbers: Vec<u32> = wire.borrow().sent.iter().map(|f| number(f)).collect();
    assert_eq!(numbers, (1..=taken).flat_map(|n| [n, n]).collect::<Vec<_>>());
}

#[test]
fn super_segments_stay_whole_if_asked_to() {
    const OFFLOADS: Features = Features::TX_CHECKSUM.with(Features::TSO4).with(Features::GRO);
    let segments = Some(Segments { kind: SegmentKind::Tcp4, size: 1448 });
    let left = TxOffload { checksum: Some(Checksum { start: 34, offset: 16 }), segments };
    let known = RxOffload { verified: true, segments };
    let (mut fake, wire) = Fake::new();
    fake.features = OFFLOADS.with(Features::RX_IN_PLACE);
    // Corruption would not be found, so there is none even if requested.
    let config = FaultConfig { super_segments: true, corrupt: 1.0, ..config(9) };
    let mut device = FaultDevice::new(fake, config).unwrap();
    assert_eq!(device.features(), OFFLOADS);
    let whole = vec![7; 60_000];
    for n in 0..1000 {
        let frame = [Part::local(&whole[..54]), Part::local(&whole[54..])];
        let offload = if n % 2 == 0 { left } else { TxOffload::NONE };
        assert!(device.transmit(&frame, offload).unwrap());
    }
    {
        let mut wire = wire.borrow_mut();
        assert!(wire.sent.iter().all(|frame| *frame == whole));
        let cut_by_device = wire.left.iter().filter(|offload| **offload == left).count();
        assert!((450..550).contains(&cut_by_device), "{cut_by_device}");
        assert!(wire.left.iter().all(|offload| [left, TxOffload::NONE].contains(offload)));
        wire.known = known;
        wire.incoming.extend(std::iter::repeat_n(whole.clone(), 1000));
    }
    let mut page = vec![0; 17 * shm::PAGE];
    let mut came = 0;
    while let Some(received) = device.receive(&mut page).unwrap() {
        assert_eq!(received, Received { len: whole.len(), offload: known });
        assert_eq!(page[..received.len], whole);
        came += 1;
    }
    let counters = counters(&device);
    let count = |name: &str| counters.iter().find(|(counter, _)| *counter == name).unwrap().1;
    assert_eq!(count("fault.corrupted"), 0);
    assert!(came < 1040 && count("fault.lost") > count("fault.lost-super-segments"));
    assert!(count("fault.lost-super-segments") >= 5, "{counters:?}");
}

#[test]
fn frames_are_those_of_a_wire_otherwise() {
    let (mut fake, wire) = Fake::new();
    fake.features = Features::TX_CHECKSUM.with(Features::RX_CHECKSUM);
    let config = FaultConfig { duplicate: 1.0, ..config(1) };
    let mut device = FaultDevice::new(fake, config).unwrap();
    assert_eq!(device.features(), Features::NONE);
    wire.borrow_mut().known = RxOffload { verified: true, segments: None };
    wire.borrow_mut().incoming.push_back(frame(1));
    let received = device.receive(&mut [0; 4096]).unwrap();
    assert_eq!(received, Some(Received::plain(60)), "what the device knows is not believed");
}

/// Sleeps as the driver does, until the device's timer has fired.
fn wait_for_timer(device: &mut FaultDevice<Fake>) {
    use rustix::event::{PollFd, PollFlags, poll};
    assert!(device.prepare_sleep(true));
    let timer = device.timer_fd().unwrap();
    poll(&mut [PollFd::new(&timer, PollFlags::IN)], None).unwrap();
}

#[test]
fn with_a_delay_frames_of_both_directions_come_later_and_in_order() {
    const DELAY: Duration = Duration::from_millis(20);
    let (fake, wire) = Fake::new();
    let config = FaultConfig { delay_us: 20_000, ..FaultConfig::default() };
    let mut device = FaultDevice::new(fake, config).unwrap();
    let began = Instant::now();
    for n in 0..3 {
        assert!(device.transmit(&[Part::local(&frame(n))], TxOffload::NONE).unwrap());
    }
    wait_for_timer(&mut device);
    assert!(began.elapsed() >= DELAY);
    while wire.borrow().sent.len() < 3 {
        assert_eq!(device.receive(&mut [0; 4096]).unwrap(), None);
    }
    let numbers: Vec<u32> = wire.borrow().sent.iter().map(|frame| number(frame)).collect();
    assert_eq!(numbers, [0, 1, 2]);

    wire.borrow_mut().incoming.extend((5..7).map(frame));
    let began = Instant::now();
    let mut page = [0; 4096];
    assert_eq!(device.receive(&mut page).unwrap(), None, "they are on their way");
    wait_for_timer(&mut device);
    assert!(began.elapsed() >= DELAY);
    for n in 5..7 {
        while device.receive(&mut page).unwrap().is_none() {}
        assert_eq!(number(&page), n);
    }
    assert_eq!(device.pending(), Pending::default());
}

#[test]
fn a_frame_that_was_not_due_at_the_look_before_a_sleep_is_reported_once() {
    const DELAY: Duration = Duration::from_millis(50);
    let (fake, wire) = Fake::new();
    let config = FaultConfig { delay_us: 50_000, ..FaultConfig::default() };
    let mut device = FaultDevice::new(fake, config).unwrap();
    wire.borrow_mut().incoming.push_back(frame(1));
    assert_eq!(device.receive(&mut [0; 4096]).unwrap(), None, "it is on its way");
    std::thread::sleep(DELAY);
    assert!(!device.prepare_sleep(true), "there is a frame to receive");
    assert!(device.prepare_sleep(true), "a page is awaited, not a time");
    // One of the other direction still has its own time.
    assert!(device.transmit(&[Part::local(&frame(2))], TxOffload::NONE).unwrap());
    wait_for_timer(&mut device);
    assert!(!device.prepare_sleep(true), "there is a frame to send");
}

#[test]
fn a_line_takes_a_bounded_number_of_frames() {
    let (fake, wire) = Fake::new();
    let config = FaultConfig { delay_us: 1_000_000, ..FaultConfig::default() };
    let mut device = FaultDevice::new(fake, config).unwrap();
    let mut sent = 0;
    while device.transmit(&[Part::local(&frame(sent))], TxOffload::NONE).unwrap() {
        sent += 1;
    }
    assert_eq!(sent as usize, LINE_MOST);
    wire.borrow_mut().incoming.extend((0..5000).map(frame));
    assert_eq!(device.receive(&mut [0; 4096]).unwrap(), None);
    assert_eq!(wire.borrow().incoming.len(), 5000 - LINE_MOST);
}
