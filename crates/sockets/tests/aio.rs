//! Tasks: their sockets, their calls, their sleep.

mod common;

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use abi::call::Op;
use common::{Fake, HANG, index_of, make_lost_wake_ups_hang, small};
use futures_io::{AsyncRead, AsyncWrite};
use tasuki_sockets::aio::{
    Reactor, TcpListener, TcpStream, UdpSocket, block_on, block_on_via, spawn, yield_now,
};
use tasuki_sockets::{Errno, Request};

fn peer() -> std::net::SocketAddr {
    "10.219.0.1:80".parse().unwrap()
}

async fn read(mut stream: &TcpStream, into: &mut [u8]) -> io::Result<usize> {
    poll_fn(|context| Pin::new(&mut stream).poll_read(context, into)).await
}

async fn write_all(mut stream: &TcpStream, mut from: &[u8]) -> io::Result<()> {
    while !from.is_empty() {
        let sent = poll_fn(|context| Pin::new(&mut stream).poll_write(context, from)).await?;
        from = &from[sent..];
    }
    Ok(())
}

async fn read_exact(stream: &TcpStream, into: &mut [u8]) -> io::Result<()> {
    let mut got = 0;
    while got < into.len() {
        got += match read(stream, &mut into[got..]).await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            more => more,
        };
    }
    Ok(())
}

#[test]
fn streams_of_many_tasks_carry_bytes_both_ways() {
    let (fake, client) = Fake::with_client(small());
    fake.core().manner.echoes = true;
    let done = block_on_via(&client, async {
        let mut tasks = Vec::new();
        for task in 0..7_u8 {
            tasks.push(spawn(async move {
                let stream = TcpStream::connect(peer()).await.unwrap();
                let mut total = 0;
                for round in 0..20_usize {
                    let sent = vec![task; 1 + round * 997];
                    let mut got = vec![0; sent.len()];
                    // More than there is room for at once: both directions go on together.
                    let reader = read_exact(&stream, &mut got);
                    let writer = write_all(&stream, &sent);
                    both(reader, writer).await;
                    assert_eq!(got, sent);
                    total += got.len();
                }
                total
            }));
        }
        let mut total = 0;
        for task in tasks {
            total += task.unwrap().await;
        }
        total
    });
    assert_eq!(done.unwrap(), 7 * (0..20).map(|round| 1 + round * 997).sum::<usize>());
    fake.eventually("every socket is closed", |core| core.socks.iter().all(Option::is_none));
}

async fn both(
    one: impl Future<Output = io::Result<()>>,
    two: impl Future<Output = io::Result<()>>,
) {
    let (mut one, mut two) = (Box::pin(one), Box::pin(two));
    let (mut first, mut second) = (false, false);
    poll_fn(|context| {
        first = first || one.as_mut().poll(context).map(Result::unwrap).is_ready();
        second = second || two.as_mut().poll(context).map(Result::unwrap).is_ready();
        if first && second { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

#[test]
fn what_tasks_call_leaves_with_one_bell() {
    let (fake, client) = Fake::with_client(small());
    block_on_via(&client, async {
        let mut streams = Vec::new();
        for _ in 0..6 {
            streams.push(TcpStream::connect(peer()).await.unwrap());
        }
        for round in 0..20 {
            let calls = fake.core().calls.len();
            let wakes = fake.core().wakes;
            let mut tasks = Vec::new();
            for stream in streams {
                tasks.push(
                    spawn(async move {
                        write_all(&stream, b"before").await.unwrap();
                        stream.set_nodelay(true).await.unwrap();
                        stream
                    })
                    .unwrap(),
                );
            }
            streams = Vec::new();
            for task in tasks {
                streams.push(task.await);
            }
            assert_eq!(fake.core().calls.len() - calls, 6);
            // None if the server was awake.
            let rung = fake.core().wakes - wakes;
            assert!(rung <= 1, "round {round}: rung {rung} times");
        }
    })
    .unwrap();
}

#[test]
fn dropping_a_future_cancels_its_call() {
    let (fake, client) = Fake::with_client(small());
    fake.core().manner.holds = Some(Op::Accept);
    block_on_via(&client, async {
        let listener = TcpListener::bind("0.0.0.0:80".parse().unwrap()).await.unwrap();
        let index = index_of(listener.as_socket());
        {
            let mut accept = Box::pin(listener.accept());
            once(accept.as_mut()).await;
            assert_eq!(fake.core().held.len(), 1);
        }
        yield_now().await;
        // Any later call comes after the cancellation.
        let reactor = Reactor::current().unwrap();
        reactor.call(Request::null()).unwrap().await.unwrap();
        assert!(fake.core().held.is_empty());
        // One that is answered at the same moment: the connection that it accepted is closed.
        fake.core().offer(index, 1);
        let mut accept = Box::pin(listener.accept());
        once(accept.as_mut()).await;
        fake.core().answer_held();
        assert!(fake.core().socks[1].is_some());
        drop(accept);
        reactor.call(Request::null()).unwrap().await.unwrap();
        yield_now().await;
    })
    .unwrap();
    fake.eventually("the close", |core| core.socks[1].is_none());
}

/// Polls a future once, then waits for a call of another kind.
async fn once<F: Future>(mut future: Pin<&mut F>) {
    poll_fn(|context| {
        assert!(future.as_mut().poll(context).is_pending());
        Poll::Ready(())
    })
    .await;
    let reactor = Reactor::current().unwrap();
    reactor.call(Request::null()).unwrap().await.unwrap();
}

#[test]
fn connections_are_accepted_and_refused() {
    let (fake, client) = Fake::with_client(small());
    block_on_via(&client, async {
        let listener = TcpListener::bind("0.0.0.0:80".parse().unwrap()).await.unwrap();
        fake.core().offer(index_of(listener.as_socket()), 2);
        for _ in 0..2 {
            let (_stream, peer) = listener.accept().await.unwrap();
            assert_eq!(peer, "10.219.0.1:5555".parse().unwrap());
        }
        fake.core().manner.connects = Some(Err(Errno::CONNREFUSED));
        let refused = TcpStream::connect(peer()).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    })
    .unwrap();
}

#[test]
fn datagrams_come_and_go() {
    let (fake, client) = Fake::with_client(small());
    block_on_via(&client, async {
        let socket = UdpSocket::bind("0.0.0.0:53".parse().unwrap()).await.unwrap();
        let index = index_of(socket.as_socket());
        let receiver = async {
            let mut into = [0; 10];
            let (len, from) = socket.recv_from(&mut into).await.unwrap();
            (into[..len].to_vec(), from)
        };
        let mut receiver = Box::pin(receiver);
        once(receiver.as_mut()).await;
        fake.core().deliver_datagram(index, b"ask", peer());
        assert_eq!(receiver.await, (b"ask".to_vec(), peer()));
        assert_eq!(socket.send_to(b"answer", peer()).await.unwrap(), 6);
        Reactor::current().unwrap().call(Request::null()).unwrap().await.unwrap();
        assert_eq!(fake.core().sock(index).datagrams, [(b"answer".to_vec(), Some(peer()))]);
    })
    .unwrap();
}

#[test]
fn a_waker_of_another_thread_ends_the_sleep() {
    let (_fake, client) = Fake::with_client(small());
    let begin = Instant::now();
    block_on_via(&client, async {
        // The first from a sleep that is on descriptors.
        for round in 0..20 {
            let (send, wakers) = std::sync::mpsc::channel::<Waker>();
            let thread = std::thread::spawn(move || {
                let waker = wakers.recv().unwrap();
                std::thread::sleep(Duration::from_millis(if round == 0 { 1100 } else { 2 }));
                waker.wake();
            });
            let mut asked = false;
            poll_fn(|context| {
                if std::mem::replace(&mut asked, true) {
                    return Poll::Ready(());
                }
                send.send(context.waker().clone()).unwrap();
                Poll::Pending
            })
            .await;
            thread.join().unwrap();
            make_lost_wake_ups_hang(&client);
        }
    })
    .unwrap();
    assert!(begin.elapsed() < HANG, "a wake-up was lost: {:?}", begin.elapsed());
}

#[test]
fn tasks_are_told_when_the_instance_is_gone() {
    let (fake, client) = Fake::with_client(small());
    fake.core().manner.holds = Some(Op::Accept);
    let heard = Rc::new(Cell::new(0));
    let ended = block_on_via(&client, async {
        let stream = TcpStream::connect(peer()).await.unwrap();
        let listener = TcpListener::bind("0.0.0.0:80".parse().unwrap()).await.unwrap();
        let counted = Rc::clone(&heard);
        let reader = spawn(async move {
            let outcome = read(&stream, &mut [0; 4]).await;
            assert_eq!(outcome.unwrap_err().raw_os_error(), Some(Errno::NETDOWN.raw_os_error()));
            counted.set(counted.get() + 1);
        });
        let counted = Rc::clone(&heard);
        let acceptor = spawn(async move {
            let outcome = listener.accept().await;
            assert_eq!(outcome.unwrap_err().raw_os_error(), Some(Errno::NETDOWN.raw_os_error()));
            counted.set(counted.get() + 1);
        });
        yield_now().await;
        fake.die();
        reader.unwrap().await;
        acceptor.unwrap().await;
        // Nothing can come any more.
        std::future::pending::<()>().await;
    });
    assert_eq!(heard.get(), 2);
    assert_eq!(ended.unwrap_err().raw_os_error(), Some(Errno::NETDOWN.raw_os_error()));
}

#[test]
fn outside_of_block_on_there_is_no_reactor() {
    assert_eq!(Reactor::current().unwrap_err(), Errno::NOTCONN);
    assert!(spawn(async {}).is_err());
    // Without an instance.
    assert!(block_on(async {}).is_err());
    let (_fake, client) = Fake::with_client(small());
    let nested = block_on_via(&client, async {
        // One reactor for a thread.
        block_on_via(&client, async {}).unwrap_err().raw_os_error()
    });
    assert_eq!(nested.unwrap(), Some(Errno::NOBUFS.raw_os_error()));
}
