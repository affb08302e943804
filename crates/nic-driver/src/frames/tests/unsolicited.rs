use super::*;
use crate::device::Pending;
use crate::frames::schedule::{ASK_EVERY, BATCH, PACE, REGULAR};

const FEW: usize = BATCH as usize;

/// A device with so many frames in the regular queue, 60 bytes long, and so many in the other, 61
/// bytes long.
fn with(regular: usize, unsolicited: usize) -> (Inet, Frames<Fake>, SharedWire) {
    let (mut inet, frames, wire) = set_up();
    for _ in 0..1000 {
        inet.empty_page();
    }
    wire.borrow_mut().incoming.extend((0..regular).map(|_| vec![0; 60]));
    wire.borrow_mut().unsolicited.extend((0..unsolicited).map(|_| vec![0; 61]));
    (inet, frames, wire)
}

fn received(inet: &mut Inet) -> Vec<usize> {
    std::iter::from_fn(|| inet.received()).map(|frame| frame.len()).collect()
}

#[test]
fn unsolicited_frames_come_behind_the_others_and_few_at_a_time() {
    let (mut inet, mut frames, _wire) = with(5, 100);
    assert!(frames.step().unwrap());
    let expected: Vec<_> = [60; 5].into_iter().chain([61; FEW]).collect();
    assert_eq!(received(&mut inet), expected);
    assert_eq!(counter(&frames, "nic.rx-unsolicited"), u64::from(BATCH));
    assert_eq!(counter(&frames, "nic.rx-packets"), u64::from(BATCH) + 5);
    // They are not forgotten, whatever the epoll set reports.
    assert!(frames.has_later().unwrap());
    let mut count = FEW;
    while count < 100 {
        std::thread::sleep(PACE);
        frames.step().unwrap();
        let now = received(&mut inet).len();
        assert!(now <= FEW, "{now}");
        count += now;
    }
    std::thread::sleep(PACE);
    assert!(!frames.step().unwrap());
    assert!(!frames.has_later().unwrap());
}

#[test]
fn a_busy_server_gets_none_but_for_each_many_others_one() {
    let (mut inet, mut frames, wire) = with(2 * REGULAR, 100);
    let regular = |inet: &mut Inet| received(inet).iter().filter(|len| **len == 60).count();
    // The server takes none of them meanwhile.
    for _ in 0..REGULAR / BATCH_REGULAR - 1 {
        frames.step().unwrap();
    }
    assert_eq!(counter(&frames, "nic.rx-unsolicited"), 0);
    frames.step().unwrap();
    assert_eq!(counter(&frames, "nic.rx-unsolicited"), 1);
    assert_eq!(regular(&mut inet), REGULAR);
    while !wire.borrow().incoming.is_empty() {
        frames.step().unwrap();
    }
    assert_eq!(counter(&frames, "nic.rx-unsolicited"), 2);
}

/// Frames of the regular queue in a step.
const BATCH_REGULAR: usize = crate::frames::BATCH;

#[test]
fn the_queue_is_asked_now_and_then_and_when_it_is_reported() {
    let (mut inet, mut frames, wire) = with(0, 0);
    assert!(!frames.step().unwrap() && !frames.has_later().unwrap());
    let idle = |frames: &mut Frames<Fake>| (0..100).for_each(|_| _ = frames.step().unwrap());
    idle(&mut frames);
    let push = || wire.borrow_mut().unsolicited.push_back(vec![0; 61]);
    push();
    let steps = (0..).take_while(|_| !frames.step().unwrap()).count();
    assert!(steps <= ASK_EVERY as usize, "{steps}");
    assert_eq!(received(&mut inet), [61]);
    // Where one came, another one may come soon.
    push();
    assert!(!frames.step().unwrap() && frames.step().unwrap());
    assert_eq!(received(&mut inet), [61]);
    idle(&mut frames);
    push();
    frames.unsolicited_reported();
    assert!(frames.step().unwrap());
    assert_eq!(received(&mut inet), [61]);
}

#[test]
fn without_a_page_they_stay_in_the_device() {
    let (mut inet, mut frames, wire) = set_up();
    wire.borrow_mut().unsolicited.push_back(vec![0; 61]);
    assert!(!frames.step().unwrap());
    assert!(!frames.has_later().unwrap(), "nothing to stay awake for");
    inet.empty_page();
    assert!(frames.has_later().unwrap());
    assert!(frames.step().unwrap());
    assert_eq!(received(&mut inet), [61]);
}

/// A pause of datagrams may end between the look for work and the look for what is to come later.
/// A sleep without end would follow, since nothing reports the frames again.
#[test]
fn a_pause_that_ends_between_two_looks_is_no_reason_to_sleep() {
    let (mut inet, mut frames, wire) = set_up();
    inet.empty_page();
    frames.step().unwrap();
    wire.borrow_mut().pending = Pending { later: true, ..Pending::default() };
    assert!(!frames.has_work().unwrap());
    wire.borrow_mut().pending = Pending { receive: true, ..Pending::default() };
    assert!(frames.has_later().unwrap());
    wire.borrow_mut().pending = Pending::default();
    assert!(!frames.has_later().unwrap());
}
