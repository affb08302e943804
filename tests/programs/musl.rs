//! A client and a server for the target with musl, whose programs are static.
//!
//! `serve PORT COUNT` sends back what COUNT connections send, each in a thread. `fetch NAME PORT
//! BYTES` sends so many bytes to the first address of NAME and reads them back.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream, ToSocketAddrs, UdpSocket};
use std::time::Duration;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| words[at].parse::<usize>().unwrap();
    match &*words[0] {
        "serve" => serve(number(1) as u16, number(2)),
        "fetch" => fetch(&words[1], number(2) as u16, number(3)),
        "names" => names(&words[1..]),
        "datagram" => datagram(&words[1], number(2) as u16),
        other => panic!("{other}"),
    }
}

fn serve(port: u16, count: usize) {
    let listener = TcpListener::bind(("0.0.0.0", port)).unwrap();
    println!("ready");
    let threads: Vec<_> = (0..count)
        .map(|_| {
            let (mut stream, peer) = listener.accept().unwrap();
            std::thread::spawn(move || {
                let mut writer = stream.try_clone().unwrap();
                let len = std::io::copy(&mut stream, &mut writer).unwrap();
                writer.shutdown(Shutdown::Write).unwrap();
                println!("{len} for {}", peer.ip());
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

fn fetch(name: &str, port: u16, bytes: usize) {
    let address = (name, port).to_socket_addrs().unwrap().next().unwrap();
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(30)).unwrap();
    let sent: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8).collect();
    let mut writer = stream.try_clone().unwrap();
    let to_send = sent.clone();
    let thread = std::thread::spawn(move || {
        writer.write_all(&to_send).unwrap();
        writer.shutdown(Shutdown::Write).unwrap();
    });
    let mut came = Vec::new();
    stream.read_to_end(&mut came).unwrap();
    thread.join().unwrap();
    assert!(came == sent, "other bytes came back");
    println!("came {} from {}", came.len(), stream.local_addr().unwrap().ip());
}

fn names(names: &[String]) {
    for name in names {
        let found = (&**name, 80).to_socket_addrs().unwrap();
        let mut found: Vec<String> = found.map(|one| one.ip().to_string()).collect();
        found.sort();
        println!("{name} {}", found.join(" "));
    }
}

fn datagram(address: &str, port: u16) {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.connect((address, port)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    socket.send(b"a datagram").unwrap();
    let mut answer = [0; 100];
    let len = socket.recv(&mut answer).unwrap();
    println!("answer {}", String::from_utf8_lossy(&answer[..len]));
}
