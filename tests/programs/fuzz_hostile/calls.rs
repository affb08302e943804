//! Random and half-valid calls and data descriptors.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::Ordering::SeqCst;

use abi::call::{CallFlags, Op, PackagedCall, PackagedResult, Reply, Request, ReturnPath};
use abi::client::{CLIENT, QUEUE, REQUESTS, RESULTS};
use abi::data::{DataDescriptor, DataFlags};
use abi::option::{OptionKey, OptionValue};
use abi::{Family, ShutdownHow, SocketId, SocketKind};
use shm::{AreaName, Consumer, Producer, Slot};

use crate::member::Member;
use crate::random::Random;

/// Where things listen: the peer's echo, silent and pouring servers, the honest client, nobody.
const PORTS: [u16; 8] = [7000, 7001, 7002, 7003, 7100, 7999, 1, 53];

fn address(random: &mut Random) -> SocketAddr {
    let port = if random.one_in(4) { random.below16(u16::MAX) } else { random.pick(&PORTS) };
    let ip: std::net::IpAddr = match random.below(12) {
        0 => Ipv4Addr::LOCALHOST.into(),
        1 => Ipv4Addr::UNSPECIFIED.into(),
        2 => Ipv4Addr::BROADCAST.into(),
        3 => Ipv4Addr::new(224, 0, 0, 251).into(),
        4 => Ipv4Addr::from_bits(random.next() as u32).into(),
        5 => Ipv6Addr::LOCALHOST.into(),
        6 => Ipv6Addr::from_bits(u128::from(random.next()) << 64 | 1).into(),
        7 => Ipv4Addr::new(10, 219, 7, random.below16(256) as u8).into(),
        8 => Ipv4Addr::new(10, 219, 7, 2).into(),
        _ => Ipv4Addr::new(10, 219, 7, 1).into(),
    };
    (ip, port).into()
}

fn socket(member: &Member, random: &mut Random) -> SocketId {
    if member.sockets.is_empty() || random.one_in(30) {
        return SocketId::from_word(random.next() & 0x3_03ff);
    }
    random.pick(&member.sockets)
}

/// An area of the sending pool that the owner table calls the client's: as a correct client has it.
fn area(member: &Member, random: &mut Random) -> AreaName {
    let pool = member.layout.tx_pool;
    let pages = [1, 4, 16][random.below(3)];
    let page = u32::try_from(random.below(4096)).unwrap_or_default() * 16;
    let at = pool.table + page as usize * 8;
    let generation = (member.word(at) >> 32) as u32;
    let entry = u64::from(CLIENT.0) | u64::from(pages) << 16 | u64::from(generation) << 32;
    member.set_word(at, entry);
    AreaName { page: page.min(pool.pages - 16), pages, generation }
}

fn data(member: &Member, random: &mut Random, sound: bool) -> DataDescriptor {
    let mut area = area(member, random);
    let room = u32::from(area.pages) * 4096;
    let mut len = 1 + random.next() as u32 % room.min(32_768);
    let mut offset = random.next() as u32 % (room - len + 1);
    let mut flags = DataFlags::NONE;
    if random.one_in(8) {
        flags = random.pick(&[DataFlags::MORE, DataFlags::RECORD, DataFlags::URGENT]);
    }
    if !sound {
        match random.below(6) {
            0 => area.page = random.next() as u32,
            1 => area.generation = random.next() as u32,
            2 => area.pages = random.next() as u16,
            3 => len = random.word(len.into()) as u32,
            4 => offset = random.word(offset.into()) as u32,
            _ => flags = DataFlags::of_frame(random.below16(256)).unwrap_or(flags),
        }
    }
    let peer = random.one_in(2).then(|| address(random));
    DataDescriptor { area, offset, len, flags, peer }
}

fn option(random: &mut Random) -> (OptionKey, OptionValue) {
    let level = random.pick(&[0, 1, 6, 17, 41, 58, -1, 255]);
    let name = i32::from(random.below16(80));
    let len = random.pick(&[0, 1, 4, 8, 16, 24, 25, 280]);
    let value = if random.one_in(2) {
        OptionValue::new(&(random.below(70_000) as u32).to_ne_bytes())
    } else {
        OptionValue::new(&random.bytes(len))
    };
    (OptionKey { level, name }, value)
}

fn request(member: &Member, random: &mut Random) -> Request {
    let socket = socket(member, random);
    match random.below(24) {
        0..=4 => Request::Socket {
            kind: random.pick(&[SocketKind::Stream, SocketKind::Datagram, SocketKind::UdpLite]),
            family: random.pick(&[Family::V4, Family::V4, Family::V6]),
        },
        5 | 6 => Request::Bind { socket, addr: address(random) },
        7 => Request::Listen { socket, backlog: random.word(16) as u32 },
        8..=11 => Request::Connect { socket, addr: address(random) },
        12 => Request::Accept { socket },
        13 | 14 => Request::Close { socket },
        15 => Request::Send { socket, data: data(member, random, true) },
        16 => Request::Recv { socket },
        17 => {
            let how = [ShutdownHow::Read, ShutdownHow::Write, ShutdownHow::Both];
            Request::Shutdown { socket, how: random.pick(&how) }
        }
        18 => {
            let from = random.word(40) as u32;
            Request::GetSockOpt { socket, key: option(random).0, from }
        }
        19 | 20 => {
            let (key, value) = option(random);
            Request::SetSockOpt { socket, key, value }
        }
        21 => random.pick(&[Request::GetSockName { socket }, Request::GetPeerName { socket }]),
        22 => Request::Flush { socket },
        _ => {
            let ring = member.threads.first().map_or(0, |thread| thread.number);
            Request::Cancel { socket, ring, tag: random.word(member.tag.into()) as u32 }
        }
    }
}

fn slot(member: &mut Member, random: &mut Random) -> Slot {
    let request = request(member, random).encode();
    member.tag = member.tag.wrapping_add(1);
    let threads: Vec<u16> = member.threads.iter().map(|thread| thread.number).collect();
    let ring = random.pick(&threads);
    let path = ReturnPath { client: member.client, ring, tag: member.tag };
    // Nobody here waits for a result, so calls that would wait do so for ever.
    let flags = random.pick(&[CallFlags::NONE, CallFlags::NONBLOCK, CallFlags::QUIET]);
    PackagedCall::new(path, random.pick(&[0, 0, 0, 1, 255]), flags, request).encode()
}

/// Pushes calls that a correct client could make, and takes results.
pub(crate) fn sound(member: &mut Member, random: &mut Random, count: usize) {
    for _ in 0..count {
        let slot = slot(member, random);
        push(member, random, &slot);
    }
    member.ring();
    take_results(member);
}

/// Pushes one call that no correct client makes.
pub(crate) fn unsound(member: &mut Member, random: &mut Random) {
    let mut slot = slot(member, random);
    for _ in 0..=random.below(3) {
        let word = random.below(8);
        slot[word] = random.word(slot[word]);
    }
    push(member, random, &slot);
    member.ring();
}

fn push(member: &Member, random: &mut Random, slot: &Slot) {
    let thread = &member.threads[random.below(member.threads.len())];
    let at = member.layout.request_ring(thread.number);
    let Ok(mut ring) = Producer::attach(&member.region, at, REQUESTS) else { return };
    // A full ring, or one that was scribbled over, takes nothing.
    let _ = ring.push(slot);
}

/// Takes the results that are there, and learns the names of sockets.
fn take_results(member: &mut Member) {
    for thread in &member.threads {
        let at = member.layout.result_ring(thread.number);
        let Ok(mut ring) = Consumer::attach(&member.region, at, RESULTS) else { continue };
        while let Ok(Some(slot)) = ring.pop() {
            let Ok(result) = PackagedResult::decode(&slot) else { continue };
            let Ok(words) = result.outcome else { continue };
            for op in [Op::Socket, Op::Accept] {
                match Reply::decode(op, &words) {
                    Ok(Reply::Socket(id)) => member.sockets.push(id),
                    Ok(Reply::Accepted { socket, .. }) => member.sockets.push(socket),
                    _ => {}
                }
            }
        }
    }
    if member.sockets.len() > 2000 {
        member.sockets.drain(..1000);
    }
}

/// Queues data on sockets: as a correct client does, or with one wrong field.
pub(crate) fn send(member: &mut Member, random: &mut Random, sound: bool) {
    let socket = socket(member, random).index % member.layout.params.sockets;
    let at = member.layout.tx_queue(socket);
    let Ok(mut queue) = Producer::attach(&member.region, at, QUEUE) else { return };
    let count = if sound { 1 + random.below(16) } else { 1 };
    let mut bytes = 0;
    for _ in 0..count {
        let data = data(member, random, sound);
        if queue.push(&data.encode()).is_ok() {
            bytes += u64::from(data.len);
        }
    }
    if let Ok(words) = member.layout.socket_words(&member.region, socket) {
        words.tx_bytes.store(words.tx_bytes.load(SeqCst).wrapping_add(bytes), SeqCst);
        let all = words.rx_bytes.load(SeqCst);
        if random.one_in(2) {
            words.rx_consumed.store(all, SeqCst);
        }
    }
    member.mark_dirty(socket);
    member.ring();
}
