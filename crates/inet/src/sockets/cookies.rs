//! SYN cookies (RFC 4987 3.6): a handshake of which only the peer has a record.
//!
//! The initial sequence number of the SYN-ACK is a keyed hash. Its inputs are the two ends, the
//! peer's initial sequence number, the minute, and the agreed options. Five of its bits encode the
//! minute and the segment size, so that the ACK that brings it back can be checked.
//!
//! A peer that uses timestamps echoes the low bits of the SYN-ACK's timestamp. These encode the
//! other options: window scale, SACK and ECN. Without timestamps, the connection has none of these
//! options. A cookie is valid for one to two minutes.

use core::time::Duration;

use crate::secret::Secret;
use crate::tcp::{Endpoints, SegmentRepr, Seq, Timestamps};
use crate::time::Instant;

/// Segment sizes that a cookie can encode, bytes. They are of a host that names none, of IPv6's
/// least MTU, of links with tunnels, of Ethernet, and of jumbo frames.
const SIZES: [u16; 8] = [536, 1220, 1300, 1360, 1400, 1440, 1460, 8960];

/// A cookie is valid in its period and in the next one.
const PERIOD: Duration = Duration::from_secs(60);

/// How long an ACK may bring a cookie after the last one was sent.
pub(super) const VALIDITY: Duration = Duration::from_secs(120);

/// Number of a timestamp's bits that carry options: four for the window scale, one for SACK, one
/// for ECN.
const OPTION_BITS: u32 = 6;
const NO_SCALE: u32 = 15;
const SACK: u32 = 1 << 4;
const ECN: u32 = 1 << 5;

/// Bits of the number that are hash; above them two for the period, then three for the size.
const HASH_BITS: u32 = 27;

fn period(now: Instant) -> u64 {
    now.as_nanos() / u64::try_from(PERIOD.as_nanos()).unwrap_or(u64::MAX)
}

fn hash(secret: &Secret, ends: &Endpoints, irs: Seq, period: u64, encoded: u32) -> u32 {
    let input = [u64::from(irs.get()), period, u64::from(encoded)];
    #[expect(clippy::cast_possible_truncation, reason = "the low bits are as good as any")]
    let low = secret.cookie(ends, input) as u32;
    low & ((1 << HASH_BITS) - 1)
}

/// The part of a SYN that a cookie can encode. A SYN answered with a cookie is treated as if it had
/// only this.
pub(super) fn reduced(syn: &SegmentRepr) -> SegmentRepr {
    let stamped = syn.timestamps.is_some();
    SegmentRepr {
        src_port: syn.src_port,
        dst_port: syn.dst_port,
        seq: syn.seq,
        syn: true,
        window: syn.window,
        mss: Some(SIZES[size_index(syn.mss.unwrap_or(SIZES[0])) as usize]),
        window_scale: syn.window_scale.filter(|_| stamped),
        sack_permitted: syn.sack_permitted && stamped,
        timestamps: syn.timestamps,
        ece: syn.ece && stamped,
        cwr: syn.cwr && stamped,
        ..SegmentRepr::default()
    }
}

/// The largest size that is not above `mss`; the least if none is.
fn size_index(mss: u16) -> u32 {
    let larger = SIZES.partition_point(|size| *size <= mss);
    u32::try_from(larger.saturating_sub(1)).unwrap_or_default()
}

/// The options of a [`reduced`] SYN, as the low bits of a timestamp.
fn option_bits(syn: &SegmentRepr) -> u32 {
    syn.window_scale.map_or(NO_SCALE, u32::from)
        | if syn.sack_permitted { SACK } else { 0 }
        | if syn.ece && syn.cwr { ECN } else { 0 }
}

/// The sequence number that answers a [`reduced`] SYN.
pub(super) fn make(secret: &Secret, now: Instant, ends: &Endpoints, syn: &SegmentRepr) -> Seq {
    let period = period(now);
    let size = size_index(syn.mss.unwrap_or(SIZES[0]));
    let options = if syn.timestamps.is_some() { option_bits(syn) } else { 0 };
    let encoded = size << OPTION_BITS | options;
    let hash = hash(secret, ends, syn.seq, period, encoded);
    let two = u32::try_from(period % 4).unwrap_or_default();
    Seq::new(size << 29 | two << HASH_BITS | hash)
}

/// `value` with the options of a [`reduced`] SYN in its low bits. `value` is the timestamp of the
/// SYN-ACK. The result is at most 63 ms older and never younger.
pub(super) fn stamp(value: u32, syn: &SegmentRepr) -> u32 {
    let mask = (1 << OPTION_BITS) - 1;
    let marked = value & !mask | option_bits(syn);
    if marked & mask > value & mask { marked.wrapping_sub(mask + 1) } else { marked }
}

/// The reduced SYN whose handshake `ack` completes, if `ack` brings back a valid cookie.
pub(super) fn check(
    secret: &Secret,
    now: Instant,
    ends: &Endpoints,
    ack: &SegmentRepr,
) -> Option<SegmentRepr> {
    let cookie = (ack.ack? - 1).get();
    let irs = ack.seq - 1;
    let size = cookie >> 29;
    let age = (period(now) as u32).wrapping_sub(cookie >> HASH_BITS) % 4;
    let period = period(now).checked_sub(u64::from(age)).filter(|_| age <= 1)?;
    let options = ack.timestamps.map(|timestamps| timestamps.echo & ((1 << OPTION_BITS) - 1));
    let encoded = size << OPTION_BITS | options.unwrap_or(0);
    if hash(secret, ends, irs, period, encoded) != cookie & ((1 << HASH_BITS) - 1) {
        return None;
    }
    let scale = options.map(|bits| bits & 15).filter(|scale| *scale < NO_SCALE);
    let has = |bit| options.is_some_and(|bits| bits & bit != 0);
    Some(SegmentRepr {
        src_port: ack.src_port,
        dst_port: ack.dst_port,
        seq: irs,
        syn: true,
        window: ack.window,
        mss: SIZES.get(size as usize).copied(),
        window_scale: scale.and_then(|scale| u8::try_from(scale).ok()),
        sack_permitted: has(SACK),
        timestamps: ack.timestamps.map(|t| Timestamps { value: t.value, echo: 0 }),
        ece: has(ECN),
        cwr: has(ECN),
        ..SegmentRepr::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ends(port: u16) -> Endpoints {
        let at = |last, port| core::net::SocketAddrV4::new([10, 0, 0, last].into(), port);
        Endpoints { local: at(1, 80).into(), remote: at(2, port).into() }
    }

    fn answer(syn: &SegmentRepr, cookie: Seq, stamp: u32) -> SegmentRepr {
        SegmentRepr {
            seq: syn.seq + 1,
            ack: Some(cookie + 1),
            timestamps: syn.timestamps.map(|t| Timestamps { value: t.value + 5, echo: stamp }),
            ..SegmentRepr::default()
        }
    }

    proptest! {
        #[test]
        fn what_was_agreed_comes_back(
            seq: u32, mss in 1_u16.., scale in proptest::option::of(0_u8..=14), sack: bool,
            ecn: bool, stamped: bool, clock: u32, start in 0_u64..1 << 50, wait in 0_u64..60,
        ) {
            let syn = reduced(&SegmentRepr {
                seq: Seq::new(seq),
                syn: true,
                mss: Some(mss),
                window_scale: scale,
                sack_permitted: sack,
                ece: ecn,
                cwr: ecn,
                timestamps: stamped.then_some(Timestamps { value: 7, echo: 0 }),
                ..SegmentRepr::default()
            });
            prop_assert!(syn.mss <= Some(mss.max(536)));
            let secret = Secret::new(&[9; 16]);
            let now = Instant::from_nanos(start);
            let cookie = make(&secret, now, &ends(1), &syn);
            let echo = stamp(clock, &syn);
            prop_assert!(clock.wrapping_sub(echo) < 64);
            let ack = answer(&syn, cookie, echo);
            let later = now + Duration::from_secs(wait);
            let back = check(&secret, later, &ends(1), &ack).expect("a good cookie");
            prop_assert_eq!(
                (back.seq, back.mss, back.window_scale, back.sack_permitted, back.ece),
                (syn.seq, syn.mss, syn.window_scale, syn.sack_permitted, syn.ece)
            );
            prop_assert_eq!(check(&secret, now + VALIDITY, &ends(1), &ack), None, "too old");
            prop_assert_eq!(check(&secret, now, &ends(2), &ack), None, "somebody else's");
            let forged = SegmentRepr { ack: ack.ack.map(|ack| ack + 1), ..ack };
            prop_assert_eq!(check(&secret, now, &ends(1), &forged), None, "a guess");
        }
    }
}
