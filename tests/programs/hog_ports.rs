//! A hostile program that takes all ports it can get, as many clients, and then tries to connect
//! without end. Arguments: the socket of the instance, how it takes ports, and an address to
//! connect to.
//!
//! * `any` binds sockets to any free port.
//! * `named` binds sockets to all ports of the ephemeral range, by number.
//!
//! It prints "holding N" when it gets no more.

use std::env::args;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use sockets::{Client, Errno, Family, Socket, SocketKind, Wait};

/// Most clients of one process.
const CLIENTS: usize = 16;

fn any(port: u16) -> SocketAddr {
    SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port)
}

/// Takes ports with all sockets that a client may have, except one.
fn take(client: &Arc<Client>, named: &mut impl Iterator<Item = u16>) -> (Vec<Socket>, Socket) {
    let mut held = Vec::new();
    let last = client.socket(Family::V4, SocketKind::Stream).expect("a socket");
    let task = args().nth(2).expect("a task");
    while let Ok(socket) = client.socket(Family::V4, SocketKind::Stream) {
        let taken = match task.as_str() {
            "any" => socket.bind(any(0)),
            "named" => {
                let bound = named.find(|port| socket.bind(any(*port)).is_ok());
                bound.map(drop).ok_or(Errno::ADDRINUSE)
            }
            other => panic!("no such task: {other}"),
        };
        if taken.is_err() {
            break;
        }
        held.push(socket);
    }
    (held, last)
}

fn main() {
    let path = args().nth(1).expect("the instance's socket");
    let to = args().nth(3).expect("an address").parse().expect("an address");
    let mut clients = Vec::new();
    while clients.len() < CLIENTS
        && let Ok(client) = Client::connect(Path::new(&path))
    {
        clients.push(client);
    }
    let mut ports = 32_768..=60_999;
    let taken: Vec<_> = clients.iter().map(|client| take(client, &mut ports)).collect();
    println!("holding {}", taken.iter().map(|(held, _)| held.len()).sum::<usize>());
    std::thread::scope(|scope| {
        for (_, last) in &taken {
            scope.spawn(move || {
                loop {
                    if !matches!(last.connect(to, Wait::No), Err(Errno::ADDRNOTAVAIL)) {
                        // It got a port after all, and keeps it.
                        break;
                    }
                }
            });
        }
    });
    loop {
        std::thread::park();
    }
}
