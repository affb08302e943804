//! Every slot type: what is encoded comes back, and no 64 bytes a peer may write make a decoder
//! panic.

use std::net::{IpAddr, SocketAddr};

use tasuki_abi as abi;

use abi::address::{addr_from_words, addr_to_words};
use abi::ancillary::{AncillarySet, RecvAncillary, SendAncillary};
use abi::call::{
    CallFlags, Op, PackagedCall, PackagedResult, Reply, Request, RequestError, ReturnPath,
};
use abi::client::ClientParams;
use abi::control::CaptureHeader;
use abi::data::{DataDescriptor, DataFlags};
use abi::frame::{
    Chain, DriverCall, FillSlot, IfAttach, MAX_MORE, MAX_MTU, MAX_PIECES, MIN_MTU, Piece, RxFrame,
    TxFrame,
};
use abi::offload::{Checksum, Features, RxOffload, SegmentKind, Segments, TxOffload};
use abi::option::{OptionKey, OptionPart, OptionValue};
use abi::{Errno, Family, ShutdownHow, SocketId, SocketKind};
use proptest::prelude::*;
use shm::AreaName;

fn area() -> impl Strategy<Value = AreaName> {
    any::<(u32, u16, u32)>().prop_map(|(page, pages, generation)| AreaName {
        page,
        pages,
        generation,
    })
}

fn address() -> impl Strategy<Value = SocketAddr> {
    any::<(IpAddr, u16)>().prop_map(|(ip, port)| SocketAddr::new(ip, port))
}

fn path() -> impl Strategy<Value = ReturnPath> {
    any::<(u16, u16, u32)>().prop_map(|(client, ring, tag)| ReturnPath { client, ring, tag })
}

fn segments() -> impl Strategy<Value = Option<Segments>> {
    let kind = prop_oneof![Just(SegmentKind::Tcp4), Just(SegmentKind::Tcp6)];
    proptest::option::of((kind, 1u16..).prop_map(|(kind, size)| Segments { kind, size }))
}

fn tx_offload() -> impl Strategy<Value = TxOffload> {
    (segments(), any::<(u8, u8)>(), any::<bool>()).prop_map(|(segments, (start, offset), sum)| {
        let sum = sum || segments.is_some();
        TxOffload { checksum: sum.then_some(Checksum { start, offset }), segments }
    })
}

fn rx_offload() -> impl Strategy<Value = RxOffload> {
    (segments(), any::<bool>()).prop_map(|(segments, verified)| RxOffload { verified, segments })
}

fn socket_id() -> impl Strategy<Value = SocketId> {
    any::<(u16, u16)>().prop_map(|(index, generation)| SocketId { index, generation })
}

/// Any request.
fn request() -> impl Strategy<Value = Request> {
    let key = any::<(i32, i32)>().prop_map(|(level, name)| OptionKey { level, name });
    let value = proptest::collection::vec(any::<u8>(), 0..40).prop_map(|v| OptionValue::new(&v));
    let kinds = [SocketKind::Stream, SocketKind::Datagram, SocketKind::UdpLite];
    let kinds = proptest::sample::select(kinds.to_vec());
    let families = prop_oneof![Just(Family::V4), Just(Family::V6)];
    let data =
        (area(), any::<(u32, u32)>(), any::<bool>()).prop_map(|(area, (offset, len), on)| {
            DataDescriptor { area, offset, len, flags: DataFlags::URGENT.when(on), peer: None }
        });
    let hows =
        prop_oneof![Just(ShutdownHow::Read), Just(ShutdownHow::Write), Just(ShutdownHow::Both)];
    let with_socket = |to: fn(SocketId) -> Request| socket_id().prop_map(to);
    prop_oneof![
        Just(Request::Null),
        (kinds, families).prop_map(|(kind, family)| Request::Socket { kind, family }),
        (socket_id(), address()).prop_map(|(socket, addr)| Request::Bind { socket, addr }),
        (socket_id(), any::<u32>())
            .prop_map(|(socket, backlog)| Request::Listen { socket, backlog }),
        (socket_id(), address()).prop_map(|(socket, addr)| Request::Connect { socket, addr }),
        with_socket(|socket| Request::Accept { socket }),
        with_socket(|socket| Request::Close { socket }),
        (socket_id(), data).prop_map(|(socket, data)| Request::Send { socket, data }),
        with_socket(|socket| Request::Recv { socket }),
        (socket_id(), hows).prop_map(|(socket, how)| Request::Shutdown { socket, how }),
        (socket_id(), key.clone(), any::<u32>())
            .prop_map(|(socket, key, from)| Request::GetSockOpt { socket, key, from }),
        (socket_id(), key, value).prop_map(|(socket, key, value)| Request::SetSockOpt {
            socket,
            key,
            value
        }),
        with_socket(|socket| Request::GetSockName { socket }),
        with_socket(|socket| Request::GetPeerName { socket }),
        with_socket(|socket| Request::Flush { socket }),
        (socket_id(), any::<(u16, u32)>()).prop_map(|(socket, (ring, tag))| Request::Cancel {
            socket,
            ring,
            tag
        }),
    ]
}

/// Any reply, with an operation that it may answer.
fn reply() -> impl Strategy<Value = (Op, Reply)> {
    let part = proptest::collection::vec(any::<u8>(), 0..90).prop_map(|v| OptionPart::new(&v, 7));
    prop_oneof![
        Just((Op::Bind, Reply::Done)),
        socket_id().prop_map(|id| (Op::Socket, Reply::Socket(id))),
        any::<u64>().prop_map(|syn_room| (Op::Connect, Reply::Connecting { syn_room })),
        (socket_id(), address())
            .prop_map(|(socket, peer)| (Op::Accept, Reply::Accepted { socket, peer })),
        any::<u64>().prop_map(|number| (Op::Recv, Reply::Readable(number))),
        part.prop_map(|part| (Op::GetSockOpt, Reply::Option(part))),
        proptest::option::of(address())
            .prop_map(|address| (Op::GetSockName, Reply::Address(address))),
    ]
}

proptest! {
    #[test]
    fn request_survives_the_ring(
        request in request(), priority: u8, quiet: bool, path in path(),
    ) {
        let flags = CallFlags::QUIET.when(quiet);
        let call = PackagedCall::new(path, priority, flags, request.encode());
        let again = PackagedCall::decode(&call.encode());
        prop_assert_eq!(again, Ok(call));
        prop_assert_eq!(call.request(), Ok(request));
    }

    #[test]
    fn reply_survives_the_ring((op, reply) in reply(), path in path(), errno in 0i32..4096) {
        let outcome = match errno {
            0..2048 => Ok(reply.encode()),
            _ => Err(Errno::from_raw_os_error(errno)),
        };
        let result = PackagedResult { path, outcome };
        prop_assert_eq!(PackagedResult::decode(&result.encode()), Ok(result));
        prop_assert_eq!(Reply::decode(op, &reply.encode()), Ok(reply));
    }

    #[test]
    fn registration_survives_the_ring(mac: [u8; 6], mtu in MIN_MTU..=MAX_MTU) {
        let mac = [mac[0] & !1, mac[1], mac[2], mac[3], mac[4], mac[5]];
        let attach = IfAttach { mac, mtu, features: Features::GRO | Features::TSO4 };
        let call = DriverCall::decode(&attach.encode());
        prop_assert_eq!(call, Ok(DriverCall::IfAttach(attach)));
    }

    #[test]
    fn call_survives_the_ring(
        number in 1u64..=18, how in (any::<u8>(), 0u8..8), path: u64, args: [u64; 6],
    ) {
        let [a, b, c, d, e, f] = args;
        let how = u64::from(u16::from_le_bytes([how.0, how.1]));
        let slot = [number | how << 16, path, a, b, c, d, e, f];
        let call = PackagedCall::decode(&slot).expect("a known operation and flags");
        prop_assert_eq!(call.encode(), slot);
    }

    #[test]
    fn result_survives_the_ring(path: u64, values: [u64; 6], errno in 0u64..4096) {
        let [a, b, c, d, e, f] = if errno == 0 { values } else { [0; 6] };
        let slot = [errno, path, a, b, c, d, e, f];
        let result = PackagedResult::decode(&slot).expect("a possible error number");
        prop_assert_eq!(result.encode(), slot);
    }

    #[test]
    fn address_survives_three_words(address in address()) {
        prop_assert_eq!(addr_from_words(addr_to_words(address)), Ok(address));
    }

    #[test]
    fn data_descriptor_survives_the_ring(
        area in area(), offset: u32, len: u32, more: bool, ancillary: bool,
        peer in proptest::option::of(address()),
    ) {
        let flags = DataFlags::MORE.when(more) | DataFlags::ANCILLARY.when(ancillary);
        let descriptor = DataDescriptor { area, offset, len, flags, peer };
        prop_assert_eq!(DataDescriptor::decode(&descriptor.encode()), Ok(descriptor));
    }

    #[test]
    fn ancillary_data_survives_the_ring(
        source in proptest::option::of(any::<IpAddr>()), interface: u32, segment: u16,
        ttl in proptest::option::of(any::<u8>()), tos in proptest::option::of(any::<u8>()),
        asked in any::<u16>().prop_map(AncillarySet::from_bits_retain), to: IpAddr, port: u16,
        ours: std::net::Ipv4Addr, at: u64,
    ) {
        let send = SendAncillary { source, interface, ttl, tos, segment };
        prop_assert_eq!(SendAncillary::decode(&send.encode()), Ok(send));
        let (ttl, tos) = (ttl.unwrap_or(3), tos.unwrap_or(4));
        let recv = RecvAncillary { asked, to, port, ours, interface, ttl, tos, segment, at };
        prop_assert_eq!(RecvAncillary::decode(&recv.encode()), Ok(recv));
    }

    #[test]
    fn frames_survive_the_ring(
        area in area(), offset: u32, len: u32,
        (sent, got) in (tx_offload(), rx_offload()),
        chain in prop_oneof![(0..=MAX_MORE).prop_map(Chain::First), Just(Chain::Next)],
        pieces in proptest::collection::vec(any::<(u16, u16, u32)>(), 0..=MAX_PIECES),
    ) {
        prop_assert_eq!(FillSlot::decode(&FillSlot(area).encode()), FillSlot(area));
        let rx = RxFrame { area, offset, len, offload: got, chain };
        prop_assert_eq!(DriverCall::decode(&rx.encode()), Ok(DriverCall::EthInput(rx)));
        let none = [Piece::default(); MAX_PIECES];
        let (offload, shared) = (sent, true);
        let mut tx =
            TxFrame { area, offset: 2, len: 54, count: 0, pieces: none, offload, shared };
        for (client, len, offset) in pieces {
            tx.pieces[usize::from(tx.count)] = Piece { client, len, offset };
            tx.count += 1;
        }
        prop_assert_eq!(TxFrame::decode(&tx.encode()), Ok(tx));
    }

    #[test]
    fn garbage_is_refused_or_read_but_never_panics(slot: [u64; 8]) {
        if let Ok(call) = PackagedCall::decode(&slot) {
            let _ = call.request();
            if let Ok(PackagedResult { outcome: Ok(words), .. }) = PackagedResult::decode(&slot) {
                let _ = Reply::decode(call.op(), &words);
            }
        }
        let _ = DriverCall::decode(&slot);
        let _ = DataDescriptor::decode(&slot);
        let _ = (SendAncillary::decode(&slot), RecvAncillary::decode(&slot));
        let _ = FillSlot::decode(&slot);
        let _ = (Features::decode(slot[0]), RxOffload::decode(slot[0]));
        if let Ok(frame) = TxFrame::decode(&slot) {
            prop_assert!(frame.pieces().len() <= MAX_PIECES);
        }
        let _ = SocketId::from_word(slot[0]);
    }

    #[test]
    fn layout_is_refused_or_has_disjoint_parts(
        threads: u16, sockets: u16, area_pages: u16,
        tx_pages in 0u32..1 << 19, rx_pages in 0u32..1 << 19,
    ) {
        let params = ClientParams { threads, sockets, area_pages, tx_pages, rx_pages };
        if let Ok(layout) = params.layout() {
            let results = shm::ring_bytes(abi::client::RESULTS);
            let last_result = layout.result_ring(threads - 1) + results;
            prop_assert!(last_result <= layout.tx_queue(0));
            let last_queue = layout.rx_queue(sockets - 1) + shm::ring_bytes(abi::client::QUEUE);
            prop_assert!(last_queue <= layout.tx_pool.table);
            prop_assert!(layout.rx_pool.table + rx_pages as usize * 8 <= layout.tx_pool.pages_at);
            let tx_end = layout.tx_pool.pages_at + tx_pages as usize * shm::PAGE;
            prop_assert!(tx_end <= layout.rx_pool.pages_at);
            prop_assert_eq!(layout.rx_pool.pages_at + rx_pages as usize * shm::PAGE, layout.len);
        }
    }
}

#[test]
fn unknown_operations_and_flags_name_the_field() {
    let unknown = PackagedCall::decode(&[99, 0, 0, 0, 0, 0, 0, 0]).expect_err("99 is no operation");
    assert_eq!((unknown.what, unknown.value), ("operation", 99));
    let flags =
        PackagedCall::decode(&[1 | 0x80 << 24, 0, 0, 0, 0, 0, 0, 0]).expect_err("flag 0x80");
    assert_eq!((flags.what, flags.value), ("call flags", 0x80));
}

#[test]
fn values_that_a_newer_program_may_know_fail_the_call_alone() {
    let errors = [(1, 3, Errno::PROTONOSUPPORT), (11, 0, Errno::INVAL), (9, 1, Errno::PERM)];
    for (operation, argument, errno) in errors {
        let slot = [operation, 0, argument, 3, 0, 0, 0, 0];
        let call = PackagedCall::decode(&slot).expect("a call");
        assert_eq!(call.request(), Err(RequestError::Unsupported(errno)));
    }
}

#[test]
fn default_measures_are_possible() {
    assert!(ClientParams::default().layout().is_ok());
}

#[test]
fn capture_header_survives() {
    let header = CaptureHeader { at: 1 << 60, len: 1514, sent: true, missed: 7 };
    assert_eq!(CaptureHeader::decode(&header.encode()), Some(header));
    assert_eq!(CaptureHeader::decode(&[0; 23]), None);
}

#[test]
fn a_descriptor_says_whose_area_it_names() {
    let area = shm::AreaName { page: 1, pages: 1, generation: 2 };
    let own = DataDescriptor { area, offset: 3, len: 4, flags: DataFlags::NONE, peer: None };
    assert_eq!(DataDescriptor::decode(&own.encode()).unwrap().frame_region(), None);
    for nic in [0, 1, 255] {
        let flags = DataFlags::of_frame(nic).unwrap() | DataFlags::RECORD;
        let lent = DataDescriptor { flags, ..own };
        let again = DataDescriptor::decode(&lent.encode()).unwrap();
        assert_eq!((again, again.frame_region()), (lent, Some(nic)));
    }
    assert_eq!(DataFlags::of_frame(256), None);
    let number_alone = DataDescriptor { flags: DataFlags::from_bits_retain(1 << 8), ..own };
    assert!(DataDescriptor::decode(&number_alone.encode()).is_err());
}
