use super::*;
use crate::Error;

fn window(rig: &Rig, ack: u32, window: u16) -> SegmentRepr {
    SegmentRepr { window, ..rig.seg(1, ack) }
}

/// A connection with 10 bytes to send, whose peer has acknowledged as many and closed its window.
fn behind_closed_window() -> Rig {
    let mut rig = Rig::established(&plain());
    rig.write(10);
    rig.burst();
    rig.take(&window(&rig, 11, 0), b"");
    rig.write(10);
    rig
}

#[test]
fn a_closed_window_is_probed_for_ever() {
    let mut rig = behind_closed_window();
    rig.silent();
    let mut wait = millis(209);
    for i in 0..100 {
        rig.silent();
        let next = rig.c.poll_at(rig.now).unwrap();
        if i > 0 {
            assert!(next - rig.now >= wait.min(secs(120)), "{i}");
        }
        wait = (next - rig.now) * 2;
        rig.now = next;
        let probe = rig.sent();
        assert_eq!(rig.rel(&probe), 10);
        rig.take(&window(&rig, 11, 0), b"");
    }
    assert_eq!(rig.c.error(), None);
    rig.take(&window(&rig, 11, 500), b"");
    assert_eq!(rig.burst(), [(11, 10)]);
}

/// As Linux: nobody waits for the data of an orphan, so the answers of a peer that never reads do
/// not keep it for ever.
#[test]
fn an_orphan_whose_peer_never_reads_is_given_up() {
    let mut rig = behind_closed_window();
    rig.c.close(rig.now);
    let begun = rig.now;
    while !rig.c.is_done() {
        assert!(rig.now - begun < secs(86_400), "it stays for ever");
        if !rig.burst().is_empty() {
            rig.take(&window(&rig, 11, 0), b"");
        }
        rig.now = rig.c.poll_at(rig.now).unwrap_or(rig.now);
    }
    let lived = rig.now - begun;
    assert!(lived > secs(60) && lived < secs(600), "{lived:?}");
    assert_eq!(rig.c.error(), Some(Error::TimedOut));
}

#[test]
fn probes_without_answer_end_the_connection() {
    let mut rig = behind_closed_window();
    let mut probes = 0;
    while !rig.c.is_done() {
        probes += rig.burst().len();
        rig.now = rig.c.poll_at(rig.now).unwrap_or(rig.now);
    }
    assert_eq!((probes, rig.c.error()), (15, Some(Error::TimedOut)));
}

#[test]
fn a_window_update_starts_sending_at_once() {
    let mut rig = Rig::established(&plain());
    rig.write(MSS);
    rig.burst();
    rig.take(&window(&rig, 1 + MSS as u32, 0), b"");
    rig.write(3 * MSS);
    rig.silent();
    rig.take(&window(&rig, 1 + MSS as u32, 2 * MSS as u16), b"");
    assert_eq!(rig.burst().len(), 2);
}

#[test]
fn the_window_bounds_what_is_sent() {
    let mut rig = Rig::established(&plain());
    rig.write(MSS);
    rig.burst();
    rig.take(&window(&rig, 1 + MSS as u32, 2500), b"");
    rig.write(5 * MSS);
    // Two full ones; the 500 that are left are a silly segment.
    assert_eq!(rig.burst().len(), 2);
}

/// RFC 9293 3.8.6.2.1.
#[test]
fn a_small_window_is_used_from_half_its_largest_on() {
    let mut rig = Rig::connect(&plain());
    rig.sent();
    let syn_ack = SegmentRepr { syn: true, mss: Some(MSS as u16), window: 300, ..rig.seg(0, 1) };
    rig.take(&syn_ack, b"");
    rig.write(1000);
    assert_eq!(rig.burst(), [(1, 300)]);
    rig.take(&window(&rig, 301, 149), b"");
    rig.silent();
    rig.take(&window(&rig, 301, 150), b"");
    assert_eq!(rig.burst(), [(301, 150)]);
}

#[test]
fn a_tiny_window_is_used_when_the_override_timer_expires() {
    let mut rig = Rig::established(&plain());
    rig.write(10);
    rig.burst();
    rig.take(&window(&rig, 11, 7), b"");
    rig.write(100);
    rig.silent();
    rig.now = rig.c.poll_at(rig.now).unwrap();
    assert_eq!(rig.burst(), [(11, 7)]);
}

#[test]
fn a_window_taken_back_is_survived() {
    let mut rig = Rig::established(&plain());
    rig.write(4 * MSS);
    assert_eq!(rig.burst().len(), 4);
    // RFC 9293 3.8.6: bytes in flight are beyond the edge now.
    rig.take(&window(&rig, 1 + MSS as u32, 0), b"");
    rig.now = rig.c.poll_at(rig.now).unwrap();
    rig.burst();
    for _ in 0..20 {
        rig.now = rig.c.poll_at(rig.now).unwrap();
        for (seq, len) in rig.burst() {
            // Not yet acknowledged, it is the probe itself.
            assert_eq!((seq, len), (1 + MSS as u32, MSS));
            rig.take(&window(&rig, 1 + MSS as u32, 0), b"");
        }
    }
    rig.take(&window(&rig, 1 + MSS as u32, 60_000), b"");
    assert_eq!(rig.burst()[0], (1 + MSS as u32, MSS));
}

#[test]
fn older_acks_do_not_close_the_window() {
    let mut rig = Rig::established(&plain());
    rig.data(1, b"abc");
    rig.write(2 * MSS);
    assert_eq!(rig.burst().len(), 2);
    rig.take(&SegmentRepr { window: 40_000, ..rig.seg(4, 1 + MSS as u32) }, b"");
    assert_eq!(rig.c.durable().snd_wnd, 40_000);
    for (seq, ack) in [(1, 1 + MSS as u32), (4, 1 + MSS as u32), (4, 1)] {
        rig.take(&SegmentRepr { window: 10, ..rig.seg(seq, ack) }, b"");
        assert_eq!(rig.c.durable().snd_wnd, 40_000);
    }
}

#[test]
fn received_bytes_close_the_window_until_they_are_consumed() {
    let mut rig = Rig::established(&plain());
    let start = rig.c.durable().rcv_adv;
    for i in 0..16 {
        rig.data(1 + i * MSS as u32, &[1; MSS]);
    }
    let ack = rig.sent();
    assert_eq!(ack.window, 0);
    assert_eq!(rig.c.durable().rcv_adv, start);
    // Beyond the window nothing is taken.
    rig.data(1 + 16 * MSS as u32, &[1; MSS]);
    assert_eq!(rig.read().len(), 16 * MSS);
    let ack = rig.sent();
    assert_eq!((rig.acked(&ack), ack.window), (1 + 16 * MSS as u32, 0));
    // Small steps are not told.
    rig.c.consumed(rig.now, MSS);
    rig.silent();
    rig.c.consumed(rig.now, MSS);
    let update = rig.sent();
    assert_eq!(usize::from(update.window), 2 * MSS);
    rig.c.consumed(rig.now, MSS);
    rig.silent();
    rig.c.consumed(rig.now, MSS);
    let update = rig.sent();
    assert_eq!(usize::from(update.window), 4 * MSS);
}

#[test]
fn a_quick_reader_causes_no_second_ack() {
    let mut rig = Rig::established(&plain());
    for i in 0..40_u32 {
        rig.data(1 + 2 * i * MSS as u32, &[1; MSS]);
        rig.silent();
        rig.data(1 + (2 * i + 1) * MSS as u32, &[1; MSS]);
        let ack = rig.sent();
        assert!(usize::from(ack.window) >= 13 * MSS);
        rig.read();
        rig.c.consumed(rig.now, 2 * MSS);
        rig.silent();
    }
}

#[test]
fn a_smaller_buffer_takes_nothing_back() {
    let mut rig = Rig::established(&plain());
    let edge = rig.c.durable().rcv_adv;
    rig.c.set_recv_buffer(rig.now, 2 * MSS + 100);
    for i in 0..16 {
        rig.data(1 + i * MSS as u32, &[1; MSS]);
        while let Some(out) = rig.c.poll_segment(rig.now) {
            let told = out.repr.ack.unwrap() + u32::from(out.repr.window);
            assert_eq!(told, edge);
        }
    }
    assert_eq!(rig.read().len(), 16 * MSS);
    rig.c.consumed(rig.now, 16 * MSS);
    let update = rig.sent();
    assert_eq!(usize::from(update.window), 2 * MSS + 100);
}

#[test]
fn a_larger_buffer_is_offered() {
    let buffers = TcpConfig { recv_buffer_max: 96 * MSS, ..plain() };
    let mut rig = Rig::established(&TcpConfig { window_scaling: true, ..buffers });
    rig.c.set_recv_buffer(rig.now, 48 * MSS);
    let update = rig.sent();
    let scale = rig.c.durable().rcv_scale;
    assert!(usize::from(update.window) << scale > 47 * MSS);
}

/// The unit of a scaled window is lost by rounding, and must not come off the edge.
#[test]
fn scaled_windows_never_shrink_for_full_segments() {
    let config = TcpConfig { window_scaling: true, recv_buffer: 200_000, ..plain() };
    let mut rig = Rig::established(&config);
    let scale = rig.c.durable().rcv_scale;
    assert!(scale > 0);
    let mut seq = 1;
    let mut edge = rig.c.durable().rcv_adv;
    for len in (1..MSS).step_by(7) {
        rig.data(seq, &alloc::vec![1; len]);
        seq += len as u32;
        rig.c.consumed(rig.now, len);
        rig.now += millis(40);
        let ack = rig.sent();
        let told = ack.ack.unwrap() + (u32::from(ack.window) << scale);
        assert!(told.at_or_after(edge) && told.at_or_before(rig.c.durable().rcv_adv));
        edge = told;
    }
}

/// A reader that does not read and bytes that come one by one: the buffer's bound holds.
#[test]
fn rounding_does_not_open_the_window_for_ever() {
    let config = TcpConfig { window_scaling: true, recv_buffer: 20_000, ..plain() };
    let mut rig = Rig::established(&config);
    let mut seq = 1;
    for _ in 0..2000 {
        let left = rig.c.durable().window_left();
        let len = if left > 2000 { MSS } else { 1 };
        rig.data(seq, &alloc::vec![1; len]);
        seq = rig.c.durable().rcv_nxt.get() - IRS;
        rig.now += millis(40);
        rig.burst();
    }
    assert!(rig.c.durable().rcv_scale > 0);
    assert!(rig.c.unconsumed_len() <= 20_000);
}

#[test]
fn an_ack_from_the_very_edge_counts() {
    let mut rig = Rig::established(&plain());
    rig.write(10);
    rig.burst();
    // The peer has sent a whole window, all of it is lost, and then it acknowledges.
    rig.ack(1 + 16 * MSS as u32, 11);
    assert_eq!(rig.c.acked(), 10);
}

#[test]
fn an_ack_with_data_that_finds_the_window_closed_counts() {
    let mut rig = Rig::established(&plain());
    rig.write(10);
    for i in 0..16 {
        rig.data(1 + i * MSS as u32, &[1; MSS]);
    }
    rig.burst();
    rig.take(&rig.seg(1 + 16 * MSS as u32, 11), &[1; MSS]);
    assert_eq!(rig.c.acked(), 10);
    assert_eq!(rig.c.readable_len(), 16 * MSS);
}

#[test]
fn a_bare_fin_finds_a_closed_window_open() {
    let mut rig = Rig::established(&plain());
    for i in 0..16 {
        rig.data(1 + i * MSS as u32, &[1; MSS]);
    }
    rig.burst();
    rig.take(&SegmentRepr { fin: true, ..rig.seg(1 + 16 * MSS as u32, 1) }, b"");
    assert_eq!(rig.c.state(), State::CloseWait);
}
