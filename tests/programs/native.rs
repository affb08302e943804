//! A program that uses the native API, which sends and receives areas. The first argument is its
//! task:
//!
//! * `send ADDRESS LENGTH FILE` sends the file over a stream in areas of LENGTH bytes. The kernel
//!   reads the file into these areas. The program uses each area again when it is back.
//! * `churn ADDRESS COUNT` sends COUNT slices of 64 bytes.
//! * `take ADDRESS FILE` writes the received bytes to the file, straight from the areas.
//!
//! All tasks end with the line "lost 0" if every page is back.

use std::collections::VecDeque;
use std::env::args;
use std::fs::File;
use std::net::Shutdown;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use sockets::{Client, SendFlags, Socket, TcpStream, TxArea, TxSlice, Wait};

/// Areas on their way at a time.
const FLIGHT: usize = 3;
/// Received areas that the program holds while it waits for another. All bytes behind the oldest
/// area count as unread. The smallest window is of four areas.
const IN_HAND: usize = 1;
/// Slices of one send.
const PACK: usize = 16;

fn argument(number: usize) -> String {
    args().nth(number).expect("an argument")
}

fn connect(client: &Arc<Client>) -> TcpStream {
    TcpStream::connect_via(client, argument(2)).expect("a connection")
}

fn send(socket: &Socket, slices: &[TxSlice]) -> u64 {
    let flags = SendFlags::default();
    socket.send_slices(slices, flags, None, Wait::Forever).expect("the slices are sent").end - 1
}

/// The areas in flight, oldest first, each with its number.
struct Flight(VecDeque<(u64, TxSlice)>);

impl Flight {
    /// The oldest area, when it is back.
    fn land(&mut self, socket: &Socket) -> Option<TxArea> {
        let (number, slice) = self.0.pop_front()?;
        socket.wait_slice(number, Wait::Forever).expect("the peer acknowledges the slice");
        Some(slice.reclaim().expect("no other owner has the area"))
    }
}

fn send_file(stream: &TcpStream, client: &Client) {
    let (socket, length) = (stream.as_socket(), argument(3).parse().expect("a number"));
    let file = File::open(argument(4)).expect("the file");
    let (mut flight, mut at) = (Flight(VecDeque::new()), 0);
    loop {
        let mut area = if flight.0.len() < FLIGHT {
            client.alloc(length).expect("an area")
        } else {
            flight.land(socket).expect("several are in flight")
        };
        let read = file.read_at(&mut area, at).expect("the file can be read");
        if read == 0 {
            break;
        }
        at += read as u64;
        let slice = area.freeze().slice(..read).expect("the slice is inside of the area");
        flight.0.push_back((send(socket, std::slice::from_ref(&slice)), slice));
    }
    while flight.land(socket).is_some() {}
}

fn churn(stream: &TcpStream, client: &Client) {
    // Else the last bytes in flight wait for the peer's delayed acknowledgement each time.
    stream.set_nodelay(true).expect("an option");
    let (socket, mut left) = (stream.as_socket(), argument(3).parse::<usize>().expect("a number"));
    let mut last = 0;
    while left > 0 {
        let pack = (0..left.min(PACK)).map(|_| client.alloc(64).expect("an area").freeze());
        let pack: Vec<TxSlice> = pack.collect();
        left -= pack.len();
        last = send(socket, &pack);
    }
    socket.wait_slice(last, Wait::Forever).expect("the peer acknowledges the slice");
}

fn take(stream: &TcpStream) {
    let file = File::create(argument(3)).expect("the file");
    let (mut held, mut at, mut turn) = (VecDeque::new(), 0, 0);
    loop {
        let area = stream.as_socket().recv_area(Wait::Forever).expect("an area comes");
        if area.is_empty() {
            break;
        }
        held.push_back((at, area));
        at += held.back().map_or(0, |(_, area)| area.len() as u64);
        // Not in the order in which they came.
        turn += 1;
        if held.len() > IN_HAND {
            let (at, area) =
                held.swap_remove_back(turn % held.len()).expect("the program holds an area");
            file.write_all_at(&area, at).expect("the file can be written");
        }
    }
    for (at, area) in held {
        file.write_all_at(&area, at).expect("the file can be written");
    }
}

fn main() {
    let client = sockets::instance().expect("an instance");
    let before = client.free_tx_pages();
    let stream = connect(&client);
    match argument(1).as_str() {
        "send" => send_file(&stream, &client),
        "churn" => churn(&stream, &client),
        "take" => take(&stream),
        other => panic!("{other}?"),
    }
    stream.shutdown(Shutdown::Write).expect("the end of the stream");
    drop(stream);
    println!("lost {}", before - client.free_tx_pages());
}
