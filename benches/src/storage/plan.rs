//! What `storage` can measure: transports, paths, back ends, requests.

use serde::{Deserialize, Serialize};

/// How a target is reached. A new one is a line of [`TRANSPORTS`].
#[derive(Debug)]
pub(super) struct Transport {
    /// As `--transport` has it.
    pub(super) name: &'static str,
    /// Options of `tasuki target up`.
    pub(super) target: &'static [&'static str],
    /// Scheme of the unit's URL.
    pub(super) scheme: &'static str,
    /// Options of `tasuki disk bench`.
    pub(super) initiator: &'static [&'static str],
    /// How the instances protect packets, if they do.
    pub(super) esp: Option<&'static EspAlgorithms>,
}

/// Algorithms of ESP, as `tasuki xfrm` has them.
#[derive(Debug)]
pub(super) struct EspAlgorithms {
    /// Each with the bytes of its key, and with the words behind the key.
    pub(super) words: &'static [(&'static str, usize, &'static str)],
    /// They protect too little today.
    pub(super) insecure: bool,
}

const AES_256_GCM: EspAlgorithms =
    EspAlgorithms { words: &[("aead rfc4106(gcm(aes))", 36, "128")], insecure: false };
const TRIPLE_DES: EspAlgorithms = EspAlgorithms {
    words: &[("enc cbc(des3_ede)", 24, ""), ("auth hmac(sha1)", 20, "")],
    insecure: true,
};

/// All that there may be. One that the build does not know is skipped, with a sentence.
pub(super) const TRANSPORTS: [Transport; 5] = [
    transport("plain", &["--plain"], "iscsi", None),
    transport("tls", &["--tls"], "iscsi+tls", None),
    transport("sealed", &[], "iscsi+sealed", None),
    transport("esp", &["--plain"], "iscsi", Some(&AES_256_GCM)),
    transport("esp-3des", &["--plain"], "iscsi", Some(&TRIPLE_DES)),
];

const fn transport(
    name: &'static str,
    target: &'static [&'static str],
    scheme: &'static str,
    esp: Option<&'static EspAlgorithms>,
) -> Transport {
    Transport { name, target, scheme, initiator: &[], esp }
}

/// What lies between the two instances.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum StoragePath {
    /// `wire:`.
    Wire,
    /// `wire:` with 0.1 ms in each direction.
    #[value(name = "wire-0.1ms")]
    #[serde(rename = "wire-0.1ms")]
    WireTenth,
    /// `wire:` with 1 ms in each direction.
    #[value(name = "wire-1ms")]
    #[serde(rename = "wire-1ms")]
    WireOne,
    /// `wire:` with 10 ms in each direction.
    #[value(name = "wire-10ms")]
    #[serde(rename = "wire-10ms")]
    WireTen,
    /// Two TAP devices on a bridge, with offloads.
    Tap,
    /// The same without offloads, MTU 1500.
    TapOff,
}

impl StoragePath {
    /// Microseconds for which a frame is on its way.
    pub(super) fn delay_us(self) -> Option<u32> {
        match self {
            Self::WireTenth => Some(100),
            Self::WireOne => Some(1000),
            Self::WireTen => Some(10_000),
            Self::Wire | Self::Tap | Self::TapOff => None,
        }
    }

    pub(super) fn is_tap(self) -> bool {
        matches!(self, Self::Tap | Self::TapOff)
    }

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Wire => "wire:",
            Self::WireTenth => "wire: with 0.1 ms each way",
            Self::WireOne => "wire: with 1 ms each way",
            Self::WireTen => "wire: with 10 ms each way",
            Self::Tap => "two TAP devices on a bridge, offloads on",
            Self::TapOff => "two TAP devices on a bridge, offloads off",
        }
    }

    /// The same in a table. Delays are those of each direction.
    pub(super) fn short(self) -> &'static str {
        match self {
            Self::Wire => "wire",
            Self::WireTenth => "wire, 0.1 ms",
            Self::WireOne => "wire, 1 ms",
            Self::WireTen => "wire, 10 ms",
            Self::Tap => "TAP, on",
            Self::TapOff => "TAP, off",
        }
    }
}

/// What lies between the two instances, to the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StorageLink {
    pub(super) path: StoragePath,
    /// Microseconds for which a frame is on its way, if that is not the path's.
    delay_us: Option<u32>,
    /// Each frame is a packet, as on a wire of Ethernet.
    pub(super) in_packets: bool,
}

impl From<StoragePath> for StorageLink {
    fn from(path: StoragePath) -> Self {
        Self { path, delay_us: path.delay_us(), in_packets: false }
    }
}

impl StorageLink {
    /// A wire with any delay.
    pub(super) fn delayed(delay_us: u32) -> Self {
        let delay_us = (delay_us > 0).then_some(delay_us);
        Self { delay_us, ..StoragePath::Wire.into() }
    }

    /// The same, packet by packet.
    pub(super) fn packets(delay_us: u32) -> Self {
        Self { in_packets: true, ..Self::delayed(delay_us) }
    }

    /// As `--fault` takes it.
    pub(super) fn faults(self) -> Option<String> {
        self.delay_us.map(|delay| format!("delay_us={delay},super_segments=on"))
    }
}

/// Where the bytes are.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum BackEnd {
    /// Nowhere.
    Null,
    /// In the target's memory.
    Memory,
    /// In a file of the temporary folder's file system.
    File,
}

impl BackEnd {
    pub(super) const ALL: [Self; 3] = [Self::Null, Self::Memory, Self::File];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Memory => "memory",
            Self::File => "file",
        }
    }

    /// The number of its unit.
    pub(super) fn lun(self) -> u16 {
        self as u16
    }
}

/// Requests of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Requests {
    /// As `--rw` has it.
    pub(super) access: Access,
    /// Bytes of each.
    pub(super) bytes: u32,
    /// How many are open at a time.
    pub(super) depth: u16,
}

/// As `--rw` has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Access {
    Read,
    Write,
    RandRead,
    RandWrite,
}

impl Access {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::RandRead => "randread",
            Self::RandWrite => "randwrite",
        }
    }
}

/// Requests that are open at a time where they are one behind the other.
const SEQUENTIAL_DEPTH: u16 = 8;

impl Requests {
    /// As `read 64K, depth 8`.
    pub(super) fn title(self) -> String {
        format!("{}, depth {}", self.brief(), self.depth)
    }

    /// As `read 64K`.
    pub(super) fn brief(self) -> String {
        format!("{} {}", self.access.word(), size(self.bytes))
    }

    /// All, or those of `--quick`.
    pub(super) fn all(quick: bool) -> Vec<Self> {
        let sizes: &[u32] = if quick { &[64, 1024] } else { &[4, 16, 64, 256, 1024, 4096] };
        let one = |access, kib: u32, depth| Self { access, bytes: kib << 10, depth };
        let mut all = Vec::new();
        for access in [Access::Read, Access::Write] {
            all.extend(sizes.iter().map(|kib| one(access, *kib, SEQUENTIAL_DEPTH)));
        }
        let random = [(Access::RandRead, 1), (Access::RandRead, 32)];
        let more = [(Access::RandWrite, 1), (Access::RandWrite, 32)];
        let more = if quick { &[][..] } else { &more };
        all.extend(random.iter().chain(more).map(|(access, depth)| one(*access, 4, *depth)));
        all
    }
}

/// A size in words.
pub(super) fn size(bytes: u32) -> String {
    if bytes.is_multiple_of(1 << 20) {
        format!("{}M", bytes >> 20)
    } else {
        format!("{}K", bytes >> 10)
    }
}
