//! A stream against its oracle: two byte sequences, cut up at random by program and server.

mod common;

use std::io::{IoSlice, IoSliceMut};

use common::{Fake, connected, pattern, small};
use proptest::prelude::*;
use tasuki_sockets::{Errno, RecvFlags, SendFlags, Wait, poll};

#[derive(Debug, Clone)]
enum Step {
    /// The program sends that many bytes, in pieces of at most the second number.
    Send(usize, usize),
    /// The server takes that many descriptors.
    Take(usize),
    /// The server releases that many bytes.
    Release(u64),
    /// The server delivers that many bytes.
    Deliver(usize),
    /// The program receives at most that many bytes, after peeking at them or not.
    Recv(usize, bool),
}

fn step() -> impl Strategy<Value = Step> {
    let size = prop_oneof![0_usize..20, 0_usize..3_000, 0_usize..70_000];
    prop_oneof![
        (size.clone(), 1_usize..30_000).prop_map(|(len, piece)| Step::Send(len, piece)),
        (0_usize..70).prop_map(Step::Take),
        (0_u64..80_000).prop_map(Step::Release),
        size.clone().prop_map(Step::Deliver),
        (size, any::<bool>()).prop_map(|(len, peek)| Step::Recv(len, peek)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn both_directions_carry_the_same_bytes_in_order(
        steps in proptest::collection::vec(step(), 1..80),
    ) {
        let (fake, client) = Fake::with_client(small());
        {
            let manner = &mut fake.core().manner;
            (manner.takes, manner.releases) = (false, false);
        }
        let (socket, index) = connected(&client);
        let (mut sent, mut delivered, mut received) = (0_u64, 0_u64, 0_u64);
        for step in steps {
            match step {
                Step::Send(len, piece) => {
                    let bytes = pattern(sent, len);
                    let bufs: Vec<_> = bytes.chunks(piece).map(IoSlice::new).collect();
                    match socket.send(&bufs, SendFlags::default(), None, Wait::No) {
                        Ok(n) => {
                            prop_assert!(n <= len && (n > 0 || len == 0));
                            sent += n as u64;
                        }
                        Err(errno) => {
                            prop_assert_eq!(errno, Errno::AGAIN);
                            prop_assert!(socket.readiness().events & poll::OUT == 0);
                        }
                    }
                    prop_assert!(socket.unsent_len() <= 64 * 1024);
                }
                Step::Take(most) => {
                    fake.core().take(index, most);
                }
                Step::Release(most) => {
                    fake.core().release(index, most);
                }
                Step::Deliver(len) => {
                    delivered += fake.core().deliver(index, &pattern(delivered, len)) as u64;
                }
                Step::Recv(len, peek) => {
                    let there = delivered - received;
                    prop_assert_eq!(socket.readable_len() as u64, there);
                    let mut buf = vec![0; len];
                    let (head, tail) = buf.split_at_mut(len / 3);
                    let bufs = &mut [IoSliceMut::new(head), IoSliceMut::new(tail)];
                    let got = socket.recv(bufs, RecvFlags { peek }, Wait::No);
                    let expected = match (len as u64).min(there) {
                        0 if len > 0 => Err(Errno::AGAIN),
                        n => Ok(n),
                    };
                    prop_assert_eq!(got.map(|got| got.len as u64), expected);
                    let n = expected.unwrap_or(0);
                    prop_assert!(buf[..n as usize] == pattern(received, n as usize));
                    received += if peek { 0 } else { n };
                }
            }
            let mut core = fake.core();
            let sock = core.sock(index);
            prop_assert!(sock.got == pattern(0, sock.got.len()));
            prop_assert!(sock.taken <= sent);
        }
        fake.core().take(index, usize::MAX);
        prop_assert_eq!(fake.core().sock(index).taken, sent);
        drop(socket);
        prop_assert_eq!(fake.core().pages_held(), 0);
    }
}
