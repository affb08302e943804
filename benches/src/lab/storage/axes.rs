//! What is measured of a disk: reads by the size of a block, writes by it, reads by the delay.

use lab::Axis;
use lab::plan::{LabOptions, Places, StorageCipher};

use crate::lab::experiment::{bytes_axis, linear_axis};
use crate::storage::Access;

const SIZES: [u32; 6] = [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20];
const QUICK_SIZES: [u32; 2] = [64 << 10, 1 << 20];
/// Milliseconds each way.
const DELAYS: [u32; 4] = [0, 1, 5, 10];
const QUICK_DELAYS: [u32; 2] = [0, 1];
/// The block where the delay is the axis.
const SIZE: u32 = 64 << 10;

/// One measurement's requests and its wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DiskSetting {
    pub(super) write: bool,
    /// Bytes of a block.
    pub(super) size: u32,
    /// Milliseconds each way.
    pub(super) delay: u32,
}

/// One axis, of reads or of writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DiskAxis {
    pub(super) by_delay: bool,
    pub(super) points: Vec<DiskSetting>,
}

impl DiskSetting {
    pub(super) fn access(self) -> Access {
        if self.write { Access::Write } else { Access::Read }
    }
}

impl DiskAxis {
    pub(super) fn is_write(&self) -> bool {
        self.points.first().is_some_and(|it| it.write)
    }

    /// Before the name of a figure, and behind it.
    pub(super) fn name(&self, figure: &str) -> String {
        let before = if self.is_write() && figure != "write" { "write-" } else { "" };
        let behind = if self.by_delay { "-by-delay" } else { "" };
        format!("{before}{figure}{behind}")
    }

    pub(super) fn place(&self, setting: DiskSetting) -> f64 {
        f64::from(if self.by_delay { setting.delay } else { setting.size })
    }

    pub(super) fn axis(&self) -> Axis {
        match self.by_delay {
            true => linear_axis("delay, each way", "ms"),
            false => bytes_axis("bytes of a block"),
        }
    }

    /// What is the same at all points.
    pub(super) fn title(&self) -> String {
        let Some(first) = self.points.first() else { return String::new() };
        match (self.by_delay, first.delay) {
            (true, _) => {
                format!(", blocks of {}", lab::report::place(f64::from(first.size), "B"))
            }
            (false, 0) => String::new(),
            (false, delay) => format!(", {delay} ms each way"),
        }
    }

    /// The words behind `tasuki lab` that measure it again.
    pub(super) fn words(&self, cipher: StorageCipher) -> String {
        let list = |of: fn(&DiskSetting) -> u32| {
            let mut all: Vec<String> = self.points.iter().map(|it| of(it).to_string()).collect();
            all.dedup();
            all.join(",")
        };
        let cipher = if cipher == StorageCipher::TripleDes { " --cipher 3des" } else { "" };
        format!("storage --size {} --delay {}{cipher}", list(|it| it.size), list(|it| it.delay))
    }
}

/// What the options ask for. Whole blocks above TCP with triple DES are only read.
pub(super) fn axes(options: &LabOptions) -> Vec<DiskAxis> {
    let given = |places: &Option<Places>| places.as_ref().map(|it| it.all().to_vec());
    let (sizes, delays) = (given(&options.size), given(&options.delay));
    let is_usual = sizes.is_none() && delays.is_none();
    let first_delay = delays.as_ref().and_then(|all| all.first().copied()).unwrap_or(0);
    let usual = if options.quick { &QUICK_SIZES[..] } else { &SIZES };
    let mut all = Vec::new();
    // A single delay is that of all sizes; several are an axis, at one size.
    let by_size = delays.as_ref().is_none_or(|all| all.len() == 1)
        || sizes.as_ref().is_some_and(|all| all.len() > 1);
    if by_size {
        let sizes = sizes.clone().unwrap_or_else(|| usual.to_vec());
        let writes = [false, true].into_iter().filter(|write| !write || writes(options));
        for write in writes {
            let of = |size: &u32| DiskSetting { write, size: *size, delay: first_delay };
            all.push(DiskAxis { by_delay: false, points: sizes.iter().map(of).collect() });
        }
    }
    let usual = if options.quick { &QUICK_DELAYS[..] } else { &DELAYS };
    let delays = delays.unwrap_or_else(|| if is_usual { usual.to_vec() } else { Vec::new() });
    if delays.len() > 1 {
        let size = sizes.and_then(|all| all.first().copied()).unwrap_or(SIZE);
        let of = |delay: &u32| DiskSetting { write: false, size, delay: *delay };
        all.push(DiskAxis { by_delay: true, points: delays.iter().map(of).collect() });
    }
    all
}

fn writes(options: &LabOptions) -> bool {
    options.cipher.unwrap_or_default() == StorageCipher::Aes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::options_of;

    fn of(words: &str) -> Vec<DiskAxis> {
        axes(&options_of(words))
    }

    #[test]
    fn sizes_and_delays_are_axes() {
        let shape = |words| -> Vec<(bool, bool, usize)> {
            let of = |it: &DiskAxis| (it.is_write(), it.by_delay, it.points.len());
            of_all(words).iter().map(of).collect()
        };
        fn of_all(words: &str) -> Vec<DiskAxis> {
            of(words)
        }
        assert_eq!(shape("storage"), [(false, false, 6), (true, false, 6), (false, true, 4)]);
        assert_eq!(shape("storage --delay 0..10 --size 65536"), [(false, true, 6)]);
        assert_eq!(shape("storage --delay 1"), [(false, false, 6), (true, false, 6)]);
        assert_eq!(shape("storage --size 65536"), [(false, false, 1), (true, false, 1)]);
        assert_eq!(shape("storage --cipher 3des"), [(false, false, 6), (false, true, 4)]);
        let [read, ..] = &of("storage --delay 1")[..] else { panic!() };
        assert!(read.points.iter().all(|it| it.delay == 1));
    }

    #[test]
    fn an_axis_is_repeated_by_its_words() {
        for words in ["storage", "storage --cipher 3des", "storage --delay 2 --size 4096,65536"] {
            for axis in of(words) {
                let cipher = match words.contains("3des") {
                    true => StorageCipher::TripleDes,
                    false => StorageCipher::Aes,
                };
                let again = of(&axis.words(cipher));
                assert!(again.contains(&axis), "{}: {again:?}", axis.words(cipher));
            }
        }
    }
}
