//! Translates offloads between the drivers' types and the core's.

use abi::offload::{self as abi_offload, Features};

/// The offloads that the core may use.
pub(crate) fn features(said: Features) -> inet::Features {
    let driver = said.has(Features::GSO);
    let tx_checksum = driver || said.has(Features::TX_CHECKSUM);
    // A device that cuts a super-segment has to compute the segments' checksums as well.
    let cuts = |feature| driver || tx_checksum && said.has(feature);
    inet::Features { tx_checksum, tso4: cuts(Features::TSO4), tso6: cuts(Features::TSO6) }
}

/// The work that a frame to send leaves to its device.
pub(crate) fn to_device(offload: inet::TxOffload) -> abi_offload::TxOffload {
    let checksum = offload.checksum.map(|sum| {
        let inet::Checksum { start, offset } = sum;
        abi_offload::Checksum { start, offset }
    });
    let segments = offload.segments.map(|segments| {
        let kind = match segments.kind {
            inet::SegmentKind::Tcp4 => abi_offload::SegmentKind::Tcp4,
            inet::SegmentKind::Tcp6 => abi_offload::SegmentKind::Tcp6,
        };
        abi_offload::Segments { kind, size: segments.size }
    });
    abi_offload::TxOffload { checksum, segments }
}

/// A device's knowledge of a received frame; `None` if it uses an offload that its `features` do
/// not have.
pub(crate) fn from_device(
    features: Features,
    said: abi_offload::RxOffload,
) -> Option<inet::RxOffload> {
    let abi_offload::RxOffload { verified, segments } = said;
    let honest = (!verified || features.has(Features::RX_CHECKSUM))
        && (segments.is_none() || features.has(Features::GRO));
    let segment = segments.map_or(0, |segments| segments.size);
    honest.then_some(inet::RxOffload { verified, segment, behind: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_may_say_only_what_it_registered_for() {
        let verified = abi_offload::RxOffload { verified: true, segments: None };
        let kind = abi_offload::SegmentKind::Tcp4;
        let segments = Some(abi_offload::Segments { kind, size: 1448 });
        let joined = abi_offload::RxOffload { verified: false, segments };
        let plain = abi_offload::RxOffload::NONE;
        let table = [
            (Features::NONE, plain, Some((false, 0))),
            (Features::NONE, verified, None),
            (Features::GRO, verified, None),
            (Features::RX_CHECKSUM, verified, Some((true, 0))),
            (Features::RX_CHECKSUM, joined, None),
            (Features::GRO, joined, Some((false, 1448))),
        ];
        for (features, said, expected) in table {
            let known = from_device(features, said);
            assert_eq!(known.map(|known| (known.verified, known.segment)), expected, "{said:?}");
        }
    }

    #[test]
    fn cutting_needs_summing() {
        let cuts = Features::TSO4.with(Features::TSO6);
        assert_eq!(features(cuts), inet::Features::default());
        assert_eq!(features(Features::GSO), features(Features::GSO.with(cuts)));
        let all = features(cuts.with(Features::TX_CHECKSUM));
        assert_eq!(features(Features::GSO), all, "the driver does what the device does not");
        assert_eq!(all, inet::Features { tx_checksum: true, tso4: true, tso6: true });
    }
}
