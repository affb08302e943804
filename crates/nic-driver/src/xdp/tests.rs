use super::*;
use crate::device::is_lost;
use crate::testing::{ip, isolated};

/// Both ends of a virtual cable, in a network namespace of this thread's own: one taken over, the
/// other a packet socket.
fn cable() -> Option<(Xdp, crate::packet::Packet)> {
    cable_with(None, Memory::Own)
}

fn cable_with(
    frames: Option<(&Region, &NicLayout)>,
    memory: Memory,
) -> Option<(Xdp, crate::packet::Packet)> {
    isolated()?;
    ip("link add va type veth peer name vb");
    for end in ["va", "vb"] {
        ip(&format!("link set {end} addrgenmode none"));
        ip(&format!("link set {end} up"));
    }
    let xdp = Xdp::new(open("va", 1500, frames).unwrap(), memory).unwrap();
    let peer = crate::packet::open("vb", PEER, 1500).unwrap();
    Some((xdp, crate::packet::Packet::new(peer, 1500, false).unwrap()))
}

const PEER: [u8; 6] = [2, 0, 0, 0, 0, 2];

fn frame(number: u32, len: usize) -> Vec<u8> {
    let mut frame = [&PEER[..], &[2, 0, 0, 0, 0, 1], &[0x88, 0xb5], &number.to_be_bytes()].concat();
    frame.resize(len, number.to_be_bytes()[3]);
    frame
}

fn all(device: &mut dyn Device) -> Vec<Vec<u8>> {
    let (mut all, mut page) = (Vec::new(), [0; 4096]);
    loop {
        while let Some(received) = device.receive(&mut page).unwrap() {
            all.push(page[..received.len].to_vec());
        }
        let fd = device.poll_fd();
        let mut ready = [rustix::event::PollFd::from_borrowed_fd(fd, rustix::event::PollFlags::IN)];
        let soon = rustix::event::Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        if rustix::event::poll(&mut ready, Some(&soon)).unwrap() == 0 {
            return all;
        }
    }
}

#[test]
fn frames_go_both_ways_in_batches_and_chunks_come_back() {
    let Some((mut xdp, mut peer)) = cable() else { return };
    // More than there are pages of either kind, and more than one call sends.
    for round in 0..20 {
        let frames: Vec<_> =
            (0..200).map(|n| frame(round * 200 + n, 60 + n as usize * 7)).collect();
        for frame in &frames {
            let parts = [Part::local(&frame[..20]), Part::local(&frame[20..])];
            assert!(xdp.transmit(&parts, TxOffload::NONE).unwrap());
        }
        xdp.flush().unwrap();
        assert!(all(&mut peer) == frames, "round {round}");
        for frame in &frames {
            assert!(peer.transmit(&[Part::local(frame)], TxOffload::NONE).unwrap());
        }
        assert!(all(&mut xdp) == frames, "round {round}");
    }
    let mut counters = std::collections::BTreeMap::new();
    xdp.counters(&mut |name, value| assert!(counters.insert(name, value).is_none()));
    assert_eq!((counters["xdp.rx-dropped"], counters["xdp.rx-bad-chunks"]), (0, 0));
}

#[test]
fn a_device_without_room_says_so_and_goes_on() {
    let Some((mut xdp, mut peer)) = cable() else { return };
    let taken = (0..)
        .take_while(|&n| xdp.transmit(&[Part::local(&frame(n, 100))], TxOffload::NONE).unwrap());
    assert_eq!(taken.count(), SEND as usize);
    assert!(xdp.pending().transmit);
    xdp.flush().unwrap();
    assert_eq!(all(&mut peer).len(), SEND as usize);
    assert!(xdp.transmit(&[Part::local(&frame(0, 100))], TxOffload::NONE).unwrap());
    let error = xdp.transmit(&[Part::local(&[0; 4097])], TxOffload::NONE).unwrap_err();
    assert!(!is_lost(&error), "{error}");
}

#[test]
fn frames_arrive_in_the_pages_of_the_pool_that_were_posted() {
    let layout = NicLayout::for_umem();
    let (region, _fd) = Region::create("frames", layout.len, Backing::Small).unwrap();
    let memory = Memory::Pool(Arc::clone(&region), layout);
    let Some((mut xdp, mut peer)) = cable_with(Some((&region, &layout)), memory) else { return };
    assert!(xdp.features().has(Features::RX_IN_PLACE));
    // Every third page, from the last one down.
    let mut page = layout.pool.pages as usize;
    let mut post = |xdp: &mut Xdp, count: u32| {
        for _ in 0..count {
            page -= 3;
            assert!(xdp.post(page * PAGE));
        }
    };
    post(&mut xdp, RECEIVE);
    assert!(!xdp.post(0), "there is no room for more");
    let mut expected_page = layout.pool.pages as usize;
    for round in 0..4 {
        let frames: Vec<_> =
            (0..300).map(|n| frame(round * 300 + n, 60 + n as usize * 4)).collect();
        for frame in &frames {
            assert!(peer.transmit(&[Part::local(frame)], TxOffload::NONE).unwrap());
        }
        assert!(xdp.receive(&mut [0; PAGE]).unwrap().is_none(), "not so");
        for frame in &frames {
            let placed = (0..1000).find_map(|_| {
                let placed = xdp.receive_posted().unwrap();
                placed.is_none().then(|| std::thread::sleep(std::time::Duration::from_millis(5)));
                placed
            });
            let Placed { at, len } = placed.expect("the frame has come");
            expected_page -= 3;
            assert_eq!((at / PAGE, at % PAGE >= HEADROOM, len), (expected_page, true, frame.len()));
            let mut bytes = vec![0; len];
            region.read(layout.pool.pages_at + at, &mut bytes).unwrap();
            assert!(bytes == *frame);
        }
        post(&mut xdp, 300);
        for frame in &frames {
            assert!(xdp.transmit(&[Part::local(frame)], TxOffload::NONE).unwrap());
        }
        xdp.flush().unwrap();
        assert!(all(&mut peer) == frames);
    }
    let mut counters = std::collections::BTreeMap::new();
    xdp.counters(&mut |name, value| assert!(counters.insert(name, value).is_none()));
    assert_eq!((counters["xdp.rx-copied-bytes"], counters["xdp.rx-dropped"]), (0, 0));
    assert!(counters["xdp.tx-copied-bytes"] > 4 * 300 * 60);
}

#[test]
fn a_region_that_is_no_umem_is_refused() {
    let Some((xdp, _peer)) = cable() else { return };
    drop(xdp);
    let (region, _fd) = Region::create("frames", 1 << 20, Backing::Small).unwrap();
    for layout in [NicLayout::new(false), NicLayout::for_umem()] {
        let error = open("va", 1500, Some((&region, &layout))).unwrap_err();
        assert!(error.to_string().contains("memory for its frames"), "{error}");
    }
}

#[test]
fn an_interface_is_taken_over_by_one_only_and_given_back() {
    let Some((xdp, _peer)) = cable() else { return };
    let refused = |name, mtu| open(name, mtu, None).unwrap_err();
    assert!(matches!(refused("va", 1500), InterfaceError::InUse { .. }));
    ip("link add vc mtu 9000 type veth peer name vd mtu 9000");
    let error = refused("vc", 3900);
    assert!(matches!(error, InterfaceError::Unsupported { .. }), "{error}");
    assert!(matches!(refused("lo", 1500), InterfaceError::NotEthernet(_)));
    drop(xdp);
    let again = (0..100).find_map(|_| {
        // The kernel takes a socket's memory back in its own time.
        std::thread::sleep(std::time::Duration::from_millis(20));
        open("va", 1500, None).ok()
    });
    assert!(again.is_some());
}

#[test]
fn an_interface_with_several_receive_queues_is_refused_with_what_to_do() {
    if isolated().is_none() {
        return;
    }
    ip("link add va numrxqueues 2 numtxqueues 2 type veth peer name vb");
    let error = open("va", 1500, None).unwrap_err();
    assert!(matches!(error, InterfaceError::Unsupported { .. }), "{error}");
    assert!(error.to_string().contains("2 receive queues"), "{error}");
    assert!(error.to_string().contains("`ethtool -L va rx 1`"), "{error}");
    assert_eq!(queues::too_many("lo"), None);
    assert_eq!(queues::too_many("no-such-link"), None);
}

#[test]
fn a_deleted_interface_is_a_lost_device() {
    let Some((mut xdp, _peer)) = cable() else { return };
    ip("link delete va");
    let lost = (0..100).find_map(|n| {
        xdp.transmit(&[Part::local(&frame(n, 100))], TxOffload::NONE).unwrap();
        xdp.flush().err().filter(is_lost)
    });
    assert!(lost.is_some());
}
