//! Admission and departure of clients, and the control connection.

use super::*;

fn pair() -> (World, Program, Program) {
    let mut world = World::new();
    let a = world.a.admit(5, PARAMS);
    let b = world.b.admit(7, PARAMS);
    (world, a, b)
}

fn released(host: &Host, number: u16) -> bool {
    host.events.contains(&ServerEvent::ClientReleased { client: number })
}

#[test]
fn a_killed_client_ends_its_streams_and_frees_everything() {
    let (mut world, mut a, mut b) = pair();
    world.rest();
    let frames = (world.a.free("frames"), world.b.free("frames"));
    let (mut sock, mut child) = world.connect(&mut a, &mut b, 80);
    let _listener = world.listener(&mut a, 99);
    let bytes = pattern(100_000);
    assert_eq!(a.send(&mut sock, &bytes, None), bytes.len());
    for _ in 0..30 {
        world.step();
    }
    let now = world.now;
    a.head.copied_rx.store(5, Ordering::Relaxed);
    world.a.remove(5, now);
    assert_eq!(world.a.counter("copy.program-rx-bytes"), 5);
    // As on Linux.
    let mut got = Vec::new();
    world.run(|_| {
        got.extend(b.recv(&mut child));
        child.has(SocketFlags::READ_CLOSED)
    });
    assert!(got == bytes);
    assert_eq!(child.error(), 0);
    world.run(|world| released(&world.a, 5));
    assert_eq!(world.a.free("client 5 rx"), None);
    world.call(&mut b, Op::Close, &[child.word()], 0).unwrap();
    world.rest();
    let states: Vec<&str> = world.a.server.engine.stack.sockets().map(|s| s.state).collect();
    assert_eq!(states, ["TIME-WAIT"]);
    assert_eq!((world.a.free("frames"), world.b.free("frames")), frames);
    assert_eq!(world.b.free("client 7 rx"), Some(PARAMS.rx_pages));
    // The number can be used again.
    let mut again = world.a.admit(5, PARAMS);
    world.call(&mut again, Op::Null, &[], 0).unwrap();
}

#[test]
fn what_a_killed_client_had_closed_goes_on() {
    let (mut world, mut a, mut b) = pair();
    let (mut sock, mut child) = world.connect(&mut a, &mut b, 80);
    let bytes = pattern(200_000);
    assert_eq!(a.send(&mut sock, &bytes, None), bytes.len());
    let tag = a.call(Op::Close, &[sock.word()], 0);
    let now = world.now;
    world.a.iterate(now);
    assert_eq!(a.result(tag), Some(Ok([0; 6])));
    world.a.remove(5, now);
    let mut got = Vec::new();
    world.run(|_| {
        got.extend(b.recv(&mut child));
        child.has(SocketFlags::READ_CLOSED)
    });
    assert!(got == bytes);
    world.run(|world| released(&world.a, 5));
}

/// The supervisor needs the memory of a client that is gone. Its peer has not taken all bytes.
#[test]
fn what_a_gone_client_had_closed_can_be_aborted() {
    let (mut world, mut a, mut b) = pair();
    let (mut sock, child) = world.connect(&mut a, &mut b, 80);
    let bytes = pattern(400_000);
    while a.send(&mut sock, &bytes, None) > 0 {
        world.rest();
    }
    let abort = |world: &mut World, client| {
        world.a.server.request(world.now, ServerRequest::AbortClient { client }, Vec::new())
    };
    // It is still there.
    assert!(matches!(abort(&mut world, 5), ServerReply::Error { .. }));
    let now = world.now;
    world.a.remove(5, now);
    world.rest();
    assert!(!released(&world.a, 5), "the peer reads nothing");
    assert_eq!(abort(&mut world, 5), ServerReply::Done);
    world.run(|world| released(&world.a, 5));
    world.run(|_| child.has(SocketFlags::HANGUP));
    assert_eq!(child.error(), Errno::CONNRESET.raw_os_error());
    assert_eq!(world.a.states(), Vec::<String>::new());
}

#[test]
fn an_orderly_client_s_data_is_still_sent() {
    let (mut world, mut a, mut b) = pair();
    let (mut sock, mut child) = world.connect(&mut a, &mut b, 80);
    let bytes = pattern(150_000);
    assert_eq!(a.send(&mut sock, &bytes, None), bytes.len());
    let now = world.now;
    world.a.remove(5, now);
    assert!(!released(&world.a, 5));
    let mut got = Vec::new();
    world.run(|world| {
        assert!(got.len() == bytes.len() || !released(&world.a, 5), "released too early");
        got.extend(b.recv(&mut child));
        child.has(SocketFlags::READ_CLOSED)
    });
    assert!(got == bytes);
    assert_eq!(child.error(), 0);
    world.run(|world| released(&world.a, 5));
}

#[test]
fn closing_with_unread_data_resets() {
    let (mut world, mut a, mut b) = pair();
    let (mut sock, child) = world.connect(&mut a, &mut b, 80);
    a.send(&mut sock, b"nobody reads this", None);
    world.run(|_| child.words.rx_bytes.load(Ordering::Acquire) > 0);
    world.call(&mut b, Op::Close, &[child.word()], 0).unwrap();
    world.run(|_| sock.has(SocketFlags::HANGUP));
    assert_eq!(sock.error(), Errno::CONNRESET.raw_os_error());
    world.rest();
    assert_eq!(world.b.free("client 7 rx"), Some(PARAMS.rx_pages));
}

#[test]
fn memory_is_kept_while_a_driver_may_read_it() {
    let (mut world, mut a, mut b) = pair();
    let (mut sock, _child) = world.connect(&mut a, &mut b, 80);
    world.rest();
    world.a.driver.stopped = true;
    a.send(&mut sock, &pattern(1000), None);
    for _ in 0..10 {
        world.step();
    }
    let now = world.now;
    world.a.remove(5, now);
    world.rest();
    assert!(!released(&world.a, 5));
    let busy = ServerRequest::AddClient { client: 5, params: PARAMS };
    let reply = world.a.server.request(now, busy, Vec::new());
    assert!(matches!(reply, ServerReply::Error { .. }), "{reply:?}");
    world.a.driver.stopped = false;
    world.run(|world| released(&world.a, 5));
}

#[test]
fn a_closed_place_is_free_when_its_bytes_are_acknowledged() {
    let (mut world, mut a, mut b) = pair();
    // More connections than places: TIME-WAIT and a peer that does not close must not hold them.
    let listener = world.listener(&mut b, 80);
    let to = SocketAddr::from((world.b.address, 80));
    for _ in 0..20 {
        let mut sock = world.socket(&mut a, SocketKind::Stream);
        world.call(&mut a, Op::Connect, &with(&sock, to), 0).unwrap();
        let child = world.call(&mut b, Op::Accept, &[listener.word()], 0).unwrap()[0];
        let mut child = b.attach(child);
        a.send(&mut sock, b"request", None);
        world.call(&mut a, Op::Close, &[sock.word()], 0).unwrap();
        world.run(|_| !sock.has(SocketFlags::OPEN));
        assert_eq!(sock.words.tx_released.load(Ordering::Acquire), 7);
        let mut got = Vec::new();
        world.run(|_| {
            got.extend(b.recv(&mut child));
            child.has(SocketFlags::READ_CLOSED)
        });
        assert_eq!(got, b"request");
        world.call(&mut b, Op::Close, &[child.word()], 0).unwrap();
    }
    assert!(world.a.states().iter().any(|state| state == "TIME-WAIT"));
}

fn add_nic(nic: u16) -> ServerRequest {
    ServerRequest::AddNic {
        nic,
        interface: InterfaceSettings::default(),
        strict: false,
        offload: false,
        umem: false,
    }
}

#[test]
fn requests_that_make_no_sense_are_refused_in_one_sentence() {
    let mut world = World::new();
    let now = world.now;
    let _a = world.a.admit(1, PARAMS);
    let bad = ClientParams { sockets: 0, ..PARAMS };
    let fds = || vec![shm::eventfd().unwrap(), shm::eventfd().unwrap()];
    let requests = [
        (add_nic(0), vec![], "interface 0 is here already"),
        (add_nic(1), vec![], "needs 3 file descriptors, 0"),
        (ServerRequest::Announce { nic: 7 }, vec![], "interface 7 is not here"),
        (ServerRequest::AddClient { client: 1, params: PARAMS }, fds(), "client 1 is here already"),
        (ServerRequest::AddClient { client: 2, params: bad }, fds(), "not possible"),
        (ServerRequest::AddClient { client: 2, params: PARAMS }, fds(), "could not be mapped"),
        (ServerRequest::AddThread { client: 2, thread: 0 }, vec![], "client 2 is not here"),
        (ServerRequest::AddThread { client: 1, thread: 9 }, vec![], "needs 1"),
        (ServerRequest::RemoveClient { client: 2 }, vec![], "client 2 is not here"),
        (ServerRequest::Capture { snaplen: 64 }, vec![], "cannot do that"),
    ];
    for (request, fds, want) in requests {
        let text = format!("{request:?}");
        let reply = world.a.server.request(now, request, fds);
        let ServerReply::Error { message } = reply else { panic!("{text}: {reply:?}") };
        assert!(message.contains(want), "{text}: {message}");
    }
}

#[test]
fn a_link_that_may_have_forgotten_is_told_of_us() {
    let mut world = World::new();
    let arps = |world: &mut World| {
        world.a.server.iterate(world.now);
        let frames = world.a.driver.transmit();
        // An announcement: sender and target are the stack's own address (RFC 5227 2.3).
        let ours = [10, 0, 0, 1];
        let own = |frame: &&Vec<u8>| frame[28..32] == ours && frame[38..42] == ours;
        frames.iter().filter(|frame| frame[12..14] == [8, 6]).filter(own).count()
    };
    assert_eq!(arps(&mut world), 1, "when it begins");
    world.now += Duration::from_secs(10);
    assert_eq!(arps(&mut world), 1, "once more");
    world.now += Duration::from_secs(10);
    assert_eq!(arps(&mut world), 0);
    let announce = ServerRequest::Announce { nic: 0 };
    let done = world.a.server.request(world.now, announce, Vec::new());
    assert_eq!((done, arps(&mut world)), (ServerReply::Done, 1));
}

#[test]
fn the_event_loop_serves_its_supervisor_until_told_to_end() {
    use abi::control::{BusyPoll, CongestionControl, NumberedRequest, ServerOutput};
    let (mut ours, theirs) = shm::Channel::pair().unwrap();
    let server = std::thread::spawn(|| crate::run(theirs, None, None, None));
    let mut id = 0;
    let mut ask = |request: ServerRequest, fds: &[OwnedFd]| {
        id += 1;
        let body = serde_json::to_vec(&NumberedRequest { id, request }).unwrap();
        let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
        ours.send(&body, &fds).unwrap();
        loop {
            let message = ours.recv().unwrap().unwrap();
            match serde_json::from_slice(&message.body).unwrap() {
                ServerOutput::Reply { id: of, reply } => {
                    assert_eq!(of, id);
                    return reply;
                }
                // At the end, that the client is gone.
                ServerOutput::Sandbox(sandbox) => panic!("{sandbox:?}"),
                ServerOutput::Event(event) => {
                    assert_eq!(event, ServerEvent::ClientReleased { client: 3 });
                }
            }
        }
    };
    let config = InetConfig {
        share_frames: false,
        busy_poll: BusyPoll::OFF,
        keep_awake: false,
        instance: "test".to_owned(),
        ipv6: Ipv6Mode::Off,
        rp_filter: 0,
        tcp: TcpDefaults { congestion: CongestionControl::Reno, ..TcpDefaults::default() },
    };
    assert_eq!(ask(ServerRequest::ConfigureInet(config), &[]), ServerReply::Done);
    let layout = PARAMS.layout().unwrap();
    let (region, fd) = Region::create("client", layout.len, Backing::Small).unwrap();
    let bell = shm::eventfd().unwrap();
    let fds = [fd, bell.try_clone().unwrap()];
    let add = ServerRequest::AddClient { client: 3, params: PARAMS };
    assert_eq!(ask(add, &fds), ServerReply::Done);
    let own_bell = shm::eventfd().unwrap();
    let add = ServerRequest::AddThread { client: 3, thread: 0 };
    assert_eq!(ask(add, &[own_bell.try_clone().unwrap()]), ServerReply::Done);
    // A call with bells on both sides: server and program sleep.
    let mut requests = Producer::attach(&region, layout.request_ring(0), REQUESTS).unwrap();
    let mut results = Consumer::attach(&region, layout.result_ring(0), RESULTS).unwrap();
    let head = layout.head(&region).unwrap();
    let ringer = shm::Ringer::new(head.server_bell, bell);
    let sleeper = shm::Sleeper::new(layout.thread_bell(&region, 0).unwrap());
    for tag in 0..200 {
        let path = ReturnPath { client: 3, ring: 0, tag };
        let call = RawCall { op: Op::Null, priority: 0, flags: 0, path, args: [0; 6] };
        requests.push(&call.encode()).unwrap();
        ringer.ring();
        let slot = loop {
            if let Some(slot) = results.pop().unwrap() {
                break slot;
            }
            sleeper.announce(shm::Sleep::Futex);
            if results.is_empty().unwrap() {
                sleeper.wait_futex(Some(Duration::from_secs(10))).unwrap();
            }
            sleeper.awake();
        };
        assert_eq!(RawResult::decode(&slot).path, path);
    }
    assert_eq!(ask(ServerRequest::Shutdown, &[]), ServerReply::Done);
    server.join().unwrap().unwrap();
}

#[test]
fn the_event_loop_ends_with_its_supervisor() {
    let (ours, theirs) = shm::Channel::pair().unwrap();
    let server = std::thread::spawn(|| crate::run(theirs, None, None, None));
    drop(ours);
    let ended = server.join().unwrap();
    assert!(matches!(ended, Err(crate::ServerError::SupervisorGone)), "{ended:?}");
}

/// Every iteration looks at all places for clients, so those after the last client go.
#[test]
fn places_for_clients_go_with_the_clients() {
    let mut world = World::new();
    let _stays = world.a.admit(5, PARAMS);
    let _goes = world.a.admit(60_000, PARAMS);
    let now = world.now;
    world.a.remove(60_000, now);
    world.run(|world| released(&world.a, 60_000));
    assert_eq!(world.a.server.clients.len(), 6);
}

/// A parent knows of the end of its child before the supervisor does.
#[test]
fn what_an_ended_program_held_is_free_at_once() {
    let mut world = World::new();
    for kind in [SocketKind::Stream, SocketKind::Datagram] {
        let mut first = world.a.admit(5, PARAMS);
        let mut next = world.a.admit(6, PARAMS);
        let to = SocketAddr::from((world.a.address, 80));
        let old = world.socket(&mut first, kind);
        world.call(&mut first, Op::Bind, &with(&old, to), 0).unwrap();
        let new = world.socket(&mut next, kind);
        let bind =
            |world: &mut World, next: &mut Program| world.call(next, Op::Bind, &with(&new, to), 0);
        assert_eq!(bind(&mut world, &mut next), Err(Errno::ADDRINUSE));
        if kind == SocketKind::Stream {
            world.call(&mut first, Op::Listen, &[old.word(), 5], 0).unwrap();
            assert_eq!(bind(&mut world, &mut next), Err(Errno::ADDRINUSE));
        }
        drop(first);
        bind(&mut world, &mut next).unwrap();
        // The supervisor learns of it later.
        assert!(!released(&world.a, 5));
        let now = world.now;
        world.a.remove(5, now);
        world.run(|world| released(&world.a, 5));
        world.a.remove(6, now);
        world.run(|world| released(&world.a, 6));
        world.a.events.clear();
    }
}
