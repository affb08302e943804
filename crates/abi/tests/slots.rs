//! Every slot type: what is encoded comes back, and no 64 bytes a peer may write make a decoder
//! panic.

use std::net::{IpAddr, SocketAddr};

use tasuki_abi as abi;

use abi::ancillary::{RecvAncillary, SendAncillary};
use abi::call::{Call, CallResult, Op, ReturnPath, addr_from_words, addr_to_words};
use abi::client::ClientParams;
use abi::control::CaptureHeader;
use abi::data::DataDescriptor;
use abi::frame::{Chain, FillSlot, MAX_MORE, MAX_PIECES, Piece, RxFrame, TxFrame};
use abi::offload::{Checksum, Features, RxOffload, SegmentKind, Segments, TxOffload};
use abi::{Errno, SocketId};
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

proptest! {
    #[test]
    fn call_survives_the_ring(
        number in 1u16..=17, priority: u8, nonblock: bool, path in path(), args: [u64; 6],
    ) {
        let mut slot = [0; 8];
        slot[0] = u64::from(number);
        let op = Call::decode(&slot).expect("a known operation").op;
        let call = Call { op, priority, flags: u8::from(nonblock), path, args };
        prop_assert_eq!(Call::decode(&call.encode()), Ok(call));
    }

    #[test]
    fn result_survives_the_ring(path in path(), values: [u64; 6], errno in 0i32..4096) {
        let outcome = if errno == 0 { Ok(values) } else { Err(Errno::from_raw_os_error(errno)) };
        let result = CallResult { path, outcome };
        prop_assert_eq!(CallResult::decode(&result.encode()), Ok(result));
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
        let bit = |on: bool, bit| if on { bit } else { 0 };
        let flags = bit(more, DataDescriptor::MORE) | bit(ancillary, DataDescriptor::ANCILLARY);
        let descriptor = DataDescriptor { area, offset, len, flags, peer };
        prop_assert_eq!(DataDescriptor::decode(&descriptor.encode()), Ok(descriptor));
    }

    #[test]
    fn ancillary_data_survives_the_ring(
        source in proptest::option::of(any::<IpAddr>()), interface: u32, segment: u16,
        ttl in proptest::option::of(any::<u8>()), tos in proptest::option::of(any::<u8>()),
        asked: u16, to: IpAddr, port: u16, ours: std::net::Ipv4Addr, at: u64,
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
        let call = Call::decode(&rx.encode()).expect("an ethinput call");
        prop_assert_eq!(call.op, Op::EthInput);
        prop_assert_eq!(RxFrame::from_call(&call), Ok(rx));
        let none = [Piece::default(); MAX_PIECES];
        let mut tx =
            TxFrame { area, offset: 2, len: 54, count: 0, pieces: none, offload: sent };
        for (client, len, offset) in pieces {
            tx.pieces[usize::from(tx.count)] = Piece { client, len, offset };
            tx.count += 1;
        }
        prop_assert_eq!(TxFrame::decode(&tx.encode()), Ok(tx));
    }

    #[test]
    fn garbage_is_refused_or_read_but_never_panics(slot: [u64; 8]) {
        let _ = Call::decode(&slot);
        let _ = CallResult::decode(&slot);
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
    let unknown = Call::decode(&[99, 0, 0, 0, 0, 0, 0, 0]).expect_err("99 is no operation");
    assert_eq!((unknown.what, unknown.value), ("operation", 99));
    let flags = Call::decode(&[1 | 0x80 << 24, 0, 0, 0, 0, 0, 0, 0]).expect_err("flag 0x80");
    assert_eq!((flags.what, flags.value), ("call flags", 0x80));
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
    let own = DataDescriptor { area, offset: 3, len: 4, flags: 0, peer: None };
    assert_eq!(DataDescriptor::decode(&own.encode()).unwrap().frame_region(), None);
    for nic in [0, 1, 255] {
        let flags = DataDescriptor::of_frame(nic).unwrap() | DataDescriptor::RECORD;
        let lent = DataDescriptor { flags, ..own };
        let again = DataDescriptor::decode(&lent.encode()).unwrap();
        assert_eq!((again, again.frame_region()), (lent, Some(nic)));
    }
    assert_eq!(DataDescriptor::of_frame(256), None);
    let number_alone = DataDescriptor { flags: 1 << 8, ..own };
    assert!(DataDescriptor::decode(&number_alone.encode()).is_err());
}
