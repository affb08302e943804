//! The greeting of two ends, and why they cannot have a link.

use abi::offload::Features;
use serde::{Deserialize, Serialize};

/// Version of the protocol between two ends.
const VERSION: u32 = 1;
/// The work that both ends may leave undone, because memory spoils no bits.
pub(super) const FEATURES: Features = Features::TX_CHECKSUM
    .with(Features::TSO4)
    .with(Features::TSO6)
    .with(Features::RX_CHECKSUM)
    .with(Features::GRO);
/// What leaves an end without offloads.
const OFF: &str = "by --offload off, or by --fault without super_segments=on";

/// The greeting of each end. The listening end's comes with the region.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Hello {
    wire: u32,
    mtu: u16,
    features: u64,
}

impl Hello {
    pub(super) fn new(mtu: u16, features: Features) -> Self {
        Self { wire: VERSION, mtu, features: features.encode() }
    }

    /// Why an end with another greeting is refused: which end has what, and what to do at which of
    /// them. `None`: both have the same.
    pub(super) fn refusal(self, other: Self) -> Option<String> {
        if self.wire != other.wire {
            return Some(format!(
                "it speaks version {} of the protocol, and this end version {}: run the same \
                 version of tasuki at both ends",
                other.wire, self.wire
            ));
        }
        if self.mtu != other.mtu {
            return Some(format!(
                "it has MTU {}, and this end MTU {}: give both ends the same `mtu` in [nic]",
                other.mtu, self.mtu
            ));
        }
        if self.features == other.features {
            return None;
        }
        let (none, all) = (Features::NONE.encode(), FEATURES.encode());
        Some(match (self.features, other.features) {
            (own, theirs) if own == none && theirs == all => format!(
                "it has offloads, and this end has them off ({OFF}): give the other end --offload \
                 off, too, or leave that option out at this end"
            ),
            (own, theirs) if own == all && theirs == none => format!(
                "it has offloads off ({OFF}), and this end has them on: give this end --offload \
                 off, too, or leave that option out at the other end"
            ),
            (_, theirs) => format!("it has offloads that no end of a wire has ({theirs:#x})"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_which_end_has_what_and_what_to_do() {
        let (on, off) = (Hello::new(1500, FEATURES), Hello::new(1500, Features::NONE));
        assert_eq!(on.refusal(on), None);
        let said = on.refusal(off).unwrap();
        assert!(said.contains("it has offloads off"), "{said}");
        assert!(said.contains("--fault without super_segments=on"), "{said}");
        assert!(said.contains("give this end --offload off, too"), "{said}");
        let said = off.refusal(on).unwrap();
        assert!(said.contains("give the other end --offload off, too"), "{said}");
        let said = on.refusal(Hello::new(4000, FEATURES)).unwrap();
        assert!(said.contains("it has MTU 4000, and this end MTU 1500"), "{said}");
        let said = on.refusal(Hello { wire: 2, ..on }).unwrap();
        assert!(said.contains("run the same version of tasuki at both ends"), "{said}");
        let said = on.refusal(Hello { features: 1, ..on }).unwrap();
        assert!(said.contains("no end of a wire has (0x1)"), "{said}");
    }
}
