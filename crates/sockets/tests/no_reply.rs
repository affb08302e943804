//! No-reply calls, and spare sockets.

mod common;

use std::io::IoSlice;

use abi::call::Op;
use abi::{Family, SocketKind};
use common::{Fake, small};
use tasuki_sockets::{Errno, SendFlags, Socket, Wait};

const ADDR: &str = "10.219.0.1:80";
const TCP_NODELAY: (i32, i32) = (6, 1);
const SO_KEEPALIVE: (i32, i32) = (1, 9);

fn cycle(client: &std::sync::Arc<tasuki_sockets::Client>) -> Socket {
    let socket = client.socket(Family::V4, SocketKind::Stream).unwrap();
    socket.connect(ADDR.parse().unwrap(), Wait::Forever).unwrap();
    let (level, name) = TCP_NODELAY;
    socket.set_int(level, name, 1).unwrap();
    socket
}

#[test]
fn a_thread_that_connects_again_has_its_next_socket_already() {
    let (fake, client) = Fake::with_client(small());
    for _ in 0..4 {
        cycle(&client).close_soon();
        // Else the next socket may be wanted before it is there.
        fake.eventually("the close", |core| core.calls.last() == Some(&Op::Close));
    }
    let (own, ahead) = (Op::Socket, Op::Socket);
    let first = [own, Op::Connect, Op::SetSockOpt, Op::Close];
    let second = [own, Op::Connect, ahead, Op::SetSockOpt, Op::Close];
    let later = [Op::Connect, ahead, Op::SetSockOpt, Op::Close];
    let all = [&first[..], &second[..], &later[..], &later[..]].concat();
    fake.eventually("all calls", |core| core.calls == all);
    // One is open: that which was made ahead.
    assert_eq!(fake.core().socks.iter().flatten().count(), 1);
}

#[test]
fn a_socket_that_was_made_ahead_is_nobodys_loss() {
    let (fake, client) = Fake::with_client(small());
    let mut open = vec![cycle(&client), cycle(&client)];
    fake.eventually("all three", |core| core.socks.iter().flatten().count() == 3);
    std::thread::scope(|scope| {
        let rest = scope.spawn(|| {
            let more = || client.socket(Family::V4, SocketKind::Stream);
            let mut got = Vec::new();
            loop {
                match more() {
                    Ok(socket) => got.push(socket),
                    Err(errno) => break (got, errno),
                }
            }
        });
        let (rest, errno) = rest.join().unwrap();
        assert_eq!(errno, Errno::MFILE);
        open.extend(rest);
    });
    assert_eq!(open.len(), usize::from(small().sockets));
}

#[test]
fn a_client_that_goes_waits_until_what_it_closed_was_taken() {
    for _ in 0..20 {
        let (fake, client) = Fake::with_client(small());
        let socket = cycle(&client);
        let bytes = [IoSlice::new(&[7; 1000])];
        assert_eq!(socket.send(&bytes, SendFlags::default(), None, Wait::No), Ok(1000));
        socket.close_soon();
        drop((socket, client));
        // The fake server, as the true one, does not take what is given back already.
        fake.eventually("the close", |core| core.socks.iter().flatten().count() == 0);
        assert_eq!(fake.core().pages_held(), 0);
    }
}

#[test]
fn an_option_that_cannot_fail_wakes_nobody() {
    let (fake, client) = Fake::with_client(small());
    let socket = client.socket(Family::V4, SocketKind::Stream).unwrap();
    fake.eventually("sleep", |core| core.calls == [Op::Socket]);
    let (level, name) = SO_KEEPALIVE;
    // More than there are places for calls: earlier ones are over once a thread waits.
    for _ in 0..2000 {
        socket.set_int(level, name, 1).unwrap();
    }
    assert_eq!(socket.set_option(level, name, &[1]), Ok(()), "the server judges what is short");
    assert_eq!(fake.core().calls.len(), 2002);
    socket.close();
    assert_eq!(socket.set_int(level, name, 1), Err(Errno::BADF));
}
