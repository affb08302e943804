use abi::client::ClientParams;
use abi::control::{BusyPoll, CaptureHeader, FaultConfig, NumberedRequest};
use abi::frame::DriverCall;
use abi::frame::{FillSlot, MAX_PIECES, Piece, TxFrame};
use abi::nic::{INET, LAYOUT, NIC, RING};
use abi::offload::TxOffload;
use rustix::net::{AddressFamily, RecvFlags, SocketType, socketpair};
use shm::{Backing, Consumer, Pool, Producer};

use super::*;
use crate::testing::{Fake, SharedWire};

const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// How a driver's sleep ended.
fn wake(driver: &mut Driver) {
    driver.collect(Some(&NOW)).unwrap();
    driver.awake();
}

/// Supervisor and inet server of one driver, moved by hand.
struct World {
    control: Channel,
    driver: Driver,
    wire: SharedWire,
    pool: Pool,
    heads: Pool,
    fill: Producer,
    rx: Consumer,
    tx: Producer,
    inet_sleeper: Sleeper,
    inet_bell: OwnedFd,
    nic: Ringer,
}

fn config(device: &str) -> NicConfig {
    NicConfig {
        device: device.to_owned(),
        mac: [2, 0, 0, 0, 0, 1],
        mtu: 1500,
        fault: FaultConfig::default(),
        offload: false,
        umem: false,
        strict: false,
        busy_poll: BusyPoll::OFF,
    }
}

fn ask(control: &mut Channel, id: u64, request: ServerRequest, fds: &[BorrowedFd<'_>]) {
    let ask = NumberedRequest { id, request };
    control.send(&serde_json::to_vec(&ask).unwrap(), fds).unwrap();
}

fn say(control: &mut Channel) -> ServerOutput {
    let message = control.recv().unwrap().expect("the connection goes on");
    serde_json::from_slice(&message.body).unwrap()
}

impl World {
    fn new() -> Self {
        let (region, fd) = Region::create("frames", LAYOUT.len, Backing::Small).unwrap();
        let (mut control, end) = Channel::pair().unwrap();
        let (bell, inet_bell) = (shm::eventfd().unwrap(), shm::eventfd().unwrap());
        let (fake, wire) = Fake::new();
        // The first device, and another one for every time that it was lost.
        let mut fakes = vec![Fake::on(&wire), fake];
        let configure = ServerRequest::ConfigureNic(config("fake:0"));
        let fds = [fd.as_fd(), bell.as_fd(), inet_bell.as_fd()];
        ask(&mut control, 1, configure, &fds);
        let inet_sleeper = Sleeper::new(region.word32(LAYOUT.inet_bell).unwrap());
        inet_sleeper.announce(Sleep::Fd);
        let pool = Pool::create(&region, LAYOUT.pool, INET).unwrap();
        let heads = Pool::create(&region, LAYOUT.heads, INET).unwrap();
        let driver =
            Driver::with_device(end, move |_, _| Ok(Box::new(fakes.pop().unwrap()))).unwrap();
        assert_eq!(say(&mut control), ServerOutput::Reply { id: 1, reply: ServerReply::Done });
        Self {
            control,
            driver,
            wire,
            pool,
            heads,
            fill: Producer::attach(&region, LAYOUT.fill, RING).unwrap(),
            rx: Consumer::attach(&region, LAYOUT.rx, RING).unwrap(),
            tx: Producer::attach(&region, LAYOUT.tx, RING).unwrap(),
            inet_sleeper,
            inet_bell,
            nic: Ringer::new(region.word32(LAYOUT.nic_bell).unwrap(), bell),
        }
    }

    fn report_unsolicited(&self) {
        let fd = self.driver.frames.device.unsolicited_fd().unwrap();
        let _ = rustix::io::write(fd, &1_u64.to_ne_bytes()).unwrap();
    }

    fn rung(&self) -> bool {
        let mut count = [0; 8];
        rustix::io::read(&self.inet_bell, &mut count).is_ok()
    }

    /// Steps as after the epoll set has reported the device.
    fn run_until_idle(&mut self) {
        self.driver.ask_in = 0;
        while self.driver.step().unwrap() {}
    }

    /// Is an event there that the driver waits for?
    fn would_wake(&self) -> bool {
        let mut set = [rustix::event::PollFd::new(&self.driver.set, rustix::event::PollFlags::IN)];
        rustix::event::poll(&mut set, Some(&NOW)).unwrap() > 0
    }

    fn request(&mut self, request: ServerRequest, fds: &[BorrowedFd<'_>]) -> ServerReply {
        ask(&mut self.control, 9, request, fds);
        assert!(self.would_wake());
        wake(&mut self.driver);
        self.run_until_idle();
        match say(&mut self.control) {
            ServerOutput::Reply { id: 9, reply } => reply,
            other => panic!("{other:?}"),
        }
    }

    fn empty_page(&mut self) {
        let name = self.pool.alloc(1).unwrap().hand_over(NIC);
        self.fill.push(&FillSlot(name).encode()).unwrap();
    }

    fn send(&mut self, pieces: &[Piece]) {
        let area = self.heads.alloc(1).unwrap().hand_over(NIC);
        let count = u8::try_from(pieces.len()).unwrap();
        let mut frame = TxFrame {
            area,
            offset: 0,
            len: 60,
            count,
            pieces: [Piece::default(); MAX_PIECES],
            offload: TxOffload::NONE,
            shared: false,
        };
        frame.pieces[..pieces.len()].copy_from_slice(pieces);
        self.tx.push(&frame.encode()).unwrap();
    }
}

#[test]
fn it_registers_the_interface_and_rings() {
    let mut world = World::new();
    assert!(world.rung());
    let call = DriverCall::decode(&world.rx.pop().unwrap().unwrap()).unwrap();
    let DriverCall::IfAttach(attach) = call else { panic!("{call:?}") };
    assert_eq!((attach.mac, attach.mtu), ([2, 0, 0, 0, 0, 1], 1500));
}

#[test]
fn it_sleeps_only_when_there_is_nothing_to_do_and_a_bell_wakes_it() {
    let mut world = World::new();
    world.run_until_idle();
    assert!(!world.nic.ring(), "awake: no system call");
    assert!(world.driver.prepare_sleep());
    assert!(!world.would_wake());
    world.send(&[]);
    assert!(world.nic.ring());
    assert!(world.would_wake());
    wake(&mut world.driver);
    assert!(!world.nic.ring());
    // A frame that comes between the last step and the announcement is seen.
    world.run_until_idle();
    world.send(&[]);
    assert!(!world.driver.prepare_sleep());
    assert!(!world.nic.ring(), "it is awake again");
    world.run_until_idle();
    assert_eq!(world.wire.borrow().sent.len(), 2);
    assert!(world.driver.prepare_sleep());
    assert!(!world.would_wake(), "the bell rung before does not ring for ever");
}

#[test]
fn the_queue_of_unsolicited_frames_wakes_it() {
    let mut world = World::new();
    world.empty_page();
    world.run_until_idle();
    assert!(world.driver.prepare_sleep());
    wake(&mut world.driver);
    world.run_until_idle();
    assert!(world.driver.prepare_sleep() && !world.would_wake());
    world.wire.borrow_mut().unsolicited.push_back(vec![0; 60]);
    world.report_unsolicited();
    assert!(world.would_wake());
    wake(&mut world.driver);
    assert!(world.driver.step().unwrap());
    world.run_until_idle();
    assert!(world.driver.prepare_sleep() && !world.would_wake(), "it is edge-triggered");
    wake(&mut world.driver);
    // Frames that a step leaves are not reported again.
    for _ in 0..40 {
        world.empty_page();
    }
    world.wire.borrow_mut().unsolicited.extend((0..40).map(|_| vec![0; 60]));
    world.report_unsolicited();
    wake(&mut world.driver);
    assert!(world.driver.step().unwrap());
    assert!(!world.driver.prepare_sleep() && !world.would_wake());
    // In a thread of its own it sleeps for the time to the next batch.
    while !world.wire.borrow().unsolicited.is_empty() {
        while world.rx.pop().unwrap().is_some() {}
        let _ = world.driver.step().unwrap();
        if world.driver.frames.has_later().unwrap() && world.driver.announce_sleep() {
            world.driver.sleep().unwrap();
        }
    }
}

#[test]
fn the_inet_server_is_rung_only_while_it_sleeps() {
    let mut world = World::new();
    assert!(world.rung());
    world.inet_sleeper.awake();
    world.empty_page();
    world.wire.borrow_mut().incoming.push_back(vec![0; 60]);
    world.run_until_idle();
    assert!(!world.rung());
    world.inet_sleeper.announce(Sleep::Fd);
    world.empty_page();
    world.wire.borrow_mut().incoming.push_back(vec![0; 60]);
    world.run_until_idle();
    assert!(world.rung());
    let mut frames = 0;
    while let Some(slot) = world.rx.pop().unwrap() {
        let call = DriverCall::decode(&slot).unwrap();
        frames += u32::from(matches!(call, DriverCall::EthInput(frame) if frame.len == 60));
    }
    assert_eq!(frames, 2);
}

#[test]
fn a_frame_that_has_left_wakes_only_who_waits_for_it() {
    let mut world = World::new();
    assert!(world.rung());
    for (how, rung) in [(Sleep::FdQuiet, false), (Sleep::Fd, true)] {
        world.inet_sleeper.announce(how);
        world.send(&[]);
        world.run_until_idle();
        assert_eq!(world.tx.consumed().unwrap(), world.tx.produced());
        assert_eq!(world.rung(), rung);
    }
    world.inet_sleeper.announce(Sleep::FdQuiet);
    world.empty_page();
    world.wire.borrow_mut().incoming.push_back(vec![0; 60]);
    world.run_until_idle();
    assert!(world.rung(), "what was received always does");
}

#[test]
fn clients_come_and_go() {
    let mut world = World::new();
    let params = ClientParams::default();
    let len = params.layout().unwrap().len;
    let (region, fd) = Region::create("client", len, Backing::Small).unwrap();
    region.write(5000, b"payload").unwrap();
    let add = || ServerRequest::AddClient { client: 4, params };
    assert_eq!(world.request(add(), &[fd.as_fd()]), ServerReply::Done);
    world.send(&[Piece { client: 4, len: 7, offset: 5000 }]);
    world.run_until_idle();
    assert_eq!(world.wire.borrow().sent[0][60..], *b"payload");
    assert_eq!(world.request(ServerRequest::UnmapClient { client: 4 }, &[]), ServerReply::Done);
    world.send(&[Piece { client: 4, len: 7, offset: 5000 }]);
    world.run_until_idle();
    assert_eq!(world.wire.borrow().sent.len(), 1);

    // Refused, with the reason, and the driver goes on.
    let refused = [
        (add(), vec![]),
        (
            ServerRequest::AddClient { client: 4, params: ClientParams { threads: 0, ..params } },
            vec![fd.as_fd()],
        ),
        (ServerRequest::Ss { info: false, from: 0 }, vec![]),
    ];
    for (request, fds) in refused {
        let reply = world.request(request, &fds);
        assert!(matches!(reply, ServerReply::Error { .. }), "{reply:?}");
    }
    let (small, small_fd) = Region::create("small", 4096, Backing::Small).unwrap();
    drop(small);
    let reply = world.request(add(), &[small_fd.as_fd()]);
    assert!(matches!(reply, ServerReply::Error { .. }), "{reply:?}");
    assert_eq!(world.request(ServerRequest::UnmapClient { client: 77 }, &[]), ServerReply::Done);
}

#[test]
fn counters_capture_and_shutdown_are_answered() {
    let mut world = World::new();
    let (ours, reader) = socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        rustix::net::SocketFlags::CLOEXEC,
        None,
    )
    .unwrap();
    let capture = ServerRequest::Capture { snaplen: 20 };
    assert_eq!(world.request(capture, &[ours.as_fd()]), ServerReply::Done);
    world.send(&[]);
    world.run_until_idle();
    let mut packet = [0; 100];
    let (len, _) = rustix::net::recv(&reader, &mut packet, RecvFlags::empty()).unwrap();
    assert_eq!(len, CaptureHeader::LEN + 20);
    let ServerReply::Counters { counters, pools, .. } = world.request(ServerRequest::Counters, &[])
    else {
        panic!("not counters");
    };
    assert!(pools.is_empty());
    assert!(counters.contains(&("nic.tx-packets".to_owned(), 1)), "{counters:?}");
    assert!(counters.contains(&("nic.bells-rung".to_owned(), 1)), "{counters:?}");
    assert_eq!(world.request(ServerRequest::Shutdown, &[]), ServerReply::Done);
    assert!(world.driver.ended());
}

#[test]
fn it_ends_when_the_supervisor_does() {
    let world = World::new();
    let World { control, mut driver, .. } = world;
    drop(control);
    wake(&mut driver);
    driver.step().unwrap();
    assert!(driver.ended());
}

#[test]
fn a_lost_device_is_told_and_may_come_back() {
    let mut world = World::new();
    world.wire.borrow_mut().error = Some(libc::EBADFD);
    world.send(&[]);
    world.run_until_idle();
    assert!(!world.driver.ended());
    assert!(matches!(say(&mut world.control), ServerOutput::Event(ServerEvent::DeviceLost { .. })));
    // The frame that met the loss and the next one are gone, their pages back.
    world.send(&[]);
    world.run_until_idle();
    assert_eq!((world.tx.consumed().unwrap(), world.wire.borrow().sent.len()), (2, 0));
    assert!(world.driver.prepare_sleep());
    assert!(!world.would_wake(), "without a device there is nothing to wake up for");
    world.driver.awake();
    let counters = |world: &mut World| match world.request(ServerRequest::Counters, &[]) {
        ServerReply::Counters { counters, .. } => {
            let of = |name| counters.iter().find(|(n, _)| n == name).unwrap().1;
            (of("nic.devices-lost"), of("nic.tx-no-device"))
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(counters(&mut world), (1, 2));
    assert_eq!(world.request(ServerRequest::AttachDevice, &[]), ServerReply::Done);
    world.send(&[]);
    world.empty_page();
    world.wire.borrow_mut().incoming.push_back(vec![1; 60]);
    world.run_until_idle();
    assert_eq!(world.wire.borrow().sent.len(), 1);
    assert!(world.wire.borrow().incoming.is_empty());
    assert_eq!(world.request(ServerRequest::DetachDevice, &[]), ServerReply::Done);
    assert_eq!(counters(&mut world), (2, 2));
}

#[test]
fn sending_alone_receives_nothing_and_tells_of_a_lost_device() {
    let mut world = World::new();
    world.run_until_idle();
    world.driver.ask_in = 0;
    world.empty_page();
    world.wire.borrow_mut().incoming.push_back(vec![0; 60]);
    assert!(!world.driver.send().unwrap());
    world.send(&[]);
    assert!(world.driver.send().unwrap());
    assert_eq!(world.wire.borrow().sent.len(), 1);
    assert_eq!(world.wire.borrow().incoming.len(), 1);
    assert!(world.driver.step().unwrap());
    assert!(world.wire.borrow().incoming.is_empty());
    world.wire.borrow_mut().error = Some(libc::EBADFD);
    world.send(&[]);
    assert!(world.driver.send().unwrap());
    assert!(matches!(say(&mut world.control), ServerOutput::Event(ServerEvent::DeviceLost { .. })));
    ask(&mut world.control, 3, ServerRequest::Shutdown, &[]);
    wake(&mut world.driver);
    world.run_until_idle();
    assert!(world.driver.ended() && !world.driver.send().unwrap());
}

#[test]
fn a_bad_configuration_is_answered_with_the_reason() {
    let (region, fd) = Region::create("frames", LAYOUT.len, Backing::Small).unwrap();
    drop(region);
    let bell = shm::eventfd().unwrap();
    let (small, small_fd) = Region::create("small", 4096, Backing::Small).unwrap();
    drop(small);
    let all = [fd.as_fd(), bell.as_fd(), bell.as_fd(), bell.as_fd()];
    let cases: [(&str, &[BorrowedFd<'_>], &str); 5] = [
        ("tap:x", &all[..2], "3 are needed"),
        ("tap:x", &all[..3], "use the TAP device's descriptors"),
        ("packet:x", &all[..3], "1 are needed"),
        ("xyz:0", &all, "no driver for the device"),
        ("tap:x", &[small_fd.as_fd(), bell.as_fd(), bell.as_fd(), bell.as_fd()], "region"),
    ];
    for (device, fds, reason) in cases {
        let (mut control, end) = Channel::pair().unwrap();
        ask(&mut control, 1, ServerRequest::ConfigureNic(config(device)), fds);
        assert!(Driver::from_channel(end).is_err());
        let ServerOutput::Reply { id: 1, reply: ServerReply::Error { message } } =
            say(&mut control)
        else {
            panic!("no refusal");
        };
        assert!(message.contains(reason), "{message}");
    }
    let (mut control, end) = Channel::pair().unwrap();
    ask(&mut control, 1, ServerRequest::Counters, &[]);
    assert!(matches!(Driver::from_channel(end), Err(DriverError::BadMessage(_))));
    let (control, end) = Channel::pair().unwrap();
    drop(control);
    assert!(matches!(Driver::from_channel(end), Err(DriverError::BadMessage(_))));
}
