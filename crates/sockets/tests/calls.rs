//! Packaged calls, abandoned calls, thread slots.

mod common;

use std::io::IoSliceMut;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use abi::call::{self, CallFlags, Op};
use abi::client::{ClientParams, RESULTS};
use abi::option::OptionPart;
use abi::{Family, SocketId, SocketKind};
use common::server::ECHO;
use common::{Fake, HANG, connected, index_of, make_lost_wake_ups_hang, small};
use tasuki_sockets::{CallBatch, Errno, RecvFlags, Reply, Request, Wait};

/// The first socket of a client.
const FIRST: SocketId = SocketId { index: 0, generation: 1 };

/// A call about the first socket whose reply tells `n` ([`reported`]).
fn tell(n: u32) -> call::Request {
    call::Request::GetSockOpt { socket: FIRST, key: ECHO, from: n }
}

fn reported(reply: Result<call::Reply, Errno>) -> u64 {
    match reply {
        Ok(call::Reply::Option(OptionPart { len, .. })) => len,
        other => panic!("{other:?}"),
    }
}

const NO_FLAGS: CallFlags = CallFlags::NONE;
const STREAM: call::Request =
    call::Request::Socket { kind: SocketKind::Stream, family: Family::V4 };

#[test]
fn calls_travel_in_batches() {
    let (fake, client) = Fake::with_client(small());
    let _first = client.socket(Family::V4, SocketKind::Stream).unwrap();
    fake.core().calls.clear();
    let mut batch = CallBatch::with_threshold(&client, 10).unwrap();
    let mut tickets = Vec::new();
    for n in 0..9 {
        tickets.push(batch.register(tell(n), NO_FLAGS).unwrap());
    }
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(fake.core().calls.len(), 0, "below the threshold");
    tickets.push(batch.register(tell(9), NO_FLAGS).unwrap());
    fake.eventually("the flush", |core| core.calls.len() == 10);
    // Results are fetched in any order, each once.
    for (n, ticket) in tickets.iter().enumerate().rev() {
        assert_eq!(reported(batch.wait(*ticket, Wait::Forever)), n as u64);
        assert_eq!(batch.wait(*ticket, Wait::No), Err(Errno::INVAL));
    }
}

#[test]
fn more_calls_than_the_rings_hold() {
    let (_fake, client) = Fake::with_client(small());
    let _first = client.socket(Family::V4, SocketKind::Stream).unwrap();
    let mut batch = CallBatch::new(&client).unwrap();
    // Results are not fetched meanwhile: as many may be outstanding as the result ring holds.
    let tickets: Vec<_> =
        (0..RESULTS).map(|n| batch.register(tell(n), NO_FLAGS).unwrap()).collect();
    assert_eq!(batch.register(call::Request::Null, NO_FLAGS), Err(Errno::NOBUFS));
    for (n, ticket) in tickets.into_iter().enumerate() {
        assert_eq!(reported(batch.wait(ticket, Wait::Forever)), n as u64);
    }
    assert!(batch.register(call::Request::Null, NO_FLAGS).is_ok());
}

#[test]
fn many_calls_are_registered_and_fetched_at_once() {
    let (fake, client) = Fake::with_client(small());
    let mut batch = CallBatch::with_threshold(&client, 10).unwrap();
    let of = |n: u64| Request::null().user_data(n);
    let (mut requests, mut tickets) = ((0..19).map(of).collect(), Vec::new());
    batch.submit_all(&mut requests, &mut tickets).unwrap();
    assert_eq!((requests.len(), tickets.len()), (0, 19));
    fake.eventually("the threshold", |core| core.calls.len() == 10);
    // As many results as the ring holds may be unfetched; what does not fit is kept.
    requests = (19..u64::from(RESULTS) + 5).map(of).collect();
    assert_eq!(batch.submit_all(&mut requests, &mut tickets), Err(Errno::NOBUFS));
    assert_eq!((requests.len(), tickets.len()), (5, RESULTS as usize));
    let mut over = Vec::new();
    assert_eq!(batch.collect(RESULTS, Wait::Forever, &mut over), Ok(RESULTS as usize));
    assert_eq!(batch.collect(1, Wait::Forever, &mut over), Ok(0), "nothing is due");
    let expected: Vec<_> = (0..).zip(tickets.drain(..)).collect();
    let found: Vec<_> = over.iter().map(|over| (over.user_data, over.ticket)).collect();
    assert_eq!(found, expected);
    batch.submit_all(&mut requests, &mut tickets).unwrap();
    assert_eq!((requests.len(), batch.counts()), (0, (0, 5)));
}

#[test]
fn results_overtake_each_other() {
    let (fake, client) = Fake::with_client(small());
    let _first = client.socket(Family::V4, SocketKind::Stream).unwrap();
    fake.core().manner.holds = Some(Op::Socket);
    let mut batch = CallBatch::new(&client).unwrap();
    let slow = batch.register(STREAM, NO_FLAGS).unwrap();
    let fast = batch.register(tell(5), NO_FLAGS).unwrap();
    assert_eq!(reported(batch.wait(fast, Wait::Forever)), 5);
    let start = Instant::now();
    let limit = Wait::Until(start + Duration::from_millis(20));
    assert_eq!(batch.wait(slow, limit), Err(Errno::AGAIN));
    assert!(start.elapsed() >= Duration::from_millis(20));
    fake.core().answer_held();
    assert!(batch.wait(slow, Wait::Forever).is_ok(), "the ticket stayed good");
}

#[test]
fn abandoned_calls_are_made_and_what_they_make_is_closed() {
    let (fake, client) = Fake::with_client(small());
    let listener = client.socket(Family::V4, SocketKind::Stream).unwrap();
    listener.listen(5).unwrap();
    fake.core().offer(index_of(&listener), 1);
    fake.core().manner.holds = Some(Op::Accept);
    let mut batch = CallBatch::new(&client).unwrap();
    let socket = SocketId { index: index_of(&listener), generation: 1 };
    batch.register(call::Request::Accept { socket }, CallFlags::NONBLOCK).unwrap();
    drop(batch);
    fake.eventually("the call", |core| core.held.len() == 1);
    fake.core().answer_held();
    assert!(fake.core().socks[1].is_some());
    // The next call on this thread's rings finds the result that no caller wants.
    let other = client.socket(Family::V4, SocketKind::Stream).unwrap();
    assert_eq!(index_of(&other), 2);
    fake.eventually("the close", |core| core.socks[1].is_none());

    // The same with a result that had come before the batch was dropped.
    let mut batch = CallBatch::new(&client).unwrap();
    batch.register(STREAM, NO_FLAGS).unwrap();
    let last = batch.register(call::Request::Null, NO_FLAGS).unwrap();
    batch.wait(last, Wait::Forever).unwrap();
    assert!(fake.core().socks[1].is_some());
    drop(batch);
    fake.eventually("the close", |core| core.socks[1].is_none());
}

#[test]
fn results_come_with_the_callers_word_in_the_order_of_their_coming() {
    let (fake, client) = Fake::with_client(small());
    fake.core().manner.holds = Some(Op::Socket);
    let mut batch = CallBatch::new(&client).unwrap();
    let (kind, family) = (SocketKind::Datagram, Family::V6);
    let made = batch.submit(Request::socket(family, kind).user_data(7)).unwrap();
    for word in 1..=3 {
        batch.submit(Request::null().user_data(word)).unwrap();
    }
    assert_eq!(batch.counts(), (0, 4));
    assert_eq!(batch.wait_for(3, Wait::Forever), Ok(3));
    let words: Vec<u64> = std::iter::from_fn(|| batch.fetch()).map(|over| over.user_data).collect();
    assert_eq!(words, [1, 2, 3]);
    let soon = Wait::Until(Instant::now() + Duration::from_millis(10));
    assert_eq!(batch.wait_for(1, soon), Ok(0), "the time is over");
    fake.core().answer_held();
    // No more than are due are waited for.
    assert_eq!(batch.wait_for(100, Wait::Forever), Ok(1));
    let over = batch.fetch().unwrap();
    assert_eq!((over.ticket, over.user_data), (made, 7));
    let Ok(Reply::Socket(socket)) = over.result else { panic!("{:?}", over.result) };
    assert_eq!((socket.kind(), socket.family()), (kind, family));
    assert_eq!(batch.counts(), (0, 0));
    assert_eq!(batch.wait_for(1, Wait::Forever), Ok(0), "nothing is due");
}

#[test]
fn results_are_collected_in_the_order_of_their_coming() {
    let (fake, client) = Fake::with_client(small());
    let (about, index) = connected(&client);
    let mut batch = CallBatch::new(&client).unwrap();
    let mut other = CallBatch::new(&client).unwrap();
    let (mut over, mut tickets) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        tickets.push(batch.submit(Request::null().user_data(1)).unwrap());
        other.submit(Request::null()).unwrap();
        // One that the client has to know of, between those that it has not.
        let socket = Request::socket(Family::V4, SocketKind::Datagram);
        tickets.push(batch.submit(socket.user_data(2)).unwrap());
        let unnamed = Request::local_addr(&about).user_data(3);
        tickets.push(batch.submit(unnamed).unwrap());
        let option = Request::option(&about, 6, 11, 60).user_data(4);
        tickets.push(batch.submit(option).unwrap());
        // Results of another batch come in between.
        other.flush();
        assert_eq!(batch.collect(4, Wait::Forever, &mut over), Ok(4));
    }
    let found: Vec<_> = over.iter().map(|over| over.ticket).collect();
    assert_eq!(found, tickets);
    for (over, word) in over.drain(..).zip([1, 2, 3, 4].into_iter().cycle()) {
        assert_eq!(over.user_data, word);
        match (word, over.result.unwrap()) {
            (1, Reply::Done) | (2, Reply::Socket(_)) | (3, Reply::Address(_)) => {}
            (4, Reply::Option { len: 100, part }) => assert!(part.into_iter().eq(60..100)),
            (word, reply) => panic!("{word}: {reply:?}"),
        }
    }
    assert_eq!(other.collect(3, Wait::Forever, &mut over), Ok(3));
    let soon = Wait::Until(Instant::now() + Duration::from_millis(10));
    fake.core().manner.holds = Some(Op::Socket);
    batch.submit(Request::socket(Family::V4, SocketKind::Stream)).unwrap();
    assert_eq!(batch.collect(1, soon, &mut over), Ok(0), "the time is over");
    fake.core().answer_held();
    assert_eq!(batch.collect(9, Wait::Forever, &mut over), Ok(1), "no more are due");
    // Nothing that is over keeps a socket open.
    drop(about);
    fake.eventually("the close", |core| core.socks[usize::from(index)].is_none());
}

#[test]
fn two_batches_of_a_thread_do_not_mix() {
    let (_fake, client) = Fake::with_client(small());
    let _first = client.socket(Family::V4, SocketKind::Stream).unwrap();
    let mut one = CallBatch::new(&client).unwrap();
    let mut two = CallBatch::new(&client).unwrap();
    for word in 0..10 {
        one.submit(Request::null().user_data(word)).unwrap();
        two.submit(Request::null().user_data(100 + word)).unwrap();
    }
    let first = one.register(tell(5), NO_FLAGS).unwrap();
    assert_eq!(two.wait(first, Wait::No), Err(Errno::INVAL));
    assert_eq!(two.wait_for(10, Wait::Forever), Ok(10));
    assert_eq!(one.wait_for(11, Wait::Forever), Ok(11));
    // Out of the middle of the list, then the rest.
    assert_eq!(reported(one.wait(first, Wait::No)), 5);
    for word in 0..10 {
        assert_eq!(one.fetch().map(|over| over.user_data), Some(word));
        assert_eq!(two.fetch().map(|over| over.user_data), Some(100 + word));
    }
    assert!(one.fetch().is_none() && two.fetch().is_none());
}

#[test]
fn a_call_that_waits_is_cancelled_and_one_that_is_over_is_not() {
    let (fake, client) = Fake::with_client(small());
    let listener = client.socket(Family::V4, SocketKind::Stream).unwrap();
    listener.listen(5).unwrap();
    fake.core().manner.holds = Some(Op::Accept);
    let mut batch = CallBatch::new(&client).unwrap();
    let waits = batch.submit(Request::accept(&listener)).unwrap();
    batch.flush();
    fake.eventually("the call", |core| core.held.len() == 1);
    batch.cancel(waits).unwrap();
    assert_eq!(batch.wait_for(1, Wait::Forever), Ok(1));
    assert_eq!(batch.cancel(waits), Err(Errno::NOENT), "its result has come");
    assert!(matches!(batch.fetch().unwrap().result, Err(Errno::CANCELED)));
    assert_eq!(batch.cancel(waits), Err(Errno::NOENT));
    // A cancellation that comes too late changes nothing.
    let done = batch.submit(Request::null()).unwrap();
    batch.flush();
    fake.eventually("the call", |core| core.calls.last() == Some(&Op::Null));
    batch.cancel(done).unwrap();
    assert_eq!(batch.wait_for(1, Wait::Forever), Ok(1));
    assert!(matches!(batch.fetch().unwrap().result, Ok(Reply::Done)));
}

#[test]
fn a_batch_that_is_dropped_cancels_what_waits_and_keeps_no_socket_open() {
    let (fake, client) = Fake::with_client(small());
    let listener = client.socket(Family::V4, SocketKind::Stream).unwrap();
    listener.listen(5).unwrap();
    fake.core().manner.holds = Some(Op::Accept);
    let mut batch = CallBatch::new(&client).unwrap();
    for _ in 0..100 {
        batch.submit(Request::accept(&listener)).unwrap();
    }
    batch.flush();
    fake.eventually("the calls", |core| core.held.len() == 100);
    // The calls hold the last handle.
    drop(listener);
    assert!(fake.core().socks[0].is_some());
    drop(batch);
    fake.eventually("the cancellations", |core| core.held.is_empty());
    fake.eventually("the close", |core| core.socks[0].is_none());
    // Their places are free again once their results are seen.
    let mut batch = CallBatch::new(&client).unwrap();
    for _ in 0..RESULTS {
        batch.submit(Request::null()).unwrap();
    }
    assert_eq!(batch.wait_for(RESULTS, Wait::Forever), Ok(RESULTS));
}

#[test]
fn closing_and_options_travel_in_batches() {
    let (fake, client) = Fake::with_client(small());
    let (socket, index) = connected(&client);
    let mut batch = CallBatch::new(&client).unwrap();
    batch.submit(Request::option(&socket, 6, 11, 60)).unwrap();
    batch.submit(Request::set_option(&socket, 6, 1, &1_i32.to_ne_bytes())).unwrap();
    batch.submit(Request::local_addr(&socket)).unwrap();
    batch.submit(Request::close(&socket).unwrap()).unwrap();
    assert!(Request::close(&socket).is_none());
    assert_eq!(socket.local_addr(), Err(Errno::BADF));
    assert_eq!(batch.wait_for(4, Wait::Forever), Ok(4));
    let mut next = || batch.fetch().unwrap().result;
    let Ok(Reply::Option { len: 100, part }) = next() else { panic!("an option") };
    assert!(part.iter().copied().eq(60..100));
    assert!(matches!(next(), Ok(Reply::Done)));
    let Ok(Reply::Address(addr)) = next() else { panic!("an address") };
    assert_eq!(addr, "10.219.0.2:4000".parse().unwrap());
    assert!(matches!(next(), Ok(Reply::Done)));
    assert!(fake.core().socks[usize::from(index)].is_none());
}

#[test]
fn a_thread_that_ends_leaves_its_slot_to_the_next() {
    let (fake, client) = Fake::with_client(small());
    for _ in 0..50 {
        let client = std::sync::Arc::clone(&client);
        // Joining, unlike the end of a scope, waits for the thread's own storage to go.
        let thread = std::thread::spawn(move || {
            drop(client.socket(Family::V4, SocketKind::Stream).unwrap());
        });
        thread.join().unwrap();
    }
    assert_eq!(fake.core().threads.len(), 1);
    drop(client.socket(Family::V4, SocketKind::Stream).unwrap());
    let barrier = Barrier::new(3);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                drop(client.socket(Family::V4, SocketKind::Stream).unwrap());
                barrier.wait();
            });
        }
    });
    assert_eq!(fake.core().threads.len(), 4);
}

/// Forty threads on three slots: calls, and sleeps that must all end at once.
#[test]
fn threads_beyond_the_slots_share_them() {
    let params =
        ClientParams { threads: 3, sockets: 64, tx_pages: 512, rx_pages: 64 * 20, ..small() };
    let (fake, client) = Fake::with_client(params);
    make_lost_wake_ups_hang(&client);
    let sockets: Vec<_> = (0..40).map(|_| connected(&client)).collect();
    let started = Barrier::new(41);
    std::thread::scope(|scope| {
        let readers: Vec<_> = sockets
            .iter()
            .map(|(socket, index)| {
                let (client, started) = (&client, &started);
                scope.spawn(move || {
                    let own = client.socket(Family::V4, SocketKind::Datagram).is_ok();
                    started.wait();
                    let mut total = 0;
                    let mut longest = Duration::ZERO;
                    let mut buf = [0; 10];
                    while total < 100 {
                        let start = Instant::now();
                        let bufs = &mut [IoSliceMut::new(&mut buf)];
                        let got = socket.recv(bufs, RecvFlags::default(), Wait::Forever);
                        total += got.unwrap().len;
                        longest = longest.max(start.elapsed());
                    }
                    (own, *index, longest)
                })
            })
            .collect();
        started.wait();
        for round in 0..100 {
            for (_, index) in &sockets {
                assert_eq!(fake.core().deliver(*index, b"x"), 1);
            }
            if round % 10 == 0 {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        for reader in readers {
            let (own, index, longest) = reader.join().unwrap();
            assert!(longest < HANG, "socket {index} waited {longest:?}");
            let _ = own;
        }
    });
    assert_eq!(fake.core().threads.len(), 3);
}

#[test]
fn any_thread_may_use_any_socket() {
    let (fake, client) = Fake::with_client(small());
    fake.core().manner.echoes = true;
    let (socket, _) = connected(&client);
    // Writers of whole records of one byte value each; areas may separate them, nothing may be
    // lost.
    let (writers, records, len) = (4, 50, 997);
    std::thread::scope(|scope| {
        for writer in 0..writers {
            let socket = socket.clone();
            scope.spawn(move || {
                let record = vec![writer; len];
                for _ in 0..records {
                    let bufs = &[std::io::IoSlice::new(&record)];
                    let sent = socket.send(bufs, Default::default(), None, Wait::Forever);
                    assert_eq!(sent, Ok(len));
                }
            });
        }
        let count = std::sync::Mutex::new([0; 4]);
        let total = usize::from(writers) * records * len;
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut buf = [0; 3000];
                    while count.lock().unwrap().iter().sum::<usize>() < total {
                        let bufs = &mut [IoSliceMut::new(&mut buf)];
                        let wait = Wait::Until(Instant::now() + Duration::from_millis(20));
                        let Ok(got) = socket.recv(bufs, RecvFlags::default(), wait) else {
                            continue;
                        };
                        let mut count = count.lock().unwrap();
                        buf[..got.len].iter().for_each(|&b| count[usize::from(b)] += 1);
                    }
                });
            }
        });
        assert_eq!(*count.lock().unwrap(), [records * len; 4]);
    });
}

#[test]
fn long_options_come_in_parts_and_are_cut_to_the_room() {
    let (_fake, client) = Fake::with_client(small());
    let socket = client.socket(Family::V6, SocketKind::Stream).unwrap();
    assert_eq!(socket.family(), Family::V6);
    for room in [0, 1, 39, 40, 41, 100, 120, 300] {
        let mut value = vec![0xAA; room];
        assert_eq!(socket.option(6, 11, &mut value), Ok(100), "{room}");
        let expected: Vec<u8> = (0..100).take(room).collect();
        assert_eq!(value[..room.min(100)], expected, "{room}");
    }
    assert_eq!(socket.set_option(0, 35, &[1; 40]), Ok(()));
}
